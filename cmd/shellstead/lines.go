package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one line of input. A command of many megabytes is legitimate,
// a line without end is not.
const maxLine = 64 << 20

var errLineTooLong = fmt.Errorf("the line is longer than %d MiB", maxLine>>20)

// lineReader reads lines of bounded length.
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: maxLine}
}

// next returns the next line without its end; ended says that it had one. The
// line is the caller's. A line over the limit is skipped to its end and
// reported as errLineTooLong; reading goes on after it. At the end of the input
// next returns io.EOF.
func (l *lineReader) next() (line []byte, ended bool, err error) {
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.limit+1 {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !tooLong):
			return nil, false, err
		case tooLong:
			return nil, err == nil, errLineTooLong
		}
		trimmed := bytes.TrimSuffix(line, []byte("\n"))
		return bytes.TrimSuffix(trimmed, []byte("\r")), err == nil, nil
	}
}
