package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// noRemains requires that a start that failed left nothing.
func (f *fixture) noRemains() {
	f.t.Helper()
	left, err := os.ReadDir(os.TempDir())
	require.NoError(f.t, err)
	assert.Empty(f.t, left)
}

func TestOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive, func(f *fixture) {
			f.cfg.Ambient = []string{"PATH=/bin", "API_TOKEN=x", "GONE=1"}
			f.cfg.Env = []string{"MINE=1"}
			f.lang.launch.Env, f.lang.launch.Unset = []string{"TERM=fake"}, []string{"GONE"}
			f.lang.launch.MinCols = 200
		})
		assert.Equal(t, shellPID, f.s.PID())
		assert.Equal(t, terminals.Status{}, f.s.Status())
		assert.Equal(t, prompt, f.s.Startup())
		assert.False(t, isDone(f.s.Exited()))
		spec := f.drv.spec
		assert.Equal(t, shellPath, spec.Path)
		assert.Equal(t, []int{40, 200}, []int{spec.Rows, spec.Cols})
		assert.ElementsMatch(t, []string{"PATH=/bin", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "TERM=fake", "MINE=1"}, spec.Env)
		assert.Nil(t, spec.Channel)
		require.Len(t, spec.Remove, 1)
		assert.DirExists(t, spec.Remove[0])
		require.NoError(t, f.s.Close(context.Background(), "test"))
		f.noRemains()
	})
}

// The mark alone is no prompt, at the start neither.
//
// Case: reference 3.3 #19
func TestOpenWaitsForThePrompt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		opened := make(chan error, 1)
		go func() { opened <- f.open(context.Background(), terminals.Interactive) }()
		synctest.Wait()
		f.dev.say("hello\r\n" + f.mark("D;0;0") + f.mark("A;0;0"))
		pass(20 * time.Millisecond)
		require.Empty(t, opened, "no prompt yet")
		f.dev.run()
		f.dev.say(prompt)
		pass(20 * time.Millisecond)
		require.Empty(t, opened, "the shell does not read yet")
		f.dev.home()
		f.dev.set(func() { f.dev.foreground = backend.Foreground{PGID: 200} })
		pass(20 * time.Millisecond)
		require.Empty(t, opened, "the shell has not got the terminal yet")
		f.dev.set(func() { f.dev.foreground = backend.Foreground{PGID: shellPID, Shell: true} })
		pass(poll)
		require.NoError(t, <-opened)
		assert.Equal(t, "hello\n$ ", f.s.Startup())
	})
}

// A start without output, or without a prompt, never is ready. It fails with
// what was printed, and is rolled back.
//
// Case: reference 3.3 #25
func TestOpenTimesOut(t *testing.T) {
	for _, tt := range []struct{ printed, says string }{{"", "nothing"}, {"what a shell\r\n", "what a shell"}} {
		t.Run(tt.says, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.dev.print(tt.printed)
				start := time.Now()
				err := f.open(context.Background(), terminals.Interactive)
				require.ErrorContains(t, err, "no prompt within 100 ms (timeoutMs); it printed: "+tt.says)
				assert.Equal(t, timeout, time.Since(start))
				assert.Equal(t, 1, f.dev.closes)
				f.noRemains()
			})
		})
	}
}

func TestOpenShellExits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		two := 2
		f.dev.print("fsh: bad option\r\n")
		f.dev.exit(backend.ExitStatus{Code: &two})
		err := f.open(context.Background(), terminals.Interactive)
		require.ErrorContains(t, err, "exited during its start-up (code 2); it printed: fsh: bad option")
		assert.Equal(t, 1, f.dev.closes)
		f.noRemains()
	})
}

// The caller's own cause wins, whatever else happens: while nothing of the shell
// can be seen yet, while the driver starts it, when it exits at the same moment.
func TestOpenCancelled(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fixture, context.CancelCauseFunc)
	}{
		{"before", func(_ *fixture, cancel context.CancelCauseFunc) { cancel(errCaller) }},
		{"in the driver", func(f *fixture, cancel context.CancelCauseFunc) {
			f.drv.start = func(ctx context.Context) error {
				cancel(errCaller)
				<-ctx.Done()
				return errors.New("interrupted")
			}
		}},
		{"before the prompt", func(f *fixture, cancel context.CancelCauseFunc) {
			f.dev.fgErr = errors.New("no such device")
			time.AfterFunc(timeout/2, func() { cancel(errCaller) })
		}},
		{"with an exit", func(f *fixture, cancel context.CancelCauseFunc) {
			time.AfterFunc(timeout/2, func() { cancel(errCaller); f.dev.exit(backend.ExitStatus{}) })
		}},
		{"with the prompt", func(f *fixture, cancel context.CancelCauseFunc) {
			time.AfterFunc(timeout/2, func() { cancel(errCaller); f.dev.print(f.prompt(0)) })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				f := newFixture(t)
				tt.change(f, cancel)
				require.ErrorIs(t, f.open(ctx, terminals.Interactive), errCaller)
				f.noRemains()
			})
		})
	}
}

// A roll-back that fails is reported with what it was for.
func TestOpenRollBackFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		survivors := &backend.SurvivorsError{Processes: []backend.Process{{PID: 200, Program: "prog"}}}
		f.dev.onTerminate = func(ctx context.Context) error {
			assert.NoError(t, ctx.Err(), "it is not the caller's to cancel")
			f.dev.exit(backend.ExitStatus{})
			return survivors
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, errCaller)
		defer cancel()
		err := f.open(ctx, terminals.Interactive)
		require.ErrorIs(t, err, terminals.CleanupFailed)
		require.ErrorIs(t, err, errCaller)
		require.ErrorIs(t, err, survivors)
	})
}

func TestOpenRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	broken := errors.New("no terminal left")
	for _, tt := range []struct {
		name   string
		change func(*fixture)
		cwd    string
		is     error
		says   string
	}{
		{"dialect", func(f *fixture) { f.cfg.ShellArgs = []string{"refused"} }, "", nil, "fake: refused"},
		{"no such shell", func(f *fixture) { f.cfg.ShellPath = "" }, "", terminals.InvalidArgument, `no fsh or fsh-next found in PATH: build it, or set shellPath of the backend "fake"`},
		{"no such name", func(f *fixture) { f.cfg.ShellPath = "gsh" }, "", terminals.InvalidArgument, `no gsh found in PATH: install it, or set shellPath of the backend "fake"`},
		{"no such folder", func(*fixture) {}, filepath.Join(file, "x"), terminals.InvalidArgument, "give an existing folder"},
		{"a file as folder", func(*fixture) {}, file, terminals.InvalidArgument, "is not a folder"},
		{"driver", func(f *fixture) { f.drv.start = func(context.Context) error { return broken } }, "", broken, "no terminal left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				tt.change(f)
				b, err := engine.New(f.cfg, f.drv, f.lang)
				require.NoError(t, err)
				_, err = b.Open(context.Background(), terminals.Setup{ID: "pty-1", Cwd: tt.cwd})
				require.ErrorContains(t, err, tt.says)
				if tt.is != nil {
					require.ErrorIs(t, err, tt.is)
				}
				f.noRemains()
			})
		})
	}
	t.Run("no folder for temporary files", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFixture(t)
			tempDir(t, file)
			require.ErrorContains(t, f.open(context.Background(), terminals.Command), "set TMPDIR")
		})
	})
}

// A shell is looked up in the host's own PATH, by the dialect's names in their
// order.
func TestOpenFindsTheShell(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		t.Setenv("PATH", dir)
		for _, name := range []string{"fsh-next", "fsh"} { // the better one comes later
			if runtime.GOOS == "windows" {
				name += ".exe"
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700))
			f := ready(t, terminals.Command, func(f *fixture) { f.cfg.ShellPath = "" })
			assert.Equal(t, filepath.Join(dir, name), f.drv.spec.Path)
		}
	})
}

// init runs init in a command session and returns what Open returned.
func (f *fixture) init(after func()) error {
	f.cfg.Init = "load"
	f.drv.start = func(context.Context) error {
		f.dev.print(f.prompt(0))
		return nil
	}
	f.dev.onWrite = func(_ context.Context, p []byte) (int, error) {
		f.dev.accept(p)
		f.dev.run()
		after()
		return len(p), nil
	}
	return f.open(context.Background(), terminals.Command)
}

func TestInit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		require.NoError(t, f.init(func() {
			f.dev.home()
			f.dev.print("job\n" + f.mark("S;1") + "loaded\n" + f.back(1, 0) + "later\n")
		}))
		synctest.Wait()
		assert.Contains(t, f.s.Startup(), "loaded\n")
		f.unsolicited("")
		f.seq++
		f.dev.set(func() { f.dev.onWrite = nil })
		f.command().finish(0)
	})
}

func TestInitFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(*fixture)
		says  string
	}{
		{"never ends", func(f *fixture) { f.dev.print(f.mark("S;1") + "hm") }, "init did not end within 1000 ms (timeoutMs); it printed: hm"},
		{"ends the shell", func(f *fixture) { f.dev.exit(backend.ExitStatus{Signal: "SIGKILL"}) }, "init ended the shell (killed by SIGKILL)"},
		{"waits", func(f *fixture) { f.dev.wait(reading(200, 1)) }, "init waits for input (prog)"},
		{"is lost", func(f *fixture) { f.dev.home() }, "init left the shell unusable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.cfg.Timeout = time.Second
				require.ErrorContains(t, f.init(func() { tt.after(f) }), tt.says)
				f.noRemains()
			})
		})
	}
	t.Run("cannot be delivered", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFixture(t)
			f.drv.start = func(context.Context) error { f.dev.print(f.prompt(0)); return nil }
			f.cfg.Init = "\x00"
			err := f.open(context.Background(), terminals.Command)
			require.ErrorIs(t, err, terminals.InvalidArgument)
			f.noRemains()
		})
	})
}

// The terminal fails before the program ends: what came counts, and the end is
// the program's.
func TestTerminalReadFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Command)
		c := f.command()
		f.dev.set(func() { f.dev.readErr = errors.New("input/output error") })
		f.dev.say("last words")
		pass(time.Second)
		c.running()
		f.dev.exit(backend.ExitStatus{})
		res, err := c.Wait(context.Background())
		require.NoError(t, err)
		assert.Equal(t, terminals.ShellEnded, res.State)
		assert.Equal(t, "last words", c.output())
	})
}

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		change func(*engine.Config)
		says   string
	}{
		{func(c *engine.Config) { c.Rows = -1 }, "rows must be between 1 and 32767, not -1"},
		{func(c *engine.Config) { c.Cols = 32768 }, "cols must be between 1 and 32767, not 32768"},
		{func(c *engine.Config) { c.ScrollbackLines = -5 }, "scrollbackLines"},
		{func(c *engine.Config) { c.Timeout = -time.Second }, "timeoutMs must be positive, not -1000"},
		{func(c *engine.Config) { c.MaxReadBytes, c.ScrollbackMaxBytes = 11, 10 }, "maxReadBytes (11) must not be larger than scrollbackMaxBytes (10)"},
		{func(c *engine.Config) { c.HandoffGrace = time.Millisecond }, "handoffGraceMs (1) must not be smaller than pollIntervalMs (50)"},
	} {
		var c engine.Config
		tt.change(&c)
		_, err := engine.New(c, &driver{}, &language{})
		require.ErrorIs(t, err, terminals.InvalidArgument)
		assert.ErrorContains(t, err, tt.says)
	}
	_, err := engine.New(engine.Config{}, nil, nil)
	require.ErrorIs(t, err, terminals.InvalidArgument)
	_, err = engine.New(engine.Config{}, &driver{}, &language{})
	require.NoError(t, err)
}
