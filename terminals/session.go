package terminals

import (
	"context"
	"time"
)

// Mode is what a session is opened for. Its opener chooses it.
type Mode int

const (
	// Interactive is a terminal that a person could use: echo, line editing, a
	// visible prompt.
	Interactive Mode = iota
	// Command is a shell that is given whole programs: no echo, no output
	// processing, no line editing.
	Command
)

// Backend makes sessions of one type.
type Backend interface {
	// Open starts a session and returns when it is ready for input. When ctx
	// ends first, Open rolls back what it started and returns the context's
	// cause; when the roll-back itself fails the error also matches
	// [CleanupFailed] and carries both. ctx ends when Open has returned; the
	// session lives on.
	Open(ctx context.Context, setup Setup) (Session, error)
}

// Setup is what the service hands to a backend.
type Setup struct {
	Owner *Owner // whom the session belongs to
	ID    string
	Name  string
	Cwd   string // empty: the process's own directory
	Mode  Mode
	Env   []string // the managed snapshot, KEY=VALUE; it wins over everything else
}

// Session is one live terminal. Its methods may be called from any goroutine.
type Session interface {
	// PID is the top process, 0 when the backend has none.
	PID() int

	// Status is the state of the top process. An exited session stays readable
	// until it is closed.
	Status() Status

	// Startup is the text printed before the session became ready.
	Startup() string

	// StartSend reserves the session and types req. It fails with [SendActive]
	// while another send or command runs, with [SessionExited] and
	// [SessionClosing], and with [InvalidArgument] for a line that is longer than
	// the terminal takes; nothing was typed then. The returned send is already
	// reserved. Cancelling ctx after the return interrupts the foreground program.
	//
	// A session in [Command] mode takes a send only while its command's program
	// waits for input, after a [CommandRun] has reported that. The send answers
	// that program; the command stays active. Otherwise it fails with
	// [Unsupported], or with [SendActive] while the command does not wait.
	StartSend(ctx context.Context, req SendRequest) (Send, error)

	// Read returns a page of the scrollback.
	Read(offset, count int) (Page, error)

	// Signal delivers sig to the foreground process group and returns the group. In
	// [Command] mode nothing but SIGINT and SIGTSTP reaches the shell itself.
	Signal(ctx context.Context, sig Signal) (pgid int, err error)

	// Close ends the process tree and returns when it is quiet. Processes that
	// survive are reported by pid in an error that matches [CleanupFailed]; a
	// later Close tries again.
	Close(ctx context.Context, reason string) error

	// Exited is closed once the top process has ended and its output is
	// drained.
	Exited() <-chan struct{}
}

// Status is the state of a session's top process.
type Status struct {
	Exited   bool
	ExitCode *int   // nil while running and when unknown
	Signal   string // "SIGKILL" when a signal ended it
}

// Signal is a signal's name.
type Signal string

// The signals that a session knows.
const (
	SIGINT  Signal = "SIGINT"
	SIGTERM Signal = "SIGTERM"
	SIGKILL Signal = "SIGKILL"
	SIGTSTP Signal = "SIGTSTP"
	SIGHUP  Signal = "SIGHUP"
)

// WaitReason says why a send ended.
type WaitReason string

// The reasons.
const (
	StdinRead    WaitReason = "stdin_read"    // proved: a prompt, or a program blocked reading this terminal
	InferredIdle WaitReason = "inferred_idle" // a guess from silence
	Timeout      WaitReason = "timeout"       // none of the others came in time, or before the send was given up
	SessionExit  WaitReason = "session_exit"  // the top process ended
)

// SendRequest is one input.
type SendRequest struct {
	// Text is typed byte for byte, control characters included: NUL is what
	// Ctrl-Space types, 0x03 is Ctrl-C. Only a text of several lines, or with tabs
	// inside, that is submitted to a program which asked for bracketed paste is
	// given to it as one paste.
	Text   string
	Submit bool // type the platform's Enter after the text

	// ForCommand is of an answer that the caller of the command itself gives: what
	// is printed meanwhile stays the command's output, and its end is reported by
	// the [CommandRun].
	ForCommand bool
}

// Send is one active send. It ends once.
type Send interface {
	// Done is closed when the send has ended.
	Done() <-chan struct{}
	// Result is valid after Done. The error is the caller's cause after a
	// cancellation, or a failure of the terminal; one of a write that ended early
	// says how much of the text the terminal took.
	Result() (SendResult, error)
	// Output returns the text that was printed since the last call, at first
	// since the write, and whether its beginning was dropped: it is bounded as a
	// viewport is. It may be called at any time; what came after the end of the
	// send is not part of it.
	Output() (text string, truncated bool)
	// Cancel interrupts the foreground program; the send ends when it is seen
	// to stop or at its deadline. It returns false when the send had ended.
	Cancel(cause error) bool
}

// SendResult is what a send reports.
type SendResult struct {
	Viewport   string
	WaitReason WaitReason
	Status     Status
	Truncated  bool
	FullScreen bool // the alternate screen is in use
	NeedsInput *NeedsInput

	// Command is what the command came to that this send answered, when it
	// completed during the send and nobody has reported that yet. It is reported
	// here or by the [CommandRun], never by both.
	Command *CommandResult
}

// InputKind is what a waiting program expects.
type InputKind string

// The kinds.
const (
	LineInput         InputKind = "line"
	SecretInput       InputKind = "secret"       // echo is off
	KeyInput          InputKind = "key"          // not line by line
	ContinuationInput InputKind = "continuation" // the shell's own continuation prompt
)

// NeedsInput describes a program that is provably waiting for input.
type NeedsInput struct {
	Kind    InputKind `json:"kind"`
	Prompt  string    `json:"prompt"` // the last partial line
	Program string    `json:"program"`
	PID     int       `json:"pid"`
}

// Page is a part of the scrollback in chronological order. Lines are counted
// from the newest.
type Page struct {
	Text       string `json:"text"`
	TotalLines int    `json:"totalLines"`
	LineBegin  int    `json:"lineBegin"`
	LineEnd    int    `json:"lineEnd"`
	Truncated  bool   `json:"truncated"`
}

// CommandSession is a session that was opened in [Command] mode.
type CommandSession interface {
	Session

	// StartCommand reserves the shell and delivers the program. It fails like
	// StartSend, and with [InvalidArgument] for text that the shell's language
	// cannot hold; nothing has run then.
	StartCommand(ctx context.Context, cmd CommandRequest) (CommandRun, error)

	// Unsolicited returns and forgets what arrived while no command ran, and
	// how many of its first bytes were dropped because there were too many.
	Unsolicited() (data []byte, lost int64)
}

// CommandRequest is one program for a shell.
type CommandRequest struct {
	Text string

	// Env are variables, KEY=VALUE, that the shell itself sets and exports, and
	// Unset the names of those that it drops, before the program begins. A
	// variable that a user has made read-only stays as it is.
	Env   []string
	Unset []string

	// WarmUp runs, instead of Text, the shell's own program that does nothing
	// but load what first commands need. Text is for shells that have none.
	WarmUp bool

	// Sink gets the program's exact output as it comes, from one goroutine, in
	// order, never after the run has settled. What comes while a send answers the
	// program is that send's and does not reach it. While it blocks, the terminal
	// is not read; deadlines and cancellation go on. Nil drops the output.
	Sink func([]byte)

	// WaitConfirm is how long an untimed read of the terminal must stay blocked
	// before the program counts as waiting. Zero: the default, 250 ms.
	WaitConfirm time.Duration
}

// CommandRun is one program that a shell runs. Until it has settled (completed
// or the shell ended) the session takes no other command.
type CommandRun interface {
	// Wait returns as soon as there is something to report: the command
	// completed, the shell exited, a program provably waits for input, or ctx
	// ended (its cause is the error; the command runs on). It may be called
	// again after a waiting program was answered; a wait that was reported is
	// reported again only when the program left it in between.
	Wait(ctx context.Context) (CommandResult, error)

	// Interrupt interrupts the foreground program, repeatedly, and returns nil
	// when the command is seen to have settled, or ctx's cause. A command whose
	// text the shell has not read yet never runs. It never kills the shell.
	Interrupt(ctx context.Context) error

	// Waits reports whether a program provably waits for input at this moment,
	// with none on its way to it. After an interrupt it tells a program that took
	// none from a shell that is on its way back.
	Waits() bool

	// Settled is closed when the command completed or the shell ended.
	Settled() <-chan struct{}
}

// CommandState is what a run reports.
type CommandState int

// The states.
const (
	Completed  CommandState = iota + 1 // the shell is back at its prompt
	Waiting                            // a program waits for input
	ShellEnded                         // the shell itself ended
	ShellStuck                         // the shell itself was stopped and cannot go on
)

// CommandResult is what a run reports.
type CommandResult struct {
	State       CommandState
	ExitCode    *int // of the command; nil when unknown
	Interrupted bool // it was interrupted by us
	NotStarted  bool // the shell came back without having run the program
	Level       int  // depth of nested prompts
	Cwd         string
	Status      Status      // of the shell
	NeedsInput  *NeedsInput // who waits; of an interrupted command, who waited when it was interrupted
	Before      []byte      // what came after Unsolicited and before the program began; given once

	// Reported says that a send which answered the command has reported its
	// completion already ([SendResult.Command]).
	Reported bool
}
