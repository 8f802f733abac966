//go:build linux

package toolpwsh_test

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
	descriptors, goroutines, files int
}

// exceeds tells whether there is more of anything. Of the first shell something
// may have been on its way out when it was counted.
func (h held) exceeds(before held) bool {
	return h.descriptors > before.descriptors || h.goroutines > before.goroutines || h.files > before.files
}

func count(t testing.TB, temp string) held {
	t.Helper()
	n := held{goroutines: runtime.NumGoroutine()}
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	n.descriptors = len(fds)
	files, err := os.ReadDir(temp)
	require.NoError(t, err)
	n.files = len(files)
	return n
}

// Hundreds of shells, ended in turn by their owner, by themselves and by a kill,
// leave no descriptor, goroutine, file or process behind.
//
// Case: F89 (openai/codex#7245)
func TestOpenCloseSoak(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	h := newHost(t, shells(t)[0])
	mark := fmt.Sprintf("SOAK_%d", rand.Int64())
	one := func(i int) {
		owner, err := h.service.NewOwner(terminals.OwnerOptions{Cwd: h.dir})
		require.NoError(t, err)
		r := h.runner.Run(context.Background(), owner, persistent.Command{Text: "$env:" + mark + " = 1; Start-Process /bin/sleep -ArgumentList 1000; 'hi'"})
		require.Equal(t, "hi\n", r.Output, "%+v", r)
		switch i % 3 {
		case 1:
			r = h.runner.Run(context.Background(), owner, persistent.Command{Text: "exit 3"})
			require.Equal(t, persistent.ShellExited, r.Reason)
		case 2:
			r = h.runner.Run(context.Background(), owner, persistent.Command{Text: "/bin/kill -KILL $PID"})
			require.Equal(t, persistent.ShellExited, r.Reason)
		}
		require.NoError(t, h.service.DisposeOwner(context.Background(), owner))
	}
	one(0)
	before := count(t, temp)
	for i := range rounds(3, 300) {
		one(i)
	}
	// Not require.Eventually: that has a goroutine of its own.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	after := count(t, temp)
	for end := time.Now().Add(10 * time.Second); after.exceeds(before) && time.Now().Before(end); after = count(t, temp) {
		<-tick.C
	}
	require.False(t, after.exceeds(before), "%+v, before %+v", after, before)
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		assert.False(t, err == nil && strings.Contains(string(env), mark), "process %s survived", e.Name())
	}
}

// An interrupt within the first moments of a command stops the command and
// never the shell.
func TestEarlyInterruptSoak(t *testing.T) {
	h := warmHost(t, shells(t)[0])
	h.expect("$kept = 'yes'", "", 0)
	pid := h.session().PID()
	for i := range rounds(20, 500) {
		ctx, cancel := context.WithCancelCause(context.Background())
		stop := errors.New("stop")
		delay := time.Duration(rand.Int64N(int64(5 * time.Millisecond)))
		timer := time.AfterFunc(delay, func() { cancel(stop) })
		text := []string{"Start-Sleep 30; Set-Content ran x", "/bin/sleep 30; Set-Content ran x", "Read-Host; Set-Content ran x"}[i%3]
		a := h.runCtx(ctx, text)
		timer.Stop()
		require.Equal(t, persistent.Cancelled, a.Reason, "round %d after %v: %+v", i, delay, a.Result)
		b := h.run("$kept")
		require.Equal(t, "yes\n", b.exact, "round %d after %v: %+v then %+v", i, delay, a.Result, b.Result)
		require.Equal(t, pid, h.session().PID(), "round %d after %v: the shell was replaced", i, delay)
		require.NoFileExists(t, filepath.Join(h.dir, "ran"), "round %d after %v", i, delay)
	}
}

// No command loses its output or status to a race.
func TestPairingSoak(t *testing.T) {
	h := warmHost(t, shells(t)[0])
	for i := range rounds(100, 10000) {
		var a answer
		want := i % 200
		if i%2 == 0 {
			a = h.run(fmt.Sprintf("[Console]::Write(%d); /bin/sh -c 'exit %d'", i, want))
		} else {
			a = h.run(fmt.Sprintf("/usr/bin/printf %d", i))
			want = 0
		}
		require.Equal(t, fmt.Sprint(i), a.exact, "%+v", a.Result)
		require.NotNil(t, a.ExitCode, "%+v", a.Result)
		require.Equal(t, want, *a.ExitCode, "%+v", a.Result)
		require.Empty(t, a.Unsolicited)
	}
}
