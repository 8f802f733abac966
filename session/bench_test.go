package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session"
)

// BenchmarkCommand is what logging adds to one command: its call and a result
// of 2 kB, whose structured form holds the output twice more.
func BenchmarkCommand(b *testing.B) {
	output := strings.Repeat("some output of a command\n", 80)
	structured := struct {
		Output, Text string
		ExitCode     int
	}{output, output, 0}
	arguments := json.RawMessage(`{"command":"go test ./..."}`)
	for _, kind := range kinds {
		b.Run(kind.name, func(b *testing.B) {
			p, err := kind.make(b.TempDir())
			require.NoError(b, err)
			defer p.Close()
			l, err := session.New(p, session.NewHeader(""), session.Options{})
			require.NoError(b, err)
			defer l.Close()
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Append(session.ToolCall{ID: "1", Name: "bash", Arguments: arguments}); err != nil {
					b.Fatal(err)
				}
				if err := l.Append(session.ToolResult{ID: "1", Text: output, Structured: structured, DurationMs: 3}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
