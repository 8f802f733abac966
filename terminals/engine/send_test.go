package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

var errCaller = errors.New("the caller's own reason")

// send starts a send and returns when its text was typed.
func (f *fixture) send(ctx context.Context, text string) terminals.Send {
	f.t.Helper()
	x, err := f.s.StartSend(ctx, terminals.SendRequest{Text: text, Submit: true})
	require.NoError(f.t, err)
	synctest.Wait()
	return x
}

// ends requires that x has ended for reason.
func ends(t *testing.T, x terminals.Send, reason terminals.WaitReason) terminals.SendResult {
	t.Helper()
	synctest.Wait()
	require.True(t, isDone(x.Done()), "the send has not ended")
	res, err := x.Result()
	require.NoError(t, err)
	require.Equal(t, reason, res.WaitReason)
	return res
}

// cancelled requires that x has ended with its caller's cause.
func cancelled(t *testing.T, x terminals.Send) terminals.SendResult {
	t.Helper()
	synctest.Wait()
	require.True(t, isDone(x.Done()), "the send has not ended")
	res, err := x.Result()
	require.ErrorIs(t, err, errCaller)
	return res
}

func open(t *testing.T, x terminals.Send) {
	t.Helper()
	synctest.Wait()
	require.False(t, isDone(x.Done()), "the send has ended")
}

func (f *fixture) busy() {
	f.t.Helper()
	_, err := f.s.StartSend(context.Background(), terminals.SendRequest{Text: "next"})
	require.ErrorIs(f.t, err, terminals.SendActive)
}

// free requires that the session takes a next send, and ends that.
func (f *fixture) free() {
	f.t.Helper()
	f.dev.set(func() { f.dev.onWrite, f.dev.onSignal = nil, nil })
	x := f.send(context.Background(), "next")
	assert.Equal(f.t, "next\r", f.dev.written()[len(f.dev.written())-1])
	f.dev.home()
	f.dev.say(f.prompt(0))
	ends(f.t, x, terminals.StdinRead)
}

func TestSendEndsAtThePrompt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "echo hi")
		f.busy()
		f.dev.run()
		f.dev.say("echo hi\r\nhi\r\n")
		open(t, x)
		f.dev.home()
		f.dev.say(f.mark("D;1;0;/") + f.prompt(1))
		res := ends(t, x, terminals.StdinRead)
		assert.Equal(t, "echo hi\nhi\n$ ", res.Viewport)
		assert.Nil(t, res.NeedsInput)
		assert.False(t, x.Cancel(errCaller), "it has ended")
		assert.Equal(t, []string{"echo hi\r"}, f.dev.written())
		assert.Zero(t, f.dev.signalled())
		f.free()
	})
}

// The first probe comes some time after the write, and what was printed until
// then counts.
//
// Case: reference 3.3 #14
func TestSendFirstProbe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.wait(reading(200, 1)) // a program reads before the write, another one after it
		f.dev.set(func() {
			f.dev.onWrite = func(_ context.Context, p []byte) (int, error) {
				f.dev.accept(p)
				f.dev.wait(reading(201, 1))
				f.dev.print("out\r\n")
				return len(p), nil
			}
		})
		x := f.send(context.Background(), "in")
		open(t, x)
		pass(2 * time.Millisecond)
		open(t, x) // what it printed may be on its way
		pass(2 * time.Millisecond)
		res := ends(t, x, terminals.StdinRead)
		assert.Equal(t, "out\n", res.Viewport)
		assert.Equal(t, &terminals.NeedsInput{Kind: terminals.KeyInput, Program: "prog", PID: 201}, f.kind(res, backend.Modes{}))
	})
}

// kind returns what the send needs, seen with other terminal modes.
func (f *fixture) kind(res terminals.SendResult, m backend.Modes) *terminals.NeedsInput {
	f.t.Helper()
	assert.Equal(f.t, terminals.LineInput, res.NeedsInput.Kind)
	f.dev.set(func() { f.dev.modes = m })
	x := f.send(context.Background(), "key")
	f.dev.wait(reading(201, 99))
	pass(poll)
	return ends(f.t, x, terminals.StdinRead).NeedsInput
}

// What a waiting program expects is told from the terminal's modes and the open
// line.
func TestSendNeedsInput(t *testing.T) {
	for _, tt := range []struct {
		name  string
		modes backend.Modes
		kind  terminals.InputKind
	}{
		{"line", backend.Modes{Canonical: true, Echo: true}, terminals.LineInput},
		{"secret", backend.Modes{Canonical: true}, terminals.SecretInput},
		{"key", backend.Modes{Echo: true}, terminals.KeyInput},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				x := f.send(context.Background(), "ask")
				f.dev.wait(reading(200, 1))
				f.dev.set(func() { f.dev.modes = tt.modes })
				f.dev.say("ask\r\nName: ")
				pass(poll)
				res := ends(t, x, terminals.StdinRead)
				assert.Equal(t, &terminals.NeedsInput{Kind: tt.kind, Prompt: "Name: ", Program: "prog", PID: 200}, res.NeedsInput)
			})
		})
	}
}

// A prompt that comes before the write answers nothing.
//
// Case: reference 3.3 #15
func TestSendIgnoresAPromptBeforeTheWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		inspect := make(chan struct{})
		f.dev.set(func() { f.dev.onInputWait = func() { <-inspect } })
		x := f.send(context.Background(), "cmd")
		f.dev.say("old\r\n" + f.prompt(1))
		f.dev.set(func() { f.dev.onInputWait = nil })
		close(inspect)
		synctest.Wait()
		require.Equal(t, []string{"cmd\r"}, f.dev.written())
		pass(poll)
		open(t, x)
		f.dev.say("new\r\n" + f.prompt(2))
		assert.Equal(t, "new\n$ ", ends(t, x, terminals.StdinRead).Viewport)
	})
}

// A prompt that was printed just before the write, and is read after it, is
// older than the input that lies unread.
func TestSendIgnoresAPromptWhileInputIsUnread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.set(func() { f.dev.pending = 4 })
		x := f.send(context.Background(), "cmd")
		f.dev.say(f.prompt(1))
		pass(poll)
		f.dev.set(func() { f.dev.pending = 0 })
		pass(poll)
		open(t, x)
		f.dev.say("cmd\r\nout\r\n" + f.prompt(2))
		ends(t, x, terminals.StdinRead)
	})
}

// A wait that was there before the write is no answer, however long it lasts,
// until it is known to have been left.
//
// Case: reference 3.3 #16, reference 3.3 #17
func TestSendOldWait(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before backend.Wait
		after  func(*fixture)
		at     time.Duration // when it counts; 0: never
	}{
		{"unchanged and the input unread", reading(200, 5), func(f *fixture) {
			f.dev.set(func() { f.dev.pending = 3 })
		}, 0},
		{"counter unknown and the input unread", reading(200, 0), func(f *fixture) {
			f.dev.set(func() { f.dev.pending = 3 })
		}, 0},
		{"counter unknown and nothing known of the input", reading(200, 0), func(f *fixture) {
			f.dev.set(func() { f.dev.pendingErr = backend.ErrUnsupported })
		}, 0},
		{"another turn while the input is unread", reading(200, 5), func(f *fixture) {
			f.dev.set(func() { f.dev.pending = 3 })
			f.dev.wait(reading(200, 6))
		}, 0},
		{"another turn", reading(200, 5), func(f *fixture) { f.dev.wait(reading(200, 6)) }, 2 * time.Millisecond},
		{"counter unknown, the input consumed", reading(200, 0), func(*fixture) {}, exact},
		{"another program", reading(200, 5), func(f *fixture) { f.dev.wait(reading(201, 5)) }, 2 * time.Millisecond}, // #18
		{"another place in the program", reading(shellPID, 0), func(f *fixture) {
			w := reading(shellPID, 0)
			w.Site = backend.Site{3}
			f.dev.wait(w)
		}, 2 * time.Millisecond},
		{"unknown before, the input consumed", backend.Wait{}, func(f *fixture) { f.dev.wait(reading(200, 5)) }, exact},
		{"nobody before", busy, func(f *fixture) { f.dev.wait(reading(200, 5)) }, 2 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				f.dev.wait(tt.before)
				f.dev.set(func() {
					f.dev.onWrite = func(_ context.Context, p []byte) (int, error) {
						f.dev.accept(p)
						tt.after(f)
						return len(p), nil
					}
				})
				start := time.Now()
				x := f.send(context.Background(), "in")
				<-x.Done()
				res, err := x.Result()
				require.NoError(t, err)
				if tt.at == 0 {
					assert.Equal(t, terminals.InferredIdle, res.WaitReason)
					assert.GreaterOrEqual(t, time.Since(start), idle)
					return
				}
				assert.Equal(t, terminals.StdinRead, res.WaitReason)
				assert.GreaterOrEqual(t, time.Since(start), tt.at)
				assert.Less(t, time.Since(start), tt.at+poll)
			})
		})
	}
}

// A wait that is seen left and taken up again counts, even without a counter.
//
// Case: reference 3.3 #16
func TestSendWaitLeftAndBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.wait(reading(200, 0))
		x := f.send(context.Background(), "in")
		f.dev.wait(busy)
		pass(2 * time.Millisecond)
		f.dev.wait(reading(200, 0))
		pass(8 * time.Millisecond)
		ends(t, x, terminals.StdinRead)
	})
}

// An event loop reads with the limit of its next timer. That may come from the
// last input, so the loop is looked at often, and counts as soon as it reads
// without one; if it never does, it counts later.
func TestSendToAnEventLoop(t *testing.T) {
	limited := reading(200, 1)
	limited.Timed = true
	for _, tt := range []struct {
		name   string
		timers time.Duration // how long after the write they last
		from   time.Duration // when the loop counts
		to     time.Duration
	}{
		{"timers end", 17 * time.Millisecond, 17 * time.Millisecond, exact},
		{"timers go on", time.Hour, exact, exact + poll},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				f.dev.wait(busy)
				x := f.send(context.Background(), "1+1")
				start := time.Now()
				f.dev.wait(limited)
				f.dev.say("2\r\n> ")
				time.AfterFunc(tt.timers, func() { f.dev.wait(reading(200, 2)) })
				<-x.Done()
				assert.Equal(t, "2\n> ", ends(t, x, terminals.StdinRead).Viewport)
				assert.GreaterOrEqual(t, time.Since(start), tt.from)
				assert.Less(t, time.Since(start), tt.to)
			})
		})
	}
}

// Output that a driver counts twice, while a read takes it, is not waited for
// when it has come once.
func TestSendOutputCountedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.wait(busy)
		x := f.send(context.Background(), "in")
		f.dev.wait(reading(200, 0))
		f.dev.set(func() { f.dev.pendingOut = 1000 })
		pass(2 * time.Millisecond)
		open(t, x)
		f.dev.set(func() { f.dev.pendingOut = 0 })
		pass(time.Millisecond)
		f.dev.say("Name: ")
		pass(8 * time.Millisecond)
		assert.Equal(t, "Name: ", ends(t, x, terminals.StdinRead).Viewport)
	})
}

// Who types nothing asks who waits now. Nothing has to be read before that.
func TestSendOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.wait(reading(200, 5))
		x, err := f.s.StartSend(context.Background(), terminals.SendRequest{})
		require.NoError(t, err)
		pass(8 * time.Millisecond)
		assert.Equal(t, 200, ends(t, x, terminals.StdinRead).NeedsInput.PID)

		f.dev.set(func() { f.dev.pending = 3 }) // of an earlier send
		x, err = f.s.StartSend(context.Background(), terminals.SendRequest{})
		require.NoError(t, err)
		pass(exact)
		open(t, x)
	})
}

// A probe that fails is a miss, never a guess.
func TestSendUnreadableWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.wait(reading(200, 1))
		f.dev.set(func() { f.dev.inputErr = errors.New("no such process") })
		start := time.Now()
		x := f.send(context.Background(), "in")
		<-x.Done()
		ends(t, x, terminals.InferredIdle)
		assert.GreaterOrEqual(t, time.Since(start), idle)
	})
}

// A marker alone is not a prompt.
//
// Case: reference 3.3 #19
func TestSendMarkerAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		assert.Equal(t, prompt, f.s.Startup())
		x := f.send(context.Background(), "cmd")
		f.dev.say(f.mark("A;1;0"))
		pass(20 * time.Millisecond)
		open(t, x)
		f.dev.say(prompt)
		ends(t, x, terminals.StdinRead)
	})
}

// An old prompt followed by the echo of the input.
//
// Case: reference 3.3 #20
func TestSendPromptWithEcho(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "printf x")
		f.dev.say(f.prompt(1) + "printf x\r\n")
		pass(poll)
		open(t, x)
		f.dev.say("PID=123 " + f.prompt(2))
		ends(t, x, terminals.StdinRead)
	})
}

// A child prints marker and prompt. The shell at its prompt is what counts.
//
// Case: reference 3.3 #21, reference 3.3 #22
func TestSendForgedPrompt(t *testing.T) {
	for _, proof := range []bool{true, false} {
		away, home := backend.Foreground{PGID: 200}, backend.Foreground{PGID: shellPID, Shell: true}
		t.Run(map[bool]string{true: "proved", false: "by group"}[proof], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive, func(f *fixture) { f.drv.caps.ExactRead = proof })
				leave := func() {
					f.dev.run()
					f.dev.set(func() { f.dev.foreground = away })
				}
				x := f.send(context.Background(), "child")
				leave()
				f.dev.say(f.prompt(1))
				pass(40 * time.Millisecond)
				open(t, x)
				f.dev.home()
				f.dev.set(func() { f.dev.foreground = home })
				pass(poll)
				ends(t, x, terminals.StdinRead)

				x = f.send(context.Background(), "child")
				leave()
				start := time.Now()
				f.dev.say(f.prompt(1) + "\b\bchild> ")
				<-x.Done()
				ends(t, x, terminals.InferredIdle)
				assert.GreaterOrEqual(t, time.Since(start), idle+grace)
				assert.Less(t, time.Since(start), timeout)
			})
		})
	}
}

// Where there are no process groups, marker and prompt are enough. A group that
// cannot be asked for at the moment is not.
func TestSendWithoutGroups(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive, func(f *fixture) {
			f.drv.caps.ExactRead = false
			f.dev.fgErr, f.dev.foreground = backend.ErrUnsupported, backend.Foreground{}
		})
		x := f.send(context.Background(), "cmd")
		f.dev.say("out\r\n" + f.prompt(1))
		ends(t, x, terminals.StdinRead)

		f.dev.set(func() { f.dev.fgErr = errors.New("no such device") })
		x = f.send(context.Background(), "cmd")
		f.dev.say("out\r\n" + f.prompt(2))
		pass(idle)
		open(t, x)
		pass(grace + poll)
		ends(t, x, terminals.InferredIdle)
	})
}

// Steady output never is idle.
//
// Case: reference 3.3 #23
func TestSendTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		start := time.Now()
		x := f.send(context.Background(), "chatter")
		f.dev.run()
		for range 2 {
			pass(40 * time.Millisecond)
			f.dev.say(".")
		}
		open(t, x)
		<-x.Done()
		assert.Equal(t, timeout, time.Since(start))
		assert.Equal(t, "..", ends(t, x, terminals.Timeout).Viewport)
		assert.Zero(t, f.dev.signalled(), "a timeout leaves the program alone")

		// Late output goes to the scrollback and to the next send only.
		f.dev.say("late\r\n")
		res, _ := x.Result()
		assert.Equal(t, "..", res.Viewport)
		page, err := f.s.Read(0, 10)
		require.NoError(t, err)
		assert.Equal(t, "$ ..late", page.Text)
		f.free()
	})
}

// How the shell ended, with its last words.
//
// Case: reference 3.3 #24
func TestSendExit(t *testing.T) {
	seven := 7
	for _, tt := range []struct {
		name   string
		status backend.ExitStatus
		says   string
	}{
		{"code", backend.ExitStatus{Code: &seven}, "code 7"},
		{"signal", backend.ExitStatus{Signal: "SIGKILL"}, "killed by SIGKILL"},
		{"unknown", backend.ExitStatus{}, "code unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				x := f.send(context.Background(), "exit")
				f.dev.print("bye")
				f.dev.exit(tt.status)
				res := ends(t, x, terminals.SessionExit)
				assert.Equal(t, "bye", res.Viewport)
				assert.Equal(t, terminals.Status{Exited: true, ExitCode: tt.status.Code, Signal: tt.status.Signal}, res.Status)
				assert.True(t, isDone(f.s.Exited()))
				_, err := f.s.StartSend(context.Background(), terminals.SendRequest{Text: "x"})
				require.ErrorIs(t, err, terminals.SessionExited)
				assert.ErrorContains(t, err, tt.says)
				_, err = f.s.Signal(context.Background(), terminals.SIGINT)
				require.ErrorIs(t, err, terminals.SessionExited)
			})
		})
	}
}

// The shell asks for more of an incomplete input.
func TestSendContinuation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "if true")
		f.dev.run()
		f.dev.say("if true\r\n" + f.mark("P;0") + "> ")
		open(t, x)
		f.dev.home()
		pass(poll)
		res := ends(t, x, terminals.StdinRead)
		assert.Equal(t, &terminals.NeedsInput{Kind: terminals.ContinuationInput, Prompt: "> ", Program: "fsh", PID: shellPID}, res.NeedsInput)

		// More of the input lies ready: the shell goes on by itself.
		x = f.send(context.Background(), "then\rtrue")
		f.dev.set(func() { f.dev.pending = 5 })
		f.dev.say(f.mark("P;0") + "> ")
		pass(poll)
		open(t, x)
		f.dev.set(func() { f.dev.pending = 0 })
		f.dev.say("true\r\n" + f.mark("P;0") + "> ")
		ends(t, x, terminals.StdinRead)
	})
}

// Cancelled before the write. Nothing is typed, and nobody is interrupted for
// what was not typed.
//
// Case: reference 3.3 #26
func TestCancelBeforeTheWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errCaller)
		_, err := f.s.StartSend(ctx, terminals.SendRequest{Text: "x"})
		require.ErrorIs(t, err, errCaller)

		ctx, cancel = context.WithCancelCause(context.Background())
		inspect := make(chan struct{})
		f.dev.set(func() {
			f.dev.onInputWait = func() { <-inspect }
			f.dev.onWrite = func(_ context.Context, p []byte) (int, error) { f.dev.accept(p); return len(p), nil }
		})
		x := f.send(ctx, "cmd")
		cancel(errCaller)
		synctest.Wait()
		f.dev.set(func() { f.dev.onInputWait = nil })
		close(inspect)
		res := cancelled(t, x)
		assert.Equal(t, terminals.SendResult{WaitReason: terminals.Timeout}, res)
		assert.Empty(t, f.dev.written())
		assert.Zero(t, f.dev.signalled())
		f.free()
	})
}

// The timeout finds a send that could not be typed yet.
//
// Case: reference 3.3 #26
func TestTimeoutBeforeTheWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		inspect := make(chan struct{})
		f.dev.set(func() { f.dev.onInputWait = func() { <-inspect } })
		x := f.send(context.Background(), "cmd")
		pass(timeout)
		ends(t, x, terminals.Timeout)
		f.busy()
		close(inspect)
		synctest.Wait()
		assert.Empty(t, f.dev.written())
		f.free()
	})
}

// After the write a cancellation interrupts until the program is seen to stop.
func TestCancel(t *testing.T) {
	for _, by := range []string{"context", "method"} {
		t.Run(by, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				x := f.send(ctx, "sleep 100")
				f.dev.run()
				pass(poll)
				if by == "context" {
					cancel(errCaller)
				} else {
					require.True(t, x.Cancel(errCaller))
					assert.True(t, x.Cancel(errors.New("too late")), "it is still active")
				}
				synctest.Wait()
				require.Equal(t, 1, f.dev.signalled())
				pass(49 * time.Millisecond)
				require.Equal(t, 1, f.dev.signalled())
				pass(time.Millisecond)
				require.Equal(t, 2, f.dev.signalled(), "the first may have come too early")
				open(t, x)
				f.busy()
				f.dev.home()
				f.dev.say("^C\r\n" + f.prompt(2))
				res := cancelled(t, x)
				assert.Equal(t, terminals.StdinRead, res.WaitReason)
				assert.Equal(t, "^C\n$ ", res.Viewport)
				assert.Equal(t, []string{"SIGINT", "SIGINT"}, f.dev.signals)
				f.free()
				pass(timeout)
				assert.Equal(t, 2, f.dev.signalled(), "the interrupts end with the send")
			})
		})
	}
}

// A line that was typed but not entered is at the shell's prompt: the interrupt
// clears it.
func TestCancelAtThePrompt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x, err := f.s.StartSend(context.Background(), terminals.SendRequest{Text: "rm"})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, []string{"rm"}, f.dev.written())
		f.dev.say("rm")
		require.True(t, x.Cancel(errCaller))
		synctest.Wait()
		require.Equal(t, 1, f.dev.signalled())
		f.dev.say("^C\r\n" + f.prompt(1))
		cancelled(t, x)
	})
}

// Of a text with several lines the first ones were entered, the last one not: a
// prompt came, but there is something typed at it.
func TestCancelBehindAPrompt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "true\rrm")
		f.dev.say(f.prompt(1) + "rm")
		require.True(t, x.Cancel(errCaller))
		synctest.Wait()
		require.Equal(t, 1, f.dev.signalled())
		f.dev.say("^C\r\n" + f.prompt(2))
		cancelled(t, x)
	})
}

// A shell that is back at a prompt it printed since the write is left alone,
// though the rest of its prompt is still to be read.
func TestCancelSparesTheShell(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "cmd")
		f.dev.set(func() { f.dev.pendingOut = len(prompt) })
		f.dev.say(f.mark("A;1;0"))
		require.True(t, x.Cancel(errCaller))
		synctest.Wait()
		assert.Zero(t, f.dev.signalled())
		f.dev.set(func() { f.dev.pendingOut = 0 })
		f.dev.say(prompt)
		cancelled(t, x)
	})
}

// What the program does not read is taken back before the signal, so that it is
// not run after it.
func TestCancelUnreadInput(t *testing.T) {
	for _, read := range []bool{true, false} {
		t.Run(map[bool]string{true: "read in time", false: "never read"}[read], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				f.dev.run()
				f.dev.set(func() { f.dev.pending = 4 })
				x := f.send(context.Background(), "cmd")
				require.True(t, x.Cancel(errCaller))
				pass(10 * time.Millisecond)
				require.Zero(t, f.dev.signalled(), "it waits for the shell to read the input")
				flushes := f.dev.flushed()
				if read {
					f.dev.set(func() { f.dev.pending = 0 })
				}
				pass(12 * time.Millisecond)
				require.Equal(t, 1, f.dev.signalled())
				assert.Equal(t, !read, f.dev.flushed() > flushes)
				f.dev.home()
				f.dev.say(f.prompt(1))
				cancelled(t, x)
			})
		})
	}
}

// A signal waits for the write. A cancelled write ends early; one that typed
// nothing needs no signal.
//
// Case: reference 3.3 #27
func TestCancelDuringTheWrite(t *testing.T) {
	for _, tt := range []struct {
		name   string
		n      int
		err    error
		signal bool
	}{
		{"written", 4, nil, true},
		{"half written", 2, errors.New("queue full"), true},
		{"nothing written", 0, errors.New("queue full"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				f.dev.run()
				settle := make(chan struct{})
				var ctx context.Context
				f.dev.set(func() {
					f.dev.onWrite = func(c context.Context, p []byte) (int, error) {
						ctx = c
						<-settle
						return tt.n, tt.err
					}
				})
				x := f.send(context.Background(), "cmd")
				require.True(t, x.Cancel(errCaller))
				synctest.Wait()
				require.ErrorIs(t, context.Cause(ctx), errCaller, "the write is told")
				require.Zero(t, f.dev.signalled())
				f.busy()
				close(settle)
				synctest.Wait()
				if tt.signal {
					require.Equal(t, 1, f.dev.signalled())
					f.dev.home()
					f.dev.say(f.prompt(1))
				}
				cancelled(t, x)
				assert.Equal(t, tt.signal, f.dev.signalled() > 0)
				f.free()
			})
		})
	}
}

// A write that fails by itself fails the send, and only that.
func TestSendWriteFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		broken := errors.New("input/output error")
		f.dev.set(func() {
			f.dev.onWrite = func(context.Context, []byte) (int, error) { return 2, broken }
		})
		x := f.send(context.Background(), "cmd")
		require.True(t, isDone(x.Done()))
		_, err := x.Result()
		require.ErrorIs(t, err, broken)
		assert.ErrorContains(t, err, "took 2 of 4 bytes")
		assert.Zero(t, f.dev.signalled())
		f.free()
	})
}

// A signal that is in flight keeps the session reserved past the prompt, with the
// end of the send, and past the deadline.
//
// Case: reference 3.3 #28, reference 3.3 #29
func TestCancelSlowSignal(t *testing.T) {
	for _, end := range []string{"prompt", "timeout"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				settle := make(chan struct{})
				f.dev.set(func() {
					f.dev.onSignal = func(context.Context, string) (int, error) {
						<-settle
						return shellPID, nil
					}
				})
				f.dev.run()
				x := f.send(context.Background(), "cmd")
				require.True(t, x.Cancel(errCaller))
				synctest.Wait()
				require.Equal(t, 1, f.dev.signalled())
				if end == "prompt" {
					f.dev.home()
					f.dev.say(f.prompt(1))
					pass(timeout / 2)
					assert.False(t, isDone(x.Done()), "whoever sees the end may send")
				} else {
					pass(timeout)
					assert.Equal(t, terminals.Timeout, cancelled(t, x).WaitReason)
					f.busy()
					pass(timeout)
				}
				f.busy()
				close(settle)
				synctest.Wait()
				if end == "prompt" {
					assert.Equal(t, terminals.StdinRead, cancelled(t, x).WaitReason)
				}
				f.free()
				assert.Equal(t, 1, f.dev.signalled(), "it hits nobody after the send")
			})
		})
	}
}

// While a signal is in flight, the program is watched as before; so it is when
// the timer had found the session taken just then.
func TestCancelSlowSignalAndAWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		settle, look := make(chan struct{}), make(chan struct{})
		x := f.send(context.Background(), "cmd")
		f.dev.run()
		f.dev.set(func() { f.dev.pendingOut = len(prompt) })
		f.dev.say(f.mark("A;1;0"))
		f.dev.set(func() {
			f.dev.onSignal = func(context.Context, string) (int, error) { <-settle; return shellPID, nil }
			f.dev.onShellWait = func() { <-look }
		})
		require.True(t, x.Cancel(errCaller))
		pass(40 * time.Millisecond)
		f.dev.set(func() { f.dev.onShellWait = nil })
		close(look)
		synctest.Wait()
		require.Equal(t, 1, f.dev.signalled())
		f.dev.set(func() { f.dev.pendingOut = 0 })
		f.dev.wait(reading(200, 1))
		pass(2 * poll)
		f.busy()
		close(settle)
		pass(2 * poll)
		assert.Equal(t, terminals.StdinRead, cancelled(t, x).WaitReason)
		f.free()
	})
}

// A program that ignores the interrupt, or cannot be signalled, ends the send
// at its deadline. Silence proves nothing then.
//
// Case: reference 3.3 #30, reference 3.3 #31
func TestCancelInVain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		chatty bool
		err    error
	}{
		{"prints on", true, nil}, {"is silent", false, nil}, {"cannot be signalled", false, errors.New("no such process")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				f.dev.set(func() {
					f.dev.onSignal = func(context.Context, string) (int, error) { return 0, tt.err }
				})
				f.dev.run()
				start := time.Now()
				x := f.send(context.Background(), "cmd")
				require.True(t, x.Cancel(errCaller))
				for tt.chatty && time.Since(start) < 90*time.Millisecond {
					pass(5 * time.Millisecond)
					f.dev.say(".")
				}
				<-x.Done()
				assert.Equal(t, timeout, time.Since(start))
				assert.Equal(t, terminals.Timeout, cancelled(t, x).WaitReason)
				f.free()
			})
		})
	}
}

// A timeout while the write is in flight. A driver ends the write at once, and
// the result says how far it came.
//
// Case: reference 3.3 #32
func TestTimeoutEndsTheWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.set(func() {
			f.dev.onWrite = func(ctx context.Context, p []byte) (int, error) {
				<-ctx.Done()
				return 1, context.Cause(ctx)
			}
		})
		x := f.send(context.Background(), "cmd")
		f.dev.run()
		f.dev.say("c")
		pass(timeout - time.Millisecond)
		open(t, x)
		pass(time.Millisecond)
		require.True(t, isDone(x.Done()))
		res, err := x.Result()
		assert.ErrorContains(t, err, "the terminal took 1 of 4 bytes")
		assert.Equal(t, terminals.Timeout, res.WaitReason)
		assert.Equal(t, "c", res.Viewport)
		assert.Zero(t, f.dev.signalled(), "a timeout leaves the program alone")
		f.free()
	})
}

// A driver that is slow to end a write is waited for a moment. The slot is free
// when the write has settled.
func TestTimeoutDuringTheWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		settle := make(chan struct{})
		f.dev.set(func() {
			f.dev.onWrite = func(ctx context.Context, p []byte) (int, error) {
				<-ctx.Done()
				<-settle
				return 1, context.Cause(ctx)
			}
		})
		x := f.send(context.Background(), "cmd")
		f.dev.say(f.prompt(1)) // of a line in the middle of the text
		pass(timeout)
		open(t, x)
		pass(50 * time.Millisecond)
		ends(t, x, terminals.Timeout)
		f.busy()
		close(settle)
		synctest.Wait()
		ends(t, x, terminals.Timeout)
		f.free()
	})
}

// Whatever arrives while the session closes, the send ends because the session
// did.
//
// Case: reference 3.3 #33
func TestCloseDuringASend(t *testing.T) {
	for _, pending := range []string{"nothing", "inspection", "write"} {
		t.Run(pending, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				hold := make(chan struct{})
				f.dev.set(func() {
					switch pending {
					case "inspection":
						f.dev.onInputWait = func() { <-hold }
					case "write":
						f.dev.onWrite = func(context.Context, []byte) (int, error) { <-hold; return 0, errors.New("closed") }
					}
					f.dev.onTerminate = func(context.Context) error {
						f.dev.print("bye\r\n" + f.prompt(1))
						time.Sleep(2 * timeout) // past the send's deadline
						return nil
					}
				})
				x := f.send(context.Background(), "cmd")
				closed := make(chan error, 1)
				go func() { closed <- f.s.Close(context.Background(), "test") }()
				synctest.Wait()
				_, err := f.s.StartSend(context.Background(), terminals.SendRequest{Text: "x"})
				require.ErrorIs(t, err, terminals.SessionClosing)
				_, err = f.s.Signal(context.Background(), terminals.SIGINT)
				require.ErrorIs(t, err, terminals.SessionClosing)
				require.NoError(t, <-closed)
				res := ends(t, x, terminals.SessionExit)
				assert.Equal(t, "SIGHUP", res.Status.Signal)
				close(hold)
				synctest.Wait()
				ends(t, x, terminals.SessionExit)
			})
		})
	}
}

// What is left of an old send does not touch the next one.
//
// Case: reference 3.3 #34
func TestSendAfterSend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.run()
		first := f.send(context.Background(), "first")
		pass(timeout - 2*time.Millisecond)
		ends(t, first, terminals.InferredIdle) // before its deadline
		inspect := make(chan struct{})
		f.dev.set(func() { f.dev.onInputWait = func() { <-inspect } })
		second := f.send(context.Background(), "second")
		assert.False(t, first.Cancel(errCaller))
		pass(5 * time.Millisecond) // past the first one's deadline
		open(t, second)
		f.dev.say(f.prompt(1))
		open(t, second)
		f.dev.set(func() { f.dev.onInputWait = nil })
		close(inspect)
		synctest.Wait()
		assert.Equal(t, []string{"first\r", "second\r"}, f.dev.written())
		f.dev.home()
		f.dev.say(f.prompt(2))
		ends(t, second, terminals.StdinRead)
	})
}

// The shell ends while it is being interrupted.
//
// Case: reference 3.3 #35
func TestExitDuringTheSignal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		settle := make(chan struct{})
		f.dev.set(func() {
			f.dev.onSignal = func(context.Context, string) (int, error) { <-settle; return 0, errors.New("gone") }
		})
		f.dev.run()
		x := f.send(context.Background(), "cmd")
		require.True(t, x.Cancel(errCaller))
		synctest.Wait()
		f.dev.exit(backend.ExitStatus{Signal: "SIGINT"})
		assert.Equal(t, terminals.SessionExit, cancelled(t, x).WaitReason)
		close(settle)
		pass(timeout)
		assert.Equal(t, 1, f.dev.signalled())
	})
}

// The viewport is bounded, and its end is what is kept.
func TestSendViewportBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive, func(f *fixture) { f.cfg.MaxReadBytes = 10 })
		x := f.send(context.Background(), "cmd")
		f.dev.say(strings.Repeat("x", 20) + "\r\n" + f.prompt(1))
		res := ends(t, x, terminals.StdinRead)
		assert.Equal(t, "xxxxxxx\n$ ", res.Viewport)
		assert.True(t, res.Truncated)
	})
}

// A program on the alternate screen is said to be one.
func TestSendFullScreen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "less")
		f.dev.say("\x1b[?1049htext")
		f.dev.wait(reading(200, 1))
		pass(poll)
		assert.True(t, ends(t, x, terminals.StdinRead).FullScreen)
	})
}

// An idle session has no timer: nothing happens however long it lasts.
func TestIdleSessionRests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "cmd")
		f.dev.say(f.prompt(1))
		ends(t, x, terminals.StdinRead)
		probes := 0
		f.dev.set(func() { f.dev.onInputWait = func() { probes++ } })
		f.dev.say("a background job\r\n")
		pass(time.Hour)
		assert.Zero(t, probes)
	})
}

// Programs get the answers that they ask their terminal for, unless an earlier
// answer lies unread.
func TestQueriesAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		f.dev.set(func() { f.dev.modes.Echo = true })
		f.dev.say("\x1b[5n")
		assert.Empty(t, f.dev.written(), "who reads an answer turns the echo off")
		f.dev.set(func() { f.dev.modes.Echo = false })
		f.dev.say("\x1b[5n\x1b[6n")
		assert.Equal(t, []string{"\x1b[0n", "\x1b[1;1R"}, f.dev.written())
		f.dev.set(func() { f.dev.pending = 4 })
		f.dev.say("\x1b[5n")
		assert.Len(t, f.dev.written(), 2)
		f.dev.set(func() { f.dev.pending = 0 })
		f.dev.set(func() {
			f.dev.onWrite = func(ctx context.Context, _ []byte) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		})
		f.dev.say("\x1b[5n\x1b[5n")
		pass(poll)
		f.dev.say("still read")
		page, err := f.s.Read(0, 1)
		require.NoError(t, err)
		assert.Equal(t, "$ still read", page.Text)
	})
}

func TestSignal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		pgid, err := f.s.Signal(context.Background(), terminals.SIGTERM)
		require.NoError(t, err)
		assert.Equal(t, shellPID, pgid)
		assert.Equal(t, []string{"SIGTERM"}, f.dev.signals)
		f.dev.set(func() {
			f.dev.onSignal = func(context.Context, string) (int, error) { return 0, backend.ErrUnsupported }
		})
		_, err = f.s.Signal(context.Background(), terminals.SIGTSTP)
		require.ErrorIs(t, err, terminals.Unsupported)
	})
}

// A shell for commands is not ended by a signal that is meant for its program.
func TestSignalInCommandMode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		f.dev.set(func() { f.dev.inputWait = backend.Wait{State: backend.WaitReading, PID: 815} })
		for _, sig := range []terminals.Signal{terminals.SIGHUP, terminals.SIGTERM, terminals.SIGKILL, terminals.SIGINT, terminals.SIGTSTP} {
			_, err := f.s.Signal(context.Background(), sig)
			require.NoError(t, err)
		}
		assert.Equal(t, []string{"to the program: SIGHUP", "to the program: SIGTERM", "to the program: SIGKILL", "SIGINT", "SIGTSTP"}, f.dev.signals)
	})
}
