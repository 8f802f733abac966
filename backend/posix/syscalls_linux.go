package posix

import "runtime"

// callKind says how a system call waits for input.
type callKind int

const (
	callOther     callKind = iota
	callRead               // fd; splice too
	callSelect             // count, read set, write set, exception set, timeout
	callOldSelect          // a pointer to those five words
	callPoll               // pollfds, count, timeout in milliseconds
	callPpoll              // pollfds, count, pointer to the timeout
	callEpoll              // epoll fd, events, count, timeout in milliseconds
	callEpoll2             // epoll fd, events, count, pointer to the timeout
	callWait               // for a child
	callRing               // io_uring: what it waits for is not visible
	callFutex              // for a thread that wakes it, of whatever process
	callRestart            // a call that goes on after a stop, see waitProbe
)

// abi is one way of numbering system calls.
type abi struct {
	calls map[int]callKind
	word  int // bytes of a pointer and of a word of an fd_set
}

// The numbers are those of the kernel's own tables, as golang.org/x/sys/unix
// has them for each architecture (zsysnum_linux_*.go).
var (
	abiAMD64 = &abi{word: 8, calls: map[int]callKind{
		0: callRead, 19: callRead, 327: callRead, 275: callRead,
		23: callSelect, 270: callSelect,
		7: callPoll, 271: callPpoll,
		232: callEpoll, 281: callEpoll, 441: callEpoll2,
		61: callWait, 247: callWait,
		202: callFutex, 449: callFutex, 455: callFutex,
		426: callRing, 219: callRestart,
	}}

	// abiGeneric is what arm64, riscv64 and loong64 share.
	abiGeneric = &abi{word: 8, calls: map[int]callKind{
		63: callRead, 65: callRead, 286: callRead, 76: callRead,
		72: callSelect,
		73: callPpoll,
		22: callEpoll, 441: callEpoll2,
		260: callWait, 95: callWait,
		98: callFutex, 449: callFutex, 455: callFutex,
		426: callRing, 128: callRestart,
	}}

	abi386 = &abi{word: 4, calls: map[int]callKind{
		3: callRead, 145: callRead, 378: callRead, 313: callRead,
		82: callOldSelect, 142: callSelect, 308: callSelect, 413: callSelect,
		168: callPoll, 309: callPpoll, 414: callPpoll,
		256: callEpoll, 319: callEpoll, 441: callEpoll2,
		7: callWait, 114: callWait, 284: callWait,
		240: callFutex, 422: callFutex, 449: callFutex, 455: callFutex,
		426: callRing, 0: callRestart,
	}}

	abiARM = &abi{word: 4, calls: map[int]callKind{
		3: callRead, 145: callRead, 392: callRead, 340: callRead,
		142: callSelect, 335: callSelect, 413: callSelect,
		168: callPoll, 336: callPpoll, 414: callPpoll,
		252: callEpoll, 346: callEpoll, 441: callEpoll2,
		114: callWait, 280: callWait,
		240: callFutex, 422: callFutex, 449: callFutex, 455: callFutex,
		426: callRing, 0: callRestart,
	}}
)

// machines are the tables of 32-bit programs, by the machine of their ELF
// header. x32 and ILP32 programs have that of a 64-bit machine and no table.
var machines = map[uint16]*abi{
	3:  abi386, // EM_386
	40: abiARM, // EM_ARM
}

// nativeABI is the numbering of the host's own programs, nil where no table
// covers them: there a blocked read cannot be proved.
var nativeABI = abiOf(runtime.GOARCH)

func abiOf(arch string) *abi {
	switch arch {
	case "amd64":
		return abiAMD64
	case "arm64", "riscv64", "loong64":
		return abiGeneric
	case "386":
		return abi386
	case "arm":
		return abiARM
	}
	return nil
}
