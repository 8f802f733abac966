package screen

import (
	"bytes"
	"unicode/utf8"
)

// Blocks are large enough to make copying cheap and small enough that a ring
// is never much larger than its bound.
const (
	maxBlock = 64 << 10
	minBlock = 1 << 10
)

// ring is text between two absolute offsets, in blocks of equal size. All
// blocks but the last are full. It allocates as text comes and reuses what it
// drops.
type ring struct {
	start, end int64 // offsets of the retained text
	newlines   int   // in the retained text

	blocks []block
	size   int    // of a full block
	spare  []byte // one dropped block, empty
}

type block struct {
	base     int64
	data     []byte
	newlines int // among the retained bytes
}

func newRing(bound int) ring {
	return ring{size: min(max(bound/16, minBlock), maxBlock)}
}

// append adds p, which holds newlines line feeds and is at most one block long.
func (r *ring) append(p []byte, newlines int) {
	r.newlines += newlines
	r.end += int64(len(p))
	if n := len(r.blocks); n > 0 && len(r.blocks[n-1].data)+len(p) <= r.size {
		last := &r.blocks[n-1]
		last.data = append(last.data, p...)
		last.newlines += newlines
		return
	}
	for len(p) > 0 {
		last := r.last()
		n := min(len(p), r.size-len(last.data))
		here := 0
		if newlines > 0 {
			here = bytes.Count(p[:n], newline)
		}
		last.data = append(last.data, p[:n]...)
		last.newlines += here
		p, newlines = p[n:], newlines-here
	}
}

// last returns a block with room.
func (r *ring) last() *block {
	if n := len(r.blocks); n > 0 && len(r.blocks[n-1].data) < r.size {
		return &r.blocks[n-1]
	}
	b := block{data: r.spare}
	r.spare = nil
	if n := len(r.blocks); n > 0 {
		b.base = r.blocks[n-1].base + int64(r.size)
		if b.data == nil {
			b.data = make([]byte, 0, r.size)
		}
	} else {
		// The first block grows as needed: most sessions print little.
		b.base = r.start
	}
	r.blocks = append(r.blocks, b)
	return &r.blocks[len(r.blocks)-1]
}

// cut takes the text from offset at off the end. There are no line feeds in it.
func (r *ring) cut(at int64) {
	r.end = at
	for n := len(r.blocks); n > 0; n-- {
		b := &r.blocks[n-1]
		if at > b.base || n == 1 {
			b.data = b.data[:at-b.base]
			return
		}
		r.release(b)
		r.blocks = r.blocks[:n-1]
	}
}

// dropLines drops the n oldest lines, which end before offset to.
func (r *ring) dropLines(n int, to int64) {
	r.newlines -= n
	for i := 0; n > 0; i++ {
		here := min(n, r.blocks[i].newlines)
		r.blocks[i].newlines -= here
		n -= here
	}
	r.drop(to)
}

// drop drops the text before offset to. There are no line feeds in it.
func (r *ring) drop(to int64) {
	r.start = to
	gone := 0
	for gone < len(r.blocks) && r.blocks[gone].base+int64(r.size) <= to {
		r.release(&r.blocks[gone])
		gone++
	}
	if gone > 0 {
		r.blocks = append(r.blocks[:0], r.blocks[gone:]...)
	}
}

func (r *ring) release(b *block) {
	if cap(b.data) >= r.size {
		r.spare = b.data[:0]
	}
	b.data = nil
}

func (r *ring) block(at int64) *block {
	return &r.blocks[int(at-r.blocks[0].base)/r.size]
}

// spans calls f with the text between two offsets, piece by piece.
func (r *ring) spans(from, to int64, f func([]byte)) {
	for from < to {
		b := r.block(from)
		n := min(to, b.base+int64(len(b.data)))
		f(b.data[from-b.base : n-b.base])
		from = n
	}
}

// appendTo appends the text between two offsets to dst.
func (r *ring) appendTo(dst []byte, from, to int64) []byte {
	r.spans(from, to, func(p []byte) { dst = append(dst, p...) })
	return dst
}

// at returns the byte at an offset.
func (r *ring) at(off int64) byte {
	b := r.block(off)
	return b.data[off-b.base]
}

// runeStart returns the first offset at or after off, and at most limit, that
// does not lie inside a code point.
func (r *ring) runeStart(off, limit int64) int64 {
	for off < limit && !utf8.RuneStart(r.at(off)) {
		off++
	}
	return off
}

// lineStart returns the offset at which the n-th retained line begins, counted
// from 0. The ring holds at least n line feeds.
func (r *ring) lineStart(n int) int64 {
	at := r.start
	for i := 0; n > 0; i++ {
		b := &r.blocks[i]
		if b.newlines < n {
			n -= b.newlines
			at = b.base + int64(len(b.data))
			continue
		}
		for ; n > 0; n-- {
			at += int64(bytes.IndexByte(b.data[at-b.base:], '\n')) + 1
		}
	}
	return at
}
