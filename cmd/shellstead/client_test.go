package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience bounds what has to happen sooner or later on a loaded machine.
const patience = time.Minute

// client connects the library's own client to a server process.
func client(t *testing.T, opts *mcp.ClientOptions, args ...string) *mcp.ClientSession {
	t.Helper()
	return clientOf(t, exec.Command(program(t), append([]string{"mcp"}, args...)...), opts)
}

func clientOf(t *testing.T, cmd *exec.Cmd, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	cmd.Stderr = testLog{t}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).
		Connect(t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, session.Close())
		assert.Equal(t, 0, cmd.ProcessState.ExitCode(), "the end of the connection is no error")
	})
	return session
}

// testLog passes a process's stderr on to the test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("stderr: %s", p)
	return len(p), nil
}

func callTool(t *testing.T, session *mcp.ClientSession, tool, command string) *mcp.CallToolResult {
	t.Helper()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"command": command}})
	require.NoError(t, err)
	return res
}

func textOf(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	require.Len(t, res.Content, 1)
	require.IsType(t, &mcp.TextContent{}, res.Content[0])
	return res.Content[0].(*mcp.TextContent).Text
}

func structured(t *testing.T, res *mcp.CallToolResult) map[string]any {
	t.Helper()
	require.IsType(t, map[string]any{}, res.StructuredContent)
	return res.StructuredContent.(map[string]any)
}

// rawServer is a server process that is spoken to line by line.
type rawServer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func startRaw(t *testing.T, args ...string) *rawServer {
	t.Helper()
	return startServer(t, exec.Command(program(t), append([]string{"mcp"}, args...)...))
}

func startServer(t *testing.T, cmd *exec.Cmd) *rawServer {
	t.Helper()
	cmd.Stderr = testLog{t}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	s := &rawServer{t: t, cmd: cmd, in: in, lines: bufio.NewReader(out)}
	watchdog := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		watchdog.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	s.answer(`"init"`)
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *rawServer) send(lines ...string) {
	s.t.Helper()
	_, err := io.WriteString(s.in, strings.Join(lines, "\n")+"\n")
	require.NoError(s.t, err)
}

// answer reads up to the answer to id and returns it.
func (s *rawServer) answer(id string) map[string]json.RawMessage {
	s.t.Helper()
	for {
		line, err := s.lines.ReadBytes('\n')
		require.NoError(s.t, err, "no answer to %s", id)
		var message map[string]json.RawMessage
		require.NoError(s.t, json.Unmarshal(line, &message))
		if string(message["id"]) == id {
			return message
		}
	}
}

func toolCall(id int, tool, command string) string {
	arguments, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
}

// worked is a client of the terminal tools.
type worked struct {
	t       *testing.T
	session *mcp.ClientSession
}

func (w worked) call(tool string, arguments map[string]any) (text string, fields map[string]any) {
	w.t.Helper()
	res, err := w.session.CallTool(w.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(w.t, err)
	text = textOf(w.t, res)
	require.False(w.t, res.IsError, "%s: %s", tool, text)
	return text, structured(w.t, res)
}

func (w worked) open(typ string) string {
	w.t.Helper()
	_, fields := w.call("terminal_open", map[string]any{"type": typ})
	return fields["sessionId"].(string)
}

// send types a line whose end has to be proved.
func (w worked) send(id, line string) (text string, fields map[string]any) {
	w.t.Helper()
	text, fields = w.call("terminal_send", map[string]any{"sessionId": id, "text": line})
	require.Equal(w.t, "stdin_read", fields["waitReason"], text)
	return text, fields
}

func (w worked) waits(fields map[string]any, kind, prompt string) {
	w.t.Helper()
	needs, ok := fields["needsInput"].(map[string]any)
	require.True(w.t, ok, "%v", fields)
	assert.Equal(w.t, kind, needs["kind"])
	assert.Equal(w.t, prompt, needs["prompt"])
}
