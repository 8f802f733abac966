package persistent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// memoryFile is a spill file that fails after room bytes; a negative room never
// fails.
type memoryFile struct {
	bytes.Buffer
	room     int
	closeErr error
}

func (f *memoryFile) Name() string { return "/nowhere/output-1.txt" }
func (f *memoryFile) Close() error { return f.closeErr }
func (f *memoryFile) Write(p []byte) (int, error) {
	if f.room >= 0 && f.Len()+len(p) > f.room {
		return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.Buffer.Write(p)
}

func spillTo(f *memoryFile, limit int64) *spill {
	return &spill{create: func() (spillFile, error) { return f, nil }, limit: limit}
}

// randomOutput mixes ASCII, longer characters, broken ones and controls.
func randomOutput(rnd *rand.Rand, size int) []byte {
	parts := []string{"a", "plain text of some length ", "\n", "é", "一", "🦉", "\xff", "\xe4\xb8", "\xf0\x9f", "\xed\xa0\x80", "\x1b[31m", "\x00", "\xc0\xaf", "\ufffd"}
	var b []byte
	for len(b) < size {
		b = append(b, parts[rnd.IntN(len(parts))]...)
	}
	return b
}

func splitAnywhere(rnd *rand.Rand, p []byte, longest int, do func([]byte)) {
	for len(p) > 0 {
		n := min(len(p), 1+rnd.IntN(longest))
		chunk := bytes.Clone(p[:n])
		do(chunk)
		for i := range chunk { // the reader's buffer is used again
			chunk[i] = '!'
		}
		p = p[n:]
	}
}

// Any split of an output gives the same counts, the same retained ends and the
// same file; the counts are utf8.RuneCount's.
func TestCollectorDoesNotDependOnTheSplit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		data := randomOutput(rnd, rnd.IntN(400))
		limit := 1 + rnd.IntN(120)
		clip := []Clip{Head, Middle}[i%2]
		file := &memoryFile{room: -1}
		c := newCollector(limit, clip, spillTo(file, 1<<20))
		splitAnywhere(rnd, data, []int{1, 3, 17, 400}[rnd.IntN(4)], c.write)
		got := c.finish()

		total := utf8.RuneCount(data)
		require.EqualValues(t, total, got.chars)
		if total <= limit {
			require.False(t, got.clipped())
			require.Equal(t, string(data), got.output())
			require.Empty(t, got.spill)
			require.Zero(t, file.Len(), "no file for what fits")
			continue
		}
		require.True(t, got.clipped())
		require.EqualValues(t, limit, got.shown)
		tailChars := 0
		if clip == Middle {
			tailChars = limit / 2
		}
		head := data[:skipChars(data, int64(limit-tailChars))]
		tail := data
		for n := total - tailChars; n > 0; n-- {
			_, size := utf8.DecodeRune(tail)
			tail = tail[size:]
		}
		require.Equal(t, string(head), string(got.head))
		require.Equal(t, string(tail), string(got.tail))
		require.Equal(t, string(data), file.String())
		require.EqualValues(t, len(data), got.spill.size)
	}
}

// Reference 3.3 #57: exactly the bound is not clipped, one more is.
func TestCollectorAtTheBound(t *testing.T) {
	for _, clip := range []Clip{Head, Middle} {
		for _, char := range []string{"a", "一"} {
			c := newCollector(10, clip, nil)
			c.write([]byte(strings.Repeat(char, 10)))
			got := c.finish()
			assert.False(t, got.clipped())
			assert.Equal(t, strings.Repeat(char, 10), got.text())

			c = newCollector(10, clip, nil)
			c.write([]byte(strings.Repeat(char, 11)))
			got = c.finish()
			assert.True(t, got.clipped())
			assert.Equal(t, strings.Repeat(char, 10), got.output())
			assert.Equal(t, "[output clipped: 10 of 11 characters shown]", clippedNotice(got))
		}
	}
}

func TestCollectorOfOneCharacter(t *testing.T) {
	c := newCollector(1, Middle, nil)
	c.write([]byte("abc"))
	got := c.finish()
	assert.Equal(t, "a", got.text(), "one character has no two ends")
	assert.EqualValues(t, 3, got.chars)
}

// F61 (openai/codex#6415): the end of a long output, where the error stands,
// can be kept too, and what is left out is counted.
func TestClipMiddle(t *testing.T) {
	c := newCollector(16, Middle, nil)
	for i := range 100 {
		fmt.Fprintf(writerFunc(c.write), "%d\n", i)
	}
	c.write([]byte("FATAL\n"))
	got := c.finish()
	assert.Equal(t, "0\n1\n2\n3\n[... 280 characters left out ...]\n9\nFATAL\n", got.text())
	assert.Equal(t, "0\n1\n2\n3\n9\nFATAL\n", got.output())
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// A control sequence that the cut tears leaves nothing behind in the text.
func TestClipMiddleInAControlSequence(t *testing.T) {
	for _, torn := range []string{"\x1b", "\x1b[", "\x1b[38;5;1"} {
		rest := strings.TrimPrefix("\x1b[38;5;123mred\n", torn)
		c := newCollector(2*len(rest), Middle, nil)
		c.write([]byte(strings.Repeat("x", 100) + torn + rest))
		got := c.finish()
		assert.True(t, strings.HasSuffix(got.text(), " left out ...]\nred\n"), "%q", got.text())
		assert.True(t, strings.HasSuffix(got.output(), rest))
	}
	// What only looks like one is text.
	c := newCollector(12, Middle, nil)
	c.write([]byte(strings.Repeat("x", 100) + "\x1b[31mred 1mtext"))
	assert.True(t, strings.HasSuffix(c.finish().text(), "\n1mtext"))
}

func TestCollectorKeepsWhatComesLateApart(t *testing.T) {
	c := newCollector(4, Head, nil)
	c.write([]byte("ab\xe4"))
	got := c.finish()
	assert.Equal(t, "ab\xe4", got.output())
	assert.EqualValues(t, 3, got.chars, "a torn character counts by the byte")
	for range 10 {
		c.write([]byte("0123456789"))
	}
	late, lost := c.takeLate()
	assert.EqualValues(t, 100, int(lost)+len(late))
	assert.True(t, strings.HasSuffix(strings.Repeat("0123456789", 10), string(late)))
	assert.LessOrEqual(t, len(late), 2*4*utf8.UTFMax)
	late, lost = c.takeLate()
	assert.Empty(t, late)
	assert.Zero(t, lost)
}

func TestTailKeepsTheEnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		data := randomOutput(rnd, rnd.IntN(600))
		kept := tail{limit: 1 + rnd.IntN(100)}
		splitAnywhere(rnd, data, 1+rnd.IntN(150), kept.add)
		require.EqualValues(t, len(data), int(kept.dropped)+len(kept.buf))
		require.True(t, bytes.HasSuffix(data, kept.buf))
		require.GreaterOrEqual(t, len(kept.buf), min(len(data), kept.limit))
		require.LessOrEqual(t, len(kept.buf), 2*kept.limit)
	}
}

func TestCountChars(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		data := randomOutput(rnd, rnd.IntN(200))
		require.EqualValues(t, utf8.RuneCount(data), countChars(data), "%q", data)
		at := rnd.IntN(len(data) + 1)
		n := countChars(data[:at])
		require.EqualValues(t, n, utf8.RuneCount(data[:skipChars(data[:at], n)]))
	}
}

// One line of many megabytes costs no memory: the bounds decide, not the output.
func TestCollectorMemory(t *testing.T) {
	for _, clip := range []Clip{Head, Middle} {
		folder := &spillFolder{parent: t.TempDir()}
		c := newCollector(16000, clip, &spill{create: folder.create, limit: 256 << 20})
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range 200 {
			c.write(chunk)
		}
		got := c.finish()
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "all that was ever allocated")
		assert.EqualValues(t, 200*64<<10, got.spill.size)
		require.NoError(t, folder.remove())
	}
}

// F63 (anthropics/claude-code#65789): the file has a bound, and the loss is
// told.
func TestSpillAtItsBound(t *testing.T) {
	for _, c := range []struct {
		size   int
		capped bool
	}{{20, false}, {21, true}, {5000, true}} {
		folder := &spillFolder{parent: t.TempDir()}
		out := newCollector(8, Head, &spill{create: folder.create, limit: 20})
		data := strings.Repeat("0123456789", 500)[:c.size]
		splitAnywhere(rand.New(rand.NewPCG(7, 8)), []byte(data), 7, out.write)
		got := out.finish()
		assert.Equal(t, c.capped, got.spill.capped)
		content, err := os.ReadFile(got.spill.path)
		require.NoError(t, err)
		assert.Equal(t, data[:20], string(content))
		if c.capped {
			assert.Equal(t, "[full output saved up to 20 bytes: "+got.spill.path+"]", spillNotice(got.spill))
			assert.NotContains(t, clippedNotice(got), "full output")
		} else {
			assert.Empty(t, spillNotice(got.spill))
			assert.Contains(t, clippedNotice(got), "; full output: "+got.spill.path+"]")
		}
	}
}

// A disk that is full, at whatever moment it shows, costs the file and nothing
// else.
func TestSpillFailures(t *testing.T) {
	data := strings.Repeat("x", 1000)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	cases := map[string]struct {
		size   int
		spill  *spill
		reason string
	}{
		"at the first write":      {200_000, spillTo(&memoryFile{room: 0}, 1<<30), "no space left on device"},
		"in the middle":           {200_000, spillTo(&memoryFile{room: 100_000}, 1<<30), "no space left on device"},
		"at the end":              {1000, spillTo(&memoryFile{room: 0}, 1<<30), "no space left on device"},
		"at the close":            {1000, spillTo(&memoryFile{room: -1, closeErr: io.ErrShortWrite}, 1<<30), "short write"},
		"a file as the folder":    {1000, &spill{create: (&spillFolder{parent: file}).create, limit: 1 << 30}, file + ": not a directory"},
		"a folder under the file": {1000, &spill{create: (&spillFolder{parent: filepath.Join(file, "x")}).create, limit: 1 << 30}, filepath.Join(file, "x") + ": not a directory"},
		"an owner that is gone":   {1000, &spill{create: (&spillFolder{removed: true}).create, limit: 1 << 30}, os.TempDir() + ": its folder was removed with its owner"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out := newCollector(8, Middle, c.spill)
			for range c.size / len(data) {
				out.write([]byte(data))
			}
			got := out.finish()
			assert.Equal(t, "xxxxxxxx", got.output())
			assert.EqualValues(t, c.size, got.chars)
			assert.Equal(t, "[full output not saved: "+c.reason+"]", spillNotice(got.spill))
			assert.Equal(t, fmt.Sprintf("[output clipped: 8 of %d characters shown]", c.size), clippedNotice(got))
		})
	}
}

// A file that could not be completed does not stay behind.
func TestFailedSpillIsRemoved(t *testing.T) {
	folder := &spillFolder{parent: t.TempDir()}
	file, err := folder.create()
	require.NoError(t, err)
	s := &spill{create: func() (spillFile, error) { return file, nil }, limit: 1 << 30}
	s.write([]byte("x"))
	require.NoError(t, file.Close()) // the flush will fail
	assert.ErrorIs(t, s.close().err, fs.ErrClosed)
	_, err = os.Stat(file.Name())
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.NoError(t, folder.remove())
}

func TestSpillFolder(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "made", "as needed")
	folder := &spillFolder{parent: parent}
	require.NoError(t, folder.remove(), "nothing was made yet")
	folder.removed = false

	file, err := folder.create()
	require.NoError(t, err)
	require.NoError(t, file.Close())
	if runtime.GOOS != "windows" { // where modes say nothing
		for path, mode := range map[string]fs.FileMode{file.Name(): 0o600, filepath.Dir(file.Name()): 0o700} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, mode, info.Mode().Perm(), path)
		}
	}
	second, err := folder.create()
	require.NoError(t, err)
	require.NoError(t, second.Close())
	assert.NotEqual(t, file.Name(), second.Name())
	assert.Equal(t, filepath.Dir(file.Name()), filepath.Dir(second.Name()))

	// A cleaner of temporary files took it away.
	require.NoError(t, os.RemoveAll(filepath.Dir(file.Name())))
	third, err := folder.create()
	require.NoError(t, err)
	require.NoError(t, third.Close())

	require.NoError(t, folder.remove())
	_, err = os.Stat(filepath.Dir(third.Name()))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = folder.create()
	assert.Error(t, err)
}

func TestReasonWithoutAPath(t *testing.T) {
	plain := errors.New("plain")
	assert.Equal(t, plain, reason(plain))
}

func BenchmarkCollector(b *testing.B) {
	ascii := bytes.Repeat([]byte("1234567\n"), 8<<10)
	wide := bytes.Repeat([]byte("一二三四五六七\n"), 3<<10)
	cases := []struct {
		name  string
		data  []byte
		clip  Clip
		max   int
		size  int // of one output
		spill bool
	}{
		{"fits", ascii[:15000], Head, 16000, 15000, false},
		{"fits a large bound", ascii, Head, MaxOutputChars, 14 << 20, false},
		{"clipped", ascii, Head, 16000, 14 << 20, false},
		{"clipped and spilled", ascii, Head, 16000, 14 << 20, true},
		{"middle clipped and spilled", ascii, Middle, 16000, 14 << 20, true},
		{"wide characters clipped", wide, Head, 16000, 14 << 20, false},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			folder := &spillFolder{parent: b.TempDir()}
			b.SetBytes(int64(len(c.data)))
			next := func() *collector {
				if c.spill {
					return newCollector(c.max, c.clip, &spill{create: folder.create, limit: MaxSpillMaxBytes})
				}
				return newCollector(c.max, c.clip, nil)
			}
			out, size := next(), 0
			for b.Loop() {
				out.write(c.data)
				if size += len(c.data); size >= c.size {
					if got := out.finish(); got.spill.path != "" {
						_ = os.Remove(got.spill.path)
					}
					out, size = next(), 0
				}
			}
			out.finish()
		})
	}
}
