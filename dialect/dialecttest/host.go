// Package dialecttest tests shells through the whole stack: a real shell on a
// real terminal, behind the engine and the command runner. [Run] is the suite
// that every dialect has to pass; a dialect fills in a [Language]. [Host] is what
// its own tests are written with.
package dialecttest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// Patience bounds every wait of a test. It is generous: a loaded machine is
// slow, and no test waits this long when all is well.
const Patience = 60 * time.Second

// Option changes a host's configuration.
type Option func(*engine.Config, *persistent.Config)

// Host is a service with one backend, a runner and one owner. One of NewHost is
// disposed when its test ends, which fails when anything of it is left.
type Host struct {
	T       testing.TB
	Service *terminals.Service
	Runner  *persistent.Runner
	Owner   *terminals.Owner
	Dir     string // the owner's directory
}

// NewHost returns a host whose shells are d's, started from path.
func NewHost(t testing.TB, d dialect.Dialect, path string, opts ...Option) *Host {
	t.Helper()
	h, err := Open(t.TempDir(), d, path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Dispose()) })
	return h.With(t)
}

// Open is NewHost for a host that several tests share, each by With. Its user
// disposes it. dir is the owner's directory.
func Open(dir string, d dialect.Dialect, path string, opts ...Option) (*Host, error) {
	ecfg, pcfg := engine.DefaultConfig(), persistent.DefaultConfig()
	ecfg.ShellPath, ecfg.Timeout = path, Patience
	ecfg.DisposeGrace, ecfg.CaseInsensitiveEnv = 500*time.Millisecond, crlf
	pcfg.BackendType, pcfg.Timeout = ecfg.Type, Patience
	Confine(&ecfg)
	for _, o := range opts {
		o(&ecfg, &pcfg)
	}
	b, err := engine.New(ecfg, Driver, d)
	if err != nil {
		return nil, err
	}
	h := &Host{Service: terminals.NewService(terminals.Options{}), Dir: dir}
	if _, err = h.Service.Register(ecfg.Type, b); err != nil {
		return nil, err
	}
	if h.Runner, err = persistent.New(h.Service, pcfg); err != nil {
		return nil, err
	}
	h.Owner, err = h.Service.NewOwner(terminals.OwnerOptions{Name: "test", Cwd: dir})
	return h, err
}

// Dispose ends everything of the host.
func (h *Host) Dispose() error { return h.Service.Dispose(context.Background()) }

// With returns the host as t uses it, whose failures are t's.
func (h *Host) With(t testing.TB) *Host {
	bound := *h
	bound.T = t
	return &bound
}

// Answer is a result with the exact bytes that the command printed, but for line
// ends: those of Windows are the others' here.
type Answer struct {
	persistent.Result
	Exact string
}

// RunContext runs text until ctx ends.
func (h *Host) RunContext(ctx context.Context, text string) Answer {
	var exact bytes.Buffer
	r := h.Runner.Run(ctx, h.Owner, persistent.Command{Text: text, Stream: func(p []byte) { exact.Write(p) }})
	return Answer{r, lines(exact.String())}
}

// lines is text with the line ends that the suite expects.
func lines(text string) string {
	if crlf {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	return text
}

// Run runs text.
func (h *Host) Run(text string) Answer {
	h.T.Helper()
	return h.RunContext(context.Background(), text)
}

// Expect runs text and checks what it printed, exactly, and its exit code.
func (h *Host) Expect(text, output string, code int) Answer {
	h.T.Helper()
	a := h.Run(text)
	assert.Equal(h.T, output, a.Exact, "output of %.200q", text)
	if assert.Equal(h.T, persistent.Completed, a.Reason, "%.200q: %+v", text, a.Result) && assert.NotNil(h.T, a.ExitCode, "%.200q", text) {
		assert.Equal(h.T, code, *a.ExitCode, "exit code of %.200q", text)
	}
	assert.Empty(h.T, a.Unsolicited, "after %.200q", text)
	return a
}

// Session is the live shell behind the host.
func (h *Host) Session() terminals.Session {
	h.T.Helper()
	list := h.Service.List(h.Owner)
	require.Len(h.T, list, 1)
	s, err := h.Service.Session(h.Owner, list[0].SessionID)
	require.NoError(h.T, err)
	return s
}

// During starts text, waits until it printed token, calls f and returns the
// answer. The token must not be part of the text. ctx ends the command.
func (h *Host) During(ctx context.Context, text, token string, f func()) Answer {
	h.T.Helper()
	require.NotContains(h.T, text, token)
	var exact bytes.Buffer
	seen := make(chan struct{})
	done := make(chan persistent.Result, 1)
	go func() {
		found := false
		done <- h.Runner.Run(ctx, h.Owner, persistent.Command{Text: text, Stream: func(p []byte) {
			exact.Write(p)
			if !found && strings.Contains(exact.String(), token) {
				found = true
				close(seen)
			}
		}})
	}()
	select {
	case <-seen:
		f()
	case r := <-done:
		h.T.Fatalf("%.200q ended before it printed %q: %+v", text, token, r)
	case <-time.After(Patience):
		h.T.Fatalf("%.200q never printed %q", text, token)
	}
	r := <-done
	return Answer{r, lines(exact.String())}
}
