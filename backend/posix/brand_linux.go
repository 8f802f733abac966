package posix

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bounds of a brand, in microseconds: the lower one is 12 days of a real-time
// program's computing without a break, which none does.
const (
	brandLeast = 1 << 40
	brandMost  = 1 << 62
)

// brand gives pid a resource limit of a random size, which all that it starts
// inherits: a program that leaves the session, the tree and its environment
// behind at once is still known by it. The limit is on the time that a program
// of real-time priority may compute without a break; nothing else looks at it.
// It returns 0 where no such limit can be set.
func brand(pid int) uint64 {
	var has unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &has); err != nil {
		return 0
	}
	// A terminal inside a terminal has the outer one's limit, and cannot raise it.
	most := min(has.Max, brandMost)
	if most <= brandLeast {
		return 0
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	limit := brandLeast + binary.NativeEndian.Uint64(random[:])%(most-brandLeast)
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		return 0
	}
	return limit
}

// treeGap says what escapes a teardown; empty: nothing does.
func treeGap() string {
	var has unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &has); err == nil && has.Max > brandLeast {
		return ""
	}
	return "a process that leaves the session, the tree and its environment behind at once " +
		"(env -i setsid with a double fork) is found again only if it was seen before: " +
		"the limit RLIMIT_RTTIME, which it would be known by, is too low here"
}

// branded tells whether pid has the limit.
func branded(pid int, limit uint64) bool {
	limits, err := os.ReadFile(procPath(pid, "limits"))
	if err != nil {
		return false
	}
	_, line, ok := bytes.Cut(limits, []byte("\nMax realtime timeout "))
	if !ok {
		return false
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	fields := bytes.Fields(line)
	// The hard limit stays whatever a program does to the soft one.
	return len(fields) >= 2 && string(fields[1]) == strconv.FormatUint(limit, 10)
}
