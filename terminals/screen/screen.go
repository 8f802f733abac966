package screen

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/shellstead/shellstead/terminals"
)

// What a zero Config means.
const (
	defaultLines       = 10000
	defaultBytes       = 4 << 20
	defaultMaxSequence = 256 << 10
)

// maxLastLine bounds LastLine: a prompt is for people to read.
const maxLastLine = 4096

// Config bounds a [Screen]. A field that is not positive has its default.
type Config struct {
	Lines int // retained lines, the open one included; 10000
	Bytes int // retained text; 4 MiB

	// MaxSequence is how much of an unfinished control sequence is kept at
	// most. The rest of a longer one is swallowed up to its end and it has no
	// effect. 256 KiB.
	MaxSequence int

	// Columns is the width of the window. With it a carriage return in a line
	// that the terminal had to wrap goes to the beginning of the last row, as
	// it does there, so that a long line that a line editor wraps stays whole.
	// 0: lines are never wrapped.
	Columns int
}

// Position is a place in the sanitised text. Positions are ordered by place and
// keep their meaning when old text is dropped. The zero Position is the
// beginning of the session. Their distance means nothing.
type Position int64

// A Position is an offset into all text there ever was, and, for a place in an
// open line, a serial number: the line may be rewritten, and a position taken
// after that is another one though it is in the same place.
const (
	serialBits = 12
	maxSerial  = 1<<serialBits - 1
)

func position(offset, serial int64) Position { return Position(offset<<serialBits | serial) }

func (p Position) offset() int64 { return int64(p >> serialBits) }

// Screen is a sanitiser and the scrollback of what it lets through. It is not a
// terminal's screen: only the open line, the one that the next text goes to, is
// edited as a terminal would (carriage return, backspace, movement within the
// line, erasure), by cells of one code point. All other control sequences are
// removed. Its methods are not safe for concurrent use.
type Screen struct {
	config Config

	ring ring
	line line

	firstEnd                   int64 // end of the oldest line, when it lies in the ring
	droppedLines, droppedBytes int64

	state      state
	introducer byte // of the control string
	oneLine    bool // the control string ends with the line
	keepMax    int
	kept       []byte // the beginning of the unfinished sequence
	overlong   bool   // more of it came than is kept
	torn       []byte // the beginning of a code point
	scratch    [16]byte

	queries        []Query
	alternate      bool
	bracketedPaste bool
}

// New returns an empty screen. It allocates as text comes.
func New(c Config) *Screen {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&c.Lines, defaultLines)
	set(&c.Bytes, defaultBytes)
	set(&c.MaxSequence, defaultMaxSequence)
	return &Screen{config: c, ring: newRing(c.Bytes), keepMax: min(c.MaxSequence, maxKept)}
}

// Text returns a complete output as text, by the rules of [Screen]. Nothing of
// it is dropped, except that blanks which only cursor movement made cannot blow
// it up: beyond 64 KiB and four times the length of raw its beginning goes.
func Text(raw []byte) string {
	if n, _, _ := plain(raw); n == len(raw) {
		return string(raw)
	}
	// Four bytes for one is the worst that replacing makes: "<U+00AD>" for two.
	s := New(Config{Lines: math.MaxInt, Bytes: 64<<10 + 4*len(raw)})
	s.Write(raw)
	s.Flush()
	text, _ := s.Text(0, math.MaxInt)
	return text
}

// OneLine is Text on one line, for a name that a program or a person chose.
func OneLine(raw string) string {
	return strings.ReplaceAll(strings.TrimRight(Text([]byte(raw)), "\n"), "\n", " ")
}

// AltScreen says whether the alternate screen is in use (modes 47, 1047, 1049).
func (s *Screen) AltScreen() bool { return s.alternate }

// LeaveAltScreen notes that nobody is on the alternate screen any more, for
// instance because a program that was on it has ended without leaving it.
func (s *Screen) LeaveAltScreen() { s.alternate = false }

// Restart forgets all text and begins anew with text. The modes stay. Positions
// from before mean nothing any more.
func (s *Screen) Restart(text string) {
	fresh := New(s.config)
	fresh.alternate, fresh.bracketedPaste = s.alternate, s.bracketedPaste
	*s = *fresh
	s.Write([]byte(text))
}

// BracketedPaste says whether the program asked for marks around pasted text
// (mode 2004).
func (s *Screen) BracketedPaste() bool { return s.bracketedPaste }

// Dropped returns how much the bounds took from the beginning: whole lines, and
// bytes in all.
func (s *Screen) Dropped() (lines, bytes int64) { return s.droppedLines, s.droppedBytes }

// End returns the position behind all text so far: the text since it is what
// comes from now on, including what replaces text of the open line.
func (s *Screen) End() Position {
	return s.line.pin(s.end())
}

func (s *Screen) end() int64 { return s.ring.end + int64(len(s.line.rest())) }

// Text returns the text since from, or its last maxBytes bytes, cut between code
// points. Truncated says that this is not all: it was cut, or the bounds of the
// scrollback took some. When the open line was rewritten from a column before
// from, the text begins at that column.
func (s *Screen) Text(from Position, maxBytes int) (text string, truncated bool) {
	at := s.line.since(from)
	if at < s.ring.start {
		at, truncated = s.ring.start, true
	}
	text, cut := s.slice(at, s.end(), maxBytes)
	return text, truncated || cut
}

// slice returns the text between two offsets, at most its last maxBytes bytes.
// Offsets beyond the ring are in what is right of the cursor.
func (s *Screen) slice(from, to int64, maxBytes int) (text string, cut bool) {
	if to-from > int64(maxBytes) {
		from, cut = to-int64(max(maxBytes, 0)), true
	}
	if from >= to {
		return "", cut
	}
	var b strings.Builder
	b.Grow(int(to - from))
	write := func(p []byte) {
		for b.Len() == 0 && len(p) > 0 && !utf8.RuneStart(p[0]) {
			p = p[1:]
		}
		b.Write(p)
	}
	s.ring.spans(from, min(to, s.ring.end), write)
	if to > s.ring.end {
		rest := s.line.rest()
		write(rest[max(from-s.ring.end, 0) : to-s.ring.end])
	}
	return b.String(), cut
}

// Tail returns the text from from to the cursor, at most its first n bytes. It
// is for comparing with a text of known length, and so does not show what is
// left of an overwritten line on the right of the cursor.
func (s *Screen) Tail(from Position, n int) string {
	at := max(s.line.since(from), s.ring.start)
	to := min(s.ring.end, at+int64(n))
	if at >= to {
		return ""
	}
	text, _ := s.slice(at, to, n)
	return text
}

// LastLine returns the open line, which is the prompt of a program that waits
// for an answer, or its last 4096 bytes.
func (s *Screen) LastLine() string {
	text, _ := s.slice(s.line.start, s.end(), maxLastLine)
	return text
}

// Page returns count lines, the newest of them offset lines before the newest
// retained one, in chronological order, joined by line feeds without one at the
// end. The open line is a line as soon as there is text in it. Of a page that
// is larger than maxBytes the oldest lines are left out, so that a next page
// from LineEnd on loses nothing; of a single line that is larger its end is
// kept. LineBegin is offset, LineEnd is LineBegin plus the lines returned.
// Truncated says that the page was cut or that anything was ever dropped from
// the scrollback. A page beyond the oldest line is empty. A negative offset or
// a count below 1 is an [terminals.InvalidArgument].
func (s *Screen) Page(offset, count, maxBytes int) (terminals.Page, error) {
	if offset < 0 {
		return terminals.Page{}, &terminals.Error{
			Code:    terminals.InvalidArgument,
			Message: "offset must be 0 or more: it counts lines back from the newest",
		}
	}
	if count < 1 {
		return terminals.Page{}, &terminals.Error{
			Code:    terminals.InvalidArgument,
			Message: "count must be 1 or more: it is the number of lines wanted",
		}
	}
	total, end := s.lines(), s.end()
	page := terminals.Page{
		TotalLines: total,
		LineBegin:  offset,
		LineEnd:    offset,
		Truncated:  s.droppedBytes > 0,
	}
	if offset >= total {
		return page, nil
	}
	last := total - offset // the line behind the page
	count = min(count, last)
	if last <= s.ring.newlines {
		end = s.ring.lineStart(last) - 1
	}
	from := s.ring.lineStart(last - count)
	text, cut := s.slice(from, end, maxBytes)
	if cut {
		page.Truncated = true
		if i := strings.IndexByte(text, '\n'); i >= 0 && !s.beginsLine(end-int64(len(text))) {
			text = text[i+1:]
		}
		count = strings.Count(text, "\n") + 1
	}
	page.Text = text
	page.LineEnd = offset + count
	return page, nil
}

// beginsLine says whether a line begins at an offset behind the first retained
// line's beginning.
func (s *Screen) beginsLine(at int64) bool {
	return at <= s.ring.end && s.ring.at(at-1) == '\n'
}
