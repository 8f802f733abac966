//go:build unix

package toolbash_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// The tricky cases of an earlier implementation, each with the outcome that the
// contract asks for.

// Case: reference 3.3 #46 reference 3.3 #67
func TestOneLongLine(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		const size = 1 << 20
		want := "A" + strings.Repeat("x", size) + "Z"
		a := h.run(fmt.Sprintf("printf A; head -c %d /dev/zero | tr '\\0' x; printf Z", size))
		assert.True(t, a.exact == want, "%d bytes", len(a.exact))
		assert.Equal(t, want[:16000], a.Output)
		assert.Zero(t, a.LostPrefix)
		assert.Equal(t, want[:16000]+fmt.Sprintf("\n[output clipped: 16000 of %d characters shown; full output: %s]", size+2, a.OutputFile), a.Text)
		saved, err := os.ReadFile(a.OutputFile)
		require.NoError(t, err)
		assert.True(t, string(saved) == want, "%d bytes", len(saved))
		assert.Less(t, a.DurationMs, int64(20000))
	})
}

// The real secret of the shell, cut anywhere, right before the real marker.
//
// Case: reference 3.3 #47 B6
func TestTornMarkersAreOutput(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		marker := h.run(`printf '%s' "$__shs_1"`).exact
		require.Regexp(t, regexp.MustCompile(`^\x1b\]7771;[0-9a-f]{32}`), marker)
		prefix := marker[:len("\x1b]7771;")+32]
		for n := 1; n <= len(prefix); n++ {
			h.expect(fmt.Sprintf(`printf '%%s' "${__shs_1:0:%d}"; (exit 7)`, n), prefix[:n], 7)
		}
		h.expect("echo whole", "whole\n", 0)
	})
}

// Half a sequence or half a character at the end of the output stays what it
// is and eats nothing that follows.
//
// Case: B6 reference 3.3 #41
func TestUnfinishedSequenceAtTheEnd(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for _, end := range []string{"\x1b", "\x1b[", "\x1b[3", "\x1b]0;title", "\x1b]", "\x1bP1$", "\x1b_", "\xc3", "\xf0\x9f\x99", "\x9b", "\r", "\x1b]7771;", "\x18", "\x0e"} {
			require.NoError(t, os.WriteFile(filepath.Join(h.dir, "f"), []byte("a"+end), 0o600))
			a := h.expect("cat f; (exit 3)", "a"+end, 3)
			assert.True(t, strings.HasPrefix(a.Text, "a"), "%q", a.Text)
			assert.True(t, strings.HasSuffix(a.Text, "\n[exit code: 3]"), "%q", a.Text)
			a = h.expect("echo next", "next\n", 0)
			assert.Equal(t, "next\n", a.Text)
		}
	})
}

// Case: reference 3.3 #48 reference 3.3 #68
func TestTextOfAShellThatEnds(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, tt := range []struct{ text, output, end string }{
			{"echo out; exit 9", "out\n", "[shell exited: code 9]"},
			{"printf out; exit 9", "out\n", "[shell exited: code 9]"},
			{"kill -9 $$", "", "[shell killed by signal: SIGKILL]"},
			{"exec sleep 0.2", "", "[shell exited: code 0]"},
			{"exec sh -c 'echo sh; exit 3'", "sh\n", "[shell exited: code 3]"},
			{"exit", "", "[shell exited: code 0]"},
			{"false; exit", "", "[shell exited: code 1]"},
			{"cd /; logout 2>/dev/null; exit 256", "", "[shell exited: code 0]"},
		} {
			t.Run(tt.text, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				h.expect("cd /; x=5; f() { :; }", "", 0)
				a := h.run(tt.text)
				assert.Equal(t, persistent.ShellExited, a.Reason)
				assert.Equal(t, tt.output+tt.end+"\n[the next command starts a fresh shell in "+h.dir+"]", a.Text)
				h.expect("echo x=$x $PWD; type f >/dev/null 2>&1", "x= "+h.dir+"\n", 1)
			})
		}
	})
}

// Case: reference 3.3 #50
func TestPromptTextInTheOutputStays(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for _, text := range []string{"$ ", "> ", "\n$ ", "a$ \n$ ", "bash-5.2$ ", "# ", "exit\n", "\n\n$ \n"} {
			require.NoError(t, os.WriteFile(filepath.Join(h.dir, "f"), []byte(text), 0o600))
			h.expect("cat f", text, 0)
			h.expect("cat f; false", text, 1)
		}
	})
}

// Whatever echoes, nothing of the wrapper is in a result.
//
// Case: reference 3.3 #51
func TestEchoOfTheTypedLineIsNeverOutput(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for _, modes := range []string{"sane", "echo echoe echonl", "-echo", "raw", "raw echo", "echo -icanon", "-onlcr opost", "onlcr opost echoctl", "inlcr", "igncr icrnl", "eol e"} {
			h.expect("stty "+modes, "", 0)
			h.expect("echo a; (exit 5)", "a\n", 5)
			h.expect("cat <<'E'\nbody\nE", "body\n", 0)
		}
	})
}

// A cancellation that meets the end of the command: whichever comes first, the
// result is one of the two, and the queued call has its own output.
//
// Case: reference 3.3 #52
func TestCancelAtTheEnd(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("true", "", 0)
		stop := errors.New("stop")
		for i := range 40 {
			ctx, cancel := context.WithCancelCause(t.Context())
			first, placed := make(chan persistent.Result, 1), make(chan struct{})
			go func() {
				first <- h.runner.Run(ctx, h.owner, persistent.Command{
					Text:   fmt.Sprintf("echo first %d", i),
					Placed: func() { close(placed) },
					Stream: func([]byte) { cancel(stop) },
				})
			}()
			<-placed
			h.expect(fmt.Sprintf("echo second %d; (exit %d)", i, i), fmt.Sprintf("second %d\n", i), i)
			r := <-first
			cancel(nil)
			assert.Equal(t, fmt.Sprintf("first %d\n", i), r.Output, "%+v", r)
			if r.Reason == persistent.Cancelled {
				assert.ErrorIs(t, r.Err(), stop)
			} else {
				assert.Equal(t, persistent.Completed, r.Reason, "%+v", r)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// Case: reference 3.3 #53
func TestQueueGoesOnAfterATimeout(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("x=old", "", 0)
		first, placed := make(chan persistent.Result, 1), make(chan struct{})
		go func() {
			first <- h.runner.Run(t.Context(), h.owner, persistent.Command{
				Text: "echo partial; sleep 60", Timeout: time.Second, Placed: func() { close(placed) },
			})
		}()
		<-placed
		h.expect("echo queued=$x", "queued=\n", 0)
		r := <-first
		assert.Equal(t, persistent.TimedOut, r.Reason)
		assert.Equal(t, "partial\n[timed out after 1000 ms; the shell was reset]\n[the next command starts a fresh shell in "+h.dir+"]", r.Text)
		assert.Nil(t, r.ExitCode)
	})
}

// Case: reference 3.3 #55
func TestOwnerIsDisposedWhileItsShellStarts(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		mark := newMark("55")
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.Init = "touch started; sleep " + mark })
		result := make(chan answer, 1)
		go func() { result <- h.runCtx(context.Background(), "echo never") }()
		exists(t, filepath.Join(h.dir, "started"))
		require.NoError(t, h.service.DisposeOwner(context.Background(), h.owner))
		assert.Empty(t, having("sleep\x00"+mark))
		a := <-result
		assert.Equal(t, persistent.Cancelled, a.Reason, "%+v", a.Result)
		assert.Empty(t, a.exact)
		a = h.run("echo after")
		assert.Equal(t, persistent.Failed, a.Reason)
		assert.ErrorIs(t, a.Err(), terminals.OwnerNotLive)
	})
}

// Case: reference 3.3 #56
func TestEarlierLossIsNotThisCommands(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) {
			e.ScrollbackLines, e.ScrollbackMaxBytes, e.MaxReadBytes = 10, 1000, 100
		})
		assert.True(t, h.run("seq 100000").Clipped)
		a := h.expect("seq 200", seq(200), 0)
		assert.Equal(t, seq(200), a.Text)
		assert.False(t, a.Clipped)
		assert.Zero(t, a.LostPrefix)
		assert.Empty(t, a.OutputFile)
	})
}

func seq(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// Case: reference 3.3 #57 reference 3.3 #86
func TestOutputOfExactlyTheLimit(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, clip := range []persistent.Clip{persistent.Head, persistent.Middle} {
			t.Run(string(clip), func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path, func(_ *engine.Config, p *persistent.Config) {
					p.MaxOutputChars, p.Clip, p.SpillDir = 64, clip, t.TempDir()
				})
				for _, char := range []string{"x", "é", "漢", "🙂"} {
					exactly := strings.Repeat(char, 64)
					a := h.expect("printf %s '"+exactly+"'", exactly, 0)
					assert.Equal(t, exactly, a.Text)
					assert.False(t, a.Clipped)
					assert.Empty(t, a.OutputFile)

					a = h.expect("printf %s '"+exactly+char+"'", exactly+char, 0)
					assert.True(t, a.Clipped)
					assert.Equal(t, exactly, a.Output)
					want := exactly
					if clip == persistent.Middle {
						want = strings.Repeat(char, 32) + "\n[... 1 characters left out ...]\n" + strings.Repeat(char, 32)
					}
					assert.Equal(t, want+"\n[output clipped: 64 of 65 characters shown; full output: "+a.OutputFile+"]", a.Text)
				}
			})
		}
	})
}

// Case: reference 3.3 #58 reference 3.3 #64 F25 (microsoft/vscode-copilot-release#13592)
func TestReadersAreReportedAndGetNothing(t *testing.T) {
	provable(t)
	eachBash(t, func(t *testing.T, path string) {
		for _, tt := range []struct {
			name, needs, text string
			kind              terminals.InputKind
			prompt            string
		}{
			{"cat", "cat", "cat", terminals.LineInput, ""},
			{"cat_into_a_file", "cat", "printf 'text: '; cat >typed", terminals.LineInput, "text: "},
			{"read", "true", "read -p 'name? ' x; echo got $x >typed", terminals.LineInput, "name? "},
			{"read_r_of_a_loop", "true", "while read -r x; do echo got $x >>typed; done", terminals.LineInput, ""},
			{"select", "true", "PS3='which? '; select x in a b; do echo $x >typed; done 2>/dev/tty", terminals.LineInput, "which? "},
			{"python3", "python3", "python3 -c 'x = input(\"py? \"); open(\"typed\", \"w\").write(x)'", terminals.LineInput, "py? "},
			{"python3_repl", "python3", "PYTHON_BASIC_REPL=1 python3 -q", "", ">>> "},
			{"tty_by_name", "head", "printf '? '; head -n 1 </dev/tty >typed", terminals.LineInput, "? "},
			{"exec_bash", "bash", "exec bash --noprofile --norc --noediting -i", "", ""},
			{"bash", "bash", "PS1='inner> ' bash --noprofile --norc --noediting -i", "", "inner> "},
			{"sh", "sh", "ENV= PS1='sh> ' sh -i", "", "sh> "},
			{"background_pipe", "cat", "echo | cat; cat - >typed", terminals.LineInput, ""},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				program(t, tt.needs)
				h := newHost(t, path)
				a := h.run(tt.text)
				require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
				require.NotNil(t, a.NeedsInput)
				if tt.kind != "" {
					assert.Equal(t, tt.kind, a.NeedsInput.Kind)
				}
				if tt.prompt != "" {
					assert.Equal(t, tt.prompt, a.NeedsInput.Prompt)
				}
				assert.Less(t, a.DurationMs, int64(20000))
				next := h.run("echo into $((40+2)) the shell")
				assert.Equal(t, "into 42 the shell\n", next.exact, "%+v", next.Result)
				assert.Equal(t, code(0), next.ExitCode)
				assert.Contains(t, next.Text, "[interrupted "+a.NeedsInput.Program+", which was waiting for input]\n")
				typed, _ := os.ReadFile(filepath.Join(h.dir, "typed"))
				assert.Empty(t, string(typed))
			})
		}
	})
}

// Case: reference 3.3 #59
func TestBodiesArriveByteForByte(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for _, body := range []string{
			"it's fine", "two\nlines", "\ttab\tin\t", "esc \x1b[A \x1bOB", "“smart” ‘quotes’ – …", "`back` $(sub) $x ${y} \\ \\\\ \\n",
			"!! !$ ^a^b", "a\r\nb\r", "\x01\x02\x03\x04\x15\x16\x17\x1a\x1c\x7f", "invalid \xff\xfe\xc3", "@'\nhere\n'@", "$'ansi\\x41'", "# hash ; & | < >", "\u202ertl \u200bzero \ufeff",
			strings.Repeat("a", 5000), "\n\n\nblank\n\n", "~ * ? [a-z] {1,2}", "%s %d %%", "-n -e --",
		} {
			h.expect("cat <<'END_OF_BODY'\n"+body+"\nEND_OF_BODY", body+"\n", 0)
			quoted := "'" + strings.ReplaceAll(body, "'", `'\''`) + "'"
			h.expect("printf %s "+quoted, body, 0)
			h.expect("printf '%s' "+quoted+" >f; cat f; rm f; (exit 3)", body, 3)
		}
		a := h.run("printf 'a' # \x00")
		assert.ErrorIs(t, a.Err(), terminals.InvalidArgument)
		assert.Empty(t, a.exact)
	})
}

// Case: reference 3.3 #60
func TestCommandsOfEverySize(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect(":", "", 0)
		for i, size := range []int{100, 1023, 1024, 1025, 4094, 4095, 4096, 4097, 8 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, 3 << 20} {
			const frame = "x='';echo ${#x} ${x:0:1}${x: -1};(exit 000)"
			text := fmt.Sprintf("x='[%s]';echo ${#x} ${x:0:1}${x: -1};(exit %03d)", strings.Repeat("y", size-len(frame)-2), i)
			require.Len(t, text, size)
			h.expect(text, fmt.Sprintf("%d []\n", size-len(frame)), i)
		}
		// Many short lines as well as one long one.
		h.expect(strings.Repeat("((n++))\n", 20000)+"echo $n", "20000\n", 0)
	})
}

// Case: reference 3.3 #61 reference 3.3 #62 B8 B12
func TestStatusRules(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, tt := range []struct {
			name  string
			steps []step
		}{
			{"pipestatus", []step{{"false | true; echo ${PIPESTATUS[@]}", "1 0\n", 0}}},
			{"status_over_calls", []step{{"(exit 42)", "", 42}, {"echo $?", "42\n", 0}, {"echo $?", "0\n", 0}}},
			{"last_of_the_pipe", []step{{"true | false", "", 1}, {"set -o pipefail; false | true", "", 1}}},
			{"negated", []step{{"! true", "", 1}, {"! false", "", 0}}},
			{"assignment", []step{{"x=$(exit 9)", "", 9}, {"local=1; x=1", "", 0}}},
			{"background", []step{{"false & wait $! 2>/dev/null", "", 1}}},
			{"function", []step{{"f() { return 11; }; f", "", 11}, {"f || echo $?", "11\n", 0}}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				for _, s := range tt.steps {
					h.expect(s.text, s.output, s.code)
				}
			})
		}
		t.Run("err_trap", func(t *testing.T) {
			t.Parallel()
			h := newHost(t, path)
			h.expect("trap 'echo err' ERR", "", 0)
			// The sourcing itself fails too, so bash may run the trap once more.
			a := h.run("false")
			assert.Regexp(t, regexp.MustCompile(`^(err\n){1,2}$`), a.exact)
			assert.Equal(t, code(1), a.ExitCode)
			h.expect("echo $?", "1\n", 0)
			h.expect("trap - ERR; false", "", 1)
		})
		t.Run("unset_variable", func(t *testing.T) {
			t.Parallel()
			h := newHost(t, path)
			h.expect("kept=1; cd /", "", 0)
			a := h.run("set -u; echo $nothing; echo reached")
			assert.Equal(t, persistent.Completed, a.Reason, "%+v", a.Result)
			assert.Contains(t, a.exact, "nothing: unbound variable\n")
			assert.NotContains(t, a.exact, "reached")
			assert.Equal(t, code(1), a.ExitCode)
			h.expect("echo $kept $PWD", "1 /\n", 0)
		})
	})
}

// Several of the things at once that take markers away.
//
// Case: reference 3.3 #63 B4
func TestSabotageAtOnce(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for name, text := range map[string]string{
			"prompts":   "set -u; PS1='$ '; PROMPT_COMMAND='printf noise'; PS2=; PS4=; shopt -u promptvars; unset PS4",
			"aliases":   "alias printf=echo .=echo source=echo builtin=echo return=false set=echo eval=echo declare=echo type=echo trap=echo case=echo if=echo",
			"functions": "printf() { :; }; eval() { :; }; set() { :; }; source() { :; }; trap() { :; }; command() { :; }; test() { :; }; type() { :; }; declare() { :; }; PS1='$ '",
			"disabled":  "enable -n eval source trap command test set declare; PS1='$ '",
			"options":   "shopt -s nocasematch nullglob extglob dotglob; IFS=x; set -uCbfhkBTE -o pipefail; LC_ALL=C; umask 777; TMPDIR=/proc/nonexistent; PATH=",
			"terminal":  "stty raw -echo -isig; exec 3>&1 5</dev/null; exec 2>/dev/null; PS1='$ '; PROMPT_COMMAND=",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				h.run(text)
				for i := range 4 {
					a := h.run(fmt.Sprintf("\\echo round %d; (\\exit %d)", i, i))
					assert.Equal(t, fmt.Sprintf("round %d\n", i), a.exact, "%+v", a.Result)
					assert.Equal(t, code(i), a.ExitCode)
					assert.Empty(t, a.Unsolicited)
					assert.Less(t, a.DurationMs, int64(5000))
				}
			})
		}
	})
}

// Nothing that a background job prints is lost or printed twice, wherever the
// commands fall.
//
// Case: reference 3.3 #65 B23
func TestBackgroundOutputIsNeitherLostNorDoubled(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		const lines = 3000
		var all strings.Builder
		add := func(a answer) {
			all.WriteString(a.Unsolicited)
			all.WriteString(a.exact)
		}
		add(h.run(fmt.Sprintf("(i=0; while ((i++ < %d)); do echo \"<$i>\"; ((i %% 20)) || sleep 0.01; done; touch gone) & true", lines)))
		for n := 0; ; n++ {
			_, err := os.Stat(filepath.Join(h.dir, "gone"))
			a := h.run(fmt.Sprintf("(exit %d)", n%100))
			assert.Equal(t, code(n%100), a.ExitCode)
			add(a)
			if err == nil {
				break
			}
		}
		add(h.run("wait"))
		seen := make(map[string]int)
		for _, line := range regexp.MustCompile(`<\d+>`).FindAllString(all.String(), -1) {
			seen[line]++
		}
		lost, doubled := 0, 0
		for i := range lines {
			switch n := seen[fmt.Sprintf("<%d>", i+1)]; {
			case n == 0:
				lost++
			case n > 1:
				doubled++
			}
		}
		assert.Zero(t, lost, "of %d lines", lines)
		assert.Zero(t, doubled)
	})
}

// Bash's own news of a job comes at most once and never as the output of
// another call's command. (5.3 may print it while the prompt is being made.)
//
// Case: reference 3.3 #66 B5 T26
func TestNewsOfJobsComesOnce(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("(until [ -e go ]; do sleep 0.02; done; exit 3) & echo $! >pid", "", 0)
		text, err := os.ReadFile(filepath.Join(h.dir, "pid"))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
		require.Eventually(t, func() bool { return unix.Kill(pid, 0) != nil }, 30*time.Second, 10*time.Millisecond)
		var all strings.Builder
		for range 5 {
			a := h.run(":")
			all.WriteString(a.Unsolicited + a.exact)
		}
		assert.LessOrEqual(t, strings.Count(all.String(), "[1]"), 1, all.String())
		a := h.run(fmt.Sprintf("jobs; wait %d; echo $?", pid))
		assert.Equal(t, "3\n", a.exact)
	})
}

// Case: reference 3.3 #67
func TestLargeOutputs(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, size := range []int64{2_000_000, 100_000_000} {
			if size > 10_000_000 && path != bashes()[0] {
				continue // once is enough: the volume is nothing of bash's
			}
			t.Run(fmt.Sprint(size), func(t *testing.T) {
				h := newHost(t, path, patient, func(_ *engine.Config, p *persistent.Config) { p.SpillMaxBytes, p.SpillDir = 10_000_000, t.TempDir() })
				h.expect("kept=yes", "", 0)
				sum, want, length := sha256.New(), sha256.New(), int64(0)
				r := h.runner.Run(t.Context(), h.owner, persistent.Command{
					Text: fmt.Sprintf("yes 0123456789abcdef | head -c %d; (exit 4)", size),
					Stream: func(p []byte) {
						length += int64(len(p))
						sum.Write(p)
					},
				})
				line := []byte(strings.Repeat("0123456789abcdef\n", 1000))
				for left := size; left > 0; left -= int64(len(line)) {
					want.Write(line[:min(left, int64(len(line)))])
				}
				assert.Equal(t, size, length)
				assert.Equal(t, want.Sum(nil), sum.Sum(nil))
				assert.Equal(t, persistent.Completed, r.Reason)
				assert.Equal(t, code(4), r.ExitCode)
				assert.True(t, r.Clipped)
				assert.Contains(t, r.Text, fmt.Sprintf("[output clipped: 16000 of %d characters shown", size))
				info, err := os.Stat(r.OutputFile)
				require.NoError(t, err)
				assert.Equal(t, min(size, 10_000_000), info.Size())
				h.expect("echo $kept", "yes\n", 0)
			})
		}
	})
}

// Case: reference 3.3 #69 B7
func TestFormsOfOutput(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for _, tt := range []struct{ raw, text string }{
			{"no newline", "no newline"},
			{"\n", "\n"},
			{"\n\n\n", "\n\n\n"},
			{"\n\na\n\n", "\n\na\n\n"},
			{"a\r\nb\r\n", "a\nb\n"},
			{"a\r\r\nb", "a\nb"},
			{"a\x00b\x07c", "abc"},
			{"abc\b\bXY", "aXY"},
			{"one\rtwo", "two"},
			{"tab\there", "tab\there"},
			{"\xff\xfe", "\ufffd\ufffd"},
			{"é漢🙂", "é漢🙂"},
			{" lead and trail ", " lead and trail "},
		} {
			require.NoError(t, os.WriteFile(filepath.Join(h.dir, "f"), []byte(tt.raw), 0o600))
			a := h.expect("cat f", tt.raw, 0)
			assert.Equal(t, tt.raw, a.Output)
			assert.Equal(t, tt.text, a.Text, "%q", tt.raw)
			a = h.expect("cat f; false", tt.raw, 1)
			assert.Equal(t, strings.TrimSuffix(tt.text, "\n")+"\n[exit code: 1]", a.Text, "%q", tt.raw)
		}
	})
}

// Case: reference 3.3 #70
func TestConcurrentCallsAreServedInOrder(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		const calls = 30
		results := make([]chan answer, calls)
		for i := range results {
			results[i] = make(chan answer, 1)
			placed := make(chan struct{})
			go func() {
				var exact strings.Builder
				r := h.runner.Run(t.Context(), h.owner, persistent.Command{
					Text:   fmt.Sprintf("echo begin %d $((n++)); sleep 0.0%d; echo end %d; (exit %d)", i, i%3, i, i),
					Placed: func() { close(placed) },
					Stream: func(p []byte) { exact.Write(p) },
				})
				results[i] <- answer{r, exact.String()}
			}()
			<-placed
		}
		for i, result := range results {
			a := <-result
			assert.Equal(t, fmt.Sprintf("begin %d %d\nend %d\n", i, i, i), a.exact)
			assert.Equal(t, code(i), a.ExitCode)
		}
	})
}

// Owners do not wait for each other and share nothing.
//
// Case: reference 3.3 #70 reference 3.3 #2
func TestOwnersHaveShellsOfTheirOwn(t *testing.T) {
	h := newHost(t, bashes()[0])
	h.expect("x=first", "", 0)
	id := h.run(":").TerminalID
	a := h.during("echo $((40+2)); until [ -e go ]; do sleep 0.02; done; echo $x", "42", func() {
		other, err := h.service.NewOwner(terminals.OwnerOptions{Name: t.Name(), Cwd: h.dir})
		require.NoError(t, err)
		r := h.runner.Run(t.Context(), other, persistent.Command{Text: "echo x=$x; x=second"})
		assert.Equal(t, "x=\n", r.Output)
		assert.NotEqual(t, id, r.TerminalID)
		_, err = h.service.Session(other, id)
		assert.ErrorIs(t, err, terminals.ForeignSession)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
	})
	assert.Equal(t, "42\nfirst\n", a.exact)
}

// Case: reference 3.3 #71
func TestShellSurvivesItsSurroundings(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Run("removed_folder", func(t *testing.T) {
			t.Parallel()
			h := newHost(t, path)
			h.expect("mkdir d && cd d && rmdir \"$PWD\"", "", 0)
			h.expect("echo still; (exit 3)", "still\n", 3)
			a := h.run("cd .. && pwd")
			assert.True(t, strings.HasSuffix(a.exact, h.dir+"\n"), "%+v", a.Result)
			assert.Equal(t, h.dir, a.Cwd)
			h.expect("pwd", h.dir+"\n", 0)
		})
		t.Run("removed_folder_of_the_owner", func(t *testing.T) {
			t.Parallel()
			h := newHost(t, path)
			h.expect("rm -rf \"$PWD\"", "", 0)
			h.expect("echo still; (exit 3)", "still\n", 3)
			require.Equal(t, persistent.ShellExited, h.run("exit 0").Reason)
			a := h.run("echo no")
			assert.Equal(t, persistent.Failed, a.Reason)
			assert.ErrorIs(t, a.Err(), terminals.InvalidArgument)
			assert.Contains(t, a.Text, h.dir)
			require.NoError(t, os.Mkdir(h.dir, 0o700))
			h.expect("echo again", "again\n", 0)
		})
		t.Run("path", func(t *testing.T) {
			t.Parallel()
			h := newHost(t, path)
			for _, text := range []string{"unset PATH", "PATH=", "PATH=/proc/nonexistent"} {
				h.expect(text, "", 0)
				a := h.run("nosuchprogram")
				assert.Equal(t, code(127), a.ExitCode, a.exact)
				h.expect("echo builtin; false", "builtin\n", 1)
			}
			h.expect("PATH=/usr/bin:/bin; ls -d /", "/\n", 0)
		})
		t.Run("limits", func(t *testing.T) {
			t.Parallel()
			h := newHost(t, path)
			h.expect("ulimit -v 500000 2>/dev/null; ulimit -n 20; ulimit -f 1000; ulimit -c 0", "", 0)
			h.expect("echo a; (exit 3)", "a\n", 3)
			a := h.run("ulimit -f 0; trap '' XFSZ; echo x >f")
			assert.Equal(t, persistent.Completed, a.Reason)
			h.expect("echo b; (exit 4)", "b\n", 4)
		})
		t.Run("signals_to_itself", func(t *testing.T) {
			t.Parallel()
			h := newHost(t, path)
			h.expect("kept=yes", "", 0)
			for _, text := range []string{"kill -INT $$; echo rest", "kill -TERM $$; echo rest", "kill -QUIT $$; echo rest", "kill -TSTP $$; echo rest", "kill -WINCH $$; kill -CHLD $$; kill -CONT $$; echo rest"} {
				a := h.run(text)
				assert.Equal(t, persistent.Completed, a.Reason, "%q: %+v", text, a.Result)
				h.expect("echo $kept; (exit 5)", "yes\n", 5)
			}
		})
	})
}

// A program in raw mode without ISIG, which starts slowly, gets a real
// interrupt.
//
// Case: reference 3.3 #77 T37
func TestInterruptOfARawProgram(t *testing.T) {
	program(t, "python3")
	h := newHost(t, bashes()[0])
	h.expect("kept=yes", "", 0)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	var exact strings.Builder
	r := h.runner.Run(ctx, h.owner, persistent.Command{
		Text: `python3 -uc '
import os, time, tty
time.sleep(1)
tty.setraw(0)
try:
    os.write(1, b"%d\n" % (40 + 2))
    time.sleep(60)
except KeyboardInterrupt:
    os.write(1, b"interrupted %d\n" % (6 * 7))
'`,
		Stream: func(p []byte) {
			exact.Write(p)
			if strings.Contains(exact.String(), "42") {
				cancel(stop)
			}
		},
	})
	assert.Equal(t, persistent.Cancelled, r.Reason)
	assert.ErrorIs(t, r.Err(), stop)
	assert.Equal(t, "42\ninterrupted 42\n", exact.String())
	h.expect("echo $kept; stty -a | grep -o -- ' icanon'", "yes\n icanon\n", 0)
}

// The last words of an interrupted program are its own to the last newline,
// also when that comes alone.
//
// Case: reference 3.3 #69 T12
func TestNewlineAfterAnInterruptIsTheProgramsOwn(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		ctx, cancel := context.WithCancelCause(t.Context())
		var exact strings.Builder
		r := h.runner.Run(ctx, h.owner, persistent.Command{
			Text: `sh -c 'trap "trap \"\" INT; printf bye; sleep 0.3; echo; exit 5" INT; echo $((40+2)); while :; do sleep 0.1; done'`,
			Stream: func(p []byte) {
				exact.Write(p)
				if strings.Contains(exact.String(), "42") {
					cancel(errors.New("stop"))
				}
			},
		})
		assert.Equal(t, persistent.Cancelled, r.Reason)
		assert.Equal(t, "42\nbye\n", exact.String())
		h.expect("echo next", "next\n", 0)
	})
}

// Case: B22
func TestExitWithStoppedJobs(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		mark := newMark("22")
		h.run("sleep " + mark + " & kill -STOP $!; until jobs -s | grep -q sleep; do :; done")
		a := h.run("exit 3")
		if a.Reason == persistent.Completed { // bash asks once
			assert.Contains(t, a.exact, "There are stopped jobs.")
			a = h.run("exit 3; exit 3")
		}
		assert.Equal(t, persistent.ShellExited, a.Reason, "%+v", a.Result)
		assert.Equal(t, code(3), a.ExitCode)
		h.expect("echo fresh", "fresh\n", 0)
		gone(t, "sleep\x00"+mark)
	})
}

// Case: B19
func TestHeredocWithoutTMPDIR(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("export TMPDIR=/proc/nonexistent", "", 0)
		h.expect("wc -c <<'E' | tr -d ' '\n"+strings.Repeat("x", 199_999)+"\nE", "200000\n", 0)
	})
}

// Case: B17 B21 T19
func TestRedirectionsAndDescriptors(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for i, text := range []string{
			"exec >f 2>&1", "exec 0</dev/tty 1>/dev/tty 2>/dev/tty", "exec >&-; exec 2>&-", "exec 1>/dev/tty 2>&1",
			"for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"exec $fd>&-\" 2>/dev/null; done; true", "exec 63>&- 255>&- 10>&-", "exec 7>&1 8<&0",
		} {
			a := h.run(text)
			require.Equal(t, persistent.Completed, a.Reason, "%q: %+v", text, a.Result)
			h.expect(fmt.Sprintf("echo %d >/dev/tty; (exit %d)", i, i+10), fmt.Sprintln(i), i+10)
		}
	})
}
