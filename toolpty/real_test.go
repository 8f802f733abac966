//go:build unix

package toolpty_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/none"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolpty"
)

// need skips a test without a program, except where all have to be there.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed", program)
		}
		t.Skipf("%s is not installed", program)
	}
	return path
}

// newReal returns the tools over real terminals: the types shell and python.
func newReal(t *testing.T, configure ...func(*toolpty.Config)) *fixture {
	t.Helper()
	service := terminals.NewService(terminals.Options{})
	t.Cleanup(func() { assert.NoError(t, service.Dispose(context.Background())) })
	f := newFixture(t, service, configure...)
	f.add("shell", bash.Dialect{}, nil, "bash")
	f.add("python", none.Dialect{}, nil, "python3", "-q")
	return f
}

// add registers a type of terminal that runs program.
func (f *fixture) add(typ string, d dialect.Dialect, change func(*engine.Config), program string, args ...string) {
	f.t.Helper()
	cfg := engine.DefaultConfig()
	cfg.Type, cfg.ShellPath, cfg.ShellArgs = typ, need(f.t, program), args
	// A guess from silence must not pass for a proof.
	cfg.Timeout, cfg.IdleSilence = dialecttest.Patience, dialecttest.Patience
	cfg.DisposeGrace = 500 * time.Millisecond
	cfg.Env = []string{"HOME=" + f.owner.Cwd()} // the programs' files stay out of the user's
	dialecttest.Confine(&cfg)
	if change != nil {
		change(&cfg)
	}
	b, err := engine.New(cfg, dialecttest.Driver, d)
	require.NoError(f.t, err)
	_, err = f.service.Register(typ, b)
	require.NoError(f.t, err)
}

// send types text and returns the structured result.
func (f *fixture) send(id, text string) toolpty.SendResult {
	f.t.Helper()
	return f.ok("terminal_send", map[string]any{"sessionId": id, "text": text}).Structured.(toolpty.SendResult)
}

// sendSoon is send after a cancellation, whose interrupt may still be under way.
func (f *fixture) sendSoon(id, text string) toolpty.SendResult {
	f.t.Helper()
	var res tool.Result
	require.Eventually(f.t, func() bool {
		res = f.call("terminal_send", map[string]any{"sessionId": id, "text": text})
		return !res.IsError
	}, dialecttest.Patience, 5*time.Millisecond)
	return res.Structured.(toolpty.SendResult)
}

// keys types text without Enter and returns the structured result.
func (f *fixture) keys(id, text string) toolpty.SendResult {
	f.t.Helper()
	return f.ok("terminal_send", map[string]any{"sessionId": id, "text": text, "submit": false}).Structured.(toolpty.SendResult)
}

// background types text in the background and returns the task's id.
func (f *fixture) background(id, text string) string {
	f.t.Helper()
	res := f.ok("terminal_send", map[string]any{"sessionId": id, "text": text, "run_in_background": true})
	return res.Structured.(toolpty.BackgroundResult).TaskID
}

// output reads a task.
func (f *fixture) output(task string, wait time.Duration) tasks.OutputResult {
	f.t.Helper()
	return f.ok("task_output", map[string]any{"task_id": task, "wait": wait > 0, "timeout_ms": wait.Milliseconds()}).Structured.(tasks.OutputResult)
}

// sees reads a task until it has printed token.
func (f *fixture) sees(task, token string) {
	f.t.Helper()
	var all string
	require.Eventually(f.t, func() bool {
		all += f.output(task, 0).Output
		return strings.Contains(all, token)
	}, dialecttest.Patience, 5*time.Millisecond, "%q in the output", token)
}

func TestShell(t *testing.T) {
	f := newReal(t, func(c *toolpty.Config) {
		c.Env = func(_ *terminals.Owner, id string) ([]string, error) { return []string{"DSH_ID=" + id}, nil }
	})
	opened := f.ok("terminal_open", `{"type": "shell", "name": "work"}`)
	open := opened.Structured.(toolpty.OpenResult)
	id := open.SessionID
	assert.Equal(t, "pty-1", id)
	assert.Equal(t, "started terminal session pty-1 (work) [type: shell]\n"+open.Motd, opened.Text)
	assert.True(t, strings.HasSuffix(open.Motd, "$ "), open.Motd)
	assert.Equal(t, fmt.Sprintf("pty-1 (work) [shell] running pid=%d", open.PID), f.ok("terminal_list", "").Text)

	res := f.ok("terminal_send", map[string]any{"sessionId": id, "text": "echo $((6*7)) $DSH_ID; pwd"})
	sent := res.Structured.(toolpty.SendResult)
	assert.Contains(t, sent.Viewport, "\n42 pty-1\n"+f.owner.Cwd()+"\n", "the echo, the output")
	assert.True(t, strings.HasSuffix(sent.Viewport, "$ "), "the prompt")
	assert.Equal(t, sent.Viewport+"\n[wait: stdin_read]\n[session: running]", res.Text)
	assert.Nil(t, sent.NeedsInput)

	f.send(id, "cd /; x=kept")
	assert.Contains(t, f.send(id, "echo $x; pwd").Viewport, "\nkept\n/\n", "the state is kept")
	page := f.ok("terminal_read", map[string]any{"sessionId": id, "offset": 1, "count": 2})
	assert.Equal(t, "kept\n/\n[lines: 1-3 of "+fmt.Sprint(page.Structured.(terminals.Page).TotalLines)+"]", page.Text)

	sent = f.send(id, "exit 3")
	assert.Equal(t, terminals.SessionExit, sent.WaitReason)
	assert.Equal(t, 3, *sent.SessionStatus.ExitCode)
	assert.Equal(t, "pty-1 (work) [shell] exited code=3 signal=null"+fmt.Sprintf(" pid=%d", open.PID), f.ok("terminal_list", "").Text)
	f.ok("terminal_read", map[string]any{"sessionId": id})
	late := f.call("terminal_send", map[string]any{"sessionId": id, "text": "x"})
	assert.True(t, late.IsError)
	assert.Contains(t, late.Text, "exited (code 3)")
	assert.Equal(t, "closed terminal session pty-1", f.ok("terminal_close", map[string]any{"sessionId": id}).Text)
	assert.Equal(t, "(no terminal sessions)", f.ok("terminal_list", "").Text)
}

// Case: P1 F25 (microsoft/vscode-copilot-release#13592)
func TestRepl(t *testing.T) {
	f := newReal(t)
	id := f.open("python")
	sent := f.send(id, "6*7")
	assert.Contains(t, sent.Viewport, "\n42\n")
	assert.Equal(t, terminals.StdinRead, sent.WaitReason)
	require.NotNil(t, sent.NeedsInput)
	assert.Equal(t, ">>> ", sent.NeedsInput.Prompt)
	assert.Contains(t, sent.NeedsInput.Program, "python")

	res := f.ok("terminal_send", map[string]any{"sessionId": id, "text": "import getpass; p = getpass.getpass('Pin: ')"})
	sent = res.Structured.(toolpty.SendResult)
	assert.Equal(t, terminals.SecretInput, sent.NeedsInput.Kind)
	assert.Equal(t, "Pin: ", sent.NeedsInput.Prompt)
	assert.Contains(t, res.Text, "\n[waiting for input: "+sent.NeedsInput.Program+" (secret)]")
	assert.NotContains(t, f.send(id, "hush").Viewport, "hush")
	assert.Contains(t, f.send(id, "print(p[::-1])").Viewport, "\nhsuh\n")

	// What a person would press Ctrl-C for.
	task := f.background(id, "import time; print('aw' + 'ake', flush=True); time.sleep(300)")
	f.sees(task, "awake")
	busy := f.call("terminal_send", map[string]any{"sessionId": id, "text": "1"})
	assert.True(t, busy.IsError)
	assert.NotContains(t, busy.Text, "[wait")
	f.ok("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGINT"})
	out := f.output(task, dialecttest.Patience)
	assert.Contains(t, out.Output, "KeyboardInterrupt")
	assert.Equal(t, tasks.Completed, out.Status)
	assert.Equal(t, "wait: stdin_read", out.Detail)
	assert.Equal(t, tasks.Notice{TaskID: task, Status: tasks.Completed, Detail: "wait: stdin_read"}, <-f.notices)

	assert.Equal(t, 0, *f.send(id, "exit()").SessionStatus.ExitCode)
}

func TestBackgroundSend(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	task := f.background(id, "echo be''gun; read x; echo got=$x; sleep 300")
	assert.Equal(t, "pty-send-1", task)
	f.sees(task, "begun")
	// The send ends where the program waits for an answer.
	out := f.output(task, dialecttest.Patience)
	assert.Equal(t, "completed, wait: stdin_read", string(out.Status)+", "+out.Detail, out.Output)
	require.NotNil(t, out.Result.(toolpty.End).NeedsInput)

	task = f.background(id, "answer")
	f.sees(task, "got=answer")
	refused := f.call("terminal_send", map[string]any{"sessionId": id, "text": "x", "run_in_background": true})
	assert.True(t, refused.IsError)
	assert.Len(t, f.tasks.List(f.owner), 2, "a send that is refused is no task")
	assert.Equal(t, tasks.Running, f.output(task, 10*time.Millisecond).Status)

	assert.Equal(t, "requested cancellation of task pty-send-2", f.ok("task_kill", map[string]any{"task_id": task}).Text)
	out = f.output(task, dialecttest.Patience)
	assert.Equal(t, "killed, wait: stdin_read", string(out.Status)+", "+out.Detail)
	assert.Contains(t, f.sendSoon(id, "echo ali''ve").Viewport, "\nalive\n", "the shell is still there")
	for _, status := range []tasks.Status{tasks.Completed, tasks.Killed} {
		assert.Equal(t, status, (<-f.notices).Status)
	}
	assert.Empty(t, f.notices)
}

func TestCancelledCall(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	ctx, cancel := context.WithCancel(t.Context())
	arguments, err := json.Marshal(map[string]any{"sessionId": id, "text": "echo be''gun; sleep 300"})
	require.NoError(t, err)
	var seen string
	res := f.callWith(ctx, "terminal_send", tool.Call{Arguments: arguments, Progress: func(text string) {
		if seen += text; strings.Contains(seen, "begun") {
			cancel()
		}
	}})
	assert.Equal(t, "Error: the call was cancelled", res.Text)
	assert.Contains(t, f.sendSoon(id, "echo ali''ve").Viewport, "\nalive\n", "the program was interrupted, the shell was not")
}

func TestSignals(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	refused := f.call("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGKILL"})
	assert.True(t, refused.IsError)
	assert.Contains(t, refused.Text, "close")

	for _, signal := range []string{"SIGTERM", "SIGKILL", "SIGHUP", "SIGTSTP"} {
		token := "in-" + signal
		task := f.background(id, fmt.Sprintf("bash -c 'echo in''-%s; exec sleep 300'", signal))
		f.sees(task, token)
		var res toolpty.SignalResult
		require.Eventually(t, func() bool { // the token may come before the group has the terminal
			r := f.call("terminal_signal", map[string]any{"sessionId": id, "signal": signal})
			if r.IsError {
				return f.output(task, 0).Status != tasks.Running
			}
			res = r.Structured.(toolpty.SignalResult)
			return f.output(task, 100*time.Millisecond).Status != tasks.Running
		}, dialecttest.Patience, 10*time.Millisecond, signal)
		assert.True(t, res.Delivered)
		assert.Positive(t, res.TargetPGID)
		assert.Equal(t, "wait: stdin_read", f.output(task, dialecttest.Patience).Detail)
	}
	assert.Contains(t, f.send(id, "jobs").Viewport, "Stopped")
}

// A session and a task of somebody else.
//
// Case: reference 3.3 #2
func TestForeignOwnerOfARealSession(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	task := f.background(id, "echo be''gun; sleep 300")
	f.sees(task, "begun")
	other, err := f.service.NewOwner(terminals.OwnerOptions{Name: "agent", Cwd: f.owner.Cwd()})
	require.NoError(t, err)
	g := f.as(other)
	for name, arguments := range map[string]map[string]any{
		"terminal_send":   {"sessionId": id, "text": "x"},
		"terminal_read":   {"sessionId": id},
		"terminal_signal": {"sessionId": id, "signal": "SIGINT"},
		"terminal_close":  {"sessionId": id},
		"task_output":     {"task_id": task},
		"task_kill":       {"task_id": task},
	} {
		assert.True(t, g.call(name, arguments).IsError, name)
	}
	assert.Equal(t, "(no background tasks)", g.ok("task_list", "").Text)
	assert.Equal(t, tasks.Running, f.output(task, 0).Status)

	require.NoError(t, f.service.DisposeOwner(context.Background(), f.owner), "the end of the owner is the end of its task")
	assert.Empty(t, f.tasks.List(f.owner))
	assert.Contains(t, g.send(g.open("shell"), "echo ali''ve").Viewport, "\nalive\n")
}

func TestCloseDuringASend(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	task := f.background(id, "echo be''gun; sleep 300")
	f.sees(task, "begun")
	assert.Equal(t, "closed terminal session "+id, f.ok("terminal_close", map[string]any{"sessionId": id}).Text)
	out := f.output(task, dialecttest.Patience)
	assert.Equal(t, terminals.SessionExit, out.Result.(toolpty.End).WaitReason)
}

// A program of a command tool that waits for input is answered by a send, which
// then has the command's exit code; nobody reports it a second time.
func TestAnswerToACommandTool(t *testing.T) {
	f := newReal(t)
	cfg := persistent.DefaultConfig()
	cfg.TerminalTools = true
	runner, err := persistent.New(f.service, cfg)
	require.NoError(t, err)
	run := func(text string) persistent.Result {
		return runner.Run(t.Context(), f.owner, persistent.Command{Text: text})
	}
	asked := run("read -p 'Name: ' name; echo hello $name; (exit 4)")
	require.Equal(t, persistent.WaitingInput, asked.Reason, asked.Text)
	id := asked.TerminalID
	assert.Contains(t, asked.Text, "answer with terminal_send to "+id)

	res := f.ok("terminal_send", map[string]any{"sessionId": id, "text": "wor''ld"})
	assert.Contains(t, res.Text, "hello wor''ld\n[wait: stdin_read]\n[session: running]\n[command completed: exit code 4]")
	assert.Equal(t, 4, *res.Structured.(toolpty.SendResult).Command.ExitCode)
	assert.Equal(t, "next\n", run("echo next").Text)

	refused := f.call("terminal_send", map[string]any{"sessionId": id, "text": "rm -r /"})
	assert.True(t, refused.IsError, refused.Text)

	require.Equal(t, persistent.WaitingInput, run("read x; echo got=$x; (exit 5)").Reason)
	out := f.output(f.background(id, "answer"), dialecttest.Patience)
	assert.Contains(t, out.Output, "got=answer")
	assert.Equal(t, 5, *out.Result.(toolpty.End).Command.ExitCode)
}

func TestParallelSessions(t *testing.T) {
	f := newReal(t)
	const sessions, rounds = 10, 5
	var all sync.WaitGroup
	for i := range sessions {
		typ, ask := "shell", "echo $((%d*%d))"
		if i%2 == 1 {
			typ, ask = "python", "%d*%d"
		}
		all.Go(func() {
			res := f.call("terminal_open", map[string]any{"type": typ})
			if !assert.False(t, res.IsError, res.Text) {
				return
			}
			id := res.Structured.(toolpty.OpenResult).SessionID
			for n := range rounds {
				res := f.call("terminal_send", map[string]any{"sessionId": id, "text": fmt.Sprintf(ask, 1000+i, 1000+n)})
				assert.Contains(t, res.Text, fmt.Sprintf("\n%d\n", (1000+i)*(1000+n)))
				assert.Contains(t, res.Text, "[wait: stdin_read]")
			}
			res = f.call("terminal_close", map[string]any{"sessionId": id})
			assert.Equal(t, "closed terminal session "+id, res.Text)
		})
	}
	all.Wait()
	assert.Equal(t, "(no terminal sessions)", f.ok("terminal_list", "").Text)
}
