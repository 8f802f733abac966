package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// command is a run with what its sink got.
type command struct {
	terminals.CommandRun
	f   *fixture
	seq int

	mu  sync.Mutex
	out bytes.Buffer
}

// sink takes output, and fails when any comes after the run has settled.
func (c *command) sink(p []byte) {
	if c.CommandRun != nil && isDone(c.Settled()) {
		c.f.t.Errorf("output after the end: %q", p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(p)
}

func (c *command) output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

// deliver starts a command that the shell has not read yet.
func (f *fixture) deliver(text string) *command {
	f.t.Helper()
	c := &command{f: f}
	run, err := f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: text, Sink: c.sink})
	require.NoError(f.t, err)
	c.CommandRun = run
	f.seq++
	f.dev.set(func() { f.seq = max(f.seq, f.dev.ran) }) // a question takes a number too
	c.seq = f.seq
	return c
}

// command starts a command that the shell runs.
func (f *fixture) command() *command {
	f.t.Helper()
	c := f.deliver("text")
	f.dev.run()
	f.dev.say(f.mark(fmt.Sprintf("S;%d", c.seq)))
	return c
}

// watch waits in the background for c to complete, as a caller does. There must
// be no other news.
func (c *command) watch() func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := c.Wait(ctx); err == nil {
			assert.Equal(c.f.t, terminals.Completed, res.State)
		}
	}()
	synctest.Wait()
	return func() { cancel(); <-done }
}

// finish lets the shell come back with status, and returns the result.
func (c *command) finish(status int) terminals.CommandResult {
	c.f.t.Helper()
	c.f.dev.home()
	c.f.dev.say(c.f.back(c.seq, status))
	return c.completed()
}

// completed requires that c has completed.
func (c *command) completed() terminals.CommandResult {
	c.f.t.Helper()
	require.True(c.f.t, isDone(c.Settled()), "the command has not settled")
	res, err := c.Wait(context.Background())
	require.NoError(c.f.t, err)
	require.Equal(c.f.t, terminals.Completed, res.State)
	return res
}

// running requires that c has nothing to report.
func (c *command) running() {
	c.f.t.Helper()
	synctest.Wait()
	require.False(c.f.t, isDone(c.Settled()), "the command has settled")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errCaller)
	_, err := c.Wait(ctx)
	require.ErrorIs(c.f.t, err, errCaller)
}

// code requires a completed command's status.
func code(t *testing.T, want int, res terminals.CommandResult) {
	t.Helper()
	require.NotNil(t, res.ExitCode)
	assert.Equal(t, want, *res.ExitCode)
}

// unsolicited requires what came between the commands.
func (f *fixture) unsolicited(want string) {
	f.t.Helper()
	data, lost := f.s.Unsolicited()
	assert.Equal(f.t, want, string(data))
	assert.Zero(f.t, lost)
}

func TestCommand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.deliver("make\n\x01")
		require.Equal(t, []string{"run 1 0\n"}, f.dev.written())
		file := filepath.Join(f.drv.spec.Remove[0], "c1")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, "make\n\x01", string(data))
		info, err := os.Stat(file)
		require.NoError(t, err)
		if runtime.GOOS != "windows" { // which has no such permissions
			assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		}

		_, err = f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "x"})
		require.ErrorIs(t, err, terminals.SendActive)
		f.busy()

		f.dev.run()
		f.dev.say("run 1 0\r\n" + f.mark("S;1") + "out\n")
		c.running()
		res := c.finish(7)
		code(t, 7, res)
		assert.Equal(t, "/cwd", res.Cwd)
		assert.False(t, res.Interrupted)
		assert.Equal(t, "out\n", c.output())
		assert.NoFileExists(t, file)
		f.unsolicited("")

		c = f.command()
		assert.Equal(t, "run 2 7\n", f.dev.written()[1], "the next command sees the status of the last")
		code(t, 0, c.finish(0))
		_, err = f.s.StartSend(context.Background(), terminals.SendRequest{Text: "x"})
		assert.NotErrorIs(t, err, terminals.SendActive)
	})
}

// A mark counts when the shell is at its prompt, and not sooner.
// A warm-up runs the dialect's own program, and the text where there is none.
func TestCommandWarmUp(t *testing.T) {
	for own, want := range map[string]string{"": "text", "load": "load"} {
		bubble(t, func(t *testing.T) {
			f := ready(t, terminals.Command, func(f *fixture) { f.lang.launch.WarmUp = own })
			for _, warm := range []bool{true, false} {
				f.seq++
				run, err := f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "text", WarmUp: warm})
				require.NoError(t, err)
				data, err := os.ReadFile(filepath.Join(f.drv.spec.Remove[0], fmt.Sprintf("c%d", f.seq)))
				require.NoError(t, err)
				if warm {
					assert.Equal(t, want, string(data))
				} else {
					assert.Equal(t, "text", string(data))
				}
				f.dev.run()
				f.dev.say(f.mark(fmt.Sprintf("S;%d", f.seq)))
				f.dev.home()
				f.dev.say(f.back(f.seq, 0))
				res, err := run.Wait(context.Background())
				require.NoError(t, err)
				assert.Equal(t, terminals.Completed, res.State)
			}
		})
	}
}

func TestCommandMarkNeedsProof(t *testing.T) {
	for _, tt := range []struct {
		name string
		wait backend.Wait
		err  error
	}{
		{"busy", backend.Wait{State: backend.WaitBusy, PID: shellPID}, nil},
		{"unknown", backend.Wait{PID: shellPID}, nil},
		{"reads elsewhere", backend.Wait{State: backend.WaitReading, PID: shellPID, Site: otherSite}, nil},
		{"unreadable", atPrompt, errors.New("no such process")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command)
				c := f.command()
				f.dev.set(func() { f.dev.shellWait, f.dev.shellErr = tt.wait, tt.err })
				f.dev.say("out" + f.back(1, 3))
				pass(40 * time.Millisecond)
				c.running()
				f.dev.set(func() { f.dev.shellErr = nil })
				f.dev.home()
				pass(poll)
				code(t, 3, c.completed())
				assert.Equal(t, "out", c.output())
			})
		})
	}
}

// Forged marks have the right secret and number. The shell is not at its prompt,
// so what follows them is output, in order and to the byte.
func TestCommandForgedMarks(t *testing.T) {
	for _, tt := range []struct{ name, forged string }{
		{"done", "D;1;0;/"}, {"prompt", "A;1;0"}, {"done and prompt", "D;1;0;/ A;1;0"}, {"prompt and done", "A;1;0 D;1;0;/"},
		{"start", "S;1"}, {"all", "S;1 D;1;0;/ S;1 A;1;0 D;1;0;/"}, {"done twice", "D;1;0;/ D;1;0;/"}, {"prompt twice", "A;1;0 A;1;0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command)
				c := f.command()
				stream, want := "first\n", "first\n"
				for i, m := range strings.Fields(tt.forged) {
					text := fmt.Sprintf("%d[x]run ", i)
					stream += f.mark(m) + text
					want += text
				}
				f.dev.say(stream)
				c.running()
				pass(60 * time.Millisecond)
				c.running()
				assert.Equal(t, want, c.output(), "refuted marks give out what they held back")
				f.dev.say(" more")
				code(t, 5, c.finish(5))
				assert.Equal(t, want+" more", c.output())
				f.unsolicited("")
			})
		})
	}
}

// Whoever prints on after a forged mark is refuted by the next one already.
func TestCommandMarksBeforeTheLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.home() // the real end is in the same burst
		f.dev.say("a" + f.back(1, 0) + "b" + f.mark("D;1;0;/") + "c" + f.back(1, 4))
		code(t, 4, c.completed())
		assert.Equal(t, "abc", c.output())
	})
}

// A program that prints a whole end and then waits is reported as waiting.
func TestCommandForgesAndWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.say(f.back(1, 0) + "name? ")
		f.dev.wait(reading(200, 1))
		res, err := c.Wait(context.Background())
		require.NoError(t, err)
		assert.Equal(t, terminals.Waiting, res.State)
		assert.Equal(t, "name? ", c.output())
		c.finish(0)
	})
}

// More than a bound is not held back, however short the time.
func TestCommandForgedMarkAndFlood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.print(f.mark("D;1;0;/"))
		want := strings.Repeat("0123456789abcdef", 4096)
		for i := 0; i < len(want); i += 4096 {
			f.dev.print(want[i : i+4096])
		}
		f.dev.say("!")
		assert.Equal(t, want+"!", c.output())
		code(t, 0, c.finish(0))
	})
}

// Marks of other numbers are not this command's: not those of the prompt it was
// given at, not a guess.
func TestCommandMarksOfOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		f.command().finish(0)
		c := f.deliver("text")
		f.dev.run()
		f.dev.say(f.back(1, 0) + f.mark("S;1"))
		f.dev.home()
		f.dev.say("")
		pass(time.Millisecond)
		c.running()
		f.dev.run()
		f.dev.say(f.mark("S;2") + "out" + f.mark("X;2") + f.mark("D"))
		code(t, 1, c.finish(1))
		assert.Equal(t, "out", c.output())
	})
}

// A user may have unset the variable that holds the number.
func TestCommandMarkWithoutNumber(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.home()
		f.dev.say("out" + f.back(0, 2))
		code(t, 2, c.completed())
	})
}

// A prompt without a done mark: the shell's hook is gone. The status is the
// prompt's, and the hook is repaired before the next command.
func TestCommandPromptWithoutDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.home()
		f.dev.say("out" + f.mark("A;1;9"))
		res := c.completed()
		code(t, 9, res)
		assert.Equal(t, "/start", res.Cwd, "what the system says")
		assert.Equal(t, "out", c.output())

		f.dev.set(func() { f.dev.cwd = "" })
		c = f.command()
		assert.Equal(t, []string{"run 1 0\n", "resync 1\n", "run 2 9\n"}, f.dev.written())
		c.finish(0)
		c = f.command()
		assert.Equal(t, "run 3 0\n", f.dev.written()[3], "once")
		f.dev.home()
		f.dev.say(f.mark("A;3;0"))
		assert.Equal(t, "/cwd", c.completed().Cwd, "what was last known")
	})
}

// A done mark without a prompt's is enough where the shell is seen at it.
func TestCommandDoneWithoutPrompt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.home()
		f.dev.say("out" + f.mark("D;1;2;/") + "[hook]\nlate\n")
		pass(2 * poll)
		assert.False(t, isDone(c.Settled()), "the mark may still come")
		pass(10 * poll)
		code(t, 2, c.completed())
		assert.Equal(t, "out", c.output())
		f.unsolicited("") // another prompt than the shell's own
		c = f.command()
		assert.Equal(t, "run 2 2\n", f.dev.written()[1], "there is nothing to repair")
		f.dev.home()
		f.dev.say(f.mark("D;2;0;/"))
		pass(poll)
		code(t, 0, c.completed()) // this shell's prompts have no mark
	})
}

// A busy host reads the prompt's mark long after the shell is seen at its
// prompt: what came before it is not lost.
func TestCommandPromptIsReadLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.home()
		f.dev.say("out" + f.mark("D;1;2;/") + "[hook]\nlate\n")
		pass(2 * poll)
		f.dev.say(f.mark("A;1;2"))
		code(t, 2, c.completed())
		assert.Equal(t, "out", c.output())
		f.unsolicited("late\n")
	})
}

// What comes between the marks of the end, or after them, is not the command's:
// the shell's own part goes, the rest came from somebody else.
func TestCommandOutputAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.home()
		f.dev.say("out" + f.mark("D;1;0;/") + "[hook]\nbetween\n" + f.mark("A;1;0") + "after\n")
		c.completed()
		assert.Equal(t, "out", c.output())
		f.dev.say("later\n")
		f.unsolicited("between\nafter\nlater\n")
	})
}

// What the shell's machinery prints after a program is dropped at its end, and is
// output when something else follows.
func TestCommandTrailer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command, func(f *fixture) { f.lang.debris = "{hook}\n" })
		c := f.command()
		f.dev.say("one{hook}\ntwo{ho")
		assert.Equal(t, "one{hook}\ntwo", c.output())
		f.dev.say("ok}\n")
		assert.Equal(t, "one{hook}\ntwo", c.output())
		c.finish(0)
		assert.Equal(t, "one{hook}\ntwo", c.output())

		c = f.command()
		f.dev.say("one{hook}\n" + f.mark("D;2;0;/") + "two{hook}\n")
		pass(60 * time.Millisecond)
		assert.Equal(t, "one{hook}\ntwo", c.output(), "held back again after a refuted mark")
		c.finish(0)
		assert.Equal(t, "one{hook}\ntwo", c.output())

		c = f.command()
		f.dev.print("end{ho")
		f.dev.exit(backend.ExitStatus{})
		synctest.Wait()
		assert.Equal(t, "end{ho", c.output(), "no mark comes any more")
	})
}

// A shell that never says start: what it prints is output, without the echo.
func TestCommandWithoutStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.deliver("text")
		f.dev.home()
		f.dev.say("run 1 0\r\nbash: file not found\n" + f.back(1, 127))
		code(t, 127, c.completed())
		assert.Equal(t, "bash: file not found\n", c.output())

		c = f.deliver("text")
		f.dev.run()
		want := strings.Repeat("x", 70<<10)
		f.dev.print(want[:40<<10])
		f.dev.say(want[40<<10:])
		assert.Len(t, c.output(), len(want), "it is not held back for ever")
		c.finish(0)
	})
}

// What a background job prints before the start mark is not the command's.
func TestCommandOutputBeforeTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		f.dev.say("idle\n")
		c := f.deliver("text")
		f.dev.run()
		f.dev.say("job\nrun 1 0\r\n" + f.mark("S;1") + "out\n")
		res := c.finish(0)
		assert.Equal(t, "job\n", string(res.Before))
		assert.Equal(t, "out\n", c.output())
		f.unsolicited("idle\n")
		f.unsolicited("")
	})
}

// What background jobs print while the shell answers a question about its status
// is kept, wherever it falls.
func TestCommandOutputAroundAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.home()
		f.dev.set(func() { f.dev.pendingOut = 3 })
		f.dev.say("out" + f.mark("D;1;0;/") + "a\n")
		for len(f.dev.written()) < 2 {
			pass(poll)
		}
		require.Contains(t, f.dev.written()[1], "resync")
		f.dev.say("b\n")
		assert.False(t, isDone(c.Settled()), "more is unread")
		f.dev.set(func() { f.dev.pendingOut = 0 })
		pass(10 * poll)
		c.completed()
		assert.Equal(t, "out", c.output())
		f.unsolicited("a\nb\n")
	})
}

// The newest of what nobody asked for is kept, and the rest is counted.
func TestUnsolicitedBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const bound, chunk = 256 << 10, 4096
		f := ready(t, terminals.Command)
		var all bytes.Buffer
		for i := range 3 * bound / chunk {
			text := strings.Repeat(string(rune('a'+i%26)), chunk)
			all.WriteString(text)
			f.dev.print(text)
		}
		synctest.Wait()
		data, lost := f.s.Unsolicited()
		assert.EqualValues(t, all.Len()-bound, lost)
		require.Len(t, data, bound)
		assert.True(t, bytes.HasSuffix(all.Bytes(), data))
		f.unsolicited("")
	})
}

// The marks are gone but the shell is at its prompt: it is asked for one.
func TestCommandLostMarks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		defer c.watch()()
		f.dev.say("out")
		f.dev.home()
		pass(90 * time.Millisecond)
		c.running()
		require.Len(t, f.dev.written(), 1, "its last words may still come")
		pass(60 * time.Millisecond)
		require.Equal(t, []string{"run 1 0\n", "resync 1\n"}, f.dev.written())
		m, _ := f.dev.Modes()
		assert.False(t, m.Echo, "nobody sees it")
		pass(60 * time.Millisecond)
		c.running()
		f.dev.say(f.back(1, 6))
		code(t, 6, c.completed())
		assert.Equal(t, "out", c.output())
	})
}

// A shell that reads on, or whose last words are still unread, has not lost
// anything.
func TestCommandMarksNotLost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*device)
	}{
		{"input unread", func(d *device) { d.pending = 3 }},
		{"input unknown", func(d *device) { d.pendingErr = backend.ErrUnsupported }},
		{"output unread", func(d *device) { d.pendingOut = 3 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command)
				c := f.command()
				defer c.watch()()
				f.dev.home()
				f.dev.set(func() { tt.change(f.dev) })
				pass(time.Second)
				assert.Len(t, f.dev.written(), 1)
				f.dev.set(func() { f.dev.pending, f.dev.pendingErr, f.dev.pendingOut = 0, nil, 0 })
				c.finish(0)
			})
		})
	}
}

// A shell that does not answer, and one that came back without running the
// program.
func TestCommandLostForGood(t *testing.T) {
	for _, started := range []bool{true, false} {
		t.Run(map[bool]string{true: "started", false: "not started"}[started], func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command)
				f.command().finish(3)
				c := f.deliver("text")
				if started {
					f.dev.say(f.mark("S;2") + "out")
				}
				defer c.watch()()
				pass(150 * time.Millisecond)
				require.Equal(t, "resync 2\n", f.dev.written()[2])
				if !started {
					f.dev.say(f.back(1, 3)) // it knows of the last command only
				}
				pass(time.Second)
				res := c.completed()
				assert.Nil(t, res.ExitCode)
				assert.Equal(t, !started, res.NotStarted)
				assert.Equal(t, "/cwd", res.Cwd)
				f.command().finish(0)
				assert.Equal(t, []string{"resync 2\n", "run 3 3\n"}, f.dev.written()[3:])
			})
		})
	}
}

// A program that stays blocked reading the terminal is reported once, and again
// when it was answered and reads on.
func TestCommandWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.say("Password: ")
		f.dev.wait(reading(200, 1))
		f.dev.set(func() { f.dev.modes.Echo = false })
		start := time.Now()
		res, err := c.Wait(context.Background())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(start), 250*time.Millisecond)
		assert.Less(t, time.Since(start), 250*time.Millisecond+3*poll)
		assert.Equal(t, terminals.Waiting, res.State)
		assert.Equal(t, &terminals.NeedsInput{Kind: terminals.SecretInput, Prompt: "Password: ", Program: "prog", PID: 200}, res.NeedsInput)
		assert.False(t, isDone(c.Settled()))

		short := func() error {
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errCaller)
			defer cancel()
			_, err := c.Wait(ctx)
			return err
		}
		require.ErrorIs(t, short(), errCaller, "the same wait is not reported again")
		f.dev.say("a job prints")
		require.ErrorIs(t, short(), errCaller)

		f.dev.wait(reading(200, 2)) // it was left and taken up again
		start = time.Now()
		require.NoError(t, short())
		assert.GreaterOrEqual(t, time.Since(start), 250*time.Millisecond, "it is confirmed as the first was")
		require.ErrorIs(t, short(), errCaller)

		f.dev.wait(busy)
		require.ErrorIs(t, short(), errCaller)
		f.dev.wait(reading(200, 2))
		require.NoError(t, short(), "it was seen away")
		c.finish(0)
	})
}

// Waits that are no reason to call for somebody.
func TestCommandNotWaiting(t *testing.T) {
	timed := reading(200, 1)
	timed.Timed = true
	for _, tt := range []struct {
		name   string
		wait   backend.Wait
		change func(*device)
	}{
		{"timed", timed, nil},
		{"input to read", reading(200, 1), func(d *device) { d.pending = 1 }},
		{"unreadable", reading(200, 1), func(d *device) { d.inputErr = errors.New("no such process") }},
		{"the shell at rest", atPrompt, nil},
		{"stopped", backend.Wait{State: backend.WaitStopped, PID: 200}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command)
				c := f.command()
				defer c.watch()()
				f.dev.wait(tt.wait)
				if tt.change != nil {
					f.dev.set(func() { tt.change(f.dev) })
				}
				pass(time.Second)
				c.running()
				f.dev.set(func() { f.dev.pending, f.dev.inputErr = 0, nil })
				c.finish(0)
			})
		})
	}
}

// A wait that is shorter than its confirmation, or in the middle of output, is
// none.
func TestCommandWaitConfirm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		run, err := f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "x", WaitConfirm: 50 * time.Millisecond})
		require.NoError(t, err)
		f.dev.say(f.mark("S;1"))
		got := make(chan time.Time, 1)
		go func() {
			if res, err := run.Wait(context.Background()); err == nil && res.State == terminals.Waiting {
				got <- time.Now()
			}
		}()
		for i := range 5 {
			f.dev.wait(reading(200, uint64(i)))
			pass(40 * time.Millisecond)
		}
		last := time.Now()
		for range 5 {
			f.dev.say(".")
			last = time.Now()
			pass(40 * time.Millisecond)
		}
		require.Empty(t, got)
		pass(40 * time.Millisecond)
		require.Len(t, got, 1)
		assert.GreaterOrEqual(t, (<-got).Sub(last), 50*time.Millisecond)
		f.dev.home()
		f.dev.say(f.back(1, 0))
		assert.True(t, isDone(run.Settled()))
	})
}

// The shell itself was stopped: nothing it runs comes back by itself.
func TestCommandShellStuck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		stopped := backend.Wait{State: backend.WaitStopped, PID: shellPID}
		f.dev.set(func() { f.dev.shellWait, f.dev.inputWait = stopped, stopped })
		res, err := c.Wait(context.Background())
		require.NoError(t, err)
		assert.Equal(t, terminals.ShellStuck, res.State)
		assert.False(t, isDone(c.Settled()))
	})
}

// interrupt interrupts c in the background.
func (c *command) interrupt(ctx context.Context) <-chan error {
	err := make(chan error, 1)
	go func() { err <- c.Interrupt(ctx) }()
	synctest.Wait()
	return err
}

func TestInterrupt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.say("out\n")
		err := c.interrupt(context.Background())
		require.Equal(t, 1, f.dev.signalled())
		pass(50 * time.Millisecond)
		require.Equal(t, 2, f.dev.signalled(), "the first may have come too early")
		f.dev.say("^C\n")
		res := c.finish(1)
		require.NoError(t, <-err)
		assert.True(t, res.Interrupted)
		code(t, 130, res)
		assert.Equal(t, "out\n^C", c.output(), "the newline is the shell's")
		pass(time.Second)
		assert.Equal(t, 2, f.dev.signalled())
		f.dev.say("\nlater\n")
		f.unsolicited("later\n")

		require.NoError(t, c.Interrupt(context.Background()), "it is over")
		assert.Equal(t, 2, f.dev.signalled(), "and hits nobody")
	})
}

// While a program's last words come, its interrupt is not repeated at once.
func TestInterruptHoldsBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		err := c.interrupt(context.Background())
		for range 20 {
			f.dev.say(".")
			pass(20 * time.Millisecond)
		}
		require.Equal(t, 1, f.dev.signalled())
		for range 35 {
			f.dev.say(".")
			pass(20 * time.Millisecond)
		}
		require.Equal(t, 2, f.dev.signalled(), "it is not put off for ever")
		c.finish(130)
		require.NoError(t, <-err)
	})
}

// While the shell has not read the command nobody is signalled: an interrupt
// would hit the shell at its prompt, and then the command would run.
func TestInterruptBeforeTheShellReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		f.dev.set(func() {
			f.dev.onWrite = func(_ context.Context, p []byte) (int, error) {
				f.dev.accept(p)
				f.dev.set(func() { f.dev.pending = len(p) })
				return len(p), nil
			}
		})
		c := f.deliver("text")
		flushes := f.dev.flushed()
		err := c.interrupt(context.Background())
		pass(time.Second)
		assert.Zero(t, f.dev.signalled())
		assert.Equal(t, flushes, f.dev.flushed(), "a read that was woken would see an end of input")
		f.dev.run()
		f.dev.set(func() { f.dev.onWrite, f.dev.pending = nil, 0 })
		f.dev.say(f.mark("S;1"))
		pass(time.Second)
		assert.Positive(t, f.dev.signalled())
		c.running()
		code(t, 130, c.finish(130))
		require.NoError(t, <-err)
	})
}

// The shell has read the command but not begun it.
func TestInterruptBeforeTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.deliver("text")
		flushes := f.dev.flushed()
		f.dev.run()
		err := c.interrupt(context.Background())
		pass(25 * time.Millisecond)
		require.Equal(t, 1, f.dev.signalled())
		assert.Equal(t, flushes, f.dev.flushed())
		c.finish(130)
		require.NoError(t, <-err)
	})
}

// A program that ignores the interrupt is interrupted until the caller gives up,
// and can be interrupted again.
func TestInterruptIgnored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.set(func() {
			f.dev.onSignal = func(context.Context, string) (int, error) { return 0, errors.New("refused") }
		})
		ctx, cancel := context.WithTimeoutCause(context.Background(), 490*time.Millisecond, errCaller)
		defer cancel()
		require.ErrorIs(t, c.Interrupt(ctx), errCaller)
		assert.Equal(t, 6, f.dev.signalled(), "quickly at first")
		pass(time.Second)
		assert.Equal(t, 6, f.dev.signalled())
		ctx, cancel = context.WithTimeoutCause(context.Background(), 2500*time.Millisecond, errCaller)
		defer cancel()
		require.ErrorIs(t, c.Interrupt(ctx), errCaller)
		assert.Equal(t, 9, f.dev.signalled(), "then every second")
		c.running()
		err := c.interrupt(context.Background())
		assert.Equal(t, 10, f.dev.signalled())
		code(t, 130, c.finish(130))
		require.NoError(t, <-err)

		c = f.deliver("text")
		f.dev.run()
		ctx, cancel = context.WithTimeoutCause(context.Background(), time.Millisecond, errCaller)
		defer cancel()
		require.ErrorIs(t, c.Interrupt(ctx), errCaller)
		c.finish(0)
	})
}

// A signal that is still in flight when the shell is back holds up the end: it
// must not hit the next command.
func TestInterruptInFlightAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		settle := make(chan struct{})
		f.dev.set(func() {
			f.dev.onSignal = func(context.Context, string) (int, error) { <-settle; return shellPID, nil }
		})
		err := c.interrupt(context.Background())
		f.dev.home()
		f.dev.say(f.back(1, 0))
		pass(time.Second)
		c.running()
		close(settle)
		synctest.Wait()
		c.completed()
		require.NoError(t, <-err)
		assert.Equal(t, 1, f.dev.signalled())
	})
}

// A shell that reads the terminal itself, and cannot be signalled out of that,
// has keys for it.
func TestInterruptKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command, func(f *fixture) {
			f.lang.launch.InterruptKeys = [][]byte{{3}, []byte("\r"), []byte("x")}
		})
		c := f.command()
		f.dev.set(func() { f.dev.shellWait = reading(shellPID, 1) })
		err := c.interrupt(context.Background())
		assert.Equal(t, []string{"\x03"}, f.dev.written()[1:])
		pass(49 * time.Millisecond)
		f.dev.run() // the second key ends the read
		f.dev.set(func() {
			f.dev.shellWait = reading(shellPID, 2)
			f.dev.onWrite = func(_ context.Context, p []byte) (int, error) {
				f.dev.accept(p)
				f.dev.run()
				return len(p), nil
			}
		})
		pass(60 * time.Millisecond)
		assert.Equal(t, []string{"\x03", "\r"}, f.dev.written()[1:])
		assert.Zero(t, f.dev.signalled())
		c.finish(130)
		require.NoError(t, <-err)

		c = f.command()
		f.dev.set(func() {
			f.dev.shellWait = reading(shellPID, 3)
			f.dev.onWrite = func(context.Context, []byte) (int, error) { return 0, errors.New("queue full") }
		})
		err = c.interrupt(context.Background())
		pass(100 * time.Millisecond)
		f.dev.set(func() { f.dev.onWrite = nil })
		c.finish(130)
		require.NoError(t, <-err)
	})
}

// No key is typed that would answer the shell's next question: not before it has
// taken the one before, and not while it waits for an answer of the terminal.
func TestInterruptKeysHoldBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command, func(f *fixture) {
			f.lang.launch.InterruptKeys = [][]byte{{3}, []byte("\r")}
		})
		c := f.command()
		f.dev.set(func() {
			f.dev.shellWait = reading(shellPID, 1)
			f.dev.onWrite = func(_ context.Context, p []byte) (int, error) {
				f.dev.accept(p)
				f.dev.set(func() { f.dev.pending += len(p) })
				return len(p), nil
			}
		})
		err := c.interrupt(context.Background())
		pass(3 * time.Second)
		assert.Equal(t, []string{"\x03"}, f.dev.written()[1:], "it is unread")
		f.dev.set(func() {
			f.dev.pending = 0
			f.dev.shellWait = reading(shellPID, 2)
			f.dev.shellWait.Timed = true
		})
		pass(100 * time.Millisecond)
		assert.Equal(t, []string{"\x03"}, f.dev.written()[1:], "it asks for the cursor")
		c.finish(130)
		require.NoError(t, <-err)
	})
}

// The shell gets the signal too where the dialect wants that.
func TestInterruptShell(t *testing.T) {
	for _, too := range []bool{true, false} {
		t.Run(fmt.Sprint(too), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command, func(f *fixture) { f.lang.launch.InterruptShell = too })
				c := f.command()
				err := c.interrupt(context.Background())
				want := []string{"SIGINT"}
				if too {
					want = []string{"program SIGINT", "SIGINT"}
				}
				assert.Equal(t, want, f.dev.signals)
				c.finish(130)
				require.NoError(t, <-err)
			})
		})
	}
}

// While a sink blocks, the terminal is not read. Everything else goes on.
func TestSinkBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		open := make(chan struct{})
		var got []byte
		run, err := f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "x", Sink: func(p []byte) {
			<-open
			got = append(got, p...)
		}})
		require.NoError(t, err)
		f.dev.run()
		f.dev.say(f.mark("S;1") + "out")
		f.dev.print("more")
		f.dev.print(f.back(1, 0))

		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errCaller)
		defer cancel()
		_, err = run.Wait(ctx)
		require.ErrorIs(t, err, errCaller)
		ctx, cancel = context.WithTimeoutCause(context.Background(), 900*time.Millisecond, errCaller)
		defer cancel()
		require.ErrorIs(t, run.Interrupt(ctx), errCaller)
		assert.Equal(t, 1, f.dev.signalled())
		_, err = f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "x"})
		require.ErrorIs(t, err, terminals.SendActive)
		f.busy()
		_, err = f.s.Read(0, 1)
		require.NoError(t, err)
		ctx, cancel = context.WithTimeoutCause(context.Background(), time.Second, errCaller)
		defer cancel()
		err = f.s.Close(ctx, "test")
		require.ErrorIs(t, err, errCaller)
		require.ErrorIs(t, err, terminals.CleanupFailed)

		close(open)
		require.NoError(t, f.s.Close(context.Background(), "test"))
		assert.Equal(t, "outmore", string(got))
		res, err := run.Wait(context.Background())
		require.NoError(t, err)
		assert.Equal(t, terminals.ShellEnded, res.State)
	})
}

// The shell ends in the middle of a command: its last words are output.
func TestCommandShellEnds(t *testing.T) {
	three := 3
	for _, tt := range []struct {
		name, tail, want string
	}{
		{"plain", "bye\n", "bye\n"},
		{"half a mark", "bye\x1b]7771;", "bye\x1b]7771;"},
		{"after forged marks", "<back>bye", "bye"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command)
				c := f.command()
				f.dev.print("out\n" + strings.Replace(tt.tail, "<back>", f.back(1, 0), 1))
				f.dev.exit(backend.ExitStatus{Code: &three})
				res, err := c.Wait(context.Background())
				require.NoError(t, err)
				assert.Equal(t, terminals.CommandResult{State: terminals.ShellEnded, Status: terminals.Status{Exited: true, ExitCode: &three}}, res)
				assert.Equal(t, "out\n"+tt.want, c.output())
				assert.True(t, isDone(f.s.Exited()))
				_, err = f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "x"})
				require.ErrorIs(t, err, terminals.SessionExited)
				require.NoError(t, c.Interrupt(context.Background()))
				assert.Zero(t, f.dev.signalled())
			})
		})
	}
}

// Closing ends the command. What the shell says meanwhile completes nothing.
func TestCloseDuringACommand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		interrupted := c.interrupt(context.Background())
		f.dev.set(func() {
			f.dev.onTerminate = func(context.Context) error {
				f.dev.home()
				f.dev.print("killed\n" + f.back(1, 137))
				time.Sleep(time.Second)
				return nil
			}
		})
		require.NoError(t, f.s.Close(context.Background(), "test"))
		require.NoError(t, <-interrupted)
		res, err := c.Wait(context.Background())
		require.NoError(t, err)
		assert.Equal(t, terminals.ShellEnded, res.State)
		assert.Equal(t, "SIGHUP", res.Status.Signal)
		assert.Equal(t, "killed\n", c.output())
		assert.NoDirExists(t, f.drv.spec.Remove[0])
	})
}

// A close that fails reports it, ends the command and can be repeated. Survivors
// that print on reach no sink.
func TestCloseFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		survivors := &backend.SurvivorsError{Processes: []backend.Process{{PID: 200, Program: "prog"}}}
		settle := make(chan struct{})
		f.dev.set(func() {
			f.dev.onTerminate = func(context.Context) error { return survivors }
			f.dev.onSignal = func(context.Context, string) (int, error) { <-settle; return 0, errors.New("gone") }
		})
		interrupted := c.interrupt(context.Background())
		err := f.s.Close(context.Background(), "test")
		require.ErrorIs(t, err, terminals.CleanupFailed)
		assert.ErrorContains(t, err, "200 (prog)")
		res, err := c.Wait(context.Background())
		require.NoError(t, err)
		assert.Equal(t, terminals.ShellEnded, res.State)
		f.dev.say("still here")
		close(settle)
		require.NoError(t, <-interrupted)
		assert.Empty(t, c.output())
		_, err = f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "x"})
		require.ErrorIs(t, err, terminals.SessionClosing)
		f.dev.set(func() { f.dev.onTerminate = nil })
		require.NoError(t, f.s.Close(context.Background(), "test"))
		require.NoError(t, f.s.Close(context.Background(), "test"), "once more does no harm")
		assert.Equal(t, 3, f.dev.closes)
	})
}

// Where a blocked read cannot be proved, the mark and the foreground group
// decide.
func TestCommandUnproved(t *testing.T) {
	shell, other := backend.Foreground{PGID: shellPID, Shell: true}, backend.Foreground{PGID: 200}
	unproved := func(f *fixture) { f.drv.caps.ExactRead = false }
	for _, claims := range []bool{false, true} {
		t.Run(fmt.Sprintf("driver claims a proof: %v", claims), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command, unproved, func(f *fixture) {
					f.dev.shellErr, f.dev.inputErr = backend.ErrUnsupported, backend.ErrUnsupported
					f.drv.caps.ExactRead = claims
				})
				c := f.command()
				f.dev.set(func() { f.dev.foreground = other })
				f.dev.say("a" + f.back(1, 0) + "b") // a child's
				pass(40 * time.Millisecond)
				assert.Equal(t, "a", c.output())
				pass(20 * time.Millisecond)
				assert.Equal(t, "ab", c.output())
				f.dev.set(func() { f.dev.foreground = shell })
				f.dev.say(f.back(1, 4))
				code(t, 4, c.completed())
				assert.Equal(t, "ab", c.output())

				c = f.command()
				f.dev.say("out" + f.mark("D;2;5;/"))
				pass(140 * time.Millisecond)
				c.running()
				pass(20 * time.Millisecond)
				code(t, 5, c.completed())

				c = f.command()
				f.dev.set(func() { f.dev.fgErr = errors.New("no such device") })
				f.dev.say(f.back(3, 0))
				pass(time.Second)
				c.running()
				f.dev.set(func() { f.dev.fgErr = nil })
				pass(poll)
				c.completed()

				c = f.command()
				f.dev.set(func() { f.dev.fgErr, f.dev.foreground = backend.ErrUnsupported, backend.Foreground{} })
				f.dev.say(f.back(4, 0))
				c.completed()

				c = f.command()
				defer c.watch()()
				f.dev.wait(reading(200, 1))
				pass(time.Second)
				c.running() // neither a wait nor a loss can be known
				f.dev.say(f.back(5, 0))
				c.completed()
			})
		})
	}
}

// A shell that reads its commands from a private channel.
func TestCommandByChannel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command, func(f *fixture) {
			f.lang.launch.ReadsChannel, f.lang.launch.KeepChannel = true, true
			f.lang.launch.Bootstrap = func(backend.ChannelRef) []byte { return []byte("hello") }
			f.dev.channel = &channel{deadline: make(chan struct{})}
			f.dev.shellWait.Channel = true
		})
		assert.True(t, f.drv.spec.Channel.Keep)
		c := f.command()
		assert.Equal(t, "run 1 0\n", f.dev.channel.data.String())
		assert.Empty(t, f.dev.written())
		f.dev.home() // reads the terminal, not its channel
		f.dev.say(f.back(1, 0))
		pass(poll)
		c.running()
		f.dev.set(func() { f.dev.shellWait.Channel = true })
		pass(poll)
		c.completed()

		f.dev.channel.stuck = true
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errCaller)
		defer cancel()
		_, err := f.s.StartCommand(ctx, terminals.CommandRequest{Text: "x"})
		require.ErrorIs(t, err, errCaller)
		require.NoError(t, f.s.Close(context.Background(), "test"))
		assert.True(t, f.dev.channel.closed)
	})
}

// What a program left of its terminal is put right before the next command.
func TestCommandFindsTheTerminalInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		f.dev.set(func() { f.dev.modes, f.dev.pending = backend.Modes{}, 5 })
		flushes := f.dev.flushed()
		c := f.command()
		m, _ := f.dev.Modes()
		assert.Equal(t, f.drv.spec.Modes, m)
		assert.Greater(t, f.dev.flushed(), flushes)
		c.finish(0)
	})
}

// A command that cannot be delivered did not run, and the session is free again.
func TestCommandNotDelivered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errCaller)
		start := func(ctx context.Context, text string) error {
			_, err := f.s.StartCommand(ctx, terminals.CommandRequest{Text: text})
			return err
		}
		require.ErrorIs(t, start(ctx, "x"), errCaller)
		err := start(context.Background(), "a\x00b")
		require.ErrorIs(t, err, terminals.InvalidArgument)
		assert.ErrorContains(t, err, "NUL at offset 1")
		assert.Empty(t, f.dev.written())

		f.dev.set(func() {
			f.dev.onWrite = func(ctx context.Context, _ []byte) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) }
		})
		begin, flushes := time.Now(), f.dev.flushed()
		err = start(context.Background(), "x")
		require.ErrorContains(t, err, "does not read its input")
		assert.Equal(t, 10*time.Second, time.Since(begin))
		assert.Equal(t, flushes+2, f.dev.flushed(), "before the command, and what was typed of it")
		ctx, stop := context.WithTimeoutCause(context.Background(), time.Second, errCaller)
		defer stop()
		require.ErrorIs(t, start(ctx, "x"), errCaller)
		f.dev.set(func() { f.dev.onWrite = nil })

		dir := f.drv.spec.Remove[0]
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		assert.Empty(t, files)
		require.NoError(t, os.RemoveAll(dir))
		err = start(context.Background(), "x")
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NoError(t, os.Mkdir(dir, 0o700))
		_, err = f.s.StartSend(context.Background(), terminals.SendRequest{Text: "x"})
		assert.NotErrorIs(t, err, terminals.SendActive)
	})
}

func TestCommandNeedsACommandSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		_, err := f.s.StartCommand(context.Background(), terminals.CommandRequest{Text: "x"})
		require.ErrorIs(t, err, terminals.Unsupported)
	})
}

// A program that asks its terminal is answered in the middle of a command; a
// shell that stalls without an answer gets its cursor, in however many parts its
// question comes.
//
// Case: W2
func TestCommandAnswersTheShell(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command, func(f *fixture) { f.lang.launch.AnswerQueries = true })
		c := f.command()
		f.dev.say("\x1b[6n") // a program's text: nobody reads key by key
		assert.Equal(t, []string{"run 1 0\n"}, f.dev.written())
		f.dev.set(func() { f.dev.modes.Canonical = false })
		f.dev.say("\x1b[6n\x1b]11;?\a")
		assert.Equal(t, []string{"run 1 0\n", "\x1b[1;1R"}, f.dev.written())
		f.dev.say("\x1b[6")
		f.dev.say("n")
		assert.Equal(t, []string{"run 1 0\n", "\x1b[1;1R", "\x1b[1;1R"}, f.dev.written())
		c.finish(0)
	})
}

// The shell's own question is no output wherever it comes; a program's is.
func TestShellsQuestionIsNoOutput(t *testing.T) {
	const query = "\x1b[6n"
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command, func(f *fixture) {
			f.lang.launch.AnswerQueries, f.lang.debris = true, query+"{prompt}"
		})
		c := f.command()
		f.dev.set(func() { f.dev.modes.Canonical = false })
		asks := backend.Wait{State: backend.WaitReading, PID: shellPID, Timed: true, Turns: 7}
		ask := func() {
			f.dev.set(func() { f.dev.shellWait = asks })
			f.dev.say(query)
			f.dev.set(func() { f.dev.shellWait = backend.Wait{State: backend.WaitBusy, PID: shellPID} })
		}
		f.dev.say("name: ")
		ask()
		ask()
		assert.Equal(t, []string{"run 1 0\n", "\x1b[1;1R", "\x1b[1;1R"}, f.dev.written())
		f.dev.say("bob\n")
		assert.Equal(t, "name: bob\n", c.output())
		f.dev.say(query)
		f.dev.say("of a program\n")
		assert.Equal(t, "name: bob\n"+query+"of a program\n", c.output())
		ask()
		f.dev.say("{pro")
		f.dev.say("gram}\n")
		assert.Equal(t, "name: bob\n"+query+"of a program\n{program}\n", c.output())
		ask()
		f.dev.say("{prompt}")
		c.finish(0)
		assert.Equal(t, "name: bob\n"+query+"of a program\n{program}\n", c.output())

		c = f.command()
		f.dev.set(func() { f.dev.modes.Canonical = false })
		f.dev.say("last words")
		ask()
		f.dev.exit(backend.ExitStatus{})
		synctest.Wait()
		assert.Equal(t, "last words", c.output())
	})
}

// stream is what command seq prints, with marks of all kinds in it, and what is
// output of that.
func (f *fixture) stream(seq int) (raw, want string) {
	start, done, back := f.mark(fmt.Sprintf("S;%d", seq)), f.mark(fmt.Sprintf("D;%d;0;/", seq)), f.mark(fmt.Sprintf("A;%d;0", seq))
	for _, part := range []struct{ raw, out string }{
		{"job\nrun 1 0\r\n" + start, ""},
		{"plain\r\n\x00\xff\xe2\x82", "plain\r\n\x00\xff\xe2\x82"},
		{start, ""}, // once more, it starts nothing
		{done[:len(done)-1] + "\x01", done[:len(done)-1] + "\x01"}, // not a mark
		{f.lang.prefix() + strings.Repeat("9", 101) + "\a", f.lang.prefix() + strings.Repeat("9", 101) + "\a"},
		{"\x1b]7771;\x1b]7771;00;D;1;0\a", "\x1b]7771;\x1b]7771;00;D;1;0\a"},
		{done + "after a forged done{ho", "after a forged done{ho"},
		{back + "ok}\n", "ok}\n"},
		{done + back + "after a forged end\n", "after a forged end\n"},
		{"{hook}\n", ""},
		{done + "[hook]\n" + back, ""},
	} {
		raw += part.raw
		want += part.out
	}
	return raw, want
}

// The output is the same however it is split across reads.
func TestCommandOutputIsExact(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command, func(f *fixture) { f.lang.debris = "{hook}\n" })
		run := func(split func(raw string) []string) {
			c := f.deliver("text")
			f.dev.run()
			raw, want := f.stream(c.seq)
			pieces := split(raw)
			for _, p := range pieces[:len(pieces)-1] {
				f.dev.say(p)
			}
			f.dev.home()
			f.dev.say(pieces[len(pieces)-1])
			res := c.completed()
			code(t, 0, res)
			assert.Equal(t, "job\n", string(res.Before))
			if got := c.output(); got != want {
				t.Errorf("split into %q:\n got %q\nwant %q", pieces, got, want)
			}
		}
		run(func(raw string) []string { return strings.Split(raw, "") })
		for i, n := 1, 2; i < n; i++ {
			run(func(raw string) []string {
				n = len(raw)
				return []string{raw[:i], raw[i:]}
			})
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		for range 100 {
			run(func(raw string) (pieces []string) {
				for len(raw) > 0 {
					n := 1 + r.IntN(min(len(raw), 40))
					pieces = append(pieces, raw[:n])
					raw = raw[n:]
				}
				return pieces
			})
		}
	})
}

// A program that outlived its command's interrupt and reads the terminal is
// ended, by stronger signals from step to step, and nobody else is.
func TestInterruptEndsStrays(t *testing.T) {
	for _, tt := range []struct {
		name    string
		deaf    int // to how many signals
		signals []string
	}{
		{"nobody reads", 0, nil},
		{"a program", 0, []string{"SIGHUP"}},
		{"one that ignores a signal", 1, []string{"SIGHUP", "SIGTERM"}},
		{"one that ignores both", 2, []string{"SIGHUP", "SIGTERM", "SIGKILL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Command)
				c := f.command()
				err := c.interrupt(context.Background())
				var signals []string
				f.dev.set(func() {
					f.dev.onInputWait = func() {
						if tt.signals != nil && len(signals) <= tt.deaf {
							f.dev.wait(reading(815, 1))
						}
					}
					f.dev.onSignal = func(_ context.Context, name string) (int, error) {
						if name, ok := strings.CutPrefix(name, "to the program: "); ok {
							signals = append(signals, name)
						}
						f.dev.wait(atPrompt)
						return shellPID, nil
					}
				})
				c.finish(130)
				require.NoError(t, <-err)
				assert.Equal(t, tt.signals, signals)
			})
		})
	}
}

// Whoever has interrupted a program can tell whether it waits on.
func TestWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		assert.False(t, c.Waits(), "it runs")
		f.dev.wait(reading(815, 1))
		assert.True(t, c.Waits())
		f.dev.set(func() { f.dev.pending = 1 })
		assert.False(t, c.Waits(), "it is about to read")
		f.dev.set(func() { f.dev.pending = 0 })
		f.dev.wait(backend.Wait{State: backend.WaitReading, PID: 815, Timed: true})
		assert.False(t, c.Waits(), "it gives up by itself")
		c.finish(0)
		assert.False(t, c.Waits(), "the shell's own prompt")
	})
}
