package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/sqlite"
)

func open(t *testing.T, root string) *sqlite.Persistence {
	t.Helper()
	p, err := sqlite.New(root)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// A log in a database has no location.
//
// Case: reference 3.3 #83
func TestNoLocation(t *testing.T) {
	root := filepath.Join(t.TempDir(), "sessions")
	p := open(t, root)
	l, err := session.New(p, session.NewHeader(""), session.Options{})
	require.NoError(t, err)
	_, ok := p.Locate(l.Header())
	assert.False(t, ok)
	_, ok = l.Location()
	assert.False(t, ok)
	assert.Empty(t, session.JSONL(l.Location()))
	assert.NoFileExists(t, root)
	require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
	_, ok = l.Location()
	assert.False(t, ok)
	require.NoError(t, l.Close())
}

// A file that is no database of ours is refused, named, and left as it is.
func TestForeignDatabases(t *testing.T) {
	execute := func(t *testing.T, path string, statements string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), statements)
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	for _, tt := range []struct {
		name    string
		make    func(t *testing.T, path string)
		corrupt bool
		want    string
	}{
		{"no database", func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte("a file of somebody else, longer than a header would be: "+path), 0o600))
		}, false, "not a database"},
		{"another program's", func(t *testing.T, path string) {
			execute(t, path, "CREATE TABLE events (x); PRAGMA user_version = 1")
		}, true, "it is no database of session logs"},
		{"a later version's", func(t *testing.T, path string) {
			execute(t, path, "CREATE TABLE x (x); PRAGMA application_id = 0x6473686c; PRAGMA user_version = 2")
		}, true, "it has version 2 of the format, this program knows version 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, "sessions.db")
			tt.make(t, path)
			p := open(t, root)
			check := func(err error) {
				t.Helper()
				assert.ErrorContains(t, err, tt.want)
				assert.ErrorContains(t, err, path)
				assert.Equal(t, tt.corrupt, errors.Is(err, session.ErrCorrupt))
			}
			h := session.NewHeader("")
			_, err := p.Resume(t.Context(), h.ID)
			check(err)
			for _, err := range p.Events(t.Context(), h.ID) {
				check(err)
			}
			n := 0
			for _, err := range p.List(t.Context()) {
				check(err)
				n++
			}
			assert.Equal(t, 1, n)
			l, err := session.New(p, h, session.Options{})
			require.NoError(t, err)
			check(l.Append(session.SandboxMode{Mode: "read-only"}))
			require.NoError(t, l.Close())
		})
	}
}

// What is damaged in the database costs the damaged events only.
func TestDamagedEvents(t *testing.T) {
	root := t.TempDir()
	p := open(t, root)
	l, err := session.New(p, session.NewHeader(""), session.Options{})
	require.NoError(t, err)
	other, err := session.New(p, session.NewHeader(""), session.Options{})
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, l.Append(session.SandboxMode{Mode: "read-only"}))
		require.NoError(t, other.Append(session.SandboxMode{Mode: "read-only"}))
	}
	require.NoError(t, l.Close())
	require.NoError(t, other.Close())
	db, err := sql.Open("sqlite", filepath.Join(root, "sessions.db"))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE events SET json = 'garbage' WHERE session = 1 AND seq = 2 OR session = 2 AND seq = 0`)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	var seqs []int64
	failed := 0
	for event, err := range p.Events(t.Context(), l.Header().ID) {
		if err != nil {
			assert.ErrorIs(t, err, session.ErrCorrupt)
			assert.ErrorContains(t, err, "event 2")
			failed++
			continue
		}
		seqs = append(seqs, event.Seq)
	}
	assert.Equal(t, []int64{0, 1, 3, 4}, seqs)
	assert.Equal(t, 1, failed)

	_, err = p.Resume(t.Context(), other.Header().ID)
	assert.ErrorIs(t, err, session.ErrCorrupt)
	_, err = session.ForkStored(t.Context(), p, other.Header().ID)
	assert.ErrorIs(t, err, session.ErrCorrupt)
	var listed []string
	failed = 0
	for h, err := range p.List(t.Context()) {
		if err != nil {
			assert.ErrorIs(t, err, session.ErrCorrupt)
			failed++
			continue
		}
		listed = append(listed, h.ID)
	}
	assert.Equal(t, []string{l.Header().ID}, listed)
	assert.Equal(t, 1, failed)
}
