//go:build windows || linux

package conpty

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whatever the chunks: the console's own words go, the programs' stay.
//
// Case: K13, K17
func TestPaint(t *testing.T) {
	for _, tt := range []struct{ in, out string }{
		{"hello", "hello"},
		{"\x1b[2J\x1b[m\x1b[H\x1b[?25hhello", "hello"},
		{"\x1b[c\x1b[?1004h\x1b[?9001h\x1b[?25l\x1b[2J\x1b[1;1H\x1b]0;C:\\x.exe\a\x1b[?25hhi\x1b[?9001l\x1b[?1004l", "hi"},
		{"a\x1b]0;title\x1b\\b\x1b]2;x\x1b]y\ac", "abc"},
		{"a\x1b[2J\x1b[H\x1b[?25lb", "a\x1b[2J\x1b[H\x1b[?25lb"}, // a program clears the screen
		{"\x1b[?1049h\x1b[2Jb", "\x1b[?1049h\x1b[2Jb"},           // a full-screen program
		{"\x1b]7771;secret;D;1\x1b\\x\x1b]8;;u\ay", "\x1b]7771;secret;D;1\x1b\\x\x1b]8;;u\ay"},
		{"\x1b]00;x\a\x1b]21;t\a", "\x1b]00;x\a\x1b]21;t\a"},
		{"é漢🙂\x1b[31mr\x1b[0m", "é漢🙂\x1b[31mr\x1b[0m"},
		{"\x1bc\x1b(B\x1b7x\x1b\x1b[?9001hy", "\x1bc\x1b(B\x1b7x\x1by"},
		{"\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15mx", "\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15mx"},
		{"end\x1b[", "end\x1b["},
	} {
		for i := range len(tt.in) + 1 {
			for j := i; j <= len(tt.in); j++ {
				var f paint
				got := f.filter(nil, []byte(tt.in[:i]))
				got = f.filter(got, []byte(tt.in[i:j]))
				got = f.filter(got, []byte(tt.in[j:]))
				assert.Equal(t, tt.out, string(f.flush(got)), "%q at %d, %d", tt.in, i, j)
			}
		}
	}
}

func TestPaintReportsQuestions(t *testing.T) {
	asked := 0
	f := paint{asked: func() { asked++ }}
	assert.Equal(t, "ab", string(f.filter(nil, []byte("\x1b[ca\x1b[0cb"))))
	assert.Equal(t, 2, asked)
}

func FuzzPaintIsIndependentOfChunks(f *testing.F) {
	f.Add("\x1b[c\x1b]0;t\x1b\\x\x1b[2J", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = min(max(at, 0), len(text))
		var whole, parts paint
		want := whole.flush(whole.filter(nil, []byte(text)))
		got := parts.filter(nil, []byte(text[:at]))
		got = parts.flush(parts.filter(got, []byte(text[at:])))
		assert.Equal(t, string(want), string(got))
	})
}
