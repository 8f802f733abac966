package posix

import "golang.org/x/sys/unix"

const (
	ioctlGetTermios = unix.TCGETS
	ioctlSetTermios = unix.TCSETS
	ioctlInputQueue = unix.TIOCINQ
)

// maxLine leaves room for the line's end in the 4096 bytes of N_TTY_BUF_SIZE.
const maxLine = 4095

type tcflag = uint32

func flushQueue(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
