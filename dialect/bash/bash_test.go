package bash

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
)

const secret = "0123456789abcdef0123456789abcdef"

func newShell(t *testing.T) *shell {
	t.Helper()
	s, err := Dialect{}.New(dialect.Setup{CommandMode: true, Secret: secret})
	require.NoError(t, err)
	return s.(*shell)
}

func TestNewRefusesAWeakSecret(t *testing.T) {
	for _, s := range []string{"", "abc", strings.Repeat("g", 32), strings.Repeat("A", 32)} {
		_, err := Dialect{}.New(dialect.Setup{Secret: s})
		assert.Error(t, err, "%q", s)
	}
}

func TestMark(t *testing.T) {
	for _, tt := range []struct {
		payload string
		want    dialect.Mark
		ok      bool
	}{
		{"S;7", dialect.Mark{Kind: dialect.Start, Seq: 7}, true},
		{"P;7", dialect.Mark{Kind: dialect.Continuation, Seq: 7}, true},
		{"A;7;130;x", dialect.Mark{Kind: dialect.Prompt, Seq: 7, Status: 130, HasStatus: true}, true},
		{"A;7;$?", dialect.Mark{Kind: dialect.Prompt, Seq: 7}, true}, // promptvars off
		{"A;;1", dialect.Mark{Kind: dialect.Prompt, Status: 1, HasStatus: true}, true},
		{"D;7;3;5.2;/tmp/a;b", dialect.Mark{Kind: dialect.Done, Seq: 7, Status: 3, HasStatus: true, Cwd: "/tmp/a;b", HasCwd: true}, true},
		{`D;7;3;5.2;$'/a\n\303\251'`, dialect.Mark{Kind: dialect.Done, Seq: 7, Status: 3, HasStatus: true, Cwd: "/a\né", HasCwd: true}, true},
		{"D;7;3;5.2", dialect.Mark{}, false},
		{"D;7;x;5.2;/", dialect.Mark{}, false},
		{"Z;7", dialect.Mark{}, false},
		{"S;x", dialect.Mark{}, false},
		{"", dialect.Mark{}, false},
		{";", dialect.Mark{}, false},
	} {
		m, ok := newShell(t).Mark([]byte(tt.payload))
		assert.Equal(t, tt.ok, ok, tt.payload)
		if tt.ok {
			assert.Equal(t, tt.want, m, tt.payload)
		}
	}
}

func TestBootstrapIsBashAndHidesNothingElse(t *testing.T) {
	s := newShell(t)
	text := s.bootstrap(backend.ChannelRef{Path: "/dev/fd/3", Number: 3})
	assert.NotRegexp(t, `@[A-Z]+@`, string(text), "a placeholder was left")
	assert.Less(t, len(text), 4096, "it must fit a pipe's buffer on every system before the shell reads it")
	for _, arg := range s.args(backend.ChannelRef{Path: "/dev/fd/3", Number: 3}) {
		assert.NotContains(t, arg, secret)
	}
	cmd := exec.Command("bash", "-n")
	cmd.Stdin = strings.NewReader(string(text))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestCommand(t *testing.T) {
	s := newShell(t)
	d, err := s.Command(dialect.Script{Seq: 3, Text: "\ufeffecho hi", Status: 4, Dir: "/tmp/a b"})
	require.NoError(t, err)
	assert.Equal(t, "\\__shs_s 3 4 >/dev/null 2>&1 && ((1)); \\. '/tmp/a b/command'\n", string(d.Terminal))
	assert.Equal(t, []dialect.File{{Name: "command", Data: []byte("echo hi")}}, d.Files)

	_, err = s.Command(dialect.Script{Text: "echo a\x00b"})
	assert.ErrorContains(t, err, "NUL byte at offset 6")

	for _, tt := range []struct{ done, terminal, text string }{
		{"A;1;0;x", "__shs_n=3; \\. /d/command\n", "{ \\__shs_s 3 4 && ((1)); } >/dev/null 2>&1; echo hi"},
		{"A;1;0;f", "\\__shs_s 3 4 >/dev/null 2>&1 && ((1)); \\builtin . /d/command\n", "echo hi"},
		{"A;1;0;d", "\\__shs_s 3 4 >/dev/null 2>&1 && ((1)); \\source /d/command\n", "echo hi"},
		{"D;1;0;3.2;/", "\\__shs_s 3 4 >/dev/null 2>&1 && ((1)); for __shs_l in 1; do \\. /d/command; done\n", "echo hi"},
	} {
		s := newShell(t)
		_, ok := s.Mark([]byte(tt.done))
		require.True(t, ok)
		d, err := s.Command(dialect.Script{Seq: 3, Text: "echo hi", Status: 4, Dir: "/d"})
		require.NoError(t, err)
		assert.Equal(t, tt.terminal, string(d.Terminal), tt.done)
		assert.Equal(t, tt.text, string(d.Files[0].Data), tt.done)
	}
}

func TestTrailer(t *testing.T) {
	s := newShell(t)
	assert.Equal(t, 0, s.Trailer([]byte("out\n"), false))
	assert.Equal(t, 0, s.Trailer([]byte("out\n"), true), "the end of a line of text")
	assert.Equal(t, 2, s.Trailer([]byte("out\n\n\n"), true))
	assert.Equal(t, 2, s.Trailer([]byte("\n\n"), true))
	assert.Equal(t, 0, s.Trailer([]byte("\n\nout"), true))
	marker := string(s.Marker().Prefix)
	assert.Equal(t, 2, s.Trailer([]byte("out\n\x1b\n"), true), "a marker that was torn")
	assert.Equal(t, len(marker)+4+1, s.Trailer([]byte("out\n"+marker+"D;1;\n"), true))
	assert.Equal(t, len(marker)+4+1, s.Trailer([]byte("out"+marker+"D;1;\n"), true))
	assert.Equal(t, 0, s.Trailer([]byte("out\x1b"), false))
	assert.Equal(t, len(hook)+1, s.Trailer([]byte("out\n"+hook+"\n"), false))
	assert.Equal(t, 5, s.Trailer([]byte("out\n"+hook[:5]), false))
	assert.Equal(t, 0, s.Trailer([]byte("out}"), false))
}

func TestNoise(t *testing.T) {
	s := newShell(t)
	d, err := s.Command(dialect.Script{Seq: 3, Text: "echo hi", Dir: "/d"})
	require.NoError(t, err)
	assert.Equal(t, "late", string(s.Noise(dialect.Start, append([]byte("late"), d.Terminal...))))
	typed := string(d.Terminal)
	assert.Equal(t, "late", string(s.Noise(dialect.Start, []byte(typed[:9]+"la"+typed[9:]+"te"))))
	assert.Equal(t, "<1>\n<2>\n<3>\n", string(s.Noise(dialect.Start, []byte(typed[:9]+"<1>\n"+typed[9:20]+"<2>\n"+typed[20:]+"<3>\n"))))
	assert.Equal(t, "late", string(s.Noise(dialect.Start, []byte("late"))))
	asked, err := s.Resync(4)
	require.NoError(t, err)
	again := string(asked.Terminal)
	assert.Equal(t, "<1>\n<2>\n", string(s.Noise(dialect.Start, []byte(again[:9]+"<1>\n"+again[9:]+typed+"<2>\n"))))
	s.Noise(dialect.Prompt, []byte("trap -- - DEBUG\n"))
	assert.Equal(t, "late", string(s.Noise(dialect.Start, []byte("late"))))
	s.Noise(dialect.Prompt, []byte("trap -- 'echo T' DEBUG\n"))
	assert.Empty(t, s.Noise(dialect.Start, []byte("T\nT\n")))
	assert.Equal(t, "late\nmore", string(s.Noise(dialect.Prompt, []byte("late\ntrap -- 'a\nb' DEBUG\nmore"))))
	assert.True(t, s.debug)
	assert.Equal(t, "late", string(s.Noise(dialect.Prompt, []byte("late"+psText))))
	assert.False(t, s.debug)
}

func TestInterrupted(t *testing.T) {
	s := newShell(t)
	s.version = version{3, 2}
	assert.Equal(t, 130, s.Interrupted(dialect.Mark{Status: 1}).Status)
	s.version = version{5, 2}
	assert.Equal(t, 1, s.Interrupted(dialect.Mark{Status: 1}).Status)
}

func TestUnquoteReadsWhatPrintfWrites(t *testing.T) {
	for _, word := range []string{"/", "/a b", "/a'b", `/a\b`, "/a\nb\tc\x01\x1b\x7f", "/é漢🙂", "/$(x);&|<>`\"", "/a?b", "~"} {
		for _, locale := range []string{"C", "C.UTF-8"} {
			cmd := exec.Command("bash", "-c", `printf %q "$1"`, "bash", word)
			cmd.Env = []string{"LC_ALL=" + locale}
			out, err := cmd.Output()
			require.NoError(t, err)
			got, ok := unquote(string(out))
			assert.True(t, ok, "%s", out)
			assert.Equal(t, word, got, "%s in %s", out, locale)
		}
	}
	for _, bad := range []string{`a\`, "'a", "$'a", `$'\x'`, `$'\777'`, `$'\`} {
		_, ok := unquote(bad)
		assert.False(t, ok, bad)
	}
}

func TestQuoteIsOneWord(t *testing.T) {
	for _, word := range []string{"", "a", "a b", "a'b", "$x`y`", "é\n\\"} {
		out, err := exec.Command("bash", "-c", "printf %s "+quote(word)).Output()
		require.NoError(t, err)
		assert.Equal(t, word, string(out))
	}
}

// A live shell is told by a program of its own what its environment is to be.
func TestEnvironmentOfACommand(t *testing.T) {
	s := newShell(t)
	d, err := s.Command(dialect.Script{Seq: 1, Text: "true", Dir: "/private", Env: []string{"DSH_A=it's"}, Unset: []string{"DSH_B"}})
	require.NoError(t, err)
	require.Len(t, d.Files, 2)
	assert.Equal(t, "environment", d.Files[1].Name)
	assert.Contains(t, string(d.Files[1].Data), `unset -v DSH_B DSH_A`)
	assert.Contains(t, string(d.Files[1].Data), `export DSH_A='it'\''s'`)
	assert.Contains(t, string(d.Terminal), "/private/environment")

	for _, bad := range []dialect.Script{
		{Env: []string{"A=a\x00b"}},
		{Env: []string{"A-B=c"}},
		{Unset: []string{"1"}},
	} {
		_, err := s.Command(bad)
		assert.Error(t, err, "%+v", bad)
	}
}

// Of two questions that differ in their number alone, the one that was echoed is
// taken out, and no part of it stays.
func TestEchoOfOneQuestionOfTwo(t *testing.T) {
	s := newShell(t)
	_, err := s.Command(dialect.Script{Seq: 1, Text: "true", Dir: "/private"})
	require.NoError(t, err)
	first, err := s.Resync(4282341236)
	require.NoError(t, err)
	_, err = s.Resync(4282341299)
	require.NoError(t, err)
	assert.Empty(t, string(s.Noise(dialect.Start, first.Terminal)))

	half := len(first.Terminal) / 2
	_, err = s.Resync(4282341236)
	require.NoError(t, err)
	cut := slices.Concat(first.Terminal[:half], []byte("job\n"), first.Terminal[half:])
	assert.Equal(t, "job\n", string(s.Noise(dialect.Start, cut)))
}
