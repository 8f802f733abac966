package screen

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// split runs input through a splitter in pieces and shows what came out, marks
// in brackets.
func split(prefix, end string, limit int, pieces ...string) string {
	var out strings.Builder
	s := NewSplitter([]byte(prefix), []byte(end), limit)
	text := func(p []byte) { out.Write(p) }
	for _, p := range pieces {
		s.Write([]byte(p), text, func(m []byte) { out.WriteString("{" + string(m) + "}") })
	}
	s.Flush(text)
	return out.String()
}

// splitNaively does the same from the definition of a marker.
func splitNaively(prefix, end string, limit int, input string) string {
	var out strings.Builder
next:
	for i := 0; i < len(input); i++ {
		if rest, ok := strings.CutPrefix(input[i:], prefix); ok {
			if n := strings.Index(rest, end); n >= 0 && n <= limit && !strings.ContainsFunc(rest[:n], isControl) {
				out.WriteString("{" + rest[:n] + "}")
				i += len(prefix) + n + len(end) - 1
				continue next
			}
		}
		out.WriteByte(input[i])
	}
	return out.String()
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

func TestSplitter(t *testing.T) {
	const prefix, end = "\x1b]7;key;", "\x07"
	for name, tt := range map[string]struct{ in, want string }{
		"no_marker":                       {"plain\n", "plain\n"},
		"marker":                          {"a\x1b]7;key;D;0\x07b", "a{D;0}b"},
		"two_markers":                     {"\x1b]7;key;1\x07\x1b]7;key;2\x07", "{1}{2}"},
		"empty_payload":                   {"\x1b]7;key;\x07", "{}"},
		"longest_payload":                 {"\x1b]7;key;12345678\x07", "{12345678}"},
		"payload_too_long":                {"\x1b]7;key;123456789\x07.", "\x1b]7;key;123456789\x07."},
		"payload_with_newline":            {"\x1b]7;key;1\n2\x07", "\x1b]7;key;1\n2\x07"},
		"payload_with_del":                {"\x1b]7;key;1\x7f2\x07", "\x1b]7;key;1\x7f2\x07"},
		"payload_holds_a_marker":          {"\x1b]7;key;1\x1b]7;key;2\x07", "\x1b]7;key;1{2}"},
		"another_key":                     {"\x1b]7;kex;1\x07", "\x1b]7;kex;1\x07"},
		"introducer_twice":                {"\x1b\x1b]7;key;1\x07", "\x1b{1}"},
		"unfinished_prefix_at_the_end":    {"a\x1b]7;ke", "a\x1b]7;ke"},
		"unfinished_payload_at_the_end":   {"a\x1b]7;key;12", "a\x1b]7;key;12"},
		"after_an_unterminated_osc":       {"\x1b]0;title\x1b]7;key;1\x07", "\x1b]0;title{1}"}, // B6
		"after_half_a_code_point":         {"\xe4\xb8\x1b]7;key;1\x07", "\xe4\xb8{1}"},         // B6
		"after_half_a_sequence":           {"\x1b[3\x1b]7;key;1\x07", "\x1b[3{1}"},             // B6
		"foreign_marker_stays_in_text":    {"\x1b]133;D;0\x07", "\x1b]133;D;0\x07"},            // B6
		"no_newline_before_the_marker":    {"abc\x1b]7;key;1\x07", "abc{1}"},                   // B7
		"payload_cut_by_control_then_end": {"\x1b]7;key;\x00\x07\x1b]7;key;1\x07", "\x1b]7;key;\x00\x07{1}"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, split(prefix, end, 8, tt.in))
			assert.Equal(t, tt.want, split(prefix, end, 8, strings.Split(tt.in, "")...), "byte by byte")
			for i := range tt.in {
				assert.Equal(t, tt.want, split(prefix, end, 8, tt.in[:i], tt.in[i:]), "split at %d", i)
			}
		})
	}
}

func TestSplitterWithAwkwardShapes(t *testing.T) {
	for name, tt := range map[string]struct {
		prefix, end string
		max         int
		in, want    string
	}{
		"no_prefix":                     {"", ";", 8, "a;b", "a;b"},
		"no_end":                        {"<", "", 8, "a<b", "a<b"},
		"end_of_two_bytes":              {"<", "\x1b\\", 8, "<a\x1b\\<b\x1bc<d\x1b\\", "{a}<b\x1bc{d}"},
		"end_begins_the_prefix":         {"aab", "aa", 8, "aabxaab1aa", "{x}b1aa"},
		"prefix_overlaps_itself":        {"aa", ";", 2, "aaaaaa;", "aa{aa}"},
		"later_prefix_is_near_enough":   {"<", ">", 2, "<ab<c>", "<ab{c}"},
		"marker_without_control_nested": {"<", ">", 8, "<a<b>", "{a<b}"},
		"no_payload_allowed":            {"<", ">", 0, "<><a>", "{}<a>"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, split(tt.prefix, tt.end, tt.max, tt.in))
			assert.Equal(t, tt.want, split(tt.prefix, tt.end, tt.max, strings.Split(tt.in, "")...))
		})
	}
}

func TestSplitterHoldsNoMoreThanOneMarker(t *testing.T) {
	s := NewSplitter([]byte("\x1b]7;"), []byte("\x07"), 16)
	var text []byte
	write := func(p string) {
		s.Write([]byte(p), func(p []byte) { text = append(text, p...) }, func([]byte) { t.Error("no marker was written") })
	}
	write("a\x1b]")
	assert.Equal(t, 2, s.Held())
	assert.Equal(t, "a", string(text))
	write("7;0123456789abcdef")
	assert.Equal(t, 20, s.Held())
	write("0")
	assert.Zero(t, s.Held(), "the payload is too long by now")
	write(strings.Repeat("\x1b]7;0123", 10000))
	assert.LessOrEqual(t, s.Held(), 21)
	assert.LessOrEqual(t, cap(s.held), 4*21, "the buffer behind it stays small too")
	s.Flush(func(p []byte) { text = append(text, p...) })
	assert.Zero(t, s.Held())
	assert.Equal(t, "a\x1b]7;0123456789abcdef0"+strings.Repeat("\x1b]7;0123", 10000), string(text))
	s.Flush(func([]byte) { t.Error("nothing is held") })
}

// What looks like the beginning of markers over and over must not be searched
// over and over (Netflix/go-expect#5, pexpect/pexpect#438; F76).
func TestSplitterIsLinear(t *testing.T) {
	const size = 1 << 20
	for name, tt := range map[string]struct{ prefix, end, in string }{
		"prefix_overlaps_itself": {strings.Repeat("a", 32), ";", strings.Repeat("a", size)},
		"all_prefixes":           {"<", ";", strings.Repeat("<", size)},
		"payload_ends_late":      {"<", "aaaaaaaaaaaaaaab", strings.Repeat("<a", size/2)},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			out := split(tt.prefix, tt.end, 64<<10, tt.in)
			assert.Equal(t, len(tt.in), len(out))
			assert.Less(t, time.Since(begin), 10*time.Second, "64 KiB of work for each byte would take far longer")
		})
	}
}

func TestSplitterAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var in strings.Builder
		for range rng.IntN(30) {
			in.WriteString([]string{"<", "<k", "<k;", "k;", ">", ">>", "<k;1>>", "a", "\x00", "<<k;"}[rng.IntN(10)])
		}
		checkSplitter(t, "<k;", ">>", rng.IntN(6), in.String(), rng.Uint64())
		checkSplitter(t, "<<", ">", rng.IntN(6), in.String(), rng.Uint64())
	}
}

func checkSplitter(t *testing.T, prefix, end string, limit int, in string, seed uint64) {
	t.Helper()
	want := splitNaively(prefix, end, limit, in)
	require.Equal(t, want, split(prefix, end, limit, in), "%q in one piece", in)
	require.Equal(t, want, split(prefix, end, limit, cut(in, seed)...), "%q in pieces by seed %d", in, seed)
}

// cut cuts in into pieces at random places.
func cut(in string, seed uint64) []string {
	rng := rand.New(rand.NewPCG(seed, 0))
	longest := 1 + rng.IntN(9)
	var pieces []string
	for len(in) > 0 {
		n := min(len(in), rng.IntN(longest+1))
		pieces = append(pieces, in[:n])
		in = in[n:]
	}
	return pieces
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a<k;1>>b"), "<k;", ">>", uint8(4), uint64(1))
	f.Add([]byte("\x1b]7;key;D;0\x07\x1b]7;ke"), "\x1b]7;key;", "\x07", uint8(8), uint64(2))
	f.Add(bytes.Repeat([]byte("aab"), 9), "aa", "ab", uint8(2), uint64(3))
	f.Fuzz(func(t *testing.T, in []byte, prefix, end string, limit uint8, seed uint64) {
		if prefix == "" || end == "" {
			require.Equal(t, string(in), split(prefix, end, int(limit), cut(string(in), seed)...))
			return
		}
		checkSplitter(t, prefix, end, int(limit), string(in), seed)
	})
}
