package posix

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"

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
)

var (
	ttyAlias = unix.Mkdev(5, 0) // /dev/tty: the controlling terminal of whoever opens it
	ptmx     = unix.Mkdev(5, 2)
)

// want is what a thread may be blocked reading.
type want struct {
	terminal fileID
	rdevOnly bool    // of terminal, only the device number is known
	channel  *fileID // nil for none
}

// subject is one thread under examination.
type subject struct {
	pid, tid int
	dir      int    // a kept descriptor of /proc/PID/fd, or -1
	tty      uint64 // the device of its controlling terminal
	ttyKnown bool
}

func (s *subject) path(name string) string {
	return "/proc/" + strconv.Itoa(s.pid) + "/task/" + strconv.Itoa(s.tid) + "/" + name
}

// file identifies one of the thread's open files.
func (s *subject) file(fd int) (fileID, error) {
	var st unix.Stat_t
	var err error
	if s.dir >= 0 {
		err = unix.Fstatat(s.dir, strconv.Itoa(fd), &st, 0)
	} else {
		err = unix.Stat(s.path("fd/")+strconv.Itoa(fd), &st)
	}
	return fileIDOf(&st), err
}

// matches tells whether id is what is wanted. /dev/tty has an identity of its
// own and stands for the terminal that the process belongs to.
func (s *subject) matches(w want, id fileID) (terminal, channel bool) {
	if w.channel != nil && id == *w.channel {
		return false, true
	}
	if id == w.terminal || w.rdevOnly && id.rdev == w.terminal.rdev {
		return true, false
	}
	if id.rdev == ttyAlias {
		if !s.ttyKnown {
			st, err := readStat(s.path("stat"))
			s.tty, s.ttyKnown = st.tty, err == nil
		}
		return s.ttyKnown && s.tty == w.terminal.rdev, false
	}
	return false, false
}

// found is what the examination of one blocked call gave.
type found struct {
	terminal, channel bool
	timed             bool
	children          bool // it waits for a child
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
		where, err := readProc(s.path("wchan"), buf[:])
		if err != nil || !strings.Contains(string(where), "poll") {
			return found{unknown: true}
		}
		kind = callPoll
	}
	args := line.args
	switch kind {
	case callRead:
		return s.onFile(int(int32(args[0])), w)
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
		return s.onEpoll(int(int32(args[0])), int32(args[3]) >= 0, w, maxEpollDepth)
	case callEpoll2:
		return s.onEpoll(int(int32(args[0])), args[3] != 0, w, maxEpollDepth)
	case callWait:
		return found{children: true}
	case callRing:
		return found{unknown: true}
	}
	return found{}
}

// table returns the numbering that the thread uses: a 32-bit program on a
// 64-bit system prints the numbers of its own.
func (s *subject) table(line syscallLine) *abi {
	if nativeABI == nil || nativeABI.word == 4 || line.pc>>32 != 0 {
		return nativeABI
	}
	// Code below 4 GiB: a 32-bit program, or one that is linked to a fixed low
	// address.
	file, err := os.Open(procPath(s.pid, "exe"))
	if err != nil {
		return nil
	}
	defer file.Close()
	var header [20]byte
	if _, err := file.ReadAt(header[:], 0); err != nil || string(header[:4]) != "\x7fELF" {
		return nil
	}
	const elf64 = 2
	if header[4] == elf64 {
		return nativeABI
	}
	return machines[binary.NativeEndian.Uint16(header[18:])]
}

func (s *subject) onFile(fd int, w want) found {
	id, err := s.file(fd)
	if err != nil {
		return found{unknown: !errors.Is(err, unix.ENOENT)}
	}
	terminal, channel := s.matches(w, id)
	return found{terminal: terminal, channel: channel}
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
			result = result.or(s.onFile(fd, w))
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
			result = result.or(s.onFile(fd, w))
		}
	}
	result.timed = timed
	return result
}

func (s *subject) onEpoll(epfd int, timed bool, w want, depth int) found {
	data, err := os.ReadFile(s.path("fdinfo/" + strconv.Itoa(epfd)))
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
		id, err := s.file(target.fd)
		if err != nil || !target.is(fileID{dev: id.dev, ino: id.ino}) {
			continue
		}
		terminal, _ := s.matches(w, id)
		result.terminal = result.terminal || terminal
		if id.rdev == 0 && depth > 1 {
			link, err := os.Readlink(s.path("fd/" + strconv.Itoa(target.fd)))
			if err == nil && link == "anon_inode:[eventpoll]" {
				result = result.or(s.onEpoll(target.fd, timed, w, depth-1))
			}
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
	f.unknown = f.unknown || other.unknown
	f.memory = f.memory || other.memory
	return f
}

// memory reads the thread's memory at address.
func (s *subject) memory(address uint64, into []byte) error {
	local := []unix.Iovec{{Base: &into[0]}}
	local[0].SetLen(len(into))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(into)}}
	n, err := unix.ProcessVMReadv(s.tid, local, remote, 0)
	if err == nil && n == len(into) {
		return nil
	}
	// Some container profiles refuse the call but not the file.
	file, err := os.Open(s.path("mem"))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.ReadAt(into, int64(address))
	return err
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
