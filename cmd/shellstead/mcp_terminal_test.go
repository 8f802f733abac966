//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// need skips a test without a program, and fails it where every program has to
// be.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is not installed", name)
			}
			t.Skipf("%s is not installed", name)
		}
	}
}

// The session of docs/terminals.md, step by step.
func TestWorkedSession(t *testing.T) {
	t.Parallel()
	need(t, "python3", "gdb", "cc")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sum.c"), []byte(`#include <stdio.h>
int main(void) {
	int total = 0;
	for (int i = 1; i <= 4; i++)
		total += i;
	printf("total %d\n", total);
	return 0;
}
`), 0o600))
	//lint:ignore SA1019 as the server
	messages := make(chan *mcp.LoggingMessageParams, 10)
	w := worked{t, client(t, &mcp.ClientOptions{
		//lint:ignore SA1019 as the server
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) { messages <- req.Params },
	}, "--tools", "bash,terminal", "--cwd", dir, "--set", "tools.bash.prestart=false")}

	// A REPL keeps its state.
	id := w.open("shell")
	_, fields := w.send(id, "python3 -q")
	w.waits(fields, "key", ">>> ")
	_, fields = w.send(id, "total = sum(range(5)); print('total', total)")
	assert.Contains(t, fields["viewport"], "\ntotal 10\n")

	// A block goes in as one paste.
	_, fields = w.send(id, "def twice(n):\n    return 2 * n\n\n")
	w.waits(fields, "key", ">>> ")
	_, fields = w.send(id, "print(twice(total))")
	assert.Contains(t, fields["viewport"], "\n20\n")

	// A password prompt is known as one, and what is typed there is not shown.
	_, fields = w.send(id, "import getpass; word = getpass.getpass('word: ')")
	w.waits(fields, "secret", "word: ")
	text, _ := w.send(id, "opensesame")
	assert.NotContains(t, text, "opensesame")
	_, fields = w.send(id, "print(len(word))")
	assert.Contains(t, fields["viewport"], "\n10\n")

	// Ctrl-C ends what runs, not the program.
	task, fields := w.call("terminal_send", map[string]any{"sessionId": id, "run_in_background": true,
		"text": "import time; print('now', 'sleeping'); time.sleep(1000)"})
	assert.Equal(t, "started background task pty-send-1", task)
	for text = ""; !strings.Contains(text, "\nnow sleeping"); {
		more, _ := w.call("task_output", map[string]any{"task_id": fields["taskId"], "wait": true, "timeout_ms": 100})
		text += more
	}
	w.call("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGINT"})
	text, _ = w.call("task_output", map[string]any{"task_id": fields["taskId"], "wait": true})
	assert.Contains(t, text, "KeyboardInterrupt")
	assert.Contains(t, text, "[status: completed, wait: stdin_read]")
	w.send(id, "exit()")

	// A debugger stops at a breakpoint.
	w.send(id, "cc -g -o sum sum.c && gdb -q -nx sum")
	_, fields = w.send(id, "break 6")
	assert.Contains(t, fields["viewport"], "Breakpoint 1")
	_, fields = w.send(id, "run")
	assert.Contains(t, fields["viewport"], "Breakpoint 1, main")
	_, fields = w.send(id, "print total")
	assert.Contains(t, fields["viewport"], "= 10\n")
	_, fields = w.send(id, "quit") // it asks: the program still runs
	w.waits(fields, "key", "Quit anyway? (y or n) ")
	_, fields = w.send(id, "y")
	assert.Nil(t, fields["needsInput"], "the shell's own prompt")

	// A build in the background is read while it runs, and its end is told.
	_, fields = w.call("terminal_send", map[string]any{"sessionId": id, "run_in_background": true,
		"text": "for f in one two three; do echo built $f; cc -o $f sum.c; done; echo \"all \"built"})
	text, _ = w.call("task_output", map[string]any{"task_id": fields["taskId"], "wait": true})
	assert.Contains(t, text, "\nbuilt three\n")
	assert.Contains(t, text, "\nall built\n")
	for _, id := range []string{"pty-send-1", "pty-send-2"} {
		message := <-messages
		assert.EqualValues(t, "info", message.Level)
		data, err := json.Marshal(message.Data)
		require.NoError(t, err)
		assert.Contains(t, string(data), id)
		assert.Contains(t, string(data), `"status":"completed"`)
	}

	// A command that asks is answered in its own terminal.
	text, fields = w.call("bash", map[string]any{"command": "read -p 'name: ' name; echo \"hello $name\"; exit_with() { return $1; }; exit_with 3"})
	require.Equal(t, "waiting_input", fields["reason"])
	shell := fields["terminalId"].(string)
	assert.Contains(t, text, "answer with terminal_send to "+shell)
	text, _ = w.send(shell, "bob")
	assert.Contains(t, text, "hello bob")
	assert.Contains(t, text, "[command completed: exit code 3]")
	text, _ = w.call("bash", map[string]any{"command": "echo $name"})
	assert.Equal(t, "bob\n", text, "it was reported once")

	text, _ = w.call("terminal_list", nil)
	assert.Contains(t, text, id+" [shell] running")
	text, _ = w.call("terminal_close", map[string]any{"sessionId": id})
	assert.Equal(t, "closed terminal session "+id, text)
}

// A terminal type may run any program.
func TestTerminalOfAProgram(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	config := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(config, []byte("backends: [{type: py, shellDialect: none, shellPath: python3, shellArgs: [-q]}]"), 0o600))
	w := worked{t, client(t, nil, "--tools", "terminal", "--config", config)}
	id := w.open("py")
	_, fields := w.send(id, "6*7")
	assert.Contains(t, fields["viewport"], "\n42\n")
	text, fields := w.call("terminal_send", map[string]any{"sessionId": id, "text": "raise SystemExit(3)"})
	assert.Equal(t, "session_exit", fields["waitReason"])
	assert.Contains(t, text, "[session: exited code=3 signal=null]")
}

// The progress of a send shows what the program prints.
func TestTerminalProgress(t *testing.T) {
	t.Parallel()
	texts := make(chan string, 100)
	session := client(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { texts <- req.Params.Message },
	}, "--tools", "terminal")
	w := worked{t, session}
	id := w.open("shell")
	params := &mcp.CallToolParams{Name: "terminal_send", Arguments: map[string]any{"sessionId": id, "text": "echo o\"\"ne; sleep 1; echo two"}}
	params.SetProgressToken("token")
	_, err := session.CallTool(t.Context(), params)
	require.NoError(t, err)
	var first string
	for first = range texts {
		if first != "" {
			break
		}
	}
	assert.Contains(t, first, "one")
}
