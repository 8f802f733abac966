package session_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/session"
)

// disk mounts a file system of its own, of size bytes.
func disk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skip("only root mounts a file system")
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// A full disk costs the events that did not fit, and nothing else. It is said
// once, and so is its end.
func TestFullDisk(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			root := disk(t, "1m")
			p := open(t, kind.make, root)
			var told recorder
			l, err := session.New(p, session.NewHeader(cwd(t)), session.Options{Logger: slog.New(&told)})
			require.NoError(t, err)
			require.NoError(t, l.Append(session.SandboxMode{Mode: "first"}))

			ballast := filepath.Join(root, "ballast")
			f, err := os.Create(ballast)
			require.NoError(t, err)
			_, err = f.Write(make([]byte, 2<<20))
			require.ErrorIs(t, err, unix.ENOSPC)
			require.NoError(t, f.Close())

			text := strings.Repeat("0123456789abcdef", 1<<13)
			if kind.name == "zstd" { // which nothing makes smaller
				text = noise(1 << 17)
			}
			for range 3 {
				assert.Error(t, l.Append(session.ToolResult{ID: "lost", Text: text}))
			}
			if assert.Len(t, told.lines, 1) {
				assert.Contains(t, told.lines[0], "ERROR the session log cannot be written; the session goes on without it")
				assert.Contains(t, told.lines[0], l.Header().ID)
			}
			require.Len(t, stored(t, p, l.Header().ID), 2, "nothing torn is left")

			require.NoError(t, os.Remove(ballast))
			require.NoError(t, l.Append(session.ToolResult{ID: "1", Text: text}))
			require.NoError(t, l.Append(session.SandboxMode{Mode: "last"}))
			if assert.Len(t, told.lines, 2) {
				assert.Contains(t, told.lines[1], "WARN the session log can be written again")
				assert.Contains(t, told.lines[1], "lostEvents=3")
			}
			assert.Equal(t, []string{"0 session/start", "1 sandbox/mode", "5 tool/result", "6 sandbox/mode"}, types(stored(t, p, l.Header().ID)))
			require.NoError(t, l.Close())
			again, err := session.Resume(t.Context(), p, l.Header().ID, session.Options{})
			require.NoError(t, err)
			require.NoError(t, again.Close())
		})
	}
}

// noise returns text that has no pattern, always the same.
func noise(size int) string {
	var text strings.Builder
	for state := uint32(1); text.Len() < size; {
		state = state*1664525 + 1013904223
		text.WriteByte('!' + byte(state>>24)%94)
	}
	return text.String()
}

func TestReadOnlyDisk(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			root := disk(t, "1m")
			p := open(t, kind.make, filepath.Join(root, "sessions"))
			stay := newLog(t, p, session.NewHeader(cwd(t)))
			require.NoError(t, stay.Append(session.SandboxMode{Mode: "read-only"}))
			require.NoError(t, stay.Close())
			require.NoError(t, p.Close())
			require.NoError(t, unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))

			var told recorder
			l, err := session.New(p, session.NewHeader(cwd(t)), session.Options{Logger: slog.New(&told)})
			require.NoError(t, err)
			for range 3 {
				assert.Error(t, l.Append(session.SandboxMode{Mode: "read-only"}))
			}
			require.NoError(t, l.Close())
			if assert.Len(t, told.lines, 1) {
				assert.Contains(t, told.lines[0], "read-only file system")
			}
			_, err = session.Resume(t.Context(), p, stay.Header().ID, session.Options{})
			assert.Error(t, err)
			if kind.name != "sqlite" { // whose WAL wants a file for its readers
				assert.Len(t, stored(t, p, stay.Header().ID), 3)
			}
		})
	}
}
