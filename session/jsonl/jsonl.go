// Package jsonl keeps each session's log in a file of its own:
//
//	<root>/<project>/<session>/session.jsonl
//
// The file is plain text, one JSON object a line, that can be searched and
// followed while it grows; or compressed by choice (session.jsonl.zstd, each
// event a frame of its own). Folders are private (0700), files too (0600).
package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/shellstead/shellstead/session"
)

// The names of a log.
const (
	plainName = "session.jsonl"
	zstdName  = "session.jsonl.zstd"
)

// Options are how new logs are written. Stored ones keep the form they have.
type Options struct {
	Compress bool // with zstd
}

// Persistence keeps logs below one folder. It implements [session.Persistence].
type Persistence struct {
	root string
	name string
}

var _ session.Persistence = (*Persistence)(nil)

// New returns the persistence of the folder root, which need not exist. A
// relative root is made absolute here, once.
func New(root string, opts Options) (*Persistence, error) {
	if strings.TrimSpace(root) == "" {
		return nil, errors.New("session logs: the folder's path is blank")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("session logs: %w", err)
	}
	p := &Persistence{root: root, name: plainName}
	if opts.Compress {
		p.name = zstdName
	}
	return p, nil
}

// Locate implements [session.Persistence]. Its answer is false only for a header
// without an id.
func (p *Persistence) Locate(h session.Header) (session.Location, bool) {
	if h.ID == "" {
		return session.Location{}, false
	}
	return location(filepath.Join(p.root, projectFolder(h.Cwd), sessionFolder(h.ID), p.name)), true
}

func location(path string) session.Location {
	kind := session.KindJSONL
	if filepath.Base(path) == zstdName {
		kind = session.KindJSONLZstd
	}
	return session.Location{Kind: kind, Path: path}
}

// Create implements [session.Persistence].
func (p *Persistence) Create(h session.Header) session.Store {
	at, _ := p.Locate(h)
	return &store{location: at}
}

// Resume implements [session.Persistence].
func (p *Persistence) Resume(ctx context.Context, id string) (session.Resumed, error) {
	path, err := p.find(ctx, id)
	if err != nil {
		return session.Resumed{}, err
	}
	return resume(path, id)
}

// Events implements [session.Persistence].
func (p *Persistence) Events(ctx context.Context, id string) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		path, err := p.find(ctx, id)
		if err != nil {
			yield(session.Event{}, err)
			return
		}
		for event, err := range events(ctx, path) {
			if !yield(event, err) {
				return
			}
		}
	}
}

// List implements [session.Persistence].
func (p *Persistence) List(ctx context.Context) iter.Seq2[session.Header, error] {
	return func(yield func(session.Header, error) bool) {
		projects, err := folders(p.root)
		if err != nil {
			yield(session.Header{}, err)
			return
		}
		for _, project := range projects {
			sessions, err := folders(filepath.Join(p.root, project))
			if err != nil && !yield(session.Header{}, err) {
				return
			}
			for _, name := range sessions {
				for _, path := range logs(filepath.Join(p.root, project, name)) {
					h, err := header(ctx, path)
					if errors.Is(err, session.ErrNotFound) {
						continue // it has no whole event yet
					}
					if !yield(h, err) || ctx.Err() != nil {
						return
					}
				}
			}
		}
	}
}

// Close implements [session.Persistence]. There is nothing to free.
func (p *Persistence) Close() error { return nil }

// find returns the path of the stored log of id.
func (p *Persistence) find(ctx context.Context, id string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if id == "" {
		return "", fmt.Errorf("session %q: %w", id, session.ErrNotFound)
	}
	projects, err := folders(p.root)
	if err != nil {
		return "", err
	}
	var found []string
	for _, project := range projects {
		found = append(found, logs(filepath.Join(p.root, project, sessionFolder(id)))...)
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("session %q: %w", id, session.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("session %q: %w: it is stored more than once, keep one of %s", id, session.ErrCorrupt, strings.Join(found, ", "))
}

// folders returns the names of the folders in dir, none where dir is absent.
func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("session logs: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// logs returns the paths of the logs in a session's folder: one, unless somebody
// put another beside it.
func logs(dir string) []string {
	var found []string
	for _, name := range []string{plainName, zstdName} {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			found = append(found, path)
		}
	}
	return found
}

// header reads the first event of a log.
func header(ctx context.Context, path string) (session.Header, error) {
	for event, err := range events(ctx, path) {
		if err != nil {
			return session.Header{}, err
		}
		start, err := event.Start()
		if err != nil {
			return session.Header{}, fmt.Errorf("%s: %w", path, err)
		}
		return start.Header, nil
	}
	return session.Header{}, fmt.Errorf("%s: %w", path, session.ErrNotFound)
}

// events reads a log up to its last whole event.
func events(ctx context.Context, path string) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(session.Event{}, fmt.Errorf("session logs: %w", err))
			return
		}
		defer f.Close()
		lines := newReader(f, filepath.Base(path) == zstdName)
		for n := 1; ; n++ {
			if ctx.Err() != nil {
				yield(session.Event{}, context.Cause(ctx))
				return
			}
			line, err := lines.next()
			if errors.Is(err, io.EOF) {
				return
			}
			var event session.Event
			if err == nil {
				event, err = session.ParseEvent(line)
			}
			if err != nil {
				event, err = session.Event{}, fmt.Errorf("%s: event %d: %w", path, n, err)
			}
			if !yield(event, err) || err != nil && !errors.Is(err, session.ErrCorrupt) {
				return
			}
		}
	}
}
