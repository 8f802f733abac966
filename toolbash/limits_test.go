//go:build unix

package toolbash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolbash"
)

// Case: F84 (anthropics/claude-code#87439, #88702, anomalyco/opencode#49169)
func TestTimeoutOfAProgramThatIgnoresSignals(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		// The teardown alone takes longer than the test allows.
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.DisposeGrace = 6 * time.Second })
		h.expect("true", "", 0)
		began := time.Now()
		r := h.runner.Run(context.Background(), h.owner, persistent.Command{
			Text:    `sh -c 'trap "" INT TERM HUP; echo deaf; while :; do sleep 1; done'`,
			Timeout: time.Second,
		})
		assert.Less(t, time.Since(began), 5*time.Second)
		assert.Equal(t, persistent.TimedOut, r.Reason)
		assert.Equal(t, "deaf\n", r.Output)
		assert.Contains(t, r.Text, "[timed out after 1000 ms; the shell was reset]")
		h.expect("echo next", "next\n", 0)
		assert.Less(t, time.Since(began), 5*time.Second, "the next command does not wait for the old shell")
	})
}

// Case: F61 (openai/codex#6415)
func TestBothEndsOfALongOutput(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path, func(_ *engine.Config, p *persistent.Config) {
			p.Clip, p.MaxOutputChars, p.SpillDir = persistent.Middle, 100, t.TempDir()
		})
		a := h.run("seq 100000; echo FATAL >&2; false")
		total := len(a.exact)
		assert.True(t, strings.HasPrefix(a.Text, "1\n2\n3\n"), a.Text)
		assert.True(t, strings.HasSuffix(a.Text, fmt.Sprintf(
			"\n99999\n100000\nFATAL\n[exit code: 1]\n[output clipped: 100 of %d characters shown; full output: %s]", total, a.OutputFile)), a.Text)
		assert.Contains(t, a.Text, fmt.Sprintf("\n[... %d characters left out ...]\n", total-100))
		saved, err := os.ReadFile(a.OutputFile)
		require.NoError(t, err)
		assert.Equal(t, a.exact, string(saved))
		info, err := os.Stat(a.OutputFile)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

		require.NoError(t, h.service.DisposeOwner(context.Background(), h.owner))
		assert.NoDirExists(t, filepath.Dir(a.OutputFile))
	})
}

// Case: F63 (anthropics/claude-code#65789, #31700)
func TestFloodDoesNotFillTheDisk(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path, func(_ *engine.Config, p *persistent.Config) {
			p.SpillMaxBytes, p.SpillDir = 1<<20, t.TempDir()
		})
		r := h.runner.Run(context.Background(), h.owner, persistent.Command{Text: "yes", Timeout: 2 * time.Second})
		assert.Equal(t, persistent.TimedOut, r.Reason)
		info, err := os.Stat(r.OutputFile)
		require.NoError(t, err)
		assert.EqualValues(t, 1<<20, info.Size())
		assert.Contains(t, r.Text, "[full output saved up to 1048576 bytes: "+r.OutputFile+"]")
	})
}

// Case: F65 (anthropics/claude-code#23540)
func TestProgressBarIsOneFrame(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run(`for i in 1 2 3 4 5 6 7 8 999; do printf '\r%d' $i; done`)
		assert.Equal(t, "999", a.Text)
		assert.Equal(t, "\r1\r2\r3\r4\r5\r6\r7\r8\r999", a.Output)
	})
}

// A spill directory that cannot be written costs the file, not the result.
func TestSpillDirectoryThatIsAFile(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		h := newHost(t, path, func(_ *engine.Config, p *persistent.Config) { p.MaxOutputChars, p.SpillDir = 4, file })
		a := h.run("seq 10")
		assert.Equal(t, "1\n2\n[output clipped: 4 of 21 characters shown]\n[full output not saved: "+file+": not a directory]", a.Text)
		assert.Equal(t, 0, *a.ExitCode)
	})
}

func TestPrestartedShell(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		require.NoError(t, h.runner.Prestart(context.Background(), h.owner))
		started := h.session().PID()
		h.expect("echo $$ $?", fmt.Sprintf("%d 0\n", started), 0)
	})
}

// The tool over a real shell: what a model sends and what it reads.
func TestToolCalls(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		bash := toolbash.New(h.runner, toolbash.Options{})
		call := func(ctx context.Context, command string, progress func(string)) tool.Result {
			arguments, err := json.Marshal(map[string]string{"command": command})
			require.NoError(t, err)
			return bash.Call(ctx, h.owner, tool.Call{Arguments: arguments, Progress: progress})
		}
		assert.Equal(t, "", call(t.Context(), "mkdir d && cd d && x=5", nil).Text)
		assert.Equal(t, "5 in "+h.dir+"/d\n", call(t.Context(), `echo "$x in $PWD"`, nil).Text)
		assert.Equal(t, "[exit code: 7]", call(t.Context(), "(exit 7)", nil).Text)

		res := call(t.Context(), "echo a\x00b", nil)
		assert.True(t, res.IsError)
		assert.Contains(t, res.Text, "NUL")
		assert.Equal(t, "INVALID_ARGUMENT", res.Structured.(persistent.Result).Error.Code)

		// A cancellation keeps its own cause, what was printed, and the shell.
		stop := errors.New("the user pressed stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		res = call(ctx, "echo begun; sleep 60", func(text string) {
			assert.Equal(t, "begun\n", text)
			cancel(stop)
		})
		assert.True(t, res.IsError)
		assert.ErrorIs(t, res.Structured.(persistent.Result).Err(), stop)
		assert.Equal(t, "Error: the user pressed stop\nbegun\n", res.Text)
		assert.Equal(t, "5\n", call(t.Context(), "echo $x", nil).Text)
	})
}
