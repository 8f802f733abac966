package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// A shell that asks for the cursor by itself and waits for the answer without
// end is answered once more when the answer was lost, and only then.
func TestLostAnswerIsGivenAgain(t *testing.T) {
	const reply = "\x1b[1;1R"
	asks := backend.Wait{State: backend.WaitReading, PID: shellPID, Timed: true, Site: backend.Site{0, 0, 1, 1}, Turns: 7}
	for _, tt := range []struct {
		name    string
		change  func(f *fixture)
		answers bool
	}{
		{"lost", func(f *fixture) {}, true},
		{"on its way", func(f *fixture) {
			time.AfterFunc(90*time.Millisecond, func() { f.dev.set(func() { f.dev.shellWait = busy }) })
		}, false},
		{"unread", func(f *fixture) { f.dev.set(func() { f.dev.pending = 6 }) }, false},
		{"unseen", func(f *fixture) { f.dev.set(func() { f.dev.pendingOut = 4 }) }, false},
		{"a question to a person", func(f *fixture) { f.dev.set(func() { f.dev.shellWait.Timed = false }) }, false},
		{"its channel", func(f *fixture) { f.dev.set(func() { f.dev.shellWait.Channel = true }) }, false},
		{"moving on", func(f *fixture) {
			f.dev.onShellWait = func() { f.dev.set(func() { f.dev.shellWait.Turns++ }) }
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command, func(f *fixture) { f.lang.launch.AnswerQueries = true })
				c := f.command()
				f.dev.set(func() { f.dev.shellWait, f.dev.inputWait = asks, busy })
				tt.change(f)
				before := len(f.dev.written())
				stop := c.watch()
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Equal(t, tt.answers, slices.Contains(f.dev.written()[before:], reply), "%q", f.dev.written())
				stop()
			})
		})
	}
}

// A program that was reported to wait is not reported again before it has read
// the answer.
func TestAnswerThatIsNotReadYet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.wait(reading(200, 1))
		res, err := c.Wait(context.Background())
		require.NoError(t, err)
		require.Equal(t, terminals.Waiting, res.State)

		stop := c.watch()
		f.dev.set(func() {
			f.dev.onWrite = func(_ context.Context, p []byte) (int, error) {
				time.Sleep(100 * time.Millisecond)
				f.dev.accept(p)
				f.dev.wait(busy)
				return len(p), nil
			}
		})
		x := f.send(context.Background(), "it")
		pass(200 * time.Millisecond)
		stop()
		<-x.Done()
		c.finish(0)
	})
}
