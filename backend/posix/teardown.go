//go:build linux || darwin

package posix

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

const (
	// killSettle is the least time that the kernel is given to end a killed
	// process, whatever the grace.
	killSettle = 500 * time.Millisecond

	// killRound is how long one round of kills is waited for before the tree is
	// scanned for what it forked in the meantime.
	killRound = 50 * time.Millisecond

	// firstReminder is the pause before the leader is asked to end once more; a
	// shell at its prompt has ended by then. Each later pause is twice as long.
	firstReminder = 20 * time.Millisecond

	// maxSurvived is after how many hang-ups in a row, each given more time than
	// the one before, a leader that rests will not end by itself.
	maxSurvived = 3

	// freezeRounds bounds the scans that stop a tree before it is killed.
	freezeRounds = 8
)

// teardown is one run of Terminate; concurrent calls share it.
type teardown struct {
	done chan struct{}
	err  error // valid once done is closed
}

// Terminate ends the whole tree. See backend.Device. ctx bounds the caller's
// wait alone: the teardown itself goes on, bounded by grace at each step.
func (d *device) Terminate(ctx context.Context, grace time.Duration) error {
	d.closing.Lock()
	if d.closed {
		d.closing.Unlock()
		return nil
	}
	run := d.run
	if run == nil {
		run = &teardown{done: make(chan struct{})}
		d.run = run
		go d.terminate(run, grace)
	}
	d.closing.Unlock()

	select {
	case <-run.done:
		return run.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *device) terminate(run *teardown, grace time.Duration) {
	err := d.endTree(grace)
	if err == nil {
		d.lease.release()
		d.release()
	}
	d.closing.Lock()
	d.run, d.closed, run.err = nil, err == nil, err
	d.closing.Unlock()
	close(run.done)
}

// endTree ends the children first, then the leader, then whatever they forked
// while they died.
func (d *device) endTree(grace time.Duration) error {
	leader := []process{{identity: d.family.leader}}
	if !d.hasExited() {
		// A shell whose foreground child is ended would go on with the next
		// line of its script.
		d.family.send(leader, unix.SIGSTOP)
	}
	if _, err := d.family.end(grace, false); err != nil {
		return err
	}
	if !d.endedWithin(0) {
		if !d.leaderObeys(leader, grace) {
			d.family.send(leader, unix.SIGKILL)
			d.endedWithin(max(grace, killSettle))
		}
	}
	left, err := d.family.end(grace, true)
	if err != nil {
		return err
	}
	d.family.endLaunchers(max(grace, killSettle))
	return d.survivors(left)
}

// leaderObeys asks the leader to end and waits for up to grace. The hang-up is
// repeated: a shell may take note of one that comes while it starts, and then
// wait for input without a look at its notes. Grace is for a program that is
// doing something: one that rests at its input after several hang-ups has had
// its answer.
func (d *device) leaderObeys(leader []process, grace time.Duration) bool {
	d.family.send(leader, unix.SIGHUP, unix.SIGTERM, unix.SIGCONT)
	deadline := time.Now().Add(grace)
	survived := 0
	for pause := firstReminder; ; pause *= 2 {
		left := time.Until(deadline)
		if d.endedWithin(min(pause, left)) {
			return true
		}
		if survived++; !d.rests() {
			survived = 0
		}
		if left <= pause || survived == maxSurvived {
			return false
		}
		d.family.send(leader, unix.SIGHUP)
	}
}

func (d *device) endedWithin(limit time.Duration) bool {
	if limit <= 0 || d.hasExited() {
		return d.hasExited()
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-d.exited:
		return true
	case <-timer.C:
		return false
	}
}

func (d *device) survivors(left []process) error {
	var survivors []backend.Process
	if !d.hasExited() {
		p, err := d.family.table.lookup(d.pid)
		if err == nil && p.identity == d.family.leader {
			survivors = append(survivors, p.public())
		}
	}
	for _, p := range left {
		survivors = append(survivors, p.public())
	}
	if len(survivors) == 0 {
		return nil
	}
	return &backend.SurvivorsError{Processes: survivors}
}

// release gives back what the device holds, the terminal last: closing it hangs
// it up, and its programs must be gone by then in the right order.
func (d *device) release() {
	reap(d.proc)
	close(d.isClosed)
	d.probe.close()
	if d.channel != nil {
		d.channel.shut()
	}
	d.reading.mu.Lock()
	d.reading.eof = true
	d.reading.mu.Unlock()
	_ = d.term.master.Close()
}

// end ends all members but the leader: asked first, killed after grace. It
// returns what its last scan found alive. Programs of another user that the host
// may not signal (sudo) end with the leader, by the hang-up of the terminal; so
// they are waited for in the last run alone.
func (f *family) end(grace time.Duration, last bool) (left []process, err error) {
	asked, denied := make(map[identity]bool), make(map[identity]bool)
	for deadline := time.Now().Add(grace); ; {
		members, err := f.members()
		if err != nil {
			return nil, fmt.Errorf("posix: scan the process tree: %w", err)
		}
		if len(members) == 0 {
			return nil, nil
		}
		fresh := slices.DeleteFunc(slices.Clone(members), func(p process) bool { return asked[p.identity] })
		for _, p := range fresh {
			asked[p.identity] = true
		}
		// The last one wakes stopped jobs, which die of the first two then.
		for _, p := range f.send(fresh, unix.SIGHUP, unix.SIGTERM, unix.SIGCONT) {
			denied[p.identity] = true
		}
		if !time.Now().Before(deadline) {
			break
		}
		if !last && !slices.ContainsFunc(members, func(p process) bool { return !denied[p.identity] }) {
			return members, nil
		}
		f.table.await(identities(members), deadline)
	}
	return f.kill(max(grace, killSettle))
}

// kill kills all members but the leader, and what they fork until they are dead.
// limit counts from the first kill: on a busy machine the scans before it can
// take as long.
func (f *family) kill(limit time.Duration) (left []process, err error) {
	var deadline time.Time
	for {
		members, err := f.freeze()
		if err != nil {
			return nil, fmt.Errorf("posix: scan the process tree: %w", err)
		}
		if len(members) == 0 || !deadline.IsZero() && !time.Now().Before(deadline) {
			return members, nil
		}
		if denied := f.send(members, unix.SIGKILL); len(denied) == len(members) {
			return members, nil
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(limit)
		}
		until := now.Add(killRound)
		if until.After(deadline) {
			until = deadline
		}
		f.table.await(identities(members), until)
	}
}

// freeze stops the tree until a scan finds nothing new, so that it cannot fork
// faster than it is killed.
func (f *family) freeze() ([]process, error) {
	frozen := make(map[identity]bool)
	for round := 1; ; round++ {
		members, err := f.members()
		if err != nil {
			return nil, err
		}
		fresh := slices.DeleteFunc(slices.Clone(members), func(p process) bool { return frozen[p.identity] })
		for _, p := range fresh {
			frozen[p.identity] = true
		}
		if len(fresh) == 0 || round == freezeRounds {
			return members, nil
		}
		f.send(fresh, unix.SIGSTOP)
	}
}
