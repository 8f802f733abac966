//go:build unix

package toolbash_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// bashes are the shells that the tests run: SHELLSTEAD_TEST_BASHES, or the one
// of this system. ci/bashes prints a list for the variable.
func bashes() []string {
	if list := os.Getenv("SHELLSTEAD_TEST_BASHES"); list != "" {
		return strings.Split(list, ":")
	}
	return []string{"bash"}
}

// eachBash runs f for each shell.
func eachBash(t *testing.T, f func(t *testing.T, path string)) {
	for _, path := range bashes() {
		t.Run(strings.NewReplacer("/", "_").Replace(path), func(t *testing.T) { f(t, path) })
	}
}

var driver = dialecttest.Driver

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
	h := dialecttest.NewHost(t, bash.Dialect{}, path, opts...)
	return &host{t: t, service: h.Service, runner: h.Runner, owner: h.Owner, dir: h.Dir}
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

// newMark is an argument by which a test finds its own processes. It holds no 42,
// which tests wait for.
func newMark(prefix string) string {
	return strings.ReplaceAll(fmt.Sprintf("%s%d", prefix, time.Now().UnixNano()%1e9), "42", "43")
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

func code(n int) *int { return &n }

// gone waits until no process has the mark among its arguments.
func gone(t testing.TB, mark string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(having(mark)) == 0 }, 10*time.Second, 20*time.Millisecond,
		"processes with %q survived", mark)
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
