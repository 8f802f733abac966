// Package dialect holds the contract between the terminal engine and a shell's
// language. An implementation turns intentions into shell input and shell
// output into facts. It is pure: no I/O, no clock, no knowledge of an operating
// system. The package holds types only.
package dialect

import "github.com/shellstead/shellstead/backend"

// Dialect is one shell language.
type Dialect interface {
	// Name is the configuration's shellDialect: "bash", "pwsh".
	Name() string

	// Programs are the names that are looked up in PATH, in this order, when no
	// shellPath is configured. Without any, a shellPath has to be.
	Programs() []string

	// Install tells a person how to get the shell where it is missing, as a
	// clause: "install it with the system's package manager".
	Install() string

	// New returns the state of one shell that will be started with setup. Its
	// methods are called by one goroutine at a time. A dialect without command
	// mode refuses it with an error that says so.
	New(setup Setup) (Shell, error)
}

// Setup is what the engine decides before a shell starts.
type Setup struct {
	// CommandMode opens a shell for whole commands: no echo, no output
	// processing, no line editing, no visible prompt. Otherwise the shell is
	// one that a person could use.
	CommandMode bool

	// Secret is 128 random bits in hexadecimal. It makes this shell's markers
	// its own and may travel to the shell by the bootstrap alone.
	Secret string

	// Args replaces the shell's default arguments when not empty.
	Args []string

	// Rewrites says that the terminal shows text rewritten: what must be read
	// exactly has to go by a pipe (Launch.OutputPipe).
	Rewrites bool

	// Dir is the shell's private folder, where Launch.Files and Delivery.Files
	// lie.
	Dir string
}

// Shell is one shell of a dialect.
type Shell interface {
	// Launch says how to start it.
	Launch() Launch

	// Marker says how this shell's private markers look in its raw output.
	Marker() Marker

	// Mark reads the payload of one marker, the bytes between Marker.Prefix and
	// Marker.End. False means that the payload is malformed; the marker is
	// still ours and is not output.
	Mark(payload []byte) (Mark, bool)

	// Command turns a program into what has to be delivered to a shell that is
	// at its prompt. Text that the language cannot hold is refused with an
	// error that names the byte and its position.
	Command(Script) (Delivery, error)

	// Resync asks a shell that is provably at its prompt, but whose markers are
	// gone, to announce itself with the status of its last command.
	Resync(seq uint64) (Delivery, error)

	// Trailer returns how many bytes at the end of tail may be what the shell's
	// own machinery prints after a program (never the program's bytes). The
	// engine holds them back; followed by a Done or Prompt mark they are
	// dropped, otherwise they are output. interrupted says that the engine
	// interrupted the command before tail came.
	Trailer(tail []byte, interrupted bool) int

	// Noise returns what of text is not the shell's own doing. where says when
	// the shell printed it: Start, after a command was delivered and before its
	// start mark; Prompt, between a done mark and the prompt mark that follows
	// it; Done, after its last prompt mark until it ended.
	Noise(where Kind, text []byte) []byte

	// Interrupted corrects the mark of a command that the engine interrupted,
	// where a version of the shell reports another status.
	Interrupted(Mark) Mark
}

// Launch is how a shell is started.
type Launch struct {
	// Args are the program's arguments, given the address of its channel.
	Args func(backend.ChannelRef) []string

	// Bootstrap is the shell's first input, by the private channel. Nil means
	// that the shell needs no channel.
	Bootstrap func(backend.ChannelRef) []byte

	// KeepChannel keeps the channel open for commands (Delivery.Channel).
	KeepChannel bool

	// Files are there when the shell starts and are removed once it is ready.
	Files []File

	// Env is set in, Unset removed from the inherited environment. An Unset
	// name that ends in * is a prefix.
	Env   []string
	Unset []string

	// Modes of the terminal at the start, and again before each command unless
	// the shell sets them itself (OwnModes).
	Modes    backend.Modes
	OwnModes bool

	SeparateDescriptors bool

	// OutputPipe makes a pipe the shell's standard output and error where the
	// terminal rewrites text.
	OutputPipe bool

	// ReadsChannel says that the shell at its prompt is blocked reading the
	// channel; otherwise it is blocked reading the terminal.
	ReadsChannel bool

	// Prompt is the printable text of the prompt, exactly; empty in command
	// mode.
	Prompt string

	// WarmUp is a program that prints and changes nothing, yet loads what the
	// first commands of a shell wait for. Empty: there is nothing to load.
	WarmUp string

	// MinCols is the narrowest window that does not change the shell's output.
	MinCols int

	// AnswerQueries says that the shell itself asks the terminal for the cursor
	// and stalls without an answer: it is then always answered, 1;1.
	AnswerQueries bool

	// InterruptShell sends an interrupt to the shell itself as well, before its
	// foreground program gets it: an interrupt that hits a part of a job only
	// would otherwise let the shell go on with the rest of the command.
	InterruptShell bool

	// InterruptLead is how many milliseconds before the programs of its own process group the
	// shell gets an interrupt: one that acts on it a moment later would go on with
	// the rest of the command once they have ended of it. Zero: at once with them.
	InterruptLead int

	// InterruptKeys are typed in turn, a moment apart, to interrupt the shell
	// while it reads the terminal itself and a signal cannot end that read.
	InterruptKeys [][]byte

	// Asks tells what the shell asks for when it reads the terminal itself but
	// not at its prompt: modes are the terminal's, prompt is the last line so
	// far. Nil, or AskUnknown: the modes alone tell, as they do for programs.
	Asks func(modes backend.Modes, prompt string) Ask
}

// Ask is what a shell asks a person for.
type Ask int

// What a shell can ask for.
const (
	AskUnknown Ask = iota
	AskLine
	AskSecret
)

// Marker is the shape of private markers in the raw byte stream. The zero Marker
// is that of a program which prints none: it counts as ready when it provably
// waits for input, or is silent after it has printed something.
type Marker struct {
	Prefix []byte // introducer with the secret; long enough to be unguessable
	End    []byte // terminator
	Max    int    // longest payload; a longer one is no marker
}

// Kind is what a marker announces.
type Kind int

// The kinds of marker.
const (
	// Start: the program of Seq begins now; what came before is not its output.
	Start Kind = iota + 1
	// Done: the shell is back from a program; output ends here, unless a
	// further Start or Done follows.
	Done
	// Prompt: the shell prints its prompt; nothing of ours follows but
	// Launch.Prompt.
	Prompt
	// Continuation: the shell asks for more of an incomplete input.
	Continuation
)

// Mark is one marker, read.
type Mark struct {
	Kind      Kind
	Seq       uint64 // of the last command that the shell was given
	Status    int    // exit code of the last command, when HasStatus
	HasStatus bool
	Level     int    // depth of nested prompts, 0 at the top
	Cwd       string // the shell's own idea of its directory, when HasCwd
	HasCwd    bool
}

// Script is one program for the shell.
type Script struct {
	Seq    uint64
	Text   string
	Status int      // the status of the previous command, which $? shows
	Dir    string   // the shell's private folder, where Delivery.Files will lie
	Env    []string // KEY=VALUE, set and exported before the program begins
	Unset  []string // names of variables that are gone before the program begins
}

// Delivery is what the engine carries to the shell: first the files are
// written, then the channel, then the terminal.
type Delivery struct {
	Files    []File // removed when the command has settled
	Channel  []byte
	Terminal []byte // typed as is
}

// File is a private file (0600 in a 0700 folder).
type File struct {
	Name string
	Data []byte
}
