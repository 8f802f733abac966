package launcher

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch names the machine in a filter's data.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// CanDenySockets tells whether this build has a filter for its machine.
func CanDenySockets() bool { return auditArch[runtime.GOARCH] != 0 }

// Offsets in struct seccomp_data; both machines are little-endian, so the low
// half of an argument comes first.
const (
	offNumber = 0
	offArch   = 4
	offArg0   = 16
	offArg1   = 24
)

// x32 is set in the numbers of amd64's second set of system calls.
const x32 = 0x40000000

// denySockets refuses the calling thread, and what it starts, sockets that
// reach other machines. Programs for another kind of machine find no system
// calls at all: their numbers mean something else.
func denySockets() error {
	arch := auditArch[runtime.GOARCH]
	if arch == 0 {
		return fmt.Errorf("no filter for %s", runtime.GOARCH)
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		reply = unix.BPF_RET | unix.BPF_K
	)
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	step := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	program := []unix.SockFilter{
		step(load, offArch),
		jump(equal, arch, 0, 13), // to "no call"
		step(load, offNumber),
		jump(least, x32, 11, 0),                     // to "no call"
		jump(equal, unix.SYS_IO_URING_SETUP, 10, 0), // it opens sockets too; to "no call"
		jump(equal, unix.SYS_IOCTL, 5, 0),           // to the request
		jump(equal, unix.SYS_SOCKET, 1, 0),
		jump(equal, unix.SYS_SOCKETPAIR, 0, 5), // else to "yes"
		step(load, offArg0),
		jump(equal, unix.AF_UNIX, 3, 0),    // to "yes"
		jump(equal, unix.AF_NETLINK, 2, 3), // to "yes", else "denied"
		step(load, offArg1),
		jump(equal, unix.TIOCSTI, 1, 0), // to "denied"
		step(reply, unix.SECCOMP_RET_ALLOW),
		step(reply, unix.SECCOMP_RET_ERRNO|uint32(unix.EACCES)),
		step(reply, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}
