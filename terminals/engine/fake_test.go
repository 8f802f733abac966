package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// Small times, so that an expected moment in a test is easy to add up.
const (
	poll    = 10 * time.Millisecond
	exact   = 20 * time.Millisecond
	idle    = 50 * time.Millisecond
	grace   = 10 * time.Millisecond
	timeout = 100 * time.Millisecond
)

// What the fake shell has.
const (
	shellPID = 100
	prompt   = "$ "
)

var shellPath = string(filepath.Separator) + "fsh"

var (
	promptSite = backend.Site{1}
	otherSite  = backend.Site{2}
	atPrompt   = backend.Wait{State: backend.WaitReading, PID: shellPID, Program: "fsh", Site: promptSite, Turns: 1}
	busy       = backend.Wait{State: backend.WaitBusy}
)

// reading is a program that is blocked reading the terminal.
func reading(pid int, turns uint64) backend.Wait {
	return backend.Wait{State: backend.WaitReading, PID: pid, Program: "prog", Site: otherSite, Turns: turns}
}

// device is a scripted terminal. It lives in a synctest bubble: it waits on
// channels of its own and on nothing else.
type device struct {
	out     chan []byte   // what the programs print
	rest    []byte        // of the chunk that Read is at
	failed  bool          // Read has returned an error
	over    chan struct{} // closed when no more of it comes
	exited  chan struct{}
	channel *channel

	mu         sync.Mutex
	status     backend.ExitStatus
	shellWait  backend.Wait
	shellErr   error
	inputWait  backend.Wait
	inputErr   error
	foreground backend.Foreground
	fgErr      error
	modes      backend.Modes
	pending    int
	pendingErr error
	pendingOut int
	readErr    error // after the next output
	cwd        string
	writes     []string
	signals    []string
	flushes    int
	ended      bool
	closes     int
	ran        int // the number of the last command
	truth      int // the status that the shell would tell if it was asked
	lang       *language

	onWrite     func(ctx context.Context, p []byte) (int, error)
	onSignal    func(ctx context.Context, name string) (int, error)
	onInputWait func()
	onShellWait func()
	onTerminate func(ctx context.Context) error
}

func newDevice() *device {
	return &device{
		out: make(chan []byte, 4096), over: make(chan struct{}), exited: make(chan struct{}),
		shellWait: atPrompt, inputWait: atPrompt,
		foreground: backend.Foreground{PGID: shellPID, Shell: true},
		cwd:        "/start",
	}
}

func (d *device) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// print queues output without waiting for it to be read.
func (d *device) print(s string) {
	if s != "" {
		d.out <- []byte(s)
	}
}

// say prints s and returns when the session has digested it.
func (d *device) say(s string) {
	d.print(s)
	synctest.Wait()
}

// run lets the shell leave its prompt for a program that reads nothing.
func (d *device) run() {
	d.set(func() {
		d.shellWait = backend.Wait{State: backend.WaitBusy, PID: shellPID}
		d.inputWait = busy
	})
}

// home lets the shell read at its prompt.
func (d *device) home() {
	d.set(func() { d.shellWait, d.inputWait = atPrompt, atPrompt })
}

// wait lets a program of the shell read the terminal.
func (d *device) wait(w backend.Wait) {
	d.set(func() {
		d.shellWait = backend.Wait{State: backend.WaitBusy, PID: shellPID}
		d.inputWait = w
	})
}

func (d *device) exit(status backend.ExitStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	d.ended, d.status = true, status
	close(d.exited)
	close(d.over)
}

func (d *device) written() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.writes)
}

func (d *device) signalled() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.signals)
}

func (d *device) flushed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flushes
}

// Read is called by one goroutine at a time.
func (d *device) Read(p []byte) (int, error) {
	if d.failed {
		return 0, errors.New("read again after an error")
	}
	if len(d.rest) == 0 {
		d.rest = d.next()
	}
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = d.readErr != nil
	return n, d.readErr
}

// next waits for output. After the end it returns what is left, and then nil.
func (d *device) next() []byte {
	select {
	case b := <-d.out:
		return b
	case <-d.over:
	}
	select {
	case b := <-d.out:
		return b
	default:
		return nil
	}
}

func (d *device) Write(ctx context.Context, p []byte) (int, error) {
	d.mu.Lock()
	hook := d.onWrite
	d.mu.Unlock()
	if hook != nil {
		return hook(ctx, p)
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	d.accept(p)
	return len(p), nil
}

// accept records typed input.
func (d *device) accept(p []byte) {
	d.set(func() { d.writes = append(d.writes, string(p)) })
	// A shell that is asked by a number that it has not seen before answers. A
	// shell that lost its marks is asked by an old one and does not.
	var n int
	if _, err := fmt.Sscanf(string(p), "run %d", &n); err == nil {
		d.set(func() { d.ran = n })
	}
	if _, err := fmt.Sscanf(string(p), "resync %d", &n); err == nil && d.lang != nil && n > d.ran {
		pre := d.lang.prefix()
		d.print(fmt.Sprintf("%sD;%d;%d;/cwd\a%sA;%d;%d\a", pre, n, d.truth, pre, n, d.truth))
	}
}

func (d *device) Channel() io.WriteCloser {
	if d.channel == nil {
		return nil
	}
	return d.channel
}

func (d *device) Signal(ctx context.Context, name string) (int, error) {
	d.mu.Lock()
	d.signals = append(d.signals, name)
	hook, pgid := d.onSignal, d.foreground.PGID
	d.mu.Unlock()
	if hook != nil {
		return hook(ctx, name)
	}
	return pgid, nil
}

func (d *device) SignalProgram(ctx context.Context, name string) (int, error) {
	if w, err := d.InputWait(); err != nil || w.State != backend.WaitReading || w.PID == shellPID {
		return 0, errors.New("nobody reads")
	}
	return d.Signal(ctx, "to the program: "+name)
}

func (d *device) Terminate(ctx context.Context, _ time.Duration) error {
	d.mu.Lock()
	d.closes++
	hook := d.onTerminate
	d.mu.Unlock()
	if hook != nil {
		if err := hook(ctx); err != nil {
			return err
		}
	}
	d.exit(backend.ExitStatus{Signal: "SIGHUP"})
	return nil
}

func (d *device) FlushInput() error {
	d.set(func() { d.flushes++; d.pending = 0 })
	return nil
}

func (d *device) InputWait() (backend.Wait, error) {
	d.mu.Lock()
	hook := d.onInputWait
	d.mu.Unlock()
	if hook != nil {
		hook()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inputWait, d.inputErr
}

func (d *device) ShellWait() (backend.Wait, error) {
	d.mu.Lock()
	hook := d.onShellWait
	d.mu.Unlock()
	if hook != nil {
		hook()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shellWait, d.shellErr
}

func (d *device) Foreground() (backend.Foreground, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.foreground, d.fgErr
}

func (d *device) Modes() (backend.Modes, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.modes, nil
}

func (d *device) SetModes(m backend.Modes) error {
	d.set(func() { d.modes = m })
	return nil
}

func (d *device) PendingInput() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pending, d.pendingErr
}

func (d *device) PendingOutput() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pendingOut + len(d.out), nil // chunks, which is as good
}

func (d *device) Consumed() {}

func (d *device) Interrupt(ctx context.Context, programToo bool) (int, error) {
	if programToo {
		d.set(func() { d.signals = append(d.signals, "program SIGINT") })
	}
	return d.Signal(ctx, string(terminals.SIGINT))
}

func (d *device) ExitStatus() backend.ExitStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

func (d *device) Cwd() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cwd == "" {
		return "", backend.ErrUnsupported
	}
	return d.cwd, nil
}

func (d *device) Resize(int, int) error   { return nil }
func (d *device) PID() int                { return shellPID }
func (d *device) Exited() <-chan struct{} { return d.exited }

// channel is the host's end of a private channel. A write to a stuck one waits
// for its deadline.
type channel struct {
	mu       sync.Mutex
	data     bytes.Buffer
	stuck    bool
	deadline chan struct{}
	closed   bool
}

func (c *channel) Write(p []byte) (int, error) {
	c.mu.Lock()
	stuck := c.stuck
	if !stuck {
		c.data.Write(p)
	}
	c.mu.Unlock()
	if stuck {
		<-c.deadline
		return 0, errors.New("i/o timeout")
	}
	return len(p), nil
}

func (c *channel) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		close(c.deadline)
	}
	return nil
}

func (c *channel) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

// driver starts dev.
type driver struct {
	dev   *device
	caps  backend.Capabilities
	spec  backend.Spec
	start func(context.Context) error // nil: the start succeeds
}

func (d *driver) Capabilities() backend.Capabilities { return d.caps }
func (d *driver) TempDir() string                    { return "" }

func (d *driver) Start(ctx context.Context, spec backend.Spec) (backend.Device, error) {
	d.spec = spec
	if d.start != nil {
		if err := d.start(ctx); err != nil {
			return nil, err
		}
	}
	d.dev.set(func() {
		d.dev.modes = spec.Modes
		if !d.caps.ExactRead {
			d.dev.shellErr, d.dev.inputErr = backend.ErrUnsupported, backend.ErrUnsupported
		}
	})
	return d.dev, nil
}

// language is a dialect whose shell says S, D, A and P as bash's does.
type language struct {
	launch dialect.Launch // what a test wants of it
	setup  dialect.Setup
	debris string // what the shell's own machinery prints after a program
}

func (l *language) Name() string       { return "fake" }
func (l *language) Programs() []string { return []string{"fsh", "fsh-next"} }
func (l *language) Install() string    { return "build it" }

func (l *language) New(setup dialect.Setup) (dialect.Shell, error) {
	if slices.Contains(setup.Args, "refused") {
		return nil, errors.New("fake: refused")
	}
	l.setup = setup
	return l, nil
}

func (l *language) Launch() dialect.Launch {
	launch := l.launch
	launch.Modes = backend.Modes{Canonical: true, Echo: true, Signals: true}
	if !l.setup.CommandMode {
		launch.Prompt = prompt
	}
	return launch
}

func (l *language) prefix() string { return "\x1b]7771;" + l.setup.Secret + ";" }

func (l *language) Marker() dialect.Marker {
	return dialect.Marker{Prefix: []byte(l.prefix()), End: []byte("\a"), Max: 100}
}

func (l *language) Mark(payload []byte) (dialect.Mark, bool) {
	fields := strings.Split(string(payload), ";")
	kind := map[string]dialect.Kind{"S": dialect.Start, "D": dialect.Done, "A": dialect.Prompt, "P": dialect.Continuation}[fields[0]]
	if kind == 0 || len(fields) < 2 {
		return dialect.Mark{}, false
	}
	m := dialect.Mark{Kind: kind}
	m.Seq, _ = strconv.ParseUint(fields[1], 10, 64)
	if len(fields) > 2 {
		status, err := strconv.Atoi(fields[2])
		m.Status, m.HasStatus = status, err == nil
	}
	if len(fields) > 3 {
		m.Cwd, m.HasCwd = fields[3], true
	}
	return m, true
}

func (l *language) Command(s dialect.Script) (dialect.Delivery, error) {
	if i := strings.IndexByte(s.Text, 0); i >= 0 {
		return dialect.Delivery{}, fmt.Errorf("fake: NUL at offset %d", i)
	}
	d := dialect.Delivery{Files: []dialect.File{{Name: fmt.Sprintf("c%d", s.Seq), Data: []byte(s.Text)}}}
	line := []byte(fmt.Sprintf("run %d %d\n", s.Seq, s.Status))
	if l.launch.ReadsChannel {
		d.Channel = line
	} else {
		d.Terminal = line
	}
	return d, nil
}

func (l *language) Resync(seq uint64) (dialect.Delivery, error) {
	return dialect.Delivery{Terminal: []byte(fmt.Sprintf("resync %d\n", seq))}, nil
}

// Trailer knows the newline after an interrupt and the debris.
func (l *language) Trailer(tail []byte, interrupted bool) int {
	for k := min(len(l.debris), len(tail)); k > 0; k-- {
		if bytes.HasSuffix(tail, []byte(l.debris[:k])) {
			return k
		}
	}
	if interrupted && bytes.HasSuffix(tail, []byte("\n")) {
		return 1
	}
	return 0
}

// Noise knows the echo of the line that was typed, and what a prompt hook
// prints in brackets.
func (l *language) Noise(_ dialect.Kind, text []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("run ")) && !bytes.HasPrefix(line, []byte("[")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

func (l *language) Interrupted(m dialect.Mark) dialect.Mark {
	if m.Status == 1 {
		m.Status = 130
	}
	return m
}

// fixture is one session over the fakes.
type fixture struct {
	t    *testing.T
	dev  *device
	drv  *driver
	lang *language
	cfg  engine.Config
	s    terminals.CommandSession
	seq  int // of the last command
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dev, lang := newDevice(), &language{}
	dev.lang = lang
	return &fixture{
		t: t, dev: dev, lang: lang,
		drv: &driver{dev: dev, caps: backend.Capabilities{ExactRead: true}},
		cfg: engine.Config{
			Type: "fake", ShellPath: shellPath, Ambient: []string{"PATH=/bin"},
			PollInterval: poll, ExactProbeAfter: exact, IdleSilence: idle, HandoffGrace: grace, Timeout: timeout,
		},
	}
}

// open opens a session and returns what Open returned.
func (f *fixture) open(ctx context.Context, mode terminals.Mode) error {
	f.t.Helper()
	b, err := engine.New(f.cfg, f.drv, f.lang)
	require.NoError(f.t, err)
	s, err := b.Open(ctx, terminals.Setup{ID: "pty-1", Mode: mode})
	if err != nil {
		return err
	}
	f.s = s.(terminals.CommandSession)
	f.t.Cleanup(func() { assert.NoError(f.t, f.s.Close(context.Background(), "end of the test")) })
	return nil
}

// ready opens a session whose shell comes to its prompt.
func ready(t *testing.T, mode terminals.Mode, change ...func(*fixture)) *fixture {
	t.Helper()
	f := newFixture(t)
	for _, c := range change {
		c(f)
	}
	f.drv.start = func(context.Context) error {
		f.dev.print(f.mark("D;0;0") + f.prompt(0))
		return nil
	}
	require.NoError(t, f.open(context.Background(), mode))
	synctest.Wait()
	return f
}

// mark is one marker of the shell.
func (f *fixture) mark(payload string) string { return f.lang.prefix() + payload + "\a" }

// prompt is the prompt's mark and its text.
func (f *fixture) prompt(seq int) string {
	text := ""
	if !f.lang.setup.CommandMode {
		text = prompt
	}
	return f.mark(fmt.Sprintf("A;%d;0", seq)) + text
}

// back is what a shell prints when command seq ended with status.
func (f *fixture) back(seq, status int) string {
	f.dev.set(func() { f.dev.truth = status })
	return f.mark(fmt.Sprintf("D;%d;%d;/cwd", seq, status)) + f.mark(fmt.Sprintf("A;%d;%d", seq, status))
}

// bubble runs f in a synctest bubble. What f leaves running fails the test.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	tempDir(t, t.TempDir())
	synctest.Test(t, f)
}

// tempDir has temporary files made in dir.
func tempDir(t *testing.T, dir string) {
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pass lets d pass and everything due in it happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
