package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/jsonl"
	"github.com/shellstead/shellstead/session/sqlite"
)

// kinds are the persistences that keep the same promises.
var kinds = []struct {
	name string
	make func(root string) (session.Persistence, error)
}{
	{"plain", func(root string) (session.Persistence, error) { return jsonl.New(root, jsonl.Options{}) }},
	{"zstd", func(root string) (session.Persistence, error) {
		return jsonl.New(root, jsonl.Options{Compress: true})
	}},
	{"sqlite", func(root string) (session.Persistence, error) { return sqlite.New(root) }},
}

// eachKind runs test with a persistence of each kind, whose folder does not
// exist yet.
func eachKind(t *testing.T, test func(t *testing.T, p session.Persistence, root string)) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "with space#?%\nand line", "sessions")
			if runtime.GOOS == "windows" {
				root = filepath.Join(t.TempDir(), "with space#%", "sessions")
			}
			test(t, open(t, kind.make, root), root)
		})
	}
}

func open(t *testing.T, newPersistence func(string) (session.Persistence, error), root string) session.Persistence {
	t.Helper()
	p, err := newPersistence(root)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// cwd is an absolute directory of this system, which need not exist.
func cwd(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.FromSlash("/work/agent"))
	require.NoError(t, err)
	return path
}

func newLog(t *testing.T, p session.Persistence, h session.Header) *session.Log {
	t.Helper()
	l, err := session.New(p, h, session.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// stored returns the events of a session, which must all be readable.
func stored(t *testing.T, p session.Persistence, id string) []session.Event {
	t.Helper()
	var events []session.Event
	for event, err := range p.Events(t.Context(), id) {
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

// types returns "seq type" of each event.
func types(events []session.Event) []string {
	var out []string
	for _, event := range events {
		out = append(out, fmt.Sprint(event.Seq, " ", event.Type))
	}
	return out
}

func TestLogHoldsWhatTheModelSentAndGot(t *testing.T) {
	schema := eventSchema(t)
	eachKind(t, func(t *testing.T, p session.Persistence, root string) {
		h := session.NewHeader(cwd(t))
		l := newLog(t, p, h)
		assert.NoFileExists(t, root, "nothing is made before the first event")

		require.NoError(t, l.Append(session.ToolCall{ID: "1", Name: "bash", Arguments: json.RawMessage("{\"command\":\n \"echo '<&>'\\t| cat\"}")}))
		require.NoError(t, l.Append(session.ToolResult{ID: "1", Text: "<&>\n\u2028é", Structured: json.RawMessage(`{"exitCode": 0}`), DurationMs: 12}))
		require.NoError(t, l.Append(session.ToolCall{ID: "2", Name: "bash", Arguments: json.RawMessage(`{"command": oops`)}))
		require.NoError(t, l.Append(session.ToolResult{ID: "2", Text: "no JSON", IsError: true}))
		assert.ErrorContains(t, l.Append(session.ToolResult{ID: "2", Structured: func() {}}), "structured: json: unsupported type")
		require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		assert.Error(t, l.Append(session.SandboxMode{Mode: "late"}))

		events := stored(t, p, h.ID)
		assert.Equal(t, []string{
			"0 session/start", "1 tool/call", "2 tool/result", "3 tool/call", "4 tool/result", "6 sandbox/mode", "7 session/end",
		}, types(events))
		for _, event := range events {
			var value any
			require.NoError(t, json.Unmarshal(event.JSON, &value))
			assert.NoError(t, schema.Validate(value), string(event.JSON))
			assert.NotContains(t, string(event.JSON), "\n")
			assert.WithinDuration(t, time.Now(), event.Time, time.Minute)
		}

		start, err := events[0].Start()
		require.NoError(t, err)
		assert.Equal(t, session.Start{Version: session.Version, Header: h}, start)
		assert.Contains(t, string(events[1].JSON), `"name":"bash","arguments":{"command":"echo '<&>'\t| cat"}`)
		var result session.ToolResult
		require.NoError(t, events[2].Decode(&result))
		assert.Equal(t, session.ToolResult{ID: "1", Text: "<&>\n\u2028é", Structured: map[string]any{"exitCode": 0.0}, DurationMs: 12}, result)
		var call session.ToolCall
		require.NoError(t, events[3].Decode(&call))
		assert.Equal(t, `"{\"command\": oops"`, string(call.Arguments))
		result = session.ToolResult{}
		require.NoError(t, events[4].Decode(&result))
		assert.Equal(t, session.ToolResult{ID: "2", Text: "no JSON", IsError: true}, result)
	})
}

func eventSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(session.EventSchema(), &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

// A schema that takes everything would hold nothing.
func TestSchemaRefuses(t *testing.T) {
	schema := eventSchema(t)
	const head = `"seq":1,"time":"2026-01-02T03:04:05Z"`
	for _, event := range []string{
		`{"type":"tool/call","id":"1","name":"bash","arguments":{}}`,
		`{"type":"tool/other",` + head + `}`,
		`{"type":"tool/call",` + head + `,"id":"1","name":"bash"}`,
		`{"type":"tool/result",` + head + `,"id":"1","text":"","structured":null,"isError":false,"durationMs":-1}`,
		`{"type":"session/start",` + head + `,"version":1,"id":"x","created":"2026-01-02T03:04:05Z"}`,
		`{"type":"sandbox/mode",` + head + `,"mode":1}`,
	} {
		var value any
		require.NoError(t, json.Unmarshal([]byte(event), &value))
		assert.Error(t, schema.Validate(value), event)
	}
}

func TestLogsThatWereNeverUsed(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, root string) {
		l := newLog(t, p, session.NewHeader(""))
		require.NoError(t, l.Close())
		for h, err := range p.List(t.Context()) {
			assert.Fail(t, "listed", "%v %v", h, err)
		}
		_, err := session.Resume(t.Context(), p, l.Header().ID, session.Options{})
		assert.ErrorIs(t, err, session.ErrNotFound)
		for _, err := range p.Events(t.Context(), l.Header().ID) {
			assert.ErrorIs(t, err, session.ErrNotFound)
		}
		assert.NoFileExists(t, root)
	})
}

// A resumed session goes on in its log, a forked one has its own.
//
// Case: reference 3.3 #83
func TestResumeAndFork(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, _ string) {
		l := newLog(t, p, session.NewHeader(cwd(t)))
		require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
		before, located := l.Location()
		require.NoError(t, l.Close())

		resumed, err := session.Resume(t.Context(), p, l.Header().ID, session.Options{})
		require.NoError(t, err)
		defer resumed.Close()
		assert.Equal(t, l.Header(), resumed.Header())
		after, _ := resumed.Location()
		assert.Equal(t, before, after)
		require.NoError(t, resumed.Append(session.SandboxMode{Mode: "workspace-write"}))
		assert.Equal(t, []string{"0 session/start", "1 sandbox/mode", "2 session/end", "3 sandbox/mode"}, types(stored(t, p, l.Header().ID)))

		live := resumed.Fork()
		assert.Equal(t, l.Header().ID, live.Parent)
		assert.EqualValues(t, 3, live.ParentSeq)
		fork, err := session.ForkStored(t.Context(), p, l.Header().ID)
		require.NoError(t, err)
		assert.EqualValues(t, 3, fork.ParentSeq)
		assert.NotEqual(t, live.ID, fork.ID)
		assert.Equal(t, l.Header().Cwd, fork.Cwd)
		child := newLog(t, p, fork)
		elsewhere, _ := child.Location()
		if located {
			assert.NotEqual(t, before.Path, elsewhere.Path)
		}
		require.NoError(t, child.Append(session.SandboxMode{Mode: "read-only"}))
		start, err := stored(t, p, fork.ID)[0].Start()
		require.NoError(t, err)
		assert.Equal(t, fork, start.Header)

		var ids []string
		for h, err := range p.List(t.Context()) {
			require.NoError(t, err)
			ids = append(ids, h.ID)
		}
		assert.ElementsMatch(t, []string{l.Header().ID, fork.ID}, ids)

		_, err = session.ForkStored(t.Context(), p, "absent")
		assert.ErrorIs(t, err, session.ErrNotFound)
	})
}

func TestOneWriter(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			root := t.TempDir()
			p, other := open(t, kind.make, root), open(t, kind.make, root)
			h := session.NewHeader(cwd(t))
			l := newLog(t, p, h)
			require.NoError(t, l.Append(session.SandboxMode{Mode: "a"}))

			_, err := session.Resume(t.Context(), other, h.ID, session.Options{})
			assert.ErrorIs(t, err, session.ErrInUse)
			assert.ErrorIs(t, newLog(t, other, h).Append(session.SandboxMode{Mode: "b"}), session.ErrInUse)
			assert.Len(t, stored(t, other, h.ID), 2, "it can be read all the same")

			require.NoError(t, l.Close())
			assert.ErrorIs(t, newLog(t, other, h).Append(session.SandboxMode{Mode: "b"}), session.ErrExists)
			resumed, err := session.Resume(t.Context(), other, h.ID, session.Options{})
			require.NoError(t, err)
			require.NoError(t, resumed.Close())
		})
	}
}

func TestIDs(t *testing.T) {
	ids := []string{
		"a", "A", "a/b", "a~b", ".", "..", "...", "a.", "/etc/passwd", "a\x00b", "nul", "NUL.txt", "com1",
		"\xff", "\xfe", "\u00ff", "開発", "-rf", " ", "a b\n", strings.Repeat("x", 300), strings.Repeat("x", 299) + "y", strings.Repeat("X", 300),
	}
	eachKind(t, func(t *testing.T, p session.Persistence, root string) {
		for _, id := range ids {
			l := newLog(t, p, session.Header{ID: id, Cwd: cwd(t), Created: time.Now()})
			require.NoError(t, l.Append(session.SandboxMode{Mode: "of " + id}), "%q", id)
			require.NoError(t, l.Close())
		}
		for _, id := range ids {
			events := stored(t, p, id)
			assert.Len(t, events, 3, "%q", id)
		}
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			assert.LessOrEqual(t, len(d.Name()), 255)
			info, err := d.Info()
			require.NoError(t, err)
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if runtime.GOOS != "windows" {
				assert.Equal(t, want, info.Mode().Perm(), path)
			}
			return nil
		}))
		outside, err := os.ReadDir(filepath.Dir(root))
		require.NoError(t, err)
		assert.Len(t, outside, 1)
	})
}

func TestHeadersThatAreRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, _ string) {
		for _, h := range []session.Header{{}, {ID: "x", Cwd: "relative"}, {ID: "x", Cwd: cwd(t) + "\x00"}} {
			_, err := session.New(p, h, session.Options{})
			assert.Error(t, err)
		}
		_, err := p.Resume(t.Context(), "")
		assert.ErrorIs(t, err, session.ErrNotFound)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		cancel(cause)
		_, err = p.Resume(ctx, "x")
		assert.Error(t, err)
	})
	for _, kind := range kinds {
		_, err := kind.make(" \n")
		assert.Error(t, err)
	}
}

func TestHugeAndMalformedText(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, _ string) {
		l := newLog(t, p, session.NewHeader(cwd(t)))
		huge := strings.Repeat("\x01 line\n", 1<<15)
		require.NoError(t, l.Append(session.ToolResult{ID: "1", Text: huge}))
		require.NoError(t, l.Append(session.ToolResult{ID: "\xff", Text: "a\xffb", Structured: map[string]string{"output": "a\xffb"}}))
		require.NoError(t, l.Close())

		events := stored(t, p, l.Header().ID)
		require.Len(t, events, 4)
		var result session.ToolResult
		require.NoError(t, events[1].Decode(&result))
		assert.True(t, huge == result.Text, "the text is the same")
		require.NoError(t, events[2].Decode(&result))
		assert.Equal(t, session.ToolResult{ID: "\uFFFD", Text: "a\uFFFDb", Structured: map[string]any{"output": "a\uFFFDb"}}, result)
	})
}

// Beyond the bound an event is refused, and the log goes on.
func TestEventThatIsTooLarge(t *testing.T) {
	p := open(t, kinds[0].make, t.TempDir())
	l := newLog(t, p, session.NewHeader(cwd(t)))
	require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
	assert.ErrorContains(t, l.Append(session.TooLarge{}), "text: the event is larger than 268435456 bytes")
	require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
	assert.Equal(t, []string{"0 session/start", "1 sandbox/mode", "3 sandbox/mode"}, types(stored(t, p, l.Header().ID)))
}

// The order of events is their seq: a clock that goes back changes nothing.
func TestClockThatGoesBack(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, _ string) {
		now := time.Date(2026, 3, 29, 3, 0, 0, 0, time.FixedZone("CEST", 7200))
		l, err := session.New(p, session.NewHeader(cwd(t)), session.Options{Now: func() time.Time {
			now = now.Add(-time.Hour)
			return now
		}})
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
		}
		require.NoError(t, l.Close())
		events := stored(t, p, l.Header().ID)
		require.Len(t, events, 5)
		for i, event := range events {
			assert.EqualValues(t, i, event.Seq)
			want := time.Date(2026, 3, 29, 0-i, 0, 0, 0, time.UTC)
			assert.True(t, want.Equal(event.Time), event.Time)
			assert.Contains(t, string(event.JSON), `"time":"`+want.Format(time.RFC3339)+`"`)
		}
	})
}

func TestSecrets(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, _ string) {
		l := newLog(t, p, session.NewHeader(cwd(t)))
		l.Secret("hunter2\"\\é\n")
		l.Secret("hunter2\"\\é and more")
		l.Secret("7") // too short to be looked for inside other texts
		l.Secret("")
		require.NoError(t, l.Append(session.ToolCall{ID: "1", Name: "terminal_send", Arguments: json.RawMessage(`{"text":"hunter2\"\\\u00e9","sessionId":"pty-1","submit":true}`)}))
		require.NoError(t, l.Append(session.ToolCall{ID: "2", Name: "terminal_send", Arguments: json.RawMessage(`{"text" : "7\r","n":[7,"17"],"7":"text"}`)}))
		require.NoError(t, l.Append(session.ToolResult{
			ID: "2", Text: "you typed hunter2\"\\é and more, 7 times hunter2\"\\é\n",
			Structured: json.RawMessage(`{"output":["hunter2\"\\é","hunter"]}`),
		}))
		require.NoError(t, l.Append(session.ToolCall{ID: "3", Name: "terminal_send", Arguments: json.RawMessage(`{"text":"hunter2"\é`)}))
		require.NoError(t, l.Close())

		var texts []string
		for _, event := range stored(t, p, l.Header().ID)[1:5] {
			text := string(event.JSON)
			texts = append(texts, text[strings.Index(text, `"id"`):])
		}
		assert.Equal(t, []string{
			`"id":"1","name":"terminal_send","arguments":{"text":"[secret]","sessionId":"pty-1","submit":true}}`,
			`"id":"2","name":"terminal_send","arguments":{"text":"[secret]","n":[7,"17"],"7":"text"}}`,
			`"id":"2","text":"you typed [secret], 7 times [secret]\n","structured":{"output":["[secret]","hunter"]},"isError":false,"durationMs":0}`,
			`"id":"3","name":"terminal_send","arguments":"{\"text\":\"[secret]"}`,
		}, texts)
	})
}

func TestLogsOfSeveralSessionsAtOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, _ string) {
		const sessions, writers, each = 4, 3, 20
		logs := make([]*session.Log, sessions)
		done := make(chan error, sessions*writers)
		for i := range logs {
			logs[i] = newLog(t, p, session.NewHeader(cwd(t)))
			for range writers {
				go func() {
					var err error
					for range each {
						err = errors.Join(err, logs[i].Append(session.ToolResult{ID: "1", Text: strings.Repeat("x", 1000)}))
					}
					done <- err
				}()
			}
		}
		for range sessions * writers {
			require.NoError(t, <-done)
		}
		for _, l := range logs {
			events := stored(t, p, l.Header().ID)
			assert.Len(t, events, 1+writers*each)
			for i, event := range events {
				assert.EqualValues(t, i, event.Seq)
			}
		}
	})
}

// A reader may stop, or write, at any event.
func TestReadersThatStop(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, _ string) {
		l := newLog(t, p, session.NewHeader(cwd(t)))
		for range 3 {
			require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
		}
		for event, err := range p.Events(t.Context(), l.Header().ID) {
			require.NoError(t, err)
			require.NoError(t, l.Append(session.SandboxMode{Mode: "while reading"}))
			if event.Seq == 1 {
				break
			}
		}
		for h, err := range p.List(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, l.Header(), h)
			require.NoError(t, l.Append(session.SandboxMode{Mode: "while listing"}))
			break
		}
		assert.Len(t, stored(t, p, l.Header().ID), 7)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		for _, err := range p.Events(ctx, l.Header().ID) {
			if n++; n == 1 {
				require.NoError(t, err)
				cancel()
				continue
			}
			assert.ErrorIs(t, err, context.Canceled)
		}
		assert.Equal(t, 2, n)
	})
}

// What is not ours is refused and stays as it was.
func TestForeignHomes(t *testing.T) {
	eachKind(t, func(t *testing.T, p session.Persistence, root string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(root), 0o700))
		require.NoError(t, os.WriteFile(root, []byte("a file"), 0o600))
		var told recorder
		l, err := session.New(p, session.NewHeader(cwd(t)), session.Options{Logger: slog.New(&told)})
		require.NoError(t, err)
		for range 3 {
			assert.Error(t, l.Append(session.SandboxMode{Mode: "read-only"}))
		}
		require.NoError(t, l.Close())
		assert.Len(t, told.lines, 1, "the failure is said once")
		assert.Contains(t, told.lines[0], "the session log cannot be written")

		require.NoError(t, os.Remove(root))
		l, err = session.New(p, session.NewHeader(cwd(t)), session.Options{Logger: slog.New(&told)})
		require.NoError(t, err)
		require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
		require.NoError(t, l.Close())
	})
}

// narrow has no room for results.
type narrow struct{ session.Persistence }

func (n narrow) Create(h session.Header) session.Store { return narrowStore{n.Persistence.Create(h)} }

type narrowStore struct{ session.Store }

func (n narrowStore) Append(e session.Event) error {
	if e.Type == session.TypeToolResult {
		return errors.New("full")
	}
	return n.Store.Append(e)
}

// A disk on which small events still fit is no reason to say with every command
// that the log fails and works again.
func TestLogThatIsWrittenNowAndThen(t *testing.T) {
	var told recorder
	l, err := session.New(narrow{open(t, kinds[0].make, t.TempDir())}, session.NewHeader(cwd(t)), session.Options{Logger: slog.New(&told)})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, l.Append(session.ToolCall{ID: "1", Name: "bash"}))
		assert.Error(t, l.Append(session.ToolResult{ID: "1"}))
	}
	if assert.Len(t, told.lines, 1) {
		assert.Contains(t, told.lines[0], "cannot be written")
	}
	require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
	require.NoError(t, l.Close())
	if assert.Len(t, told.lines, 2) {
		assert.Contains(t, told.lines[1], "can be written again")
		assert.Contains(t, told.lines[1], "lostEvents=3")
	}
}

// recorder keeps what a logger is told.
type recorder struct{ lines []string }

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }
func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	line := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	r.lines = append(r.lines, line)
	return nil
}
