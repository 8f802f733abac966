package main

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLineReader(t *testing.T) {
	t.Parallel()
	type line struct {
		text  string
		ended bool
		err   error
	}
	long := strings.Repeat("x", 200_000) // longer than the buffer
	for name, c := range map[string]struct {
		input string
		want  []line
	}{
		"nothing":        {"", nil},
		"lines":          {"a\n\nb\n", []line{{"a", true, nil}, {"", true, nil}, {"b", true, nil}}},
		"no end":         {"a\nb", []line{{"a", true, nil}, {"b", false, nil}}},
		"CRLF":           {"a\r\nb\r", []line{{"a", true, nil}, {"b", false, nil}}},
		"long":           {long + "\nb\n", []line{{long, true, nil}, {"b", true, nil}}},
		"at the limit":   {strings.Repeat("y", 300_000) + "\nb\n", []line{{strings.Repeat("y", 300_000), true, nil}, {"b", true, nil}}},
		"over the limit": {strings.Repeat("y", 300_001) + "\nb\n", []line{{"", true, errLineTooLong}, {"b", true, nil}}},
		"never ends":     {strings.Repeat("y", 1_000_000), []line{{"", false, errLineTooLong}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(c.input), iotest.HalfReader(strings.NewReader(c.input))} {
				lines := newLineReader(in)
				lines.limit = 300_000
				for _, want := range c.want {
					text, ended, err := lines.next()
					require.ErrorIs(t, err, want.err)
					require.Equal(t, want.text, string(text))
					require.Equal(t, want.ended, ended)
				}
				_, _, err := lines.next()
				assert.ErrorIs(t, err, io.EOF)
			}
		})
	}
}

// A line without end costs no more than a few times the limit. Not parallel: it
// counts what the process allocates.
func TestLineReaderIsBounded(t *testing.T) {
	lines := newLineReader(io.LimitReader(zeros{}, 256<<20))
	lines.limit = 1 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := lines.next()
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, errLineTooLong)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestReadRequests(t *testing.T) {
	t.Parallel()
	var got []request
	readRequests(strings.NewReader("{\"command\":\"a\\u0000\"}\n\xff\n{\"command\":\"tail\"}"), func(r request) bool {
		got = append(got, r)
		return true
	})
	require.Len(t, got, 3)
	assert.Equal(t, request{command: "a\x00"}, got[0])
	assert.ErrorContains(t, got[1].err, "line 2: ")
	assert.ErrorContains(t, got[1].err, "UTF-8")
	assert.Equal(t, request{command: "tail"}, got[2], "a whole object needs no newline")

	got = nil
	readRequests(strings.NewReader(`{"command":"cut of`), func(r request) bool {
		got = append(got, r)
		return true
	})
	require.Len(t, got, 1)
	assert.ErrorContains(t, got[0].err, "line 1: ")
	assert.ErrorContains(t, got[0].err, "stdin ended in the middle of the line")

	got = nil
	readRequests(io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(io.ErrClosedPipe)), func(r request) bool {
		got = append(got, r)
		return true
	})
	require.Len(t, got, 2)
	assert.ErrorContains(t, got[1].err, "stdin cannot be read: io: read/write on closed pipe")

	calls := 0
	readRequests(strings.NewReader("{}\n{}\n"), func(request) bool {
		calls++
		return false
	})
	assert.Equal(t, 1, calls)
}

// A command of megabytes is an ordinary line.
func TestLongRequest(t *testing.T) {
	t.Parallel()
	command := strings.Repeat("é", 1<<20)
	var line bytes.Buffer
	require.NoError(t, writeJSON(&line, map[string]string{"command": command}, ""))
	readRequests(&line, func(r request) bool {
		require.NoError(t, r.err)
		assert.Equal(t, len(command), len(r.command))
		assert.True(t, command == r.command)
		return true
	})
}
