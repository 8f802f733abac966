package hooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/hooks"
	"github.com/shellstead/shellstead/tool"
)

// TestMain lets this test program be a hook: "hook", then what it does.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "hook" {
		os.Exit(behave(os.Args[2], os.Args[3:]))
	}
	// Under the race detector every process that ends would wait a second.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func behave(what string, args []string) int {
	switch what {
	case "print": // its argument
		fmt.Print(args[0])
		return 0
	case "block": // with its argument as the reason
		fmt.Fprintln(os.Stderr, args[0])
		return 2
	case "fail":
		fmt.Fprintln(os.Stderr, "first line\nsecond line")
		return 1
	case "save": // what it reads
		payload, err := io.ReadAll(os.Stdin)
		if err != nil || os.WriteFile(args[0], payload, 0o600) != nil {
			return 1
		}
		return 0
	case "where":
		wd, _ := os.Getwd()
		fmt.Fprint(os.Stderr, wd)
		return 2
	case "flood": // 100 MB, after its argument
		fmt.Print(args[0])
		for range 100 {
			_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<20))
			_, _ = os.Stderr.Write([]byte("x"))
		}
		return 0
	case "hang": // with a child that holds the pipes, and says so by its argument
		child := exec.Command(os.Args[0], "hook", "wait")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if child.Start() != nil || os.WriteFile(args[0], []byte(fmt.Sprint(child.Process.Pid)), 0o600) != nil {
			return 1
		}
		_ = child.Wait()
	case "wait":
		<-time.After(time.Hour) // a bare select ends a program that has nothing else to do
	case "leave": // a child that holds the pipes, its pid in the argument's file
		child := exec.Command(os.Args[0], "hook", "wait")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if child.Start() != nil || os.WriteFile(args[0], []byte(fmt.Sprint(child.Process.Pid)), 0o600) != nil {
			return 1
		}
		fmt.Print(`{"decision":"block","reason":"left"}`)
		return 0
	}
	return 1
}

// command is a hook of this test program.
func command(t *testing.T, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return append([]string{self, "hook"}, args...)
}

func runner(t *testing.T, list ...hooks.Hook) *hooks.Runner {
	t.Helper()
	r, err := hooks.New(hooks.Options{Hooks: list})
	require.NoError(t, err)
	return r
}

func before(t *testing.T, args ...string) hooks.Hook {
	return hooks.Hook{Event: hooks.PreToolUse, Command: command(t, args...)}
}

func after(t *testing.T, args ...string) hooks.Hook {
	return hooks.Hook{Event: hooks.PostToolUse, Command: command(t, args...)}
}

var (
	call = hooks.Call{
		SessionID: "s", Transcript: filepath.FromSlash("/logs/s/session.jsonl"), Cwd: filepath.FromSlash("/work/agent"),
		ToolName: "bash", ToolUseID: "7", Input: json.RawMessage(`{"command":"ls"}`),
	}
	result = tool.Result{
		Text: "a\nb\n", Structured: map[string]any{"exitCode": 0}, Intent: tool.IntentExecute,
	}
)

// The members that the public documentation of the hooks names, their types and
// what stands for nothing.
const (
	claudeSchema = `{
		"type": "object", "additionalProperties": false,
		"required": ["session_id", "transcript_path", "cwd", "hook_event_name", "tool_name", "tool_input"],
		"properties": {
			"session_id": {"type": "string"}, "transcript_path": {"type": "string"}, "cwd": {"type": "string", "minLength": 1},
			"hook_event_name": {"enum": ["PreToolUse", "PostToolUse"]}, "tool_name": {"type": "string"},
			"tool_use_id": {"type": "string"}, "tool_input": true, "tool_response": true
		},
		"if": {"properties": {"hook_event_name": {"const": "PostToolUse"}}},
		"then": {"required": ["tool_response"]}, "else": {"not": {"required": ["tool_response"]}}
	}`
	codexSchema = `{
		"type": "object", "additionalProperties": false,
		"required": ["cwd", "hook_event_name", "model", "permission_mode", "session_id", "tool_input", "tool_name", "tool_use_id", "transcript_path", "turn_id"],
		"properties": {
			"session_id": {"type": "string"}, "transcript_path": {"type": ["string", "null"]}, "cwd": {"type": "string", "minLength": 1},
			"hook_event_name": {"enum": ["PreToolUse", "PostToolUse"]}, "tool_name": {"type": "string"},
			"model": {"type": "string"}, "turn_id": {"type": "string"},
			"permission_mode": {"enum": ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]},
			"tool_use_id": {"type": "string"}, "tool_input": true, "tool_response": true
		},
		"if": {"properties": {"hook_event_name": {"const": "PostToolUse"}}},
		"then": {"required": ["tool_response"]}, "else": {"not": {"required": ["tool_response"]}}
	}`
)

// What the payloads say, also where there is nothing to say.
//
// Case: reference 3.3 #84
func TestPayloads(t *testing.T) {
	wd, err := os.Getwd()
	require.NoError(t, err)
	nothing := hooks.Call{ToolName: "bash"}
	broken := call
	broken.Input = json.RawMessage(`{"command": oops`)
	transcript, cwd := string(quoted(t, call.Transcript)), string(quoted(t, call.Cwd))
	for _, tt := range []struct {
		name     string
		format   hooks.Format
		event    hooks.Event
		call     hooks.Call
		response *tool.Result
		want     string
	}{
		{"Claude Code before", hooks.ClaudeCode, hooks.PreToolUse, call, nil, `{"session_id":"s","transcript_path":` + transcript + `,"cwd":` + cwd + `,"hook_event_name":"PreToolUse","tool_name":"bash","tool_use_id":"7","tool_input":{"command":"ls"}}`},
		{"Claude Code after", hooks.ClaudeCode, hooks.PostToolUse, call, &result, `{"session_id":"s","transcript_path":` + transcript + `,"cwd":` + cwd + `,"hook_event_name":"PostToolUse","tool_name":"bash","tool_use_id":"7","tool_input":{"command":"ls"},"tool_response":{"exitCode":0}}`},
		{"Claude Code without a session", hooks.ClaudeCode, hooks.PostToolUse, nothing, &tool.Result{Text: "t\xff"}, `{"session_id":"","transcript_path":"","cwd":` + string(quoted(t, wd)) + `,"hook_event_name":"PostToolUse","tool_name":"bash","tool_use_id":"","tool_input":{},"tool_response":"t\ufffd"}`},
		{"Codex before", hooks.Codex, hooks.PreToolUse, broken, nil, `{"session_id":"s","transcript_path":` + transcript + `,"cwd":` + cwd + `,"hook_event_name":"PreToolUse","tool_name":"bash","tool_use_id":"7","tool_input":"{\"command\": oops","model":"","turn_id":"","permission_mode":"default"}`},
		{"Codex without a session", hooks.Codex, hooks.PostToolUse, nothing, &tool.Result{}, `{"session_id":"","transcript_path":null,"cwd":` + string(quoted(t, wd)) + `,"hook_event_name":"PostToolUse","tool_name":"bash","tool_use_id":"","tool_input":{},"tool_response":"","model":"","turn_id":"","permission_mode":"default"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			payload, err := hooks.Payload(tt.format, tt.event, tt.call, tt.response)
			require.NoError(t, err)
			assert.JSONEq(t, tt.want, string(payload))

			schema := claudeSchema
			if tt.format == hooks.Codex {
				schema = codexSchema
			}
			var s jsonschema.Schema
			require.NoError(t, json.Unmarshal([]byte(schema), &s))
			resolved, err := s.Resolve(nil)
			require.NoError(t, err)
			var value map[string]any
			require.NoError(t, json.Unmarshal(payload, &value))
			assert.NoError(t, resolved.Validate(value))
			delete(value, "session_id")
			assert.Error(t, resolved.Validate(value))
		})
	}
	assert.NoFileExists(t, call.Transcript)
}

func quoted(t *testing.T, text string) []byte {
	t.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(t, err)
	return quoted
}

func TestHooksReadTheirPayload(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	codex := after(t, "save", second)
	codex.Format = hooks.Codex
	r := runner(t, before(t, "save", first), codex)

	input, blocked := r.Before(t.Context(), call)
	assert.Nil(t, blocked)
	assert.Equal(t, call.Input, input)
	assert.Equal(t, result, r.After(t.Context(), call, result))

	want, err := hooks.Payload(hooks.ClaudeCode, hooks.PreToolUse, call, nil)
	require.NoError(t, err)
	got, err := os.ReadFile(first)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
	want, err = hooks.Payload(hooks.Codex, hooks.PostToolUse, call, &result)
	require.NoError(t, err)
	got, err = os.ReadFile(second)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func TestBlock(t *testing.T) {
	for _, tt := range []struct {
		name string
		hook func(*testing.T, ...string) hooks.Hook
		args []string
		want string
	}{
		{"status 2", before, []string{"block", "use \x1b[31mrg\x1b[0m instead\nof grep"}, "use rg instead\nof grep"},
		{"status 2, silent", before, []string{"block", ""}, "it gave no reason"},
		{"decision", before, []string{"print", `{"decision":"block","reason":"no"}`}, "no"},
		{"denied", before, []string{"print", `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"never"}}`}, "never"},
		{"nobody to ask", before, []string{"print", `{"hookSpecificOutput":{"permissionDecision":"ask"}}`}, "it gave no reason"},
		{"stopped", before, []string{"print", `{"continue":false,"stopReason":"enough"}`}, "enough"},
		{"status 2 after", after, []string{"block", "it holds a key"}, "it holds a key"},
		{"decision after", after, []string{"print", " \n{\"decision\":\"block\",\"reason\":\"no\"}\n"}, "no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hook := tt.hook(t, tt.args...)
			marker := filepath.Join(t.TempDir(), "reached")
			next := tt.hook(t, "save", marker)
			r := runner(t, hook, next)
			if hook.Event == hooks.PreToolUse {
				input, blocked := r.Before(t.Context(), call)
				assert.Nil(t, input)
				assert.Equal(t, &tool.Result{Text: "blocked by a hook: " + tt.want, IsError: true}, blocked)
			} else {
				assert.Equal(t, tool.Result{Text: "blocked by a hook: " + tt.want, IsError: true, Intent: result.Intent}, r.After(t.Context(), call, result))
			}
			assert.NoFileExists(t, marker, "no hook runs after one that blocked")
		})
	}
}

func TestReplaceInput(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "payload")
	r := runner(t,
		before(t, "print", `{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"ls -l"}}}`),
		before(t, "save", saved),
		before(t, "print", `{"hookSpecificOutput":{"updatedInput":null}}`),
	)
	input, blocked := r.Before(t.Context(), call)
	assert.Nil(t, blocked)
	assert.JSONEq(t, `{"command":"ls -l"}`, string(input))
	payload, err := os.ReadFile(saved)
	require.NoError(t, err)
	assert.Contains(t, string(payload), `"tool_input":{"command":"ls -l"}`, "the next hook sees what the first one made of it")
}

func TestReplaceResult(t *testing.T) {
	const wrap = `{"hookSpecificOutput":{"hookEventName":"PostToolUse","%s":%s}}`
	for _, tt := range []struct {
		name, member, output string
		want                 tool.Result
	}{
		{"text", "updatedToolOutput", `"clean"`, tool.Result{Text: "clean"}},
		{"empty text", "updatedToolOutput", `""`, tool.Result{}},
		{"object", "updatedToolOutput", `{"exitCode":1}`, tool.Result{Text: `{"exitCode":1}`, Structured: json.RawMessage(`{"exitCode":1}`)}},
		{"object with a text", "updatedToolOutput", `{"text":"t","exitCode":1}`, tool.Result{Text: "t", Structured: json.RawMessage(`{"text":"t","exitCode":1}`)}},
		{"object with another text", "updatedToolOutput", `{"text":7}`, tool.Result{Text: `{"text":7}`, Structured: json.RawMessage(`{"text":7}`)}},
		{"one block", "updatedMCPToolOutput", `[{"type":"text","text":"t"}]`, tool.Result{Text: "t"}},
		{"MCP result", "updatedMCPToolOutput", `{"content":[{"type":"text","text":"t"}],"structuredContent":{"a":1}}`, tool.Result{Text: "t", Structured: json.RawMessage(`{"a":1}`)}},
		{
			"several blocks pass unchanged", "updatedMCPToolOutput", `[{"type":"text","text":"t"},{"type":"image","data":"AA==","mimeType":"image/png"}]`,
			tool.Result{Content: json.RawMessage(`[{"type":"text","text":"t"},{"type":"image","data":"AA==","mimeType":"image/png"}]`)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := runner(t, after(t, "print", fmt.Sprintf(wrap, tt.member, tt.output)))
			given := result
			given.IsError = true
			tt.want.IsError, tt.want.Intent = true, result.Intent
			assert.Equal(t, tt.want, r.After(t.Context(), call, given))
		})
	}
	for _, ignored := range []string{"", "looks good\n", "[1]", "{}", `{"hookSpecificOutput":{"updatedToolOutput":null}}`, `{"decision":"approve"}`} {
		assert.Equal(t, result, runner(t, after(t, "print", ignored)).After(t.Context(), call, result))
	}
}

// Whatever a hook says, the bound holds, on code points.
//
// Case: reference 3.3 #86
func TestByteBound(t *testing.T) {
	const bound = 64
	long := strings.Repeat("é", 1000)
	for _, args := range [][]string{
		{"block", long},
		{"print", `{"decision":"block","reason":"` + long + `"}`},
		{"print", `{"hookSpecificOutput":{"updatedToolOutput":"` + long + `"}}`},
		{"print", `{"hookSpecificOutput":{"updatedToolOutput":{"text":"` + long + `"}}}`},
	} {
		r, err := hooks.New(hooks.Options{Hooks: []hooks.Hook{after(t, args...), before(t, args...)}, MaxResultBytes: bound})
		require.NoError(t, err)
		got := r.After(t.Context(), call, result)
		assert.LessOrEqual(t, len(got.Text), bound)
		assert.Greater(t, len(got.Text), bound-4)
		assert.True(t, strings.HasSuffix(got.Text, "é\n[output truncated]"), got.Text)
		if _, blocked := r.Before(t.Context(), call); blocked != nil {
			assert.LessOrEqual(t, len(blocked.Text), bound)
		}
	}
	_, err := hooks.New(hooks.Options{MaxResultBytes: 63})
	assert.ErrorContains(t, err, "maxResultBytes")
}

func TestMatcher(t *testing.T) {
	for _, tt := range []struct {
		matcher, tool string
		runs          bool
	}{
		{"", "bash", true},
		{"*", "terminal_send", true},
		{"bash", "bash", true},
		{"bash", "bash2", false},
		{"ash", "bash", false},
		{"bash|pwsh", "pwsh", true},
		{"terminal_.*", "terminal_send", true},
		{"Bash", "bash", false},
	} {
		hook := before(t, "block", "")
		hook.Matcher = tt.matcher
		c := call
		c.ToolName = tt.tool
		_, blocked := runner(t, hook).Before(t.Context(), c)
		assert.Equal(t, tt.runs, blocked != nil, "%q %q", tt.matcher, tt.tool)
	}
}

// A hook that fails is logged. The call goes on, unless the hook is a guard.
func TestFailures(t *testing.T) {
	hanging := after(t, "wait")
	hanging.Timeout = 50 * time.Millisecond
	for _, tt := range []struct {
		name string
		hook hooks.Hook
		want string
	}{
		{"another status", after(t, "fail"), "exit status 1: first line"},
		{"absent", hooks.Hook{Event: hooks.PostToolUse, Command: []string{"shellstead-has-no-such-hook"}}, "shellstead-has-no-such-hook"},
		{"time-out", hanging, "it did not end within 50 ms"},
		{"no JSON", after(t, "print", `{"decision":`), "its answer cannot be read"},
		{"wrong type", after(t, "print", `{"decision":1}`), "its answer cannot be read"},
		{"a number as result", after(t, "print", `{"hookSpecificOutput":{"updatedToolOutput":1}}`), "its answer cannot be read"},
		{"blocks that are none", after(t, "print", `{"hookSpecificOutput":{"updatedToolOutput":[1]}}`), "its answer cannot be read: a content block"},
		{"100 MB of an answer", after(t, "flood", `{"decision":"block","reason":"`), "its answer is longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var told bytes.Buffer
			opts := hooks.Options{Hooks: []hooks.Hook{tt.hook}, Logger: slog.New(slog.NewTextHandler(&told, nil))}
			r, err := hooks.New(opts)
			require.NoError(t, err)
			assert.Equal(t, result, r.After(t.Context(), call, result))
			assert.Equal(t, 1, strings.Count(told.String(), "\n"), told.String())
			assert.Contains(t, told.String(), tt.want)

			opts.Hooks[0].OnFailure = hooks.Block
			r, err = hooks.New(opts)
			require.NoError(t, err)
			got := r.After(t.Context(), call, result)
			assert.True(t, got.IsError)
			assert.Contains(t, got.Text, "blocked by a hook: the hook "+tt.hook.Command[0]+" failed: ")
			assert.Contains(t, got.Text, tt.want)
		})
	}
	// 100 MB of anything else are not even a failure.
	r := runner(t, after(t, "flood", ""))
	assert.Equal(t, result, r.After(t.Context(), call, result))
}

// A hook that is given up is killed with all that it started, and what holds its
// pipes costs no time.
func TestCancelKillsTheTree(t *testing.T) {
	for _, event := range []hooks.Event{hooks.PreToolUse, hooks.PostToolUse} {
		t.Run(string(event), func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			hook := before(t, "hang", pidFile)
			hook.Event = event
			r := runner(t, hook)
			cause := errors.New("the user pressed stop")
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				if event == hooks.PreToolUse {
					_, blocked := r.Before(ctx, call)
					assert.Equal(t, &tool.Result{Text: "the user pressed stop", IsError: true}, blocked)
				} else {
					assert.Equal(t, result, r.After(ctx, call, result))
				}
			}()
			var pid int
			require.Eventually(t, func() bool {
				text, err := os.ReadFile(pidFile)
				if err != nil {
					return false
				}
				_, err = fmt.Sscan(string(text), &pid)
				return err == nil
			}, 20*time.Second, 5*time.Millisecond)
			cancel(cause)
			<-done
			assert.Eventually(t, func() bool { return !running(pid) }, 20*time.Second, 5*time.Millisecond, "its child is gone")
		})
	}
}

// A child that a hook leaves behind on purpose delays nothing and lives on.
func TestHookThatLeavesAChild(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	_, blocked := runner(t, before(t, "leave", pidFile)).Before(t.Context(), call)
	require.NotNil(t, blocked)
	assert.Equal(t, "blocked by a hook: left", blocked.Text)
	text, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	require.NoError(t, err)
	assert.True(t, running(pid))
	child, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, child.Kill())
}

func TestWhereHooksRun(t *testing.T) {
	c := call
	var err error
	c.Cwd, err = filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	_, blocked := runner(t, before(t, "where")).Before(t.Context(), c)
	require.NotNil(t, blocked)
	assert.Equal(t, "blocked by a hook: "+c.Cwd, blocked.Text)

	wd, err := os.Getwd()
	require.NoError(t, err)
	c.Cwd = filepath.Join(c.Cwd, "gone")
	_, blocked = runner(t, before(t, "where")).Before(t.Context(), c)
	require.NotNil(t, blocked)
	assert.Equal(t, "blocked by a hook: "+wd, blocked.Text)
}

func TestHooksThatAreRefused(t *testing.T) {
	good := hooks.Hook{Event: hooks.PreToolUse, Command: []string{"true"}}
	for want, change := range map[string]func(*hooks.Hook){
		`hooks[1].event: "Stop" is not one of PreToolUse, PostToolUse`: func(h *hooks.Hook) { h.Event = "Stop" },
		`hooks[1].command: it names no program`:                        func(h *hooks.Hook) { h.Command = []string{" "} },
		`hooks[1].matcher: error parsing regexp`:                       func(h *hooks.Hook) { h.Matcher = "(" },
		`hooks[1].format: "xml" is not one of claude-code, codex`:      func(h *hooks.Hook) { h.Format = "xml" },
		`hooks[1].onFailure: "retry" is not one of allow, block`:       func(h *hooks.Hook) { h.OnFailure = "retry" },
		`hooks[1].timeoutMs: 3600001 is not from 1 to 3600000`:         func(h *hooks.Hook) { h.Timeout = time.Hour + time.Millisecond },
		`hooks[1].timeoutMs: -1 is not from 1 to 3600000`:              func(h *hooks.Hook) { h.Timeout = -time.Millisecond },
	} {
		bad := good
		change(&bad)
		_, err := hooks.New(hooks.Options{Hooks: []hooks.Hook{good, bad}})
		assert.ErrorContains(t, err, want)
	}
}
