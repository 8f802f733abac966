//go:build unix

package toolbash_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// step is one call and what it must come to.
type step struct {
	text   string
	output string
	code   int
}

func TestExactOutputAndStatus(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, tt := range []struct {
			name  string
			steps []step
		}{
			// Case: T1
			{"no_final_newline", []step{{"printf abc", "abc", 0}}},
			// Case: T2
			{"line_feeds_stay", []step{{`printf 'a\nb\n'`, "a\nb\n", 0}}},
			// Case: T4
			{"several_lines_are_one_call", []step{{"echo a\nsleep 0.3\necho b", "a\nb\n", 0}}},
			// Case: T5
			{"status_is_visible_to_the_next_call", []step{{"false", "", 1}, {"echo $?", "1\n", 0}}},
			// Case: T6
			{"status_mapping", []step{{"(exit 300)", "", 44}, {"(exit -1)", "", 255}}},
			// Case: T10
			{"return_ends_the_program", []step{{"return 5\necho no", "", 5}}},
			// Case: T16
			{"set_u", []step{{"set -u", "", 0}, {"true", "", 0}}},
			// Case: T18 F27 (agentic-os-org/ANOLISA#2683)
			{"set_x_shows_one_more_plus", []step{{"set -x; echo a", "++ echo a\na\n", 0}, {"echo b", "++ echo b\nb\n", 0}, {"set +x", "++ set +x\n", 0}, {"echo c", "c\n", 0}}},
			// Case: T45
			{"set_x_persists", []step{{"set -x", "", 0}, {"echo b", "++ echo b\nb\n", 0}}},
			// Case: T19
			{"exec_redirection", []step{{"exec >/dev/null", "", 0}, {"echo hi", "", 0}, {"exec >/dev/tty; echo back", "back\n", 0}}},
			// Case: T23
			{"set_u_without_home", []step{{"cd /; unset HOME; set -u", "", 0}, {"true", "", 0}}},
			// Case: T24 F02 (nickgnd/tmux-mcp#28)
			{"foreign_marker_ends_nothing", []step{{`printf '\033]133;D;0\007'; sleep 0.3; false`, "\x1b]133;D;0\a", 1}}},
			// Case: T31 F42 (herdrdev/herdr#2862)
			{"long_line", []step{{": " + strings.Repeat("x", 6000) + "; echo tail", "tail\n", 0}}},
			// Case: F07 (SWE-agent/SWE-ReX#54)
			{"array_then_false", []step{{"A=(); false", "", 1}}},
			// Case: F28 (starship/starship#330)
			{"prompt_override", []step{{"PS1='$ '; (exit 9)", "", 9}, {"(exit 8)", "", 8}}},
			// Case: F41 (anthropics/claude-code#32864)
			{"exclamation_mark", []step{{`[ ! -e /proc/nonexistent ] && echo "ok!" '!!'`, "ok! !!\n", 0}}},
			// Case: F73
			{"leading_plus_and_greater", []step{{`printf '+ kept\n> quoted\n'`, "+ kept\n> quoted\n", 0}}},
			// Case: F102 (anthropics/claude-code#16361)
			{"state_persists", []step{{"cd /; export A=1; f() { echo f$1; }", "", 0}, {"echo $PWD $A; f 2", "/ 1\nf2\n", 0}}},
			{"pipestatus", []step{{"false | true | (exit 3); echo ${PIPESTATUS[@]}", "1 0 3\n", 0}}},
			{"crlf_output", []step{{`printf 'x\r\ny\r\n'`, "x\r\ny\r\n", 0}}},
			{"comment_only", []step{{"# nothing", "", 0}}},
			{"line_numbers", []step{{"echo $LINENO\necho $LINENO", "1\n2\n", 0}}},
			{"shebang", []step{{"#!/bin/sh\necho $LINENO", "2\n", 0}}},
			{"alias", []step{{"alias hey='echo hey'", "", 0}, {"hey", "hey\n", 0}}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				for _, s := range tt.steps {
					h.expect(s.text, s.output, s.code)
				}
			})
		}
	})
}

// Case: T3
func TestBinaryOutputIsExact(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		data := make([]byte, 300000)
		rand.Read(data)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "f"), data, 0o600))
		a := h.run("cat f")
		want, got := sha256.Sum256(data), sha256.Sum256([]byte(a.exact))
		assert.Equal(t, hex.EncodeToString(want[:]), hex.EncodeToString(got[:]))
		assert.True(t, a.Clipped)
		spilled, err := os.ReadFile(a.OutputFile)
		require.NoError(t, err)
		assert.Equal(t, data, spilled)
	})
}

func TestSignalStatus(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		// Case: T6
		for sig, want := range map[string]int{"SEGV": 139, "TERM": 143, "KILL": 137} {
			a := h.run("bash -c 'kill -" + sig + " $$'")
			assert.Equal(t, code(want), a.ExitCode, sig)
		}
		h.expect("/proc/nonexistent/program 2>/dev/null", "", 127)
		h.expect("/etc/passwd 2>/dev/null", "", 126)
	})
}

// Case: T7 T8 F29 (nickgnd/tmux-mcp PR#5)
func TestIncompleteTextIsAnErrorAtOnce(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run(`echo "abc`)
		assert.Contains(t, a.exact, "line 1: unexpected EOF")
		assert.Equal(t, code(2), a.ExitCode)
		a = h.run("if then")
		assert.Contains(t, a.exact, "line 1: syntax error")
		assert.Equal(t, code(2), a.ExitCode)
		assert.NotContains(t, a.exact, "__shs")
		a = h.run("cat <<X\nabc")
		assert.True(t, strings.HasSuffix(a.exact, "abc\n"), a.exact)
		assert.Equal(t, code(0), a.ExitCode)
	})
}

// Case: T11 T12 T13 T14 F04 (OpenHands/OpenHands#6245)
func TestInterruptEndsTheWholeProgram(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, tt := range []struct{ name, text, output string }{
			{"sleep", "echo $((40+2)); sleep 60; echo END", "42\n"},
			{"lines", "echo $((40+2))\nsleep 60\necho END", "42\n"},
			{"builtin_loop", "echo $((40+2)); while :; do :; done\necho END", "42\n"},
			{"pipeline", "echo $((40+2)); sleep 60 | cat; echo END", "42\n"},
			{"subshell", "echo $((40+2)); (sleep 60; echo no); echo END", "42\n"},
			{"old_command", "for i in 1 2 3 4 5 6; do sleep 0.06; done; echo $((40+2)); sleep 60; echo END", "42\n"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				h.expect("kept=yes", "", 0)
				ctx, cancel := context.WithCancelCause(context.Background())
				cause := errors.New("stop it")
				var a answer
				done := make(chan struct{})
				started := make(chan struct{}, 1)
				go func() {
					defer close(done)
					var out strings.Builder
					r := h.runner.Run(ctx, h.owner, persistent.Command{Text: tt.text, Stream: func(p []byte) {
						out.Write(p)
						if strings.Contains(out.String(), "42") {
							select {
							case started <- struct{}{}:
							default:
							}
						}
					}})
					a = answer{r, out.String()}
				}()
				<-started
				cancel(cause)
				<-done
				assert.Equal(t, tt.output, a.exact)
				assert.Equal(t, persistent.Cancelled, a.Reason)
				h.expect("echo $kept $?", "yes 130\n", 0)
			})
		}
	})
}

// Case: T15
func TestStoppedJob(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.during("echo $((40+2)); sleep 60; echo rest $?", "42", func() {
			// First the shell has to give the terminal to the job, then it takes
			// it back.
			job := false
			require.Eventually(t, func() bool {
				pgid, err := h.session().Signal(context.Background(), terminals.SIGTSTP)
				if err == nil && pgid != h.session().PID() {
					job = true
				}
				return job && err == nil && pgid == h.session().PID()
			}, 10*time.Second, 20*time.Millisecond)
		})
		assert.Contains(t, a.exact, "Stopped")
		assert.Contains(t, a.exact, "rest 148")
		h.expect("kill %1; wait 2>/dev/null; jobs >/dev/null; true", "", 0)
	})
}

// Case: T16 T17 F01 (OpenHands/OpenHands#10550)
func TestSetEEndsTheShell(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run("set -e; false; echo reached")
		assert.Equal(t, persistent.ShellExited, a.Reason)
		assert.Empty(t, a.exact)
		assert.Equal(t, code(1), a.ExitCode)
		assert.Contains(t, a.Text, "[shell exited: code 1]")
		assert.Contains(t, a.Text, "[the next command starts a fresh shell in "+h.dir+"]")
		h.expect("echo ok $-", "ok himBs\n", 0)
		h.expect("set -euo pipefail; true", "", 0)
		assert.Equal(t, persistent.ShellExited, h.run("false").Reason)
	})
}

// Case: T20
func TestStderrRedirectedForGood(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("exec 2>e", "", 0)
		h.expect("ls /proc/nonexistent", "", 2)
		h.expect("exec 2>/dev/tty; grep -c nonexistent e", "1\n", 0)
	})
}

// Case: T26
func TestBackgroundJobReturnsAtOnce(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("sleep 0.3 &", "", 0)
		// Bash itself tells when the job is done; that is its output, not ours.
		a := h.run("sleep 1")
		assert.Regexp(t, regexp.MustCompile(`^\[1\]\+  Done +sleep 0\.3\n$`), a.exact)
	})
}

// Case: T27 F72 (block/goose PR#7689)
func TestLateOutputIsUnsolicited(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run("(until [ -e go ]; do sleep 0.02; done; echo late; touch gone) & echo hi")
		assert.Equal(t, "hi\n", a.exact)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(h.dir, "gone"))
			return err == nil
		}, 10*time.Second, 5*time.Millisecond)
		a = h.run("echo now")
		if a.Unsolicited == "" { // it was still on its way
			a = h.run("echo now")
		}
		assert.Equal(t, "late\n", a.Unsolicited)
		assert.Equal(t, "[output since the last command]\nlate\n[output of this command]\nnow\n", a.Text)
	})
}

// Case: T28 F72 (block/goose#2822)
func TestBackgroundJobThatHoldsDescriptors(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("sleep 100 >/dev/null &", "", 0)
		h.expect("sleep 101 & echo hi", "hi\n", 0)
	})
}

// Case: T29 T30
func TestWaitingForInput(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run("read -p 'name? ' x\necho got $x")
		require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
		assert.Equal(t, "name? ", a.exact)
		require.NotNil(t, a.NeedsInput)
		assert.Equal(t, terminals.LineInput, a.NeedsInput.Kind)
		assert.Equal(t, "name? ", a.NeedsInput.Prompt)
		a = h.run("echo next")
		assert.Equal(t, "next\n", a.exact)
		assert.True(t, strings.HasPrefix(a.Text, "[interrupted "), a.Text)
		// What reads a pipe does not wait for the terminal.
		h.expect("echo hi | (read x; sleep 1; echo $x) | cat", "hi\n", 0)
		// A read with a limit of its own ends by itself. Before 5.2 bash limits
		// it by an alarm, which cannot be seen.
		if a = h.run("echo $((BASH_VERSINFO[0]*100 + BASH_VERSINFO[1]))"); strings.TrimSpace(a.exact) >= "502" {
			h.expect("read -t 0.6 x; echo $(($? > 128))", "1\n", 0)
		}
	})
}

func TestWaitingForASecret(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run("read -s -p 'Password: ' x")
		require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
		assert.Equal(t, terminals.SecretInput, a.NeedsInput.Kind)
		a = h.run("read -n1 x")
		require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
		assert.Equal(t, terminals.KeyInput, a.NeedsInput.Kind)
	})
}

// Case: T32 T33
func TestTextArrivesByteForByte(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		body := "a\tb !! $(x) `y` \\ é漢🙂 \x1b[31m\x03\x04\x15\x12\x7f\"' end"
		h.expect("cat >f <<'EOF'\n"+body+"\nEOF", "", 0)
		got, err := os.ReadFile(filepath.Join(h.dir, "f"))
		require.NoError(t, err)
		assert.Equal(t, body+"\n", string(got))
		h.expect("cat <<'EOF' | od -An -tx1 | tr -d ' \n'\na\r\nEOF", "610d0a", 0)
		// A byte order mark is not part of a program.
		h.expect("\ufeffecho bom", "bom\n", 0)
	})
}

// Case: F42 (superset-sh/superset#5092)
func TestEveryByteButNUL(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		var all []byte
		for b := 1; b < 256; b++ {
			all = append(all, byte(b))
		}
		big := strings.Repeat(string(all)+"\n", 4096)
		h.expect("cat >f <<'END_OF_TEXT'\n"+big+"END_OF_TEXT", "", 0)
		got, err := os.ReadFile(filepath.Join(h.dir, "f"))
		require.NoError(t, err)
		assert.Equal(t, sha256.Sum256([]byte(big)), sha256.Sum256(got))
		a := h.run("echo a\x00b")
		require.NotNil(t, a.Error)
		assert.Contains(t, a.Error.Message, "NUL byte at offset 6")
		h.expect("echo alive", "alive\n", 0)
	})
}

// Case: T34
func TestLargeHeredoc(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("wc -c <<'E'\n"+strings.Repeat("x", 99999)+"\nE", "100000\n", 0)
	})
}

// Case: T35
func TestShellEnds(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, tt := range []struct {
			name, text, output string
			code               int
			signal             string
			notice             string
		}{
			{"exit", "exit 9", "", 9, "", "[shell exited: code 9]"},
			{"exit_trap", "trap 'echo bye' EXIT; exit 5", "bye\n", 5, "", "[shell exited: code 5]"},
			{"exec_true", "exec true", "", 0, "", "[shell exited: code 0]"},
			{"kill", "kill -9 $$", "", -1, "SIGKILL", "[shell killed by signal: SIGKILL]"},
			// Case: T42
			{"exit_with_background_job", "sleep 30 & exit 4", "", 4, "", "[shell exited: code 4]"},
			{"closed_stdin", "exec <&-", "", -2, "", "[shell exited"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				a := h.run(tt.text)
				assert.Equal(t, persistent.ShellExited, a.Reason, "%+v", a.Result)
				assert.Equal(t, tt.output, a.exact)
				if tt.code >= 0 {
					assert.Equal(t, code(tt.code), a.ExitCode)
				}
				if tt.signal != "" && assert.NotNil(t, a.Signal) {
					assert.Equal(t, tt.signal, *a.Signal)
				}
				assert.Contains(t, a.Text, tt.notice)
				h.expect("echo fresh $PWD", "fresh "+h.dir+"\n", 0)
			})
		}
	})
}

// Case: T35
func TestStoppedShell(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run("kill -STOP $$")
		assert.Equal(t, persistent.Failed, a.Reason, "%+v", a.Result)
		require.NotNil(t, a.Error)
		assert.Contains(t, a.Error.Message, "stopped")
		h.expect("echo fresh", "fresh\n", 0)
	})
}

// Case: T36 F25
func TestNestedShellIsWaiting(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, text := range []string{"exec bash --norc", "bash --norc", "exec cat", "cat"} {
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				a := h.run(text)
				require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
				a = h.run("echo back")
				assert.Equal(t, "back\n", a.exact, "%+v", a.Result)
				assert.Equal(t, code(0), a.ExitCode)
			})
		}
	})
}

// Case: T37
func TestRawTerminalIsPutRight(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("stty raw -echo; printf 'a\\nb\\n'", "a\nb\n", 0)
		h.expect("stty -a | grep -o -- ' icanon'", " icanon\n", 0)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		a := h.runCtx(ctx, "stty raw -echo; sleep 60")
		assert.Equal(t, persistent.Cancelled, a.Reason)
		h.expect("echo sane $?", "sane 130\n", 0)
	})
}

// Case: T39
func TestPipeAndFlood(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run("yes | head -c 5000000")
		assert.Equal(t, 5000000, len(a.exact))
		assert.NotContains(t, a.Text, "Broken pipe")
		a = h.during("yes $((40+2))", "42", func() {
			require.Eventually(t, func() bool {
				_, err := h.session().Signal(context.Background(), terminals.SIGINT)
				return err == nil
			}, 5*time.Second, 10*time.Millisecond)
		})
		assert.Equal(t, code(130), a.ExitCode, "%v", a.Reason)
		h.expect("echo after", "after\n", 0)
	})
}

// Case: T41 F79 (charmbracelet/crush#2653) F80 (charmbracelet/crush#3878)
func TestNothingSurvivesTheOwner(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		mark := newMark("77")
		h.run("nohup sleep " + mark + "1 >/dev/null 2>&1 &\nsetsid sleep " + mark + "2 &\n(sleep " + mark + "3 &)\nsleep " + mark + "4 & disown\n(trap '' HUP TERM; sleep " + mark + "5) &\ntrue")
		require.Eventually(t, func() bool { return len(having(mark)) >= 5 }, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, h.service.DisposeOwner(context.Background(), h.owner))
		assert.Empty(t, having("sleep\x00"+mark))
	})
}

// Case: T44 T46 T47 T48
func TestLostMarkersCostNothing(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, text := range []string{"PROMPT_COMMAND=; unset PS1", "exec 201>&-", "alias .=echo", "set +o emacs", "set -o vi", "set -o emacs"} {
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				h.expect(text, "", 0)
				h.expect("false", "", 1)
				h.expect("echo $?; (exit 4)", "1\n", 4)
			})
		}
	})
}

// Case: F09 (SWE-agent/SWE-ReX#29) F84 (anthropics/claude-code#87439)
func TestTimeoutKeepsWhatWasPrinted(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, mode := range []persistent.OnTimeout{persistent.Reset, persistent.Interrupt} {
			t.Run(string(mode), func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path, func(e *engine.Config, p *persistent.Config) { p.OnTimeout = mode })
				h.expect("kept=yes", "", 0)
				r := h.runner.Run(context.Background(), h.owner, persistent.Command{Text: "echo before; sleep 60", Timeout: time.Second})
				assert.Equal(t, persistent.TimedOut, r.Reason)
				assert.Equal(t, "before\n", r.Output)
				if mode == persistent.Reset {
					assert.Contains(t, r.Text, "[timed out after 1000 ms; the shell was reset]\n[the next command starts a fresh shell in "+h.dir+"]")
					h.expect("echo kept=$kept", "kept=\n", 0)
				} else {
					assert.Contains(t, r.Text, "[timed out after 1000 ms; the program was interrupted and the shell kept]")
					h.expect("echo kept=$kept", "kept=yes\n", 0)
				}
			})
		}
	})
}
