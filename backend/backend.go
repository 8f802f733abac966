// Package backend holds the contract between the terminal engine and an
// operating system: a [Driver] starts terminals, a [Device] is one live
// terminal with the tree of processes behind it. The package holds types only;
// backend/posix and backend/conpty implement them, terminals/engine uses them.
//
// Nothing here knows a shell's language. What a shell needs of its terminal
// (a private command channel, initial modes, separate descriptors) is asked
// for in [Spec], by any shell.
package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrUnsupported is matched by errors.Is when a platform lacks an ability.
// Callers treat it as "unknown", never as "no".
var ErrUnsupported = errors.New("backend: not supported on this platform")

// Driver starts terminals on one operating system.
type Driver interface {
	// Start starts spec's program on a new terminal. ctx bounds the start
	// alone: once Start has returned, the device lives until Terminate. When
	// Start fails nothing is left behind.
	Start(ctx context.Context, spec Spec) (Device, error)

	// TempDir is where the private folders of sessions are made: a place in
	// memory where the system has one, since each command's text lies there for
	// a moment. Empty: the system's folder for temporary files.
	TempDir() string

	// Capabilities says what this driver can prove on this machine. It is
	// computed once and does no I/O afterwards.
	Capabilities() Capabilities
}

// Spec describes one program on one terminal.
type Spec struct {
	// Path is the program's file: absolute, or a name looked up in the PATH of
	// Env.
	Path string

	// Args returns the program's arguments without the program's name. It gets
	// the channel's address as the program will see it; the zero ChannelRef
	// when Channel is nil.
	Args func(ChannelRef) []string

	// Env is the complete environment, KEY=VALUE. The driver adds nothing but
	// the mark by which it finds stray children again, and on Windows the
	// variables that the system itself needs.
	Env []string

	// Dir is the working directory. It must exist.
	Dir string

	Rows, Cols int

	// Modes are set on the terminal before the program starts.
	Modes Modes

	// SeparateDescriptors opens the terminal once for each of the program's
	// standard descriptors, so that a flag that a child sets on one does not
	// reach the others.
	SeparateDescriptors bool

	// InterruptLead is how long before the other programs of its process group the
	// program gets an interrupt. Zero: at once with them.
	InterruptLead time.Duration

	// Channel, when not nil, gives the program one end of a private pipe.
	Channel *Channel

	// OutputPipe makes one private pipe the program's standard output and error
	// where the driver's terminal shows text rewritten (Capabilities.Rewrites);
	// Read then returns what comes by the pipe. Standard input stays the terminal.
	// Drivers whose terminal passes bytes on as they are ignore it.
	OutputPipe bool

	// Remove lists folders that are removed with everything in them when the
	// host process dies without closing the terminal.
	Remove []string

	// Launched says that Path is a launcher whose descendant becomes the program
	// that this terminal is about. That descendant makes the terminal on its
	// descriptor 0 the controlling terminal of a session of its own, so the
	// driver gives the launcher none, and takes the leader of the terminal's
	// session for the started program. The launcher gets the descriptor
	// LaunchStatus: it is closed when the program has been started, and what was
	// written to it before is why that failed.
	Launched bool
}

// LaunchStatus is the number of the descriptor of Spec.Launched, behind that of
// the channel.
const LaunchStatus = 4

// Channel is a pipe from the host to the program that no terminal is involved
// in.
type Channel struct {
	// Bootstrap returns the bytes that the program finds on the channel first.
	// Where later writes come by another handle than these, it gets that one's
	// address, and Spec.Args that of the first.
	// They may be larger than the pipe's buffer; the driver writes them while
	// the program reads, bounded by Start's context.
	Bootstrap func(ChannelRef) []byte

	// Keep leaves the host's end open after the bootstrap: later writes go
	// through Device.Channel. Otherwise the program reads end-of-file after it.
	Keep bool
}

// ChannelRef is the address of the program's end of its channel.
type ChannelRef struct {
	Path   string  // a path that opens it, for instance /dev/fd/3; empty on Windows
	Number uintptr // the inherited descriptor or handle
}

// Modes are the terminal modes that the engine cares about, in POSIX terms.
type Modes struct {
	Canonical  bool // input comes by lines (ICANON)
	Echo       bool // the terminal echoes input (ECHO)
	Signals    bool // control characters raise signals (ISIG)
	OutputProc bool // the terminal rewrites output, \n to \r\n (OPOST)
	InputCR    bool // \r in input becomes \n (ICRNL)
	FlowCtl    bool // ^S stops output (IXON)
	NoFlush    bool // a signal leaves the queues alone (NOFLSH)

	// Other says that something else is not as it was when the terminal was
	// opened: another flag, a control character, a speed. Setting it leaves all
	// that alone; otherwise it is put back.
	Other bool
}

// Foreground tells who owns the terminal.
type Foreground struct {
	PGID  int  // its process group; on systems without groups the shell's pid
	Shell bool // the group is the started program's own
}

// WaitState is what a probe saw a process do.
type WaitState int

// The states of a probed process.
const (
	WaitUnknown WaitState = iota // it could not be seen; never a guess
	WaitBusy                     // seen, and it is not blocked reading what was asked about
	WaitReading                  // provably blocked reading
	WaitStopped                  // stopped by job control or SIGSTOP
)

// Wait is the evidence that one probe found.
type Wait struct {
	State   WaitState
	PID     int    // the process that waits, 0 when none was found
	Program string // its short name
	Timed   bool   // the read carries a time limit of its own; of an event loop, one of at most a second
	Channel bool   // it reads its private channel, not the terminal
	Site    Site   // where in the program it waits
	Turns   uint64 // grows whenever the waiting thread ran; 0 when unknown
	Prompt  string // what the terminal shows before the cursor, where Read does not return that
}

// Site identifies the place in a program where it waits: a system call with
// the arguments that name descriptor and buffer. Two waits of one process at
// one site are the same line of its code. It has no other meaning.
type Site [4]uint64

// ExitStatus is how the started program ended.
type ExitStatus struct {
	Code   *int   // nil when it was killed by a signal or is unknown
	Signal string // "SIGKILL" and so on; empty when it exited by itself
}

// Device is one live terminal with its process tree. All methods may be called
// from any goroutine; Read from one at a time.
type Device interface {
	// Read returns what the terminal's programs wrote. After the program has
	// exited it drains what is left, bounded even while background processes
	// go on writing, then returns io.EOF. It returns io.EOF too once Terminate
	// has ended.
	Read(p []byte) (int, error)

	// Write types p. It returns how many bytes the terminal accepted; when a
	// full input queue or ctx ended it early the error wraps ctx's cause. It
	// never blocks past ctx.
	Write(ctx context.Context, p []byte) (int, error)

	// Channel is the host's end of the private channel, nil when there is none.
	// Writes to it are bounded by SetWriteDeadline where the channel has one.
	Channel() io.WriteCloser

	// Resize sets the window size.
	Resize(cols, rows int) error

	// PID is the started program's process id.
	PID() int

	// Exited is closed once the started program has ended, before its last
	// output was read. ExitStatus is valid from then on.
	Exited() <-chan struct{}
	ExitStatus() ExitStatus

	// Foreground tells which process group owns the terminal.
	Foreground() (Foreground, error)

	// ShellWait tells what the started program itself is blocked in, by the
	// cheapest probe there is (a few microseconds). Threads and children are
	// looked at only where the program's first thread is not the one that
	// reads. It returns an error that matches ErrUnsupported where the platform
	// cannot prove a blocked read.
	ShellWait() (Wait, error)

	// InputWait looks for any process, other than the started program at rest
	// in its own prompt, that is provably blocked reading this terminal: the
	// foreground group and the descendants of its members. The started program
	// itself counts when it is the foreground.
	InputWait() (Wait, error)

	Modes() (Modes, error)
	SetModes(Modes) error

	// FlushInput drops typed input that no program has read yet.
	FlushInput() error

	// PendingInput is the number of typed bytes that no program has read yet.
	PendingInput() (int, error)

	// PendingOutput is the number of bytes that Read would return at once. What
	// Read has returned counts as well, from before it leaves the terminal until
	// Consumed or the next Read: 0 means that all output up to now was processed.
	// While a Read takes bytes they may count twice.
	PendingOutput() (int, error)
	// Consumed says that what Read returned has been processed.
	Consumed()

	// Signal delivers a signal by its name ("SIGINT") to the foreground process
	// group and reports the group. A foreground that cannot be resolved is an error.
	// SIGKILL is refused while the program itself is the foreground.
	Signal(ctx context.Context, name string) (pgid int, err error)

	// Interrupt delivers SIGINT to the foreground process group, in every
	// terminal mode, and reports the group. programToo has the started program
	// get it as well, before the group, when it is not in the foreground.
	Interrupt(ctx context.Context, programToo bool) (pgid int, err error)

	// Cwd is the started program's working directory, where the system tells.
	Cwd() (string, error)

	// Terminate ends the whole tree and returns when nothing of it is left.
	// grace bounds each of its steps; a co-operative tree ends at once. What is
	// left after the last step is reported as *SurvivorsError, and a later
	// Terminate tries again. After a success further calls return nil.
	Terminate(ctx context.Context, grace time.Duration) error
}

// MissedInterrupter is implemented by a Device that can see that an interrupt was
// missed. A program that is just being started may miss one, and a shell that one
// meets between starting a job and giving it the terminal can leave the job
// behind: later interrupts go to the shell alone, which waits on.
type MissedInterrupter interface {
	// InterruptMissed delivers SIGINT once more, to those alone who missed an
	// earlier Interrupt, and reports whether there were any: the foreground group
	// when its leader is just starting or would have died of the interrupt; the
	// group of the started program's youngest child when the program is the
	// foreground itself and blocked waiting. The caller leaves time after an
	// Interrupt for it to take effect.
	InterruptMissed(ctx context.Context) (bool, error)
}

// WaitProber is implemented by a Device whose InputWait takes a moment: that
// starts to look and tells what was seen last.
type WaitProber interface {
	// ProbeInputWait is InputWait for a caller who waits for the answer.
	ProbeInputWait() (Wait, error)
}

// ProgramSignaler is implemented by a Device that can signal a program apart from
// the started program where both share a process group.
type ProgramSignaler interface {
	// SignalProgram is Signal for everybody but the started program. Where that is
	// the foreground, the program that is blocked reading the terminal gets the
	// signal, and the programs between the two; without one it is an error.
	SignalProgram(ctx context.Context, name string) (pgid int, err error)
}

// Process names a process for people.
type Process struct {
	PID     int
	Program string
}

// SurvivorsError reports processes that outlived a teardown.
type SurvivorsError struct{ Processes []Process }

func (e *SurvivorsError) Error() string {
	names := make([]string, len(e.Processes))
	for i, p := range e.Processes {
		names[i] = fmt.Sprintf("%d (%s)", p.PID, p.Program)
	}
	return "backend: processes survived the teardown: " + strings.Join(names, ", ")
}

// Capabilities is what one driver can do on this machine, for the capability
// table of docs/ and doctor.
type Capabilities struct {
	Driver          string // "posix"
	System          string // GOOS/GOARCH
	ForegroundGroup bool   // process groups exist and can be asked for
	ExactRead       bool   // a blocked read can be proved
	ExactReadWhy    string // why not, when it cannot
	Modes           bool   // terminal modes can be read and set
	Rewrites        bool   // the terminal's output is a picture of what was written, see Spec.OutputPipe
	MaxLine         int    // bytes of a line, without its end, that a canonical terminal takes; it drops the rest. 0: no limit
	WholeTree       bool   // children that left the session are found again
	WholeTreeWhy    string // what escapes, when something does
	HostDeath       bool   // nothing survives a killed host
	Signals         []string
}
