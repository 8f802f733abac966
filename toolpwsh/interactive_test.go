//go:build linux

package toolpwsh_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// terminal is a shell as a person would use it.
type terminal struct {
	t       testing.TB
	session terminals.Session
	dir     string
}

func openTerminal(t testing.TB, d pwsh.Dialect, path string, opts ...option) *terminal {
	t.Helper()
	h := dialecttest.NewHost(t, d, path, opts...)
	info, err := h.Service.Open(context.Background(), h.Owner, terminals.OpenRequest{Type: "shell", Cwd: h.Dir})
	require.NoError(t, err)
	s, err := h.Service.Session(h.Owner, info.SessionID)
	require.NoError(t, err)
	return &terminal{t, s, h.Dir}
}

// start types text and Enter.
func (x *terminal) start(ctx context.Context, text string, submit bool) terminals.Send {
	x.t.Helper()
	s, err := x.session.StartSend(ctx, terminals.SendRequest{Text: text, Submit: submit})
	require.NoError(x.t, err)
	return s
}

func (x *terminal) result(s terminals.Send) terminals.SendResult {
	x.t.Helper()
	select {
	case <-s.Done():
	case <-time.After(dialecttest.Patience):
		x.t.Fatal("the send did not end")
	}
	r, err := s.Result()
	require.NoError(x.t, err)
	return r
}

// send types text and Enter and waits for the end.
func (x *terminal) send(text string) terminals.SendResult {
	x.t.Helper()
	return x.result(x.start(context.Background(), text, true))
}

func (x *terminal) prompt() string { return "PS " + x.dir + "> " }

// expect types text and checks everything that the terminal showed for it.
func (x *terminal) expect(text, output string) {
	x.t.Helper()
	r := x.send(text)
	assert.Equal(x.t, terminals.StdinRead, r.WaitReason, "%q: %+v", text, r)
	assert.Nil(x.t, r.NeedsInput, "%q", text)
	assert.Equal(x.t, text+"\n"+output+x.prompt(), r.Viewport, "%q", text)
}

// eachTransport runs f for each shell, over its private channel and typed.
func eachTransport(t *testing.T, f func(t *testing.T, d pwsh.Dialect, path string)) {
	eachShell(t, func(t *testing.T, path string) {
		t.Run("channel", func(t *testing.T) { f(t, pwsh.Dialect{}, path) })
		t.Run("typed", func(t *testing.T) { f(t, pwsh.Dialect{Typed: true}, path) })
	})
}

func TestInteractive(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		home := t.TempDir()
		x := openTerminal(t, d, path, func(e *engine.Config, _ *persistent.Config) { e.Env = []string{"HOME=" + home} })
		assert.Equal(t, x.prompt(), x.session.Startup())
		x.expect("1+1", "2\n")
		x.expect("$x = 'é漢🙂'; $x", "é漢🙂\n")
		x.expect("/bin/sh -c 'exit 7'; $LASTEXITCODE", "7\n")
		x.expect("'a'; Write-Host -NoNewline b; '漢'", "a\nb漢\n")
		x.expect("/bin/echo native", "native\n")
		x.expect("", "")
		r := x.send("throw 'boo'")
		assert.Contains(t, r.Viewport, "Exception: boo\n"+x.prompt())
		r = x.send("1 +* 2")
		assert.Contains(t, r.Viewport, "ParserError")
		assert.NotContains(t, r.Viewport, "__shs")
		r = x.send("cd /")
		assert.Equal(t, "cd /\nPS /> ", r.Viewport)

		left, err := filepath.Glob(filepath.Join(home, ".local/share/powershell/PSReadLine/*"))
		require.NoError(t, err)
		assert.Empty(t, left, "the history is a person's own")

		r = x.send("exit 3")
		assert.Equal(t, terminals.SessionExit, r.WaitReason)
		require.True(t, r.Status.Exited)
		assert.Equal(t, 3, *r.Status.ExitCode)
	})
}

// Keys that edit the line, and those that must not.
func TestInteractiveKeys(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		x := openTerminal(t, pwsh.Dialect{}, path)
		for _, tt := range []struct{ keys, viewport string }{
			{"'axx\x7f\x08b'", "'ab'\nab\n"},
			{"'é漢🙂\x7f\x7f'", "'é'\né\n"},
			{"nonsense\x15'c'", "'c'\nc\n"},
			{"'d\x1b[D\x1b[1;5C\x1bOA\x1b[200~e'", "'de'\nde\n"},
			{"\x7f\x15'f\x04\x00\x07g'", "'fg'\nfg\n"},
			{"'a\tb'.Length", "'a\tb'.Length\n3\n"},
			{"left\x03'h'", "left^C\n" + x.prompt() + "'h'\nh\n"},
			{"'" + strings.Repeat("long ", 2000) + "'.Length", "'" + strings.Repeat("long ", 2000) + "'.Length\n10000\n"},
		} {
			r := x.send(tt.keys)
			assert.Equal(t, terminals.StdinRead, r.WaitReason, "%q: %+v", tt.keys, r)
			assert.Equal(t, tt.viewport+x.prompt(), r.Viewport, "%q", tt.keys)
		}
		r := x.send("'a'\r\n'b'\n'c'")
		assert.Equal(t, "'a'\na\n"+x.prompt()+"'b'\nb\n"+x.prompt()+"'c'\nc\n"+x.prompt(), r.Viewport)

		r = x.result(x.start(context.Background(), "\x04", false))
		assert.Equal(t, terminals.SessionExit, r.WaitReason)
		assert.Equal(t, 0, *r.Status.ExitCode)
	})
}

// A terminal that lives on.
func TestInteractiveDialogue(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		x := openTerminal(t, pwsh.Dialect{}, path)
		for name, part := range map[string]func(*testing.T, *terminal){"continuation": continuation, "questions": questions, "interrupts": interrupts} {
			t.Run(name, func(t *testing.T) { part(t, &terminal{t, x.session, x.dir}) })
		}
	})
}

// Text that is incomplete asks for more, and can be given up.
func continuation(t *testing.T, x *terminal) {
	for _, text := range []string{"if ($true) {", "'middle'"} {
		r := x.send(text)
		assert.Equal(t, terminals.StdinRead, r.WaitReason, "%+v", r)
		require.NotNil(t, r.NeedsInput, "%+v", r)
		assert.Equal(t, terminals.ContinuationInput, r.NeedsInput.Kind)
		assert.Equal(t, text+"\n>> ", r.Viewport)
		assert.Equal(t, ">> ", r.NeedsInput.Prompt)
	}
	x.expect("}", "middle\n")
	r := x.send("@'")
	require.NotNil(t, r.NeedsInput)
	r = x.result(x.start(context.Background(), "\x03", false))
	assert.Equal(t, terminals.StdinRead, r.WaitReason)
	assert.Nil(t, r.NeedsInput)
	assert.Equal(t, "^C\n"+x.prompt(), r.Viewport)
	x.expect("'alive'", "alive\n")
}

// Programs that ask read what is typed.
func questions(t *testing.T, x *terminal) {
	for _, tt := range []struct {
		text, answer, output string
		kind                 terminals.InputKind
		prompt               string
	}{
		{"$n = Read-Host 'name'; \"<$n>\"", "bob", "<bob>\n", terminals.LineInput, "name: "},
		{"/bin/sh -c 'read x; echo \"<$x>\"'", "bob", "<bob>\n", terminals.LineInput, ""},
		{"$s = Read-Host 'Password' -AsSecureString; $s.Length", "bob", "3\n", terminals.SecretInput, "Password: "},
	} {
		r := x.send(tt.text)
		assert.Equal(t, terminals.StdinRead, r.WaitReason, "%+v", r)
		require.NotNil(t, r.NeedsInput, "%+v", r)
		assert.Equal(t, tt.kind, r.NeedsInput.Kind, tt.text)
		assert.Equal(t, tt.prompt, r.NeedsInput.Prompt, tt.text)
		r = x.send(tt.answer)
		assert.Equal(t, terminals.StdinRead, r.WaitReason, "%+v", r)
		assert.Nil(t, r.NeedsInput)
		assert.True(t, strings.HasSuffix(r.Viewport, "\n"+tt.output+x.prompt()), "%q", r.Viewport)
	}
}

func interrupts(t *testing.T, x *terminal) {
	x.expect("$kept = 'yes'", "")
	pid := x.session.PID()
	stop := errors.New("stop")
	for _, text := range []string{"Start-Sleep 60; 'no'", "/bin/sleep 60; 'no'", "while ($true) {}"} {
		// By a cancelled send.
		ctx, cancel := context.WithCancelCause(context.Background())
		s := x.start(ctx, "$null > '"+filepath.Join(x.dir, "begun")+"'; "+text, true)
		appears(t, filepath.Join(x.dir, "begun"))
		cancel(stop)
		select {
		case <-s.Done():
		case <-time.After(dialecttest.Patience):
			t.Fatal(text)
		}
		require.NoError(t, os.Remove(filepath.Join(x.dir, "begun")))
		x.expect("\"kept=$kept\"", "kept=yes\n")
	}
	// By a signal.
	s := x.start(context.Background(), "$null > begun; Start-Sleep 60; 'no'", true)
	appears(t, filepath.Join(x.dir, "begun"))
	_, err := x.session.Signal(context.Background(), terminals.SIGINT)
	require.NoError(t, err)
	r := x.result(s)
	assert.Equal(t, terminals.StdinRead, r.WaitReason)
	assert.NotContains(t, r.Viewport, "no\n")
	x.expect("\"kept=$kept\"", "kept=yes\n")
	// By the key, which a question of the shell's own takes as one.
	r = x.send("Read-Host 'x'; 'no'")
	require.NotNil(t, r.NeedsInput, "%+v", r)
	r = x.result(x.start(context.Background(), "\x03", false))
	assert.Equal(t, terminals.StdinRead, r.WaitReason, "%+v", r)
	assert.Nil(t, r.NeedsInput)
	assert.NotContains(t, r.Viewport, "no\n")
	x.expect("\"kept=$kept\"", "kept=yes\n")
	assert.Equal(t, pid, x.session.PID())
}
