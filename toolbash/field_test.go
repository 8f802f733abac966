//go:build unix

package toolbash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolbash"
)

// What users of other tools reported, each with the right outcome.

// provable skips a test of a proved wait where this system proves none.
func provable(t testing.TB) {
	t.Helper()
	if c := driver.Capabilities(); !c.ExactRead {
		t.Skip("this system does not show what a program waits for: " + c.ExactReadWhy)
	}
}

// program skips a test whose program this machine lacks.
func program(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(name + " is not installed")
	}
}

// waits runs text, which leaves a program waiting for input of this kind under
// this prompt, and then checks that the next command gets none of it.
func (h *host) waits(text string, kind terminals.InputKind, prompt string) answer {
	h.t.Helper()
	a := h.run(text)
	require.Equal(h.t, persistent.WaitingInput, a.Reason, "%q: %+v", text, a.Result)
	require.NotNil(h.t, a.NeedsInput)
	assert.Equal(h.t, kind, a.NeedsInput.Kind, "%q", text)
	assert.Equal(h.t, prompt, a.NeedsInput.Prompt, "%q", text)
	assert.Contains(h.t, a.Text, fmt.Sprintf("[waiting for input: %s (%s); the next command interrupts it]", a.NeedsInput.Program, kind))
	next := h.run("printf 'next %s' $((40+2))")
	assert.Equal(h.t, "next 42", next.exact, "after %q: %+v", text, next.Result)
	assert.Equal(h.t, code(0), next.ExitCode)
	assert.True(h.t, strings.HasPrefix(next.Text, "[interrupted "+a.NeedsInput.Program+", which was waiting for input]"), next.Text)
	return a
}

// Case: F05 (OpenHands/OpenHands PR#8097)
func TestLastLineWithoutNewlineIsNeverLost(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for range 500 {
			h.expect(`printf 'a\nb'`, "a\nb", 0)
			if t.Failed() {
				return
			}
		}
	})
}

// Case: F06 (OpenHands/OpenHands#7869)
func TestSilenceIsNotTheEnd(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) {
			e.IdleSilence, e.ExactProbeAfter, e.HandoffGrace, e.PollInterval =
				50*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
		})
		h.expect("sleep 1.5; echo done", "done\n", 0)
	})
}

// Text at the end of the output that looks like a prompt is text.
//
// Case: F14 (wonderwhy-er/DesktopCommanderMCP#196)
func TestTextLikeAPromptIsNoPrompt(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, prompt := range []string{"loading...", ">>> ", "> ", "$ ", "# ", "Password: ", "bash-5.2$ ", "(y/n)? "} {
			t.Run(prompt, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				h.expect("printf '"+prompt+"'; sleep 1; echo ok; false", prompt+"ok\n", 1)
			})
		}
	})
}

// One call, one wait: a program that says nothing makes no report and the
// result comes at its end.
//
// Case: F11 (openai/codex#38495)
func TestSilentProgramIsOneWait(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		var reports atomic.Int32
		res := call(t, t.Context(), h, "sleep 1.2; (exit 3)", func(string) { reports.Add(1) })
		assert.Equal(t, "[exit code: 3]", res.Text)
		assert.GreaterOrEqual(t, res.Structured.(persistent.Result).DurationMs, int64(1200))
		assert.Zero(t, reports.Load())
	})
}

// call calls the tool as a host does.
func call(t testing.TB, ctx context.Context, h *host, command string, progress func(string)) tool.Result {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"command": command})
	require.NoError(t, err)
	return toolbash.New(h.runner, toolbash.Options{}).Call(ctx, h.owner, tool.Call{Arguments: arguments, Progress: progress})
}

// Case: F16 (wonderwhy-er/DesktopCommanderMCP#195, #395)
func TestProgramThatFailsAtOnce(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for range 50 {
			h.expect("sh -c 'echo e >&2; exit 3'", "e\n", 3)
		}
		for range 10 {
			a := h.run("echo e >&2; exit 3")
			assert.Equal(t, persistent.ShellExited, a.Reason)
			assert.Equal(t, "e\n", a.exact)
			assert.Equal(t, code(3), a.ExitCode)
		}
	})
}

// A long command reports while it runs, and the client's own limit ends the
// call with the client's cause.
//
// Case: F18 (wehnsdaefflae/terminal-control-mcp#2)
func TestLongCommandReportsAndIsBounded(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		limit := errors.New("the client's limit")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var reports []string
		res := call(t, ctx, h, "kept=yes; for i in 1 2 3; do echo tick$i; sleep 0.4; done; sleep 60", func(text string) {
			reports = append(reports, text)
			if strings.Contains(text, "tick3") {
				cancel(limit)
			}
		})
		assert.True(t, res.IsError)
		assert.ErrorIs(t, res.Structured.(persistent.Result).Err(), limit)
		assert.Equal(t, "tick1\ntick2\ntick3\n", strings.Join(reports, ""))
		h.expect("echo $kept", "yes\n", 0)
	})
}

// Start-up files of the user are not read, nor what a parent shell exports.
//
// Case: F19 (cline/cline#1974, #5990, #4177) F21 (RooCodeInc/Roo-Code#2017) B20
func TestHostsShellSettingsStayOutside(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		home := t.TempDir()
		const rc = "echo leak; PROMPT_COMMAND='sleep 5'; PS1='rc> '; trap 'echo debug' DEBUG; set -e\n"
		for _, name := range []string{".bashrc", ".bash_profile", ".profile", ".bash_login", "env"} {
			require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(rc), 0o600))
		}
		require.NoError(t, os.WriteFile(filepath.Join(home, ".inputrc"), []byte("set editing-mode vi\n"), 0o600))
		env := filepath.Join(home, "env")
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) {
			e.Ambient = append(os.Environ(), "HOME="+home, "BASH_ENV="+env, "ENV="+env, "PROMPT_COMMAND=echo leak", "PS1=leak> ", "PS4=leak+ ",
				"TMOUT=1", "SHELLOPTS=errexit:xtrace", "BASHOPTS=extdebug", "BASH_XTRACEFD=2", "POSIXLY_CORRECT=1", "IGNOREEOF=1", "HISTFILE="+home+"/history",
				"BASH_FUNC_printf%%=() { echo leak; }", "BASH_FUNC_builtin%%=() { echo leak; }")
		})
		h.expect("false", "", 1)
		h.expect("printf x; shopt -q extdebug; echo $?", "x1\n", 0)
		h.expect("set -x; :; set +x", "++ :\n++ set +x\n", 0)
		h.expect("echo end", "end\n", 0)
		assert.NoFileExists(t, home+"/history")
	})
}

// A theme that init loads goes on working and changes no result.
//
// Case: F19 (cline/cline#3445) F21 (RooCodeInc/Roo-Code#2017, #1663) F24 (microsoft/vscode#283859, #254447)
func TestThemeOfInitIsComposed(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for name, theme := range map[string]string{
			"prompt_command": `PROMPT_COMMAND='echo x >>themed; printf theme'; PS1='theme> '`,
			"appends":        `PROMPT_COMMAND="$PROMPT_COMMAND"$'\n''echo x >>themed; printf "\r\e[Ktheme"'`,
			"repaints":       `theme() { local s=$?; echo x >>themed; PS1="\[\e[2K\]\r[$s] > "; return $s; }; PROMPT_COMMAND=theme`,
			"array":          `PROMPT_COMMAND=('echo x >>themed' 'printf theme')`,
			"before_command": `PROMPT_COMMAND="$PROMPT_COMMAND; echo x >>themed"; PS0='started '`,
			"debug_trap":     `trap 'echo x >>themed' DEBUG; PS1='$(echo sub)> '`,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.Init = theme })
				h.expect("echo a", "a\n", 0)
				h.expect("echo $?; (exit 4)", "0\n", 4)
				h.expect("echo $?", "4\n", 0)
				h.expect("test -s themed && echo it runs", "it runs\n", 0)
			})
		}
	})
}

// Case: F36 (microsoft/vscode#291871, #258294, #271902)
func TestStatus130IsNotInvented(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("sleep 0.5", "", 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		res := call(t, ctx, h, "echo go; sleep 60", func(string) { cancel(errors.New("stop")) })
		require.True(t, res.IsError)
		h.expect("sleep 0.5; (exit 3)", "", 3)
		h.expect("sleep 0.5 | cat; true", "", 0)
		a := h.expect("(exit 130)", "", 130) // a program's own
		assert.Equal(t, "[exit code: 130]", a.Text)
		// A program that handles an interrupt has the status that it chooses.
		h.expect(`sh -c 'trap "exit 5" INT; kill -INT $$; sleep 60'`, "", 5)
	})
}

// Case: F44 (anthropics/claude-code#85111)
func TestNineKilobytesOfHeredoc(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		body := strings.Repeat("0123456789 it's \"quoted\" \\ $x `y`\n", 280)
		h.expect("cat <<'EOF'\n"+body+"EOF\necho after", body+"after\n", 0)
	})
}

// Case: F56 (openai/codex#5905, google-gemini/gemini-cli#24707, anthropics/claude-code#27401)
func TestCredentialPrompt(t *testing.T) {
	provable(t)
	program(t, "git")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	h := newHost(t, bashes()[0])
	h.expect("export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 no_proxy='*'; unset GIT_ASKPASS SSH_ASKPASS GIT_TERMINAL_PROMPT http_proxy HTTP_PROXY", "", 0)
	a := h.waits("git -c credential.helper= clone -q "+server.URL+"/x.git", terminals.LineInput, "Username for '"+server.URL+"': ")
	assert.Less(t, a.DurationMs, int64(30000))
	user := strings.Replace(server.URL, "http://", "http://me@", 1)
	h.waits("git -c credential.helper= clone -q "+user+"/x.git", terminals.SecretInput, "Password for '"+user+"': ")
}

// A prompt for a secret is reported as one at once, not after the timeout.
//
// Case: F57 (google-antigravity/antigravity-cli#205, can1357/oh-my-pi#10091) reference 3.3 #64
func TestSecretPrompts(t *testing.T) {
	provable(t)
	unprivileged := ""
	if os.Getuid() == 0 {
		program(t, "setpriv")
		unprivileged = "setpriv --reuid=65534 --regid=65534 --clear-groups "
	}
	for _, tt := range []struct{ name, needs, text, prompt string }{
		{"getpass", "python3", `python3 -c 'import getpass; getpass.getpass()'`, "Password: "},
		{"getpass_of_a_pipeline", "python3", `python3 -c 'import getpass; getpass.getpass("Token? ")' </dev/null | cat`, "Token? "},
		{"su", "su", "cd /; " + unprivileged + "su root -c true", "Password: "},
		{"read_s", "true", "read -sp 'PIN: ' pin", "PIN: "},
		{"stty", "stty", "stty -echo; printf 'Key: '; head -n 1", "Key: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			program(t, tt.needs)
			h := newHost(t, bashes()[0])
			a := h.waits(tt.text, terminals.SecretInput, tt.prompt)
			assert.Less(t, a.DurationMs, int64(20000))
		})
	}
}

// Case: F58 (earendil-works/pi#6432, #9936, coder/xum PR#22, google-gemini/gemini-cli#13590)
func TestPagerAndEditor(t *testing.T) {
	provable(t)
	program(t, "git")
	h := newHost(t, bashes()[0])
	h.expect("export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; unset LESS", "", 0)
	h.expect("git init -q . && seq 300 | sed 's/^/line /' | git commit -q --allow-empty -F -", "", 0)
	a := h.expect("git log --format=%B", a300(), 0)
	assert.False(t, a.Clipped)
	h.expect("echo $PAGER $GIT_PAGER $MANPAGER", "cat cat cat\n", 0)

	// An editor is a program that waits for a key.
	editor := "stty -icanon -echo; printf 'EDIT '; exec head -c 1"
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "editor"), []byte("#!/bin/sh\n"+editor+"\n"), 0o700))
	h.waits("GIT_EDITOR=$PWD/editor git commit -q --allow-empty", terminals.KeyInput, "EDIT ")
	h.expect("git log --format=%s | wc -l | tr -d ' '", "1\n", 0)
}

func a300() string {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String() + "\n"
}

// The last bytes before an exit arrive, be it a program's or the shell's own.
//
// Case: F60 (microsoft/node-pty#72, #85, #140, #674, #726)
func TestLastBytesBeforeAnExit(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		want := strings.Repeat("x", 200000)
		for range 60 {
			a := h.run(`bash -c 'head -c 200000 /dev/zero | tr "\0" x; exit'`)
			require.True(t, a.exact == want, "%d bytes: %+v", len(a.exact), a.Reason)
		}
		for range 10 {
			a := h.run(`head -c 200000 /dev/zero | tr "\0" x; exit 6`)
			require.Equal(t, persistent.ShellExited, a.Reason)
			require.True(t, a.exact == want, "%d bytes", len(a.exact))
			require.Equal(t, code(6), a.ExitCode)
		}
	})
}

// What a background job floods the terminal with is bounded, and its loss is
// counted to the byte.
//
// Case: F63 (anthropics/claude-code#65789)
func TestFloodBetweenCommandsIsCounted(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path, func(_ *engine.Config, p *persistent.Config) { p.MaxOutputChars = 1000 })
		const size = 20_000_000
		first := h.run(fmt.Sprintf("(until [ -e go ]; do sleep 0.02; done; head -c %d /dev/zero | tr '\\0' y; touch gone) & true", size))
		require.Empty(t, first.exact)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
		exists(t, filepath.Join(h.dir, "gone"))
		a := h.run("echo now")
		assert.True(t, strings.HasSuffix(a.exact, "now\n"))
		assert.LessOrEqual(t, len(a.Unsolicited), 1000)
		assert.Equal(t, strings.Repeat("y", len(a.Unsolicited)), a.Unsolicited)
		// The end of the flood may still have been on its way.
		assert.EqualValues(t, size, a.LostPrefix+int64(len(a.Unsolicited))+int64(strings.Count(a.exact, "y")))
		assert.Contains(t, a.Text, fmt.Sprintf("[the beginning of the output was lost: %d bytes]", a.LostPrefix))
	})
}

// exists waits until a file is there.
func exists(t testing.TB, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}, 30*time.Second, 10*time.Millisecond, "no %s", path)
}

// Case: F74 (scottcrosby-securebine/kali-mcp-server#80, woojubb/robota#2022, NousResearch/hermes-agent#70527, UKGovernmentBEIS/inspect_ai PR#4854)
func TestControlSequencesReachNoReader(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		const raw = "\x1b[2Ja\x1b]52;c;aGk=\ab\x1b[31mc\x1b[0m\x1bP1$q\x1b\\d\x1b_apc\x1b\\e\u202e\u2066f\u200bg\x1b(Bh\x1bc\n"
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "f"), []byte(raw), 0o600))
		a := h.expect("cat f", raw, 0)
		assert.Equal(t, raw, a.Output)
		assert.NotRegexp(t, regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]"), a.Text)
		assert.NotContains(t, a.Text, "52;c", "the payload goes too")
		assert.NotContains(t, a.Text, "apc")
		assert.True(t, strings.HasPrefix(a.Text, "abcde"), "%q", a.Text)

		// Nor does a file name in a notice.
		a = h.run("cd \"$(mkdir -p $'d\\e[31m\\u202e'; echo $'d\\e[31m\\u202e')\" && exit 1")
		assert.NotContains(t, a.Text, "\x1b")
	})
}

// patient is for tests that move much data on a machine that may be busy.
func patient(_ *engine.Config, p *persistent.Config) { p.Timeout = 5 * time.Minute }

// Case: F76 (Netflix/go-expect#5, #10, pexpect/pexpect#438, #352)
func TestTimeIsLinearInTheOutput(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path, patient)
		for _, text := range []string{
			"yes 0123456789012345678901234567890123456789 | head -c 10000000",
			"head -c 10000000 /dev/zero | tr '\\0' '\\033'", // nothing but beginnings
			"head -c 10000000 /dev/zero | tr '\\0' '\\n'",
		} {
			a := h.run(text)
			assert.Len(t, a.exact, 10000000, text)
			assert.Less(t, a.DurationMs, int64(120000), text)
		}
	})
}

// Case: F77 (google-gemini/gemini-cli#10373)
func TestAMillionLines(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path, patient)
		h.expect("seq 1000000 >f", "", 0)
		want, err := os.ReadFile(filepath.Join(h.dir, "f"))
		require.NoError(t, err)
		a := h.run("seq 1000000")
		assert.True(t, a.exact == string(want), "%d of %d bytes", len(a.exact), len(want))
		assert.Len(t, a.Output, 16000)
		saved, err := os.ReadFile(a.OutputFile)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, saved), "%d of %d bytes", len(saved), len(want))
		assert.Less(t, a.DurationMs, int64(120000))
	})
}

// A command that signals its own process group or session does not reach the
// host, which leads neither.
//
// Case: F83 (anthropics/claude-code#3068, #13941, #94469, #45717)
func TestHostIsOutOfReachOfGroupSignals(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("true", "", 0)
		shell := h.session().PID()
		ours, err := unix.Getsid(0)
		require.NoError(t, err)
		theirs, err := unix.Getsid(shell)
		require.NoError(t, err)
		assert.NotEqual(t, ours, theirs)
		assert.Equal(t, shell, theirs)
		// The shell is in a group of its own, each program too.
		a := h.run("sh -c 'kill -KILL 0'; echo $?")
		assert.Contains(t, a.exact, "137\n") // before or after bash says that it was killed
		assert.Equal(t, shell, h.session().PID())
		a = h.run("kill -KILL 0")
		assert.Equal(t, persistent.ShellExited, a.Reason)
		if assert.NotNil(t, a.Signal) {
			assert.Equal(t, "SIGKILL", *a.Signal)
		}
		h.expect("echo fresh", "fresh\n", 0)
	})
}

// Case: F85 (anthropics/claude-code#3372, google-gemini/gemini-cli#4074)
func TestServerInTheBackground(t *testing.T) {
	program(t, "python3")
	h := newHost(t, bashes()[0])
	a := h.expect("python3 -u -m http.server --bind 127.0.0.1 0 >log 2>&1 & echo started", "started\n", 0)
	assert.Less(t, a.DurationMs, int64(20000))
	port := regexp.MustCompile(`port (\d+)`)
	var found [][]byte
	require.Eventually(t, func() bool {
		log, _ := os.ReadFile(filepath.Join(h.dir, "log"))
		found = port.FindSubmatch(log)
		return found != nil
	}, 30*time.Second, 20*time.Millisecond)
	address := "http://127.0.0.1:" + string(found[1]) + "/log"
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	res, err := client.Get(address)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, http.StatusOK, res.StatusCode)
	h.expect("echo responsive", "responsive\n", 0)
	require.NoError(t, h.service.DisposeOwner(context.Background(), h.owner))
	_, err = client.Get(address)
	assert.ErrorIs(t, err, unix.ECONNREFUSED, "the server ends with its owner")
}

// A server in the foreground is shown as far as it came.
//
// Case: F85 (anthropics/claude-code#3372) F101 (zed-industries/zed#32157)
func TestServerInTheForeground(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path, func(_ *engine.Config, p *persistent.Config) { p.OnTimeout = persistent.Interrupt })
		h.expect("kept=yes", "", 0)
		r := h.runner.Run(t.Context(), h.owner, persistent.Command{Text: "printf 'Serving on port %d' $((40+2)); sleep 60", Timeout: time.Second})
		assert.Equal(t, persistent.TimedOut, r.Reason)
		assert.Equal(t, "Serving on port 42\n[timed out after 1000 ms; the program was interrupted and the shell kept]", r.Text)
		h.expect("echo $kept", "yes\n", 0)
	})
}

// A shell that was broken between two commands costs neither the next command
// nor time, and the result says what happened.
//
// Case: F86 (anthropics/claude-code#86000, #41983, #39888) reference 3.3 #49
func TestShellThatEndsBetweenCommands(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for name, tt := range map[string]struct {
			kill   unix.Signal
			notice string
		}{
			"killed":     {unix.SIGKILL, " (signal SIGKILL)"},
			"hung_up":    {unix.SIGHUP, " ("}, // a signal or a code, by version
			"terminated": {unix.SIGSEGV, " (signal SIGSEGV)"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				h.expect("cd /; kept=yes; ulimit -c 0", "", 0)
				s := h.session()
				require.NoError(t, unix.Kill(s.PID(), tt.kill))
				<-s.Exited()
				a := h.run("echo kept=$kept in $PWD")
				assert.Equal(t, "kept= in "+h.dir+"\n", a.exact)
				assert.Equal(t, code(0), a.ExitCode)
				assert.True(t, strings.HasPrefix(a.Text, "[the shell had exited since the last command"+tt.notice), a.Text)
				assert.Contains(t, a.Text, "; this command runs in a fresh shell in "+h.dir+"]\n")
			})
		}
	})
}

// The moment at which a shell ends is never lost between two commands.
//
// Case: F86 (anthropics/claude-code#39888) reference 3.3 #49
func TestShellThatEndsAroundACommand(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		for i := range 20 {
			h.run(fmt.Sprintf("(sleep 0.%02d; kill -9 $$) &", i%5))
			a := h.run("echo x")
			switch a.Reason {
			case persistent.Completed:
				assert.True(t, strings.HasSuffix(a.exact, "x\n"), "%+v", a.Result)
			case persistent.ShellExited:
				if assert.NotNil(t, a.Signal) {
					assert.Equal(t, "SIGKILL", *a.Signal)
				}
			default:
				assert.Fail(t, "lost", "%+v", a.Result)
			}
			h.run("kill -9 $$") // where it was later than both
			h.expect("echo fresh", "fresh\n", 0)
		}
	})
}

// Case: F86 (anthropics/claude-code#86000)
func TestShellThatIsStoppedBetweenCommands(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("true", "", 0)
		require.NoError(t, unix.Kill(h.session().PID(), unix.SIGSTOP))
		a := h.run("echo one")
		assert.Less(t, a.DurationMs, int64(20000), "%+v", a.Result)
		assert.NotEqual(t, persistent.Completed, a.Reason)
		h.expect("echo two", "two\n", 0)
	})
}

// Case: F98 (golang/go#23019, #13155, #60309)
func TestGrandchildrenThatKeepTheTerminal(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		mark := newMark("98")
		a := h.expect("sh -c 'sleep "+mark+"1 & echo hi'; (sleep "+mark+"2 &); x=$(sh -c 'sleep "+mark+"3 >/dev/null & echo sub'); echo $x", "hi\nsub\n", 0)
		assert.Less(t, a.DurationMs, int64(20000))
		// The shell's own exit does not wait for them either.
		a = h.run("(sleep " + mark + "4 &); exit 4")
		assert.Equal(t, persistent.ShellExited, a.Reason)
		assert.Equal(t, code(4), a.ExitCode)
		assert.Less(t, a.DurationMs, int64(20000))
		require.NoError(t, h.service.DisposeOwner(context.Background(), h.owner))
		assert.Empty(t, having("sleep\x00"+mark))
	})
}

// Case: F101 (zed-industries/zed#32157, #57911, zed-industries/zed PR#46218) F12 (openai/codex#45419)
func TestStopInAFlood(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		h.expect("kept=yes", "", 0)
		stop := errors.New("the user pressed stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		seen := 0
		r := h.runner.Run(ctx, h.owner, persistent.Command{Text: "yes", Stream: func(p []byte) {
			if seen += len(p); seen > 1<<20 {
				cancel(stop)
			}
		}})
		assert.Equal(t, persistent.Cancelled, r.Reason)
		assert.ErrorIs(t, r.Err(), stop)
		assert.Equal(t, strings.Repeat("y\n", 8000), r.Output)
		assert.True(t, strings.HasPrefix(r.Text, "Error: the user pressed stop\ny\ny\n"))
		assert.Less(t, r.DurationMs, int64(30000))
		h.expect("echo $kept $?", "yes 130\n", 0)
	})
}

// What runs is bash itself: the same text has the same output there.
//
// Case: F104 (charmbracelet/crush#880) reference 3.3 #61
func TestBashIsBash(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, text := range []string{
			"select x in a; do break; done </dev/null; echo $?",
			"select x in a b; do echo got $x; break; done <<<2",
			"declare -A m=([a]=1 [b]=2); echo ${m[b]} ${#m[@]}",
			"[[ foobar =~ ^(foo)(bar)$ ]] && echo ${BASH_REMATCH[2]}",
			"diff <(echo a) <(echo b) | head -n 1; echo ${PIPESTATUS[@]}",
			"echo {1..5} {a,b}{c,d}; shopt -s extglob; echo ${x:=aab}; echo ${x##+(a)}",
			"f() { local -n r=$1; r=set; }; f y; echo $y",
			"printf -v z '%q %(%Y)T' \"it's\" 0; echo \"$z\"",
			"mapfile -t l < <(seq 3); echo ${#l[@]} ${l[2]}",
			"for ((i=0;i<3;i++)); do echo -n $i; done; echo; case b in a) ;& b) echo b ;;& *) echo c ;; esac",
			"false | true; echo ${PIPESTATUS[@]}; false; echo $?; ! true; echo $?",
			"trap 'echo trapped $?' USR1; kill -USR1 $BASHPID; trap - USR1; echo ${FUNCNAME-none}",
			"coproc c { cat; }; echo ping >&${c[1]}; read -u ${c[0]} r; echo $r; eval \"exec ${c[1]}>&-\"; wait $! 2>/dev/null; echo end",
			"echo $((16#ff)) $((2**10)) ${RANDOM:+r} ${BASH_VERSINFO[0]}",
			"cat <<-X\n\tindented $((1+1))\n\tX\ncat <<<'here string'",
		} {
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				file := filepath.Join(t.TempDir(), "out")
				out, err := os.Create(file)
				require.NoError(t, err)
				cmd := exec.Command(path, "--norc", "-c", text)
				cmd.Dir, cmd.Stdout, cmd.Stderr = h.dir, out, out
				err = cmd.Run()
				require.NoError(t, out.Close())
				var exit *exec.ExitError
				if err != nil {
					require.ErrorAs(t, err, &exit)
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				h.expect(text, string(want), cmd.ProcessState.ExitCode())
			})
		}
	})
}
