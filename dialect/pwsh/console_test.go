package pwsh

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
)

func newConsole(t *testing.T, command bool, args ...string) dialect.Shell {
	t.Helper()
	s, err := Dialect{}.New(dialect.Setup{CommandMode: command, Secret: secret, Args: args, Rewrites: true})
	require.NoError(t, err)
	return s
}

func TestConsoleTakesTwoHandles(t *testing.T) {
	l := newConsole(t, true, "-NoProfileLoadTime").Launch()
	assert.True(t, l.OutputPipe && l.KeepChannel && l.ReadsChannel && l.OwnModes)
	assert.False(t, l.AnswerQueries, "the output is no terminal")
	args := l.Args(backend.ChannelRef{Number: 12})
	assert.Equal(t, []string{"-NoLogo", "-NoProfile", "-NoProfileLoadTime", "-NoExit", "-Command"}, args[:5])
	assert.Contains(t, args[5], "('In','12')")
	assert.NotContains(t, strings.Join(append(args, l.Env...), " "), secret)

	r := bytes.NewReader(l.Bootstrap(backend.ChannelRef{Number: 34}))
	text := read(t, r)
	assert.Zero(t, r.Len())
	assert.NotRegexp(t, `@[A-Z]+@`, text)
	assert.Contains(t, text, "('In', '34')")
	assert.Contains(t, text, "7771;"+secret+";")
	assert.Contains(t, text, "FlushInputBuffer")
}

func TestConsoleForAPersonIsTheShellAsItComes(t *testing.T) {
	s := newConsole(t, false)
	l := s.Launch()
	assert.Equal(t, []string{"-NoLogo", "-NoProfile"}, l.Args(backend.ChannelRef{}))
	assert.Nil(t, l.Bootstrap)
	assert.False(t, l.OutputPipe)
	assert.Equal(t, dialect.Marker{}, s.Marker())
}

// The keys of an interrupt are not echoed into the output.
func TestConsoleHasNoEcho(t *testing.T) {
	s := newConsole(t, true)
	assert.Zero(t, s.Trailer([]byte("text\r\n"), true))
	assert.Equal(t, secret, strings.TrimSuffix(strings.TrimPrefix(string(s.Marker().Prefix), "\x1b]7771;"), ";"))
}
