package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// What is typed for a text.
//
// Case: F48 (Tripstack-Corp/spyc PR#170)
func TestTyped(t *testing.T) {
	const on, begin, end = "\x1b[?2004h", "\x1b[200~", "\x1b[201~"
	raw := backend.Modes{}
	for name, tt := range map[string]struct {
		printed string
		modes   backend.Modes
		keys    bool // not submitted
		text    string
		typed   string
	}{
		"a line":               {on, raw, false, "one", "one\r"},
		"several lines":        {on, raw, false, "one\ntwo\r\nthree", begin + "one\rtwo\rthree" + end + "\r"},
		"a tab":                {on, raw, false, "if x:\n\ty", begin + "if x:\r\ty" + end + "\r"},
		"a tab alone inside":   {on, raw, false, "a\tb", begin + "a\tb" + end + "\r"},
		"a line end":           {on, raw, false, "one\n", "one\n\r"},
		"not asked for":        {"", raw, false, "one\ntwo", "one\ntwo\r"},
		"taken back":           {on + "\x1b[?2004l", raw, false, "one\ntwo", "one\ntwo\r"},
		"asked for in pieces":  {"\x1b[?20", raw, false, "one\ntwo", "one\ntwo\r"},
		"the terminal edits":   {on, backend.Modes{Canonical: true}, false, "one\ntwo", "one\ntwo\r"},
		"keys":                 {on, raw, true, "one\ntwo", "one\ntwo"},
		"with a control key":   {on, raw, false, "one\ntwo\x03", "one\ntwo\x03\r"},
		"with an escape":       {on, raw, false, "ione\ntwo\x1b:wq", "ione\ntwo\x1b:wq\r"},
		"that ends the paste":  {on, raw, false, "one\n" + end + "rm -r x\n", begin + "one\rrm -r x\r" + end + "\r"},
		"that hides its end":   {on, raw, false, "one\n\x1b[20" + end + "1~two", begin + "one\rtwo" + end + "\r"},
		"with a C1 control":    {on, raw, false, "one\n\u009b201~two", "one\n\u009b201~two\r"},
		"that is not all text": {on, raw, false, "one\ntwo\x00", "one\ntwo\x00\r"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive)
				f.dev.say(tt.printed)
				f.dev.set(func() { f.dev.modes = tt.modes })
				x, err := f.s.StartSend(context.Background(), terminals.SendRequest{Text: tt.text, Submit: !tt.keys})
				require.NoError(t, err)
				<-x.Done()
				assert.Equal(t, []string{tt.typed}, f.dev.written())
			})
		})
	}
}

// A line that a canonical terminal would cut is refused, and nothing is typed.
func TestLineLimit(t *testing.T) {
	canonical := backend.Modes{Canonical: true, InputCR: true}
	for name, tt := range map[string]struct {
		limit   int
		modes   backend.Modes
		text    string
		refused bool
	}{
		"as long as it may be": {4, canonical, "1234", false},
		"too long":             {4, canonical, "12345", true},
		"of several":           {4, canonical, "1234\n12345\n1", true},
		"in shorter lines":     {4, canonical, "1234\n1234\r1234", false},
		"return ends no line":  {4, backend.Modes{Canonical: true}, "12\r34", true},
		"read by keys":         {4, backend.Modes{}, "12345", false},
		"no limit":             {0, canonical, strings.Repeat("x", 9000), false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := ready(t, terminals.Interactive, func(f *fixture) { f.drv.caps.MaxLine = tt.limit })
				f.dev.set(func() { f.dev.modes = tt.modes })
				x, err := f.s.StartSend(context.Background(), terminals.SendRequest{Text: tt.text, Submit: true})
				if !tt.refused {
					require.NoError(t, err)
					<-x.Done()
					return
				}
				require.ErrorIs(t, err, terminals.InvalidArgument)
				assert.ErrorContains(t, err, "a line of 5 bytes, and the program reads by lines of which the terminal takes 4 bytes at most")
				assert.Empty(t, f.dev.written())
				f.free()
			})
		})
	}
}

// A program that left the alternate screen behind is not on it when the shell is
// at its prompt.
func TestAlternateScreenLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "tui")
		f.dev.say("\x1b[?1049htext" + f.prompt(1))
		assert.False(t, ends(t, x, terminals.StdinRead).FullScreen)
	})
}
