package posix

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// writeChunk bounds one write; Linux reports what part of it was accepted.
const writeChunk = 64 << 10

func terminalSignal(fd int, sig syscall.Signal) error {
	return unix.IoctlSetInt(fd, unix.TIOCSIG, int(sig))
}
