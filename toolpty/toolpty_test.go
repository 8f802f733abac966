package toolpty_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolpty"
)

func TestGoldenSpecs(t *testing.T) {
	for name, background := range map[string]bool{"specs.golden": true, "specs-foreground.golden": false} {
		six, err := toolpty.New(nil, toolpty.Config{RunInBackground: background})
		require.NoError(t, err)
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		for _, one := range six {
			if background || one.Spec().Name == toolpty.SendTool {
				require.NoError(t, enc.Encode(one.Spec()))
			}
		}
		golden(t, name, b.String())
	}
}

// transcript shows results for a golden file.
type transcript struct {
	*fixture
	strings.Builder
}

func (s *transcript) show(title, name string, arguments any) {
	s.t.Helper()
	res := s.call(name, arguments)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(s.t, enc.Encode(res.Structured))
	fmt.Fprintf(s, "== %s\n%s\n-- %s error=%t\n%s", title, res.Text, res.Intent, res.IsError, b.String())
}

var python = &terminals.NeedsInput{Kind: terminals.LineInput, Prompt: ">>> ", Program: "python3", PID: 4712}

// Every form.
//
// Case: reference 3.3 #88
func TestGoldenResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := &fakeSession{startup: "welcome\n$ ", pid: 4711}
		f, _ := newFake(t, session)
		s := &transcript{fixture: f}
		s.show("no sessions", "terminal_list", "")
		s.show("open", "terminal_open", `{"type": "shell"}`)
		s.show("open with a name", "terminal_open", `{"type": "shell", "name": "build\nbox"}`)
		session.startup, session.pid = "", 0
		s.show("open without output", "terminal_open", `{"type": "shell", "name": "silent"}`)
		session.status = terminals.Status{Exited: true, ExitCode: new(3)}
		s.show("list exited", "terminal_list", "{}")
		session.status = terminals.Status{}
		s.show("open of an unknown type", "terminal_open", `{"type": "fish"}`)
		s.show("open that fails", "terminal_open", `{"type": "shell", "cwd": "/nowhere"}`)

		send := func(title string, res terminals.SendResult) {
			session.result = res
			s.show(title, "terminal_send", `{"sessionId": "pty-1", "text": "x"}`)
		}
		send("prompt", terminals.SendResult{Viewport: "x\nout\n$ ", WaitReason: terminals.StdinRead})
		send("nothing", terminals.SendResult{WaitReason: terminals.InferredIdle})
		send("timeout, dropped", terminals.SendResult{Viewport: "out\n", WaitReason: terminals.Timeout, Truncated: true})
		send("exit", terminals.SendResult{Viewport: "x\n", WaitReason: terminals.SessionExit, Status: terminals.Status{Exited: true, ExitCode: new(7)}})
		send("killed", terminals.SendResult{WaitReason: terminals.SessionExit, Status: terminals.Status{Exited: true, Signal: "SIGKILL"}})
		send("exit unknown", terminals.SendResult{WaitReason: terminals.SessionExit, Status: terminals.Status{Exited: true}})
		send("a program waits", terminals.SendResult{Viewport: ">>> ", WaitReason: terminals.StdinRead, NeedsInput: python})
		send("full screen", terminals.SendResult{Viewport: "top", WaitReason: terminals.StdinRead, FullScreen: true, Truncated: true,
			NeedsInput: &terminals.NeedsInput{Kind: terminals.KeyInput, Program: "less", PID: 1}})
		send("command completed", terminals.SendResult{Viewport: "yes\n", WaitReason: terminals.StdinRead, Command: &terminals.CommandResult{ExitCode: new(4)}})
		send("command completed, code unknown", terminals.SendResult{WaitReason: terminals.StdinRead, Command: &terminals.CommandResult{}})
		session.err = errors.New("the terminal took 5 of 9 bytes: the program does not read them")
		send("failed", terminals.SendResult{Viewport: "x", WaitReason: terminals.Timeout})
		session.err = nil

		session.hold = true
		s.show("background", "terminal_send", `{"sessionId": "pty-1", "text": "make\n", "run_in_background": true}`)
		s.show("busy", "terminal_send", `{"sessionId": "pty-1", "text": "x"}`)
		s.show("busy in the background", "terminal_send", `{"sessionId": "pty-1", "text": "x", "run_in_background": true}`)
		session.send.print("make\n")
		s.show("task output", "task_output", `{"task_id": "pty-send-1"}`)
		session.send.print("ok\n$ ")
		session.send.end(terminals.SendResult{Viewport: "make\nok\n$ ", WaitReason: terminals.StdinRead})
		s.show("task end", "task_output", `{"task_id": "pty-send-1", "wait": true}`)
		s.show("background without text", "terminal_send", `{"sessionId": "pty-1", "text": "", "submit": false, "run_in_background": true}`)
		s.show("task kill", "task_kill", `{"task_id": "pty-send-2"}`)
		s.show("task killed", "task_output", `{"task_id": "pty-send-2", "wait": true}`)
		for i, res := range []terminals.SendResult{
			{WaitReason: terminals.StdinRead, NeedsInput: python, FullScreen: true, Command: &terminals.CommandResult{ExitCode: new(0)}},
			{WaitReason: terminals.SessionExit, Status: terminals.Status{Exited: true, ExitCode: new(3)}},
			{WaitReason: terminals.SessionExit, Status: terminals.Status{Exited: true, Signal: "SIGHUP"}},
			{WaitReason: terminals.SessionExit, Status: terminals.Status{Exited: true}},
		} {
			f.ok("terminal_send", `{"sessionId": "pty-1", "text": "y", "run_in_background": true}`)
			session.send.end(res)
			s.show(fmt.Sprintf("task end, form %d", i+1), "task_output", fmt.Sprintf(`{"task_id": "pty-send-%d", "wait": true}`, i+3))
		}
		s.show("tasks", "task_list", `{}`)
		session.hold = false

		session.page = terminals.Page{Text: "one\ntwo", TotalLines: 9, LineBegin: 3, LineEnd: 5}
		s.show("read", "terminal_read", `{"sessionId": "pty-1", "offset": 3, "count": 2}`)
		session.page.Truncated = true
		s.show("read, dropped", "terminal_read", `{"sessionId": "pty-1"}`)
		session.page = terminals.Page{TotalLines: 9, LineBegin: 50, LineEnd: 50}
		s.show("read nothing", "terminal_read", `{"sessionId": "pty-1", "offset": 50}`)
		assert.Equal(t, [][2]int{{3, 2}, {0, 500}, {50, 500}}, session.pages)

		s.show("signal", "terminal_signal", `{"sessionId": "pty-1", "signal": "SIGTERM"}`)
		s.show("kill the shell", "terminal_signal", `{"sessionId": "pty-1", "signal": "SIGKILL"}`)
		s.show("close", "terminal_close", `{"sessionId": "pty-2"}`)
		s.show("close again", "terminal_close", `{"sessionId": "pty-2"}`)
		session.closing = make(chan struct{})
		go func() { _, _ = f.service.Close(context.Background(), f.owner, "pty-3", "") }()
		synctest.Wait()
		s.show("list", "terminal_list", "{}")
		time.AfterFunc(time.Second, func() { close(session.closing) })
		s.show("close while it closes", "terminal_close", `{"sessionId": "pty-3"}`)
		golden(t, "results.golden", s.String())
	})
}

func TestBadArguments(t *testing.T) {
	session := &fakeSession{}
	f, _ := newFake(t, session)
	f.open("shell")
	for _, c := range []struct{ name, arguments, want string }{
		{"terminal_open", `{}`, `"type" is required`},
		{"terminal_open", `{"type": null}`, `"type" is required`},
		{"terminal_open", `{"type": ""}`, `"type" is empty; registered types: shell`},
		{"terminal_open", `{"type": 5}`, `"type" must be a string, not a number`},
		{"terminal_open", `{"type": "shell", "name": ""}`, `the name of a terminal session is empty; leave it out or give one`},
		{"terminal_open", `{"type": "shell", "cwd": ["a"]}`, `"cwd" must be a string, not an array`},
		{"terminal_send", `{}`, `"sessionId" is required`},
		{"terminal_send", `{"sessionId": "", "text": "x"}`, `"sessionId" is empty; terminal_list shows your sessions`},
		{"terminal_send", `{"sessionId": "pty-1"}`, `"text" is required`},
		{"terminal_send", `{"sessionId": "pty-1", "text": ["x"]}`, `"text" must be a string, not an array`},
		{"terminal_send", `{"sessionId": "pty-1", "text": "x", "submit": "no"}`, `"submit" must be a boolean, not a string`},
		{"terminal_send", `{"sessionId": "pty-1", "text": "x", "run_in_background": 1}`, `"run_in_background" must be a boolean, not a number`},
		{"terminal_send", `{"sessionId": "pty-9", "text": "x"}`, `there is no terminal session "pty-9"; use the id of an open one`},
		{"terminal_send", `{"sessionId": "pty-9", "text": "x", "run_in_background": true}`, `there is no terminal session "pty-9"; use the id of an open one`},
		{"terminal_read", `{}`, `"sessionId" is required`},
		{"terminal_read", `{"sessionId": "pty-1", "offset": "a"}`, `"offset" must be an integer, not a string`},
		{"terminal_read", `{"sessionId": "pty-1", "count": 1.5}`, `"count" must be an integer, not a number 1.5`},
		{"terminal_read", `{"sessionId": "pty-9"}`, `there is no terminal session "pty-9"; use the id of an open one`},
		{"terminal_signal", `{"signal": "SIGINT"}`, `"sessionId" is required`},
		{"terminal_signal", `{"sessionId": "pty-1"}`, `"signal" is required`},
		{"terminal_signal", `{"sessionId": "pty-1", "signal": "INT"}`, `"signal" must be one of SIGINT, SIGTERM, SIGKILL, SIGTSTP, SIGHUP, not "INT"`},
		{"terminal_signal", `{"sessionId": "pty-1", "signal": 2}`, `"signal" must be a string, not a number`},
		{"terminal_close", ``, `"sessionId" is required`},
		{"terminal_close", `{"sessionId": "pty-9"}`, `there is no terminal session "pty-9"; use the id of an open one`},
		{"terminal_list", `[]`, `the arguments must be a JSON object, not an array`},
	} {
		f.refuses(c.name, c.arguments, c.want)
	}
	assert.Empty(t, session.typed)
	assert.Empty(t, f.tasks.List(f.owner))
	assert.Equal(t, "pty-1 [shell] running", f.ok("terminal_list", `{"more": 1}`).Text, "what a tool does not know is ignored")
}

func TestTyping(t *testing.T) {
	session := &fakeSession{result: terminals.SendResult{WaitReason: terminals.StdinRead}}
	f, _ := newFake(t, session)
	id := f.open("shell")
	for _, arguments := range []map[string]any{
		{"text": "a"}, {"text": "\x03", "submit": false}, {"text": "", "submit": nil}, {"text": "b\n", "submit": true, "run_in_background": false},
		{"text": "c", "submit": false, "run_in_background": true},
	} {
		arguments["sessionId"] = id
		f.ok("terminal_send", arguments)
	}
	assert.Equal(t, []terminals.SendRequest{{Text: "a", Submit: true}, {Text: "\x03"}, {Submit: true}, {Text: "b\n", Submit: true}, {Text: "c"}}, session.typed)
}

// A background send that nobody could run is refused before anything is typed.
//
// Case: reference 3.3 #87
func TestBackgroundRefused(t *testing.T) {
	background := `{"sessionId": "pty-1", "text": "x", "run_in_background": true}`
	for name, c := range map[string]struct {
		configure func(*toolpty.Config)
		want      string
	}{
		"switched off": {func(c *toolpty.Config) { c.RunInBackground = false },
			`"run_in_background" is not available: background sends are switched off (enableRunInBackground); leave it out`},
		"no runtime": {func(c *toolpty.Config) { c.Tasks = nil },
			`"run_in_background" is not available: there is nothing here that runs background tasks; leave it out`},
	} {
		t.Run(name, func(t *testing.T) {
			session := &fakeSession{}
			f, _ := newFake(t, session, c.configure)
			f.open("shell")
			f.refuses("terminal_send", background, c.want)
			assert.Empty(t, session.typed)
			f.ok("terminal_send", `{"sessionId": "pty-1", "text": "x", "run_in_background": false}`)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		session := &fakeSession{}
		f, _ := newFake(t, session)
		f.open("shell")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		res := f.callWith(ctx, "terminal_send", tool.Call{Arguments: json.RawMessage(background)})
		assert.Equal(t, "Error: the call was cancelled", res.Text)
		assert.Empty(t, session.typed)
	})
}

// A background send outlives the call that started it.
func TestBackgroundOutlivesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := &fakeSession{hold: true}
		f, _ := newFake(t, session)
		f.open("shell")
		ctx, cancel := context.WithCancel(t.Context())
		res := f.callWith(ctx, "terminal_send", tool.Call{Arguments: json.RawMessage(`{"sessionId": "pty-1", "text": "x", "run_in_background": true}`)})
		require.False(t, res.IsError)
		cancel()
		synctest.Wait()
		assert.Equal(t, tasks.Running, f.tasks.List(f.owner)[0].Status)
		session.send.end(terminals.SendResult{WaitReason: terminals.StdinRead})
		assert.Equal(t, tasks.Notice{TaskID: "pty-send-1", Status: tasks.Completed, Detail: "wait: stdin_read"}, <-f.notices)
	})
}

func TestCancelledSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := &fakeSession{hold: true}
		f, _ := newFake(t, session)
		f.open("shell")
		stop := errors.New("the user pressed stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		res := f.callWith(ctx, "terminal_send", tool.Call{Arguments: json.RawMessage(`{"sessionId": "pty-1", "text": "x"}`)})
		assert.Equal(t, tool.Result{Text: "Error: the user pressed stop", IsError: true, Intent: tool.IntentTerminal}, res)
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := &fakeSession{hold: true, result: terminals.SendResult{Viewport: "one\ntwo\n"}}
		f, _ := newFake(t, session)
		f.open("shell")
		var reports []string
		go func() {
			synctest.Wait()
			session.send.print("one\n")
			time.Sleep(time.Minute)
			session.send.print(strings.Repeat("一", 1000))
			time.Sleep(time.Minute)
			session.send.end(terminals.SendResult{Viewport: "all", WaitReason: terminals.StdinRead})
		}()
		res := f.callWith(t.Context(), "terminal_send", tool.Call{
			Arguments: json.RawMessage(`{"sessionId": "pty-1", "text": "x"}`),
			Progress:  func(text string) { reports = append(reports, text) },
		})
		assert.Equal(t, "all\n[wait: stdin_read]\n[session: running]", res.Text)
		assert.Equal(t, []string{"one\n", strings.Repeat("一", 682)}, reports)
	})
}

func TestOpenRequest(t *testing.T) {
	var asked []string
	f, b := newFake(t, &fakeSession{}, func(c *toolpty.Config) {
		c.Env = func(owner *terminals.Owner, id string) ([]string, error) {
			asked = append(asked, owner.Name()+" "+id)
			if id == "pty-3" {
				return nil, errors.New("the resolver of DSH_X failed")
			}
			return []string{"DSH_SHELL=1"}, nil
		}
	})
	cwd := f.owner.Cwd()
	f.ok("terminal_open", `{"type": "shell", "name": "a"}`)
	assert.Equal(t, terminals.Setup{Owner: f.owner, ID: "pty-1", Name: "a", Cwd: cwd, Mode: terminals.Interactive, Env: []string{"DSH_SHELL=1"}}, b.setup)
	f.ok("terminal_open", `{"type": "shell", "cwd": "sub/../other"}`)
	assert.Equal(t, filepath.Join(cwd, "other"), b.setup.Cwd)
	f.refuses("terminal_open", `{"type": "shell"}`, "the resolver of DSH_X failed")
	f.ok("terminal_open", map[string]any{"type": "shell", "cwd": cwd})
	assert.Equal(t, cwd, b.setup.Cwd)
	f.refuses("terminal_open", `{"type": "shell", "name": "a"}`, `the name "a" belongs to terminal session pty-1; choose another one or close that session`)
	assert.Equal(t, []string{"agent pty-1", "agent pty-2", "agent pty-3", "agent pty-4"}, asked)
}

// Case: reference 3.3 #2
func TestForeignOwner(t *testing.T) {
	session := &fakeSession{}
	f, _ := newFake(t, session)
	f.open("shell")
	other, err := f.service.NewOwner(terminals.OwnerOptions{Name: "agent"})
	require.NoError(t, err)
	for _, stranger := range []*terminals.Owner{other, nil} {
		g := f.as(stranger)
		const foreign = "terminal session pty-1 belongs to another owner; use one that you opened"
		g.refuses("terminal_send", `{"sessionId": "pty-1", "text": "x"}`, foreign)
		g.refuses("terminal_read", `{"sessionId": "pty-1"}`, foreign)
		g.refuses("terminal_signal", `{"sessionId": "pty-1", "signal": "SIGINT"}`, foreign)
		g.refuses("terminal_close", `{"sessionId": "pty-1"}`, foreign)
		assert.Equal(t, "(no terminal sessions)", g.ok("terminal_list", "").Text)
	}
	f.as(other).refuses("terminal_send", `{"sessionId": "pty-1", "text": "x", "run_in_background": true}`,
		"terminal session pty-1 belongs to another owner; use one that you opened")
	assert.True(t, f.as(nil).call("terminal_open", `{"type": "shell"}`).IsError)
	assert.True(t, f.as(nil).call("terminal_send", `{"sessionId": "pty-1", "text": "x", "run_in_background": true}`).IsError)
	assert.Empty(t, session.typed)
}

// At the smallest bound ids and reasons are still there.
//
// Case: reference 3.3 #86
func TestSmallestBound(t *testing.T) {
	session := &fakeSession{startup: strings.Repeat("motd ", 100), pid: 4711, result: terminals.SendResult{
		Viewport: strings.Repeat("一", 100), WaitReason: terminals.StdinRead, NeedsInput: python, FullScreen: true,
	}}
	f, _ := newFake(t, session, func(c *toolpty.Config) { c.MaxResultBytes = 64 })
	check := func(name string, arguments any, want string) tool.Result {
		t.Helper()
		res := f.call(name, arguments)
		assert.Equal(t, want, res.Text)
		assert.LessOrEqual(t, len(res.Text), 64)
		return res
	}
	open := check("terminal_open", map[string]string{"type": "shell", "name": strings.Repeat("n", 1000)},
		"started terminal session pty-1 (nnnnnnnnnnnnn\n[output truncated]")
	assert.Empty(t, open.Structured.(toolpty.OpenResult).Motd)
	open = check("terminal_open", `{"type": "shell"}`, "started terminal session pty-2 [type: shell]\n[output truncated]")
	assert.Empty(t, open.Structured.(toolpty.OpenResult).Motd)
	send := `{"sessionId": "pty-1", "text": "x"}`
	res := check("terminal_send", send, "一一\n[wait: stdin_read]\n[session: running]\n[output truncated]")
	assert.True(t, res.Structured.(toolpty.SendResult).Truncated)
	assert.Equal(t, "一一", res.Structured.(toolpty.SendResult).Viewport)
	session.result.Status, session.result.WaitReason = terminals.Status{Exited: true, ExitCode: new(127)}, terminals.SessionExit
	check("terminal_send", send, "一一一一一一一一\n[wait: session_exit]\n[output truncated]")
	check("terminal_send", `{"sessionId": "pty-1", "text": "x", "run_in_background": true}`, "started background task pty-send-1")
	check("task_output", `{"task_id": "pty-send-1", "wait": true}`, "[output truncated]\n[status: completed, session exited: 127]")
	session.page = terminals.Page{Text: strings.Repeat("0123456789\n", 20) + "end", TotalLines: 30, LineBegin: 5, LineEnd: 26}
	res = check("terminal_read", `{"sessionId": "pty-1"}`, "0123456789\n0123456789\nend\n[lines: 5-8 of 30]\n[output truncated]")
	assert.Equal(t, terminals.Page{Text: "0123456789\n0123456789\nend", TotalLines: 30, LineBegin: 5, LineEnd: 8, Truncated: true}, res.Structured)
	check("terminal_close", map[string]string{"sessionId": strings.Repeat("x", 100)}, "Error: there is no terminal session \"xxxxxxxx\n[output truncated]")
	check("terminal_list", "", "pty-1 (nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\n[output truncated]")
}

// Pages that the bound cuts lose no line between them.
func TestPagesThatAreCut(t *testing.T) {
	const total = 400
	lines := make([]string, total)
	for i := range lines {
		lines[i] = strings.Repeat("一", i%7) + fmt.Sprint(i)
	}
	session := &fakeSession{}
	f, _ := newFake(t, session, func(c *toolpty.Config) { c.MaxResultBytes = 300 })
	f.open("shell")
	var got []string
	for offset := 0; offset < total; {
		session.page = terminals.Page{Text: strings.Join(lines[:total-offset], "\n"), TotalLines: total, LineBegin: offset, LineEnd: total}
		res := f.ok("terminal_read", fmt.Sprintf(`{"sessionId": "pty-1", "offset": %d}`, offset))
		page := res.Structured.(terminals.Page)
		require.LessOrEqual(t, len(res.Text), 300)
		require.True(t, utf8.ValidString(res.Text))
		require.True(t, strings.HasPrefix(res.Text, page.Text+"\n[lines: "))
		require.Equal(t, page.LineEnd < total, page.Truncated)
		got = append(strings.Split(page.Text, "\n"), got...)
		require.Len(t, got, page.LineEnd)
		offset = page.LineEnd
	}
	assert.Equal(t, lines, got)
}

func TestConfig(t *testing.T) {
	for _, max := range []int{1, 63, -1} {
		_, err := toolpty.New(nil, toolpty.Config{MaxResultBytes: max})
		assert.ErrorIs(t, err, terminals.InvalidArgument)
		assert.ErrorContains(t, err, "maxResultBytes must be 64 or more")
	}
	assert.Equal(t, toolpty.Config{RunInBackground: true, MaxResultBytes: 262144}, toolpty.DefaultConfig())
}
