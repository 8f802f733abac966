package posix

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// writeChunk keeps each write below the queue's 1024 bytes, so that a full
// queue shows as a short write and not as lost input.
const writeChunk = 512

func terminalSignal(fd int, sig syscall.Signal) error {
	return unix.IoctlSetInt(fd, unix.TIOCSIG, int(sig))
}
