package pwsh

import (
	"bytes"
	"encoding/binary"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
)

const secret = "0123456789abcdef0123456789abcdef"

func newShell(t *testing.T, args ...string) *shell {
	t.Helper()
	s, err := Dialect{}.New(dialect.Setup{CommandMode: true, Secret: secret, Args: args})
	require.NoError(t, err)
	return s.(*shell)
}

func TestNewRefusesAWeakSecret(t *testing.T) {
	for _, s := range []string{"", "abc", strings.Repeat("g", 32), strings.Repeat("A", 32), secret[:31]} {
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
		{"A;7", dialect.Mark{Kind: dialect.Prompt, Seq: 7}, true},
		{"P;7", dialect.Mark{Kind: dialect.Continuation, Seq: 7}, true},
		{"D;7;3;0;L3RtcC9hO2I=", dialect.Mark{Kind: dialect.Done, Seq: 7, Status: 3, HasStatus: true, Cwd: "/tmp/a;b", HasCwd: true}, true},
		{"D;7;-1073741510;2;L3RtcC/DqQ==", dialect.Mark{Kind: dialect.Done, Seq: 7, Status: -1073741510, HasStatus: true, Level: 2, Cwd: "/tmp/é", HasCwd: true}, true},
		// The shell could not tell where it is.
		{"D;7;0;0;", dialect.Mark{Kind: dialect.Done, Seq: 7, HasStatus: true}, true},
		{"D;7;0;0;*", dialect.Mark{Kind: dialect.Done, Seq: 7, HasStatus: true}, true},
		// The variable is the user's too: there may be no level to tell.
		{"D;7;0;;Lw==", dialect.Mark{Kind: dialect.Done, Seq: 7, HasStatus: true, Cwd: "/", HasCwd: true}, true},
		{"D;7;x;0;", dialect.Mark{}, false},
		{"D;7;0;x;Lw==", dialect.Mark{Kind: dialect.Done, Seq: 7, HasStatus: true, Cwd: "/", HasCwd: true}, true},
		{"D;7;0;0", dialect.Mark{}, false},
		{"D;7;0;0;;", dialect.Mark{}, false},
		{"A;7;0", dialect.Mark{}, false},
		{"S;7;", dialect.Mark{}, false},
		{"S;-7", dialect.Mark{}, false},
		{"S;x", dialect.Mark{}, false},
		{"Z;7", dialect.Mark{}, false},
		{"S", dialect.Mark{}, false},
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

// read takes a message apart as BinaryReader does.
func read(t *testing.T, r *bytes.Reader) string {
	t.Helper()
	n, err := binary.ReadUvarint(r)
	require.NoError(t, err)
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	require.NoError(t, err)
	return string(text)
}

func TestCommandIsNumberAndText(t *testing.T) {
	for _, text := range []string{"", "1", "a\r\nb\rc\n", "nul \x00 \x1b[31m\t`é漢🙂\u2028", strings.Repeat("x", 127), strings.Repeat("y", 128), strings.Repeat("z", 1<<20)} {
		d, err := newShell(t).Command(dialect.Script{Seq: 1<<40 + 7, Text: text})
		require.NoError(t, err)
		assert.Empty(t, d.Files)
		assert.Empty(t, d.Terminal)
		r := bytes.NewReader(d.Channel)
		var seq int64
		require.NoError(t, binary.Read(r, binary.LittleEndian, &seq))
		assert.EqualValues(t, 1<<40+7, seq)
		assert.Equal(t, text, read(t, r))
		assert.Zero(t, r.Len())
	}
}

func TestByteOrderMarkIsNotPartOfTheProgram(t *testing.T) {
	d, err := newShell(t).Command(dialect.Script{Text: "\ufeff'\ufeffb'"})
	require.NoError(t, err)
	assert.Equal(t, "'\ufeffb'", read(t, bytes.NewReader(d.Channel[8:])))
}

func TestInvalidTextIsRefusedByName(t *testing.T) {
	for _, tt := range []struct{ text, says string }{
		{"\xff", "offset 0 (byte 0xff)"},
		{"'é\x80'", "offset 3 (byte 0x80)"},
		{"'\ufffd' \xc3", "offset 6 (byte 0xc3)"}, // the character U+FFFD itself is text
		{"\xed\xa0\x80", "offset 0 (byte 0xed)"},  // a surrogate
		{"\ufeffa\xfe", "offset 4 (byte 0xfe)"},
	} {
		_, err := newShell(t).Command(dialect.Script{Text: tt.text})
		require.Error(t, err, "%q", tt.text)
		assert.Contains(t, err.Error(), tt.says)
		assert.Contains(t, err.Error(), "not valid UTF-8")
	}
}

// Whatever the chunks that the output comes in, what is held back at its end is
// the machinery and nothing of the program's.
func TestTrailerOverEverySplit(t *testing.T) {
	for _, tt := range []struct {
		program, trailer string
		interrupted      bool
	}{
		{"", "\x1b[6n", false},
		{"abc", "\x1b[6n", false},
		{"abc\n", "\x1b[6n", false},
		{"abc", "\x1b[6n\x1b[?1h", false},
		{"abc", "\x1b[6n\x1b[0m\x1b[?1h", false},
		// A program's own sequences stay, like ones and unfinished ones.
		{"\x1b[31mred\x1b[0m", "\x1b[6n", false},
		{"\x1b[?1h\x1b[?1h", "\x1b[6n\x1b[0m\x1b[?1h", false},
		{"\x1b", "\x1b[6n", false},
		{"\x1b[6", "\x1b[6n", false},
		{"\x1b[6n", "\x1b[6n", false},
		{"a\r\n\x03", "\x1b[6n", false},
		// The echo of the keys that interrupted it.
		{"", "\n\x1b[6n", true},
		{"", "\x03\n\x03\n\x1b[6n", true},
		{"", "\r\x1b[6n", true},
		{"text\n", "\r\x1b[6n", true},
		{"text\n", "\x1b[6n", true},
		{"text", "\r\x1b[6n", true},
	} {
		whole := tt.program + tt.trailer
		for i := 0; i <= len(whole); i++ {
			for j := i; j <= len(whole); j++ {
				// As the engine does it: what is held goes before what comes.
				var out, held []byte
				for _, chunk := range []string{whole[:i], whole[i:j], whole[j:]} {
					p := append(bytes.Clone(held), chunk...)
					k := newShell(t).Trailer(p, tt.interrupted)
					require.LessOrEqual(t, k, len(p))
					held = bytes.Clone(p[len(p)-k:])
					out = append(out, p[:len(p)-k]...)
				}
				if inPieces := i != j || i != 0 && i != len(whole); tt.interrupted && inPieces {
					// A line end that comes alone counts as echo.
					assert.Equal(t, strings.TrimRight(tt.program, "\n"), strings.TrimRight(string(out), "\n"), "%q at %d, %d", whole, i, j)
					continue
				}
				assert.Equal(t, tt.program, string(out), "%q at %d, %d", whole, i, j)
			}
		}
	}
}

func TestTextIsNeverTrailer(t *testing.T) {
	for _, tail := range []string{"", "a", "a\n", "\x1b[6nx", "\x1b[0m", "\x1b[?1h", "\x1b[?1l", "6n", "n"} {
		assert.Zero(t, newShell(t).Trailer([]byte(tail), false), "%q", tail)
	}
}

func TestLaunch(t *testing.T) {
	l := newShell(t).Launch()
	ref := backend.ChannelRef{Path: "/dev/fd/9", Number: 9}
	args := l.Args(ref)
	assert.Equal(t, []string{"-NoLogo", "-NoProfile", "-NoExit", "-Command"}, args[:4])
	require.Len(t, args, 5)
	assert.Contains(t, args[4], "'/dev/fd/9'")
	assert.NotContains(t, strings.Join(append(args, l.Env...), " "), secret, "other users can read arguments")
	assert.Contains(t, l.Env, "DOTNET_EnableDiagnostics=0")
	assert.True(t, l.KeepChannel && l.ReadsChannel && l.OwnModes && l.SeparateDescriptors && l.AnswerQueries)
	assert.False(t, l.Modes.OutputProc, "output comes as it is written")
	assert.True(t, l.Modes.Echo, "a native program's password prompt shows by its turning the echo off")
	assert.True(t, l.Modes.NoFlush, "an interrupt must not flush an answer that the shell waits for")
	assert.Empty(t, l.Prompt)

	args = newShell(t, "-NoProfileLoadTime").Launch().Args(ref)
	assert.Equal(t, []string{"-NoLogo", "-NoProfile", "-NoProfileLoadTime", "-NoExit", "-Command"}, args[:5], "the command comes last")
}

func TestBootstrapIsFilledIn(t *testing.T) {
	l := newShell(t).Launch()
	r := bytes.NewReader(l.Bootstrap(backend.ChannelRef{Path: "/dev/fd/9", Number: 9}))
	text := read(t, r)
	assert.Zero(t, r.Len())
	assert.NotRegexp(t, regexp.MustCompile(`@[A-Z]+@`), text)
	assert.Contains(t, text, "[IntPtr]9")
	assert.Equal(t, 3, strings.Count(text, "7771;"+secret+";"), "each marker has the secret")
	m := newShell(t).Marker()
	assert.Equal(t, "\x1b]7771;"+secret+";", string(m.Prefix))
	assert.Equal(t, "\x1b\\", string(m.End))
}

func TestResyncIsAQuestion(t *testing.T) {
	d, err := newShell(t).Resync(1<<40 + 7)
	require.NoError(t, err)
	assert.Empty(t, d.Files)
	assert.Empty(t, d.Terminal)
	var seq int64
	require.NoError(t, binary.Read(bytes.NewReader(d.Channel), binary.LittleEndian, &seq))
	assert.EqualValues(t, -(1<<40 + 7), seq)
	assert.Len(t, d.Channel, 8, "no text follows")
}

func TestResyncOfACommandThatWasNotBegun(t *testing.T) {
	s := newShell(t)
	_, err := s.Command(dialect.Script{Seq: 5})
	require.NoError(t, err)
	for _, seq := range []uint64{4, 5} {
		_, err = s.Resync(seq)
		assert.Error(t, err, "%d", seq)
	}
	_, err = s.Resync(6)
	assert.NoError(t, err)
	_, ok := s.Mark([]byte("S;5"))
	require.True(t, ok)
	_, err = s.Resync(5)
	assert.NoError(t, err)
	_, ok = s.Mark([]byte("S;4"))
	require.True(t, ok)
	_, err = s.Resync(5)
	assert.NoError(t, err, "a forged mark does not undo that")
	_, err = s.Resync(4)
	assert.Error(t, err)
}

func TestNothingElseIsTheShells(t *testing.T) {
	s := newShell(t)
	for _, where := range []dialect.Kind{dialect.Start, dialect.Prompt, dialect.Done} {
		assert.Equal(t, "exit\n", string(s.Noise(where, []byte("exit\n"))))
	}
	m := dialect.Mark{Kind: dialect.Done, Seq: 1, Status: 1, HasStatus: true}
	assert.Equal(t, m, s.Interrupted(m))
	assert.Equal(t, "pwsh", Dialect{}.Name())
	assert.Equal(t, "pwsh", Dialect{}.Programs()[0])
	assert.NotEmpty(t, Dialect{}.Install())
}

func newTyped(t *testing.T) *shell {
	t.Helper()
	s, err := Dialect{Typed: true}.New(dialect.Setup{CommandMode: true, Secret: secret, Dir: "/tmp/it's here"})
	require.NoError(t, err)
	return s.(*shell)
}

func TestTypedLaunch(t *testing.T) {
	l := newTyped(t).Launch()
	assert.Nil(t, l.Bootstrap)
	assert.False(t, l.KeepChannel || l.ReadsChannel)
	args := l.Args(backend.ChannelRef{})
	assert.Equal(t, ". ([scriptblock]::Create([IO.File]::ReadAllText('/tmp/it''s here/bootstrap')))", args[len(args)-1])
	require.Len(t, l.Files, 1)
	assert.Equal(t, "bootstrap", l.Files[0].Name)
	text := string(l.Files[0].Data)
	assert.NotRegexp(t, regexp.MustCompile(`@[A-Z]+@`), text)
	assert.Contains(t, text, "ReadAllBytes('/tmp/it''s here/command')")
	assert.Equal(t, 3, strings.Count(text, "7771;"+secret+";"), "each marker has the secret")
	assert.NotContains(t, strings.Join(append(args, l.Env...), " "), secret)
}

// The line that is typed is short, whatever the program.
func TestTypedCommand(t *testing.T) {
	s := newTyped(t)
	text := strings.Repeat("é\x00'\r\n", 1<<18)
	d, err := s.Command(dialect.Script{Seq: 1<<40 + 7, Text: "\ufeff" + text})
	require.NoError(t, err)
	assert.Empty(t, d.Channel)
	assert.Equal(t, "#1099511627783\n", string(d.Terminal))
	require.Len(t, d.Files, 1)
	assert.Equal(t, "command", d.Files[0].Name)
	assert.Equal(t, text, string(d.Files[0].Data))

	_, ok := s.Mark([]byte("S;1099511627783"))
	require.True(t, ok)
	d, err = s.Resync(1<<40 + 7)
	require.NoError(t, err)
	assert.Equal(t, "#-1099511627783\n", string(d.Terminal))
	assert.Empty(t, d.Files)
}

// The echo of the typed line is cut where it stands, once, and nothing else.
func TestTypedEcho(t *testing.T) {
	s := newTyped(t)
	_, err := s.Command(dialect.Script{Seq: 42, Text: "1"})
	require.NoError(t, err)
	for _, tt := range []struct{ before, after string }{
		{"#42\n", ""},
		{"late\n#42\n", "late\n"},
		{"#42\n#42\n", "#42\n"},
		{"#4\n2", "#4\n2"},
		{"", ""},
	} {
		assert.Equal(t, tt.after, string(s.Noise(dialect.Start, []byte(tt.before))), "%q", tt.before)
		assert.Equal(t, tt.before, string(s.Noise(dialect.Prompt, []byte(tt.before))), "%q", tt.before)
		assert.Equal(t, tt.before, string(s.Noise(dialect.Done, []byte(tt.before))), "%q", tt.before)
	}
}

func TestInteractiveLaunch(t *testing.T) {
	for _, typed := range []bool{false, true} {
		sh, err := Dialect{Typed: typed}.New(dialect.Setup{Secret: secret, Dir: "/d"})
		require.NoError(t, err)
		l := sh.Launch()
		assert.False(t, l.KeepChannel || l.ReadsChannel, "it reads the terminal")
		assert.True(t, l.Modes.OutputProc)
		assert.Equal(t, "> ", l.Prompt)
		assert.Zero(t, l.MinCols)
		assert.Empty(t, l.WarmUp)
		var text string
		if typed {
			text = string(l.Files[0].Data)
		} else {
			assert.Empty(t, l.Files)
			text = read(t, bytes.NewReader(l.Bootstrap(backend.ChannelRef{Path: "/dev/fd/9", Number: 9})))
			assert.Contains(t, text, "$in.Dispose()")
		}
		assert.NotRegexp(t, regexp.MustCompile(`@[A-Z]+@`), text)
		assert.Equal(t, 4, strings.Count(text, "7771;"+secret+";"), "each marker has the secret")
	}
}

func TestAsks(t *testing.T) {
	raw := backend.Modes{}
	for _, tt := range []struct {
		text, prompt string
		modes        backend.Modes
		want         dialect.Ask
	}{
		{"Read-Host name", "name: ", raw, dialect.AskLine},
		{"Read-Host", "", raw, dialect.AskLine},
		{"[Console]::ReadKey()", "", backend.Modes{Signals: true}, dialect.AskUnknown},
		{"[Console]::ReadLine()", "Password: ", backend.Modes{Signals: true}, dialect.AskUnknown},
		{"Get-Credential", "User: ", raw, dialect.AskLine},
		{"Get-Credential", "Password for user bob: ", raw, dialect.AskSecret},
		{"Read-Host x", "Enter your API key: ", raw, dialect.AskSecret},
		{"Read-Host x", "Passphrase:", raw, dialect.AskSecret},
		{"Read-Host x", "Compass: ", raw, dialect.AskLine},
		{"Read-Host x", "Pinned version: ", raw, dialect.AskLine},
		{"$s = Read-Host 'x' -AsSecureString", "x: ", raw, dialect.AskSecret},
		{"read-host -masksinput", "x: ", raw, dialect.AskLine},
		{"Read-Host -Prompt y -maskinput", "y: ", raw, dialect.AskSecret},
		{"Read-Host a; ConvertTo-SecureString -AsSecureString", "a: ", raw, dialect.AskLine},
	} {
		s := newShell(t)
		_, err := s.Command(dialect.Script{Seq: 1, Text: tt.text})
		require.NoError(t, err)
		assert.Equal(t, tt.want, s.Launch().Asks(tt.modes, tt.prompt), "%q asks %q", tt.text, tt.prompt)
	}
}
