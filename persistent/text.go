package persistent

import (
	"encoding/binary"
	"unicode/utf8"
)

// highBits has the bit set that tells a byte outside ASCII in each of 8 bytes.
const highBits = 0x8080808080808080

// countChars is utf8.RuneCount with a fast path for ASCII, 16 bytes at a time.
func countChars(p []byte) int64 {
	var n int64
	for len(p) > 0 {
		for len(p) >= 16 && (binary.LittleEndian.Uint64(p)|binary.LittleEndian.Uint64(p[8:]))&highBits == 0 {
			n += 16
			p = p[16:]
		}
		// A run outside ASCII seldom comes alone: the fast path is tried again
		// only once the text has come back to ASCII.
		for i := 0; len(p) > 0 && (i < 16 || p[0] >= utf8.RuneSelf); i++ {
			if p[0] < utf8.RuneSelf {
				p = p[1:]
			} else {
				_, size := utf8.DecodeRune(p)
				p = p[size:]
			}
			n++
		}
	}
	return n
}

// skipChars returns the length in bytes of the first n characters of p.
func skipChars(p []byte, n int64) int {
	at := 0
	for ; n > 0 && at < len(p); n-- {
		_, size := utf8.DecodeRune(p[at:])
		at += size
	}
	return at
}

// lastChars returns where the last n characters of p begin.
func lastChars(p []byte, n int64) int {
	at := len(p)
	for ; n > 0 && at > 0; n-- {
		_, size := utf8.DecodeLastRune(p[:at])
		at -= size
	}
	return at
}

// tornSuffix returns how many bytes at the end of p are the beginning of a
// character whose rest may follow.
func tornSuffix(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if utf8.FullRune(p[len(p)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// tail keeps at least the last limit bytes that were added, in at most twice
// that much memory and constant work per byte.
type tail struct {
	limit   int
	buf     []byte
	dropped int64 // bytes in front of buf that were given up
}

func (t *tail) add(p []byte) {
	var drop int
	if len(p) >= t.limit {
		t.dropped += int64(len(t.buf) + len(p) - t.limit)
		t.buf = append(t.buf[:0], p[len(p)-t.limit:]...)
		return
	}
	if len(t.buf)+len(p) > 2*t.limit {
		drop = len(t.buf) + len(p) - t.limit
		t.dropped += int64(drop)
		t.buf = append(t.buf[:0], t.buf[drop:]...)
	}
	t.buf = append(t.buf, p...)
}
