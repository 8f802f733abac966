package jsonl

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session"
)

// A line beyond the bound is skipped without being held, and what follows it is
// read.
func TestLineThatIsTooLong(t *testing.T) {
	const bound = 1000
	longest := strings.Repeat("x", bound)
	for _, tooLong := range []string{longest + "y", strings.Repeat("y", 10*readAhead)} {
		text := "first\n" + longest + "\n" + tooLong + "\nlast\n" + tooLong
		r := &lineReader{bufio.NewReaderSize(strings.NewReader(text), 64), bound}
		for _, want := range []string{"first", longest, "", "last"} {
			line, err := r.next()
			if want == "" {
				assert.ErrorIs(t, err, session.ErrCorrupt)
				assert.ErrorContains(t, err, "longer than")
				continue
			}
			require.NoError(t, err)
			assert.Equal(t, want, string(line))
		}
		_, err := r.next()
		assert.Equal(t, io.EOF, err)
	}
}
