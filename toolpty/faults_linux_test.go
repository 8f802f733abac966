package toolpty_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolpty"
)

// fails runs a tool, requires that it fails, and returns what it says.
func (f *fixture) fails(name string, arguments any) string {
	f.t.Helper()
	res := f.call(name, arguments)
	require.True(f.t, res.IsError, res.Text)
	assert.NotContains(f.t, res.Text, "[wait")
	return res.Text
}

// bounded is a type of terminal whose sends end after d.
func (f *fixture) bounded(d time.Duration) string {
	f.t.Helper()
	f.add("bounded", bash.Dialect{}, func(c *engine.Config) { c.Timeout = d }, "bash")
	return f.open("bounded")
}

// works requires that the shell id is at its prompt and runs a command.
func (f *fixture) works(id string) {
	f.t.Helper()
	f.take(id, step{text: "echo $((6*7))", shows: "\n42\n"})
}

// Sessions that are not there, are about to go, or are gone.
//
// Case: reference 3.3 #9
func TestSessionsThatCannotBeUsed(t *testing.T) {
	f := newReal(t)
	each := func(id, why string) {
		t.Helper()
		for name, arguments := range map[string]map[string]any{
			"terminal_send":   {"sessionId": id, "text": "touch typed"},
			"terminal_signal": {"sessionId": id, "signal": "SIGINT"},
		} {
			assert.Contains(t, f.fails(name, arguments), why, name)
		}
	}
	none := func(id string) {
		t.Helper()
		why := fmt.Sprintf("there is no terminal session %q", id)
		each(id, why)
		assert.Contains(t, f.fails("terminal_read", map[string]any{"sessionId": id}), why)
		assert.Contains(t, f.fails("terminal_close", map[string]any{"sessionId": id}), why)
	}
	none("pty-99")

	id := f.open("shell")
	f.send(id, "(trap '' HUP TERM; exec sleep 1000) & echo $((6*7))")
	closed := make(chan tool.Result)
	go func() { closed <- f.call("terminal_close", map[string]any{"sessionId": id}) }()
	require.Eventually(t, func() bool {
		// Quick, so that it meets the moment in which the session closes.
		return strings.Contains(f.call("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGINT"}).Text, "is closing")
	}, dialecttest.Patience, time.Millisecond)
	each(id, "is closing")
	assert.Equal(t, "closed terminal session "+id, (<-closed).Text)
	none(id)
	assert.NoFileExists(t, filepath.Join(f.owner.Cwd(), "typed"))
}

// A shell that dies between two calls: how, and what it had printed, can be had
// until it is closed.
//
// Case: reference 3.3 #24
func TestShellDiesBetweenCalls(t *testing.T) {
	f := newReal(t)
	open := f.ok("terminal_open", `{"type": "shell"}`).Structured.(toolpty.OpenResult)
	id := open.SessionID
	f.works(id)
	require.NoError(t, unix.Kill(open.PID, unix.SIGKILL))
	require.Eventually(t, func() bool {
		return f.ok("terminal_list", "").Text == fmt.Sprintf("%s [shell] exited code=null signal=SIGKILL pid=%d", id, open.PID)
	}, dialecttest.Patience, time.Millisecond)
	assert.Equal(t, "Error: the session has exited (killed by SIGKILL); close it and open a new one",
		f.fails("terminal_send", map[string]any{"sessionId": id, "text": "x"}))
	f.fails("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGINT"})
	assert.Contains(t, f.ok("terminal_read", map[string]any{"sessionId": id}).Text, "\n42\n")
	f.ok("terminal_close", map[string]any{"sessionId": id})

	id = f.open("shell")
	text := f.ok("terminal_send", map[string]any{"sessionId": id, "text": "kill -9 $$"}).Text
	assert.Equal(t, "kill -9 $$\n[wait: session_exit]\n[session: exited code=null signal=SIGKILL]", text)
}

// A second send is refused and types nothing, and so does a signal that there is
// none of.
func TestRefusedWhileBusy(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	task := f.background(id, "echo be''gun; cat >/dev/null; until [ -e go ]; do sleep 0.02; done")
	f.sees(task, "begun")
	assert.Equal(t, tasks.Completed, f.output(task, dialecttest.Patience).Status)
	task = f.background(id, "\x04")
	f.sees(task, "\n")
	assert.Contains(t, f.fails("terminal_send", map[string]any{"sessionId": id, "text": "touch typed"}), "busy")
	for _, signal := range []string{"SIGSEGV", "INT", "2", ""} {
		assert.Contains(t, f.fails("terminal_signal", map[string]any{"sessionId": id, "signal": signal}),
			`"signal" must be one of SIGINT, SIGTERM, SIGKILL, SIGTSTP, SIGHUP`)
	}
	require.NoError(t, os.WriteFile(filepath.Join(f.owner.Cwd(), "go"), nil, 0o600))
	assert.Equal(t, tasks.Completed, f.output(task, dialecttest.Patience).Status)
	f.works(id)
	assert.NoFileExists(t, filepath.Join(f.owner.Cwd(), "typed"))
}

// Pages that do not exist are refused or empty.
//
// Case: reference 3.3 #45
func TestPagesOfARealSession(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	f.works(id)
	for arguments, why := range map[string]string{
		`"offset": -1`:                   "offset",
		`"count": 0`:                     "count",
		`"count": -5`:                    "count",
		`"offset": 1.5`:                  "offset",
		`"count": "ten"`:                 "count",
		`"offset": 1e300`:                "offset",
		`"offset": 99999999999999999999`: "offset",
	} {
		assert.Contains(t, f.fails("terminal_read", `{"sessionId": "`+id+`", `+arguments+`}`), why, arguments)
	}
	for _, offset := range []int{4, 999, 1 << 40} {
		res := f.ok("terminal_read", map[string]any{"sessionId": id, "offset": offset})
		total := res.Structured.(terminals.Page).TotalLines
		assert.Equal(t, fmt.Sprintf("(no retained output)\n[lines: %d-%d of %d]", offset, offset, total), res.Text)
	}
	assert.Contains(t, f.ok("terminal_read", map[string]any{"sessionId": id, "count": 1 << 40}).Text, "\n42\n")
}

// A program that never reads costs the time limit. The error says how much the
// terminal took, and Ctrl-C as a signal still works, though a key would not.
//
// Case: P15
func TestProgramThatNeverReads(t *testing.T) {
	f := newReal(t)
	id := f.bounded(time.Second)
	assert.Equal(t, terminals.Timeout, f.send(id, "sleep 300").WaitReason)
	text := f.fails("terminal_send", map[string]any{"sessionId": id, "text": strings.Repeat("0123456789\n", 300_000/11)})
	var took, of int
	_, err := fmt.Sscanf(text, "Error: the terminal took %d of %d bytes; the program does not read the rest", &took, &of)
	require.NoError(t, err, text)
	assert.Equal(t, 300_000/11*11+1, of)
	assert.Less(t, took, 100_000)
	f.ok("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGINT"})
	require.Eventually(t, func() bool {
		res := f.call("terminal_send", map[string]any{"sessionId": id, "text": "echo al''ive"})
		return !res.IsError && strings.Contains(res.Text, "\nalive\n")
	}, dialecttest.Patience, time.Millisecond)
}

// NUL and much text arrive as they are. A line that the terminal would cut is
// refused before it is typed.
//
// Case: P16 F42 (herdrdev/herdr#2862)
func TestMuchText(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	want := []byte(strings.Repeat("0\x00\tabcdefghijklmnopqrstuvwxyz\u00e9\n", 10<<20/32))
	f.take(id, step{text: fmt.Sprintf("stty -echo; head -c %d >f; stty echo", len(want)), kind: terminals.SecretInput, who: "head"})
	f.take(id, step{text: string(want), keys: true})
	got, err := os.ReadFile(filepath.Join(f.owner.Cwd(), "f"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))

	f.take(id, step{text: "cat >g", kind: terminals.LineInput, who: "cat"})
	text := f.fails("terminal_send", map[string]any{"sessionId": id, "text": strings.Repeat("x", 5000)})
	assert.Contains(t, text, "a line of 5000 bytes")
	assert.Contains(t, text, "4095")
	f.take(id, step{text: "\x04", keys: true})
	f.take(id, step{text: "wc -c <g", shows: "\n0\n"})
}

// A program that floods: the result is bounded and has the newest text, the
// interrupt comes through, and the memory stays what it is.
//
// Case: F101 (zed-industries/zed#32157, #57911)
func TestFlood(t *testing.T) {
	f := newReal(t)
	id := f.bounded(time.Second)
	res := f.ok("terminal_send", map[string]any{"sessionId": id, "text": "seq -f 'line %.0f' 1000000000"})
	sent := res.Structured.(toolpty.SendResult)
	assert.Equal(t, terminals.Timeout, sent.WaitReason)
	assert.True(t, sent.Truncated)
	assert.True(t, strings.HasSuffix(res.Text, "\n[wait: timeout]\n[session: running]\n[output truncated]"), res.Text[len(res.Text)-200:])
	assert.LessOrEqual(t, len(res.Text), tool.DefaultResultBytes)
	assert.Nil(t, sent.NeedsInput)
	f.ok("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGINT"})
	require.Eventually(t, func() bool {
		sent := f.keys(id, "")
		return sent.WaitReason == terminals.StdinRead && sent.NeedsInput == nil
	}, dialecttest.Patience, time.Millisecond)
	f.works(id)
	page := f.ok("terminal_read", map[string]any{"sessionId": id}).Structured.(terminals.Page)
	assert.True(t, page.Truncated)
	assert.LessOrEqual(t, page.TotalLines, engine.DefaultConfig().ScrollbackLines)
}

// A program that leaves the alternate screen and raw mode behind.
func TestModesLeftBehind(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	f.take(id, step{text: `printf '\e[?1049h\e[2J\e[?2004h\e[?25l'; stty raw -echo; true`})
	f.works(id)
	assert.NotContains(t, f.ok("terminal_read", map[string]any{"sessionId": id}).Text, "00~")
}

// A program that cannot be interrupted: the kill of its task is bounded, and the
// close ends it with everything that it started.
//
// Case: F84 (anthropics/claude-code#87439) F79 (charmbracelet/crush#2653) F80 (charmbracelet/crush#3878) reference 3.3 #30
func TestStubbornProgram(t *testing.T) {
	f := newReal(t)
	id := f.bounded(3 * time.Second)
	task := f.background(id, `trap '' INT TERM HUP; setsid sleep 300 & nohup sleep 300 >/dev/null & echo $! >pid; `+
		`bash -c 'trap "" INT TERM HUP; echo $$ >>pid; echo be""gun; while :; do echo .; sleep 0.05; done'`)
	f.sees(task, "begun")
	began := time.Now()
	f.ok("task_kill", map[string]any{"task_id": task})
	out := f.output(task, dialecttest.Patience)
	assert.Equal(t, "killed, wait: timeout", string(out.Status)+", "+out.Detail)
	assert.Less(t, time.Since(began), 10*time.Second)

	f.ok("terminal_close", map[string]any{"sessionId": id})
	written, err := os.ReadFile(filepath.Join(f.owner.Cwd(), "pid"))
	require.NoError(t, err)
	pids := strings.Fields(string(written))
	require.Len(t, pids, 2)
	for _, pid := range pids {
		n, err := strconv.Atoi(pid)
		require.NoError(t, err)
		assert.True(t, gone(n), pid)
	}
}

// gone tells whether a process has ended; one that nobody has waited for counts.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// A client that disappears in the middle of a send: its owner is disposed, and
// the program ends with it.
func TestClientDisappears(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	task := f.background(id, "echo $$ >pid; echo be''gun; sleep 300")
	f.sees(task, "begun")
	ended := make(chan error)
	go func() { ended <- f.service.DisposeOwner(context.Background(), f.owner) }()
	require.NoError(t, <-ended)
	written, err := os.ReadFile(filepath.Join(f.owner.Cwd(), "pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(written)))
	require.NoError(t, err)
	assert.True(t, gone(pid))
	f.fails("terminal_open", `{"type": "shell"}`)
}

// A program that asks its terminal gets an answer, or none at once: it never
// waits for one that does not come.
func TestQueriesOfAProgram(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	require.NoError(t, os.WriteFile(filepath.Join(f.owner.Cwd(), "ask.py"), []byte(`
import os, select, sys, termios, time, tty
old = termios.tcgetattr(0)
tty.setraw(0)
def ask(query, end, split=False):
    began, got = time.monotonic(), b""
    for part in [query[:2], query[2:]] if split else [query]:
        os.write(1, part)
        time.sleep(0.02 if split else 0)
    while not got.endswith(end) and select.select([0], [], [], 3)[0]:
        got += os.read(0, 100)
    return got, time.monotonic() - began
results = [ask(*a) for a in [
    (b"\x1b[c", b"c"), (b"\x1b[6n", b"R"), (b"\x1b[6n", b"R", True), (b"\x1b[5n", b"n"),
    (b"\x1b]10;?\x07\x1b[c", b"c"), (b"\x1b]11;?\x1b\\\x1b[c", b"c"),
    (b"\x1bP+q544e\x1b\\", b"\x1b\\"), (b"\x1b[?u\x1b[c", b"c"),
]]
termios.tcsetattr(0, termios.TCSADRAIN, old)
for got, took in results:
    print(repr(got.decode()), "at once" if took < 1 else took)
`), 0o600))
	sent := f.send(id, "python3 ask.py")
	da1, dsr, none := `'\x1b[?6c' at once`, `'\x1b[1;1R' at once`, `'\x1b[?6c' at once`
	assert.Contains(t, sent.Viewport, strings.Join([]string{
		da1, dsr, dsr, `'\x1b[0n' at once`, none, none, `'\x1bP0+r\x1b\\' at once`, none}, "\n")+"\n")
	assert.Equal(t, terminals.StdinRead, sent.WaitReason)
	assert.Nil(t, sent.NeedsInput)
}
