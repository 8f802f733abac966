//go:build linux || darwin

package posix

import (
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

func (t *terminal) termios() (*unix.Termios, error) {
	var tio *unix.Termios
	err := t.control("read the terminal modes", func(fd int) (err error) {
		tio, err = unix.IoctlGetTermios(fd, ioctlGetTermios)
		return err
	})
	return tio, err
}

func (t *terminal) modes() (backend.Modes, error) {
	tio, err := t.termios()
	if err != nil {
		return backend.Modes{}, err
	}
	m := backend.Modes{
		Canonical:  tio.Lflag&unix.ICANON != 0,
		Echo:       tio.Lflag&unix.ECHO != 0,
		Signals:    tio.Lflag&unix.ISIG != 0,
		OutputProc: tio.Oflag&unix.OPOST != 0,
		InputCR:    tio.Iflag&unix.ICRNL != 0,
		FlowCtl:    tio.Iflag&unix.IXON != 0,
		NoFlush:    tio.Lflag&unix.NOFLSH != 0,
	}
	rest := t.initial
	setFlags(&rest, m)
	m.Other = rest != *tio
	return m, nil
}

// setFlags sets the flags that backend.Modes names.
func setFlags(tio *unix.Termios, m backend.Modes) {
	set := func(flags *tcflag, bits tcflag, on bool) {
		if on {
			*flags |= bits
		} else {
			*flags &^= bits
		}
	}
	set(&tio.Lflag, unix.ICANON, m.Canonical)
	set(&tio.Lflag, unix.ECHO, m.Echo)
	set(&tio.Lflag, unix.ISIG, m.Signals)
	set(&tio.Lflag, unix.NOFLSH, m.NoFlush)
	set(&tio.Oflag, unix.OPOST, m.OutputProc)
	set(&tio.Iflag, unix.ICRNL, m.InputCR)
	set(&tio.Iflag, unix.IXON, m.FlowCtl)
}

// initModes gives a terminal that nobody has used yet its modes.
func (t *terminal) initModes(m backend.Modes) error {
	tio, err := t.termios()
	if err != nil {
		return err
	}
	t.initial = *tio
	// Erasing in a line that the terminal edits takes a whole character.
	t.initial.Iflag |= unix.IUTF8
	return t.setModes(m)
}

func (t *terminal) setModes(m backend.Modes) error {
	tio, err := t.termios()
	if err != nil {
		return err
	}
	want := t.initial
	if m.Other {
		want = *tio
	}
	setFlags(&want, m)
	if want == *tio {
		return nil
	}
	return t.control("set the terminal modes", func(fd int) error {
		return unix.IoctlSetTermios(fd, ioctlSetTermios, &want)
	})
}

// flushInput drops typed bytes that no program has read. Only a descriptor of
// the program's end can do it: on the master neither direction has an effect.
func (t *terminal) flushInput() error {
	return t.onSlave(func(fd int) error { return flushQueue(fd) })
}

// pendingInput counts typed bytes that no program has read; of a line that the
// terminal still edits it counts nothing.
func (t *terminal) pendingInput() (n int, err error) {
	err = t.onSlave(func(fd int) (err error) {
		n, err = queued(fd)
		return err
	})
	return n, err
}

// pendingOutput counts bytes that the host has not read.
func (t *terminal) pendingOutput() (n int, err error) {
	err = t.control("FIONREAD", func(fd int) (err error) {
		n, err = queued(fd)
		return err
	})
	return n, err
}

// queued counts what a read of fd would find. What one end wrote reaches the
// other by a worker of the kernel's, which a busy machine may keep waiting for
// a tenth of a second and more; a poll delivers it first, the count alone does
// not.
func queued(fd int) (int, error) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err == nil {
			return unix.IoctlGetInt(fd, ioctlInputQueue)
		}
		if err != unix.EINTR {
			return 0, err
		}
	}
}

// onSlave runs f on a descriptor of the program's end that it opens for the
// moment: one that stayed open would keep the end of output from being seen.
func (t *terminal) onSlave(f func(fd int) error) error {
	fd, err := t.openSlave(unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}
