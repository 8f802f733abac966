// Package sqlite keeps the logs of all sessions in one SQLite database:
//
//	<root>/sessions.db
//
// The database is in WAL mode, so that sessions are read while they are written.
// Folders are private (0700), files too (0600). A log has no location of its
// own.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/shellstead/shellstead/session"
)

const (
	fileName = "sessions.db"

	// busyTimeout is how long an append waits for another session's. Each of
	// these takes well under a millisecond; a check-point a few.
	busyTimeout = 5 * time.Second

	// appID marks the file as ours: the bytes of "dshl".
	appID = 0x6473686c
)

// schema is version session.Version of the tables.
const schema = `
CREATE TABLE sessions (
	key INTEGER PRIMARY KEY,
	id  BLOB NOT NULL UNIQUE
) STRICT;
CREATE TABLE events (
	session INTEGER NOT NULL REFERENCES sessions,
	seq     INTEGER NOT NULL,
	type    TEXT NOT NULL,
	json    TEXT NOT NULL,
	PRIMARY KEY (session, seq)
) STRICT;
`

// Persistence keeps logs in one database. It implements [session.Persistence].
type Persistence struct {
	root string

	mu sync.Mutex
	db *sql.DB // nil before its first use
}

var _ session.Persistence = (*Persistence)(nil)

// New returns the persistence of the folder root, which need not exist. A
// relative root is made absolute here, once. Close frees it.
func New(root string) (*Persistence, error) {
	if strings.TrimSpace(root) == "" {
		return nil, errors.New("session logs: the folder's path is blank")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("session logs: %w", err)
	}
	return &Persistence{root: root}, nil
}

// Locate implements [session.Persistence]: no log has a file of its own.
func (p *Persistence) Locate(session.Header) (session.Location, bool) {
	return session.Location{}, false
}

// Create implements [session.Persistence].
func (p *Persistence) Create(h session.Header) session.Store { return &store{p: p, id: h.ID} }

// Resume implements [session.Persistence].
func (p *Persistence) Resume(ctx context.Context, id string) (session.Resumed, error) {
	db, err := p.existing(ctx)
	if err != nil {
		return session.Resumed{}, notFound(id, err)
	}
	s := &store{p: p, id: id}
	err = db.QueryRowContext(ctx, `SELECT key FROM sessions WHERE id = ?`, []byte(id)).Scan(&s.key)
	if err != nil {
		return session.Resumed{}, notFound(id, err)
	}
	if s.claim, err = claim(p.root, id); err != nil {
		return session.Resumed{}, err
	}
	resumed := session.Resumed{Store: s}
	resumed.Header, err = p.header(ctx, db, s.key)
	if err == nil {
		err = db.QueryRowContext(ctx, `SELECT max(seq) FROM events WHERE session = ?`, s.key).Scan(&resumed.LastSeq)
	}
	if err != nil {
		return session.Resumed{}, errors.Join(err, s.Close())
	}
	return resumed, nil
}

// Events implements [session.Persistence].
func (p *Persistence) Events(ctx context.Context, id string) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		db, err := p.existing(ctx)
		var key int64
		if err == nil {
			err = db.QueryRowContext(ctx, `SELECT key FROM sessions WHERE id = ?`, []byte(id)).Scan(&key)
		}
		if err != nil {
			yield(session.Event{}, notFound(id, err))
			return
		}
		rows, err := db.QueryContext(ctx, `SELECT seq, json FROM events WHERE session = ? ORDER BY seq`, key)
		if err != nil {
			yield(session.Event{}, p.failure(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			if ctx.Err() != nil {
				yield(session.Event{}, context.Cause(ctx))
				return
			}
			var seq int64
			var text []byte
			if err := rows.Scan(&seq, &text); err != nil {
				yield(session.Event{}, p.failure(err))
				return
			}
			event, err := session.ParseEvent(text)
			if err != nil {
				event, err = session.Event{}, fmt.Errorf("%s: session %q: event %d: %w", p.path(), id, seq, err)
			}
			if !yield(event, err) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(session.Event{}, p.failure(err))
		}
	}
}

// List implements [session.Persistence].
func (p *Persistence) List(ctx context.Context) iter.Seq2[session.Header, error] {
	return func(yield func(session.Header, error) bool) {
		db, err := p.existing(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		var keys []int64
		if err == nil {
			keys, err = allKeys(ctx, db)
		}
		if err != nil {
			yield(session.Header{}, p.failure(err))
			return
		}
		for _, key := range keys {
			h, err := p.header(ctx, db, key)
			if !yield(h, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

// allKeys returns the keys of all sessions, the oldest first. They are read
// before they are used: whoever lists may stop to write.
func allKeys(ctx context.Context, db *sql.DB) ([]int64, error) {
	rows, err := db.QueryContext(ctx, `SELECT key FROM sessions ORDER BY key`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var keys []int64
	for rows.Next() {
		var key int64
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}

// header reads the first event of a session.
func (p *Persistence) header(ctx context.Context, db *sql.DB, key int64) (session.Header, error) {
	var text []byte
	err := db.QueryRowContext(ctx, `SELECT json FROM events WHERE session = ? ORDER BY seq LIMIT 1`, key).Scan(&text)
	if err != nil {
		return session.Header{}, p.failure(err)
	}
	event, err := session.ParseEvent(text)
	if err != nil {
		return session.Header{}, fmt.Errorf("%s: session %d: %w", p.path(), key, err)
	}
	start, err := event.Start()
	if err != nil {
		return session.Header{}, fmt.Errorf("%s: session %d: %w", p.path(), key, err)
	}
	return start.Header, nil
}

// Close implements [session.Persistence].
func (p *Persistence) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db == nil {
		return nil
	}
	err := p.db.Close()
	p.db = nil
	return err
}

func (p *Persistence) path() string { return filepath.Join(p.root, fileName) }

func (p *Persistence) failure(err error) error { return fmt.Errorf("%s: %w", p.path(), err) }

// notFound gives the two ways in which a session can be absent one error.
func notFound(id string, err error) error {
	if errors.Is(err, sql.ErrNoRows) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("session %q: %w", id, session.ErrNotFound)
	}
	return err
}

// existing opens the database where there is one; fs.ErrNotExist otherwise.
func (p *Persistence) existing(ctx context.Context) (*sql.DB, error) {
	return p.open(ctx, func() error {
		_, err := os.Stat(p.path())
		return err
	})
}

// made opens the database and makes it where there is none.
func (p *Persistence) made(ctx context.Context) (*sql.DB, error) {
	return p.open(ctx, func() error {
		if err := os.MkdirAll(p.root, 0o700); err != nil {
			return err
		}
		// SQLite gives its other files the mode of this one.
		f, err := os.OpenFile(p.path(), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

// open opens the database once, after before has succeeded.
func (p *Persistence) open(ctx context.Context, before func() error) (*sql.DB, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db != nil {
		return p.db, nil
	}
	if err := before(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", p.uri())
	if err != nil {
		return nil, p.failure(err)
	}
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(p.failure(err), db.Close())
	}
	p.db = db
	return db, nil
}

// uri names the database and how each connection uses it. As a URI no character
// of the path means anything else. NORMAL keeps what was committed when a
// process is killed.
func (p *Persistence) uri() string {
	path := filepath.ToSlash(p.path())
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // before a drive
	}
	return (&url.URL{Scheme: "file", Opaque: "//" + (&url.URL{Path: path}).EscapedPath(), RawQuery: url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
			"journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(ON)",
		},
		"_txlock": {"immediate"},
	}.Encode()}).String()
}

// prepare makes the tables of a new database and refuses one that is not ours.
func prepare(ctx context.Context, db *sql.DB) error {
	made, err := prepared(ctx, db)
	if err != nil || made {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()                   // after Commit it does nothing
	if made, err = prepared(ctx, tx); err != nil || made { // by another process, meanwhile
		return err
	}
	create := schema + fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", appID, session.Version)
	if _, err := tx.ExecContext(ctx, create); err != nil {
		return err
	}
	return tx.Commit()
}

// prepared tells whether the database holds our tables; it fails when it holds
// others.
func prepared(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (bool, error) {
	var id, version, tables int
	const query = `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, pragma_user_version`
	if err := db.QueryRowContext(ctx, query).Scan(&id, &version, &tables); err != nil {
		return false, err
	}
	switch {
	case tables == 0:
		return false, nil
	case id != appID:
		return false, fmt.Errorf("%w: it is no database of session logs", session.ErrCorrupt)
	case version != session.Version:
		return false, fmt.Errorf("%w: it has version %d of the format, this program knows version %d", session.ErrCorrupt, version, session.Version)
	}
	return true, nil
}
