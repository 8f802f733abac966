package posix

import "golang.org/x/sys/unix"

const (
	ioctlGetTermios = unix.TIOCGETA
	ioctlSetTermios = unix.TIOCSETA
	ioctlInputQueue = 0x4004667f // FIONREAD, _IOR('f', 127, int)

	fread = 0x1 // FREAD of <sys/fcntl.h>: the input queue
)

// maxLine leaves room for the line's end in the 1024 bytes of MAX_CANON.
const maxLine = 1023

type tcflag = uint64

func flushQueue(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, fread) }
