package conpty

import (
	"context"
	"io"
	"time"

	"github.com/shellstead/shellstead/backend"
)

const (
	// drainQuiet is the silence after which an exited program's output counts as
	// complete: a console paints some milliseconds after it was written to.
	drainQuiet = 200 * time.Millisecond

	// pipeQuiet is the same for a pipe, which holds everything at once.
	pipeQuiet = 20 * time.Millisecond

	// drainTotal bounds the drain while background processes go on writing.
	drainTotal = 2 * time.Second

	// killSettle is the least time that the system is given to end a killed
	// process, whatever the grace.
	killSettle = 500 * time.Millisecond

	// firstLook is the pause before a teardown looks again; each later one is
	// twice as long, up to lastLook.
	firstLook, lastLook = time.Millisecond, 20 * time.Millisecond
)

// drain is the state of the reading side.
type drain struct {
	since  time.Time     // of the first read after the program's end
	over   bool          // nothing more comes
	closed chan struct{} // closed by Terminate
}

// Read returns the output. See backend.Device.
func (d *device) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if d.reading.over {
			return 0, io.EOF
		}
		n, ended := d.read.take(p)
		if n > 0 {
			return n, nil
		}
		if ended || !d.awaitOutput() {
			d.reading.over = true
		}
	}
}

// awaitOutput waits for output. It returns false when an exited program's is
// complete.
func (d *device) awaitOutput() bool {
	if !d.hasExited() {
		select {
		case <-d.read.more:
			return true
		case <-d.reading.closed:
			return false
		case <-d.exited:
		}
	}
	if d.reading.since.IsZero() {
		d.reading.since = time.Now()
	}
	quiet := drainQuiet
	if d.output != nil {
		quiet = pipeQuiet
	}
	left := drainTotal - time.Since(d.reading.since)
	timer := time.NewTimer(min(quiet, max(left, 0)))
	defer timer.Stop()
	select {
	case <-d.read.more:
		return left > 0
	case <-d.reading.closed:
		return false
	case <-timer.C:
	}
	if members, err := d.job.members(); err != nil || len(members) > 0 || left <= 0 {
		return false // others may write for ever
	}
	// Nobody is left who could write: the pipe breaks once the console's last
	// picture has been read.
	if d.output == nil {
		d.console.shut()
	}
	end := time.NewTimer(left)
	defer end.Stop()
	select {
	case <-d.read.more:
		return true
	case <-d.reading.closed:
	case <-end.C:
	}
	return false
}

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
		d.release()
		d.guard(opUnguard)
	}
	d.closing.Lock()
	d.run, d.closed, run.err = nil, err == nil, err
	d.closing.Unlock()
	close(run.done)
}

// endTree closes the console, which tells its programs to end, then ends by
// force what is left in the job.
func (d *device) endTree(grace time.Duration) error {
	// The console goes when its output was taken, and no reader may be left.
	d.read.loosen()
	d.console.shut()
	if empty, err := d.empty(grace, true); empty || err != nil {
		return err
	}
	if err := d.job.kill(); err != nil {
		return err
	}
	empty, err := d.empty(max(grace, killSettle), false)
	if empty || err != nil {
		return err
	}
	members, err := d.job.members()
	if err != nil {
		return err
	}
	survivors := &backend.SurvivorsError{}
	for _, pid := range members {
		survivors.Processes = append(survivors.Processes, process(pid))
	}
	if len(survivors.Processes) == 0 {
		return nil
	}
	return survivors
}

// empty waits until no process is left in the job, for up to limit, and with
// told no longer than the console's own programs take: what is left then does
// not belong to the console and was never told to end.
func (d *device) empty(limit time.Duration, told bool) (bool, error) {
	gone := d.read
	if d.screen != nil {
		gone = d.screen
	}
	deadline := time.Now().Add(limit)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		members, err := d.job.members()
		if err != nil {
			return false, err
		}
		if len(members) == 0 && d.hasExited() {
			return true, nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		if !told {
			time.Sleep(min(pause, left))
			continue
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-timer.C:
		case <-gone.done:
			timer.Stop()
			members, err := d.job.members()
			return err == nil && len(members) == 0 && d.hasExited(), err
		}
	}
}

// releaseWithin bounds the wait for the console to go when all its programs have.
const releaseWithin = time.Second

// release gives back what the device holds. A pipe that something outside of the
// job holds open is left to its reader, which ends with it.
func (d *device) release() {
	closed := d.console.shut()
	timer := time.NewTimer(releaseWithin)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		d.driver.log.Warn("conpty: the console does not close", "pid", d.pid)
	}
	if d.screen != nil {
		d.screen.finished(releaseWithin)
	} else {
		d.read.finished(releaseWithin)
	}
	d.console.release()
	if d.output != nil {
		d.read.finished(pipeQuiet)
		_ = d.output.Close()
	}
	if d.channel != nil {
		_ = d.channel.Close()
	}
	close(d.reading.closed)
	closeHandles(d.job.handle, d.process)
}
