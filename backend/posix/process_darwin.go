package posix

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	hostDeathWhole = false
	stateStopped   = 4 // SSTOP of <sys/proc.h>
	stateZombie    = 5 // SZOMB
)

// kernTable is the process table of sysctl(3).
type kernTable struct{}

func systemTable() processTable { return kernTable{} }

func processOf(k *unix.KinfoProc) process {
	p := process{
		identity: identity{
			pid:   int(k.Proc.P_pid),
			start: uint64(k.Proc.P_starttime.Sec)*1e6 + uint64(k.Proc.P_starttime.Usec),
		},
		ppid:    int(k.Eproc.Ppid),
		pgid:    int(k.Eproc.Pgid),
		zombie:  k.Proc.P_stat == stateZombie,
		stopped: k.Proc.P_stat == stateStopped,
		name:    unix.ByteSliceToString(k.Proc.P_comm[:]),
	}
	if k.Eproc.Tdev != -1 {
		p.tty = uint64(uint32(k.Eproc.Tdev))
	}
	// The table holds the session as a kernel pointer only.
	if sid, err := unix.Getsid(p.pid); err == nil {
		p.sid = sid
	}
	return p
}

func (kernTable) list() ([]process, error) {
	rows, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("posix: process table: %w", err)
	}
	all := make([]process, 0, len(rows))
	for i := range rows {
		all = append(all, processOf(&rows[i]))
	}
	return all, nil
}

func (kernTable) lookup(pid int) (process, error) {
	row, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(row.Proc.P_pid) != pid {
		return process{}, errGone
	}
	return processOf(row), nil
}

// marked reads the arguments and environment that a process was started with:
// the number of arguments, then strings that end in NUL.
func (kernTable) marked(id identity, mark string, _ uint64) bool {
	data, err := unix.SysctlRaw("kern.procargs2", id.pid)
	return err == nil && bytes.Contains(data, append([]byte{0}, mark+"="...))
}

func (t kernTable) signal(id identity, sig unix.Signal) error {
	if err := sendable(id.pid, os.Getpid()); err != nil {
		return err
	}
	p, err := t.lookup(id.pid)
	if err != nil {
		return err
	}
	if p.identity != id {
		return errGone
	}
	if err := unix.Kill(id.pid, sig); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return errGone
}

func (t kernTable) await(ids []identity, until time.Time) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	alive := 0
	for _, id := range ids {
		change := []unix.Kevent_t{{
			Ident:  uint64(id.pid),
			Filter: unix.EVFILT_PROC,
			Flags:  unix.EV_ADD | unix.EV_ONESHOT,
			Fflags: unix.NOTE_EXIT,
		}}
		if _, err := unix.Kevent(queue, change, nil, nil); err != nil {
			continue // it has ended
		}
		if p, err := t.lookup(id.pid); err == nil && p.identity == id && !p.zombie {
			alive++
		}
	}
	events := make([]unix.Kevent_t, 16)
	for alive > 0 {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		timeout := unix.NsecToTimespec(int64(min(left, math.MaxInt32*time.Millisecond)))
		n, err := unix.Kevent(queue, nil, events, &timeout)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		alive -= n
	}
}
