package jsonl

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/shellstead/shellstead/session"
)

// reader reads a log line by line. next returns a line of its own without the
// line feed; io.EOF after the last whole one; an error that wraps
// session.ErrCorrupt for one that cannot be read, after which it goes on, or
// ends where it cannot know how.
type reader interface{ next() ([]byte, error) }

// readAhead is how much a reader asks the system for at a time.
const readAhead = 64 << 10

var errTooLong = fmt.Errorf("%w: it is longer than %d bytes", session.ErrCorrupt, session.MaxEventBytes)

func newReader(r io.Reader, compressed bool) reader {
	if compressed {
		return newFrameReader(r)
	}
	return &lineReader{bufio.NewReaderSize(r, readAhead), session.MaxEventBytes}
}

// lineReader reads plain text.
type lineReader struct {
	r   *bufio.Reader
	max int64 // bytes of a line
}

func (l *lineReader) next() ([]byte, error) {
	var line []byte
	var size int64
	for {
		part, err := l.r.ReadSlice('\n')
		size += int64(len(part))
		if size <= l.max+1 {
			line = append(line, part...)
		} else {
			line = nil // it is only skipped from here on
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err // a line without its end is none
		}
		if size > l.max+1 {
			return nil, errTooLong
		}
		return line[:len(line)-1], nil
	}
}

// frameReader reads zstd frames (RFC 8878), each of which holds one line.
type frameReader struct {
	r      *bufio.Reader
	end    int64 // the offset behind the last whole frame
	failed bool
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, readAhead)}
}

// decoder is stateless in the use that is made of it.
var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(session.MaxEventBytes+1))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
})

func (f *frameReader) next() ([]byte, error) {
	if f.failed {
		return nil, io.EOF
	}
	frame, err := f.frame()
	if err != nil {
		if !errors.Is(err, session.ErrCorrupt) {
			return nil, err
		}
		f.failed = true // where the next frame begins is unknown
		return nil, err
	}
	f.end += int64(len(frame))
	line, err := decoder().DecodeAll(frame, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrCorrupt, err)
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// frame reads one whole frame without decompressing it.
func (f *frameReader) frame() ([]byte, error) {
	const (
		blockHeader = 3 // last-block bit, two bits of type, size
		checksum    = 4
		rle         = 1 // a block of one byte, which is repeated
	)
	start, err := f.r.Peek(zstd.HeaderMaxSize)
	if len(start) == 0 {
		return nil, eof(err)
	}
	var header zstd.Header
	if err := header.Decode(start); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("%w: %w", session.ErrCorrupt, err)
	}
	if header.Skippable {
		return nil, fmt.Errorf("%w: it is a skippable frame", session.ErrCorrupt)
	}
	frame, err := f.take(nil, header.HeaderSize)
	for last := false; err == nil && !last; {
		if frame, err = f.take(frame, blockHeader); err != nil {
			break
		}
		block := binary.LittleEndian.Uint32(append(bytes.Clone(frame[len(frame)-blockHeader:]), 0))
		last = block&1 == 1
		size := int(block >> 3)
		if block>>1&3 == rle {
			size = 1
		}
		frame, err = f.take(frame, size)
	}
	if err == nil && header.HasCheckSum {
		frame, err = f.take(frame, checksum)
	}
	return frame, err
}

// take appends the next n bytes to frame.
func (f *frameReader) take(frame []byte, n int) ([]byte, error) {
	if len(frame)+n > session.MaxEventBytes {
		return nil, errTooLong
	}
	at := len(frame)
	frame = append(frame, make([]byte, n)...)
	_, err := io.ReadFull(f.r, frame[at:])
	return frame, eof(err)
}

// eof makes the end of the file inside a frame the end of the frames.
func eof(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
