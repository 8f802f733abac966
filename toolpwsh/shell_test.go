//go:build unix

package toolpwsh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

func TestMain(m *testing.M) {
	// Nothing that a shell does by itself may depend on a network.
	os.Setenv("POWERSHELL_TELEMETRY_OPTOUT", "1")
	os.Setenv("POWERSHELL_UPDATECHECK", "Off")
	code := m.Run()
	for _, h := range warmHosts {
		if err := errors.Join(h.Dispose(), os.Remove(h.Dir)); err != nil {
			fmt.Println("a shell that the tests shared:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// shells are the shells that the tests run: SHELLSTEAD_TEST_PWSH (path:path), or
// the one in PATH.
func shells(t testing.TB) []string {
	if list := os.Getenv("SHELLSTEAD_TEST_PWSH"); list != "" {
		return strings.Split(list, ":")
	}
	path, err := exec.LookPath("pwsh")
	if err != nil {
		t.Skip("no pwsh in PATH; install PowerShell 7, or name one in SHELLSTEAD_TEST_PWSH")
	}
	return []string{path}
}

// eachShell runs f for each shell.
func eachShell(t *testing.T, f func(t *testing.T, path string)) {
	for _, path := range shells(t) {
		t.Run(strings.NewReplacer("/", "_").Replace(path), func(t *testing.T) { f(t, path) })
	}
}

// host is a service with one backend, a runner and one owner.
type host struct {
	t       testing.TB
	service *terminals.Service
	runner  *persistent.Runner
	owner   *terminals.Owner
	dir     string // the owner's directory
}

type option = dialecttest.Option

func newHost(t testing.TB, path string, opts ...option) *host {
	t.Helper()
	return newHostOf(t, pwsh.Dialect{}, path, opts...)
}

func newHostOf(t testing.TB, d pwsh.Dialect, path string, opts ...option) *host {
	t.Helper()
	return hostOf(dialecttest.NewHost(t, d, path, opts...))
}

func hostOf(h *dialecttest.Host) *host {
	return &host{t: h.T, service: h.Service, runner: h.Runner, owner: h.Owner, dir: h.Dir}
}

// warmHosts are shells that the tests share: the start of one takes longer than
// most tests.
var warmHosts = map[warmKey]*dialecttest.Host{}

type warmKey struct {
	dialect pwsh.Dialect
	path    string
	patient bool
}

// warmHost returns a host whose shell was used before and will be used again. A
// test finds it in a folder of its own, without errors or codes of others, and
// leaves it unharmed. Such tests do not run in parallel.
func warmHost(t testing.TB, path string) *host {
	t.Helper()
	return warmHostOf(t, pwsh.Dialect{}, path)
}

func warmHostOf(t testing.TB, d pwsh.Dialect, path string) *host {
	t.Helper()
	return warmUp(t, warmKey{d, path, false})
}

// patientHost is warmHost with a shell in which nothing counts as waiting within
// a minute, and which outlives the timeout of a command.
func patientHost(t testing.TB, path string) *host {
	t.Helper()
	return warmUp(t, warmKey{path: path, patient: true})
}

func warmUp(t testing.TB, key warmKey) *host {
	t.Helper()
	shared := warmHosts[key]
	if shared == nil {
		dir, err := os.MkdirTemp("", "toolpwsh")
		require.NoError(t, err)
		shared, err = dialecttest.Open(dir, key.dialect, key.path, func(_ *engine.Config, p *persistent.Config) {
			if key.patient {
				p.WaitConfirm, p.OnTimeout = time.Minute, persistent.Interrupt
			}
		})
		require.NoError(t, err)
		warmHosts[key] = shared
	}
	h := hostOf(shared.With(t))
	h.dir = t.TempDir()
	a := h.run("Set-Location -LiteralPath '" + h.dir + "'; $Error.Clear(); Remove-Variable LASTEXITCODE -Scope Global -ErrorAction Ignore")
	require.Equal(t, persistent.Completed, a.Reason, "%+v", a.Result)
	t.Cleanup(func() {
		a := h.run("Set-Location /")
		assert.Equal(t, persistent.Completed, a.Reason, "what the test left: %+v", a.Result)
	})
	return h
}

// answer is a result with the exact bytes that came.
type answer struct {
	persistent.Result
	exact string
}

func (h *host) runCtx(ctx context.Context, text string) answer {
	var exact bytes.Buffer
	r := h.runner.Run(ctx, h.owner, persistent.Command{Text: text, Stream: func(p []byte) { exact.Write(p) }})
	return answer{r, exact.String()}
}

func (h *host) run(text string) answer {
	h.t.Helper()
	return h.runCtx(context.Background(), text)
}

// expect runs text and checks what it printed, exactly, and its exit code.
func (h *host) expect(text, output string, code int) answer {
	h.t.Helper()
	a := h.run(text)
	assert.Equal(h.t, output, a.exact, "output of %q", text)
	if assert.Equal(h.t, persistent.Completed, a.Reason, "%q: %+v", text, a.Result) && assert.NotNil(h.t, a.ExitCode, "%q", text) {
		assert.Equal(h.t, code, *a.ExitCode, "exit code of %q", text)
	}
	assert.Empty(h.t, a.Unsolicited, "after %q", text)
	return a
}

// session is the live shell behind the host.
func (h *host) session() terminals.Session {
	h.t.Helper()
	list := h.service.List(h.owner)
	require.Len(h.t, list, 1)
	s, err := h.service.Session(h.owner, list[0].SessionID)
	require.NoError(h.t, err)
	return s
}

// during starts text, waits until it printed token, calls f and returns the
// result. The token must not be part of the text.
func (h *host) during(text, token string, f func()) answer {
	h.t.Helper()
	require.NotContains(h.t, text, token)
	var exact bytes.Buffer
	seen := make(chan struct{})
	done := make(chan persistent.Result, 1)
	go func() {
		found := false
		done <- h.runner.Run(context.Background(), h.owner, persistent.Command{Text: text, Stream: func(p []byte) {
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
		h.t.Fatalf("%q ended before it printed %q: %+v", text, token, r)
	case <-time.After(30 * time.Second):
		h.t.Fatalf("%q never printed %q", text, token)
	}
	r := <-done
	return answer{r, exact.String()}
}

// having lists the processes with mark among their arguments.
func having(mark string) (pids []string) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(mark)) && e.Name() != fmt.Sprint(os.Getpid()) {
			pids = append(pids, e.Name())
		}
	}
	return pids
}

// appears waits until the file exists.
func appears(t testing.TB, file string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(file)
		return err == nil
	}, 30*time.Second, 5*time.Millisecond, "no %s", file)
}
