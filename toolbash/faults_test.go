//go:build unix

package toolbash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolbash"
)

// Bad input and broken surroundings: each is an answer that names what is wrong
// and what to change, nothing is left behind, and what can go on goes on.

// fails runs a command that cannot be run and returns what a model reads of it.
func (h *host) fails(text string) string {
	h.t.Helper()
	a := h.run(text)
	assert.Equal(h.t, persistent.Failed, a.Reason, "%+v", a.Result)
	assert.Error(h.t, a.Err())
	assert.Empty(h.t, a.exact)
	assert.Nil(h.t, a.ExitCode)
	assert.True(h.t, strings.HasPrefix(a.Text, "Error: "), a.Text)
	assert.Empty(h.t, h.service.List(h.owner), "a failed start leaves a session")
	return a.Text
}

func TestFolderThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, cwd := range map[string]string{"missing": filepath.Join(dir, "missing"), "file": file, "below_a_file": file + "/x", "relative": "missing", "nul": "a\x00b"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, bashes()[0])
			owner, err := h.service.NewOwner(terminals.OwnerOptions{Cwd: cwd})
			if err != nil { // refused even earlier
				assert.ErrorIs(t, err, terminals.InvalidArgument)
				assert.Contains(t, err.Error(), "cwd")
				return
			}
			h.owner = owner
			text := h.fails("echo no")
			assert.Contains(t, text, "cwd")
			assert.Contains(t, text, strings.Trim(fmt.Sprintf("%q", cwd), `"`))
			if name == "missing" { // the next call tries again
				require.NoError(t, os.Mkdir(cwd, 0o700))
				h.expect("pwd", cwd+"\n", 0)
			}
		})
	}
}

// A shell that is none, or another one, is told by its key.
//
// Case: reference 3.3 #54
func TestShellPathThatIsNoBash(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	which := func(name string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			return ""
		}
		return path
	}
	for _, tt := range []struct{ name, path string }{
		{"missing", filepath.Join(dir, "missing")},
		{"missing_in_path", "shellstead-has-no-such-shell"},
		{"folder", dir},
		{"not_executable", script("plain", "#!/bin/sh\n", 0o600)},
		{"no_interpreter", script("orphan", "#!/proc/nonexistent/interpreter\n", 0o700)},
		{"no_program", script("garbage", "\x7fELF garbage", 0o700)},
		{"device", "/dev/null"},
		{"cat", which("cat")},
		{"python3", which("python3")},
		{"dash", which("dash")},
		{"true", which("true")},
		{"exits_at_once", script("exits", "#!/bin/sh\nexit 3\n", 0o700)},
		{"hangs", script("hangs", "#!/bin/sh\nexec sleep 60\n", 0o700)},
		{"floods", script("floods", "#!/bin/sh\nexec yes\n", 0o700)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.path == "" {
				t.Skip("this machine has no " + tt.name)
			}
			h := newHost(t, tt.path, func(e *engine.Config, _ *persistent.Config) { e.Timeout = 1500 * time.Millisecond })
			began := time.Now()
			text := h.fails("echo no")
			assert.Less(t, time.Since(began), 20*time.Second)
			assert.Contains(t, text, "shellPath", "the key to change")
			assert.Contains(t, text, tt.path)
			assert.Less(t, len(text), 5000)
		})
	}
}

// Case: reference 3.3 #54
func TestInitThatFails(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, tt := range []struct{ name, init, want string }{
			{"exits", "echo sorry; exit 3", "code 3"},
			{"kills", "kill -9 $$", "SIGKILL"},
			{"set_e", "set -e; false", "code 1"},
			{"replaces", "exec true", "code 0"},
			{"hangs", "echo so far; sleep 60", "timeoutMs"},
			{"waits", "read -p 'sure? ' x", "waits for input"},
			{"nul", "echo a\x00b", "NUL"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				if tt.name == "waits" {
					provable(t)
				}
				mark := newMark("54")
				h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) {
					e.Init = "[ -e ok ] || { " + strings.ReplaceAll(tt.init, "60", mark) + "\n}"
					e.Timeout = 1500 * time.Millisecond
				})
				text := h.fails("echo no")
				assert.Contains(t, text, "init")
				assert.Contains(t, text, tt.want)
				assert.NotContains(t, text, "__shs")
				gone(t, "sleep\x00"+mark)
				if tt.name == "nul" {
					return // no file can mend that
				}
				// The next call tries again.
				require.NoError(t, os.WriteFile(filepath.Join(h.dir, "ok"), nil, 0o600))
				h.expect("echo yes", "yes\n", 0)
			})
		}
	})
}

// A failing init that leaves the shell alive is init's own affair.
func TestInitWithAnExitCode(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.Init = "x=5; echo greeting; if then" })
		h.expect("echo alive", "alive\n", 0)
		h = newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.Init = "x=5; echo greeting; false" })
		h.expect("echo $x", "5\n", 0)
	})
}

func TestSettingsOutOfRange(t *testing.T) {
	svc := terminals.NewService(terminals.Options{})
	for name, set := range map[string]func(*persistent.Config){
		"timeoutMs":      func(c *persistent.Config) { c.Timeout = 0 },
		"timeoutMs ":     func(c *persistent.Config) { c.Timeout = -time.Second },
		"maxOutputChars": func(c *persistent.Config) { c.MaxOutputChars = 0 },
		"spillMaxBytes":  func(c *persistent.Config) { c.SpillMaxBytes = -1 },
		"waitConfirmMs":  func(c *persistent.Config) { c.WaitConfirm = 0 },
		"clip":           func(c *persistent.Config) { c.Clip = "tail" },
		"onTimeout":      func(c *persistent.Config) { c.OnTimeout = "kill" },
		"backendType":    func(c *persistent.Config) { c.BackendType = "" },
	} {
		cfg := persistent.DefaultConfig()
		set(&cfg)
		_, err := persistent.New(svc, cfg)
		assert.ErrorContains(t, err, strings.TrimSpace(name))
	}
	for name, set := range map[string]func(*engine.Config){
		"timeoutMs":      func(c *engine.Config) { c.Timeout = -1 },
		"disposeGraceMs": func(c *engine.Config) { c.DisposeGrace = -1 },
		"rows":           func(c *engine.Config) { c.Rows = 40000 },
		"cols":           func(c *engine.Config) { c.Cols = -1 },
		"maxReadBytes":   func(c *engine.Config) { c.MaxReadBytes = 8 << 20 },
	} {
		cfg := engine.DefaultConfig()
		set(&cfg)
		_, err := engine.New(cfg, driver, bash.Dialect{})
		assert.ErrorIs(t, err, terminals.InvalidArgument)
		assert.ErrorContains(t, err, name)
	}
}

func TestTimeoutOfACallBelowZero(t *testing.T) {
	h := newHost(t, bashes()[0])
	r := h.runner.Run(t.Context(), h.owner, persistent.Command{Text: "touch ran", Timeout: -time.Millisecond})
	if assert.NotNil(t, r.Error) {
		assert.Equal(t, string(terminals.InvalidArgument), r.Error.Code)
	}
	assert.Equal(t, "Error: the timeout must be positive, got -1 ms", r.Text)
	// The shortest one is a timeout like any other.
	r = h.runner.Run(t.Context(), h.owner, persistent.Command{Text: "sleep 60", Timeout: time.Nanosecond})
	assert.Equal(t, persistent.TimedOut, r.Reason, "%+v", r)
	h.expect("ls", "", 0)
}

func TestBackendThatDoesNotExist(t *testing.T) {
	h := newHost(t, bashes()[0], func(_ *engine.Config, p *persistent.Config) { p.BackendType = "zsh" })
	text := h.fails("echo no")
	assert.Contains(t, text, `"zsh"`)
	assert.Contains(t, text, "shell", "what there is")
}

func TestArgumentsThatAreNoText(t *testing.T) {
	h := newHost(t, bashes()[0])
	tl := toolbash.New(h.runner, toolbash.Options{})
	for _, raw := range []string{`{"command": 5}`, `{"command": {"a": 1}}`, `{"command": true}`, `"ls"`, `{`, `{"command": "touch ran"`, `{"command": "touch ran"} x`, `{"command": "touch ran\u0000"}`} {
		res := tl.Call(t.Context(), h.owner, tool.Call{Arguments: json.RawMessage(raw)})
		assert.True(t, res.IsError, raw)
		assert.True(t, strings.HasPrefix(res.Text, "Error: "), "%s: %s", raw, res.Text)
		assert.ErrorIs(t, res.Structured.(persistent.Result).Err(), terminals.InvalidArgument, raw)
	}
	assert.NoFileExists(t, filepath.Join(h.dir, "ran"))
	// Escapes of JSON are the text's own characters.
	res := tl.Call(t.Context(), h.owner, tool.Call{Arguments: json.RawMessage(`{"command": "printf '\u00e9\t\ud83d\ude42\u001b\n'"}`)})
	assert.Equal(t, "é\t🙂\x1b\n", res.Structured.(persistent.Result).Output)
}

func TestCallThatIsOverBeforeItBegins(t *testing.T) {
	h := newHost(t, bashes()[0])
	stop := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	for range 2 { // without and with a live shell
		a := h.runCtx(ctx, "touch ran")
		assert.Equal(t, persistent.Cancelled, a.Reason)
		assert.ErrorIs(t, a.Err(), stop)
		h.expect("ls", "", 0)
	}
	r := h.runner.Run(t.Context(), nil, persistent.Command{Text: "echo no"})
	assert.ErrorIs(t, r.Err(), terminals.OwnerNotLive)
}

// A call that is cancelled while it waits for its turn never runs, and the
// others keep their order.
func TestCancelInTheQueue(t *testing.T) {
	h := newHost(t, bashes()[0])
	stop := errors.New("no longer needed")
	a := h.during("echo $((40+2)); until [ -e go ]; do sleep 0.02; done", "42", func() {
		ctx, cancel := context.WithCancelCause(t.Context())
		queued, placed := make(chan persistent.Result, 1), make(chan struct{})
		go func() {
			queued <- h.runner.Run(ctx, h.owner, persistent.Command{Text: "touch ran", Placed: func() { close(placed) }})
		}()
		<-placed
		cancel(stop)
		r := <-queued
		assert.Equal(t, persistent.Cancelled, r.Reason)
		assert.ErrorIs(t, r.Err(), stop)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
	})
	assert.Equal(t, code(0), a.ExitCode)
	h.expect("ls", "go\n", 0)
}

// The end of the service ends a running command with its own cause.
func TestServiceEndsUnderACommand(t *testing.T) {
	h := newHost(t, bashes()[0])
	mark := newMark("33")
	a := h.during("echo $((40+2)); sleep "+mark, "42", func() {
		require.NoError(t, h.service.Dispose(context.Background()))
	})
	assert.Equal(t, persistent.Cancelled, a.Reason, "%+v", a.Result)
	assert.ErrorIs(t, a.Err(), terminals.ServiceDisposing)
	assert.Equal(t, "42\n", a.exact)
	assert.NotContains(t, a.Text, "fresh shell")
	assert.Empty(t, having("sleep\x00"+mark))
	assert.Contains(t, []terminals.Code{terminals.ServiceDisposing, terminals.OwnerNotLive}, terminals.CodeOf(h.run("echo no").Err()))
}

// smallDisk mounts a file system of 64 KiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("this system lets nobody mount a small file system: %s", strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

// The result is whole, as far as it is retained, and names why there is no file.
func TestSpillThatCannotBeSaved(t *testing.T) {
	for _, tt := range []struct {
		name, why string
		dir       func(t *testing.T) string
	}{
		{"full", "no space left on device", smallDisk},
		{"read_only", "read-only file system", func(t *testing.T) string {
			dir := smallDisk(t)
			require.NoError(t, exec.Command("mount", "-o", "remount,ro", dir).Run())
			return dir
		}},
		{"no_files_there", "no such file or directory", func(t *testing.T) string {
			if _, err := os.Stat("/proc/self"); err != nil {
				t.Skip("this system has no /proc")
			}
			return "/proc/shellstead"
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tt.dir(t)
			h := newHost(t, bashes()[0], func(_ *engine.Config, p *persistent.Config) { p.MaxOutputChars, p.SpillDir = 20, dir })
			h.expect("kept=yes", "", 0)
			for range 2 {
				a := h.expect("yes | head -c 1000000; (exit 3)", strings.Repeat("y\n", 500000), 3)
				assert.Equal(t, strings.Repeat("y\n", 10)+"[exit code: 3]\n[output clipped: 20 of 1000000 characters shown]\n[full output not saved: "+a.saved(t)+"]", a.Text)
				assert.Contains(t, a.Text, tt.why)
				assert.Empty(t, a.OutputFile)
			}
			left, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
			assert.Empty(t, left, "half an output stays")
			h.expect("echo $kept", "yes\n", 0)
			require.NoError(t, h.service.Dispose(context.Background()))
			left, _ = filepath.Glob(filepath.Join(dir, "*"))
			assert.Empty(t, left)
		})
	}
}

// saved is the reason in the notice about the spill.
func (a answer) saved(t *testing.T) string {
	t.Helper()
	_, why, found := strings.Cut(a.Text, "[full output not saved: ")
	require.True(t, found, a.Text)
	return strings.TrimSuffix(why, "]")
}

func TestSpillFolderThatWasRemoved(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, bashes()[0], func(_ *engine.Config, p *persistent.Config) { p.MaxOutputChars, p.SpillDir = 20, dir })
	for range 3 {
		a := h.expect("seq 1000", seq(1000), 0)
		saved, err := os.ReadFile(a.OutputFile)
		require.NoError(t, err)
		assert.Equal(t, seq(1000), string(saved))
		require.NoError(t, os.RemoveAll(dir))
	}
}

// Where programs cannot be handed to a shell the answer says so, and the shell
// goes on with what fits.
func TestDiskFullForThePrograms(t *testing.T) {
	dir := smallDisk(t)
	t.Setenv("TMPDIR", dir)
	h := newHost(t, bashes()[0])
	h.expect("kept=yes", "", 0)
	a := h.run("echo no #" + strings.Repeat("x", 1<<20))
	assert.Equal(t, persistent.Failed, a.Reason, "%+v", a.Result)
	assert.Contains(t, a.Text, "no space left on device")
	assert.Contains(t, a.Text, "TMPDIR")
	assert.Empty(t, a.exact)
	h.expect("echo small", "small\n", 0)
	left, err := filepath.Glob(filepath.Join(dir, "*", "c*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestNoFolderForThePrograms(t *testing.T) {
	h := newHost(t, bashes()[0])
	t.Setenv("TMPDIR", "/proc/nonexistent/tmp")
	text := h.fails("echo no")
	assert.Contains(t, text, "TMPDIR")
	assert.Contains(t, text, "/proc/nonexistent/tmp")
}

// Program files are private while they exist and gone when the command is over,
// however it ends.
func TestProgramFilesAreRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(tmp, "shellstead-*", "*"))
		require.NoError(t, err)
		return found
	}
	h := newHost(t, bashes()[0])
	h.during("echo $((40+2)); until [ -e go ]; do sleep 0.02; done", "42", func() {
		for _, file := range files() {
			info, err := os.Stat(file)
			require.NoError(t, err)
			assert.Zero(t, info.Mode().Perm()&0o077, file)
			info, err = os.Stat(filepath.Dir(file))
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		}
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
	})
	assert.Empty(t, files())
	h.run("echo \"unbalanced")
	assert.Empty(t, files())
	h.run("exit 3")
	h.run("kill -9 $$")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	h.runCtx(ctx, "sleep 60")
	assert.Empty(t, files())
	require.NoError(t, h.service.Dispose(context.Background()))
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Two hosts with one configuration do not meet.
func TestTwoHostsWithOneConfiguration(t *testing.T) {
	dir := t.TempDir()
	same := func(_ *engine.Config, p *persistent.Config) { p.MaxOutputChars, p.SpillDir = 10, dir }
	one, two := newHost(t, bashes()[0], same), newHost(t, bashes()[0], same)
	one.expect("x=one", "", 0)
	two.expect("x=two", "", 0)
	a, b := one.expect("seq 100; echo $x", seq(100)+"one\n", 0), two.expect("seq 100; echo $x", seq(100)+"two\n", 0)
	assert.NotEqual(t, a.OutputFile, b.OutputFile)
	require.NoError(t, one.service.Dispose(context.Background()))
	assert.NoFileExists(t, a.OutputFile)
	saved, err := os.ReadFile(b.OutputFile)
	require.NoError(t, err)
	assert.Equal(t, seq(100)+"two\n", string(saved))
	two.expect("echo $x", "two\n", 0)
}

// A session's marker is a secret of its own: another one's is output, and its
// own, printed by a command, ends nothing.
//
// Case: T24 F02 (amanthanvi/noctty PR#169)
func TestMarkersInTextAndOutput(t *testing.T) {
	provable(t)
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		one, two := newHost(t, path), newHost(t, path)
		const print = `printf '%s' "${__shs_1%A;}D;$__shs_n;0;5.2;;/${__shs_2}${__shs_1}$__shs_n;0${__shs_2}" >f`
		one.expect(print, "", 0)
		foreign, err := os.ReadFile(filepath.Join(one.dir, "f"))
		require.NoError(t, err)
		require.Contains(t, string(foreign), "\x1b]7771;")
		two.expect("cat "+filepath.Join(one.dir, "f")+"; (exit 6)", string(foreign), 6)
		two.expect("cat <<'E'\n"+string(foreign)+"\nE", string(foreign)+"\n", 0)

		// The text of a command may hold the marker of the shell that runs it.
		own := string(foreign)
		one.expect(": '"+own+"'; echo $((40+2)); (exit 7)", "42\n", 7)
		for _, text := range []string{
			"cat f; sleep 0.3; echo $((40+2)); (exit 7)",
			"cat <<'E'\n" + own + "\nE\nsleep 0.3; echo $((40+2)); (exit 7)",
			"for i in 1 2 3; do cat f; sleep 0.1; done; echo $((40+2)); (exit 7)",
			"echo $((40+2)); cat f; (exit 7)",
		} {
			a := one.run(text)
			assert.Contains(t, a.exact, "42\n", text)
			assert.Equal(t, code(7), a.ExitCode, text)
			one.expect("echo next", "next\n", 0)
		}
	})
}

// What comes while the shell ends is kept; what a survivor prints afterwards
// delays nothing.
func TestOutputAtTheShellsEnd(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		t.Parallel()
		h := newHost(t, path)
		a := h.run("trap 'seq 20000' EXIT; echo first; exit 2")
		assert.Equal(t, persistent.ShellExited, a.Reason)
		assert.Equal(t, "first\n"+seq(20000), a.exact)
		assert.Equal(t, code(2), a.ExitCode)

		a = h.run("(trap '' HUP TERM; sleep 30; echo late) & exit 4")
		assert.Equal(t, persistent.ShellExited, a.Reason)
		assert.Empty(t, a.exact)
		assert.Equal(t, code(4), a.ExitCode)
		assert.Less(t, a.DurationMs, int64(15000))

		// An exit trap that never ends is bounded like a command.
		r := h.runner.Run(t.Context(), h.owner, persistent.Command{Text: "trap 'echo trapped; sleep 60' EXIT; exit 2", Timeout: time.Second})
		assert.Equal(t, persistent.TimedOut, r.Reason)
		assert.Equal(t, "trapped\n", r.Output)
		h.expect("echo fresh", "fresh\n", 0)
	})
}

// A reader of the stream that is slow holds the program up, and neither the
// timeout nor the next command.
func TestReaderThatBlocks(t *testing.T) {
	h := newHost(t, bashes()[0], func(_ *engine.Config, p *persistent.Config) { p.OnTimeout = persistent.Interrupt })
	block := make(chan struct{})
	began := time.Now()
	r := h.runner.Run(t.Context(), h.owner, persistent.Command{Text: "yes", Timeout: time.Second, Stream: func([]byte) { <-block }})
	assert.Equal(t, persistent.TimedOut, r.Reason)
	assert.Less(t, time.Since(began), 20*time.Second)
	close(block)
	h.expect("echo next", "next\n", 0)
}
