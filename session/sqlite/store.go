package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/internal/filelock"
)

// store is one session that is written. It implements [session.Store].
type store struct {
	p     *Persistence
	id    string
	claim *os.File  // nil before the first event
	key   int64     // 0 before the first event
	put   *sql.Stmt // nil before the first event of this store
}

func (s *store) Location() (session.Location, bool) { return session.Location{}, false }

// Append implements [session.Store].
func (s *store) Append(e session.Event) error {
	ctx := context.Background() // an append is bounded by busyTimeout
	db, err := s.p.made(ctx)
	if err != nil {
		return err
	}
	if s.claim == nil {
		if s.claim, err = claim(s.p.root, s.id); err != nil {
			return err
		}
	}
	if s.key == 0 {
		if err := s.begin(ctx, db, e); err != nil {
			return errors.Join(err, s.Close()) // what it did not begin it does not hold
		}
		return nil
	}
	if s.put == nil {
		if s.put, err = db.PrepareContext(ctx, insert); err != nil {
			return s.p.failure(err)
		}
	}
	if _, err := s.put.ExecContext(ctx, s.key, e.Seq, e.Type, string(e.JSON)); err != nil {
		return s.p.failure(err)
	}
	return nil
}

const insert = `INSERT INTO events (session, seq, type, json) VALUES (?, ?, ?, ?)`

// begin stores the session together with its first event: no session is without
// one.
func (s *store) begin(ctx context.Context, db *sql.DB, e session.Event) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.p.failure(err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	var exists bool
	if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?)`, []byte(s.id)).Scan(&exists); err != nil {
		return s.p.failure(err)
	}
	if exists {
		return session.ErrExists
	}
	added, err := tx.ExecContext(ctx, `INSERT INTO sessions (id) VALUES (?)`, []byte(s.id))
	if err != nil {
		return s.p.failure(err)
	}
	key, err := added.LastInsertId()
	if err != nil {
		return s.p.failure(err)
	}
	if _, err := tx.ExecContext(ctx, insert, key, e.Seq, e.Type, string(e.JSON)); err != nil {
		return s.p.failure(err)
	}
	if err := tx.Commit(); err != nil {
		return s.p.failure(err)
	}
	s.key = key
	return nil
}

func (s *store) Close() error {
	var err error
	if s.put != nil {
		err = s.put.Close()
	}
	if s.claim != nil {
		err = errors.Join(err, s.claim.Close()) // and with it the lock
	}
	s.put, s.claim = nil, nil
	return err
}

// claim takes the lock that makes its holder the one writer of the session id.
// A database knows nothing that ends with a process, so a file stands for each
// session that was written. It stays, empty: whoever removed it could take the
// ground from under another's claim.
func claim(root, id string) (*os.File, error) {
	dir := filepath.Join(root, "writers")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(id))
	f, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(hash[:])), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(f); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = fmt.Errorf("session %q: %w", id, session.ErrInUse)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
