package screen

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

var newline = []byte{'\n'}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns the length of the text at the beginning of p that needs no
// change, and how many line feeds it holds and where the last one is. Text is
// valid UTF-8 without control characters, invisible characters and torn code
// points; tab and line feed are text.
func plain(p []byte) (n, newlines, lastNewline int) {
	lastNewline = -1
	for n < len(p) {
		if len(p)-n >= 8 {
			// Eight bytes at a time: flag bytes below space, DEL, and bytes
			// from 0x80 on. The lowest flag is exact, those above it need not be.
			w := binary.LittleEndian.Uint64(p[n:])
			del := w ^ 0x7f*ones
			flags := (w | (w-0x20*ones)&^w | (del-ones)&^del) & highs
			if flags == 0 {
				n += 8
				continue
			}
			n += bits.TrailingZeros64(flags) / 8
		}
		switch c := p[n]; {
		case c == '\n':
			newlines++
			lastNewline = n
			n++
		case c >= 0x20 && c < 0x7f || c == '\t':
			n++
		case c < 0x80:
			return n, newlines, lastNewline
		default:
			size := plainRune(p[n:])
			if size == 0 {
				return n, newlines, lastNewline
			}
			// Where one such code point is there are usually more.
			for n += size; n < len(p) && p[n] >= utf8.RuneSelf; n += size {
				if size = plainRune(p[n:]); size == 0 {
					return n, newlines, lastNewline
				}
			}
		}
	}
	return n, newlines, lastNewline
}

// plainRune returns the size of the code point above ASCII at the beginning of
// p, or 0 when it is not plain text.
func plainRune(p []byte) int {
	// Most of the world's text is in ranges that hold nothing special: U+00C0
	// to U+033F, U+0400 to U+05FF, U+4000 to U+CFFF.
	c := p[0]
	switch {
	case c >= 0xe4 && c <= 0xec && len(p) >= 3 && p[1]&0xc0 == 0x80 && p[2]&0xc0 == 0x80:
		return 3
	case (c >= 0xc3 && c <= 0xcc || c >= 0xd0 && c <= 0xd7) && len(p) >= 2 && p[1]&0xc0 == 0x80:
		return 2
	}
	r, size := utf8.DecodeRune(p)
	if size == 1 || !visible(r) {
		return 0
	}
	return size
}

// visible says whether r, at least U+0080, is neither a C1 control nor a
// character that changes how text reads without being seen: bidirectional
// controls, zero-width characters, fillers, tags. Variation selectors 1 to 16
// are left alone since they belong to ordinary emoji.
func visible(r rune) bool {
	switch {
	case r < 0x034f:
		return r >= 0xa0 && r != 0xad
	case r < 0x2000:
		switch r {
		case 0x034f, 0x061c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180c, 0x180d, 0x180e, 0x180f:
			return false
		}
	case r <= 0x206f:
		return r < 0x200b || r > 0x200f && r < 0x2028 || r > 0x202e && r < 0x2060
	case r == 0x3164 || r == 0xfeff || r == 0xffa0 || r >= 0xfff0 && r <= 0xfffb:
		return false
	case r >= 0x1bca0 && r <= 0x1bca3 || r >= 0x1d173 && r <= 0x1d17a:
		return false
	case r >= 0xe0000 && r <= 0xe0fff:
		return false
	}
	return true
}
