package posix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// launchStatus is the pipe by which a launcher tells that its program runs.
type launchStatus struct{ read, write *os.File }

func openLaunchStatus() (*launchStatus, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("posix: open the launcher's status: %w", err)
	}
	return &launchStatus{read, write}, nil
}

func (s *launchStatus) childEnd() *os.File {
	if s == nil {
		return nil
	}
	return s.write
}

func (s *launchStatus) close() {
	_ = s.read.Close()
	_ = s.write.Close()
}

// maxLaunchError bounds what a launcher says.
const maxLaunchError = 1024

// await returns once the program runs, with what the launcher said instead, or
// with ctx's cause.
func (s *launchStatus) await(ctx context.Context) error {
	_ = s.write.Close() // the launcher alone holds it now
	stop := context.AfterFunc(ctx, func() { _ = s.read.SetReadDeadline(past) })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(s.read, maxLaunchError))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("posix: the launcher's status: %w", err)
	case len(text) > 0:
		return errors.New(strings.TrimSpace(string(text)))
	}
	return nil
}

// beginLaunched takes over a launcher and waits until its program leads the
// terminal's session. When it fails nothing is left behind.
//
// A program that has ended already, and a launcher that died without a word, are
// a terminal whose program has exited: the launcher stands for it.
func (d *device) beginLaunched(ctx context.Context, proc *os.Process, exit *exitWatch, status *launchStatus) error {
	err := status.await(ctx)
	pid := proc.Pid
	if err == nil {
		if leader, none := d.term.sessionLeader(); none == nil {
			pid = leader
		}
	}
	d.begin(proc, exit, pid)
	if err != nil {
		return errors.Join(err, d.Terminate(context.WithoutCancel(ctx), 0))
	}
	return nil
}

// sessionLeader is the process whose controlling terminal this became.
func (t *terminal) sessionLeader() (pid int, err error) {
	err = t.control("session", func(fd int) error {
		pid, err = unix.IoctlGetInt(fd, unix.TIOCGSID)
		return err
	})
	if err == nil && pid <= 1 {
		err = errGone
	}
	return pid, err
}

// stopped tells whether the program is stopped now.
func (d *device) stopped() bool {
	if !d.launched() {
		return stoppedChild(d.pid)
	}
	st, err := readStat(procPath(d.pid, "stat"))
	return err == nil && st.stopped
}

// endWatch knows how a program that is not the host's child ended, where the
// kernel tells (Linux 6.15).
type endWatch struct{ pidfd int }

func watchEnd(id identity, launched bool) endWatch {
	if !launched {
		return endWatch{-1}
	}
	fd, err := unix.PidfdOpen(id.pid, 0)
	if err != nil {
		return endWatch{-1}
	}
	return endWatch{fd}
}

// pidfdInfo is the first version of struct pidfd_info.
type pidfdInfo struct {
	mask, _ uint64
	_       [11]uint32
	exit    int32
}

const (
	pidfdGetInfo  = 3<<30 | 64<<16 | 0xff<<8 | 11 // _IOWR(0xFF, 11, struct pidfd_info)
	pidfdInfoExit = 1 << 3
)

// refine replaces the status of a launcher, which has only a code to tell that
// a signal ended the program.
func (w endWatch) refine(status backend.ExitStatus) backend.ExitStatus {
	if w.pidfd < 0 {
		return status
	}
	defer unix.Close(w.pidfd)
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(w.pidfd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return status
	}
	ws := syscall.WaitStatus(info.exit)
	if ws.Signaled() {
		return backend.ExitStatus{Signal: unix.SignalName(ws.Signal())}
	}
	code := ws.ExitStatus()
	return backend.ExitStatus{Code: &code}
}
