package toolpty_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/toolpty"
)

// Many sessions open at once, each with a conversation of its own: every send
// gets the answer to its own text, memory is bounded, and nothing is left. With
// SHELLSTEAD_SOAK=1 they are 500.
//
// Case: F89 (openai/codex#7245, google-gemini/gemini-cli#27628)
func TestManySessions(t *testing.T) {
	sessions, rounds := 30, 3
	if os.Getenv("SHELLSTEAD_SOAK") != "" {
		sessions, rounds = 500, 10
	}
	f := newReal(t)
	ids, pids := make([]string, sessions), make([]int, sessions)
	f.ok("terminal_close", map[string]any{"sessionId": f.open("shell")}) // what is started once
	files, memory := openFiles(t), usedMemory()

	// each runs do for all sessions, some at a time: a machine starts only so many
	// programs at once.
	each := func(do func(i int)) {
		var all sync.WaitGroup
		next := make(chan int)
		for range 32 {
			all.Go(func() {
				for i := range next {
					do(i)
				}
			})
		}
		for i := range sessions {
			next <- i
		}
		close(next)
		all.Wait()
	}
	each(func(i int) {
		typ := "shell"
		if i%10 == 0 {
			typ = "python"
		}
		res := f.call("terminal_open", map[string]any{"type": typ, "name": fmt.Sprint("number ", i)})
		if assert.False(t, res.IsError, res.Text) {
			open := res.Structured.(toolpty.OpenResult)
			ids[i], pids[i] = open.SessionID, open.PID
		}
	})
	require.False(t, t.Failed())
	require.Len(t, f.ok("terminal_list", "").Structured.(toolpty.ListResult).Sessions, sessions)
	perSession := (usedMemory() - memory) / sessions
	perOpen := float64(openFiles(t)-files) / float64(sessions)

	for n := range rounds {
		each(func(i int) {
			ask := "echo $((%d*%d))"
			if i%10 == 0 {
				ask = "%d*%d"
			}
			res := f.call("terminal_send", map[string]any{"sessionId": ids[i], "text": fmt.Sprintf(ask, 1000+i, 7000+n)})
			if assert.False(t, res.IsError, res.Text) {
				sent := res.Structured.(toolpty.SendResult)
				assert.Contains(t, sent.Viewport, fmt.Sprintf("\n%d\n", (1000+i)*(7000+n)))
				assert.Equal(t, 2, strings.Count(sent.Viewport, "\n"), "nothing of others: %q", sent.Viewport)
				assert.Equal(t, terminals.StdinRead, sent.WaitReason)
			}
		})
	}
	t.Logf("%d sessions: %d bytes of heap and stacks and %.1f files each", sessions, perSession, perOpen)
	assert.Less(t, perSession, 128<<10)

	each(func(i int) {
		res := f.call("terminal_close", map[string]any{"sessionId": ids[i]})
		assert.Equal(t, "closed terminal session "+ids[i], res.Text)
	})
	assert.Equal(t, "(no terminal sessions)", f.ok("terminal_list", "").Text)
	for _, pid := range pids {
		assert.True(t, gone(pid), pid)
	}
	// The last of them may still be on its way.
	assert.Eventually(t, func() bool { return openFiles(t) <= files }, dialecttest.Patience, 5*time.Millisecond)
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// usedMemory is what the program holds of heap and stacks.
func usedMemory() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
