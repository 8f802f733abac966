package screen

import "bytes"

// Splitter finds private markers in the raw stream, before any terminal
// parsing. A marker is
//
//	prefix payload end
//
// with a payload of at most max bytes, none of them a control byte, up to the
// first end. Whatever else begins like a marker is text. Because it works on
// raw bytes, a program cannot hide a marker by leaving an escape sequence or a
// code point unfinished before it.
type Splitter struct {
	prefix, end []byte
	max         int

	held  []byte // an undecided beginning of a marker, from its first byte
	clear int    // so many bytes after held's prefix were seen to end no payload
}

// NewSplitter returns a Splitter for one shape of marker. With an empty prefix
// or end there are no markers and all is text. It keeps prefix and end.
func NewSplitter(prefix, end []byte, max int) *Splitter {
	return &Splitter{prefix: prefix, end: end, max: max}
}

// Write takes the next bytes of the stream and calls text and mark in stream
// order. Their arguments are valid during the call only and must not be
// changed; text comes in any number of pieces, none of them empty.
func (s *Splitter) Write(p []byte, text func([]byte), mark func(payload []byte)) {
	if len(s.prefix) == 0 || len(s.end) == 0 {
		if len(p) > 0 {
			text(p)
		}
		return
	}
	for len(p) > 0 {
		if len(s.held) == 0 {
			n := s.scan(p, text, mark)
			s.held = append(s.held, p[n:]...)
			return
		}
		// Only what can decide the held beginning goes behind it: held stays as
		// small as one marker, and each byte is copied once.
		n := min(len(p), len(s.prefix)+s.max+len(s.end)-len(s.held))
		s.held = append(s.held, p[:n]...)
		p = p[n:]
		n = s.scan(s.held, text, mark)
		s.held = append(s.held[:0], s.held[n:]...)
	}
}

// Held returns how many bytes are held back because they may become a marker.
func (s *Splitter) Held() int { return len(s.held) }

// Flush gives out what is held back as text. It is for the end of the stream.
func (s *Splitter) Flush(text func([]byte)) {
	if len(s.held) > 0 {
		text(s.held)
	}
	s.held, s.clear = s.held[:0], 0
}

// scan hands out b up to the beginning of a marker that is not decided yet and
// returns how many bytes that was.
func (s *Splitter) scan(b []byte, text, mark func([]byte)) int {
	done := 0                       // b[:done] was handed out
	next := 0                       // the next marker begins here or later
	stop := len(s.prefix) + s.clear // no payload ends before this byte of b
	handOut := func(upTo int) {
		if upTo > done {
			text(b[done:upTo])
		}
		done = upTo
	}
	for {
		begin, whole := s.find(b, next)
		if !whole {
			handOut(begin)
			s.clear = 0
			return begin
		}
		first := begin + len(s.prefix)
		n, found := s.payload(b[first:], max(0, stop-first))
		stop = first + n
		switch found {
		case undecided:
			handOut(begin)
			s.clear = n
			return begin
		case accepted:
			handOut(begin)
			mark(b[first:stop])
			done = stop + len(s.end)
			next = done
		case tooLong:
			next = begin + 1
		case control:
			// No payload may hold this byte, but the next prefix may.
			next = max(begin, stop-len(s.prefix)) + 1
		}
	}
}

// find returns the first place at or after next where a marker begins or, not
// whole, where the end of b may be the beginning of one.
func (s *Splitter) find(b []byte, next int) (begin int, whole bool) {
	if i := bytes.Index(b[next:], s.prefix); i >= 0 {
		return next + i, true
	}
	for i := max(next, len(b)-len(s.prefix)+1); i < len(b); i++ {
		if bytes.HasPrefix(s.prefix, b[i:]) {
			return i, false
		}
	}
	return len(b), false
}

type verdict int

const (
	undecided verdict = iota // more bytes are needed
	accepted
	tooLong
	control // the payload would hold a control byte
)

// payload looks for the end of a payload at the beginning of b, of which the
// first n bytes are known to hold none, and returns where the search stopped.
func (s *Splitter) payload(b []byte, n int) (int, verdict) {
	for ; n <= s.max; n++ {
		rest := b[n:]
		if len(rest) < len(s.end) {
			if bytes.HasPrefix(s.end, rest) {
				return n, undecided
			}
		} else if rest[0] == s.end[0] && bytes.HasPrefix(rest, s.end) {
			return n, accepted
		}
		if rest[0] < 0x20 || rest[0] == 0x7f {
			return n, control
		}
	}
	return n, tooLong
}
