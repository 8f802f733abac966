// Package launcher is the last step before a confined shell: a start of the
// host's own program that gives rights up, for ever, and then becomes the shell
// by exec, so that the shell keeps the launcher's process id. It exists because
// a process can confine only itself.
//
// A program that imports this package needs no code in its main function: the
// package looks at the command line while it is initialized, and when [Argv]
// made it, neither main nor the initialization of packages that import this one
// runs. Importing it has no other effect. The launcher hands out no right that
// its caller lacks, so nobody gains anything by calling it.
package launcher

import (
	"encoding/json"
	"slices"
)

// sentinel is the first argument of every start as a launcher.
const sentinel = "shellstead-sandbox-launcher"

// Failed is the launcher's exit code when it refuses to start the program.
const Failed = 125

// Task says what the launcher does before it becomes the program. What cannot
// be done is an error, and the program does not start.
type Task struct {
	// Session makes the launcher the leader of a session of its own whose
	// controlling terminal is descriptor 0.
	Session bool `json:",omitempty"`

	// Channel leaves descriptor 3 to the program. It gets no other than that and
	// the standard ones: a folder that was open outside would be a way out.
	Channel bool `json:",omitempty"`

	// Status is a descriptor that gets the error when the launcher fails; it is
	// closed by the exec otherwise. 0: errors go to standard error.
	Status int `json:",omitempty"`

	// Outside are namespaces that the launcher must have left, by their names
	// in /proc/self/ns, with the host's links.
	Outside map[string]string `json:",omitempty"`

	// ReadOnlyRoot asks for a root folder that nothing can be written to.
	ReadOnlyRoot bool `json:",omitempty"`

	// Landlock, when not nil, is the confinement that the launcher adds.
	Landlock *Landlock `json:",omitempty"`

	// NoNetwork refuses sockets of every family but unix and netlink, and the
	// terminal request that types into a terminal.
	NoNetwork bool `json:",omitempty"`

	// Env are variables that only the program gets: the loader of the launcher
	// and of what starts it must not read them.
	Env []string `json:",omitempty"`

	// DropPrivileges gives up the privileges of root, but for those over files
	// and users that the confinement stands above.
	DropPrivileges bool `json:",omitempty"`
}

// Landlock is a set of rules over absolute paths without symbolic links.
type Landlock struct {
	Write   []string `json:",omitempty"` // folders and files that may be changed
	Devices []string `json:",omitempty"` // read, write and terminal requests, no new files
	Hidden  []string `json:",omitempty"` // what may not be read; everything else may
}

// Argv returns the arguments of a start of this program that carries t out and
// becomes program with args. The program's name comes before them.
func (t Task) Argv(program string, args []string) []string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // a Task holds nothing that JSON cannot
	}
	return slices.Concat([]string{sentinel, string(text), program}, args)
}
