//go:build windows || linux

package conpty

import "bytes"

// paint removes from a pseudo console's output what the console says on its own
// behalf: its title, its questions to the terminal, the input modes that it asks
// for, and the clearing of the screen before its first text. What programs print
// passes as it is, whatever the chunks that it comes in.
type paint struct {
	begun bool   // the first text has come
	title bool   // inside of a title, which has no bound
	held  []byte // the beginning of a sequence
	asked func() // called for each question about the terminal's attributes
}

const esc = 0x1b

// maxHeld bounds a sequence that is looked at: those of the console are shorter.
const maxHeld = 32

// ownSequences are the console's at any time, firstSequences before the first
// text alone.
var (
	ownSequences   = []string{"\x1b[?1004h", "\x1b[?1004l", "\x1b[?9001h", "\x1b[?9001l"}
	firstSequences = []string{"\x1b[2J", "\x1b[m", "\x1b[0m", "\x1b[H", "\x1b[1;1H", "\x1b[?25l", "\x1b[?25h"}
	attributeQuery = []string{"\x1b[c", "\x1b[0c"}
)

// filter appends what is left of src to dst.
func (f *paint) filter(dst, src []byte) []byte {
	for len(src) > 0 {
		switch {
		case f.title:
			src = f.skipTitle(src)
		case len(f.held) > 0:
			f.held = append(f.held, src[0])
			src = src[1:]
			dst = f.decide(dst)
		default:
			n := bytes.IndexByte(src, esc)
			if n < 0 {
				n = len(src)
			}
			if n > 0 {
				f.begun = true
				dst = append(dst, src[:n]...)
			}
			if src = src[n:]; len(src) > 0 {
				f.held = append(f.held, esc)
				src = src[1:]
			}
		}
	}
	return dst
}

// flush appends what was held back when nothing more comes.
func (f *paint) flush(dst []byte) []byte {
	dst = append(dst, f.held...)
	f.held = f.held[:0]
	return dst
}

// skipTitle drops src up to the end of the title: BEL, or ESC \.
func (f *paint) skipTitle(src []byte) []byte {
	for i, b := range src {
		ends := b == 7 || b == '\\' && len(f.held) > 0
		f.held = f.held[:0]
		if ends {
			f.title = false
			return src[i+1:]
		}
		if b == esc {
			f.held = append(f.held, esc)
		}
	}
	return nil
}

// decide looks at the sequence that is held and drops it, gives it out or waits
// for more of it.
func (f *paint) decide(dst []byte) []byte {
	s := string(f.held)
	last := s[len(s)-1]
	switch {
	case s == "\x1b[" || s == "\x1b]" || s == "\x1b]0" || s == "\x1b]2":
		return dst
	case s == "\x1b]0;" || s == "\x1b]2;":
		f.title = true
		f.held = f.held[:0]
		return dst
	case s[1] == '[' && len(s) < maxHeld && last >= 0x20 && last < 0x40:
		return dst
	}
	switch {
	case contains(ownSequences, s):
	case contains(attributeQuery, s):
		if f.asked != nil {
			f.asked()
		}
	case !f.begun && contains(firstSequences, s):
	case last == esc && len(s) > 1: // a sequence that another one interrupts
		f.begun = true
		dst = append(dst, s[:len(s)-1]...)
		f.held = append(f.held[:0], esc)
		return dst
	default:
		f.begun = true
		dst = append(dst, s...)
	}
	f.held = f.held[:0]
	return dst
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}
