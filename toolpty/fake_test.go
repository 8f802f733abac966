package toolpty_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolpty"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run go test ./toolpty -run Golden -update if this is meant")
}

// fakeBackend hands out one session, for the texts of states that a real one
// does not show on demand.
type fakeBackend struct {
	session *fakeSession
	setup   terminals.Setup // of the newest open
}

func (b *fakeBackend) Open(_ context.Context, setup terminals.Setup) (terminals.Session, error) {
	b.setup = setup
	if setup.Cwd == "/nowhere" {
		return nil, &terminals.Error{Code: terminals.InvalidArgument, Message: "there is no folder /nowhere"}
	}
	return b.session, nil
}

// fakeSession ends every send as it is told, and records what was typed.
type fakeSession struct {
	terminals.Session // nil: a method that no test expects panics

	startup string
	pid     int
	status  terminals.Status
	page    terminals.Page
	closing chan struct{} // nil: closes at once

	mu     sync.Mutex
	typed  []terminals.SendRequest
	busy   bool
	result terminals.SendResult
	err    error
	hold   bool // sends go on until they are cancelled or ended
	send   *fakeSend
	pages  [][2]int
}

func (s *fakeSession) PID() int                 { return s.pid }
func (s *fakeSession) Startup() string          { return s.startup }
func (s *fakeSession) Status() terminals.Status { return s.status }

func (s *fakeSession) Close(context.Context, string) error {
	if s.closing != nil {
		<-s.closing
	}
	return nil
}

func (s *fakeSession) Read(offset, count int) (terminals.Page, error) {
	s.pages = append(s.pages, [2]int{offset, count})
	return s.page, nil
}

func (s *fakeSession) Signal(_ context.Context, sig terminals.Signal) (int, error) {
	if sig == terminals.SIGKILL {
		return 0, &terminals.Error{Code: terminals.InvalidArgument, Message: "SIGKILL is refused while the shell itself is in the foreground; close the session instead"}
	}
	return 815, nil
}

func (s *fakeSession) StartSend(ctx context.Context, req terminals.SendRequest) (terminals.Send, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return nil, &terminals.Error{Code: terminals.SendActive, Message: "another send is active; wait for it"}
	}
	s.typed = append(s.typed, req)
	x := &fakeSend{session: s, result: s.result, err: s.err, done: make(chan struct{})}
	s.send, s.busy = x, true
	if !s.hold {
		x.endLocked()
		return x, nil
	}
	context.AfterFunc(ctx, func() { x.Cancel(context.Cause(ctx)) })
	return x, nil
}

// fakeSend is one send. The session's mutex guards it.
type fakeSend struct {
	session *fakeSession
	result  terminals.SendResult
	err     error
	over    bool
	unread  string
	done    chan struct{}
}

func (x *fakeSend) Done() <-chan struct{} { return x.done }

func (x *fakeSend) Result() (terminals.SendResult, error) { return x.result, x.err }

func (x *fakeSend) Output() (string, bool) {
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	text := x.unread
	x.unread = ""
	return text, false
}

func (x *fakeSend) Cancel(cause error) bool {
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	if x.over {
		return false
	}
	x.err = cause
	x.endLocked()
	return true
}

func (x *fakeSend) print(text string) {
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	x.unread += text
}

func (x *fakeSend) end(res terminals.SendResult) {
	x.session.mu.Lock()
	defer x.session.mu.Unlock()
	x.result = res
	x.endLocked()
}

func (x *fakeSend) endLocked() {
	x.over, x.session.busy = true, false
	close(x.done)
}

// fixture is the six tools over a service with one owner.
type fixture struct {
	t       *testing.T
	service *terminals.Service
	owner   *terminals.Owner
	tasks   *tasks.Runtime
	tools   map[string]tool.Tool
	notices chan tasks.Notice
}

// newFixture returns the tools over service, as configure says.
func newFixture(t *testing.T, service *terminals.Service, configure ...func(*toolpty.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, service: service, tools: map[string]tool.Tool{}, notices: make(chan tasks.Notice, 100)}
	cfg := toolpty.DefaultConfig()
	for _, c := range configure {
		c(&cfg)
	}
	var err error
	f.tasks, err = tasks.New(tasks.Config{
		MaxResultBytes: cfg.MaxResultBytes,
		Notify:         func(_ *terminals.Owner, n tasks.Notice) { f.notices <- n },
	})
	require.NoError(t, err)
	cfg.Tasks = f.tasks
	for _, c := range configure { // which may take the tasks away
		c(&cfg)
	}
	six, err := toolpty.New(service, cfg)
	require.NoError(t, err)
	for _, one := range append(six, f.tasks.Tools()...) {
		f.tools[one.Spec().Name] = one
	}
	f.owner, err = service.NewOwner(terminals.OwnerOptions{Name: "agent", Cwd: t.TempDir()})
	require.NoError(t, err)
	return f
}

// newFake returns the tools over a session that a test scripts.
func newFake(t *testing.T, s *fakeSession, configure ...func(*toolpty.Config)) (*fixture, *fakeBackend) {
	t.Helper()
	service := terminals.NewService(terminals.Options{})
	b := &fakeBackend{session: s}
	_, err := service.Register("shell", b)
	require.NoError(t, err)
	return newFixture(t, service, configure...), b
}

// as returns f with another owner.
func (f *fixture) as(owner *terminals.Owner) *fixture {
	other := *f
	other.owner = owner
	return &other
}

func (f *fixture) callWith(ctx context.Context, name string, call tool.Call) tool.Result {
	f.t.Helper()
	placed := 0
	call.Placed = func() { placed++ }
	res := f.tools[name].Call(ctx, f.owner, call)
	assert.Equal(f.t, 1, placed, "%s holds up no other call", name)
	return res
}

// call runs a tool. arguments are JSON text, or what makes it.
func (f *fixture) call(name string, arguments any) tool.Result {
	f.t.Helper()
	return f.callWith(f.t.Context(), name, tool.Call{Arguments: f.encode(arguments)})
}

func (f *fixture) encode(arguments any) json.RawMessage {
	f.t.Helper()
	if text, ok := arguments.(string); ok {
		return json.RawMessage(text)
	}
	raw, err := json.Marshal(arguments)
	require.NoError(f.t, err)
	return raw
}

// ok runs a tool and requires that it succeeds.
func (f *fixture) ok(name string, arguments any) tool.Result {
	f.t.Helper()
	res := f.call(name, arguments)
	require.False(f.t, res.IsError, res.Text)
	return res
}

// refuses runs a tool and requires that it fails with this text.
func (f *fixture) refuses(name string, arguments any, text string) {
	f.t.Helper()
	res := f.call(name, arguments)
	assert.True(f.t, res.IsError)
	assert.Equal(f.t, "Error: "+text, res.Text)
	assert.Nil(f.t, res.Structured)
}

// open opens a session of a type and returns its id.
func (f *fixture) open(typ string) string {
	f.t.Helper()
	return f.ok(toolpty.OpenTool, map[string]any{"type": typ}).Structured.(toolpty.OpenResult).SessionID
}
