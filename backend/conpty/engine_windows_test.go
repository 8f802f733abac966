package conpty_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend/conpty/conptytest"
	"github.com/shellstead/shellstead/dialect/none"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// A terminal for a person: cmd.exe, which is ready when it reads the console.
func TestInteractiveTerminal(t *testing.T) {
	line := conptytest.Console(cmdExe)
	cfg := engine.DefaultConfig()
	cfg.ShellPath, cfg.ShellArgs, cfg.Timeout, cfg.IdleSilence = line[0], line[1:], patience, patience
	cfg.CaseInsensitiveEnv = true
	b, err := engine.New(cfg, driver(), none.Dialect{})
	require.NoError(t, err)
	s, err := b.Open(context.Background(), terminals.Setup{ID: "pty-1", Cwd: t.TempDir()})
	require.NoError(t, err)
	closed := false
	defer func() {
		if !closed {
			_ = s.Close(context.Background(), "end of the test")
		}
	}()
	send := func(text string) terminals.SendResult {
		t.Helper()
		x, err := s.StartSend(context.Background(), terminals.SendRequest{Text: text, Submit: true})
		require.NoError(t, err)
		<-x.Done()
		r, err := x.Result()
		require.NoError(t, err)
		return r
	}
	r := send("set greeting=hello")
	assert.Equal(t, terminals.StdinRead, r.WaitReason)
	r = send("echo %greeting%-%greeting%")
	assert.Equal(t, terminals.StdinRead, r.WaitReason)
	assert.Contains(t, r.Viewport, "hello-hello")
	r = send("set /p x=who")
	assert.Equal(t, terminals.StdinRead, r.WaitReason)
	assert.Contains(t, r.Viewport, "who")
	r = send("bob")
	assert.Equal(t, terminals.StdinRead, r.WaitReason)
	r = send("echo [%x%]")
	assert.Contains(t, r.Viewport, "[bob]")
	r = send("exit 3")
	assert.Equal(t, terminals.SessionExit, r.WaitReason)
	require.NotNil(t, r.Status.ExitCode)
	assert.Equal(t, 3, *r.Status.ExitCode)
	began := time.Now()
	closed = true
	require.NoError(t, s.Close(context.Background(), "end of the test"))
	assert.Less(t, time.Since(began), patience)
}

// PowerShell as it comes, with its own line editor.
func TestInteractivePwsh(t *testing.T) {
	path := os.Getenv("SHELLSTEAD_TEST_PWSH")
	if path == "" {
		t.Skip("SHELLSTEAD_TEST_PWSH names no pwsh.exe: install PowerShell 7")
	}
	cfg := engine.DefaultConfig()
	cfg.ShellPath, cfg.Timeout, cfg.IdleSilence = path, 60*time.Second, 60*time.Second
	cfg.CaseInsensitiveEnv = true
	b, err := engine.New(cfg, driver(), pwsh.Dialect{})
	require.NoError(t, err)
	s, err := b.Open(context.Background(), terminals.Setup{ID: "pty-1", Cwd: t.TempDir()})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close(context.Background(), "end of the test")) }()
	send := func(text string) terminals.SendResult {
		t.Helper()
		x, err := s.StartSend(context.Background(), terminals.SendRequest{Text: text, Submit: true})
		require.NoError(t, err)
		<-x.Done()
		r, err := x.Result()
		require.NoError(t, err)
		return r
	}
	send("$x = 40 + 2")
	r := send("\"[$x]\"")
	assert.Contains(t, r.Viewport, "[42]")
	r = send("Read-Host 'who'")
	assert.Equal(t, terminals.StdinRead, r.WaitReason)
	r = send("bob")
	assert.Contains(t, r.Viewport, "bob")
	r = send("exit 3")
	assert.Equal(t, terminals.SessionExit, r.WaitReason)
	require.NotNil(t, r.Status.ExitCode)
	assert.Equal(t, 3, *r.Status.ExitCode)
}
