package posix

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// exitWatch waits for the end of the started program and leaves it unreaped, so
// that its id, group and session stay its own.
type exitWatch struct{ pidfd int }

// newExitWatch asks for the program's process descriptor at the fork.
func newExitWatch(sys *syscall.SysProcAttr) *exitWatch {
	w := &exitWatch{pidfd: -1}
	sys.PidFD = &w.pidfd
	return w
}

// wait returns how the program ended. With a process descriptor it waits in
// Go's poller and holds no thread.
func (w *exitWatch) wait(proc *os.Process) backend.ExitStatus {
	if w.pidfd >= 0 {
		_ = unix.SetNonblock(w.pidfd, true)
		file := os.NewFile(uintptr(w.pidfd), "pidfd")
		defer file.Close()
		if conn, err := file.SyscallConn(); err == nil {
			var status backend.ExitStatus
			var ended bool
			err := conn.Read(func(uintptr) bool {
				status, ended = exitOf(proc.Pid, unix.WNOHANG)
				return ended
			})
			if err == nil {
				return status
			}
		}
	}
	status, _ := exitOf(proc.Pid, 0)
	return status
}

// childInfo is siginfo_t as waitid fills it; the union after the code is
// aligned to a pointer.
type childInfo struct {
	signo, errno, code int32
	_                  [unsafe.Sizeof(uintptr(0))/4 - 1]int32
	pid                int32
	uid                uint32
	status             int32
}

const (
	childExited = 1 // CLD_EXITED
	childKilled = 2 // CLD_KILLED; 3 is CLD_DUMPED
)

func exitOf(pid, flags int) (_ backend.ExitStatus, ended bool) {
	info, err := waitChild(pid, unix.WEXITED|unix.WNOWAIT|flags)
	if err != nil {
		// Somebody else has reaped it, for instance a host that collects all
		// of its children: how it ended is unknown.
		return backend.ExitStatus{}, true
	}
	if info.signo == 0 {
		return backend.ExitStatus{}, false
	}
	if info.code == childExited {
		code := int(info.status)
		return backend.ExitStatus{Code: &code}, true
	}
	return backend.ExitStatus{Signal: unix.SignalName(syscall.Signal(info.status))}, true
}

// stoppedChild tells whether the child is stopped now. The report stays
// waitable, so it is there as long as the stop lasts.
func stoppedChild(pid int) bool {
	info, err := waitChild(pid, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT)
	return err == nil && info.signo != 0
}

func waitChild(pid, flags int) (childInfo, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, flags, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return *(*childInfo)(unsafe.Pointer(&info)), err
	}
}

// reap gives the program's id back to the system.
func reap(proc *os.Process) { _, _ = proc.Wait() }
