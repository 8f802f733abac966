//go:build linux

package toolpwsh_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// A shell's end is told with its code or signal, the next command gets a fresh
// shell, and nothing is left in the folder for temporary files.
//
// Case: W5 S6
func TestShellEnds(t *testing.T) {
	t.Parallel()
	exits := func(text, output string, code int) func(*host) {
		return func(h *host) {
			a := h.run(text)
			assert.Equal(h.t, persistent.ShellExited, a.Reason, "%+v", a.Result)
			assert.Equal(h.t, output, a.exact)
			assert.Equal(h.t, &code, a.ExitCode)
			assert.Contains(h.t, a.Text, fmt.Sprintf("[shell exited: code %d]\n[the next command starts a fresh shell in %s]", code, h.dir))
		}
	}
	dies := func(text, signal string) func(*host) {
		return func(h *host) {
			a := h.run(text)
			assert.Equal(h.t, persistent.ShellExited, a.Reason, "%+v", a.Result)
			assert.Equal(h.t, &signal, a.Signal)
			assert.Contains(h.t, a.Text, "[shell killed by signal: "+signal+"]\n[the next command starts a fresh shell in "+h.dir+"]")
		}
	}
	eachShell(t, func(t *testing.T, path string) {
		for _, tt := range []struct {
			name string
			d    pwsh.Dialect
			end  func(h *host)
		}{
			{"exit_in_a_block", pwsh.Dialect{}, exits("'a'; & { exit 5 }; 'b'", "a\n", 5)},
			{"exit_in_a_function", pwsh.Dialect{}, exits("function f { exit 6 }; f", "", 6)},
			{"exit_without_a_code", pwsh.Dialect{}, exits("exit", "", 0)},
			{"exit_of_the_process", pwsh.Dialect{}, exits("[Environment]::Exit(300)", "", 44)},
			{"exit_by_an_expression", pwsh.Dialect{}, exits("Invoke-Expression 'exit 4'", "", 4)},
			{"terminated", pwsh.Dialect{}, dies("/bin/kill -TERM $PID; Start-Sleep 60", "SIGTERM")},
			{"killed", pwsh.Dialect{Typed: true}, dies("/bin/kill -KILL $PID; Start-Sleep 60", "SIGKILL")},
			{"killed_while_busy", pwsh.Dialect{}, func(h *host) {
				h.during("$x = 42; \"x$x\"; while ($true) { }", "x42", func() { _ = syscall.Kill(h.session().PID(), syscall.SIGKILL) })
			}},
			{"closed", pwsh.Dialect{}, func(h *host) {
				_, err := h.service.Close(context.Background(), h.owner, h.service.List(h.owner)[0].SessionID, "test")
				require.NoError(h.t, err)
			}},
			{"exit_and_a_fresh_shell", pwsh.Dialect{Typed: true}, func(h *host) {
				exits("exit 9", "", 9)(h)
				h.expect("\"fresh $kept $PWD\"", "fresh  "+h.dir+"\n", 0)
				exits("exit 5", "", 5)(h)
			}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				temp := t.TempDir()
				h := newHostOf(t, tt.d, path, func(e *engine.Config, _ *persistent.Config) { e.Env = []string{"TMPDIR=" + temp} })
				h.expect("$kept = 1; Set-Location /", "", 0)
				tt.end(h)
				require.Eventually(t, func() bool { return len(h.service.List(h.owner)) == 0 }, 10*time.Second, 5*time.Millisecond)
				entries, err := os.ReadDir(temp)
				require.NoError(t, err)
				assert.Empty(t, entries)
			})
		}
	})
}

// Close is quick, busy or idle, and leaves no process.
func TestNothingSurvivesTheOwner(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := newHostOf(t, d, path)
		mark := fmt.Sprintf("88%d", time.Now().UnixNano()%1e9)
		h.run(strings.ReplaceAll("Start-Process /bin/sleep -ArgumentList @1; /bin/sh -c 'setsid sleep @2 & (sleep @3 &) & nohup sleep @4 >/dev/null 2>&1 &'; $null = Start-ThreadJob { /bin/sleep @5 }", "@", mark))
		require.Eventually(t, func() bool { return len(having("sleep\x00"+mark)) >= 5 }, 30*time.Second, 10*time.Millisecond)
		require.NoError(t, h.service.DisposeOwner(context.Background(), h.owner))
		assert.Empty(t, having("sleep\x00"+mark))
	})
}

// Case: F34 (anthropics/claude-code#60664)
func TestOddEnvironment(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		without := func(names ...string) (env []string) {
			for _, v := range os.Environ() {
				name, _, _ := strings.Cut(v, "=")
				keep := true
				for _, n := range names {
					keep = keep && name != n
				}
				if keep {
					env = append(env, v)
				}
			}
			return env
		}
		for _, tt := range []struct {
			name string
			env  []string
		}{
			{"nothing", []string{"A=1"}}, // no HOME, no PATH
			{"nothing_but_path", []string{"PATH=" + os.Getenv("PATH")}},
			// A home that is not there, an odd locale, and the terminal of the host.
			{"odd_values", append(without("HOME", "LANG", "LC_ALL", "TERM"),
				"HOME="+filepath.Join(t.TempDir(), "missing"), "LC_ALL=ja_JP.SJIS", "LANG=tr_TR.ISO-8859-9", "TERM=dumb", "COLUMNS=20", "LINES=3")},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.Ambient = tt.env })
				h.expect("'é漢'; /bin/echo é漢", "é漢\né漢\n", 0)
				h.expect("/bin/sh -c 'exit 3'", "", 3)
				h.expect("$env:TERM; [Console]::WindowWidth", "xterm-256color\n4096\n", 0)
			})
		}
	})
}

// The terminal type that is configured is the children's and the shell's own,
// which then announces the keypad's mode after each program.
func TestConfiguredTerminalType(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.Env = []string{"TERM=vt100"} })
		assert.Equal(t, "vt100\n", h.run("/bin/sh -c 'echo $TERM'").Text)
	})
}

// Configured arguments come before the command that loads our part, and the
// shell need not have a writable folder for temporary files of its own.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) {
			e.ShellArgs, e.Init, e.Env = []string{"-WorkingDirectory", "/"}, "$init = 'done'", []string{"TMPDIR=/proc"}
		})
		h.expect(`"$PWD $init"; /bin/sh -c 'exit 3'`, "/ done\n", 3)
	})
}

// A shell that cannot start says why, and the next call tries again.
func TestShellThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) string {
		file := filepath.Join(dir, "pwsh")
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
		return file
	}
	for _, tt := range []struct{ name, path, says string }{
		{"missing", "/nonexistent/pwsh", "/nonexistent/pwsh"},
		{"no_runtime", script("echo 'You must install .NET to run this application.' >&2; exit 131"), "You must install .NET"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t, tt.path)
			for range 2 {
				a := h.run("1")
				require.Equal(t, persistent.Failed, a.Reason, "%+v", a.Result)
				assert.Contains(t, a.Error.Message, tt.says)
				assert.Empty(t, a.exact)
			}
			assert.Empty(t, h.service.List(h.owner))
		})
	}
	t.Run("never_ready", func(t *testing.T) {
		h := newHost(t, script("echo starting; exec /bin/sleep 60"), func(e *engine.Config, _ *persistent.Config) { e.Timeout = time.Second })
		a := h.run("1")
		require.Equal(t, persistent.Failed, a.Reason)
		assert.Contains(t, a.Error.Message, "timeoutMs")
		assert.Contains(t, a.Error.Message, "starting")
	})
	t.Run("temp_folder_that_is_a_file", func(t *testing.T) {
		h := newHost(t, shells(t)[0])
		t.Setenv("TMPDIR", script("true"))
		a := h.run("1")
		require.Equal(t, persistent.Failed, a.Reason)
		assert.Contains(t, a.Error.Message, "TMPDIR")
	})
}

// The caller's end while the shell starts is the caller's own cause.
func TestCancelDuringTheStart(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		a := h.runCtx(ctx, "'never'")
		assert.Equal(t, persistent.Cancelled, a.Reason, "%+v", a.Result)
		assert.ErrorIs(t, a.Err(), context.DeadlineExceeded)
		assert.Empty(t, a.exact)
		h.expect("'next'", "next\n", 0)
	})
}

// A shell that ended between two commands is replaced, and that is said.
func TestShellKilledBetweenCommands(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("1", "1\n", 0)
		s := h.session()
		require.NoError(t, syscall.Kill(s.PID(), syscall.SIGKILL))
		<-s.Exited()
		a := h.run("'next'")
		assert.Equal(t, "next\n", a.exact)
		assert.Contains(t, a.Text, "[the shell had exited since the last command (signal SIGKILL); this command runs in a fresh shell in "+h.dir+"]")
	})
}

func TestPrestartedShell(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		require.NoError(t, h.runner.Prestart(context.Background(), h.owner))
		started := h.session().PID()
		h.expect("\"$PID $? $LASTEXITCODE $($Error.Count)\"", fmt.Sprintf("%d True  0\n", started), 0)
	})
}

// Signals by name reach the shell and what runs in it.
//
// Case: S31
func TestSignals(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("$kept = 'yes'", "", 0)
		for _, text := range []string{"$x = 42; \"x$x\"; Start-Sleep 60; 'END'", "/bin/sh -c 'echo x$((40+2)); exec sleep 60'"} {
			a := h.during(text, "x42", func() {
				_, err := h.session().Signal(context.Background(), terminals.SIGTSTP) // no effect: there is no job control
				require.NoError(t, err)
				_, err = h.session().Signal(context.Background(), terminals.SIGINT)
				require.NoError(t, err)
			})
			assert.Equal(t, persistent.Completed, a.Reason, "%q: %+v", text, a.Result)
			assert.NotContains(t, a.exact, "END")
			assert.NotZero(t, *a.ExitCode)
		}
		h.expect("$kept", "yes\n", 0)
	})
}
