package screen

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const all = 1 << 30

// through writes pieces to a new screen and flushes it.
func through(c Config, pieces ...string) *Screen {
	s := New(c)
	for _, p := range pieces {
		s.Write([]byte(p))
	}
	s.Flush()
	return s
}

func textOf(s *Screen) string {
	text, _ := s.Text(0, all)
	return text
}

// Case: reference 3.3 #37, reference 3.3 #38, reference 3.3 #39, reference 3.3 #40
// Case: reference 3.3 #41, reference 3.3 #42, reference 3.3 #43, reference 3.3 #44
// Case: F65 (anthropics/claude-code#23540)
func TestText(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"plain":         {"a line\nanother\n", "a line\nanother\n"},
		"no_final_line": {"abc", "abc"},
		"empty":         {"", ""},
		"utf8":          {"naïve 一二三 😀\n", "naïve 一二三 😀\n"},
		"tab":           {"a\tb\n", "a\tb\n"},

		// Control sequences. The numbers are cases.
		"csi_37":                   {"red \x1b[31m text \x1b[0m\r\n", "red  text \n"},
		"marker_of_others_38":      {"\x1b]133;D;0\x07dsh> ", "dsh> "},
		"osc_and_two_bytes_39":     {"a\x1b]0;title\x1b\\b\x1b7c\x07", "abc"},
		"osc_ends_at_bel_40":       {"\x1b]0;one\x07middle\x1b\\", "middle"},
		"osc_ends_at_st_40":        {"\x1b]0;one\x1b\\middle\x07", "middle"},
		"lone_escape_at_end_41":    {"a\x1b", "a"},
		"false_terminator_42":      {"\x1b]0;more\x1bx more\x07tail", "tail"},
		"malformed_43":             {"a\xffb", "a\ufffdb"},
		"torn_at_the_end_43":       {"a\xe2", "a\ufffd"},
		"torn_longer_at_the_end":   {"a\xf0\x9f\x98", "a\ufffd\ufffd\ufffd"},
		"torn_inside":              {"\xe4\xb8x", "\ufffd\ufffdx"},
		"torn_before_a_sequence":   {"\xe4\xb8\x1b[mx", "\ufffd\ufffdx"},
		"surrogate":                {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		"overlong":                 {"\xc0\xaf", "\ufffd\ufffd"},
		"dcs_44":                   {"a\x1bPq#0;2;0;0;0\x1b\\b", "ab"},
		"dcs_with_newline":         {"a\x1bPq\n#0\x1b\\b", "ab"},
		"apc_44":                   {"a\x1b_Gf=24;AAAA\x1b\\b", "ab"},
		"pm_44":                    {"a\x1b^private\x1b\\b", "ab"},
		"sos_44":                   {"a\x1bXstring\x1b\\b", "ab"},
		"dcs_does_not_end_at_bel":  {"a\x1bPx\x07y\x1b\\b", "ab"},
		"charset_44":               {"\x1b(Ba\x1b)0b\x1b%Gc", "abc"},
		"two_intermediates":        {"a\x1b$(Bb", "ab"},
		"keypad_and_save":          {"\x1b=\x1b>\x1b7\x1b8\x1bMx", "x"},
		"escape_twice":             {"a\x1b\x1b[31mb", "ab"},
		"escape_restarts_csi":      {"a\x1b[3\x1b[31mb", "ab"},
		"escape_in_st":             {"a\x1b]0;x\x1b\x1b\\b", "ab"},
		"can_aborts_csi":           {"a\x1b[3\x181mb", "a1mb"},
		"sub_aborts_csi":           {"a\x1b[3\x1a1mb", "a1mb"},
		"can_aborts_escape":        {"a\x1b\x18[mb", "a[mb"},
		"can_aborts_osc":           {"a\x1b]0;t\x18b", "ab"},
		"sub_aborts_dcs":           {"a\x1bPt\x1ab", "ab"},
		"control_inside_csi":       {"a\x1b[3\n1mb", "a\nb"},
		"control_inside_escape":    {"a\x1b\n7b", "a\nb"},
		"del_inside_a_sequence":    {"a\x1b\x7f[3\x7f1mb", "ab"},
		"text_ends_csi":            {"a\x1b[3一b", "a一b"},
		"text_ends_escape":         {"a\x1b一b", "a一b"},
		"private_and_intermediate": {"a\x1b[?25l\x1b[!p\x1b[4 qb", "ab"},
		"c1_csi_44":                {"a\u009b31mb", "ab"},
		"c1_osc_44":                {"a\u009d0;title\u009cb", "ab"},
		"c1_dcs_ends_at_st":        {"a\u0090q\x1b\\b", "ab"},
		"c1_others":                {"a\u0085\u0084\u008d\u0080b", "ab"},
		"c1_string_ends_with_line": {"a\u009dlost\nkept", "a\nkept"},
		"osc_with_c1_terminator":   {"a\x1b]0;title\u009cb", "ab"},
		"osc_holds_the_same_byte":  {"a\x1b]0;✜ \u00c2\u00c2 title\x07b", "ab"},
		"raw_c1_is_malformed":      {"a\x9b31mb", "a\ufffd31mb"},
		"raw_latin1":               {"caf\xe9 \x93x\x94", "caf\ufffd \ufffdx\ufffd"},

		// F74: OSC 52 writes the clipboard, the rest misleads whoever reads.
		"clipboard_and_bidi_F74": {"\x1b]52;c;aGk=\a\x1b[2J\u202e", "<U+202E>"},
		"bidi":                   {"a\u202eb\u2066c\u200f\u061c", "a<U+202E>b<U+2066>c<U+200F><U+061C>"},
		"zero_width":             {"a\u200bb\ufeffc\u2060d\u00ade", "a<U+200B>b<U+FEFF>c<U+2060>d<U+00AD>e"},
		"tags":                   {"\U000e0041x\U000e0100", "<U+E0041>x<U+E0100>"},
		"fillers":                {"\u3164\uffa0\u115f\u180e\U0001d173\U0001bca0", "<U+3164><U+FFA0><U+115F><U+180E><U+1D173><U+1BCA0>"},
		"line_separators":        {"a\u2028b\u2029", "a<U+2028>b<U+2029>"},
		"ordinary_neighbours":    {"\u2009\u2010\u2030\u202f\u2070\u00ac\u00ae\ufffc\u3163", "\u2009\u2010\u2030\u202f\u2070\u00ac\u00ae\ufffc\u3163"},
		"emoji_selector":         {"❤️", "❤️"},

		// Control characters.
		"bel_and_nul": {"a\x07b\x00c\x7fd", "abcd"},
		"other_c0":    {"a\x01\x0b\x0c\x0e\x0fb", "ab"},

		// Line ends.
		"crlf":                    {"a\r\nb\r\n", "a\nb\n"},
		"crcrlf_44":               {"a\r\r\nb", "a\nb"},
		"only_lf":                 {"a\nb", "a\nb"},
		"crlf_of_an_empty_line":   {"\r\n\r\n", "\n\n"},
		"lone_cr_at_the_end_41":   {"a\r", "a"},
		"cr_sequence_lf":          {"a\r\x1b[mb\n", "b\n"},
		"cr_rewrites":             {"10%\r20%\r100%\n", "100%\n"},
		"cr_leaves_longer_tail":   {"abcdef\rXY\n", "XYcdef\n"},
		"cr_by_code_points":       {"一二三\rab\n", "ab三\n"},
		"cr_wide_over_narrow":     {"abc\r一二\nd", "一二c\nd"},
		"cr_tail_then_more":       {"abc\rXYZW", "XYZW"},
		"cr_then_lf_keeps_line":   {"abc\rX\r\n", "Xbc\n"},
		"erase_to_the_right":      {"abcdef\rXY\x1b[K\n", "XY\n"},
		"erase_to_the_right_0J":   {"abcdef\rXY\x1b[J\n", "XY\n"},
		"erase_then_cr":           {"abcdef\x1b[2K\rXY\n", "XY\n"},
		"cr_then_erase":           {"abcdef\r\x1b[2KXY\n", "XY\n"},
		"erase_keeps_the_column":  {"abc\x1b[2KX\n", "   X\n"},
		"erase_in_the_middle":     {"abcdef\x1b[3D\x1b[2KX\n", "   X\n"},
		"erase_twice":             {"abc\x1b[2K\x1b[2KX\n", "   X\n"},
		"erase_nothing":           {"\x1b[2K\x1b[Kabc\x1b[K", "abc"},
		"erase_to_the_left_stays": {"abc\x1b[1KX", "abcX"},
		"progress_F65":            {progress(999), "999"},
		"progress_erased_F65":     {"one two three\r\x1b[Kfour\r\x1b[Kdone\n", "done\n"},

		// Cursor movement within the line.
		"column_1":                 {"abc\x1b[1Gx\x1b[Gy\n", "ybc\n"},
		"column_3":                 {"abcdef\x1b[3GX\n", "abXdef\n"},
		"column_beyond_the_end":    {"abc\x1b[6GX\n", "abc  X\n"},
		"left":                     {"abc\x1b[2DX\n", "aXc\n"},
		"left_too_far":             {"abc\x1b[9DX\n", "Xbc\n"},
		"left_by_0_is_1":           {"abc\x1b[0DX\n", "abX\n"},
		"left_of_wide":             {"a一b\x1b[2DX\n", "aXb\n"},
		"right_over_text":          {"abc\r\x1b[CX\n", "aXc\n"},
		"right_over_blanks_D7":     {"abc\x1b[3X\x1b[3Cdef\n", "abc   def\n"},
		"right_at_line_end":        {"abc\x1b[3C\n", "abc\n"},
		"right_and_back":           {"abc\x1b[3C\x1b[2DX\n", "abc X\n"},
		"right_and_far_back":       {"abc\x1b[3C\x1b[5DX\n", "aXc\n"},
		"right_then_cr":            {"abc\x1b[3C\rX\n", "Xbc\n"},
		"right_then_backspace":     {"abc\x1b[3C\bX\n", "abc  X\n"},
		"delete_cells":             {"abcdef\r\x1b[2Px\n", "xdef\n"},
		"insert_cells":             {"abc\r\x1b[2@x\n", "x abc\n"},
		"insert_at_the_end":        {"abc\x1b[2@x\n", "abcx\n"},
		"erase_cells":              {"a一cd\r\x1b[2Xx\n", "x cd\n"},
		"bad_parameters":           {"abc\x1b[1;2D\x1b[?1C\x1b[<3Gd\n", "abcd\n"},
		"huge_parameter":           {"abc\x1b[99999999999999999999DX\n", "Xbc\n"},
		"cursor_home":              {"abc\x1b[1;1HX\n", "Xbc\n"},
		"cursor_home_short":        {"abc\x1b[HX\x1b[;HY\x1b[1fZ\n", "Zbc\n"},
		"cursor_elsewhere":         {"abc\x1b[5;1Hdef\x1b[1;9Hg\n", "abcdefg\n"},
		"clear_screen_keeps_text":  {"abc\x1b[H\x1b[2J\x1b[3Jdef\n", "abc\ndef\n"},
		"clear_screen_at_the_left": {"abc\n\x1b[H\x1b[2Jdef\n", "abc\ndef\n"},
		"up_and_down":              {"abc\x1b[A\x1b[2Bdef\n", "abcdef\n"},
		"read_host_echo_S28":       {"Name: \x1b[6nb\x1b[1;1Hbo\x1b[1;1Hbob\r\n", "Name: bob\n"},
		"home_right_of_the_cursor": {"ab\x1b[6ncd\r\x1b[HX\n", "abXd\n"},
		"home_right_after_left":    {"ab\x1b[6ncd\x1b[3D\x1b[HX\n", "abXd\n"},
		"home_too_far_right":       {strings.Repeat("x", 2000) + "\x1b[6ncd\x1b[1G\x1b[2C\x1b[HY\n", "xxY" + strings.Repeat("x", 1997) + "cd\n"},
		"home_lost_when_rewritten": {"ab\x1b[6ncd\x1b[2GY\x1b[HX\n", "XYcd\n"},
		"home_lost_by_wide_text":   {"ab\x1b[6nc\x1b[2Ga一二\x1b[3D\x1b[HX\n", "Xa一二\n"},
		"home_beyond_the_line":     {"ab\x1b[6n\r\x1b[K\x1b[HX\n", "X\n"},
		"home_ends_with_the_line":  {"ab\x1b[6n\nabc\x1b[HX\n", "ab\nXbc\n"},

		// Backspace.
		"backspace_erases":           {"abc\b\n", "ab\n"},
		"backspace_and_retype":       {"abx\bc\n", "abc\n"},
		"backspace_echo":             {"abc\b \b\n", "ab\n"},
		"backspace_wide":             {"a一\bb\n", "ab\n"},
		"backspace_at_the_left":      {"\b\ba\n\bb", "a\nb"},
		"backspace_after_cr":         {"abc\r\bX\n", "Xbc\n"},
		"backspace_in_a_rewrite":     {"abc\rXY\b\n", "XYc\n"},
		"backspace_over_a_rewrite":   {"abc\rXY\bZ\n", "XZc\n"},
		"backspace_percent":          {" 10%\b\b\b\b 20%\b\b\b\b100%\n", "100%\n"},
		"overstrike":                 {"_\bu_\bn\n", "un\n"},
		"alternate_screen":           {"a\x1b[?1049hb\x1b[?1049lc", "a\nb\nc"},
		"alternate_screen_stays":     {"\x1b[?1049hone\x1b[H\x1b[2Jtwo\x1b[1Gthree", "onetwothree"},
		"alternate_screen_ends":      {"\x1b[?1049hone\x1b[?1049l\x1b[?1049l\x1b[Htwo", "one\ntwo"},
		"bracketed_paste_A23":        {"\x1b[?2004hdsh> ls\r\n\x1b[?2004l\rfile\r\n", "dsh> ls\nfile\n"},
		"bash_3_2_start_A23":         {"\x1b[?1034hdsh> ", "dsh> "},
		"caret_notation_A22":         {"^C\r\ndsh> ^[[A", "^C\ndsh> ^[[A"},
		"conhost_start_D10_K13":      {"\x1b[c\x1b[?1004h\x1b[?9001h\x1b[2J\x1b[m\x1b[HPS> ", "PS> "},
		"title_before_text_S8":       {"\x1b[?1h\x1b=\x1b]0;\x07out\r\n", "out\n"},
		"hyperlink":                  {"\x1b]8;;https://a.b\x1b\\text\x1b]8;;\x1b\\", "text"},
		"unterminated_osc_B6":        {"a\x1b]0;title", "a"},
		"many_parameters":            {"a\x1b[" + strings.Repeat("1;", 500) + "1mb", "ab"},
		"overlong_sequence_is_inert": {"abc\x1b[" + strings.Repeat("0", 500) + "2DX", "abcX"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Text([]byte(tt.in)))
			assert.Equal(t, tt.want, textOf(through(Config{}, strings.Split(tt.in, "")...)), "by code points")
			for i := range len(tt.in) {
				if i > 200 {
					break
				}
				assert.Equal(t, tt.want, textOf(through(Config{}, tt.in[:i], tt.in[i:])), "split at %d", i)
			}
		})
	}
}

// Cursor movement must not make much text of little.
func TestTextIsBounded(t *testing.T) {
	for _, in := range []string{"\x1b[999Cx", "\r\x1b[999@x\x1b[999C", "x\x1b[2Kx\n", "\u00ad", "\xff"} {
		raw := []byte(strings.Repeat(in, 50000))
		assert.LessOrEqual(t, len(Text(raw)), 64<<10+4*len(raw), "%q", in)
	}
	assert.Len(t, Text([]byte(strings.Repeat("\u00ad", 50000))), 4*2*50000)
	assert.Equal(t, "a"+strings.Repeat(" ", maxBlank)+"b", Text([]byte("a\x1b[999C\x1b[999Cb")))
}

func TestOneLine(t *testing.T) {
	assert.Equal(t, "python3 two lines red", OneLine("python3\ntwo lines \x1b[31mred\x1b[0m\n"))
}

// progress is what `for i in $(seq n); do printf "\r%d" $i; done` prints
// (anthropics/claude-code#23540).
func progress(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\r%d", i+1)
	}
	return b.String()
}

// What is beyond the bound of an unfinished sequence is swallowed up to the
// terminator too.
//
// Case: reference 3.3 #42
func TestUnfinishedSequenceIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		pieces []string
		want   string
	}{
		"osc":                        {[]string{"\x1b]0123456789abcde", "more\x07tail"}, "tail"},
		"osc_split_terminator":       {[]string{"\x1b]0123456789abcde", "more\x1b", "\\tail"}, "tail"},
		"osc_false_terminator":       {[]string{"\x1b]0123456789abcde", "more\x1b", "more"}, ""},
		"osc_false_then_true":        {[]string{"\x1b]0123456789abcde", "more\x1bx more\x07tail"}, "tail"},
		"csi":                        {[]string{"\x1b[0123456789012345", "123", "mtext"}, "text"},
		"csi_has_no_effect_any_more": {[]string{"ab\x1b[000000001D", "c"}, "abc"},
		"csi_has_up_to_the_bound":    {[]string{"ab\x1b[00000001D", "c"}, "ac"},
	} {
		t.Run(name, func(t *testing.T) {
			s := through(Config{MaxSequence: 8}, tt.pieces...)
			assert.Equal(t, tt.want, textOf(s))
			assert.LessOrEqual(t, cap(s.kept), 16)
			assert.Equal(t, tt.want, textOf(through(Config{MaxSequence: 8}, strings.Join(tt.pieces, ""))))
		})
	}
	t.Run("flush_ends_it", func(t *testing.T) {
		s := through(Config{MaxSequence: 8}, "\x1b]0123456789abcde")
		s.Write([]byte("text"))
		assert.Equal(t, "text", textOf(s))
	})
	t.Run("memory", func(t *testing.T) {
		s := New(Config{})
		s.Write([]byte("\x1b]0;"))
		for range 1000 {
			s.Write(make([]byte, 1000))
		}
		assert.LessOrEqual(t, cap(s.kept), 2*maxKept)
	})
}

// A line editor wraps a long line by itself: at the right edge it prints a blank
// and returns to its place. At 80 columns 500 characters stay one line
// (microsoft/terminal#405, pexpect/pexpect#238; F69).
func TestCarriageReturnInAWrappedLine(t *testing.T) {
	const prompt = "dsh> "
	long := prompt + strings.Repeat("x", 500)
	var echo strings.Builder
	for i, c := range long {
		if i > 0 && i%80 == 0 {
			echo.WriteString(" \r")
		}
		echo.WriteRune(c)
	}
	s := through(Config{Columns: 80}, echo.String()+"\r\n")
	assert.Equal(t, long+"\n", textOf(s))

	for name, tt := range map[string]struct{ in, want string }{
		"short_line":             {"abcd\rX", "Xbcd"},
		"full_row":               {"0123456789\rX", "X123456789"},
		"second_row":             {"0123456789ab\rX", "0123456789Xb"},
		"second_row_twice":       {"0123456789ab\rX\rY\rZ", "0123456789Zb"},
		"erase_second_row":       {"0123456789ab\x1b[2K\rX", "0123456789X"},
		"erase_and_keep_column":  {"0123456789ab\x1b[2KX", "0123456789  X"},
		"column_of_the_row":      {"0123456789ab\x1b[2GX", "0123456789aX"},
		"tab_goes_to_column_8":   {"\tabc\rX", "\tabX"},
		"back_from_third_row":    {"0123456789012345678901\x1b[15D\rX", "X123456789012345678901"},
		"code_points_not_bytes":  {"一二三四五六七八九十ab\rX", "一二三四五六七八九十Xb"},
		"counted_once_more":      {"0123456789ab\x1b[9D\x1b[9Ccd\rX", "0123456789Xbcd"},
		"home_inside_second_row": {"0123456789a\x1b[6nbc\x1b[HX\rY", "0123456789YXc"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, textOf(through(Config{Columns: 10}, tt.in)))
		})
	}
}

func TestQueries(t *testing.T) {
	for name, tt := range map[string]struct {
		in    string
		kind  QueryKind
		reply string
	}{
		"cursor_position":           {"\x1b[6n", CursorPosition, "\x1b[1;1R"},
		"device_status":             {"\x1b[5n", DeviceStatus, "\x1b[0n"},
		"primary_attributes":        {"\x1b[c", PrimaryAttributes, "\x1b[?6c"},
		"primary_attributes_0":      {"\x1b[0c", PrimaryAttributes, "\x1b[?6c"},
		"primary_attributes_c1":     {"\u009bc", PrimaryAttributes, "\x1b[?6c"},
		"secondary_attributes":      {"\x1b[>c", SecondaryAttributes, "\x1b[>0;0;0c"},
		"foreground":                {"\x1b]10;?\x07", ForegroundColor, ""},
		"background":                {"\x1b]11;?\x1b\\", BackgroundColor, ""},
		"cursor_colour":             {"\x1b]12;?\u009c", CursorColor, ""},
		"termcap":                   {"\x1bP+q544e\x1b\\", TermcapString, "\x1bP0+r\x1b\\"},
		"kitty_keyboard":            {"\x1b[?u", KittyKeyboard, ""},
		"version":                   {"\x1b[>q", TerminalVersion, ""},
		"version_0":                 {"\x1b[>0q", TerminalVersion, ""},
		"mode":                      {"\x1b[4$p", ModeReport, "\x1b[4;0$y"},
		"private_mode":              {"\x1b[?2026$p", ModeReport, "\x1b[?2026;0$y"},
		"extended_cursor_position":  {"\x1b[?6n", 0, ""},
		"restore_cursor":            {"\x1b[u", 0, ""},
		"cursor_style":              {"\x1b[2 q", 0, ""},
		"soft_reset":                {"\x1b[!p", 0, ""},
		"mode_without_number":       {"\x1b[?$p", 0, ""},
		"setting_a_colour":          {"\x1b]11;#000000\x07", 0, ""},
		"another_device_string":     {"\x1bP$qm\x1b\\", 0, ""},
		"query_in_an_overlong_text": {"\x1b]10;?" + strings.Repeat(" ", 300) + "\x07", 0, ""},
		"aborted":                   {"\x1b[6\x18n", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			// The same split anywhere (psmux/psmux#385; F54).
			for i := range len(tt.in) {
				s := through(Config{}, "$ "+tt.in[:i], tt.in[i:])
				queries := s.Queries()
				if tt.kind == 0 {
					assert.Empty(t, queries)
					continue
				}
				require.Len(t, queries, 1)
				assert.Equal(t, tt.kind, queries[0].Kind)
				assert.Equal(t, tt.reply, string(queries[0].Reply()))
				assert.Equal(t, tt.reply == "", queries[0].Reply() == nil)
				assert.Empty(t, s.Queries(), "taken")
				assert.Equal(t, "$ ", textOf(s))
			}
		})
	}
	t.Run("bounded", func(t *testing.T) {
		s := through(Config{}, "\x1b[5n"+strings.Repeat("\x1b[6n", 100))
		queries := s.Queries()
		assert.Len(t, queries, maxQueries)
		assert.Equal(t, DeviceStatus, queries[0].Kind, "the oldest is kept")
	})
}

// Markers around pasted text only go to a program that asked for them, however
// its request was read (Tripstack-Corp/spyc#170; F48).
func TestModes(t *testing.T) {
	for name, tt := range map[string]struct {
		in             string
		alternate, pst bool
	}{
		"nothing":            {"text", false, false},
		"alternate":          {"\x1b[?1049h", true, false},
		"alternate_old":      {"\x1b[?47h", true, false},
		"alternate_and_back": {"\x1b[?1047h\x1b[?1047l", false, false},
		"paste":              {"\x1b[?2004h", false, true},
		"paste_off":          {"\x1b[?2004h\x1b[?2004l", false, false},
		"both":               {"\x1b[?25;1049;2004h", true, true},
		"one_off":            {"\x1b[?1049;2004h\x1b[?25;1049l", false, true},
		"ansi_mode":          {"\x1b[2004h\x1b[h", false, false},
		"full_reset":         {"\x1b[?1049;2004h\x1bc", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range len(tt.in) {
				s := through(Config{}, tt.in[:i], tt.in[i:])
				assert.Equal(t, tt.alternate, s.AltScreen())
				assert.Equal(t, tt.pst, s.BracketedPaste())
			}
		})
	}
}

func TestPositions(t *testing.T) {
	write := func(s *Screen, p string) { s.Write([]byte(p)) }
	text := func(s *Screen, from Position) string {
		text, truncated := s.Text(from, all)
		assert.False(t, truncated)
		return text
	}

	t.Run("text_since", func(t *testing.T) {
		s := New(Config{})
		assert.Zero(t, s.End(), "the zero position is the beginning")
		write(s, "one\n")
		p := s.End()
		assert.Equal(t, "", text(s, p))
		write(s, "two\nthree")
		q := s.End()
		write(s, " four")
		assert.Equal(t, "two\nthree four", text(s, p))
		assert.Equal(t, " four", text(s, q))
		assert.Equal(t, "one\ntwo\nthree four", text(s, 0))
		assert.Less(t, p, q)
		assert.Equal(t, s.End(), s.End(), "nothing came in between")
	})
	t.Run("at_the_beginning_of_a_rewritten_line", func(t *testing.T) {
		s := New(Config{})
		write(s, "one\n")
		p := s.End()
		write(s, "10%\r20%")
		assert.Equal(t, "20%", text(s, p))
	})
	t.Run("rewritten_afterwards", func(t *testing.T) {
		s := New(Config{})
		write(s, "load 10%")
		p := s.End()
		write(s, "\r")
		assert.Equal(t, "", text(s, p), "nothing was written yet")
		write(s, "load 20%")
		q := s.End()
		assert.Equal(t, "load 20%", text(s, p), "the frame that came after it")
		assert.Equal(t, "", text(s, q))
		assert.NotEqual(t, p, q, "the same place at another time")
		write(s, "\x1b[3D30%\ndone\n")
		assert.Equal(t, "load 30%\ndone\n", text(s, p))
		assert.Equal(t, "30%\ndone\n", text(s, q))
	})
	t.Run("cursor_left_of_text", func(t *testing.T) {
		s := New(Config{})
		write(s, "old text\r")
		p := s.End()
		assert.Equal(t, "", text(s, p))
		write(s, "new")
		assert.Equal(t, "new text", text(s, p))
		assert.Equal(t, "new", s.Tail(p, 99))
	})
	t.Run("erased", func(t *testing.T) {
		s := New(Config{})
		write(s, "abcdef")
		p := s.End()
		write(s, "\b\b")
		assert.Equal(t, "", text(s, p))
		write(s, "X")
		assert.Equal(t, "X", text(s, p))
		write(s, "\r\x1b[Kshort")
		assert.Equal(t, "short", text(s, p))
	})
	t.Run("cells_deleted_and_inserted", func(t *testing.T) {
		for _, sequence := range []string{"\x1b[1P", "\x1b[1@", "\x1b[1X"} {
			s := New(Config{})
			write(s, "abc")
			p := s.End()
			write(s, "\r\x1b[C")
			assert.Equal(t, "", text(s, p))
			write(s, sequence)
			assert.Equal(t, map[string]string{"\x1b[1P": "c", "\x1b[1@": " bc", "\x1b[1X": " c"}[sequence], text(s, p))
		}
	})
	t.Run("many", func(t *testing.T) {
		// Positions that nobody rewrote need no memory; of those in lines that
		// were, the latest ones are known.
		s := New(Config{})
		var positions []Position
		for i := range 10 * maxPins {
			write(s, fmt.Sprintf("%03d ", i))
			positions = append(positions, s.End())
		}
		write(s, "\n")
		s.End()
		write(s, "x")
		s.End()
		assert.Len(t, s.line.pins, 1)
		for i, p := range positions {
			assert.True(t, strings.HasPrefix(text(s, p), fmt.Sprintf("%03d ", i+1)) || i+1 == len(positions))
		}
		positions = positions[:0]
		for i := range 10 * maxPins {
			write(s, fmt.Sprintf("\r%03d", i))
			positions = append(positions, s.End())
		}
		write(s, "\rlast\n")
		for _, p := range positions[len(positions)-maxPins:] {
			assert.Equal(t, "last\n", text(s, p))
		}
		assert.Len(t, s.line.pins, maxPins)
	})
	t.Run("cut_on_code_points", func(t *testing.T) {
		s := New(Config{})
		write(s, "一二三")
		for limit, want := range []string{"", "", "", "三", "三", "三", "二三", "二三", "二三", "一二三"} {
			got, truncated := s.Text(0, limit)
			assert.Equal(t, want, got, "%d bytes", limit)
			assert.Equal(t, limit < 9, truncated)
		}
		got, truncated := s.Text(0, -1)
		assert.Equal(t, "", got)
		assert.True(t, truncated)
		got, truncated = s.Text(s.End(), 0)
		assert.Equal(t, "", got)
		assert.False(t, truncated)
	})
	t.Run("cut_with_text_right_of_the_cursor", func(t *testing.T) {
		s := New(Config{})
		write(s, "一二三四\rab")
		for limit, want := range []string{"", "", "", "四", "四", "四", "三四", "b三四", "ab三四"} {
			got, _ := s.Text(0, limit)
			assert.Equal(t, want, got, "%d bytes", limit)
		}
	})
	t.Run("dropped", func(t *testing.T) {
		s := New(Config{Lines: 2})
		write(s, "one\n")
		p := s.End()
		write(s, "two\nthree\n")
		_, truncated := s.Text(p, all)
		assert.False(t, truncated, "one is dropped, which came before")
		write(s, "four\n")
		got, truncated := s.Text(p, all)
		assert.Equal(t, "three\nfour\n", got)
		assert.True(t, truncated)
	})
}

func TestTail(t *testing.T) {
	const prompt = "dsh> "
	s := New(Config{})
	s.Write([]byte("abc")) // no newline at the end of the output
	p := s.End()
	assert.Equal(t, "", s.Tail(p, len(prompt)+1))
	s.Write([]byte("dsh"))
	assert.Equal(t, "dsh", s.Tail(p, len(prompt)+1))
	s.Write([]byte("> "))
	assert.Equal(t, prompt, s.Tail(p, len(prompt)+1))
	s.Write([]byte("printf x"))
	assert.Equal(t, "dsh> p", s.Tail(p, len(prompt)+1), "an old prompt and the echo of input is no prompt")
	assert.Equal(t, "", s.Tail(p, 0))
	s.Write([]byte("\r\nx"))
	assert.Equal(t, "dsh> printf x\nx", s.Tail(p, 99))

	t.Run("over_an_overwritten_line", func(t *testing.T) {
		s := New(Config{})
		s.Write([]byte("progress 100%\r"))
		p := s.End()
		assert.Equal(t, "", s.Tail(p, 99))
		s.Write([]byte(prompt))
		assert.Equal(t, prompt, s.Tail(p, len(prompt)+1))
		assert.Equal(t, "dsh> ess 100%", s.LastLine())
	})
	t.Run("dropped", func(t *testing.T) {
		s := New(Config{Bytes: 4})
		s.Write([]byte("abcdefgh"))
		assert.Equal(t, "ef", s.Tail(0, 2))
	})
}

func TestLastLine(t *testing.T) {
	s := New(Config{})
	assert.Equal(t, "", s.LastLine())
	s.Write([]byte("output\nPassword: "))
	assert.Equal(t, "Password: ", s.LastLine())
	s.Write([]byte("\r"))
	assert.Equal(t, "Password: ", s.LastLine())
	s.Write([]byte("\x1b[KSure? [y/N] "))
	assert.Equal(t, "Sure? [y/N] ", s.LastLine())
	s.Write([]byte("\n"))
	assert.Equal(t, "", s.LastLine())
	s.Write([]byte(strings.Repeat("一", 10000) + "end"))
	assert.LessOrEqual(t, len(s.LastLine()), maxLastLine)
	assert.True(t, strings.HasPrefix(s.LastLine(), "一"))
	assert.True(t, strings.HasSuffix(s.LastLine(), "一end"))
}

// Text is linear in its input, whatever that is (Netflix/go-expect#5,
// pexpect/pexpect#352; F76): what is done to a line costs the same, up to a
// generous factor for a busy machine, whether the line is short or as long as
// the scrollback takes. It is some thousand times longer.
func TestWorkIsLinear(t *testing.T) {
	const size = 16 << 10
	spend := func(c Config, line, in string) time.Duration {
		s := New(c)
		s.Write([]byte(line))
		pieces := cutEvery(in, 4096)
		begin := time.Now()
		for _, p := range pieces {
			s.Write([]byte(p))
		}
		spent := time.Since(begin)
		assert.LessOrEqual(t, s.size(), defaultBytes)
		return spent
	}
	short := strings.Repeat("x", 2*maxMove)
	long := strings.Repeat("x", defaultBytes-4*size)
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for name, tt := range map[string]struct {
		columns   int
		then, now string // after the line
	}{
		"return_and_rewrite":  {0, "", "\rab\x1b[C"},
		"wide_over_narrow":    {0, "\r", "一"},
		"backspaces":          {0, "", "\b"},
		"left_and_right":      {0, "", "\x1b[1000D\x1b[1000C"},
		"far_left_and_right":  {0, "", "\x1b[9999999D\x1b[9999999C"},
		"erase_the_line":      {0, "", "\x1b[2Kx"},
		"pad_and_erase":       {0, "", "\x1b[1000Cx\x1b[2K\r"},
		"insert_blanks":       {0, "", "\r\x1b[1000@"},
		"delete_cells":        {0, "\r", "\x1b[P"},
		"erase_cells":         {0, "\r", "\x1b[9X"},
		"home_in_the_middle":  {0, "\x1b[6n" + long[:size], "x\x1b[Hy\r"},
		"columns":             {0, "", "\x1b[7Gx\r"},
		"unfinished_sequence": {0, "\x1b]", "\x1bx"},
		"escapes":             {0, "", "\x1b"},
		"sequences_in_text":   {0, "", "\x1b[mab"},
		"over_the_bound":      {0, long, "\x1b[mab"},
		"lines_after":         {0, "\n" + long, "\x1b[ma\n"},
		"empty_lines":         {0, "", "\n"},
		"malformed":           {0, "", "\xf0"},
		"invisible":           {0, "", "\u202e"},
		"rows_returns":        {80, "", "\rab\x1b[C"},
		"rows_left":           {80, "", "\x1b[1000D\x1b[1000Cx\r"},
		"rows_home":           {80, "\x1b[6n" + long[:size], "x\x1b[Hy\r"},
		"rows_erase":          {80, "", "\x1b[2Kx"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Columns: tt.columns}
			small := spend(c, short+tt.then, repeat(tt.now))
			large := spend(c, long+tt.then, repeat(tt.now))
			assert.Less(t, large, 50*small+time.Second)
		})
	}
}

func cutEvery(in string, n int) (pieces []string) {
	for len(in) > n {
		pieces = append(pieces, in[:n])
		in = in[n:]
	}
	return append(pieces, in)
}

// checkBounds checks what holds for every screen at every moment.
func checkBounds(t *testing.T, s *Screen) {
	t.Helper()
	text := textOf(s)
	require.LessOrEqual(t, len(text), s.config.Bytes)
	require.LessOrEqual(t, s.lines(), s.config.Lines)
	require.Equal(t, strings.Count(text, "\n"), s.ring.newlines)
	require.True(t, utf8.ValidString(text))
	for i, r := range text {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && !visible(r) {
			t.Fatalf("%q at %d of the text", r, i)
		}
	}
	lines, bytes := s.Dropped()
	require.LessOrEqual(t, lines, bytes)
	require.Equal(t, s.ring.start, bytes)

	retained, newlines := 0, 0
	for i, b := range s.ring.blocks {
		if s.ring.blocks[0].base+int64(i*s.ring.size) != b.base || i < len(s.ring.blocks)-1 && len(b.data) != s.ring.size {
			t.Fatalf("block %d is not where it should be", i)
		}
		retained += cap(b.data)
		newlines += b.newlines
	}
	require.Equal(t, s.ring.newlines, newlines)
	retained += cap(s.ring.spare) + cap(s.line.right) + cap(s.kept) + cap(s.torn)
	require.LessOrEqual(t, retained, 2*s.config.Bytes+s.config.Bytes/2+6*s.ring.size)
	require.LessOrEqual(t, s.line.pad, maxBlank)
	require.LessOrEqual(t, len(s.line.pins), maxPins)
}

func TestMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	t.Run("idle_session", func(t *testing.T) {
		const sessions = 500
		screens := make([]*Screen, sessions)
		before := heap()
		for i := range screens {
			screens[i] = New(Config{})
			screens[i].Write([]byte("\x1b[?2004h\x1b]0;~\x07dsh> "))
			screens[i].End()
		}
		each := (heap() - before) / sessions
		runtime.KeepAlive(screens)
		assert.Less(t, each, uint64(4<<10))
	})
	// gemini-cli kept 933 MB for this and lost lines (F77).
	t.Run("a_million_lines", func(t *testing.T) {
		var in []byte
		for i := range 1000000 {
			in = append(strconv.AppendInt(in, int64(i+1), 10), '\n')
		}
		s := New(Config{})
		before := heap()
		allocs := testing.AllocsPerRun(1, func() {
			for p := range slices.Chunk(in, chunk) {
				s.Write(p)
			}
		})
		assert.Less(t, allocs, 1000.0)
		assert.Less(t, int64(heap())-int64(before), int64(1<<20), "10000 short lines are far below the bound of bytes")
		page, err := s.Page(0, 1, all)
		require.NoError(t, err)
		assert.Equal(t, "1000000", page.Text)
		assert.Equal(t, 10000, page.TotalLines)
		lines, _ := s.Dropped()
		assert.Equal(t, int64(1000000-10000+1000000), lines, "the function ran twice")
		runtime.KeepAlive(in)
	})
	t.Run("one_huge_line", func(t *testing.T) {
		s := New(Config{})
		before := heap()
		piece := []byte(strings.Repeat("0123456789abcdef", 4096))
		for range 800 { // 50 MiB
			s.Write(piece)
		}
		assert.Less(t, int64(heap())-int64(before), int64(5<<20))
		text, truncated := s.Text(0, 8)
		assert.Equal(t, "89abcdef", text)
		assert.True(t, truncated)
		lines, bytes := s.Dropped()
		assert.Zero(t, lines)
		assert.Equal(t, int64(800*len(piece)-defaultBytes), bytes)
	})
	t.Run("huge_line_rewritten", func(t *testing.T) {
		s := New(Config{})
		s.Write([]byte(strings.Repeat("x", 8<<20) + "\rshort\n"))
		text, _ := s.Text(0, all)
		assert.Len(t, text, defaultBytes)
		assert.True(t, strings.HasPrefix(text, "hortx"), "the line feed took the place of the oldest byte")
		assert.Nil(t, s.line.right, "given back")
	})
}

// The same bytes give the same text, marks and queries however they were read.
func TestAnySplit(t *testing.T) {
	pieces := []string{
		"a", "bc", "一", "é", "😀", "\n", "\r", "\r\n", "\b", "\t", "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b\\", "\x07", "\x18",
		"0", "1", ";", "?", "m", "K", "\x1b[K", "\x1b[2K", "\x1b[3D", "\x1b[4C", "\x1b[6n", "\x1b[H", "\x1b[2G", "\x1b[2P", "\x1b[2@",
		"\x1b[3X", "\x1b[31m", "\x1b]0;t\x07", "\x1b]11;?\x07", "\xc2", "\x9b", "\xe4", "\xb8", "\xff", "\u202e", "\u009b", "\u009d",
		"\u009c", "\x1b]7;key;", "7;key;", "\x1b]7;key;1\x07", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?2004h", "long text in one piece ",
		"\x1bc", "\x1b(B", "\x00", "\x7f",
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var in strings.Builder
		for range rng.IntN(60) {
			in.WriteString(pieces[rng.IntN(len(pieces))])
		}
		checkSplits(t, []byte(in.String()), uint8(rng.Uint32()), uint8(rng.Uint32()), uint8(rng.Uint32()), rng.Uint64())
	}
}

// seen is everything that can be seen of a stream.
type seen struct {
	Text, Small, Last, Tail   string
	Truncated, Cut            bool
	Marks                     []string
	At                        []Position
	Since                     []string
	Queries                   []Query
	Alternate, BracketedPaste bool
	Lines, Bytes              int64
	Page                      any
}

func see(t *testing.T, c Config, pieces []string) seen {
	t.Helper()
	var out seen
	s := New(c)
	split := NewSplitter([]byte("\x1b]7;key;"), []byte("\x07"), 8)
	mark := func(p []byte) {
		out.Marks = append(out.Marks, string(p))
		out.At = append(out.At, s.End())
	}
	for _, p := range pieces {
		split.Write([]byte(p), s.Write, mark)
		checkBounds(t, s)
	}
	split.Flush(s.Write)
	s.Flush()
	checkBounds(t, s)
	out.Text, out.Truncated = s.Text(0, all)
	out.Small, out.Cut = s.Text(0, 7)
	for _, p := range out.At {
		text, _ := s.Text(p, all)
		out.Since = append(out.Since, text, s.Tail(p, 5))
	}
	out.Last = s.LastLine()
	out.Tail = s.Tail(0, 7)
	out.Alternate, out.BracketedPaste = s.AltScreen(), s.BracketedPaste()
	out.Lines, out.Bytes = s.Dropped()
	page, err := s.Page(1, 3, 20)
	require.NoError(t, err)
	require.LessOrEqual(t, len(page.Text), 20)
	out.Page = page
	out.Queries = s.Queries()
	require.True(t, strings.HasSuffix(out.Text, out.Small))
	require.True(t, strings.HasSuffix(out.Text, out.Last))
	require.Equal(t, out.Bytes > 0, out.Truncated)
	return out
}

func checkSplits(t *testing.T, in []byte, lines, bytes, columns uint8, seed uint64) {
	t.Helper()
	c := Config{Lines: int(lines%16) + 1, Bytes: int(bytes) + 1, MaxSequence: int(seed % 40), Columns: int(columns % 32)}
	whole := see(t, c, []string{string(in)})
	parts := see(t, c, cut(string(in), seed))
	require.Equal(t, whole, parts, "%q with %+v, seed %d", in, c, seed)

	if c.Columns == 0 && !strings.Contains(string(in), "\x1b]7;key;") {
		c = Config{Lines: all, Bytes: all, MaxSequence: maxKept}
		require.Equal(t, Text(in), see(t, c, cut(string(in), seed)).Text)
	}
}

func FuzzScanner(f *testing.F) {
	for _, in := range []string{
		"plain\r\ntext\n", "10%\r20%\r\x1b[Kdone\n", "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[6n", "a\x1b]7;key;1\x07dsh> ",
		"\u009b1mx\u009dlost\nkept", "一二三\b\b\rab\x1b[2K\x1b[3Cx", "\x1bP+q544e\x1b\\\x1b[?1049;2004h\xe4\xb8",
	} {
		f.Add([]byte(in), uint8(3), uint8(20), uint8(10), uint64(7))
	}
	// The oldest code point fell to the bound while its line was still open.
	f.Add([]byte("0QQQ\n\xcb\n\nQ"), uint8(0xc6), uint8(2), uint8(' '), uint64(159))
	f.Fuzz(checkSplits)
}

func TestRestart(t *testing.T) {
	s := through(Config{}, "old\n\x1b[?2004hopen", "")
	s.Restart("new\n$ ")
	assert.Equal(t, "new\n$ ", textOf(s))
	assert.True(t, s.BracketedPaste(), "modes stay")
}

func TestLeaveAltScreen(t *testing.T) {
	s := through(Config{}, "\x1b[?1049htext")
	s.LeaveAltScreen()
	assert.False(t, s.AltScreen())
	assert.Equal(t, "text", textOf(s))
}
