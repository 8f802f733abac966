package persistent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// spillBuffer gathers the small reads of a terminal into writes of a size at
// which the system call no longer counts.
const spillBuffer = 64 << 10

// spill writes one output to a file that is made when the first byte comes. A
// failure ends it and is reported by close; the output itself goes on.
type spill struct {
	create func() (spillFile, error)
	limit  int64

	file   spillFile
	buf    *bufio.Writer
	size   int64
	capped bool
	err    error
}

// spillFile is what spill needs of an *os.File.
type spillFile interface {
	io.WriteCloser
	Name() string
}

// spilled says what became of an output's file.
type spilled struct {
	path   string // empty when there is none
	size   int64
	capped bool  // the file ends at the limit
	err    error // why there is no file although there should be one
}

func (s *spill) write(p []byte) {
	if s.err != nil || s.capped || len(p) == 0 {
		return
	}
	if s.file == nil {
		file, err := s.create()
		if err != nil {
			s.err = err
			return
		}
		s.file, s.buf = file, bufio.NewWriterSize(file, spillBuffer)
	}
	if room := s.limit - s.size; int64(len(p)) > room {
		p, s.capped = p[:room], true
	}
	s.size += int64(len(p))
	if _, err := s.buf.Write(p); err != nil {
		s.abandon(err)
	}
}

// abandon removes a file that cannot be completed: half an output under the
// name of the whole one misleads.
func (s *spill) abandon(err error) {
	s.err = reason(err)
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
	s.file = nil
}

func (s *spill) close() spilled {
	if s.file != nil {
		err := s.buf.Flush()
		if err == nil {
			err = s.file.Close()
		}
		if err != nil {
			s.abandon(err)
		}
	}
	if s.file == nil {
		return spilled{err: s.err}
	}
	return spilled{path: s.file.Name(), size: s.size, capped: s.capped}
}

// spillFolder is one owner's private folder for spill files. It is made when
// the first file is.
type spillFolder struct {
	parent string // empty: the system's folder for temporary files

	mu      sync.Mutex
	path    string
	files   int
	removed bool
}

// create makes the next file, readable and writable by this user alone.
func (f *spillFolder) create() (spillFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.next()
	if err != nil {
		parent := f.parent
		if parent == "" {
			parent = os.TempDir()
		}
		return nil, fmt.Errorf("%s: %w", parent, reason(err))
	}
	return file, nil
}

func (f *spillFolder) next() (*os.File, error) {
	if f.removed {
		return nil, errors.New("its folder was removed with its owner")
	}
	// A cleaner of temporary files may have taken an old folder away.
	if f.path != "" {
		file, err := f.file()
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	if f.parent != "" {
		if err := os.MkdirAll(f.parent, 0o700); err != nil {
			return nil, err
		}
	}
	path, err := os.MkdirTemp(f.parent, "shellstead-") // 0700
	if err != nil {
		return nil, err
	}
	f.path = path
	return f.file()
}

func (f *spillFolder) file() (*os.File, error) {
	f.files++
	name := filepath.Join(f.path, fmt.Sprintf("output-%d.txt", f.files))
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// remove removes the folder and everything in it.
func (f *spillFolder) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = true
	if f.path == "" {
		return nil
	}
	return os.RemoveAll(f.path)
}

// reason is err without the name of a file that nobody knows.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
