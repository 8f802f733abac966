//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/config"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/session"
)

// logged is a server whose sessions are logged in a home of its own.
type logged struct {
	t    *testing.T
	home string
}

func newLogged(t *testing.T) logged {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return logged{t, filepath.Join(home, "a home\nof two lines")}
}

// command is the program with these arguments. What its parent knows of a
// session of its own, and its secrets, must not get through.
func (l logged) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program(l.t), args...)
	cmd.Env = append(os.Environ(), "SHELLSTEAD_SESSION_PERSISTENCE=", "DSH_HOME="+l.home,
		"DSH_SESSION_ID=stale", "DSH_SESSION_JSONL=/stale", "dsh_lower=stale", "MY_TOKEN=secret", "AWS_SECRET_ACCESS_KEY=secret")
	return cmd
}

func (l logged) connect(args ...string) *mcp.ClientSession {
	l.t.Helper()
	return clientOf(l.t, l.command(append([]string{"mcp"}, args...)...), nil)
}

// file is the only log.
func (l logged) file() string {
	l.t.Helper()
	files, err := filepath.Glob(filepath.Join(l.home, "sessions", "*", "*", "session.jsonl"))
	require.NoError(l.t, err)
	require.Len(l.t, files, 1)
	return files[0]
}

// events are the events of a log so far, without those of the sandbox.
func events(t *testing.T, file string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var list []map[string]any
	seq := 0
	for line := range bytes.Lines(data) {
		var event map[string]any
		require.NoError(t, json.Unmarshal(line, &event), "%s", line)
		assert.EqualValues(t, seq, event["seq"])
		seq++
		if event["type"] != session.TypeSandboxMode {
			list = append(list, event)
		}
	}
	return list
}

func types(list []map[string]any) string {
	var names []string
	for _, event := range list {
		names = append(names, strings.TrimPrefix(event["type"].(string), "tool/"))
	}
	return strings.Join(names, " ")
}

// shown are the five variables, two secrets of the parent and a setting, in the
// language of a shell: one a line, with a mark at the end of each.
var shown = map[string]string{
	"bash": `printf '%s|\n' "$DSH_HOME" "$DSH_SHELL" "$DSH_SESSION_ID" "$DSH_SESSION_JSONL" "$DSH_PTY_SESSION_ID" "${dsh_lower-}${MY_TOKEN-}${AWS_SECRET_ACCESS_KEY-}" "$API_KEY"`,
	"pwsh": `$env:DSH_HOME, $env:DSH_SHELL, $env:DSH_SESSION_ID, $env:DSH_SESSION_JSONL, $env:DSH_PTY_SESSION_ID, ` +
		`"$env:dsh_lower$env:MY_TOKEN$env:AWS_SECRET_ACCESS_KEY", $env:API_KEY | ForEach-Object { "$_|" }`,
}

// The five variables, in each kind of shell, and nothing of the parent's.
//
// Case: reference 3.3 #79
func TestSessionVariables(t *testing.T) {
	t.Parallel()
	for _, shell := range []struct {
		name       string
		background string // what shows the variables from a background job
		forge      string // what a user sets before the shell ends
	}{
		{"bash", "sh show.sh >bg.txt & wait $! 2>/dev/null; cat bg.txt", "export DSH_SESSION_ID=x DSH_HOME=y DSH_SESSION_JSONL=z; exit"},
		{"pwsh", "$job = Start-Process sh show.sh -PassThru -RedirectStandardOutput bg.txt; $job.WaitForExit(); Get-Content bg.txt", "$env:DSH_SESSION_ID = 'x'; $env:DSH_HOME = 'y'; $env:DSH_SESSION_JSONL = 'z'; exit"},
	} {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			need(t, shell.name)
			l := newLogged(t)
			explicit, cwd := "backends."+shell.name, t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(cwd, "show.sh"), []byte(shown["bash"]), 0o600))
			w := worked{t, l.connect("--tools", shell.name+",terminal", "--cwd", cwd,
				"--set", explicit+".env.API_KEY=explicit", "--set", explicit+".cols=400")}
			_, fields := w.call(shell.name, map[string]any{"command": shown[shell.name]})
			id := fields["sessionId"].(string)
			require.NotEmpty(t, id)
			want := func(terminal string) string {
				return strings.Join([]string{l.home, "1", id, l.file(), terminal, "", "explicit", ""}, "|\n")
			}
			// The shell of a command tool is no terminal of the model's.
			assert.Equal(t, want(""), fields["output"])
			_, fields = w.call(shell.name, map[string]any{"command": shell.background})
			assert.Equal(t, want(""), fields["output"], "in the background")
			w.call(shell.name, map[string]any{"command": shell.forge})
			_, fields = w.call(shell.name, map[string]any{"command": shown[shell.name]})
			assert.Equal(t, want(""), fields["output"], "what a user sets ends with the shell")

			terminal := w.open(shell.name)
			text, _ := w.send(terminal, shown[shell.name])
			assert.Contains(t, text, "\n"+want(terminal))
			_, fields = w.call("terminal_send", map[string]any{"sessionId": terminal, "text": shown[shell.name], "run_in_background": true})
			text, _ = w.call("task_output", map[string]any{"task_id": fields["taskId"], "wait": true})
			assert.Contains(t, text, "\n"+want(terminal), "of a background send")
		})
	}
}

// A shell can follow its own session's log.
func TestLogIsFollowed(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	w := worked{t, l.connect("--tools", "bash,terminal")}
	id := w.open("shell")
	_, fields := w.call("terminal_send", map[string]any{"sessionId": id, "run_in_background": true,
		"text": `tail -n +1 -f "$DSH_SESSION_JSONL" | grep --line-buffered -Eo '"(command|output)":"(echo )?follow-[0-9][^"]*"'`})
	w.call("bash", map[string]any{"command": "echo follow-$((6 * 7))"})
	w.call("bash", map[string]any{"command": "echo follow-1"})
	for text := ""; ; {
		more, _ := w.call("task_output", map[string]any{"task_id": fields["taskId"], "wait": true, "timeout_ms": 100})
		if text += more; strings.Contains(text, `"command":"echo follow-1"`) {
			assert.Contains(t, text, `"output":"follow-42\n"`)
			break
		}
	}
}

// valid checks events against the published schema.
func valid(t *testing.T, list []map[string]any) {
	t.Helper()
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(session.EventSchema(), &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	for _, event := range list {
		assert.NoError(t, resolved.Validate(event), "%v", event)
	}
}

// The log can be followed from inside the session, has all tools' calls, and
// ends in good order; what the model was told is what it holds.
func TestLogOfAConnection(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	s := l.connect("--tools", "bash,terminal")
	assert.Equal(t, "1\n", textOf(t, call(t, s, `grep -c '"name":"bash"' "$DSH_SESSION_JSONL"`)))
	res := callTool(t, s, "bash", "printf 'a\\033[1mb'; exit 3")
	bad := callTool(t, s, "bash", "a\x00b")
	_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "terminal_list", Arguments: map[string]any{}})
	require.NoError(t, err)
	file := l.file()
	assert.Equal(t, "session/start call result call result call result call result", types(events(t, file)), "each is there when it is answered")
	require.NoError(t, s.Close())

	list := events(t, file)
	valid(t, list)
	assert.Equal(t, "session/end", list[len(list)-1]["type"])
	for at, want := range map[int]*mcp.CallToolResult{3: res, 5: bad} {
		sent, got := list[at], list[at+1]
		assert.Equal(t, "bash", sent["name"])
		assert.Equal(t, sent["id"], got["id"])
		assert.Equal(t, textOf(t, want), got["text"])
		assert.Equal(t, want.IsError, got["isError"])
		assert.Equal(t, want.StructuredContent, got["structured"])
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm())
}

// A call that the end of the connection cuts off is in the log with its answer.
func TestLogOfTheLastCall(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	p := startCommand(t, l.command("mcp"))
	write := func(message string) {
		_, err := p.in.Write([]byte(message + "\n"))
		require.NoError(t, err)
	}
	write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	p.line()
	write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fifo := filepath.Join(t.TempDir(), "started")
	require.NoError(t, exec.Command("mkfifo", fifo).Run())
	write(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo begun; echo >%s; sleep 1000"}}}`, fifo))
	_, err := os.ReadFile(fifo)
	require.NoError(t, err)
	require.NoError(t, p.in.Close())
	code, _ := p.exit()
	assert.Zero(t, code)
	list := events(t, l.file())
	assert.Equal(t, "session/start call result session/end", types(list))
	assert.Contains(t, list[2]["text"], "begun")
	assert.Equal(t, true, list[2]["isError"])
}

// What is typed for a secret is in no event, however it gets there.
func TestSecretsStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	w := worked{t, l.connect("--tools", "bash,terminal", "--set", "tools.bash.waitConfirmMs=30")}
	id := w.open("shell")
	_, fields := w.send(id, "read -rs -p 'word: ' word")
	w.waits(fields, "secret", "word: ")
	w.send(id, "opensesame-1")
	text, _ := w.send(id, "echo $word")
	assert.Contains(t, text, "opensesame-1", "the model still reads what it asks for")

	_, fields = w.call("bash", map[string]any{"command": "read -rs word; echo ${#word}"})
	w.waits(fields, "secret", "")
	w.call("terminal_send", map[string]any{"sessionId": fields["terminalId"], "text": "opensesame-2"})
	_, fields = w.call("bash", map[string]any{"command": "echo $word"})
	assert.Equal(t, "opensesame-2\n", fields["output"])
	w.send(id, "echo a-line-that-is-none")

	data, err := os.ReadFile(l.file())
	require.NoError(t, err)
	assert.NotContains(t, string(data), "opensesame")
	assert.Equal(t, 2, strings.Count(string(data), `"text":"[secret]"}`), "the two sends")
	assert.Contains(t, string(data), "a-line-that-is-none")
}

// Hooks decide over calls of every tool, with the session's identity; a call
// that is blocked holds up no other.
func TestHooksOfAConnection(t *testing.T) {
	t.Parallel()
	need(t, "python3")
	l := newLogged(t)
	dir := t.TempDir()
	seen, guard := filepath.Join(dir, "seen"), filepath.Join(dir, "guard.py")
	require.NoError(t, os.WriteFile(guard, []byte(`import json, sys
call = json.load(sys.stdin)
with open(sys.argv[1], "a") as f:
    print(json.dumps(call), file=f)
text = call["tool_input"].get("command", "")
event = call["hook_event_name"]
answer = {"hookEventName": event}
if event == "PreToolUse":
    if "forbidden" in text:
        sys.exit("never")  if "fail" in text else (print("not here", file=sys.stderr), sys.exit(2))
    if "other" in text:
        answer["updatedInput"] = {"command": "echo replaced"}
elif "hide" in text:
    answer["updatedToolOutput"] = "nothing to see"
elif "blocks" in text:
    answer["updatedToolOutput"] = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
elif "withhold" in text:
    print("too much", file=sys.stderr)
    sys.exit(2)
print(json.dumps({"hookSpecificOutput": answer}))
`), 0o600))
	file := filepath.Join(dir, "c.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "hooks:\n"+
		"- {event: PreToolUse, command: [python3, %[1]q, %[2]q], onFailure: block}\n"+
		"- {event: PostToolUse, matcher: bash, command: [python3, %[1]q, %[2]q]}\n", guard, seen), 0o600))
	s := l.connect("--config", file, "--tools", "bash,terminal")

	for command, want := range map[string]string{
		"echo forbidden":           "blocked by a hook: not here",
		"echo forbidden to fail":   "blocked by a hook: the hook python3 failed: exit status 1: never",
		"echo withhold":            "blocked by a hook: too much",
		"touch forbidden; sleep 9": "blocked by a hook: not here",
	} {
		res := call(t, s, command)
		assert.True(t, res.IsError)
		assert.Equal(t, want, textOf(t, res))
		assert.Nil(t, res.StructuredContent)
	}
	assert.NoFileExists(t, "forbidden")
	assert.Equal(t, "replaced\n", textOf(t, call(t, s, "echo other")))
	res := call(t, s, "echo hide this; exit 4")
	assert.Equal(t, "nothing to see", textOf(t, res))
	assert.False(t, res.IsError)
	assert.Equal(t, "nothing to see", structured(t, res)["output"])
	assert.EqualValues(t, 4, structured(t, res)["exitCode"], "the structure is still the schema's")
	res = call(t, s, "echo blocks")
	require.Len(t, res.Content, 2)
	assert.Equal(t, &mcp.TextContent{Text: "two"}, res.Content[1])

	// Calls that are sent together keep their order, blocked ones between them too.
	call(t, s, "n=0")
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { call(t, s, "echo forbidden") })
	}
	calls.Wait()
	assert.Equal(t, "0\n", textOf(t, call(t, s, "echo $n")))

	list := events(t, l.file())
	first := list[1]
	assert.Equal(t, "tool/call", first["type"])
	data, err := os.ReadFile(seen)
	require.NoError(t, err)
	payloads := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	var payload map[string]any
	require.NoError(t, json.Unmarshal(payloads[0], &payload))
	assert.Equal(t, list[0]["id"], payload["session_id"])
	assert.Equal(t, l.file(), payload["transcript_path"])
	assert.Equal(t, first["id"], payload["tool_use_id"])
	here, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, here, payload["cwd"])
	log, err := os.ReadFile(l.file())
	require.NoError(t, err)
	assert.NotContains(t, string(log), `"text":"hide this`, "the log has what the model got")
}

// Calls that a client sends without waiting reach their shell in order although
// the hook of the first takes longer than that of the second.
func TestHooksKeepTheOrder(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	dir := t.TempDir()
	first := filepath.Join(dir, "first")
	require.NoError(t, exec.Command("mkfifo", first).Run())
	// The first call's hook is held until the second's has run.
	script := fmt.Sprintf(`if grep -q one; then read -r x <%[1]q; else echo go >%[1]q; fi`, first)
	hooks, err := json.Marshal([]config.Hook{{Event: "PreToolUse", Command: []string{"bash", "-c", script}, Format: "claude-code", Timeout: 30000, OnFailure: "allow"}})
	require.NoError(t, err)
	p := startCommand(t, l.command("mcp", "--set", "hooks="+string(hooks)))
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"x=${x}one"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"bash","arguments":{"command":"x=${x}two; echo $x"}}}`,
	} {
		_, err := p.in.Write([]byte(message + "\n"))
		require.NoError(t, err)
	}
	p.line()
	answers := p.line() + p.line()
	assert.Contains(t, answers, "onetwo")
}

// A session that is in use is nobody else's; afterwards it goes on in its file.
func TestResumedConnection(t *testing.T) {
	t.Parallel()
	l := newLogged(t)
	s := l.connect()
	id := structured(t, call(t, s, "true"))["sessionId"].(string)
	out, err := l.command("mcp", "--session", id).CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, exitUsage, exit.ExitCode())
	assert.Contains(t, string(out), "in use")
	require.NoError(t, s.Close())

	s = l.connect("--session", id)
	res := call(t, s, `echo "$DSH_SESSION_ID"`)
	assert.Equal(t, id+"\n", textOf(t, res))
	require.NoError(t, s.Close())
	assert.Equal(t, "session/start call result session/end call result session/end", types(events(t, l.file())))
}

// rounds is how often a soak repeats: briefly among the other tests, in full
// with SHELLSTEAD_SOAK=1 (ci/soak).
func rounds(brief, full int) int {
	if os.Getenv("SHELLSTEAD_SOAK") != "" {
		return full
	}
	return brief
}

// answers are what a program said to commands before it was killed.
type answers struct {
	id    string // the session's; empty where nothing was answered
	texts []string
}

// killed are commands that a program was given at once. It was killed while it
// answered them, at a moment of its own each time.
func (l logged) killed(args []string, request func(n int, command string) string, answer func(line string) persistent.Result) answers {
	l.t.Helper()
	const commands = 20
	p := startCommand(l.t, l.command(args...))
	go func() { // as the program reads no more than it works on
		for n := range commands {
			command := fmt.Sprintf("printf 'answer-%d %%0%dd\\n' 7", n, n%4*4000) // within a page, and over several
			if _, err := io.WriteString(p.in, request(n, command)+"\n"); err != nil {
				return
			}
		}
	}()
	var got answers
	for kill := rand.IntN(commands); ; {
		if kill == len(got.texts) {
			time.AfterFunc(rand.N(5*time.Millisecond), func() { _ = p.cmd.Process.Kill() })
		}
		line, err := p.lines.ReadString('\n')
		if err != nil {
			break
		}
		res := answer(line)
		if res.SessionID == nil {
			continue // not to a command
		}
		got.id = *res.SessionID
		got.texts = append(got.texts, res.Text)
	}
	_ = p.cmd.Wait()
	require.Equal(l.t, -1, p.cmd.ProcessState.ExitCode(), "it was killed; stderr: %s", &p.stderr)
	return got
}

// Whatever was answered before a program is killed is in its log, which can be
// resumed, forked and listed.
func TestKilledProgramSoak(t *testing.T) {
	t.Parallel()
	for _, front := range []struct {
		name    string
		args    []string
		request func(n int, command string) string
		answer  func(t *testing.T, line string) persistent.Result
	}{
		{
			name: "run", args: []string{"run", "--jsonl", "--log", "jsonl"},
			request: func(_ int, command string) string { return fmt.Sprintf(`{"command":%q}`, command) },
			answer: func(t *testing.T, line string) (res persistent.Result) {
				require.NoError(t, json.Unmarshal([]byte(line), &res), line)
				return res
			},
		},
		{
			name: "mcp", args: []string{"mcp"},
			request: func(n int, command string) string {
				call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"bash","arguments":{"command":%q}}}`, n+2, command)
				if n > 0 {
					return call
				}
				return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
					`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + call
			},
			answer: func(t *testing.T, line string) persistent.Result {
				var message struct {
					Result struct {
						StructuredContent persistent.Result `json:"structuredContent"`
					} `json:"result"`
				}
				require.NoError(t, json.Unmarshal([]byte(line), &message), line)
				return message.Result.StructuredContent
			},
		},
	} {
		t.Run(front.name, func(t *testing.T) {
			t.Parallel()
			l := newLogged(t)
			var ids []string
			for range rounds(4, 200) {
				got := l.killed(front.args, front.request, func(line string) persistent.Result { return front.answer(t, line) })
				if got.id == "" {
					continue
				}
				ids = append(ids, got.id)
				stored, err := l.command("sessions", "show", "--json", got.id).Output()
				require.NoError(t, err)
				logged := map[string]bool{}
				for line := range bytes.Lines(stored) {
					var event session.ToolResult
					require.NoError(t, json.Unmarshal(line, &event))
					logged[event.Text] = true
				}
				for n, text := range got.texts {
					require.Contains(t, text, "answer-")
					require.True(t, logged[text], "answer %d of %d: %.20s", n, len(got.texts), text)
				}
				out, err := l.command("run", "--session", got.id, "echo on").Output()
				require.NoError(t, err)
				assert.Equal(t, "on\n", string(out))
			}
			require.NotEmpty(t, ids)
			last := ids[len(ids)-1]
			require.NoError(t, l.command("run", "--fork", last, "true").Run())
			listed, err := l.command("sessions").Output()
			require.NoError(t, err)
			for _, id := range ids {
				assert.Contains(t, "\n"+string(listed), "\n"+id+" ")
			}
			assert.Contains(t, string(listed), "from "+last+",")
		})
	}
}

// Agents of one process that run at the same time each see their own session,
// and one without any sees none.
func TestOverlappingAgents(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Options{Dialects: dialectNames(), Set: []string{"dshHome=" + t.TempDir()}, Found: found})
	require.NoError(t, err)
	a := &app{streams: streams{err: testLog{t}}, level: "error"}
	log, err := a.logger()
	require.NoError(t, err)
	h, err := newHost(cfg, log, false)
	require.NoError(t, err)
	defer h.dispose()
	command, err := h.command("bash")
	require.NoError(t, err)

	var calls sync.WaitGroup
	ids := map[string]bool{}
	for i := range 4 {
		o := sessionOptions{session: newSession}
		if i == 3 {
			o.session = noSession
		}
		agent, err := h.newAgent(t.Context(), "agent", t.TempDir(), o, false)
		require.NoError(t, err)
		defer agent.close()
		ids[agent.id] = true
		calls.Go(func() {
			for range 5 {
				res := command.runner.Run(t.Context(), agent.owner, persistent.Command{Text: `printf %s "$DSH_SESSION_ID"; sleep 0.01`})
				assert.Equal(t, agent.id, res.Output)
				if agent.id == "" {
					assert.Nil(t, res.SessionID)
				} else if assert.NotNil(t, res.SessionID) {
					assert.Equal(t, agent.id, *res.SessionID)
				}
			}
		})
	}
	calls.Wait()
	assert.Len(t, ids, 4)
	for _, name := range os.Environ() {
		assert.False(t, strings.HasPrefix(name, "DSH_SESSION"), "nothing is written to the process's own environment")
	}
}
