package screen

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Control characters that matter here.
const (
	bel = 0x07
	bs  = 0x08
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
)

// state is where in the stream's syntax the scanner is between two bytes.
type state int

const (
	ground         state = iota // text
	afterEscape                 // after ESC
	afterInter                  // after ESC and an intermediate byte
	inControlSeq                // in a CSI sequence
	inString                    // in an OSC, DCS, SOS, PM or APC string
	inStringEscape              // after ESC in a string
	inStringC2                  // after the first byte of a UTF-8 C1 control in a string
)

// Control strings, by their introducer's final byte.
const (
	dcs = 'P'
	sos = 'X'
	osc = ']'
	pm  = '^'
	apc = '_'
)

// maxKept is how much of a sequence is kept to be understood. Longer ones mean
// nothing here and are removed like all others.
const maxKept = 256

// Write takes raw bytes, from which markers were taken out.
func (s *Screen) Write(p []byte) {
	for len(p) > 0 {
		switch s.state {
		case ground:
			p = p[s.ground(p):]
		case inControlSeq:
			p = p[s.controlSeq(p):]
		case inString:
			p = p[s.stringBody(p):]
		default:
			p = p[s.single(p[0]):]
		}
	}
}

// Flush ends the stream: an unfinished sequence is dropped and the bytes of a
// torn code point become U+FFFD. A carriage return that nothing follows changes
// nothing. Writing may go on, so Flush also serves where a stream is known to
// begin anew, as at a prompt after a command that left a sequence unfinished.
func (s *Screen) Flush() {
	s.tear()
	s.state = ground
	s.kept, s.overlong = s.kept[:0], false
}

// tear gives up the code point that is held back: each of its bytes is
// malformed by itself.
func (s *Screen) tear() {
	for range s.torn {
		s.put(replacement)
	}
	s.torn = s.torn[:0]
}

var replacement = []byte(string(utf8.RuneError))

// ground takes text and returns how much of p it took.
func (s *Screen) ground(p []byte) int {
	if len(s.torn) > 0 {
		return s.mend(p[0])
	}
	i := 0
	for i < len(p) {
		n, newlines, lastNewline := plain(p[i:])
		if n > 0 {
			run := p[i : i+n]
			switch {
			case s.line.appending():
				s.text(run, newlines, lastNewline)
			case newlines == 0:
				s.put(run)
			default:
				n = bytes.IndexByte(run, '\n')
				if n > 0 {
					s.put(run[:n])
				}
				s.newLine()
				n++
			}
			i += n
			continue
		}
		switch c := p[i]; {
		case c == '\r':
			// The usual line end is not worth a detour.
			if i+1 == len(p) || p[i+1] != '\n' {
				s.line.cr = true
			}
			i++
		case c == esc:
			if n := s.wholeControlSeq(p[i:]); n > 0 {
				i += n
				continue
			}
			s.state = afterEscape
			return i + 1
		case c < utf8.RuneSelf:
			s.control(c)
			i++
		case !utf8.FullRune(p[i:]):
			s.torn = append(s.torn, p[i:]...)
			return len(p)
		default:
			r, size := utf8.DecodeRune(p[i:])
			i += size
			s.odd(r, size)
			if s.state != ground {
				return i
			}
		}
	}
	return i
}

// mend adds a byte to the code point that is held back and returns how many
// bytes it took: none when the byte does not belong to it.
func (s *Screen) mend(c byte) int {
	s.torn = append(s.torn, c)
	if !utf8.FullRune(s.torn) {
		return 1
	}
	r, size := utf8.DecodeRune(s.torn)
	if size != len(s.torn) {
		s.torn = s.torn[:len(s.torn)-1]
		s.tear()
		return 0
	}
	s.torn = s.torn[:0]
	s.odd(r, size)
	return 1
}

// odd takes one decoded code point above ASCII.
func (s *Screen) odd(r rune, size int) {
	switch {
	case size == 1:
		s.put(replacement)
	case r < 0xa0:
		s.c1(byte(r) - 0x40)
	case visible(r):
		s.put(utf8.AppendRune(s.scratch[:0], r))
	default:
		b := append(s.scratch[:0], "<U+"...)
		if r < 0x1000 {
			b = append(b, '0')
		}
		if r < 0x100 {
			b = append(b, '0')
		}
		b = strconv.AppendInt(b, int64(r), 16)
		s.put(append(bytes.ToUpper(b), '>'))
	}
}

// c1 takes a C1 control, given the final byte of its two-byte form. Only the
// ones that are code points count: a single byte from 0x80 on is malformed
// UTF-8, far more often a piece of some other encoding than a control.
func (s *Screen) c1(final byte) {
	s.escapeFinal(final)
	// Text that was encoded twice is full of these code points. A string that
	// such a one begins ends with the line, so that no more than it is lost.
	s.oneLine = s.state == inString
}

// control takes a C0 control or DEL; those that are not text are dropped.
func (s *Screen) control(c byte) {
	switch c {
	case '\n':
		s.newLine()
	case '\r':
		s.line.cr = true
	case '\t':
		s.put([]byte{'\t'})
	case bs:
		s.backspace()
	}
}

// wholeControlSeq handles a CSI sequence that lies complete at the beginning of
// p and returns its length, else 0.
func (s *Screen) wholeControlSeq(p []byte) int {
	if len(p) < 3 || p[1] != '[' {
		return 0
	}
	for i, c := range p[2:min(len(p), 3+s.keepMax)] {
		switch {
		case c >= 0x40 && c < del:
			if c != 'm' {
				s.execute(p[2:2+i], c)
			}
			return i + 3
		case c < 0x20 || c >= del:
			return 0
		}
	}
	return 0
}

// single takes one byte in the states that last for one or two and returns how
// many it took.
func (s *Screen) single(c byte) int {
	switch s.state {
	case afterEscape, afterInter:
		switch {
		case c == esc:
			s.state = afterEscape
		case c == can || c == sub:
			s.state = ground
		case c < 0x20:
			s.control(c) // as every terminal does inside a sequence
		case c < 0x30:
			s.state = afterInter
		case c == del:
		case c > del:
			s.state = ground
			return 0
		case s.state == afterInter:
			s.state = ground
		default:
			s.state = ground
			s.oneLine = false
			s.escapeFinal(c)
		}
	case inStringEscape:
		switch c {
		case '\\':
			s.endString()
		case esc:
		default:
			s.state = inString
			return 0
		}
	case inStringC2:
		s.state = inString
		if c == 0x9c {
			s.endString()
			return 1
		}
		return 0
	}
	return 1
}

// escapeFinal takes the byte after ESC. The ones that introduce nothing and
// reset nothing are done with.
func (s *Screen) escapeFinal(c byte) {
	switch c {
	case '[':
		s.state = inControlSeq
		s.kept, s.overlong = s.kept[:0], false
	case dcs, sos, osc, pm, apc:
		s.state = inString
		s.introducer = c
		s.kept, s.overlong = s.kept[:0], false
	case 'c': // full reset
		s.alternate, s.bracketedPaste = false, false
	}
}

// controlSeq takes bytes of a CSI sequence and returns how many it took.
func (s *Screen) controlSeq(p []byte) int {
	for i, c := range p {
		switch {
		case c == esc:
			s.state = afterEscape
			return i + 1
		case c == can || c == sub:
			s.state = ground
			return i + 1
		case c < 0x20:
			s.control(c)
		case c < 0x40:
			s.keep(p[i : i+1])
		case c < del:
			s.state = ground
			if !s.overlong {
				s.execute(s.kept, c)
			}
			return i + 1
		case c > del:
			s.state = ground
			return i
		}
	}
	return len(p)
}

// keep remembers bytes of an unfinished sequence.
func (s *Screen) keep(p []byte) {
	if n := s.keepMax - len(s.kept); len(p) > n {
		s.overlong = true
		p = p[:max(n, 0)]
	}
	s.kept = append(s.kept, p...)
}

// stringBody takes bytes of a control string and returns how many it took.
func (s *Screen) stringBody(p []byte) int {
	for i, c := range p {
		switch {
		case c == esc:
			s.keep(p[:i])
			s.state = inStringEscape
			return i + 1
		case c == 0xc2:
			s.keep(p[:i])
			s.state = inStringC2
			return i + 1
		case c >= 0x20:
		case c == bel && s.introducer == osc:
			s.keep(p[:i])
			s.endString()
			return i + 1
		case c == can || c == sub:
			s.state = ground
			return i + 1
		case c == '\n' && s.oneLine:
			s.state = ground
			return i
		}
	}
	s.keep(p)
	return len(p)
}

// endString takes the end of a control string.
func (s *Screen) endString() {
	s.state = ground
	if s.overlong {
		return
	}
	switch s.introducer {
	case osc:
		switch string(s.kept) {
		case "10;?":
			s.ask(Query{Kind: ForegroundColor})
		case "11;?":
			s.ask(Query{Kind: BackgroundColor})
		case "12;?":
			s.ask(Query{Kind: CursorColor})
		}
	case dcs:
		if bytes.HasPrefix(s.kept, []byte("+q")) {
			s.ask(Query{Kind: TermcapString})
		}
	}
}

// execute carries out what a CSI sequence does to the open line and notes modes
// and queries. All else that a sequence may do is no matter of text.
func (s *Screen) execute(args []byte, final byte) {
	switch final {
	case 'C', 'a':
		if n, ok := count(args); ok {
			s.rightwards(n)
		}
	case 'D':
		if n, ok := count(args); ok {
			s.resolveReturn()
			s.left(n)
		}
	case 'K', 'J':
		switch {
		case len(args) == 0 || string(args) == "0":
			s.eraseRight()
		case string(args) == "2" && final == 'K':
			s.eraseLine()
		case string(args) == "2" && !s.alternate:
			s.endLine() // what was printed stays in the scrollback
		}
	case 'P':
		if n, ok := count(args); ok {
			s.deleteRight(n)
		}
	case '@':
		if n, ok := count(args); ok {
			s.resolveReturn()
			s.insertBlanks(n)
		}
	case 'X':
		if n, ok := count(args); ok {
			s.eraseCells(n)
		}
	case 'G', '`':
		// A full-screen program moves between rows, of which nothing is known
		// here: its text would overwrite itself.
		if n, ok := count(args); ok && !s.alternate {
			s.line.cr = true
			if n > 1 {
				s.rightwards(n - 1)
			}
		}
	case 'H', 'f':
		switch string(args) {
		case "", "1", ";", "1;", ";1", "1;1":
			if !s.alternate {
				s.toHome()
			}
		}
	case 'h', 'l':
		s.setModes(args, final == 'h')
	case 'n', 'c', 'u', 'q', 'p':
		s.query(args, final)
	}
}

// count reads the single parameter of a movement, 1 when it is missing and at
// most maxMove.
func count(args []byte) (int, bool) {
	if len(args) == 0 {
		return 1, true
	}
	n, ok := number(args)
	return min(max(n, 1), maxMove), ok
}

// number reads a decimal parameter. One that is beyond all sense is capped.
func number(args []byte) (int, bool) {
	n := 0
	for _, c := range args {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 1<<20)
	}
	return n, len(args) > 0
}

// setModes notes the modes that matter to the engine.
func (s *Screen) setModes(args []byte, on bool) {
	if len(args) == 0 || args[0] != '?' {
		return
	}
	for mode := range bytes.SplitSeq(args[1:], []byte{';'}) {
		switch string(mode) {
		case "47", "1047", "1049":
			if s.alternate != on {
				s.endLine() // the line on the other screen is another one
			}
			s.alternate = on
		case "2004":
			s.bracketedPaste = on
		}
	}
}
