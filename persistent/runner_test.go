package persistent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

var errStop = errors.New("the user pressed stop")

func TestCompletedCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) {
			r.print("one\n")
			time.Sleep(1500 * time.Millisecond)
			r.print("two")
			r.complete(3)
		})
		f := newFixture(t, func(c *Config) {
			c.Resolve = func(context.Context, *terminals.Owner, string, string) ([]string, error) {
				return []string{"DSH_SHELL=1"}, nil
			}
			c.SessionID = func(*terminals.Owner) string { return "s-1" }
		}, shell)
		defer f.dispose()

		var streamed strings.Builder
		res := f.Run(t.Context(), f.owner, Command{Text: "x", Stream: func(p []byte) { streamed.Write(p) }})

		code, session := 3, "s-1"
		assert.Equal(t, Result{
			Command: "x", Output: "one\ntwo", ExitCode: &code, Reason: Completed,
			Text: "one\ntwo\n[exit code: 3]", Notices: "[exit code: 3]", Cwd: "/fake/cwd", DurationMs: 1500,
			TerminalID: "pty-1", SessionID: &session,
		}, res)
		assert.NoError(t, res.Err())
		assert.Equal(t, "one\ntwo", streamed.String())
		assert.Equal(t, terminals.Setup{
			Owner: f.owner, ID: "pty-1", Cwd: "/project dir", Mode: terminals.Command, Env: []string{"DSH_SHELL=1"},
		}, f.opened[0])
	})
}

// Reference 3.3 #70, #53: one owner's calls run one by one, in their order.
func TestCallsOfOneOwnerAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) {
			time.Sleep(time.Second)
			r.complete(0)
		})
		f := newFixture(t, nil, shell)
		defer f.dispose()

		var calls sync.WaitGroup
		var want []string
		for i := range 8 {
			text := fmt.Sprint(i)
			want = append(want, text)
			calls.Go(func() { f.run(text) })
			synctest.Wait()
		}
		calls.Wait()
		assert.Equal(t, want, shell.ran())
		assert.Equal(t, 1, f.opens(), "one shell serves all")
	})
}

func TestOwnersDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, playing(silent))
		defer f.dispose()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan Result)
		go func() { done <- f.Run(ctx, f.owner, Command{Text: "forever"}) }()
		synctest.Wait()

		res := f.Run(t.Context(), f.newOwner("/other"), Command{Text: "x"})
		assert.Equal(t, Completed, res.Reason)
		assert.Equal(t, "pty-2", res.TerminalID)
		cancel()
		<-done
	})
}

func TestCancelledWaiterLeavesTheQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) {
			time.Sleep(time.Second)
			r.complete(0)
		})
		f := newFixture(t, nil, shell)
		defer f.dispose()

		var calls sync.WaitGroup
		calls.Go(func() { f.run("first") })
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		began := time.Now()
		calls.Go(func() {
			res := f.Run(ctx, f.owner, Command{Text: "second"})
			assert.Zero(t, time.Since(began))
			assert.ErrorIs(t, res.Err(), errStop)
			assert.Equal(t, Cancelled, res.Reason)
			assert.Equal(t, CodeCancelled, res.Error.Code)
			assert.Equal(t, "Error: the user pressed stop", res.Text)
			assert.Empty(t, res.TerminalID)
		})
		synctest.Wait()
		calls.Go(func() { f.run("third") })
		synctest.Wait()
		cancel(errStop)
		calls.Wait()
		assert.Equal(t, []string{"first", "third"}, shell.ran())
	})
}

// The turn can come at the moment in which its caller gives up.
func TestQueueHandsOnATurnThatCameTooLate(t *testing.T) {
	for range 200 {
		var q queue
		require.NoError(t, q.enter(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() {
			if q.enter(ctx) == nil {
				q.leave()
			}
		})
		calls.Go(cancel)
		calls.Go(q.leave)
		calls.Wait()
		require.NoError(t, q.enter(t.Context()), "the queue is free again")
	}
}

// F09 (SWE-agent/SWE-ReX#29): what was printed before the timeout is kept.
// Reference 3.3 #53: the next call works.
func TestTimeoutResetsTheShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) {
			r.print("before\n")
			silent(r)
		})
		f := newFixture(t, nil, shell)
		defer f.dispose()

		began := time.Now()
		res := f.Run(t.Context(), f.owner, Command{Text: "x", Timeout: time.Second})
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, TimedOut, res.Reason)
		assert.Nil(t, res.ExitCode)
		assert.NoError(t, res.Err())
		assert.Equal(t, "before\n", res.Output)
		assert.Equal(t, "before\n[timed out after 1000 ms; the shell was reset]\n[the next command starts a fresh shell in /project dir]", res.Text)
		assert.True(t, shell.closed())

		res = f.run("y")
		assert.Equal(t, Completed, res.Reason)
		assert.Equal(t, "pty-2", res.TerminalID)
		assert.Empty(t, res.Text, "the reset was announced already")
	})
}

// F84 (anthropics/claude-code#87439, #88702): a tree that does not end does not
// hold the call, nor the next one. What it prints while it is being ended is
// still in the result.
func TestTimeoutBoundsTheCallWhateverTheTeardownTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(silent)
		shell.onClose = func() {
			shell.run.print("terminating\n")
			time.Sleep(9 * time.Second)
		}
		f := newFixture(t, nil, shell)
		defer f.dispose()

		began := time.Now()
		res := f.Run(t.Context(), f.owner, Command{Text: "x", Timeout: time.Second})
		assert.Equal(t, time.Second+closeWait, time.Since(began))
		assert.Equal(t, "terminating\n", res.Output)
		began = time.Now()
		assert.Equal(t, Completed, f.run("y").Reason)
		assert.Zero(t, time.Since(began))
	})
}

// The host may explain a failure, and is not asked about anything else.
func TestExplainedFailure(t *testing.T) {
	for code, want := range map[int]string{0: "no\n", 3: "no\n[exit code: 3]\n[it may not]"} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			explain := func(c *Config) {
				c.Explain = func(_ *terminals.Owner, r Result) string {
					asked++
					assert.Equal(t, "no\n", r.Output)
					assert.Equal(t, "/fake/cwd", r.Cwd)
					assert.Equal(t, code, *r.ExitCode)
					return "[it may not]"
				}
			}
			f := newFixture(t, explain, playing(func(r *fakeRun) {
				r.print("no\n")
				r.complete(code)
			}))
			defer f.dispose()
			assert.Equal(t, want, f.run("x").Text)
			assert.Equal(t, min(code, 1), asked)
		})
	}
	f := newFixture(t, func(c *Config) { c.Explain = func(*terminals.Owner, Result) string { return "" } }, playing(func(r *fakeRun) { r.complete(1) }))
	defer f.dispose()
	assert.Equal(t, "[exit code: 1]", f.run("x").Text)
}

func TestTimeoutInterrupts(t *testing.T) {
	keep := func(c *Config) { c.OnTimeout = Interrupt }
	t.Run("and keeps a shell that proves ready", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shell := playing(silent)
			shell.interrupt = func(_ context.Context, r *fakeRun) error {
				time.Sleep(700 * time.Millisecond)
				r.print("^C\n")
				r.complete(130)
				return nil
			}
			f := newFixture(t, keep, shell)
			defer f.dispose()
			began := time.Now()
			res := f.run("x")
			assert.Equal(t, 10700*time.Millisecond, time.Since(began))
			assert.Equal(t, TimedOut, res.Reason)
			assert.Nil(t, res.ExitCode)
			assert.Equal(t, "/fake/cwd", res.Cwd)
			assert.Equal(t, "^C\n[timed out after 10000 ms; the program was interrupted and the shell kept]", res.Text)
			shell.play = nil
			assert.Equal(t, "pty-1", f.run("y").TerminalID)
		})
	})
	t.Run("and resets one that does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shell := playing(silent)
			shell.interrupt = deaf
			f := newFixture(t, keep, shell)
			defer f.dispose()
			began := time.Now()
			res := f.run("x")
			assert.Equal(t, 10*time.Second+timeoutGrace, time.Since(began))
			assert.Equal(t, "[timed out after 10000 ms; the shell was reset]\n[the next command starts a fresh shell in /project dir]", res.Text)
			assert.True(t, shell.closed())
		})
	})
	t.Run("and resets one that ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shell := playing(silent)
			shell.interrupt = func(context.Context, *fakeRun) error {
				shell.die(terminals.Status{Signal: "SIGINT"})
				return nil
			}
			f := newFixture(t, keep, shell)
			defer f.dispose()
			assert.Contains(t, f.run("x").Text, "the shell was reset")
		})
	})
}

func TestTimeoutDuringDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := newFakeShell()
		shell.start = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		f := newFixture(t, nil, shell)
		defer f.dispose()
		res := f.run("x")
		assert.Equal(t, TimedOut, res.Reason)
		assert.Equal(t, int64(10000), res.DurationMs)
		assert.Equal(t, "pty-1", res.TerminalID)
		assert.Equal(t, "[timed out after 10000 ms; the shell was reset]\n[the next command starts a fresh shell in /project dir]", res.Text)
		assert.True(t, shell.closed())
		assert.Equal(t, Completed, f.run("y").Reason)
	})
}

// The start of a shell has a bound of its own.
func TestTimeoutDoesNotCountTheStartOfTheShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.dispose()
		f.open = func(context.Context, int) error {
			time.Sleep(time.Minute)
			return nil
		}
		res := f.run("x")
		assert.Equal(t, Completed, res.Reason)
		assert.Zero(t, res.DurationMs)
	})
}

// A reader that stands still cannot hold the call past its timeout.
func TestStalledReader(t *testing.T) {
	for _, onTimeout := range []OnTimeout{Reset, Interrupt} {
		t.Run(string(onTimeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := playing(func(r *fakeRun) {
					r.print("a")
					r.print("b")
					r.complete(0)
				})
				f := newFixture(t, func(c *Config) { c.OnTimeout = onTimeout }, shell)
				defer f.dispose()
				gone := make(chan struct{})
				defer close(gone)
				began := time.Now()
				var calls atomic.Int32
				res := f.Run(t.Context(), f.owner, Command{Text: "x", Stream: func([]byte) {
					calls.Add(1)
					<-gone
				}})
				assert.Equal(t, TimedOut, res.Reason)
				assert.LessOrEqual(t, time.Since(began), 10*time.Second+2*stalledReader+closeWait)
				assert.EqualValues(t, 1, calls.Load())
				assert.Contains(t, res.Output, "a")
			})
		})
	}
}

func TestStreamEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) {
			r.print("name? ")
			r.wait("cat", 1)
			time.Sleep(time.Second)
			r.print("late")
		})
		f := newFixture(t, nil, shell)
		defer f.dispose()
		var streamed strings.Builder
		f.Run(t.Context(), f.owner, Command{Text: "x", Stream: func(p []byte) { streamed.Write(p) }})
		time.Sleep(2 * time.Second)
		assert.Equal(t, "name? ", streamed.String())
	})
}

func TestCancelledBeforeAnythingRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.dispose()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		res := f.Run(ctx, f.owner, Command{Text: "x"})
		assert.ErrorIs(t, res.Err(), errStop)
		assert.Zero(t, f.opens())
	})
}

// Reference 3.3 #55: the open is aborted and waited for.
func TestCancelledWhileTheShellStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.dispose()
		f.open = func(ctx context.Context, n int) error {
			if n > 1 {
				return nil
			}
			<-ctx.Done()
			time.Sleep(time.Second) // the roll-back
			return context.Cause(ctx)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		began := time.Now()
		res := f.Run(ctx, f.owner, Command{Text: "x"})
		assert.Equal(t, 2*time.Second, time.Since(began))
		assert.ErrorIs(t, res.Err(), errStop)
		assert.Equal(t, Cancelled, res.Reason)
		assert.Equal(t, Completed, f.run("y").Reason)
	})
}

func TestCancelledDuringDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := newFakeShell()
		shell.start = func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		f := newFixture(t, nil, shell)
		defer f.dispose()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		res := f.Run(ctx, f.owner, Command{Text: "x"})
		assert.ErrorIs(t, res.Err(), errStop)
		assert.Empty(t, shell.ran())
		shell.start = nil
		assert.Equal(t, "pty-1", f.run("y").TerminalID, "a shell that was given nothing is kept")
	})
}

func TestCancelledWhileRunning(t *testing.T) {
	cases := []struct {
		name      string
		interrupt func(context.Context, *fakeRun) error
		took      time.Duration
		kept      bool
	}{
		{"a program that stops", nil, 0, true},
		{"a program that stops late", func(ctx context.Context, r *fakeRun) error {
			time.Sleep(900 * time.Millisecond)
			r.complete(130)
			return nil
		}, 900 * time.Millisecond, true},
		{"a program that does not stop", deaf, cancelGrace, false},
		{"a shell that ends", func(_ context.Context, r *fakeRun) error {
			r.shell.die(terminals.Status{})
			return nil
		}, 0, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := playing(func(r *fakeRun) {
					r.print("partial")
					silent(r)
				})
				shell.interrupt = c.interrupt
				f := newFixture(t, nil, shell)
				defer f.dispose()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(errStop) })
				began := time.Now()
				res := f.Run(ctx, f.owner, Command{Text: "x"})
				assert.Equal(t, time.Second+c.took, time.Since(began))
				assert.ErrorIs(t, res.Err(), errStop)
				assert.Equal(t, Cancelled, res.Reason)
				assert.Nil(t, res.ExitCode)
				assert.Equal(t, "partial", res.Output)
				text := "Error: the user pressed stop\npartial"
				if !c.kept {
					text += "\n[the next command starts a fresh shell in /project dir]"
				}
				assert.Equal(t, text, res.Text)
				assert.Equal(t, !c.kept, shell.closed())
				shell.play = nil
				next := f.run("y")
				assert.Equal(t, Completed, next.Reason)
				// Whoever cancels a call may not look at what it came to.
				assert.Equal(t, !c.kept, strings.Contains(next.Text, "this command runs in a fresh shell in /project dir"), next.Text)
				assert.Equal(t, map[bool]int{true: 1, false: 2}[c.kept], f.opens())
			})
		})
	}
}

// The context that a session may keep watching is not the caller's: the end of
// the caller's must not disturb a program that was left waiting.
func TestTheCallersContextEndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) { r.wait("cat", 1) })
		f := newFixture(t, nil, shell)
		defer f.dispose()
		ctx, cancel := context.WithCancel(t.Context())
		assert.Equal(t, WaitingInput, f.Run(ctx, f.owner, Command{Text: "x"}).Reason)
		cancel()
		time.Sleep(time.Hour)
		assert.NoError(t, shell.run.ctx.Err())
	})
}

func TestDisposalEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, playing(silent))
		results := make(chan Result, 2)
		for _, text := range []string{"running", "queued"} {
			go func() { results <- f.run(text) }()
			synctest.Wait()
		}
		require.NoError(t, f.service.DisposeOwner(t.Context(), f.owner))
		for range 2 {
			res := <-results
			assert.Equal(t, Cancelled, res.Reason, res.Text)
			assert.ErrorIs(t, res.Err(), terminals.OwnerNotLive)
			assert.NotContains(t, res.Text, "fresh shell", "nothing comes next")
		}
		assert.Empty(t, f.owners)
		res := f.run("afterwards")
		assert.ErrorIs(t, res.Err(), terminals.OwnerNotLive)
		assert.Equal(t, Failed, res.Reason)
		assert.Equal(t, "OWNER_NOT_LIVE", res.Error.Code)
		assert.Empty(t, f.owners)
		f.dispose()
	})
}

func TestNoOwner(t *testing.T) {
	f := newFixture(t, nil)
	res := f.Run(t.Context(), nil, Command{Text: "x"})
	assert.ErrorIs(t, res.Err(), terminals.OwnerNotLive)
}

func TestWaitingProgram(t *testing.T) {
	for _, tools := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shell := playing(func(r *fakeRun) {
				r.print("name? ")
				r.wait("cat", 815)
			})
			f := newFixture(t, func(c *Config) { c.TerminalTools = tools }, shell)
			defer f.dispose()
			res := f.run("x")
			assert.Equal(t, WaitingInput, res.Reason)
			assert.Nil(t, res.ExitCode)
			assert.Equal(t, &terminals.NeedsInput{Kind: terminals.LineInput, Prompt: "name? ", Program: "cat", PID: 815}, res.NeedsInput)
			want := "name? \n[waiting for input: cat (line); the next command interrupts it]"
			if tools {
				want = "name? \n[waiting for input: cat (line); answer with terminal_send to pty-1, or run another command, which interrupts it]"
			}
			assert.Equal(t, want, res.Text)
			assert.False(t, shell.closed())
		})
	}
}

// A prompt inside a command, a debugger's for instance, takes the next command
// as its own.
func TestNestedPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := 2
		inside := false
		shell := playing(func(r *fakeRun) {
			if inside {
				r.print("inside")
				r.complete(0)
				return
			}
			inside = true
			r.settle(terminals.CommandResult{State: terminals.Completed, ExitCode: &two, Level: 1, Cwd: "/fake/cwd"})
		})
		f := newFixture(t, nil, shell)
		defer f.dispose()
		res := f.run("x")
		assert.Equal(t, WaitingInput, res.Reason)
		assert.Equal(t, &two, res.ExitCode)
		require.NotNil(t, res.NeedsInput)
		assert.Equal(t, "nested prompt, level 1", res.NeedsInput.Program)
		assert.Equal(t, "[exit code: 2]\n[waiting for input: nested prompt, level 1; the next command runs in it]", res.Text)
		res = f.run("y")
		assert.Equal(t, Completed, res.Reason)
		assert.Equal(t, "inside", res.Text)
	})
}

// Reference 3.3 #64: the next command is not typed into the program.
func TestNextCommandEndsAWaitingProgram(t *testing.T) {
	type ladder struct {
		name      string
		pid       int
		interrupt func(context.Context, *fakeRun) error
		signal    func(terminals.Signal, *fakeRun)
		took      time.Duration
		signals   []terminals.Signal
		before    string
		fresh     bool
	}
	const interrupted = "[interrupted cat, which was waiting for input]\n"
	const replaced = "[the shell did not come back; this command runs in a fresh shell in /project dir]\n"
	hupTerm := []terminals.Signal{terminals.SIGHUP, terminals.SIGTERM}
	cases := []ladder{
		{name: "by the interrupt", pid: 815, before: interrupted},
		{
			name: "by a signal", pid: 815, interrupt: deaf, took: interruptWait + 100*time.Millisecond, signals: hupTerm,
			signal: func(sig terminals.Signal, r *fakeRun) {
				if sig == terminals.SIGTERM {
					time.AfterFunc(100*time.Millisecond, func() { r.complete(143) })
				}
			},
			before: interrupted,
		},
		{
			name: "by a signal, with a shell that takes its time", pid: 815, interrupt: deaf, took: interruptWait + returnWait - time.Second, signals: hupTerm,
			signal: func(sig terminals.Signal, r *fakeRun) {
				if r.left.Store(true); sig == terminals.SIGTERM {
					time.AfterFunc(returnWait-time.Second, func() { r.complete(143) })
				}
			},
			before: interrupted,
		},
		{
			name: "in the shell that takes its time", pid: fakePID, took: returnWait - time.Second,
			interrupt: func(ctx context.Context, r *fakeRun) error {
				r.left.Store(true)
				time.AfterFunc(returnWait-time.Second, func() { r.complete(1) })
				return deaf(ctx, r)
			},
			before: interrupted,
		},
		{
			name: "with the shell that does not come back", pid: 815, interrupt: deaf, took: interruptWait + terminateWait + returnWait, signals: hupTerm,
			signal: func(_ terminals.Signal, r *fakeRun) { r.left.Store(true) },
			before: interrupted + replaced, fresh: true,
		},
		{
			name: "with the shell", pid: 815, interrupt: deaf, took: interruptWait + terminateWait, signals: hupTerm,
			before: interrupted + replaced, fresh: true,
		},
		{
			name: "with the shell that reads itself", pid: fakePID, interrupt: deaf, took: interruptWait + terminateWait,
			before: interrupted + replaced, fresh: true,
		},
		{
			name: "with a shell that the signal ends", pid: 815, interrupt: deaf, took: interruptWait, signals: hupTerm,
			signal: func(_ terminals.Signal, r *fakeRun) { r.shell.die(terminals.Status{Signal: "SIGHUP"}) },
			before: interrupted + replaced, fresh: true,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := playing(func(r *fakeRun) { r.wait("cat", c.pid) })
				shell.interrupt, shell.signal = c.interrupt, c.signal
				second := playing(printing("out\n", 0))
				f := newFixture(t, nil, shell, second)
				defer f.dispose()
				require.Equal(t, WaitingInput, f.run("x").Reason)
				shell.play = printing("out\n", 0)

				began := time.Now()
				res := f.run("y")
				assert.Equal(t, c.took, time.Since(began))
				assert.Equal(t, c.before+"out\n", res.Text)
				assert.Equal(t, Completed, res.Reason)
				assert.Equal(t, c.signals, shell.signalled())
				assert.Equal(t, c.fresh, shell.closed())
				assert.Zero(t, res.DurationMs, "the earlier command's end is not this one's time")
			})
		})
	}
}

// A program that was left waiting and ended since: its exit code is reported
// once, here or by whoever answered it.
func TestCommandThatCompletedMeanwhile(t *testing.T) {
	two := 2
	for _, c := range []struct {
		name   string
		final  terminals.CommandResult
		before string
	}{
		{"exit code", terminals.CommandResult{ExitCode: &two}, "[the previous command completed: exit code 2]\n"},
		{"unknown exit code", terminals.CommandResult{}, "[the previous command completed: exit code unknown]\n"},
		{"reported by an answer", terminals.CommandResult{ExitCode: &two, Reported: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := playing(func(r *fakeRun) { r.wait("cat", 815) })
				shell.interrupt = func(context.Context, *fakeRun) error { panic("nothing to interrupt") }
				f := newFixture(t, nil, shell)
				defer f.dispose()
				require.Equal(t, WaitingInput, f.run("x").Reason)
				c.final.State, c.final.Cwd = terminals.Completed, "/moved"
				shell.run.print("bye\n")
				shell.run.settle(c.final)
				shell.play = printing("out\n", 0)
				res := f.run("y")
				assert.Equal(t, c.before+"[output since the last command]\nbye\n[output of this command]\nout\n", res.Text)
				assert.Equal(t, "out\n", f.run("z").Text)
			})
		})
	}
}

// A command that was answered and then ran on is interrupted as one that waits.
func TestInterruptNamesWhoWaits(t *testing.T) {
	for name, c := range map[string]struct {
		waits  *terminals.NeedsInput
		notice string
	}{
		"another program": {&terminals.NeedsInput{Program: "sudo"}, "[interrupted sudo, which was waiting for input]\nout"},
		"nobody":          {nil, "[interrupted cat, which was still running]\nout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := playing(func(r *fakeRun) {
					r.wait("cat", 815)
					r.waits = c.waits
				})
				f := newFixture(t, nil, shell)
				defer f.dispose()
				require.Equal(t, WaitingInput, f.run("x").Reason)
				synctest.Wait()
				shell.play = printing("out", 0)
				assert.Equal(t, c.notice, f.run("y").Text)
			})
		})
	}
}

// The errors of this package match by their code, whatever caused them.
func TestErrorsMatchByCode(t *testing.T) {
	f := newFixture(t, nil)
	defer f.dispose()
	res := f.Run(t.Context(), f.owner, Command{Text: "x", Timeout: -time.Second})
	assert.ErrorIs(t, res.Err(), terminals.InvalidArgument)
	assert.NotErrorIs(t, res.Err(), terminals.NoSession)
}

// After the service's disposal it is that which is reported, not the owner's.
func TestCallAfterTheServiceDisposal(t *testing.T) {
	f := newFixture(t, nil)
	f.dispose()
	assert.ErrorIs(t, f.run("x").Err(), terminals.ServiceDisposing)
}

// What the program prints between the two calls belongs to the second.
func TestOutputOfAProgramThatWasLeftWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) {
			r.print("name? ")
			r.wait("cat", 1)
			time.Sleep(time.Second)
			r.print("hello\n")
		})
		shell.interrupt = func(_ context.Context, r *fakeRun) error {
			r.print("KeyboardInterrupt\n")
			r.complete(130)
			return nil
		}
		f := newFixture(t, nil, shell)
		defer f.dispose()
		assert.Equal(t, "name? ", f.run("x").Output)
		time.Sleep(2 * time.Second)
		shell.play = printing("out", 0)
		shell.murmur("job done\n", 0)
		res := f.run("y")
		assert.Equal(t, "out", res.Output)
		assert.Equal(t, "hello\nKeyboardInterrupt\njob done\n", res.Unsolicited)
		assert.Equal(t, "[interrupted cat, which was waiting for input]\n[output since the last command]\nhello\nKeyboardInterrupt\njob done\n[output of this command]\nout", res.Text)
		assert.Empty(t, f.run("z").Unsolicited)
	})
}

// A call that is cancelled while it interrupts has told nobody what it did: the
// next one does.
func TestCancelledWhileAWaitingProgramIsEnded(t *testing.T) {
	cases := map[string]struct {
		cancelAfter time.Duration
		settles     bool
	}{
		"while it is interrupted":      {100 * time.Millisecond, false},
		"while it is signalled":        {interruptWait + 100*time.Millisecond, false},
		"and it ends before the next":  {100 * time.Millisecond, true},
		"and it ends after the signal": {interruptWait + 100*time.Millisecond, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := playing(func(r *fakeRun) { r.wait("cat", 1) })
				shell.interrupt = deaf
				f := newFixture(t, nil, shell)
				defer f.dispose()
				f.run("x")

				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(c.cancelAfter, func() { cancel(errStop) })
				began := time.Now()
				res := f.Run(ctx, f.owner, Command{Text: "y"})
				assert.Equal(t, c.cancelAfter, time.Since(began))
				assert.ErrorIs(t, res.Err(), errStop)
				assert.Equal(t, "Error: the user pressed stop", res.Text)
				assert.False(t, shell.closed())

				if c.settles {
					shell.run.complete(130)
				}
				shell.interrupt, shell.play = nil, nil
				res = f.run("z")
				assert.Equal(t, "[interrupted cat, which was waiting for input]", res.Text)
				assert.Equal(t, []string{"x", "z"}, shell.ran())
			})
		})
	}
}

// Reference 3.3 #48, #68: the end of the shell is not an exit code of the
// command.
func TestShellEnds(t *testing.T) {
	nine := 9
	cases := []struct {
		status terminals.Status
		notice string
	}{
		{terminals.Status{ExitCode: &nine}, "[shell exited: code 9]"},
		{terminals.Status{Signal: "SIGKILL"}, "[shell killed by signal: SIGKILL]"},
		{terminals.Status{}, "[shell exited]"},
	}
	for _, c := range cases {
		t.Run(c.notice, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shell := playing(func(r *fakeRun) {
					r.print("bye")
					r.shell.die(c.status)
				})
				f := newFixture(t, nil, shell)
				defer f.dispose()
				res := f.run("x")
				assert.Equal(t, ShellExited, res.Reason)
				assert.Equal(t, c.status.ExitCode, res.ExitCode)
				if c.status.Signal == "" {
					assert.Nil(t, res.Signal)
				} else {
					assert.Equal(t, c.status.Signal, *res.Signal)
				}
				assert.Equal(t, "bye\n"+c.notice+"\n[the next command starts a fresh shell in /project dir]", res.Text)
				assert.True(t, shell.closed())
				res = f.run("y")
				assert.Equal(t, "pty-2", res.TerminalID)
				assert.Empty(t, res.Text)
			})
		})
	}
}

// Reference 3.3 #49 and F86 (anthropics/claude-code#86000).
func TestShellEndedBetweenTwoCommands(t *testing.T) {
	three := 3
	cases := []struct {
		name   string
		status terminals.Status
		notice string
	}{
		{"code", terminals.Status{ExitCode: &three}, "[the shell had exited since the last command (code 3); this command runs in a fresh shell in /project dir]"},
		{"signal", terminals.Status{Signal: "SIGKILL"}, "[the shell had exited since the last command (signal SIGKILL); this command runs in a fresh shell in /project dir]"},
		{"unknown", terminals.Status{}, "[the shell had exited since the last command; this command runs in a fresh shell in /project dir]"},
	}
	for _, c := range cases {
		for _, seen := range []string{"before the command", "at its start"} {
			t.Run(c.name+" "+seen, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shell := newFakeShell()
					f := newFixture(t, nil, shell, playing(printing("out", 0)))
					defer f.dispose()
					f.run("x")
					shell.murmur("last words\n", 0)
					end := func() error {
						shell.die(c.status)
						return &terminals.Error{Code: terminals.SessionExited, Message: "it has exited"}
					}
					if seen == "at its start" {
						shell.start = func(context.Context) error { return end() }
					} else {
						_ = end()
					}
					res := f.run("y")
					assert.Equal(t, c.notice+"\n[output since the last command]\nlast words\n[output of this command]\nout", res.Text)
					assert.Equal(t, "pty-2", res.TerminalID)
					assert.True(t, shell.closed())
				})
			})
		}
	}
}

func TestShellThatIsClosedByTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, newFakeShell())
		defer f.dispose()
		id := f.run("x").TerminalID
		_, err := f.service.Close(t.Context(), f.owner, id, "not needed")
		require.NoError(t, err)
		res := f.run("y")
		assert.Equal(t, Completed, res.Reason)
		assert.Contains(t, res.Text, "[the shell had exited since the last command (signal SIGHUP)")
	})
}

func TestShellsThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dying := func() *fakeShell {
			shell := newFakeShell()
			shell.start = func(context.Context) error {
				return &terminals.Error{Code: terminals.SessionExited, Message: "the shell has exited"}
			}
			return shell
		}
		f := newFixture(t, nil, dying(), dying())
		defer f.dispose()
		res := f.run("x")
		assert.ErrorIs(t, res.Err(), terminals.SessionExited)
		assert.Equal(t, "Error: the shell has exited\n[the next command starts a fresh shell in /project dir]", res.Text)
		assert.Equal(t, 2, f.opens())
		assert.Equal(t, Completed, f.run("y").Reason)
	})
}

// Reference 3.3 #54.
func TestShellThatCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.dispose()
		f.open = func(_ context.Context, n int) error {
			switch n {
			case 1:
				return errors.New("no such shell; set shellPath")
			case 2:
				return &terminals.Error{Code: terminals.InvalidArgument, Message: "the directory does not exist"}
			}
			return nil
		}
		res := f.run("x")
		assert.Equal(t, Failed, res.Reason)
		assert.Equal(t, CodeOpenFailed, res.Error.Code)
		assert.Equal(t, "Error: no such shell; set shellPath", res.Text)
		res = f.run("x")
		assert.Equal(t, "INVALID_ARGUMENT", res.Error.Code)
		assert.ErrorIs(t, res.Err(), terminals.InvalidArgument)
		assert.Equal(t, Completed, f.run("x").Reason)
	})
}

type interactiveOnly struct{ terminals.Session }

func (interactiveOnly) PID() int                            { return 1 }
func (interactiveOnly) Startup() string                     { return "hello" }
func (interactiveOnly) Status() terminals.Status            { return terminals.Status{} }
func (interactiveOnly) Close(context.Context, string) error { return nil }

type backendFunc func() terminals.Session

func (b backendFunc) Open(context.Context, terminals.Setup) (terminals.Session, error) {
	return b(), nil
}

func TestBackendWithoutCommandMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.BackendType = "repl" })
		defer f.dispose()
		_, err := f.service.Register("repl", backendFunc(func() terminals.Session { return interactiveOnly{} }))
		require.NoError(t, err)
		res := f.run("x")
		assert.ErrorIs(t, res.Err(), terminals.Unsupported)
		assert.Equal(t, `Error: backendType "repl" has no command mode; name the type of a shell`, res.Text)
		assert.Empty(t, f.service.List(f.owner), "it was closed again")
	})
}

// A refused command leaves the shell alone, and what is to be told is told by
// the next result.
func TestRefusedCommand(t *testing.T) {
	for _, code := range []terminals.Code{terminals.InvalidArgument, terminals.SendActive} {
		synctest.Test(t, func(t *testing.T) {
			shell := newFakeShell()
			f := newFixture(t, nil, shell)
			defer f.dispose()
			f.run("x")
			shell.murmur("job done\n", 7)
			shell.start = func(context.Context) error {
				return &terminals.Error{Code: code, Message: "not this one"}
			}
			res := f.run("y")
			assert.Equal(t, string(code), res.Error.Code)
			assert.Equal(t, "Error: not this one", res.Text)
			assert.Zero(t, res.LostPrefix)
			shell.start = nil
			res = f.run("z")
			assert.Equal(t, "pty-1", res.TerminalID)
			assert.Equal(t, "job done\n", res.Unsolicited)
			assert.Equal(t, int64(7), res.LostPrefix)
			assert.Equal(t, "[output since the last command]\njob done\n[output of this command]\n[the beginning of the output was lost: 7 bytes]", res.Text)
		})
	}
}

// Reference 3.3 #54: a failing terminal is given up, the next call recovers.
func TestTerminalThatFails(t *testing.T) {
	broken := errors.New("input/output error")
	t.Run("at the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shell := newFakeShell()
			shell.start = func(context.Context) error { return broken }
			f := newFixture(t, nil, shell)
			defer f.dispose()
			res := f.run("x")
			assert.ErrorIs(t, res.Err(), broken)
			assert.Equal(t, CodeShellFailed, res.Error.Code)
			assert.Equal(t, "Error: input/output error\n[the next command starts a fresh shell in /project dir]", res.Text)
			assert.True(t, shell.closed())
			assert.Equal(t, Completed, f.run("y").Reason)
		})
	})
	t.Run("while it runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shell := newFakeShell()
			f := newFixture(t, nil, shell)
			defer f.dispose()
			f.run("x")
			state := f.owners[f.owner]
			state.shell.session = failingSession{shell, broken}
			res := f.run("y")
			assert.ErrorIs(t, res.Err(), broken)
			assert.Equal(t, CodeShellFailed, res.Error.Code)
			assert.Equal(t, Completed, f.run("z").Reason)
		})
	})
}

type failingSession struct {
	*fakeShell
	err error
}

func (s failingSession) StartCommand(context.Context, terminals.CommandRequest) (terminals.CommandRun, error) {
	return failingRun(s), nil
}

type failingRun struct {
	*fakeShell
	err error
}

func (r failingRun) Wait(context.Context) (terminals.CommandResult, error) {
	return terminals.CommandResult{}, r.err
}
func (r failingRun) Interrupt(context.Context) error { return r.err }
func (r failingRun) Waits() bool                     { return false }
func (r failingRun) Settled() <-chan struct{}        { return nil }

func TestCommandThatTheShellSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) { r.settle(terminals.CommandResult{State: terminals.Completed, NotStarted: true}) })
		f := newFixture(t, nil, shell)
		defer f.dispose()
		res := f.run("x")
		assert.Equal(t, Failed, res.Reason)
		assert.Equal(t, CodeNotStarted, res.Error.Code)
		assert.Contains(t, res.Text, "DEBUG trap")
		assert.True(t, strings.HasSuffix(res.Text, "\n[the next command starts a fresh shell in /project dir]"), res.Text)
		assert.True(t, shell.closed())
	})
}

func TestShellThatStopsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := playing(func(r *fakeRun) { r.reports <- terminals.CommandResult{State: terminals.ShellStuck} })
		f := newFixture(t, nil, shell)
		defer f.dispose()
		res := f.run("x")
		assert.Equal(t, CodeShellStopped, res.Error.Code)
		assert.True(t, shell.closed())
		assert.Equal(t, Completed, f.run("y").Reason)
	})
}

func TestUnknownExitCodeIsNotSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, playing(func(r *fakeRun) { r.settle(terminals.CommandResult{State: terminals.Completed}) }))
		defer f.dispose()
		res := f.run("x")
		assert.Nil(t, res.ExitCode)
		assert.Equal(t, "[exit code: unknown]", res.Text)
		assert.Equal(t, "/project dir", res.Cwd, "as last known")
	})
}

func TestWaitWithoutDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, playing(func(r *fakeRun) { r.reports <- terminals.CommandResult{State: terminals.Waiting} }))
		defer f.dispose()
		assert.Equal(t, "[waiting for input: the program (line); the next command interrupts it]", f.run("x").Text)
	})
}

// Unsolicited output is bounded like a command's, at its newest end.
func TestUnsolicitedOutputIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := newFakeShell()
		f := newFixture(t, func(c *Config) { c.MaxOutputChars = 4 }, shell)
		defer f.dispose()
		f.run("x")
		shell.murmur("一二三四五六", 5)
		res := f.run("y")
		assert.Equal(t, "三四五六", res.Unsolicited)
		assert.Equal(t, int64(5+6), res.LostPrefix)
		assert.Equal(t, "[output since the last command]\n三四五六\n[output of this command]\n[the beginning of the output was lost: 11 bytes]", res.Text)
	})
}

func TestPrestart(t *testing.T) {
	t.Run("starts one shell and runs nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shell := playing(printing("welcome\n", 0))
			f := newFixture(t, nil, shell)
			defer f.dispose()
			shell.murmur("starting\n", 3)
			require.NoError(t, f.Prestart(t.Context(), f.owner))
			require.NoError(t, f.Prestart(t.Context(), f.owner))
			assert.Equal(t, []string{"(warm-up)"}, shell.ran())
			res := f.run("x")
			assert.Equal(t, []string{"(warm-up)", "x"}, shell.ran())
			assert.Equal(t, "pty-1", res.TerminalID)
			assert.Equal(t, "starting\nwelcome\n", res.Unsolicited, "nothing is lost")
			assert.Equal(t, int64(3), res.LostPrefix)
		})
	})
	t.Run("may fail", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil, playing(func(r *fakeRun) { r.wait("cat", 1) }), playing(func(r *fakeRun) {
				r.settle(terminals.CommandResult{State: terminals.Completed, NotStarted: true})
			}))
			defer f.dispose()
			f.open = func(_ context.Context, n int) error {
				if n == 1 {
					return errStop
				}
				return nil
			}
			assert.ErrorIs(t, f.Prestart(t.Context(), f.owner), errStop)
			assert.ErrorContains(t, f.Prestart(t.Context(), f.owner), "waiting_input")
			assert.ErrorContains(t, f.Prestart(t.Context(), f.newOwner("")), "without running")
			res := f.run("x")
			assert.Equal(t, WaitingInput, res.Reason, "the shell plays the same again")
			assert.Contains(t, res.Text, "[interrupted cat, which was waiting for input]")
			assert.ErrorIs(t, f.Prestart(t.Context(), nil), terminals.OwnerNotLive)
		})
	})
}

func TestOwnerWithoutADirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil, playing(func(r *fakeRun) { r.shell.die(terminals.Status{}) }))
		defer f.dispose()
		dir, err := os.Getwd()
		require.NoError(t, err)
		res := f.Run(t.Context(), f.newOwner(""), Command{Text: "x"})
		assert.Equal(t, "[shell exited]\n[the next command starts a fresh shell in "+dir+"]", res.Text)
	})
}

func TestNegativeTimeoutIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	res := f.Run(t.Context(), f.owner, Command{Text: "x", Timeout: -time.Millisecond})
	assert.Equal(t, "INVALID_ARGUMENT", res.Error.Code)
	assert.Equal(t, "Error: the timeout must be positive, got -1 ms", res.Text)
	assert.Zero(t, f.opens())
}

func TestShellThatDoesNotEndIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := newFixture(t, func(c *Config) { c.Logger = textLogger(&log) })
		_, err := f.service.Register("undead", backendFunc(func() terminals.Session {
			return undead{playing(func(r *fakeRun) { r.settle(terminals.CommandResult{State: terminals.ShellEnded}) })}
		}))
		require.NoError(t, err)
		f.cfg.BackendType = "undead"
		assert.Equal(t, ShellExited, f.run("x").Reason)
		synctest.Wait()
		assert.Contains(t, log.String(), "a shell did not end")
		assert.Error(t, f.service.Dispose(t.Context()))
	})
}

type undead struct{ *fakeShell }

func (undead) Startup() string { return "hello" }

func (undead) Close(context.Context, string) error {
	return &terminals.Error{Code: terminals.CleanupFailed, Message: "processes survived: 4711"}
}

// A live shell is told what has changed since its last command, and nothing when
// nothing has.
func TestEnvironmentChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shell := newFakeShell()
		env := []string{"DSH_A=1", "DSH_B=2"}
		var failure error
		var asked []string
		f := newFixture(t, func(c *Config) {
			c.Resolve = func(_ context.Context, _ *terminals.Owner, terminalID, cwd string) ([]string, error) {
				asked = append(asked, terminalID+" "+cwd)
				return env, failure
			}
		}, shell)
		defer f.dispose()
		changes := func() string { return fmt.Sprint(shell.last.Env, shell.last.Unset) }

		f.run("first")
		assert.Equal(t, "[] []", changes())
		f.run("second")
		assert.Equal(t, "[] []", changes())
		assert.Equal(t, []string{"pty-1 /project dir", "pty-1 /project dir", "pty-1 /fake/cwd"}, asked)

		env = []string{"DSH_B=3", "DSH_C=4"}
		shell.start = func(context.Context) error { return &terminals.Error{Code: terminals.InvalidArgument, Message: "no"} }
		f.run("refused")
		shell.start = nil
		f.run("third")
		assert.Equal(t, "[DSH_B=3 DSH_C=4] [DSH_A]", changes(), "a command that was not taken has changed nothing")

		failure = errors.New("contributor tickets: the key was not declared")
		res := f.run("fourth")
		assert.Equal(t, Failed, res.Reason)
		assert.Equal(t, CodeEnvironment, res.Error.Code)
		assert.ErrorIs(t, res.Err(), failure)
		failure = nil
		f.run("fifth")
		assert.Equal(t, []string{"first", "second", "third", "fifth"}, shell.ran(), "the shell outlives the failure")
		assert.Equal(t, "[] []", changes())
	})
}

// A resolver has no more time than a command.
func TestEnvironmentInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		f := newFixture(t, func(c *Config) {
			c.Resolve = func(ctx context.Context, _ *terminals.Owner, _, _ string) ([]string, error) {
				if calls.Add(1) == 1 {
					return nil, nil
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		})
		defer f.dispose()
		began := time.Now()
		res := f.run("x")
		assert.Equal(t, CodeEnvironment, res.Error.Code)
		assert.Equal(t, 10*time.Second, time.Since(began))

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		res = f.Run(ctx, f.owner, Command{Text: "x"})
		assert.Equal(t, Cancelled, res.Reason)
		assert.ErrorIs(t, res.Err(), errStop)
	})
}
