package persistent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/shellstead/shellstead/terminals"
)

// OnTimeout says what becomes of the shell when a command's time is up.
type OnTimeout string

const (
	// Reset closes the shell with everything in it.
	Reset OnTimeout = "reset"
	// Interrupt stops the program and keeps the shell if it then proves ready.
	Interrupt OnTimeout = "interrupt"
)

// Clip says which part of an output that is too long stays in the result.
type Clip string

const (
	// Head keeps the beginning.
	Head Clip = "head"
	// Middle cuts out the middle and keeps both ends.
	Middle Clip = "middle"
)

// Config is what all shells of one Runner have in common. The zero value is not
// valid; start from [DefaultConfig].
type Config struct {
	// BackendType is the type that the terminal backend is registered under.
	BackendType string

	// Timeout is the wall clock of one command, from its delivery to the shell.
	// The start of a shell is not part of it: its backend bounds that.
	Timeout   time.Duration
	OnTimeout OnTimeout

	// MaxOutputChars is how much of a command's output a result retains, in
	// code points. A byte that is not part of valid UTF-8 counts as one.
	MaxOutputChars int
	Clip           Clip

	// Prestart is the host's to act on: it calls [Runner.Prestart] when an owner
	// connects.
	Prestart bool

	// WaitConfirm is how long an untimed read of the terminal must stay blocked
	// before a command counts as waiting for input.
	WaitConfirm time.Duration

	// Spill writes an output that does not fit the result to a private file, at
	// most SpillMaxBytes of it. The file lies in a folder of the owner's under
	// SpillDir (empty: the system's folder for temporary files), which is
	// removed when the owner is disposed unless KeepSpill is set.
	Spill         bool
	SpillDir      string
	SpillMaxBytes int64
	KeepSpill     bool

	// TerminalTools says that the caller can answer a waiting program through
	// the terminal tools. It changes what the result advises.
	TerminalTools bool

	// Logger gets what no result can say. Nil drops it.
	Logger *slog.Logger

	// Resolve returns the managed environment, KEY=VALUE, of the shell in the
	// terminal, in the order in which shellenv.Registry.Snapshot has it. It is
	// called when a shell is opened and again before each command, whose shell
	// then sets and drops what has changed since. cwd is the shell's directory as
	// far as it is known. ctx ends with the call, before a command also after
	// the time of one; an error fails the call and nothing runs. Nil: none.
	Resolve func(ctx context.Context, owner *terminals.Owner, terminalID, cwd string) ([]string, error)

	// Explain returns one line for the result of a command of owner that exited
	// with a code other than 0, for instance that its shell may not do everything;
	// empty for none. The result's text is not made yet. Nil: no such lines.
	Explain func(owner *terminals.Owner, result Result) string

	// SessionID names the owner's log session. Nil or an empty string: none.
	SessionID func(*terminals.Owner) string
}

// The allowed values of the numeric settings.
const (
	MinTimeout       = time.Millisecond
	MaxTimeout       = 7 * 24 * time.Hour
	MinOutputChars   = 1
	MaxOutputChars   = 16 << 20 // the result is held in memory and sent in one message
	MinWaitConfirm   = time.Millisecond
	MaxWaitConfirm   = time.Minute
	MinSpillMaxBytes = 1
	MaxSpillMaxBytes = 1 << 40
)

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		BackendType:    "shell",
		Timeout:        5 * time.Minute,
		OnTimeout:      Reset,
		MaxOutputChars: 16000,
		Clip:           Head,
		WaitConfirm:    250 * time.Millisecond,
		Spill:          true,
		SpillMaxBytes:  256 << 20,
	}
}

// validate names the configuration key that is wrong, as it is written in the
// configuration file, and what it may be.
func (c Config) validate() error {
	if c.BackendType == "" {
		return fmt.Errorf("persistent: backendType must name a terminal backend, got an empty string")
	}
	if err := checkRange("timeoutMs", c.Timeout.Milliseconds(), MinTimeout.Milliseconds(), MaxTimeout.Milliseconds()); err != nil {
		return err
	}
	if c.OnTimeout != Reset && c.OnTimeout != Interrupt {
		return fmt.Errorf("persistent: onTimeout must be %q or %q, got %q", Reset, Interrupt, c.OnTimeout)
	}
	if err := checkRange("maxOutputChars", int64(c.MaxOutputChars), MinOutputChars, MaxOutputChars); err != nil {
		return err
	}
	if c.Clip != Head && c.Clip != Middle {
		return fmt.Errorf("persistent: clip must be %q or %q, got %q", Head, Middle, c.Clip)
	}
	if err := checkRange("waitConfirmMs", c.WaitConfirm.Milliseconds(), MinWaitConfirm.Milliseconds(), MaxWaitConfirm.Milliseconds()); err != nil {
		return err
	}
	return checkRange("spillMaxBytes", c.SpillMaxBytes, MinSpillMaxBytes, MaxSpillMaxBytes)
}

func checkRange(key string, got, low, high int64) error {
	if got < low || got > high {
		return fmt.Errorf("persistent: %s must be from %d to %d, got %d", key, low, high, got)
	}
	return nil
}
