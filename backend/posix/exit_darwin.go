package posix

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// exitWatch waits for the end of the started program. macOS lends no way to
// look at an exit without taking it, so the program is reaped at once.
type exitWatch struct{}

func newExitWatch(*syscall.SysProcAttr) *exitWatch { return &exitWatch{} }

func (*exitWatch) wait(proc *os.Process) backend.ExitStatus {
	state, err := proc.Wait()
	if err != nil {
		return backend.ExitStatus{}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return backend.ExitStatus{Signal: unix.SignalName(status.Signal())}
	}
	code := state.ExitCode()
	return backend.ExitStatus{Code: &code}
}

func reap(*os.Process) {}
