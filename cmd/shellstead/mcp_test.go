//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run go test ./cmd/shellstead -update if this is meant")
}

func call(t *testing.T, session *mcp.ClientSession, command string) *mcp.CallToolResult {
	t.Helper()
	return callTool(t, session, "bash", command)
}

func TestMCPSession(t *testing.T) {
	t.Parallel()
	session := client(t, nil)

	hello := session.InitializeResult()
	assert.Equal(t, "shellstead", hello.ServerInfo.Name)
	assert.NotEmpty(t, hello.ServerInfo.Version)
	assert.Equal(t, instructions, hello.Instructions)

	list, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, list.Tools, 1)
	assert.Equal(t, "bash", list.Tools[0].Name)
	require.NotNil(t, list.Tools[0].Annotations)
	assert.False(t, list.Tools[0].Annotations.ReadOnlyHint)
	assert.True(t, *list.Tools[0].Annotations.DestructiveHint)

	res := call(t, session, `x=5; printf 'a\033[1mb\033[0m'; (exit 3)`)
	assert.False(t, res.IsError, "an exit code is a result")
	assert.Equal(t, "ab\n[exit code: 3]", textOf(t, res))
	fields := structured(t, res)
	assert.Equal(t, "a\x1b[1mb\x1b[0m", fields["output"])
	assert.EqualValues(t, 3, fields["exitCode"])
	assert.Equal(t, "completed", fields["reason"])
	assert.Equal(t, "pty-1", fields["terminalId"])
	assert.NotEmpty(t, fields["sessionId"])

	assert.Equal(t, "5\n", textOf(t, call(t, session, "echo $x")), "the shell lives on")

	for arguments, want := range map[any]string{
		nil:     `Error: "command" is required`,
		"text":  "Error: the arguments must be a JSON object, not a string",
		rune(5): "Error: the arguments must be a JSON object, not a number",
	} {
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "bash", Arguments: arguments})
		require.NoError(t, err)
		assert.True(t, res.IsError)
		assert.Equal(t, want, textOf(t, res))
	}
	res = call(t, session, "a\x00b")
	assert.True(t, res.IsError)
	assert.Contains(t, textOf(t, res), "NUL")

	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "zsh"})
	assert.ErrorContains(t, err, `unknown tool "zsh"`)
	assert.Equal(t, "5\n", textOf(t, call(t, session, "echo $x")), "bad calls cost nothing")
}

// The result's structure is what the output schema says.
func TestMCPStructureHasTheSchemasFields(t *testing.T) {
	t.Parallel()
	session := client(t, nil)
	list, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	schema := list.Tools[0].OutputSchema.(map[string]any)
	var names []string
	for name := range schema["properties"].(map[string]any) {
		names = append(names, name)
	}
	var got []string
	for name := range structured(t, call(t, session, "true")) {
		got = append(got, name)
	}
	assert.ElementsMatch(t, names, got)
}

func TestMCPConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("tools: {bash: {maxOutputChars: 4, prestart: false}}"), 0o600))
	session := client(t, nil, "--config", file, "--cwd", dir, "--tools", "bash")
	res := call(t, session, "printf 123456789")
	assert.Equal(t, "1234", structured(t, res)["output"])
	path, ok := structured(t, res)["outputFile"].(string)
	require.True(t, ok)
	assert.FileExists(t, path)
	resolved, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	assert.Equal(t, resolved, strings.TrimSpace(structured(t, call(t, session, "cd -P .; printf %.4s $PWD >&2; printf %s $PWD >&3"))["cwd"].(string)))
	require.NoError(t, session.Close())
	assert.NoFileExists(t, path, "the connection's end removes what was spilled")
}

func TestMCPProgress(t *testing.T) {
	t.Parallel()
	type report struct {
		n    float64
		text string
	}
	reports := make(chan report, 100)
	session := client(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			assert.Equal(t, "token", req.Params.ProgressToken)
			reports <- report{req.Params.Progress, req.Params.Message}
		},
	})
	params := &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo one; sleep 0.4; echo two; sleep 0.4"}}
	params.SetProgressToken("token")
	_, err := session.CallTool(t.Context(), params)
	require.NoError(t, err)
	first := <-reports
	assert.EqualValues(t, 1, first.n)
	assert.Contains(t, first.text, "one")
}

// Text goes out as it comes, silence is broken, numbers grow, and the end is
// the end.
func TestProgressIsRegular(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reports := make(chan string, 10)
		p := startProgress(func(n float64, text string) { reports <- fmt.Sprintf("%v %s", n, text) })
		time.Sleep(progressInterval - time.Second)
		p.report("text")
		assert.Equal(t, "1 text", <-reports)
		time.Sleep(progressInterval - time.Second)
		synctest.Wait()
		assert.Empty(t, reports, "a report starts the silence anew")
		time.Sleep(time.Second)
		assert.Equal(t, "2 running for 9 s", <-reports)
		time.Sleep(progressInterval)
		assert.Equal(t, "3 running for 14 s", <-reports)
		p.stop()
		time.Sleep(time.Minute)
		assert.Empty(t, reports)
	})
}

func TestMCPCancellation(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	session := client(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			select {
			case started <- struct{}{}:
			case <-t.Context().Done():
			}
		},
	})
	call(t, session, "x=5")
	ctx, cancel := context.WithCancel(t.Context())
	params := &mcp.CallToolParams{Name: "bash", Arguments: map[string]any{"command": "echo started; sleep 1000"}}
	params.SetProgressToken("token")
	failed := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, params)
		failed <- err
	}()
	<-started
	require.NoError(t, session.Ping(t.Context(), nil), "a running call blocks nothing else")
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	// The next call would wait for 1000 seconds if the program still ran.
	assert.Equal(t, "5\n", textOf(t, call(t, session, "echo $x")))
}

// progress reads up to the first progress notification.
func (s *rawServer) progress() {
	s.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		require.NoError(s.t, err)
		if strings.Contains(line, `"method":"notifications/progress"`) {
			return
		}
	}
}

func bashCall(id int, command string) string { return toolCall(id, "bash", command) }

// A configured shell is there without being looked for, so that these lists do
// not depend on what is installed.
var bothShells = []string{
	"--set", "backends.bash.shellPath=/nowhere/bash", "--set", "tools.bash.prestart=false",
	"--set", "backends.pwsh.shellPath=/nowhere/pwsh", "--set", "tools.pwsh.prestart=false",
}

// tools/list is the same bytes every time, in whatever order the tools are
// asked for: clients cache prompts by them.
func TestGoldenToolList(t *testing.T) {
	t.Parallel()
	for name, lists := range map[string][]string{
		"tools-list.golden":      {"bash", "bash"},
		"tools-list-both.golden": {"bash,pwsh", " pwsh, bash,pwsh"},
		"tools-list-all.golden":  {"bash,pwsh,terminal,task", "terminal, pwsh,bash", "all"},
	} {
		var first []byte
		for _, list := range lists {
			s := startRaw(t, append([]string{"--tools", list}, bothShells...)...)
			for range 2 {
				s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
				got := s.answer("1")["result"]
				if first == nil {
					first = got
				}
				assert.Equal(t, string(first), string(got), "--tools %q", list)
			}
		}
		var indented bytes.Buffer
		require.NoError(t, json.Indent(&indented, first, "", "  "))
		indented.WriteByte('\n')
		golden(t, name, indented.Bytes())
	}
}

func TestGoldenTools(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"tools.golden":            {"--tools", "bash"},
		"tools-foreground.golden": {"--tools", "terminal", "--set", "tools.terminal.enableRunInBackground=false"},
		"tools-all.golden":        nil,
	} {
		got, err := exec.Command(program(t), append(append([]string{"tools", "--json"}, args...), bothShells...)...).Output()
		require.NoError(t, err)
		golden(t, name, got)
	}
}

// A line that is no message is answered and forgotten.
func TestMCPBadLines(t *testing.T) {
	t.Parallel()
	s := startRaw(t)
	for _, c := range []struct{ line, id, code string }{
		{`no JSON`, "null", "-32700"},
		{`{"jsonrpc":"2.0","id":1,"method":`, "null", "-32700"},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", "-32600"},
		{`{"id":7,"method":"ping"}`, "7", "-32600"},
		{`5`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":8,"method":"no/such"}`, "8", "-32601"},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":5}`, "9", "-32602"},
	} {
		s.send("", c.line)
		answer := s.answer(c.id)
		assert.Contains(t, string(answer["error"]), `"code":`+c.code, c.line)
	}
	s.send("{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"tools/call\",\"params\":{\"name\":\"bash\",\"arguments\":{\"command\":\"echo \xff\"}}}")
	assert.Contains(t, string(s.answer("10")["result"]), "not valid UTF-8")
	s.send(bashCall(11, "echo alive"))
	assert.Contains(t, string(s.answer("11")["result"]), `"text":"alive\n"`)
}

// Calls of one owner are served in order, even if the client does not wait.
func TestMCPOrder(t *testing.T) {
	t.Parallel()
	s := startRaw(t)
	const n = 200
	var calls, want []string
	for i := range n {
		calls = append(calls, bashCall(i, fmt.Sprintf("l+=' %d'", i)))
		if i%10 == 0 { // refused ones hold nobody up
			calls = append(calls, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"zsh"}}`,
				`{"jsonrpc":"2.0","id":"y","method":"tools/call","params":{"name":"bash","arguments":5}}`)
		}
		want = append(want, fmt.Sprint(i))
	}
	s.send(append(calls, bashCall(n, "echo $l"))...)
	assert.Contains(t, string(s.answer(fmt.Sprint(n))["result"]), `"text":"`+strings.Join(want, " ")+`\n"`)
}

// Stdin is closed in the middle of a call: the call ends, and the process.
func TestMCPEndOfInput(t *testing.T) {
	t.Parallel()
	s := startRaw(t)
	var wait sync.WaitGroup
	wait.Go(func() { _, _ = io.Copy(io.Discard, s.lines) })
	s.send(bashCall(1, "sleep 1000"))
	require.NoError(t, s.in.Close())
	wait.Wait()
	require.NoError(t, s.cmd.Wait())
}
