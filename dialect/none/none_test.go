package none_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/none"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// driver starts nothing.
type driver struct {
	backend.Driver
	dir string
}

func (d driver) TempDir() string                    { return d.dir }
func (d driver) Capabilities() backend.Capabilities { return backend.Capabilities{} }

func TestRefusals(t *testing.T) {
	_, err := engine.New(engine.Config{Type: "repl"}, driver{}, none.Dialect{})
	require.ErrorIs(t, err, terminals.InvalidArgument)
	assert.ErrorContains(t, err, `shellPath of the backend "repl" must name a program`)

	dir := t.TempDir()
	b, err := engine.New(engine.Config{Type: "repl", ShellPath: "python3"}, driver{dir: dir}, none.Dialect{})
	require.NoError(t, err)
	_, err = b.Open(context.Background(), terminals.Setup{ID: "pty-1", Mode: terminals.Command})
	require.ErrorIs(t, err, terminals.Unsupported)
	assert.ErrorContains(t, err, "takes typed input only")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestLaunch(t *testing.T) {
	shell, err := none.Dialect{}.New(dialect.Setup{Args: []string{"-q", "file"}})
	require.NoError(t, err)
	l := shell.Launch()
	assert.Equal(t, []string{"-q", "file"}, l.Args(backend.ChannelRef{}))
	assert.Nil(t, l.Bootstrap)
	assert.Empty(t, shell.Marker().Prefix)
	_, err = shell.Command(dialect.Script{Text: "x"})
	assert.Error(t, err)
	_, err = shell.Resync(1)
	assert.Error(t, err)
}
