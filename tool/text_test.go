package tool_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

func TestBoundText(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	cases := []struct {
		name string
		text string
		keep tool.Keep
		meta string
		want string
	}{
		{"fits", "text", tool.KeepHead, "", "text"},
		{"fits with its lines", "text", tool.KeepHead, "[a]\n[b]", "text\n[a]\n[b]"},
		{"ends its own line", "text\n", tool.KeepHead, "[a]", "text\n[a]"},
		{"no text", "", tool.KeepHead, "[a]", "[a]"},
		{"exactly", long[:64], tool.KeepHead, "", long[:64]},
		{"one more, head", long[:65], tool.KeepHead, "", long[:45] + "\n[output truncated]"},
		{"one more, tail", long[:65], tool.KeepTail, "", long[20:65] + "\n[output truncated]"},
		// Reference 3.3 #86.
		{"the id at the head", "started terminal session pty-1 [" + long + "]", tool.KeepHead, "", "started terminal session pty-1 [0123456789012\n[output truncated]"},
		{"the lines stay", long, tool.KeepTail, "[wait: timeout]", long[171:] + "\n[wait: timeout]\n[output truncated]"},
		{"the mark is there", long, tool.KeepTail, "[wait: timeout]\n[output truncated]", long[171:] + "\n[wait: timeout]\n[output truncated]"},
		{"multi-byte, head", strings.Repeat("一", 40), tool.KeepHead, "", strings.Repeat("一", 15) + "\n[output truncated]"},
		{"multi-byte, tail", "x" + strings.Repeat("🦉", 40), tool.KeepTail, "[wait: timeout]", strings.Repeat("🦉", 7) + "\n[wait: timeout]\n[output truncated]"},
		{
			"lines that do not fit", long, tool.KeepTail,
			"[wait: inferred_idle]\n[session: exited code=127 signal=null]\n[output truncated]",
			long[177:] + "\n[wait: inferred_idle]\n[output truncated]",
		},
		{
			"the mark first", long, tool.KeepTail, "[output truncated]\n[" + strings.Repeat("x", 60) + "]",
			long[155:] + "\n[output truncated]",
		},
		{"one line that is too long", long, tool.KeepHead, "[" + long + "]", "[" + long[:44] + "\n[output truncated]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, kept := tool.BoundText(c.text, 64, c.keep, c.meta)
			assert.Equal(t, c.want, got)
			assert.LessOrEqual(t, len(got), 64)
			assert.True(t, strings.HasPrefix(got, kept))
			if strings.Contains(got, tool.Truncated) {
				assert.Contains(t, c.text, kept)
			} else {
				assert.Equal(t, c.text, kept)
			}
			least, _ := tool.BoundText(c.text, 1, c.keep, c.meta)
			assert.Equal(t, got, least, "64 is the least")
		})
	}
}

func TestBoundTextHoldsItsBound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "一", "🦉", "\n", "[wait: timeout]", "some more text", tool.Truncated}
	text := func() string {
		var b strings.Builder
		for range rnd.IntN(40) {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		return b.String()
	}
	for range 5000 {
		max := tool.MinResultBytes + rnd.IntN(200)
		body, meta := text(), strings.Trim(text(), "\n")
		got, kept := tool.BoundText(body, max, tool.Keep(rnd.IntN(2)), meta)
		require.True(t, strings.HasPrefix(got, kept))
		require.LessOrEqual(t, len(got), max)
		require.True(t, utf8.ValidString(got))
		if len(body)+1+len(meta) > max+1 {
			require.Contains(t, got, tool.Truncated, "body %q meta %q", body, meta)
		}
	}
}

func TestBoundTextOr(t *testing.T) {
	bound := func(text, meta string) []string {
		got, kept := tool.BoundTextOr(text, "(nothing)", 64, tool.KeepTail, meta)
		return []string{got, kept}
	}
	assert.Equal(t, []string{"(nothing)\n[a]", ""}, bound("", "[a]"))
	assert.Equal(t, []string{"text\n[a]", "text"}, bound("text", "[a]"))
	long := "[" + strings.Repeat("x", 53) + "]"
	assert.Equal(t, []string{long, ""}, bound("", long), "the line that stands for nothing goes first")
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		max  int
		keep tool.Keep
		want string
	}{
		{100, tool.KeepHead, "a一🦉"},
		{8, tool.KeepTail, "a一🦉"},
		{7, tool.KeepHead, "a一"},
		{7, tool.KeepTail, "一🦉"},
		{6, tool.KeepTail, "🦉"},
		{0, tool.KeepHead, ""},
		{-1, tool.KeepTail, ""},
	} {
		assert.Equal(t, c.want, tool.Cut("a一🦉", c.max, c.keep), "%+v", c)
	}
}

func TestResultBytes(t *testing.T) {
	for given, want := range map[int]int{0: 262144, 64: 64, 1 << 20: 1 << 20} {
		got, err := tool.ResultBytes(given)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	for _, bad := range []int{63, 1, -1} {
		_, err := tool.ResultBytes(bad)
		assert.ErrorIs(t, err, terminals.InvalidArgument)
		assert.ErrorContains(t, err, "maxResultBytes must be 64 or more")
	}
}
