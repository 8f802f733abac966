package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/tool/command"
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
	assert.Equal(t, string(want), got)
}

// shell is a backend, its session and a command: it prints what it is given, a
// part each second, and then ends with the code.
type shell struct {
	terminals.Session
	parts   []string
	code    int
	exited  chan struct{}
	settled chan struct{}
}

func newShell(code int, parts ...string) *shell {
	return &shell{parts: parts, code: code, exited: make(chan struct{}), settled: make(chan struct{})}
}

func (s *shell) Open(context.Context, terminals.Setup) (terminals.Session, error) { return s, nil }

func (s *shell) PID() int                            { return 4711 }
func (s *shell) Startup() string                     { return "" }
func (s *shell) Status() terminals.Status            { return terminals.Status{} }
func (s *shell) Exited() <-chan struct{}             { return s.exited }
func (s *shell) Unsolicited() ([]byte, int64)        { return nil, 0 }
func (s *shell) Close(context.Context, string) error { return nil }
func (s *shell) Waits() bool                         { return false }
func (s *shell) Settled() <-chan struct{}            { return s.settled }

func (s *shell) Interrupt(ctx context.Context) error {
	<-s.settled
	return nil
}

func (s *shell) StartCommand(_ context.Context, req terminals.CommandRequest) (terminals.CommandRun, error) {
	if bytes.ContainsRune([]byte(req.Text), 0) {
		return nil, &terminals.Error{Code: terminals.InvalidArgument, Message: "the command has a NUL byte at position 4; no shell text can hold it"}
	}
	go func() {
		for _, part := range s.parts {
			req.Sink([]byte(part))
			time.Sleep(time.Second)
		}
		close(s.settled)
	}()
	return s, nil
}

func (s *shell) Wait(ctx context.Context) (terminals.CommandResult, error) {
	select {
	case <-s.settled:
		return terminals.CommandResult{State: terminals.Completed, ExitCode: &s.code, Cwd: "/project"}, nil
	case <-ctx.Done():
		return terminals.CommandResult{}, context.Cause(ctx)
	}
}

func newTool(t *testing.T, s *shell) (*command.Tool, *terminals.Owner) {
	t.Helper()
	service := terminals.NewService(terminals.Options{})
	_, err := service.Register("shell", s)
	require.NoError(t, err)
	runner, err := persistent.New(service, persistent.DefaultConfig())
	require.NoError(t, err)
	owner, err := service.NewOwner(terminals.OwnerOptions{Cwd: "/project"})
	require.NoError(t, err)
	return command.New(runner, command.Options{Name: "run", Title: "Run", Description: "Run a command. " + command.Rules}), owner
}

func TestGoldenSpec(t *testing.T) {
	run, _ := newTool(t, newShell(0))
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(run.Spec()))
	golden(t, "spec.golden", b.String())
}

func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, owner := newTool(t, newShell(3, "one\n"))
		got := run.Call(t.Context(), owner, tool.Call{Arguments: json.RawMessage(`{"command": "x", "env": {}, "stdin": "y", "timeout": "z"}`)})
		assert.Equal(t, "one\n[exit code: 3]", got.Text)
		assert.False(t, got.IsError, "a failed command is a result")
		assert.Equal(t, tool.IntentExecute, got.Intent)
		res := got.Structured.(persistent.Result)
		assert.Equal(t, "x", res.Command)
		assert.Equal(t, 3, *res.ExitCode)
		assert.Equal(t, got.Text, res.Text)
	})
}

// Reference 1.20: a command that is empty or blank is refused.
func TestBadArguments(t *testing.T) {
	cases := map[string]string{
		`{}`:                     `Error: "command" is required`,
		``:                       `Error: "command" is required`,
		`{"command": null}`:      `Error: "command" is required`,
		`{"command": ["ls"]}`:    `Error: "command" must be a string, not an array`,
		`{"command": ""}`:        `Error: "command" is empty; give the text of a command`,
		`{"command": " \n\t "}`:  `Error: "command" is empty; give the text of a command`,
		`{"command": "a\u0000"}`: `Error: the command has a NUL byte at position 4; no shell text can hold it`,
		`[]`:                     `Error: the arguments must be a JSON object, not an array`,
	}
	run, owner := newTool(t, newShell(0))
	for raw, want := range cases {
		got := run.Call(t.Context(), owner, tool.Call{Arguments: json.RawMessage(raw)})
		assert.Equal(t, want, got.Text)
		assert.True(t, got.IsError)
		res := got.Structured.(persistent.Result)
		assert.Equal(t, persistent.Failed, res.Reason)
		assert.Equal(t, "INVALID_ARGUMENT", res.Error.Code)
	}
}

func TestCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("the user pressed stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(500*time.Millisecond, func() { cancel(stop) })
		run, owner := newTool(t, newShell(0, "one\n"))
		got := run.Call(ctx, owner, tool.Call{Arguments: json.RawMessage(`{"command": "x"}`)})
		assert.True(t, got.IsError)
		assert.Equal(t, "Error: the user pressed stop\none\n", got.Text)
		assert.ErrorIs(t, got.Structured.(persistent.Result).Err(), stop)
	})
}

func TestProgressOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, owner := newTool(t, newShell(0, "one\n", "two\n", "three\n"))
		var reports []string
		run.Call(t.Context(), owner, tool.Call{
			Arguments: json.RawMessage(`{"command": "x"}`),
			Progress:  func(text string) { reports = append(reports, text) },
		})
		assert.Equal(t, []string{"one\n", "two\n", "three\n"}, reports)
	})
}
