package posix

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

var _ backend.MissedInterrupter = (*device)(nil)

const (
	// startsFor is how long a program that was just forked may miss an
	// interrupt: until it is the program that it shall be, it is a copy of the
	// shell, which only takes note.
	startsFor = 250 * time.Millisecond

	// clockTick is the unit of start times, the same on all architectures.
	clockTick = 10 * time.Millisecond
)

// InterruptMissed repeats an interrupt that was missed. See
// backend.MissedInterrupter.
func (d *device) InterruptMissed(ctx context.Context) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	pgid, err := d.term.foreground()
	if err != nil {
		return false, err
	}
	if pgid == d.pid {
		if !d.waitsForChild() {
			return false, nil
		}
		if pgid, err = d.strandedJob(); pgid == 0 {
			return false, err
		}
	} else if !d.missed(pgid) {
		return false, nil
	}
	if _, err := d.interruptGroup(pgid, false); err != nil {
		return false, err
	}
	return true, nil
}

// waitsForChild tells whether the program is blocked waiting for a child, and no
// interrupt is about to end that.
func (d *device) waitsForChild() bool {
	if nativeABI == nil {
		return false
	}
	var buf [4096]byte
	data, err := readProc(procPath(d.pid, "syscall"), buf[:])
	if err != nil {
		return false
	}
	line, err := parseSyscall(data)
	if err != nil || !line.blocked || nativeABI.calls[line.nr] != callWait {
		return false
	}
	status, err := readProc(procPath(d.pid, "status"), buf[:])
	return err == nil && !interruptIn(status, "SigPnd", "ShdPnd")
}

// strandedJob returns the group of the job that the program waits for, 0 when
// that is its own. It is the youngest child's: a program that waits starts
// nothing.
func (d *device) strandedJob() (pgid int, err error) {
	all, err := d.family.table.list()
	if err != nil {
		return 0, fmt.Errorf("posix: scan the process tree: %w", err)
	}
	var job process
	for _, p := range all {
		if p.ppid == d.pid && !p.zombie && cmp.Or(cmp.Compare(p.start, job.start), cmp.Compare(p.pid, job.pid)) > 0 {
			job = p
		}
	}
	if job.pgid <= 1 || job.pgid == d.pid {
		return 0, nil
	}
	return job.pgid, nil
}

// missed tells whether the foreground group pgid missed its interrupt: its
// leader was just started, or would have died of one.
func (d *device) missed(pgid int) bool {
	leader, err := d.family.table.lookup(pgid)
	if err != nil || leader.zombie || leader.stopped {
		return false
	}
	if leader.isYoung() {
		return true
	}
	var buf [4096]byte
	status, err := readProc(procPath(pgid, "status"), buf[:])
	return err == nil && !interruptIn(status, "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")
}

// isYoung tells whether p may not be the program yet that it shall be.
func (p process) isYoung() bool {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return err == nil && time.Duration(now.Nano())-time.Duration(p.start)*clockTick < startsFor
}

// interruptIn tells whether SIGINT is in one of the masks of /proc/PID/status.
func interruptIn(status []byte, masks ...string) bool {
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if !slices.Contains(masks, name) {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && mask&(1<<(unix.SIGINT-1)) != 0 {
			return true
		}
	}
	return false
}
