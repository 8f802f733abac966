//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recordedShell is a stand-in for a shell. It writes down its process id at
// each start and becomes the program.
func recordedShell(t *testing.T, program ...string) (shell, pids string) {
	t.Helper()
	dir := t.TempDir()
	shell, pids = filepath.Join(dir, "shell"), filepath.Join(dir, "pids")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >>%s.part\ncp %s.part %s.new\nmv %s.new %s\nexec %s\n",
		pids, pids, pids, pids, pids, strings.Join(program, " "))
	require.NoError(t, os.WriteFile(shell, []byte(script), 0o700))
	return shell, pids
}

// needPwsh returns the environment in which PowerShell is tested.
func needPwsh(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("pwsh"); err != nil {
		t.Skip("PowerShell is not installed on this machine")
	}
	return append(os.Environ(), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "POWERSHELL_TELEMETRY_OPTOUT=1", "POWERSHELL_UPDATECHECK=Off")
}

func mcpCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"mcp"}, args...)...)
	cmd.Env = env
	return cmd
}

// The owner's shell starts when the owner connects, not when a tool is loaded,
// and the first call is answered by that very shell.
func TestPrestart(t *testing.T) {
	t.Parallel()
	shell, pids := recordedShell(t, "bash", `"$@"`)
	set := []string{"--tools", "bash", "--set", "backends.bash.shellPath=" + shell}
	require.NoError(t, exec.Command(program(t), append([]string{"tools"}, set...)...).Run())
	require.NoFileExists(t, pids, "a list of tools starts nothing")

	s := startRaw(t, set...)
	started := waitFor(t, pids)
	s.send(bashCall(1, "echo $$"))
	assert.Contains(t, string(s.answer("1")["result"]), fmt.Sprintf(`"text":"%d\n"`, started[0]))
	assert.Len(t, waitFor(t, pids), 1)
}

func TestPrestartCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	shell, pids := recordedShell(t, "bash", `"$@"`)
	s := startRaw(t, "--set", "backends.bash.shellPath="+shell, "--set", "tools.bash.prestart=false")
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	s.answer("1")
	assert.NoFileExists(t, pids, "no call, no shell")
	s.send(bashCall(2, "echo $$"))
	s.answer("2")
	assert.Len(t, waitFor(t, pids), 1)
}

// run has prestart only where it is asked for.
func TestPrestartOfRun(t *testing.T) {
	t.Parallel()
	shell, pids := recordedShell(t, "bash", `"$@"`)
	p := start(t, "run", "--jsonl", "--set", "backends.bash.shellPath="+shell, "--set", "tools.bash.prestart=true")
	started := waitFor(t, pids)
	require.NoError(t, p.in.Close())
	code, out := p.exit()
	assert.Zero(t, code)
	assert.Empty(t, out)
	gone(t, started...)
}

// A client that leaves while its shell is still starting leaves nothing behind.
func TestClientLeavesDuringPrestart(t *testing.T) {
	t.Parallel()
	shell, pids := recordedShell(t, "sleep", "1000") // never gets to a prompt
	temp := t.TempDir()
	s := startServer(t, mcpCommand(t, append(os.Environ(), "TMPDIR="+temp), "--set", "backends.bash.shellPath="+shell))
	started := waitFor(t, pids)
	require.NoError(t, s.in.Close())
	require.NoError(t, s.cmd.Wait())
	assert.False(t, runs(started[0]), "the shell lives when the server has ended")
	empty(t, temp)
}

// The same with a real shell that takes its time, at different moments of it.
func TestClientLeavesDuringPrestartOfPwsh(t *testing.T) {
	t.Parallel()
	env := needPwsh(t)
	for _, moment := range []string{"at once", "when the shell has begun"} {
		t.Run(moment, func(t *testing.T) {
			shell, pids := recordedShell(t, "pwsh", `"$@"`)
			temp := t.TempDir()
			s := startServer(t, mcpCommand(t, append(env, "TMPDIR="+temp), "--tools", "pwsh", "--set", "backends.pwsh.shellPath="+shell))
			if moment != "at once" {
				waitFor(t, pids)
			}
			require.NoError(t, s.in.Close())
			require.NoError(t, s.cmd.Wait())
			if text, err := os.ReadFile(pids); err == nil { // it may never have begun
				var pid int
				_, err := fmt.Sscan(string(text), &pid)
				require.NoError(t, err)
				assert.False(t, runs(pid), "the shell lives when the server has ended")
			}
			empty(t, temp)
		})
	}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Two tools are two shells, each with its own state, both warm.
func TestMCPWithBothShells(t *testing.T) {
	t.Parallel()
	env := needPwsh(t)
	session := clientOf(t, mcpCommand(t, env, "--tools", "bash,pwsh"), nil)
	list, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, list.Tools, 2)
	assert.Equal(t, "bash", list.Tools[0].Name)
	assert.Equal(t, "pwsh", list.Tools[1].Name)

	call(t, session, "x=bash; cd /")
	res := callTool(t, session, "pwsh", "$x = 'pwsh'; cd /tmp; /bin/sh -c 'exit 3'")
	assert.False(t, res.IsError, "an exit code is a result")
	assert.Equal(t, "[exit code: 3]", textOf(t, res))
	assert.EqualValues(t, 3, structured(t, res)["exitCode"])
	assert.Equal(t, "/tmp", structured(t, res)["cwd"])
	assert.Equal(t, "pwsh\n", textOf(t, callTool(t, session, "pwsh", "$x")))
	res = call(t, session, "echo $x $PWD")
	assert.Equal(t, "bash /\n", textOf(t, res))
	assert.NotEqual(t, structured(t, res)["terminalId"], structured(t, callTool(t, session, "pwsh", "$null"))["terminalId"])

	res = callTool(t, session, "pwsh", " ")
	assert.True(t, res.IsError)
	assert.Contains(t, textOf(t, res), `"command" is empty`)
}

// Calls are served in order, also those that come while the shell starts, and
// the end of the input ends a pwsh in the middle of a command.
func TestMCPPwshOrderAndEnd(t *testing.T) {
	t.Parallel()
	env := needPwsh(t)
	s := startServer(t, mcpCommand(t, env, "--tools", "pwsh"))
	const n = 20
	var calls []string
	for i := range n {
		calls = append(calls, toolCall(i, "pwsh", fmt.Sprintf("$l += ' %d'", i)))
	}
	s.send(append(calls, toolCall(n, "pwsh", "$l; $PID"))...)
	_, after, ok := strings.Cut(string(s.answer(fmt.Sprint(n))["result"]), `"text":" `)
	require.True(t, ok)
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	digits, ok := strings.CutPrefix(after, strings.Join(want, " ")+`\n`)
	require.True(t, ok, "%s", after)
	var pid int
	_, err := fmt.Sscan(digits, &pid)
	require.NoError(t, err)
	s.send(toolCall(99, "pwsh", "while ($true) {}"))
	require.NoError(t, s.in.Close())
	_, err = io.Copy(io.Discard, s.lines)
	require.NoError(t, err)
	require.NoError(t, s.cmd.Wait())
	assert.False(t, runs(pid), "the shell lives when the server has ended")
}
