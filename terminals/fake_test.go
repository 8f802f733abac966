package terminals_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

// The fakes script orderings and nothing else: what a real terminal does is
// tested where there is one.

// fakeBackend runs open for every session, and hands out quiet sessions when
// open is nil.
type fakeBackend struct {
	open func(context.Context, terminals.Setup) (terminals.Session, error)

	mu     sync.Mutex
	setups []terminals.Setup
}

func (b *fakeBackend) Open(ctx context.Context, setup terminals.Setup) (terminals.Session, error) {
	b.mu.Lock()
	b.setups = append(b.setups, setup)
	b.mu.Unlock()
	if b.open != nil {
		return b.open(ctx, setup)
	}
	return &fakeSession{}, nil
}

func (b *fakeBackend) calls() []terminals.Setup {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]terminals.Setup(nil), b.setups...)
}

// fakeSession counts its closes and runs close for each, by number from 1.
type fakeSession struct {
	terminals.Session // nil: a method that no test expects panics

	close func(ctx context.Context, n int) error

	mu      sync.Mutex
	reasons []string
	status  terminals.Status
}

func (s *fakeSession) Close(ctx context.Context, reason string) error {
	s.mu.Lock()
	s.reasons = append(s.reasons, reason)
	n := len(s.reasons)
	s.mu.Unlock()
	if s.close == nil {
		return nil
	}
	return s.close(ctx, n)
}

func (s *fakeSession) closes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.reasons...)
}

func (s *fakeSession) PID() int        { return 4711 }
func (s *fakeSession) Startup() string { return "welcome" }

func (s *fakeSession) Status() terminals.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *fakeSession) exit(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = terminals.Status{Exited: true, ExitCode: &code}
}

func (s *fakeSession) Read(offset, count int) (terminals.Page, error) {
	return terminals.Page{Text: "page", LineBegin: offset, LineEnd: offset + count}, nil
}

var errSent = errors.New("the send reached the session")

func (s *fakeSession) StartSend(context.Context, terminals.SendRequest) (terminals.Send, error) {
	return nil, errSent
}

func (s *fakeSession) Signal(context.Context, terminals.Signal) (int, error) { return 815, nil }

// fixture is a service with the backend "shell" and one owner.
type fixture struct {
	*terminals.Service
	t       *testing.T
	backend *fakeBackend
	owner   *terminals.Owner
}

func newFixture(t *testing.T, open func(context.Context, terminals.Setup) (terminals.Session, error)) *fixture {
	t.Helper()
	f := &fixture{Service: terminals.NewService(terminals.Options{}), t: t, backend: &fakeBackend{open: open}}
	_, err := f.Register("shell", f.backend)
	require.NoError(t, err)
	f.owner = f.newOwner("agent")
	return f
}

// always is an open function that hands out s.
func always(s terminals.Session) func(context.Context, terminals.Setup) (terminals.Session, error) {
	return func(context.Context, terminals.Setup) (terminals.Session, error) { return s, nil }
}

func (f *fixture) newOwner(name string) *terminals.Owner {
	f.t.Helper()
	o, err := f.NewOwner(terminals.OwnerOptions{Name: name, Cwd: "/home/" + name})
	require.NoError(f.t, err)
	return o
}

// mustOpen opens a nameless session and returns its id.
func (f *fixture) mustOpen(o *terminals.Owner) string {
	f.t.Helper()
	info, err := f.Open(f.t.Context(), o, terminals.OpenRequest{Type: "shell"})
	require.NoError(f.t, err)
	return info.SessionID
}

// opened is what an Open came to.
type opened struct {
	info terminals.Info
	err  error
}

func (f *fixture) goOpen(ctx context.Context, req terminals.OpenRequest) <-chan opened {
	return async(func() opened {
		info, err := f.Open(ctx, f.owner, req)
		return opened{info, err}
	})
}

// closed is what a Close came to.
type closed struct {
	outcome terminals.CloseOutcome
	err     error
}

func (f *fixture) goClose(ctx context.Context, id string) <-chan closed {
	return async(func() closed {
		outcome, err := f.Close(ctx, f.owner, id, "test")
		return closed{outcome, err}
	})
}

func (f *fixture) goDisposeOwner() <-chan error {
	return async(func() error { return f.DisposeOwner(f.t.Context(), f.owner) })
}

func (f *fixture) goDispose() <-chan error {
	return async(func() error { return f.Dispose(f.t.Context()) })
}

func async[T any](f func() T) <-chan T {
	c := make(chan T, 1)
	go func() { c <- f() }()
	return c
}

// pending reports whether nothing has come through c yet. It is exact after
// synctest.Wait.
func pending[T any](c <-chan T) bool { return len(c) == 0 }

func ids(infos []terminals.Info) []string {
	ids := make([]string, len(infos))
	for i, info := range infos {
		ids[i] = info.SessionID
	}
	return ids
}
