package jsonl_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/jsonl"
)

// form is one way to write new logs.
type form struct {
	name string
	opts jsonl.Options
	kind string
	file string
}

var forms = []form{
	{"plain", jsonl.Options{}, session.KindJSONL, "session.jsonl"},
	{"zstd", jsonl.Options{Compress: true}, session.KindJSONLZstd, "session.jsonl.zstd"},
}

// written makes a log of n events besides session/start in a fresh root.
func written(t *testing.T, opts jsonl.Options, n int) (p *jsonl.Persistence, h session.Header, path string) {
	t.Helper()
	p, err := jsonl.New(t.TempDir(), opts)
	require.NoError(t, err)
	h = session.NewHeader("")
	l, err := session.New(p, h, session.Options{})
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, l.Append(session.ToolResult{ID: fmt.Sprint(i), Text: strings.Repeat("text ", 10)}))
	}
	at, ok := l.Location()
	require.True(t, ok)
	t.Cleanup(func() { _ = l.Close() })
	if n == 0 {
		require.NoError(t, os.MkdirAll(filepath.Dir(at.Path), 0o700))
		return p, h, at.Path
	}
	text, err := os.ReadFile(at.Path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, os.WriteFile(at.Path, text, 0o600)) // as a killed process leaves it, without session/end
	return p, h, at.Path
}

// A location is known before there is a file, and the same afterwards.
//
// Case: reference 3.3 #83
func TestLocate(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			wd, err := os.Getwd()
			require.NoError(t, err)
			p, err := jsonl.New("relative/../logs", form.opts)
			require.NoError(t, err)
			t.Chdir(t.TempDir())

			h := session.Header{ID: "a/b", Cwd: filepath.FromSlash("/work/agent"), Created: time.Now()}
			at, ok := p.Locate(h)
			require.True(t, ok)
			assert.Equal(t, session.Location{Kind: form.kind, Path: filepath.Join(wd, "logs", "--work-agent--", "a~002Fb", form.file)}, at)
			assert.NoFileExists(t, filepath.Join(wd, "logs"))
			if form.kind == session.KindJSONL {
				assert.Equal(t, at.Path, session.JSONL(p.Locate(h)))
			} else {
				assert.Empty(t, session.JSONL(p.Locate(h)))
			}

			_, ok = p.Locate(session.Header{})
			assert.False(t, ok)
			assert.Error(t, p.Create(session.Header{}).Append(session.Event{}))
		})
	}
}

// A stored session keeps its form whatever new ones get.
func TestFormOfAResumedLog(t *testing.T) {
	_, h, path := written(t, jsonl.Options{Compress: true}, 1)
	plain, err := jsonl.New(filepath.Join(filepath.Dir(path), "..", ".."), jsonl.Options{})
	require.NoError(t, err)
	l, err := session.Resume(t.Context(), plain, h.ID, session.Options{})
	require.NoError(t, err)
	at, ok := l.Location()
	assert.True(t, ok)
	assert.Equal(t, session.Location{Kind: session.KindJSONLZstd, Path: path}, at)
	assert.Empty(t, session.JSONL(l.Location()))
	require.NoError(t, l.Close())
	n := 0
	for _, err := range plain.Events(t.Context(), h.ID) {
		require.NoError(t, err)
		n++
	}
	assert.Equal(t, 3, n)

	// Both forms of one session are one too many.
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "session.jsonl"), nil, 0o600))
	_, err = plain.Resume(t.Context(), h.ID)
	assert.ErrorIs(t, err, session.ErrCorrupt)
	assert.ErrorContains(t, err, "stored more than once")
}

// What a common program reads is the same text.
func TestCompressedFormIsPlainZstd(t *testing.T) {
	_, _, path := written(t, jsonl.Options{Compress: true}, 20)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer r.Close()
	var text bytes.Buffer
	_, err = r.WriteTo(&text)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	assert.Len(t, lines, 21)
	for i, line := range lines {
		event, err := session.ParseEvent([]byte(line))
		require.NoError(t, err)
		assert.EqualValues(t, i, event.Seq)
	}
}

// A log that was cut at any byte is resumed with every whole event.
func TestResumeOfALogCutAnywhere(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			p, h, path := written(t, form.opts, 1)
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			for size := 1; size <= len(whole); size++ {
				require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
				readable := count(t, p, h.ID)
				resumed, err := p.Resume(t.Context(), h.ID)
				if readable == 0 {
					require.ErrorIs(t, err, session.ErrNotFound, "cut at %d", size)
					info, err := os.Stat(path)
					require.NoError(t, err)
					assert.Zero(t, info.Size(), "the session can be made anew")
					continue
				}
				require.NoError(t, err, "cut at %d", size)
				assert.Equal(t, h, resumed.Header)
				assert.EqualValues(t, readable-1, resumed.LastSeq)
				info, err := os.Stat(path)
				require.NoError(t, err)
				assert.EqualValues(t, int64(size)-info.Size(), resumed.Dropped)
				require.NoError(t, resumed.Store.Append(session.Event{JSON: []byte(`{"type":"x","seq":9,"time":"2026-01-02T03:04:05Z"}`)}))
				require.NoError(t, resumed.Store.Close())
				assert.Equal(t, readable+1, count(t, p, h.ID))
			}
			assert.Equal(t, 3, count(t, p, h.ID))
		})
	}
}

// count returns how many events of a session can be read; there must be nothing
// else.
func count(t *testing.T, p *jsonl.Persistence, id string) int {
	t.Helper()
	n := 0
	for _, err := range p.Events(t.Context(), id) {
		require.NoError(t, err)
		n++
	}
	return n
}

func TestRepairIsSaid(t *testing.T) {
	p, h, path := written(t, jsonl.Options{}, 1)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"type":"tool/call","se`)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	var told bytes.Buffer
	l, err := session.Resume(t.Context(), p, h.ID, session.Options{Logger: slog.New(slog.NewTextHandler(&told, nil))})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.Contains(t, told.String(), "the session log ended in an unfinished event, which was removed")
	assert.Contains(t, told.String(), "bytes=23")
	assert.Equal(t, 3, count(t, p, h.ID))
}

// A file that is not ours is refused, named, and left as it is.
func TestForeignFiles(t *testing.T) {
	const (
		start = `{"type":"session/start","seq":0,"time":"2026-01-02T03:04:05Z","version":1,"id":"ID","created":"2026-01-02T03:04:05Z"}` + "\n"
		event = `{"type":"sandbox/mode","seq":1,"time":"2026-01-02T03:04:05Z","mode":"read-only"}` + "\n"
	)
	for _, tt := range []struct {
		name, text, want string
	}{
		{"text", "hello\nworld\n", "event 1"},
		{"text without a line feed", "hello", "does not begin with an event"},
		{"zeros", strings.Repeat("\x00", 4096), "does not begin with an event"},
		{"JSON of something else", `{"level":"info"}` + "\n", "has a type, a seq and a time"},
		{"no start", event, `the first event is "sandbox/mode"`},
		{"another session", strings.ReplaceAll(start, `"ID"`, `"other"`), `the log of the session "other"`},
		{"no id", strings.ReplaceAll(start, `"ID"`, `""`), "it has no id"},
		{"a later version", strings.ReplaceAll(start, `"version":1`, `"version":2`), "version 2 of the format"},
		{"a damaged end", start + "garbage\n", "the last event"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, h, path := written(t, jsonl.Options{}, 0)
			text := strings.ReplaceAll(tt.text, `"ID"`, `"`+h.ID+`"`)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err := p.Resume(t.Context(), h.ID)
			assert.ErrorIs(t, err, session.ErrCorrupt)
			assert.ErrorContains(t, err, tt.want)
			assert.ErrorContains(t, err, path)
			assert.ErrorIs(t, p.Create(h).Append(session.Event{JSON: []byte("{}")}), session.ErrExists)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, text, string(after))
		})
	}

	t.Run("not zstd", func(t *testing.T) {
		p, h, path := written(t, jsonl.Options{Compress: true}, 0)
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("no frame", 9)), 0o600))
		_, err := p.Resume(t.Context(), h.ID)
		assert.ErrorIs(t, err, session.ErrCorrupt)
	})
	t.Run("skippable frame", func(t *testing.T) {
		p, h, path := written(t, jsonl.Options{Compress: true}, 0)
		require.NoError(t, os.WriteFile(path, []byte("\x50\x2A\x4D\x18\x04\x00\x00\x00abcd and what follows it"), 0o600))
		_, err := p.Resume(t.Context(), h.ID)
		assert.ErrorIs(t, err, session.ErrCorrupt)
	})
	t.Run("a folder", func(t *testing.T) {
		p, h, path := written(t, jsonl.Options{}, 0)
		require.NoError(t, os.Mkdir(path, 0o700))
		_, err := p.Resume(t.Context(), h.ID)
		assert.ErrorIs(t, err, session.ErrNotFound)
		assert.Error(t, p.Create(h).Append(session.Event{JSON: []byte("{}")}))
	})
}

// Damage in the middle costs the damaged events only, where the rest can be
// found.
func TestDamageInTheMiddle(t *testing.T) {
	p, h, path := written(t, jsonl.Options{}, 3)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[2] = []byte("garbage\n")
	require.NoError(t, os.WriteFile(path, bytes.Join(lines, nil), 0o600))

	var seen []string
	for event, err := range p.Events(t.Context(), h.ID) {
		if err != nil {
			assert.ErrorIs(t, err, session.ErrCorrupt)
			assert.ErrorContains(t, err, path+": event 3")
			seen = append(seen, "error")
			continue
		}
		seen = append(seen, fmt.Sprint(event.Seq))
	}
	assert.Equal(t, []string{"0", "1", "error", "3"}, seen)
	fork, err := session.ForkStored(t.Context(), p, h.ID)
	require.NoError(t, err)
	assert.EqualValues(t, 3, fork.ParentSeq)
	l, err := session.Resume(t.Context(), p, h.ID, session.Options{})
	require.NoError(t, err, "the ends are sound")
	require.NoError(t, l.Close())

	// A frame whose content is damaged is skipped too.
	p, h, path = written(t, jsonl.Options{Compress: true}, 3)
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	at := bytes.LastIndex(text, []byte{0x28, 0xB5, 0x2F, 0xFD})
	text[at-1] ^= 0xFF // the check sum of the frame before
	require.NoError(t, os.WriteFile(path, text, 0o600))
	seen = nil
	for event, err := range p.Events(t.Context(), h.ID) {
		if err != nil {
			assert.ErrorIs(t, err, session.ErrCorrupt)
			seen = append(seen, "error")
			continue
		}
		seen = append(seen, fmt.Sprint(event.Seq))
	}
	assert.Equal(t, []string{"0", "1", "error", "3"}, seen)
}

func TestListPassesOverWhatItCannotRead(t *testing.T) {
	p, h, path := written(t, jsonl.Options{}, 1)
	project := filepath.Join(filepath.Dir(path), "..")
	for name, text := range map[string]string{"foreign": "hello\n", "begun": `{"type":"sess`} {
		require.NoError(t, os.Mkdir(filepath.Join(project, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(project, name, "session.jsonl"), []byte(text), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(project, "stray"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(project, "empty"), 0o700))
	var found []session.Header
	var failed []error
	for h, err := range p.List(t.Context()) {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		found = append(found, h)
	}
	assert.Equal(t, []session.Header{h}, found)
	if assert.Len(t, failed, 1) {
		assert.ErrorIs(t, failed[0], session.ErrCorrupt)
		assert.ErrorContains(t, failed[0], filepath.Join("foreign", "session.jsonl"))
	}
}

func BenchmarkLocate(b *testing.B) {
	p, err := jsonl.New(b.TempDir(), jsonl.Options{})
	require.NoError(b, err)
	h := session.NewHeader(filepath.FromSlash("/home/user/src/my-project"))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := p.Locate(h); !ok {
			b.Fatal("no location")
		}
	}
}
