package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend/conpty/conptytest"
)

// needPwsh skips a test without PowerShell, and fails it where that has to be.
func needPwsh(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("pwsh"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("pwsh is not installed")
		}
		t.Skip("pwsh is not installed; name one in SHELLSTEAD_TEST_PWSH")
	}
}

// native is the command that runs one of natives.
func native(name string) string {
	command := "&"
	for _, word := range conptytest.Self(name) {
		command += " '" + strings.ReplaceAll(word, "'", "''") + "'"
	}
	return command
}

// run runs the program with args and returns its exit code and what it printed.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runWith(t, "", args...)
}

func runWith(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t), append([]string{"run", "--cwd", t.TempDir()}, args...)...)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &err
	_ = cmd.Run()
	require.NotNil(t, cmd.ProcessState)
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// ended is what a program's result says.
type ended struct {
	Output   string `json:"output"`
	ExitCode *int   `json:"exitCode"`
	Reason   string `json:"reason"`
	Error    any    `json:"error"`
}

func results(t *testing.T, lines string) []ended {
	t.Helper()
	var all []ended
	for line := range strings.Lines(lines) {
		var e ended
		require.NoError(t, json.Unmarshal([]byte(line), &e), "%s", line)
		all = append(all, e)
	}
	return all
}

// Commands of one shell, one after another.
//
// Case: W3 W4 W6 W7 W10 W11 W15
func TestRunOnWindows(t *testing.T) {
	needPwsh(t)
	steps := []struct {
		command, output string
		code            int
	}{
		{"$x = 5", "", 0},
		{"$x", "5\r\n", 0},
		{"cmd /c exit 5", "", 5},
		{"cmd /c exit -1", "", -1},
		{"'x'", "x\r\n", 0},
		{"throw 'gone'", "Exception: gone\r\n", 1},
		{"@\"\n$x a\n\n  b'\"`t|\n\"@", "5 a\n\n  b'\"\t|\r\n", 0},
		{"@'\n$x é漢🙂\n'@", "$x é漢🙂\r\n", 0},
		{"cmd /c 'echo é漢'", "é漢\r\n", 0},
		{"$y = 'ünï'; \"$y $($y.Length)\"", "ünï 3\r\n", 0},
		{native("streams"), strings.Repeat("oe", 5), 0},
		{native("flood"), strings.Repeat("x", 1<<20), 0},
		{"[Console]::Write('a'); [Console]::Error.Write('b'); Write-Host -NoNewline c; 'd'", "abcd\r\n", 0},
		{"Write-Progress x -PercentComplete 5; Write-Host -NoNewline abc", "abc", 0},
		{"[Console]::Write(\"a`tb  \")", "a\tb  ", 0},
		{"cd C:\\; $PWD.Path", "C:\\\r\n", 0},
		{"$PWD.Path", "C:\\\r\n", 0},
		{"if ($x) {", "", 1},
		{"$env:DSH_SHELL; $env:SystemRoot.Length -gt 0", "1\r\nTrue\r\n", 0},
	}
	var input strings.Builder
	for _, s := range steps {
		line, err := json.Marshal(map[string]string{"command": s.command})
		require.NoError(t, err)
		input.Write(append(line, '\n'))
	}
	_, out, stderr := runWith(t, input.String(), "--jsonl", "--max-output", "2000000")
	got := results(t, out)
	require.Len(t, got, len(steps), stderr)
	for i, s := range steps {
		if s.command != "if ($x) {" { // the message is PowerShell's
			assert.Equal(t, s.output, got[i].Output, "%.100s", s.command)
		}
		if assert.NotNil(t, got[i].ExitCode, "%.100s: %+v", s.command, got[i]) {
			assert.Equal(t, s.code, *got[i].ExitCode, "%.100s", s.command)
		}
	}
}

// A program's text of any size goes in, and bytes come out as they were written.
func TestRunIsTransparentOnWindows(t *testing.T) {
	needPwsh(t)
	text := strings.Repeat("0123456789abcdé\n", 1<<16)
	line, err := json.Marshal(map[string]string{"command": "$t = @'\n" + text + "'@; $t.Length; [Console]::Write($t)"})
	require.NoError(t, err)
	require.Greater(t, len(line), 1<<20)
	_, out, stderr := runWith(t, string(line)+"\n", "--jsonl", "--max-output", "2000000")
	got := results(t, out)
	require.Len(t, got, 1, stderr)
	want := strings.TrimSuffix(text, "\n")
	assert.Equal(t, fmt.Sprint(len([]rune(want)))+"\r\n"+want, got[0].Output)

	code, out, _ := run(t, native("bytes"))
	assert.Equal(t, "\x00\x01\xff\x80\r\n\t\x1b[31mz\n", out)
	assert.Zero(t, code)
}

// Case: W5
func TestRunEndsAsItsLastCommand(t *testing.T) {
	needPwsh(t)
	code, out, stderr := run(t, "exit 7", "\"fresh $([bool]$PID)\"", "cmd /c exit 3")
	assert.Equal(t, 3, code)
	assert.Equal(t, "fresh True\r\n", out)
	assert.Contains(t, stderr, "[shell exited: code 7]")
	assert.Contains(t, stderr, "fresh shell")

	code, _, _ = run(t, "exit 7")
	assert.Equal(t, 7, code)
}

// Whoever asks is answered, PowerShell itself and a native program.
//
// Case: W12
func TestRunAnswersOnWindows(t *testing.T) {
	needPwsh(t)
	code, out, stderr := run(t, "--answer", "bob", "--answer", "alice", "$n = Read-Host who; \"hi $n\"", native("ask"))
	assert.Equal(t, "hi bob\r\nname? native \"alice\\r\\n\"", out, stderr)
	assert.Zero(t, code)

	code, _, stderr = run(t, "Read-Host who")
	assert.Equal(t, exitWaiting, code)
	assert.Contains(t, stderr, "[waiting for input: pwsh")
}

// What runs is interrupted and the shell kept, even by a program that was started
// in a way that has it, and all that it starts, ignore Ctrl-C.
//
// Case: K10 W8
func TestRunTimesOutOnWindows(t *testing.T) {
	needPwsh(t)
	cmd := exec.Command(program(t), "run", "--timeout", "2000", "--on-timeout", "interrupt", "$y = 1; Start-Sleep 100", native("sleep"), "\"y=$y\"")
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	began := time.Now()
	require.NoError(t, cmd.Run())
	assert.Equal(t, "y=1\r\n", out.String())
	assert.Equal(t, 2, strings.Count(stderr.String(), "the program was interrupted and the shell kept"), &stderr)
	assert.Less(t, time.Since(began), 100*time.Second)
}

func TestDoctorOnWindows(t *testing.T) {
	needPwsh(t)
	out, err := exec.Command(program(t), "doctor", "--json").Output()
	require.NoError(t, err, "%s", out)
	var report checkup
	require.NoError(t, json.Unmarshal(out, &report))
	assert.True(t, report.OK)
	health := map[string]check{}
	for _, c := range report.Checks {
		health[c.Name] = c
	}
	for _, name := range []string{"shell shell", "shell pwsh", "driver conpty", "host death", "temporary folder"} {
		assert.Equal(t, works, health[name].Health, "%s: %s", name, health[name].Detail)
	}
	assert.Contains(t, health["shell pwsh"].Detail, "pwsh.exe 7.")
}

// cmdType is a configuration file with a terminal type for cmd.exe.
func cmdType(t *testing.T) string {
	t.Helper()
	line := conptytest.Console(os.Getenv("ComSpec"))
	config, err := json.Marshal(map[string]any{"backends": []any{map[string]any{
		"type": "cmd", "shellDialect": "none", "shellPath": line[0], "shellArgs": line[1:],
		"timeoutMs": 60000, "idleSilenceMs": 60000, // a guess must not pass for a proof
	}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	return file
}

// terminalsClient is a client of every tool, with the type cmd.
func terminalsClient(t *testing.T, args ...string) (worked, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(program(t), append([]string{"mcp", "--config", cmdType(t), "--cwd", t.TempDir()}, args...)...)
	return worked{t, clientOf(t, cmd, nil)}, cmd
}

// The six tools on PowerShell as a person has it, and on a program that is no
// shell of ours.
func TestTerminalsOnWindows(t *testing.T) {
	needPwsh(t)
	w, _ := terminalsClient(t, "--tools", "terminal")
	for _, c := range []struct{ typ, set, get, ask, answered, busy string }{
		{"cmd", "set greeting=hello", "echo %greeting%-%greeting%", "set /p x=who", "echo [%x%]",
			windows.ComposeCommandLine(conptytest.Self("doze"))},
		{"shell", "$greeting = 'hello'", "\"$greeting-$greeting\"", "$x = Read-Host who", "\"[$x]\"",
			"'aslee' + 'p.'; Start-Sleep 100"},
	} {
		t.Run(c.typ, func(t *testing.T) {
			w := worked{t, w.session}
			id := w.open(c.typ)
			w.send(id, c.set)
			_, fields := w.send(id, c.get)
			assert.Contains(t, fields["viewport"], "hello-hello")
			_, fields = w.send(id, c.ask)
			assert.Contains(t, fields["viewport"], "who")
			w.send(id, "bob")
			_, fields = w.send(id, c.answered)
			assert.Contains(t, fields["viewport"], "[bob]")

			text, fields := w.call("terminal_read", map[string]any{"sessionId": id, "count": 1000})
			assert.Contains(t, text, "hello-hello")
			assert.NotContains(t, text, "\x1b")
			assert.NotZero(t, fields["totalLines"])

			text, _ = w.call("terminal_list", nil)
			assert.Contains(t, text, id+" ["+c.typ+"] running")

			if c.typ != "cmd" || !conptytest.Wine() { // there cmd.exe takes it for the end of its input
				_, fields = w.call("terminal_send", map[string]any{"sessionId": id, "text": c.busy, "run_in_background": true})
				task := map[string]any{"task_id": fields["taskId"], "wait": true, "timeout_ms": 100}
				for text = ""; !strings.Contains(text, "asleep."); {
					more, _ := w.call("task_output", task)
					text += more
				}
				_, fields = w.call("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGINT"})
				assert.Equal(t, true, fields["delivered"])
				task["timeout_ms"] = patience.Milliseconds()
				text, _ = w.call("task_output", task)
				assert.Contains(t, text, "[status: completed, wait: stdin_read]")
				_, fields = w.send(id, c.get)
				assert.Contains(t, fields["viewport"], "hello-hello", "it lives on")
			}
			res, err := w.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "terminal_signal",
				Arguments: map[string]any{"sessionId": id, "signal": "SIGTSTP"}})
			require.NoError(t, err)
			assert.True(t, res.IsError)
			assert.Contains(t, textOf(t, res), "SIGINT", "what works is named")

			text, fields = w.call("terminal_send", map[string]any{"sessionId": id, "text": "exit 3"})
			assert.Equal(t, "session_exit", fields["waitReason"])
			assert.Contains(t, text, "[session: exited code=3 signal=null]")
			w.call("terminal_close", map[string]any{"sessionId": id})
			_, fields = w.call("terminal_list", nil)
			assert.Empty(t, fields["sessions"])
		})
	}
}

// A cancelled call is interrupted, a question answered in the shell's terminal.
func TestMCPOnWindows(t *testing.T) {
	needPwsh(t)
	w, _ := terminalsClient(t, "--tools", "pwsh,terminal")
	_, fields := w.call("pwsh", map[string]any{"command": "$x = 5; cmd /c exit 3"})
	assert.EqualValues(t, 3, fields["exitCode"])

	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	file := filepath.Join(t.TempDir(), "started")
	go func() {
		_, err := w.session.CallTool(ctx, &mcp.CallToolParams{Name: "pwsh",
			Arguments: map[string]any{"command": "$null = New-Item '" + file + "'; Start-Sleep 100"}})
		failed <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, patience, 5*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	began := time.Now()
	text, _ := w.call("pwsh", map[string]any{"command": "$x"})
	assert.Equal(t, "5\n", text)
	assert.Less(t, time.Since(began), patience)

	text, fields = w.call("pwsh", map[string]any{"command": "$n = Read-Host who; \"hi $n\"; cmd /c exit 4"})
	require.Equal(t, "waiting_input", fields["reason"], text)
	text, _ = w.call("terminal_send", map[string]any{"sessionId": fields["terminalId"], "text": "bob"})
	assert.Contains(t, text, "hi bob")
	assert.Contains(t, text, "[command completed: exit code 4]")
}

// open opens the process for a question.
func open(t *testing.T, pid int, access uint32) windows.Handle {
	t.Helper()
	h, err := windows.OpenProcess(access, false, uint32(pid))
	require.NoError(t, err)
	t.Cleanup(func() { _ = windows.CloseHandle(h) })
	return h
}

var handleCount = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount")

// Two hundred terminals, or twenty in a short run, leave no handle in the program.
func TestSoakTerminalsGiveTheirHandlesBack(t *testing.T) {
	cycles := 20
	if os.Getenv("SHELLSTEAD_SOAK") != "" {
		cycles = 200
	}
	w, cmd := terminalsClient(t, "--tools", "terminal")
	server := open(t, cmd.Process.Pid, windows.PROCESS_QUERY_INFORMATION)
	count := func() (n uint32) {
		ok, _, err := handleCount.Call(uintptr(server), uintptr(unsafe.Pointer(&n)))
		require.NotZero(t, ok, err)
		return n
	}
	cycle := func() {
		id := w.open("cmd")
		w.call("terminal_close", map[string]any{"sessionId": id})
	}
	for range 10 { // the runtime makes threads until it has enough
		cycle()
	}
	before := count()
	for range cycles {
		cycle()
	}
	// Threads of the runtime that the first cycles did not need have some.
	assert.LessOrEqual(t, count(), before+15)
}

// Nothing survives a program that was killed.
//
// Case: K11
func TestKilledProgramOnWindows(t *testing.T) {
	needPwsh(t)
	s := startServer(t, exec.Command(program(t), "mcp", "--tools", "pwsh"))
	file := filepath.Join(t.TempDir(), "pids")
	s.send(toolCall(1, "pwsh", "$PID > '"+file+".part'; "+native("linger")+" | ForEach-Object { $_ >> '"+file+".part'; Copy-Item '"+file+".part' '"+file+"' }"))
	var pids []int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pids = nil
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			require.NoError(t, err)
			pids = append(pids, pid)
		}
		return len(pids) == 3
	}, patience, 5*time.Millisecond)
	var processes []windows.Handle
	for _, pid := range pids {
		processes = append(processes, open(t, pid, windows.SYNCHRONIZE))
	}
	require.NoError(t, s.cmd.Process.Kill())
	for i, h := range processes {
		event, err := windows.WaitForSingleObject(h, uint32(patience.Milliseconds()))
		require.NoError(t, err)
		assert.EqualValues(t, windows.WAIT_OBJECT_0, event, "process %d survived", pids[i])
	}
}
