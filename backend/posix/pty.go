//go:build linux || darwin

package posix

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// terminal is the host's end of one pseudo terminal.
type terminal struct {
	master *os.File
	conn   syscall.RawConn // master's; never master.Fd, which makes it blocking
	path   string          // of the program's end
	id     fileID          // of the program's end

	initial unix.Termios // at the start, but for the flags of backend.Modes
}

// fileID tells files apart whatever path leads to them: a terminal has another
// path in another mount namespace, and a descriptor any number.
type fileID struct{ dev, ino, rdev uint64 }

func fileIDOf(st *unix.Stat_t) fileID {
	return fileID{uint64(st.Dev), st.Ino, uint64(st.Rdev)}
}

func statFD(fd int) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileID{}, err
	}
	return fileIDOf(&st), nil
}

// openTerminal opens a terminal of the given size and modes and returns it with
// the program's end, opened count times.
func openTerminal(rows, cols int, modes backend.Modes, count int) (_ *terminal, slaves []*os.File, err error) {
	opened, slave, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("posix: open a pseudo terminal: %w", err)
	}
	defer func() {
		if err != nil {
			closeAll(slaves)
		}
	}()
	slaves = append(slaves, slave)

	master, err := pollable(opened)
	if err != nil {
		return nil, slaves, fmt.Errorf("posix: make %s non-blocking: %w", opened.Name(), err)
	}
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	conn, err := master.SyscallConn()
	if err != nil {
		return nil, slaves, err
	}
	t := &terminal{master: master, conn: conn, path: slave.Name()}

	slaveConn, err := slave.SyscallConn()
	if err != nil {
		return nil, slaves, err
	}
	var idErr error
	if err := slaveConn.Control(func(fd uintptr) { t.id, idErr = statFD(int(fd)) }); err != nil {
		return nil, slaves, err
	}
	if idErr != nil {
		return nil, slaves, fmt.Errorf("posix: %s: %w", t.path, idErr)
	}
	if err := t.resize(cols, rows); err != nil {
		return nil, slaves, err
	}
	if err := t.initModes(modes); err != nil {
		return nil, slaves, err
	}
	for len(slaves) < count {
		fd, err := t.openSlave(0)
		if err != nil {
			return nil, slaves, err
		}
		slaves = append(slaves, os.NewFile(uintptr(fd), t.path))
	}
	return t, slaves, nil
}

// pollable moves a master to a descriptor that is non-blocking before Go sees
// it. The one that the pty package returns has been made blocking on Linux
// (creack/pty#162) and was never in the poller on macOS, so deadlines do
// nothing on it. It is closed.
func pollable(opened *os.File) (*os.File, error) {
	defer opened.Close()
	conn, err := opened.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var dupErr error
	err = conn.Control(func(old uintptr) {
		fd, dupErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3)
	})
	if err = errors.Join(err, dupErr); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), opened.Name()), nil
}

// openSlave opens the program's end once more. It never becomes the host's
// controlling terminal, and a path that leads to another terminal by now is
// refused.
func (t *terminal) openSlave(flags int) (int, error) {
	for {
		fd, err := unix.Open(t.path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|flags, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("posix: open %s: %w", t.path, err)
		}
		if id, err := statFD(fd); err != nil || id != t.id {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("posix: %s is another terminal now", t.path)
		}
		return fd, nil
	}
}

// control runs f on the master's descriptor without making it blocking.
func (t *terminal) control(what string, f func(fd int) error) error {
	var inner error
	if err := t.conn.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return fmt.Errorf("posix: %s: %w", what, err)
	}
	if inner != nil {
		return fmt.Errorf("posix: %s: %w", what, inner)
	}
	return nil
}

func (t *terminal) resize(cols, rows int) error {
	return t.control("set the window size", func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	})
}

// foreground returns the terminal's foreground process group.
func (t *terminal) foreground() (int, error) {
	var pgid int
	err := t.control("foreground process group", func(fd int) (err error) {
		pgid, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	if err != nil {
		return 0, err
	}
	// 0, and -1 on some kernels, once the session's leader is gone. Signalling
	// group 0 would hit the host itself.
	if pgid <= 1 {
		return 0, errors.New("posix: the terminal is closing: it has no foreground process group")
	}
	return pgid, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
