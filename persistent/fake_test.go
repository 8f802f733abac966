package persistent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

// The fakes script orderings that a real shell shows once in a million runs.
// What real shells do is tested with the tools that start them.

// fakeShell is a session whose commands are played by play.
type fakeShell struct {
	terminals.Session // nil: a method that no test expects panics

	play      func(*fakeRun)                        // runs beside each command; nil: it completes with code 0
	start     func(ctx context.Context) error       // decides over StartCommand
	interrupt func(context.Context, *fakeRun) error // nil: the command completes with code 130
	signal    func(terminals.Signal, *fakeRun)
	onClose   func()

	exited chan struct{}
	once   sync.Once

	mu          sync.Mutex
	commands    []string
	last        terminals.CommandRequest
	signals     []terminals.Signal
	status      terminals.Status
	closes      []string
	unsolicited []byte
	lost        int64
	run         *fakeRun
}

const fakePID = 4711

func newFakeShell() *fakeShell { return &fakeShell{exited: make(chan struct{})} }

func (s *fakeShell) PID() int                { return fakePID }
func (s *fakeShell) Startup() string         { return "" }
func (s *fakeShell) Exited() <-chan struct{} { return s.exited }

func (s *fakeShell) Status() terminals.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *fakeShell) Unsolicited() ([]byte, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, lost := s.unsolicited, s.lost
	s.unsolicited, s.lost = nil, 0
	return data, lost
}

func (s *fakeShell) murmur(text string, lost int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsolicited, s.lost = append(s.unsolicited, text...), s.lost+lost
}

func (s *fakeShell) StartCommand(ctx context.Context, req terminals.CommandRequest) (terminals.CommandRun, error) {
	if s.start != nil {
		if err := s.start(ctx); err != nil {
			return nil, err
		}
	}
	run := &fakeRun{shell: s, sink: req.Sink, ctx: ctx, settled: make(chan struct{}), reports: make(chan terminals.CommandResult)}
	s.mu.Lock()
	if req.WarmUp { // it has a program of its own for that
		s.commands = append(s.commands, "(warm-up)")
	} else {
		s.commands = append(s.commands, req.Text)
	}
	s.run, s.last = run, req
	s.mu.Unlock()
	if s.play == nil {
		run.complete(0)
	} else {
		go s.play(run)
	}
	return run, nil
}

func (s *fakeShell) Signal(_ context.Context, sig terminals.Signal) (int, error) {
	s.mu.Lock()
	s.signals = append(s.signals, sig)
	run := s.run
	s.mu.Unlock()
	if s.signal == nil {
		return 0, errors.New("no such process")
	}
	s.signal(sig, run)
	return 1, nil
}

// die ends the shell by itself.
func (s *fakeShell) die(status terminals.Status) {
	s.once.Do(func() {
		status.Exited = true
		s.mu.Lock()
		s.status = status
		run := s.run
		s.mu.Unlock()
		close(s.exited)
		if run != nil {
			run.settle(terminals.CommandResult{State: terminals.ShellEnded, Status: status})
		}
	})
}

func (s *fakeShell) Close(_ context.Context, reason string) error {
	s.mu.Lock()
	s.closes = append(s.closes, reason)
	s.mu.Unlock()
	if s.onClose != nil {
		s.onClose()
	}
	s.die(terminals.Status{Signal: "SIGHUP"})
	return nil
}

func (s *fakeShell) ran() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

func (s *fakeShell) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.closes) > 0
}

func (s *fakeShell) signalled() []terminals.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.signals)
}

// fakeRun is one command of a fakeShell.
type fakeRun struct {
	shell   *fakeShell
	sink    func([]byte)
	ctx     context.Context
	reports chan terminals.CommandResult
	waits   *terminals.NeedsInput // who waited last
	left    atomic.Bool           // it waits no more

	once    sync.Once
	settled chan struct{}
	final   terminals.CommandResult
}

func (r *fakeRun) print(text string) { r.sink([]byte(text)) }

func (r *fakeRun) settle(final terminals.CommandResult) {
	r.once.Do(func() {
		r.final = final
		close(r.settled)
	})
}

func (r *fakeRun) complete(code int) {
	r.settle(terminals.CommandResult{State: terminals.Completed, ExitCode: &code, Cwd: "/fake/cwd"})
}

// wait reports a program that waits for input.
func (r *fakeRun) wait(program string, pid int) {
	r.waits = &terminals.NeedsInput{Kind: terminals.LineInput, Prompt: "name? ", Program: program, PID: pid}
	r.reports <- terminals.CommandResult{State: terminals.Waiting, NeedsInput: r.waits}
}

func (r *fakeRun) Waits() bool { return !isClosed(r.settled) && !r.left.Load() }

func (r *fakeRun) Settled() <-chan struct{} { return r.settled }

func (r *fakeRun) Wait(ctx context.Context) (terminals.CommandResult, error) {
	select {
	case <-r.settled:
		return r.final, nil
	default:
	}
	select {
	case <-r.settled:
		return r.final, nil
	case report := <-r.reports:
		return report, nil
	case <-ctx.Done():
		return terminals.CommandResult{}, context.Cause(ctx)
	}
}

func (r *fakeRun) Interrupt(ctx context.Context) error {
	if r.shell.interrupt != nil {
		return r.shell.interrupt(ctx, r)
	}
	code := 130
	r.settle(terminals.CommandResult{State: terminals.Completed, ExitCode: &code, Interrupted: true, NeedsInput: r.waits, Cwd: "/fake/cwd"})
	return nil
}

// deaf is a program that ignores interrupts.
func deaf(ctx context.Context, r *fakeRun) error {
	select {
	case <-r.settled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// silent is a program that neither prints nor ends.
func silent(r *fakeRun) { <-r.settled }

// fixture is a Runner over fake shells, handed out in order; when they are used
// up, further ones complete everything.
type fixture struct {
	*Runner
	t       *testing.T
	service *terminals.Service
	owner   *terminals.Owner

	mu     sync.Mutex
	shells []*fakeShell
	opened []terminals.Setup
	open   func(ctx context.Context, n int) error // decides over the n-th open, from 1
}

func newFixture(t *testing.T, change func(*Config), shells ...*fakeShell) *fixture {
	t.Helper()
	f := &fixture{t: t, service: terminals.NewService(terminals.Options{}), shells: shells}
	_, err := f.service.Register("shell", f)
	require.NoError(t, err)
	f.owner = f.newOwner("/project dir")
	cfg := DefaultConfig()
	cfg.Timeout = 10 * time.Second
	cfg.SpillDir = t.TempDir()
	if change != nil {
		change(&cfg)
	}
	f.Runner, err = New(f.service, cfg)
	require.NoError(t, err)
	return f
}

func (f *fixture) newOwner(cwd string) *terminals.Owner {
	f.t.Helper()
	owner, err := f.service.NewOwner(terminals.OwnerOptions{Name: "agent", Cwd: cwd})
	require.NoError(f.t, err)
	return owner
}

func (f *fixture) Open(ctx context.Context, setup terminals.Setup) (terminals.Session, error) {
	f.mu.Lock()
	f.opened = append(f.opened, setup)
	n := len(f.opened)
	f.mu.Unlock()
	if f.open != nil {
		if err := f.open(ctx, n); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.shells) == 0 {
		return newFakeShell(), nil
	}
	shell := f.shells[0]
	f.shells = f.shells[1:]
	return shell, nil
}

func (f *fixture) opens() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.opened)
}

func (f *fixture) run(text string) Result {
	return f.Run(f.t.Context(), f.owner, Command{Text: text})
}

// dispose ends everything, so that a synctest bubble can.
func (f *fixture) dispose() {
	f.t.Helper()
	require.NoError(f.t, f.service.Dispose(context.Background()))
}

// playing returns a shell whose commands are played by play.
func playing(play func(*fakeRun)) *fakeShell {
	s := newFakeShell()
	s.play = play
	return s
}

func printing(text string, code int) func(*fakeRun) {
	return func(r *fakeRun) {
		r.print(text)
		r.complete(code)
	}
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
