// Package none is the dialect of a program that is no shell: a language's
// prompt, a debugger, a database client, a shell without a dialect of its own.
// Such a program gets a terminal that a person could use and nothing else. It
// prints no markers, so what it is up to is told from outside alone: that it
// provably waits for input, that it is silent, that it ended.
//
// It takes typed input only; there are no whole commands, and no program that
// runs in each new session first.
package none

import (
	"errors"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
)

// Dialect is the dialect of programs without one.
type Dialect struct{}

var _ dialect.Dialect = Dialect{}

// Name returns "none".
func (Dialect) Name() string { return "none" }

// Programs returns nothing: which program it is has to be configured.
func (Dialect) Programs() []string { return nil }

// Install has no particular program to name.
func (Dialect) Install() string { return "install it" }

// New returns the state of one program. It refuses command mode.
func (Dialect) New(setup dialect.Setup) (dialect.Shell, error) {
	if setup.CommandMode {
		return nil, errors.New("shellDialect none starts a program that takes typed input only; " +
			"whole commands need a backend whose shellDialect is a shell's")
	}
	return program(setup.Args), nil
}

// program is one program, with its arguments.
type program []string

// errNoCommands ends a sentence that names what was asked for.
var errNoCommands = errors.New("shellDialect none has no language for a whole program; type it with a send")

func (p program) Launch() dialect.Launch {
	return dialect.Launch{
		Args: func(backend.ChannelRef) []string { return p },
		Env:  []string{"TERM=xterm-256color"},
		// ^S must not stop output that nobody would start again, and an interrupt
		// must not drop output that was not read yet.
		Modes: backend.Modes{Canonical: true, Echo: true, Signals: true, OutputProc: true, InputCR: true, NoFlush: true},
	}
}

// Marker has no prefix: no output is a marker.
func (program) Marker() dialect.Marker { return dialect.Marker{} }

func (program) Mark([]byte) (dialect.Mark, bool) { return dialect.Mark{}, false }

func (program) Command(dialect.Script) (dialect.Delivery, error) {
	return dialect.Delivery{}, errNoCommands
}

func (program) Resync(uint64) (dialect.Delivery, error) { return dialect.Delivery{}, errNoCommands }

func (program) Trailer([]byte, bool) int { return 0 }

func (program) Noise(_ dialect.Kind, text []byte) []byte { return text }

func (program) Interrupted(m dialect.Mark) dialect.Mark { return m }
