//go:build unix

package toolbash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// rounds is how often a soak repeats: briefly among the other tests, in full
// with SHELLSTEAD_SOAK=1 (ci/soak).
func rounds(brief, full int) int {
	if os.Getenv("SHELLSTEAD_SOAK") != "" {
		return full
	}
	return brief
}

// held counts what shells could leave behind in this process and system.
type held struct {
	descriptors, goroutines, ptys, folders int
}

func count(t testing.TB) held {
	t.Helper()
	n := held{goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		n.descriptors = len(fds)
		for _, fd := range fds {
			if link, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(link, "ptmx") {
				n.ptys++
			}
		}
	}
	folders, err := filepath.Glob(filepath.Join(os.TempDir(), "shellstead-*"))
	require.NoError(t, err)
	n.folders = len(folders)
	return n
}

// Thousands of shells leave no descriptor, terminal, goroutine, folder or
// process behind.
//
// Case: F89 (openai/codex#7245)
func TestOpenCloseSoak(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := newHost(t, bashes()[0])
	mark := fmt.Sprintf("SOAK_%d", rand.Int64())
	one := func() {
		owner, err := h.service.NewOwner(terminals.OwnerOptions{Cwd: h.dir})
		require.NoError(t, err)
		r := h.runner.Run(context.Background(), owner, persistent.Command{Text: "sleep 1000 & export " + mark + "=1; sleep 1000 & echo hi"})
		require.Equal(t, "hi\n", r.Output, "%+v", r)
		require.NoError(t, h.service.DisposeOwner(context.Background(), owner))
	}
	one()
	before := count(t)
	for range rounds(20, 2000) {
		one()
	}
	// Not require.Eventually: that has a goroutine of its own.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	more := func() bool {
		now := count(t)
		return now.descriptors > before.descriptors || now.goroutines > before.goroutines || now.ptys > before.ptys || now.folders > before.folders
	}
	for end := time.Now().Add(10 * time.Second); more() && time.Now().Before(end); {
		<-tick.C
	}
	require.False(t, more(), "before %+v, now %+v", before, count(t))
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return // no such list on this system
	}
	for _, e := range entries {
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		assert.False(t, err == nil && strings.Contains(string(env), mark), "process %s survived", e.Name())
	}
}

// An interrupt within the first moments of a command stops the command and
// never the shell.
func TestEarlyInterruptSoak(t *testing.T) {
	h := newHost(t, bashes()[0])
	h.expect("kept=yes", "", 0)
	pid := h.session().PID()
	for i := range rounds(40, 500) {
		ctx, cancel := context.WithCancelCause(context.Background())
		stop := errors.New("stop")
		delay := time.Duration(rand.Int64N(int64(2 * time.Millisecond)))
		timer := time.AfterFunc(delay, func() { cancel(stop) })
		a := h.runCtx(ctx, "sleep 30; touch ran; sleep 30")
		timer.Stop()
		require.Equal(t, persistent.Cancelled, a.Reason, "round %d after %v: %+v", i, delay, a.Result)
		b := h.run("echo $kept")
		require.Equal(t, "yes\n", b.exact, "round %d after %v: %+v then %+v", i, delay, a.Result, b.Result)
		require.Equal(t, pid, h.session().PID(), "round %d after %v: the shell was replaced", i, delay)
		require.NoFileExists(t, filepath.Join(h.dir, "ran"), "round %d after %v", i, delay)
	}
	children := h.run("jobs -p | wc -l; ps -o pid= --ppid $$ | wc -l")
	assert.Equal(t, "0\n2\n", children.exact, "an interrupted program lives on")
}

// No command loses its output or status to a race.
func TestPairingSoak(t *testing.T) {
	h := newHost(t, bashes()[0])
	for i := range rounds(500, 20000) {
		a := h.run(fmt.Sprintf("printf %d; (exit %d)", i, i%200))
		require.Equal(t, fmt.Sprint(i), a.exact, "%+v", a.Result)
		require.Equal(t, code(i%200), a.ExitCode, "%+v", a.Result)
		require.Empty(t, a.Unsolicited)
	}
}
