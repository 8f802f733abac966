//go:build linux || darwin

package posix

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// identity names one process for ever: its id may be given to another process
// later, but never again with the same start time.
type identity struct {
	pid   int
	start uint64 // in the system's own unit, comparable within one boot
}

// process is one row of the process table.
type process struct {
	identity
	ppid, pgid, sid int
	tty             uint64 // of its controlling terminal, 0 for none
	name            string
	zombie, stopped bool
}

func (p process) public() backend.Process { return backend.Process{PID: p.pid, Program: p.name} }

// errGone says that an identity names no living process any more.
var errGone = errors.New("posix: no such process")

// processTable is what a teardown needs of the system. Tests put another in its
// place to show what no real system does on demand.
type processTable interface {
	// list returns every process that can be seen, zombies included.
	list() ([]process, error)

	// lookup returns one process, or errGone.
	lookup(pid int) (process, error)

	// marked tells whether id was started with the variable called mark in its
	// environment, or has the resource limit that brand set (0: none). It is
	// false where neither can be read.
	marked(id identity, mark string, limit uint64) bool

	// signal sends sig to id, or returns errGone when the process has ended,
	// whoever has its number now.
	signal(id identity, sig unix.Signal) error

	// await returns once all of ids have ended (a zombie has), or at until.
	await(ids []identity, until time.Time)
}

// sendable refuses targets that must never be signalled.
func sendable(pid, self int) error {
	if pid <= 1 || pid == self {
		return errors.New("posix: refused to signal process 1, a group or the host itself")
	}
	return nil
}
