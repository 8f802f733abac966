package conpty

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

const sigint = "SIGINT"

// ctrlC is the byte that a pseudo console takes for the key Ctrl-C.
const ctrlC = 0x03

// device is one pseudo console with the tree of processes behind it.
type device struct {
	driver  *Driver
	console *console
	job     *job
	output  *pipeEnd // of the pipe that the program writes to; nil: to the console
	channel *channel // nil when there is none
	remove  []string // folders that do not outlive the host

	process windows.Handle
	pid     uint32
	exited  chan struct{}
	status  backend.ExitStatus // valid once exited is closed

	input   *writer
	typing  chan struct{} // a lock that a context can end the wait for
	keys    enterKeys     // under typing
	touched atomic.Bool   // input may lie unread
	wrote   atomic.Int64  // when the program was last written to, in Unix nanoseconds
	probe   waitProbe
	before  atomic.Pointer[helperReply] // the cursor's line when input was last flushed

	read    *pump // what Read returns
	screen  *pump // the console's, when that is something else; dropped
	reading drain

	closing sync.Mutex
	run     *teardown // the Terminate that is going on
	closed  bool      // Terminate has succeeded
}

var (
	_ backend.Device     = (*device)(nil)
	_ backend.WaitProber = (*device)(nil)
)

func newDevice(d *Driver) *device {
	return &device{
		driver:  d,
		exited:  make(chan struct{}),
		typing:  make(chan struct{}, 1),
		reading: drain{closed: make(chan struct{})},
	}
}

// begin takes over a program that has just been started.
func (d *device) begin(remove []string) {
	d.remove = remove
	d.guard(opGuard)
	d.input = newWriter(&d.console.in)
	screen := newPump(&paint{asked: d.tellAttributes})
	go screen.run(d.console.out.Read)
	d.read = screen
	if d.output != nil {
		screen.loosen()
		d.screen, d.read = screen, newPump(nil)
		go d.read.run(d.output.Read)
	}
	go func() {
		d.status = await(d.process)
		close(d.exited)
	}()
}

// utf8Within bounds how long a new program's console is waited for.
const utf8Within = 500 * time.Millisecond

// useUTF8 has the console's programs read and write UTF-8, as its pipes do: the
// default is the system's old code page. A console can be joined once its
// program runs.
func (d *device) useUTF8(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, utf8Within)
	defer cancel()
	for pause := firstLook; ; pause *= 2 {
		if _, err := d.ask(opUTF8); err == nil || errors.Is(err, backend.ErrUnsupported) || d.hasExited() {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			d.driver.log.Warn("conpty: the console keeps its code page", "pid", d.pid)
			return
		case <-d.exited:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// guard has the helper remove the terminal's folders when the host dies, or not.
func (d *device) guard(op string) {
	if len(d.remove) == 0 || len(d.driver.helper.command) == 0 {
		return
	}
	if err := d.driver.helper.guard(op, d.remove); err != nil {
		d.driver.log.Warn("conpty: folders may be left when the host dies", "error", err)
	}
}

// abandon gives back what a failed start has taken.
func (d *device) abandon() {
	if d.process != 0 {
		_ = d.Terminate(context.Background(), 0)
		return
	}
	if d.job != nil {
		closeHandles(d.job.handle)
	}
	if d.output != nil {
		_ = d.output.Close()
	}
	if d.console != nil {
		// Nobody reads what it still writes.
		d.console.release()
		d.console.shut()
	}
}

// await waits for a process and returns its exit code as the shells of Windows
// show it, a signed number: the code alone cannot tell a process that runs from
// one that ended with 259.
func await(process windows.Handle) backend.ExitStatus {
	var code uint32
	if _, err := windows.WaitForSingleObject(process, windows.INFINITE); err != nil {
		return backend.ExitStatus{}
	}
	if err := windows.GetExitCodeProcess(process, &code); err != nil {
		return backend.ExitStatus{}
	}
	n := int(int32(code))
	return backend.ExitStatus{Code: &n}
}

func (d *device) PID() int                       { return int(d.pid) }
func (d *device) Exited() <-chan struct{}        { return d.exited }
func (d *device) ExitStatus() backend.ExitStatus { return d.status }

func (d *device) hasExited() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

func (d *device) Channel() io.WriteCloser {
	if d.channel == nil {
		return nil
	}
	return d.channel
}

// Write types p: see backend.Device. A line end is the key Enter, however it is
// written.
func (d *device) Write(ctx context.Context, p []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, writeEnded(ctx, 0, len(p))
	}
	select {
	case d.typing <- struct{}{}:
		defer func() { <-d.typing }()
	case <-ctx.Done():
		return 0, writeEnded(ctx, 0, len(p))
	}
	d.touched.Store(true)
	d.wrote.Store(time.Now().UnixNano())
	keys := d.keys.translate(nil, p)
	n, err := d.typeKeys(ctx, keys)
	if err == nil || n == len(keys) {
		return len(p), err
	}
	// Each byte of p is one key, or none after a \r.
	accepted, again := 0, enterKeys{}
	for made := 0; made < n; accepted++ {
		made += len(again.translate(nil, p[accepted:accepted+1]))
	}
	return accepted, err
}

// typeKeys types keys, Ctrl-C the way that the driver was told.
func (d *device) typeKeys(ctx context.Context, keys []byte) (n int, err error) {
	for n < len(keys) {
		end := len(keys)
		if d.driver.ctrlC != nil {
			if i := slices.Index(keys[n:], ctrlC); i == 0 {
				if err := d.driver.ctrlC(int(d.pid)); err != nil {
					return n, err
				}
				n++
				continue
			} else if i > 0 {
				end = n + i
			}
		}
		written, err := d.input.write(ctx, keys[n:end])
		n += written
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// tellAttributes answers a console that asks which terminal it has: some
// versions start nothing before they know. It is the reader that calls.
func (d *device) tellAttributes() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = d.input.write(ctx, []byte("\x1b[?61c"))
	}()
}

// Resize sets the window size, clamped to 1 to 32767.
func (d *device) Resize(cols, rows int) error { return d.console.resize(cols, rows) }

// ask has the helper do something in this console.
func (d *device) ask(op string) (helperReply, error) {
	return d.request(helperRequest{Op: op})
}

func (d *device) request(req helperRequest) (helperReply, error) {
	req.PID = d.pid
	if d.hasExited() {
		// The console lives on as long as one of its processes does.
		members, err := d.job.members()
		if err != nil || len(members) == 0 {
			return helperReply{}, fmt.Errorf("conpty: the console has no program any more: %w", os.ErrProcessDone)
		}
		req.PID = members[0]
	}
	return d.driver.helper.ask(req)
}

func (d *device) Foreground() (backend.Foreground, error) {
	return backend.Foreground{}, fmt.Errorf("conpty: a console has no foreground process: %w", backend.ErrUnsupported)
}

// consoleRead is the site of every read of the console: more is not to be seen.
var consoleRead = backend.Site{1}

// InputWait tells which program waits for input: the youngest of the console's
// programs, since the older ones wait for it.
//
// A probe takes a moment, and this does not wait for it: it starts one and
// returns what the last one saw, or nothing when the terminal was written to or
// printed something since. Nobody waits within that first moment.
func (d *device) InputWait() (backend.Wait, error) {
	if len(d.driver.helper.command) == 0 {
		return backend.Wait{}, errNoHelper
	}
	if d.hasExited() {
		return backend.Wait{}, nil
	}
	active := d.lastActive()
	if time.Since(active) < probeAfter {
		return backend.Wait{}, nil
	}
	p := &d.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		p.running = true
		go func() {
			began := time.Now()
			wait, err := d.look()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.wait, p.err, p.began, p.ended, p.running = wait, err, began, time.Now(), false
		}()
	}
	if p.began.Before(active) || time.Since(p.ended) > probeValid {
		return backend.Wait{}, nil
	}
	return p.wait, p.err
}

// ProbeInputWait implements [backend.WaitProber].
func (d *device) ProbeInputWait() (backend.Wait, error) {
	if d.hasExited() {
		return backend.Wait{}, nil
	}
	return d.look()
}

// probeAfter is how long the terminal must have been still before a probe: most
// commands are over by then and cost none.
const probeAfter = 20 * time.Millisecond

// probeValid is how long an answer counts while the next is on its way.
const probeValid = 150 * time.Millisecond

// waitProbe is what the last probe saw.
type waitProbe struct {
	mu      sync.Mutex
	running bool
	began   time.Time
	ended   time.Time
	wait    backend.Wait
	err     error
}

// lastActive is when the terminal last was written to or printed something.
func (d *device) lastActive() time.Time {
	return time.Unix(0, max(d.wrote.Load(), d.read.printed.Load()))
}

// look probes for a wait.
func (d *device) look() (backend.Wait, error) {
	reply, err := d.ask(opProbe)
	if err != nil {
		return backend.Wait{}, err
	}
	d.touched.Store(true) // by the probe
	if !reply.Read {
		return backend.Wait{State: backend.WaitBusy}, nil
	}
	prompt := reply.Line
	if old := d.before.Load(); old != nil && old.Row == reply.Row {
		prompt = strings.TrimPrefix(prompt, old.Line) // another program's, which was interrupted there
	}
	pid := d.youngest(reply.PIDs)
	return backend.Wait{State: backend.WaitReading, PID: int(pid), Program: programName(pid), Site: consoleRead, Prompt: prompt}, nil
}

// youngest returns which of the console's processes was started last.
func (d *device) youngest(pids []uint32) uint32 {
	youngest, latest := d.pid, int64(0)
	for _, pid := range pids {
		if at, ok := started(pid); ok && at > latest && pid != d.pid {
			youngest, latest = pid, at
		}
	}
	return youngest
}

// ShellWait tells whether the started program itself waits for console input.
// A read of its channel cannot be seen and counts as busy.
func (d *device) ShellWait() (backend.Wait, error) {
	if d.hasExited() {
		return backend.Wait{}, nil
	}
	w, err := d.look()
	if err == nil && w.State == backend.WaitReading && w.PID != int(d.pid) {
		w = backend.Wait{State: backend.WaitBusy}
	}
	return w, err
}

// modeBits are the modes of a console that there is a POSIX term for.
const modeBits = windows.ENABLE_LINE_INPUT | windows.ENABLE_ECHO_INPUT | windows.ENABLE_PROCESSED_INPUT

func (d *device) Modes() (backend.Modes, error) {
	reply, err := d.ask(opLook)
	if err != nil {
		return backend.Modes{}, err
	}
	return backend.Modes{
		Canonical: reply.Mode&windows.ENABLE_LINE_INPUT != 0,
		Echo:      reply.Mode&windows.ENABLE_ECHO_INPUT != 0,
		Signals:   reply.Mode&windows.ENABLE_PROCESSED_INPUT != 0,
		InputCR:   true, // Enter is \r, and a program reads a line end
	}, nil
}

// SetModes sets Canonical, Echo and Signals. A console has no other mode.
func (d *device) SetModes(m backend.Modes) error {
	req := helperRequest{Op: opMode, Mask: modeBits}
	for _, bit := range []struct {
		on   bool
		mode uint32
	}{{m.Canonical, windows.ENABLE_LINE_INPUT}, {m.Echo && m.Canonical, windows.ENABLE_ECHO_INPUT}, {m.Signals, windows.ENABLE_PROCESSED_INPUT}} {
		if bit.on {
			req.Mode |= bit.mode
		}
	}
	_, err := d.request(req)
	return err
}

// FlushInput drops typed input that no program has read. Without a helper it
// cannot; programs that flush at their prompt make up for it.
func (d *device) FlushInput() error {
	if !d.touched.Swap(false) || d.hasExited() {
		return nil
	}
	reply, err := d.ask(opFlush)
	switch {
	case errors.Is(err, backend.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	d.before.Store(&reply)
	return nil
}

func (d *device) PendingInput() (int, error) {
	if !d.touched.Load() || d.hasExited() {
		return 0, nil
	}
	reply, err := d.ask(opLook)
	return reply.Keys, err
}

func (d *device) PendingOutput() (int, error) { return d.read.pending(), nil }
func (d *device) Consumed()                   { d.read.consumed() }

func (d *device) Signal(ctx context.Context, name string) (int, error) {
	if name != sigint {
		return 0, &terminals.Error{
			Code:    terminals.Unsupported,
			Message: fmt.Sprintf("signal %q is not supported on Windows; use %s, or close the session", name, sigint),
			Err:     backend.ErrUnsupported,
		}
	}
	return d.Interrupt(ctx, false)
}

// Interrupt raises Ctrl-C in every program of the console. Without a helper it
// types the key, which a program in raw mode reads as one.
func (d *device) Interrupt(ctx context.Context, _ bool) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	_, err := d.ask(opInterrupt)
	if errors.Is(err, backend.ErrUnsupported) {
		_, err = d.Write(ctx, []byte{ctrlC})
	}
	if err != nil {
		return 0, err
	}
	return int(d.pid), nil
}

func (d *device) Cwd() (string, error) {
	return "", fmt.Errorf("conpty: a process's working folder: %w", backend.ErrUnsupported)
}
