package posix

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file answers what one thread is blocked in, and on which files.

const (
	maxSelect = 8192 // descriptors of one fd_set that are looked at
	maxPoll   = 1024 // entries of one poll that are looked at

	// readable are POLLIN, POLLPRI and POLLRDNORM, the same bits in epoll.
	readable = 0x001 | 0x002 | 0x040

	// maxEpollDepth allows an epoll set within another.
	maxEpollDepth = 2

	// loopStep is the longest limit of an epoll wait that counts as one. An event
	// loop's next timer is its own business (V8 tidies up after eight seconds),
	// but a loop that wakes this often does something by itself.
	loopStep = time.Second
)

// The names by which the kernel shows files that have none.
const (
	epollLink = "anon_inode:[eventpoll]"
	ringLink  = "anon_inode:[io_uring]"
)

var (
	ttyAlias = unix.Mkdev(5, 0) // /dev/tty: the controlling terminal of whoever opens it
	ptmx     = unix.Mkdev(5, 2)
)

// want is what a thread may be blocked reading.
type want struct {
	terminal fileID
	rdevOnly bool    // of terminal, only the device number is known
	group    int     // the terminal's foreground group, 0 when it does not matter
	channel  *fileID // nil for none
}

// source is where the evidence about one thread comes from. Tests put records
// in its place of what this machine does not show.
type source interface {
	read(name string, buf []byte) ([]byte, error) // a file of the thread's folder in /proc
	readAll(name string) ([]byte, error)
	link(fd int) (string, error)
	stat(fd int, st *unix.Stat_t) error
	protocol(fd int) string // of a socket, as the kernel calls it; empty when unknown
	memory(address uint64, into []byte) error
}

// subject is one thread under examination.
type subject struct {
	source
	owner procStat // of the process, once known is set
	known bool
}

// liveThread is the source of a thread of this system.
type liveThread struct {
	pid, tid int
	dir      int // a kept descriptor of /proc/PID/fd, or -1
}

func (l *liveThread) path(name string) string {
	return taskPath(l.pid, l.tid, name)
}

func (l *liveThread) file(fd int) string { return l.path("fd/" + strconv.Itoa(fd)) }

func (l *liveThread) read(name string, buf []byte) ([]byte, error) {
	return readProc(l.path(name), buf)
}

func (l *liveThread) readAll(name string) ([]byte, error) { return os.ReadFile(l.path(name)) }

func (l *liveThread) link(fd int) (string, error) { return os.Readlink(l.file(fd)) }

func (l *liveThread) stat(fd int, st *unix.Stat_t) error {
	if l.dir >= 0 {
		return unix.Fstatat(l.dir, strconv.Itoa(fd), st, 0)
	}
	return unix.Stat(l.file(fd), st)
}

func (l *liveThread) protocol(fd int) string {
	var name [32]byte
	n, err := unix.Getxattr(l.file(fd), "system.sockprotoname", name[:])
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(name[:n])
}

// matches tells whether id is what is wanted. /dev/tty has an identity of its
// own and stands for the terminal that the process belongs to. The number of
// that may be another terminal's of another mount of devpts: its foreground
// group tells them apart.
func (s *subject) matches(w want, id fileID) (terminal, channel bool) {
	if w.channel != nil && id == *w.channel {
		return false, true
	}
	if id == w.terminal || w.rdevOnly && id.rdev == w.terminal.rdev {
		return true, false
	}
	if id.rdev != ttyAlias {
		return false, false
	}
	if !s.known {
		var buf [1024]byte
		data, err := s.read("stat", buf[:])
		if err != nil {
			return false, false
		}
		if s.owner, err = parseStat(data); err != nil {
			return false, false
		}
		s.known = true
	}
	return s.owner.tty == w.terminal.rdev && (w.group == 0 || s.owner.tpgid == w.group), false
}

// found is what the examination of one blocked call gave.
type found struct {
	terminal, channel bool
	timed             bool
	children          bool // it waits for a child
	futex             bool // it waits for another thread, of whatever process
	network           bool // it waits for a network connection as well
	unknown           bool // something hides what is waited for

	// memory says that the thread's memory was read: the answer holds only if
	// the thread is still in the same call afterwards.
	memory bool
}

// examine tells whether the call that line shows reads what is wanted.
func (s *subject) examine(line syscallLine, w want) found {
	table := s.table(line)
	if table == nil {
		return found{unknown: true}
	}
	kind := table.calls[line.nr]
	if kind == callRestart {
		// poll and sleeps go on this way after SIGSTOP and SIGCONT, with their
		// arguments still in place. Only the kernel function tells them apart.
		var buf [128]byte
		where, err := s.read("wchan", buf[:])
		if err != nil || !strings.Contains(string(where), "poll") {
			return found{unknown: true}
		}
		kind = callPoll
	}
	args := line.args
	switch kind {
	case callRead:
		return s.onFile(int(int32(args[0])), w, 0)
	case callOldSelect:
		words, err := s.words(args[0], 5, table.word)
		if err != nil {
			return found{unknown: true}
		}
		copy(args[:], words)
		return s.onSelect(args, w)
	case callSelect:
		return s.onSelect(args, w)
	case callPoll:
		return s.onPoll(args[0], args[1], int32(args[2]) >= 0, w)
	case callPpoll:
		return s.onPoll(args[0], args[1], args[2] != 0, w)
	case callEpoll:
		limit := time.Duration(int32(args[3])) * time.Millisecond
		return s.onEpoll(int(int32(args[0])), limit >= 0 && limit <= loopStep, w, maxEpollDepth)
	case callEpoll2:
		return s.onEpoll(int(int32(args[0])), args[3] != 0 && s.within(args[3], loopStep), w, maxEpollDepth)
	case callWait:
		return found{children: true}
	case callFutex:
		return found{futex: true}
	case callRing:
		return found{unknown: true}
	}
	return found{}
}

// table returns the numbering that the thread uses, nil for one that is not
// known: a 32-bit program on a 64-bit system prints the numbers of its own.
func (s *subject) table(line syscallLine) *abi {
	if nativeABI == nil || nativeABI.word == 4 || line.pc>>32 != 0 {
		return nativeABI
	}
	// Code below 4 GiB: a 32-bit program, or one that is linked to a fixed low
	// address.
	var header [20]byte
	data, err := s.read("exe", header[:])
	if err != nil || len(data) < len(header) || string(header[:4]) != "\x7fELF" {
		return nil
	}
	const elf64 = 2
	if header[4] == elf64 {
		return nativeABI
	}
	return machines[binary.NativeEndian.Uint16(header[18:])]
}

// onFile examines one descriptor that is waited for. depth is how many epoll
// sets it may lead through.
func (s *subject) onFile(fd int, w want, depth int) found {
	var st unix.Stat_t
	if err := s.stat(fd, &st); err != nil {
		return found{unknown: !errors.Is(err, unix.ENOENT)}
	}
	terminal, channel := s.matches(w, fileIDOf(&st))
	if terminal || channel {
		return found{terminal: terminal, channel: channel}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		return found{network: isNetwork(s.protocol(fd))}
	case 0: // a file without a name
		switch link, err := s.link(fd); {
		case err != nil:
			return found{unknown: true}
		case link == epollLink && depth > 0:
			return s.onEpoll(fd, false, w, depth)
		case link == epollLink, link == ringLink:
			return found{unknown: true} // whatever ends there may be of any file
		}
	}
	return found{}
}

func isNetwork(protocol string) bool {
	for _, family := range []string{"TCP", "UDP", "MPTCP", "SCTP", "VSOCK"} {
		if strings.HasPrefix(strings.ToUpper(protocol), family) {
			return true
		}
	}
	return false
}

func (s *subject) onSelect(args [6]uint64, w want) found {
	count := min(int(int32(args[0])), maxSelect)
	if count <= 0 || args[1] == 0 {
		return found{}
	}
	set := make([]byte, (count+7)/8)
	if err := s.memory(args[1], set); err != nil {
		return found{unknown: true}
	}
	// Bytes and words agree on little-endian systems, which all tables are for.
	result := found{memory: true}
	for fd := range count {
		if set[fd/8]&(1<<(fd%8)) != 0 {
			result = result.or(s.onFile(fd, w, maxEpollDepth))
		}
	}
	result.timed = args[4] != 0
	return result
}

func (s *subject) onPoll(address, count uint64, timed bool, w want) found {
	const size = 8 // int fd; short events, revents
	count = min(count, maxPoll)
	if count == 0 {
		return found{}
	}
	entries := make([]byte, count*size)
	if err := s.memory(address, entries); err != nil {
		return found{unknown: true}
	}
	result := found{memory: true}
	for ; len(entries) > 0; entries = entries[size:] {
		fd := int(int32(binary.NativeEndian.Uint32(entries)))
		events := binary.NativeEndian.Uint16(entries[4:])
		if fd >= 0 && events&readable != 0 {
			result = result.or(s.onFile(fd, w, maxEpollDepth))
		}
	}
	result.timed = timed
	return result
}

func (s *subject) onEpoll(epfd int, timed bool, w want, depth int) found {
	data, err := s.readAll("fdinfo/" + strconv.Itoa(epfd))
	if err != nil {
		return found{unknown: true}
	}
	var result found
	for _, target := range parseEpoll(data) {
		if target.events&readable == 0 {
			continue
		}
		// The number was right when it was registered; inode and device are.
		if !w.rdevOnly && target.is(w.terminal) {
			result.terminal = true
			continue
		}
		if w.channel != nil && target.is(*w.channel) {
			result.channel = true
			continue
		}
		var st unix.Stat_t
		if err := s.stat(target.fd, &st); err == nil && target.is(fileIDOf(&st)) {
			result = result.or(s.onFile(target.fd, w, depth-1))
		}
	}
	result.timed = timed
	return result
}

// is compares by inode and device. The kernel prints its own form of a device
// number, stat another.
func (t epollTarget) is(id fileID) bool {
	const minorBits = 20
	return t.ino == id.ino && t.sdev == uint64(unix.Major(id.dev))<<minorBits|uint64(unix.Minor(id.dev))
}

func (f found) or(other found) found {
	f.terminal = f.terminal || other.terminal
	f.channel = f.channel || other.channel
	f.network = f.network || other.network
	f.unknown = f.unknown || other.unknown
	f.memory = f.memory || other.memory
	return f
}

func (l *liveThread) memory(address uint64, into []byte) error {
	local := []unix.Iovec{{Base: &into[0]}}
	local[0].SetLen(len(into))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(into)}}
	n, err := unix.ProcessVMReadv(l.tid, local, remote, 0)
	if err == nil && n == len(into) {
		return nil
	}
	// Some container profiles refuse the call but not the file.
	file, err := os.Open(l.path("mem"))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.ReadAt(into, int64(address))
	return err
}

// within tells whether the 64-bit timespec at address is at most limit, or
// cannot be read.
func (s *subject) within(address uint64, limit time.Duration) bool {
	parts, err := s.words(address, 2, 8)
	return err != nil || parts[0] <= uint64(limit/time.Second) && time.Duration(parts[0])*time.Second+time.Duration(parts[1]) <= limit
}

func (s *subject) words(address uint64, count, size int) ([]uint64, error) {
	data := make([]byte, count*size)
	if err := s.memory(address, data); err != nil {
		return nil, err
	}
	words := make([]uint64, count)
	for i := range words {
		if size == 8 {
			words[i] = binary.NativeEndian.Uint64(data[i*size:])
		} else {
			words[i] = uint64(binary.NativeEndian.Uint32(data[i*size:]))
		}
	}
	return words, nil
}
