package screen

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// What one control sequence may do is bounded, so that neither the work for a
// hostile stream nor the text it makes grows out of proportion to its length.
const (
	maxMove  = 1024 // cells moved over or erased; wider than real windows
	maxBlank = 256  // blank cells added; as wide as windows with columns of text
)

var blanks = bytes.Repeat([]byte{' '}, maxMove)

// maxPins is how many rewritten positions are remembered. A session has few
// positions in use at a time: its start, a send, a prompt.
const maxPins = 16

// line is the open line: the one that the next text goes to. What is left of
// the cursor is the end of the ring, from start on, so that plain output is
// copied once; only after the cursor moved back is there anything in right.
// A code point is one cell.
type line struct {
	start int64  // where the line begins in the ring
	home  int64  // where a program believes row 1, column 1 to be; a place in the text
	right []byte // its tail, from rightAt on, is what the cursor has on its right
	// rightAt leaves room in front: moving the cursor left costs what it moves.
	rightAt int
	pad     int  // blank cells between the text and the cursor; none unless right is empty
	cr      bool // a carriage return that \n may still follow

	columnsTo int64 // columns counts the cells up to this offset
	columns   int

	pins   []pin
	serial int64 // of the newest pin
}

// pin remembers from where on the line of a position was rewritten afterwards.
type pin struct {
	position Position
	low      int64
}

func (l *line) rest() []byte { return l.right[l.rightAt:] }

// appending says that text simply goes to the end of the ring.
func (l *line) appending() bool {
	return !l.cr && l.pad == 0 && l.rightAt == len(l.right)
}

// begin makes at the beginning of a new open line.
func (l *line) begin(at int64) {
	l.start, l.home = at, at
	l.pad, l.cr = 0, false
	if len(l.right) > maxMove {
		l.right = nil // a short tail's memory is worth keeping
	}
	l.rightAt = len(l.right)
	l.columnsTo, l.columns = at, 0
}

// text adds plain text, of which newlines line feeds end at lastNewline. The
// line must be appending.
func (s *Screen) text(p []byte, newlines, lastNewline int) {
	for len(p) > s.ring.size {
		piece := p[:s.ring.size]
		n := bytes.Count(piece, newline)
		s.ring.append(piece, n)
		if n > 0 {
			s.line.begin(s.ring.end - int64(len(piece)-1-bytes.LastIndexByte(piece, '\n')))
		}
		s.trim()
		p, newlines, lastNewline = p[len(piece):], newlines-n, lastNewline-len(piece)
	}
	s.ring.append(p, newlines)
	if newlines > 0 {
		s.line.begin(s.ring.end - int64(len(p)-1-lastNewline))
	}
	s.trim()
}

// put writes text without line feeds at the cursor.
func (s *Screen) put(p []byte) {
	l := &s.line
	if l.appending() {
		s.text(p, 0, -1)
		return
	}
	s.resolveReturn()
	if l.pad > 0 {
		s.text(blanks[:l.pad], 0, -1)
		l.pad = 0
	}
	s.touch()
	if s.size()+len(p) <= s.config.Bytes {
		s.dropRight(utf8.RuneCount(p))
		s.text(p, 0, -1)
		return
	}
	// Near the bound what is dropped must not depend on how many cells are
	// written at a time.
	for len(p) > 0 {
		n, _ := cellsOf(p, 1)
		s.dropRight(1)
		s.text(p[:n], 0, -1)
		p = p[n:]
	}
}

// newLine ends the open line wherever the cursor is in it.
func (s *Screen) newLine() {
	l := &s.line
	for rest := l.rest(); len(rest) > 0; rest = l.rest() {
		n := min(len(rest), s.ring.size)
		l.rightAt += n
		s.ring.append(rest[:n], 0)
	}
	s.ring.append(newline, 1)
	l.begin(s.ring.end)
	s.trim()
}

// endLine ends the open line if there is text in it.
func (s *Screen) endLine() {
	if s.end() > s.line.start {
		s.newLine()
	}
}

// touch notes that the line changes from the cursor on.
func (s *Screen) touch() {
	if s.ring.end < s.line.home {
		s.line.home = s.line.start
	}
	for i := range s.line.pins {
		p := &s.line.pins[i]
		p.low = min(p.low, s.ring.end)
	}
}

// pin returns the position at an offset which is the end of the line, and
// remembers it when the line may still be rewritten before it.
func (l *line) pin(at int64) Position {
	if at == l.start {
		return position(at, 0)
	}
	if n := len(l.pins); n > 0 && l.pins[n-1].low == at && l.pins[n-1].position.offset() == at {
		return l.pins[n-1].position
	}
	// A position in an ended line that was not rewritten needs no memory.
	l.pins = slices.DeleteFunc(l.pins, func(p pin) bool {
		return p.low == p.position.offset() && p.low < l.start
	})
	if len(l.pins) == maxPins {
		l.pins = slices.Delete(l.pins, 0, 1)
	}
	l.serial = l.serial%maxSerial + 1
	p := position(at, l.serial)
	l.pins = append(l.pins, pin{p, at})
	return p
}

// since returns where the text since a position begins by now.
func (l *line) since(from Position) int64 {
	for _, p := range l.pins {
		if p.position == from {
			return p.low
		}
	}
	return from.offset()
}

// resolveReturn carries out a carriage return that no line feed followed.
func (s *Screen) resolveReturn() {
	l := &s.line
	if !l.cr {
		return
	}
	l.cr = false
	if s.config.Columns <= 0 {
		l.pad = 0
		s.moveTo(l.start)
		return
	}
	// On a line that is wider than the window a carriage return goes to the
	// beginning of the last row. A full row is still the last one: terminals
	// wrap when the next character comes.
	if column := s.column() + l.pad; column > 0 {
		s.left((column-1)%s.config.Columns + 1)
	}
}

// column counts the cells on the left of the cursor.
func (s *Screen) column() int {
	l := &s.line
	s.ring.spans(l.columnsTo, s.ring.end, func(p []byte) {
		for _, c := range p {
			switch {
			case c == '\t':
				l.columns = (l.columns | 7) + 1
			case utf8.RuneStart(c):
				l.columns++
			}
		}
	})
	l.columnsTo = s.ring.end
	return l.columns
}

// moveTo moves the cursor left to an offset of the ring.
func (s *Screen) moveTo(at int64) {
	n := int(s.ring.end - at)
	if n <= 0 {
		return
	}
	l := &s.line
	column := 0
	if s.config.Columns > 0 {
		column = s.column()
	}
	if l.rightAt < n {
		rest := l.rest()
		size := n + len(rest)
		grown := make([]byte, size+size/4)
		l.rightAt = len(grown) - len(rest)
		copy(grown[l.rightAt:], rest)
		l.right = grown
	}
	l.rightAt -= n
	moved := s.ring.appendTo(l.right[:l.rightAt], at, s.ring.end)[l.rightAt:]
	s.ring.cut(at)
	if s.config.Columns > 0 {
		l.columnsTo, l.columns = at, max(0, column-utf8.RuneCount(moved))
	}
}

// left moves the cursor n cells to the left.
func (s *Screen) left(n int) {
	l := &s.line
	blanks := min(n, l.pad)
	l.pad -= blanks
	at := s.ring.end
	for n -= blanks; n > 0 && at > l.start; n-- {
		at--
		for at > l.start && !utf8.RuneStart(s.ring.at(at)) {
			at--
		}
	}
	s.moveTo(at)
}

// rightwards moves the cursor n cells to the right, over text and then over
// blanks.
func (s *Screen) rightwards(n int) {
	s.resolveReturn()
	l := &s.line
	rest := l.rest()
	size, cells := cellsOf(rest, n)
	if size > 0 {
		l.rightAt += size
		s.text(rest[:size], 0, -1)
	}
	if l.rightAt == len(l.right) {
		l.pad = min(l.pad+n-cells, maxBlank)
	}
}

// dropRight takes up to n cells away from the right of the cursor.
func (s *Screen) dropRight(n int) {
	size, _ := cellsOf(s.line.rest(), n)
	s.line.rightAt += size
}

// deleteRight deletes n cells at the cursor; what follows moves up.
func (s *Screen) deleteRight(n int) {
	s.resolveReturn()
	if len(s.line.rest()) > 0 {
		s.touch()
		s.dropRight(n)
	}
}

// eraseCells blanks n cells at the cursor.
func (s *Screen) eraseCells(n int) {
	s.resolveReturn()
	size, cells := cellsOf(s.line.rest(), n)
	if size == 0 {
		return
	}
	s.touch()
	l := &s.line
	l.rightAt += size - cells // a blank is no wider than what it replaces
	copy(l.rest(), blanks[:cells])
}

// insertBlanks puts n blank cells on the right of the cursor.
func (s *Screen) insertBlanks(n int) {
	n = min(n, maxBlank)
	if len(s.line.rest()) == 0 || s.size()+n > s.config.Bytes {
		return
	}
	s.touch()
	s.ring.append(blanks[:n], 0)
	s.moveTo(s.ring.end - int64(n))
}

// backspace erases the last cell of the line. Inside a line that is being
// rewritten it moves, so that what is on the right keeps its place.
func (s *Screen) backspace() {
	l := &s.line
	switch {
	case l.cr:
	case l.pad > 0:
		l.pad--
	case len(l.rest()) > 0:
		s.left(1)
	case s.ring.end > l.start:
		s.left(1)
		l.rightAt = len(l.right)
		s.touch()
	}
}

// eraseRight erases from the cursor to the end of the line.
func (s *Screen) eraseRight() {
	s.resolveReturn()
	if len(s.line.rest()) > 0 {
		s.line.rightAt = len(s.line.right)
		s.touch()
	}
}

// eraseLine erases the whole row and leaves the cursor in its column.
func (s *Screen) eraseLine() {
	s.resolveReturn()
	l := &s.line
	pad, right := l.pad, len(l.rest())
	l.cr = true
	s.resolveReturn()
	rest := l.rest()
	pad += utf8.RuneCount(rest[:len(rest)-right])
	s.eraseRight()
	l.pad = min(pad, maxBlank)
}

// toHome moves the cursor to row 1, column 1. A program without a screen knows
// of that place only where it asked for the cursor in this line, because it is
// what it was told; to all others it is the beginning of the line.
func (s *Screen) toHome() {
	l := &s.line
	if l.home <= l.start {
		l.cr = true
		return
	}
	l.cr, l.pad = false, 0
	if s.ring.end >= l.home {
		s.moveTo(l.home)
		return
	}
	if n := int(l.home - s.ring.end); n <= maxMove {
		l.rightAt += n
		s.text(l.right[l.rightAt-n:l.rightAt], 0, -1)
	}
}

// cellsOf returns the size of the first n code points of p, and how many there
// are.
func cellsOf(p []byte, n int) (size, cells int) {
	for cells < n && size < len(p) {
		_, w := utf8.DecodeRune(p[size:])
		size += w
		cells++
	}
	return size, cells
}

// trim drops the oldest text that is beyond the bounds: whole lines, but of a
// line that alone fills more than half of the bound only what has to go. What
// is retained does not depend on how the text was cut into writes.
func (s *Screen) trim() {
	if over := s.lines() - s.config.Lines; over > 0 && s.ring.newlines > 0 {
		over = min(over, s.ring.newlines)
		s.dropLines(over, s.ring.lineStart(over))
	}
	if over := s.size() - s.config.Bytes; over > 0 {
		s.dropBytes(over)
	}
}

// lines is how many lines are retained: the open one is one as soon as there is
// text in it.
func (s *Screen) lines() int {
	if s.end() > s.line.start {
		return s.ring.newlines + 1
	}
	return s.ring.newlines
}

// size is how much text is retained.
func (s *Screen) size() int { return int(s.end() - s.ring.start) }

func (s *Screen) dropBytes(n int) {
	r, l := &s.ring, &s.line
	to := r.runeStart(min(r.start+int64(n), r.end), r.end)
	for r.start < to {
		end := s.firstLineEnd()
		if end < 0 || end-to > int64(s.config.Bytes/2) {
			s.droppedBytes += to - r.start
			r.drop(to)
			break
		}
		s.dropLines(1, end)
	}
	if l.start < r.start {
		l.start = r.start
		l.home = max(l.home, l.start)
		l.columnsTo = max(l.columnsTo, l.start)
	}
}

// dropLines drops the n oldest lines, which end before offset to.
func (s *Screen) dropLines(n int, to int64) {
	s.droppedLines += int64(n)
	s.droppedBytes += to - s.ring.start
	s.ring.dropLines(n, to)
}

// firstLineEnd returns the offset behind the oldest line feed, or -1. It is
// searched for once per line.
func (s *Screen) firstLineEnd() int64 {
	if s.ring.newlines == 0 {
		return -1
	}
	if s.firstEnd <= s.ring.start {
		s.firstEnd = s.ring.lineStart(1)
	}
	return s.firstEnd
}
