package filelock_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session/internal/filelock"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	first, second := open(t, path), open(t, path)
	require.NoError(t, filelock.Lock(first))
	assert.ErrorIs(t, filelock.Lock(second), filelock.ErrLocked)

	// Readers are not kept away.
	_, err := first.WriteString("text")
	require.NoError(t, err)
	text, err := io.ReadAll(open(t, path))
	require.NoError(t, err)
	assert.Equal(t, "text", string(text))

	require.NoError(t, first.Close())
	assert.NoError(t, filelock.Lock(second))
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}
