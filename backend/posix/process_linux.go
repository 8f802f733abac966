package posix

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	hostDeathWhole = true

	// maxPolled bounds the descriptors that one wait opens; what is beyond is
	// seen by the next scan.
	maxPolled = 256

	// pollStep paces a wait where the kernel has no process descriptors.
	pollStep = 2 * time.Millisecond
)

// procTable is the process table of /proc.
type procTable struct{}

func systemTable() processTable { return procTable{} }

// readProc reads a small file of /proc into buf and returns the part that it
// filled, without the stat calls and allocations of os.ReadFile.
func readProc(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readFD(fd, buf)
}

func readFD(fd int, buf []byte) ([]byte, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

func taskPath(pid, tid int, name string) string {
	return procPath(pid, "task/"+strconv.Itoa(tid)+"/"+name)
}

func (procTable) list() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]process, 0, len(names))
	var buf [1024]byte
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		data, err := readProc("/proc/"+name+"/stat", buf[:])
		if err != nil {
			continue // it has ended, or belongs to somebody who hides it
		}
		if s, err := parseStat(data); err == nil {
			all = append(all, s.process)
		}
	}
	return all, nil
}

func (procTable) lookup(pid int) (process, error) {
	s, err := readStat(procPath(pid, "stat"))
	return s.process, err
}

func readStat(path string) (procStat, error) {
	var buf [1024]byte
	data, err := readProc(path, buf[:])
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return procStat{}, errGone
	}
	if err != nil {
		return procStat{}, err
	}
	return parseStat(data)
}

func (procTable) marked(id identity, mark string, limit uint64) bool {
	if limit != 0 && branded(id.pid, limit) {
		return true
	}
	env, err := os.ReadFile(procPath(id.pid, "environ"))
	if err != nil {
		return false
	}
	want := []byte(mark + "=")
	return bytes.HasPrefix(env, want) || bytes.Contains(env, append([]byte{0}, want...))
}

func (t procTable) signal(id identity, sig unix.Signal) error {
	if err := sendable(id.pid, os.Getpid()); err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(id.pid, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	if errors.Is(err, unix.ESRCH) {
		return errGone
	}
	// The descriptor was opened first: if the start time is right now, it is the
	// right process that the descriptor holds on to.
	p, lookErr := t.lookup(id.pid)
	if lookErr != nil {
		return lookErr
	}
	if p.identity != id {
		return errGone
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	} else {
		err = unix.Kill(id.pid, sig) // before Linux 5.3, or filtered
	}
	if errors.Is(err, unix.ESRCH) {
		return errGone
	}
	return err
}

func (t procTable) await(ids []identity, until time.Time) {
	fds := make([]unix.PollFd, 0, min(len(ids), maxPolled))
	defer func() {
		for _, p := range fds {
			_ = unix.Close(int(p.Fd))
		}
	}()
	waiting := make([]unix.PollFd, 0, cap(fds))
	for _, id := range ids[:min(len(ids), maxPolled)] {
		fd, err := unix.PidfdOpen(id.pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.awaitSlowly(ids, until)
			return
		}
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		if p, err := t.lookup(id.pid); err == nil && p.identity == id && !p.zombie {
			waiting = append(waiting, fds[len(fds)-1])
		}
	}
	for len(waiting) > 0 {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		ms := int(min(int64(math.MaxInt32), int64(left/time.Millisecond)+1))
		n, err := unix.Poll(waiting, ms)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		waiting = slices.DeleteFunc(waiting, func(p unix.PollFd) bool { return p.Revents != 0 })
	}
}

func (t procTable) awaitSlowly(ids []identity, until time.Time) {
	for {
		alive := slices.ContainsFunc(ids, func(id identity) bool {
			p, err := t.lookup(id.pid)
			return err == nil && p.identity == id && !p.zombie
		})
		left := time.Until(until)
		if !alive || left <= 0 {
			return
		}
		time.Sleep(min(pollStep, left))
	}
}
