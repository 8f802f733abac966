package jsonl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/internal/filelock"
)

// store is one log that is written. It implements [session.Store].
type store struct {
	location session.Location
	f        *os.File // nil before the first event

	torn  bool  // a failed append left bytes behind whole
	whole int64 // where these begin
}

func (s *store) Location() (session.Location, bool) { return s.location, s.location.Path != "" }

// Append implements [session.Store]. The event and its line feed are one write.
func (s *store) Append(e session.Event) error {
	if s.f == nil {
		f, err := create(s.location.Path)
		if err != nil {
			return err
		}
		s.f = f
	}
	if s.torn {
		if err := s.mend(); err != nil {
			return err
		}
	}
	line := append(bytes.Clone(e.JSON), '\n')
	if s.location.Kind == session.KindJSONLZstd {
		line = encoder().EncodeAll(line, nil) // so that a reader needs nothing that comes later
	}
	n, err := s.f.Write(line)
	if err == nil {
		return nil
	}
	if n > 0 {
		s.torn = true
		if info, statErr := s.f.Stat(); statErr == nil {
			s.whole = info.Size() - int64(n)
			_ = s.mend() // else before the next event
		}
	}
	return err
}

// mend removes what a failed append left. By path, as Windows truncates no file
// that was opened to append.
func (s *store) mend() error {
	if err := os.Truncate(s.location.Path, s.whole); err != nil {
		return err
	}
	s.torn = false
	return nil
}

// encoder is stateless in the use that is made of it, and larger than to be had
// for each session.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

func (s *store) Close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close() // and with it the lock
	s.f = nil
	return err
}

// open opens a log for its one writer.
func open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(f); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = fmt.Errorf("%s: %w", path, session.ErrInUse)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// create makes the file of a new session. One that holds nothing is taken over:
// its maker was killed before its first event.
func create(path string) (*os.File, error) {
	if path == "" {
		return nil, errors.New("the session has no id")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := open(path, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		err = fmt.Errorf("%s: %w", path, session.ErrExists)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// resume claims the log at path, which is that of id, and removes what follows
// its last whole event.
func resume(path, id string) (session.Resumed, error) {
	f, err := open(path, 0)
	if err != nil {
		return session.Resumed{}, err
	}
	s := &store{location: location(path), f: f}
	resumed, err := s.repair(id)
	if err != nil {
		return session.Resumed{}, errors.Join(err, s.Close())
	}
	return resumed, nil
}

func (s *store) repair(id string) (session.Resumed, error) {
	info, err := s.f.Stat()
	if err != nil {
		return session.Resumed{}, err
	}
	last, end, err := s.lastLine(info.Size())
	if err != nil {
		return session.Resumed{}, err
	}
	resumed := session.Resumed{Store: s, Dropped: info.Size() - end}
	if end == 0 {
		if resumed.Dropped > 0 && !s.begun() {
			return session.Resumed{}, fmt.Errorf("%s: %w: it does not begin with an event", s.location.Path, session.ErrCorrupt)
		}
	} else {
		// What is not ours is refused before a byte of it is changed.
		if resumed.Header, err = header(context.Background(), s.location.Path); err != nil {
			return session.Resumed{}, err
		}
		if resumed.Header.ID != id {
			return session.Resumed{}, fmt.Errorf("%s: %w: it is the log of the session %q", s.location.Path, session.ErrCorrupt, resumed.Header.ID)
		}
		event, err := session.ParseEvent(last)
		if err != nil {
			return session.Resumed{}, fmt.Errorf("%s: the last event: %w", s.location.Path, err)
		}
		resumed.LastSeq = event.Seq
	}
	if resumed.Dropped > 0 {
		s.whole = end
		if err := s.mend(); err != nil {
			return session.Resumed{}, err
		}
	}
	if end == 0 {
		return session.Resumed{}, fmt.Errorf("session %q: %w: its log holds no event", id, session.ErrNotFound)
	}
	return resumed, nil
}

// begun tells whether the file, which holds no whole event, could be the
// beginning of our first one.
func (s *store) begun() bool {
	want := []byte(`{"type":"` + session.TypeStart + `"`)
	if s.location.Kind == session.KindJSONLZstd {
		want = []byte{0x28, 0xB5, 0x2F, 0xFD} // the magic number of a frame
	}
	got := make([]byte, len(want))
	n, _ := s.f.ReadAt(got, 0)
	return bytes.HasPrefix(want, got[:n])
}

// lastLine returns the last whole line of a file of the given size and the
// offset behind it, 0 where there is none.
func (s *store) lastLine(size int64) (line []byte, end int64, err error) {
	if s.location.Kind == session.KindJSONLZstd {
		frames := newFrameReader(io.NewSectionReader(s.f, 0, size))
		for {
			next, err := frames.next()
			switch {
			case errors.Is(err, io.EOF):
				return line, frames.end, nil
			case err != nil:
				return nil, 0, fmt.Errorf("%s: %w", s.location.Path, err)
			}
			line = next
		}
	}
	feed, err := lastFeed(s.f, size)
	if err != nil || feed < 0 {
		return nil, 0, err
	}
	before, err := lastFeed(s.f, feed)
	if err != nil {
		return nil, 0, err
	}
	if feed-before > session.MaxEventBytes+1 {
		return nil, 0, fmt.Errorf("%s: the last event: %w", s.location.Path, errTooLong)
	}
	line = make([]byte, feed-before-1)
	if _, err := s.f.ReadAt(line, before+1); err != nil {
		return nil, 0, err
	}
	return line, feed + 1, nil
}

// lastFeed returns the offset of the last line feed before end, -1 where there
// is none. It reads from the end on.
func lastFeed(r io.ReaderAt, end int64) (int64, error) {
	buf := make([]byte, readAhead)
	for end > 0 {
		part := buf[:min(end, readAhead)]
		end -= int64(len(part))
		if _, err := r.ReadAt(part, end); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return end + int64(at), nil
		}
	}
	return -1, nil
}
