package posix

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// procStat is what is used of /proc/PID/stat.
type procStat struct {
	process
	state byte
	tpgid int // the foreground group of its controlling terminal
}

// parseStat reads /proc/PID/stat. The name stands in parentheses and may hold
// any byte, parentheses, spaces and newlines included, so the fields are
// counted from the last closing one.
func parseStat(data []byte) (procStat, error) {
	open := bytes.IndexByte(data, '(')
	end := bytes.LastIndexByte(data, ')')
	if open < 1 || end < open {
		return procStat{}, errors.New("posix: malformed stat: no name")
	}
	var s procStat
	var err error
	if s.pid, err = strconv.Atoi(string(bytes.TrimSpace(data[:open]))); err != nil {
		return procStat{}, fmt.Errorf("posix: malformed stat: %w", err)
	}
	s.name = string(data[open+1 : end])

	// The fields after the name, counted from 3 as proc(5) does.
	const (
		fieldState   = 3
		fieldParent  = 4
		fieldGroup   = 5
		fieldSession = 6
		fieldTTY     = 7
		fieldTPGID   = 8
		fieldThreads = 20
		fieldStart   = 22
	)
	threads := 0
	rest := data[end+1:]
	for field := fieldState; field <= fieldStart; field++ {
		rest = bytes.TrimLeft(rest, " ")
		value := rest
		if at := bytes.IndexByte(rest, ' '); at >= 0 {
			value, rest = rest[:at], rest[at:]
		} else {
			rest = nil
		}
		value = bytes.TrimRight(value, "\n")
		if len(value) == 0 {
			return procStat{}, errors.New("posix: malformed stat: too few fields")
		}
		switch field {
		case fieldState:
			s.state = value[0]
		case fieldParent:
			s.ppid, err = strconv.Atoi(string(value))
		case fieldGroup:
			s.pgid, err = strconv.Atoi(string(value))
		case fieldSession:
			s.sid, err = strconv.Atoi(string(value))
		case fieldTTY:
			var tty int64
			tty, err = strconv.ParseInt(string(value), 10, 64)
			s.tty = uint64(uint32(tty)) // printed as a signed 32-bit number
		case fieldTPGID:
			s.tpgid, err = strconv.Atoi(string(value))
		case fieldThreads:
			threads, err = strconv.Atoi(string(value))
		case fieldStart:
			s.start, err = strconv.ParseUint(string(value), 10, 64)
		}
		if err != nil {
			return procStat{}, fmt.Errorf("posix: malformed stat: %w", err)
		}
	}
	// A program goes on when its first thread has ended before the others.
	s.zombie = threads <= 1 && (s.state == 'Z' || s.state == 'X' || s.state == 'x')
	s.stopped = s.state == 'T' || s.state == 't'
	return s, nil
}

// syscallLine is what /proc/PID/syscall says of one thread.
type syscallLine struct {
	blocked bool // in a system call; otherwise it runs, or waits outside of one
	nr      int
	args    [6]uint64
	pc      uint64
}

// parseSyscall reads "running", "-1 SP PC" or "NR A0 A1 A2 A3 A4 A5 SP PC".
func parseSyscall(data []byte) (syscallLine, error) {
	text := strings.TrimSuffix(string(data), "\n")
	if text == "running" || strings.HasPrefix(text, "-1 ") {
		return syscallLine{}, nil
	}
	var line syscallLine
	word, rest, _ := strings.Cut(text, " ")
	var err error
	if line.nr, err = strconv.Atoi(word); err != nil {
		return syscallLine{}, fmt.Errorf("posix: malformed syscall line: %w", err)
	}
	const words = 8 // six arguments, stack pointer, program counter
	for i := range words {
		if rest == "" {
			return syscallLine{}, errors.New("posix: malformed syscall line: too few words")
		}
		word, rest, _ = strings.Cut(rest, " ")
		digits, ok := strings.CutPrefix(word, "0x")
		if !ok {
			return syscallLine{}, fmt.Errorf("posix: malformed syscall line: %q is not hexadecimal", word)
		}
		value, err := strconv.ParseUint(digits, 16, 64)
		if err != nil {
			return syscallLine{}, fmt.Errorf("posix: malformed syscall line: %w", err)
		}
		switch {
		case i < len(line.args):
			line.args[i] = value
		case i == words-1:
			line.pc = value
		}
	}
	// The kernel's own threads, those that io_uring adds to a program among
	// them, are in no call of a program: what shows is left over.
	line.blocked = line.pc != 0
	return line, nil
}

// epollTarget is one registration of an epoll descriptor.
type epollTarget struct {
	fd     int // the number at the time of registration; it may be stale
	events uint64
	ino    uint64
	sdev   uint64 // as the kernel numbers devices: major<<20 | minor
}

// parseEpoll reads the registrations from /proc/PID/fdinfo/EPFD:
// "tfd: 0 events: 19 data: 0 pos:0 ino:3 sdev:1a".
func parseEpoll(data []byte) []epollTarget {
	var targets []epollTarget
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(strings.ReplaceAll(line, ":", " "))
		if len(words) == 0 || words[0] != "tfd" {
			continue
		}
		target := epollTarget{fd: -1}
		for i := 0; i+1 < len(words); i += 2 {
			base := 16
			if words[i] == "tfd" {
				base = 10
			}
			value, err := strconv.ParseUint(words[i+1], base, 64)
			if err != nil {
				continue
			}
			switch words[i] {
			case "tfd":
				target.fd = int(value)
			case "events":
				target.events = value
			case "ino":
				target.ino = value
			case "sdev":
				target.sdev = value
			}
		}
		targets = append(targets, target)
	}
	return targets
}

// parseTTYIndex reads from /proc/PID/fdinfo/FD the number of the terminal that
// a master descriptor controls.
func parseTTYIndex(data []byte) (int, bool) {
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "tty-index:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			return n, err == nil
		}
	}
	return 0, false
}

// parseIgnored reads the mask of ignored signals from /proc/PID/status.
func parseIgnored(data []byte) uint64 {
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			mask, _ := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return mask
		}
	}
	return 0
}

// parseTurns reads from /proc/PID/schedstat how often a thread was given a CPU:
// its third number.
func parseTurns(data []byte) uint64 {
	words := bytes.Fields(data)
	if len(words) < 3 {
		return 0
	}
	n, _ := strconv.ParseUint(string(words[2]), 10, 64)
	return n
}
