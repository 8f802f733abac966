package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/sandbox/launcher"
)

// landlock confines by rules on files that the launcher puts on itself. It
// needs no right and no namespace, so it works in most containers.
type landlock struct{}

func (landlock) name() string { return "landlock" }

// ownProgram is the file of the program that runs, even when somebody has put
// another one in its place.
const ownProgram = "/proc/self/exe"

// devices may be used in every mode. All of /dev/pts is among them, since the
// terminals that a program makes (script, tmux) appear there later.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

func (l landlock) wrap(p plan, spec backend.Spec) (backend.Spec, error) {
	if abi := launcher.ABI(); abi < launcher.LeastABI {
		return spec, errOldLandlock{abi}
	}
	task := launcher.Task{
		Landlock:       &launcher.Landlock{Write: append(slices.Clone(p.writable), p.temp), Devices: devices, Hidden: p.hidden},
		Channel:        spec.Channel != nil,
		NoNetwork:      !p.network && launcher.CanDenySockets(),
		DropPrivileges: isRoot(),
	}
	spec.Env, task.Env = withoutLoader(spec.Env)
	program, args := spec.Path, spec.Args
	spec.Path = ownProgram
	spec.Args = func(ref backend.ChannelRef) []string { return task.Argv(program, arguments(args, ref)) }
	return spec, nil
}

type errOldLandlock struct{ abi int }

func (e errOldLandlock) Error() string {
	if e.abi == 0 {
		return "the kernel has no Landlock, or it is not enabled"
	}
	return fmt.Sprintf("the kernel has version %d of Landlock, and %d is needed", e.abi, launcher.LeastABI)
}

func (landlock) remedy(err error) string {
	if _, old := err.(errOldLandlock); !old {
		return "see what " + ownProgram + " reports"
	}
	if list := readSetting("/sys/kernel/security/lsm"); list != "" && !strings.Contains(list, "landlock") {
		return "Linux 6.2 or newer with landlock in the kernel's lsm= option, which has " + list
	}
	return "Linux 6.2 or newer with CONFIG_SECURITY_LANDLOCK, in a container whose seccomp profile allows landlock_restrict_self"
}

func (landlock) describe(opts Options) Description {
	d := Description{Provider: "landlock",
		Confines: []string{
			"files: content and names change only in the folders that the mode opens; denied folders cannot be read, though their names are seen",
			"processes outside cannot be debugged, nor their memory and files be reached through /proc",
		},
		Gaps: []string{
			"attributes of files outside (mode, owner, times, extended attributes) can be changed by who owns them",
			"protected files in the workspace can be written",
			"other terminals, System V shared memory and message queues of the same user can be read and written",
			"processes outside can be seen",
		},
	}
	split := func(kept bool, text string) {
		if kept {
			d.Confines = append(d.Confines, text+" stay inside")
		} else {
			d.Gaps = append(d.Gaps, text+" reach programs outside: the kernel is too old to stop them")
		}
	}
	split(launcher.Scopes(), "signals and abstract sockets")
	split(launcher.Sockets(), "connections to sockets in files (docker.sock)")
	switch {
	case opts.Network:
		d.Gaps = append(d.Gaps, "the network is open")
	case launcher.CanDenySockets():
		d.Confines = append(d.Confines, "no network, not even a loopback")
	default:
		d.Gaps = append(d.Gaps, "the network is open: there is no filter for this machine's processor")
	}
	return d
}
