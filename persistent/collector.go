package persistent

import (
	"bytes"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/shellstead/shellstead/terminals/screen"
)

// maxSequenceLookback is how far before the retained end the beginning of a
// control sequence is looked for that the cut may have torn. Sequences that
// matter there (colours, titles) are far shorter.
const maxSequenceLookback = 256

// collector takes one command's output as it comes. It keeps what the result
// retains, counts the rest and hands everything to a spill once it is clear
// that the output does not fit. Its work per byte is constant and its memory
// depends on the bounds alone.
//
// The terminal's goroutine writes; the command's call finishes. What is written
// after that, by a program that was left waiting, is kept apart for the next
// command's result.
type collector struct {
	max     int64 // characters that the result retains
	headMax int64 // of these, at the beginning
	spill   *spill

	mu        sync.Mutex
	chars     int64 // characters seen
	torn      []byte
	head      []byte
	headChars int64
	tail      *tail // of the output behind head; nil when only the beginning is retained
	finished  bool
	late      tail
}

// capture is a collector's account of an output.
type capture struct {
	head, tail []byte // the retained ends; tail is empty unless the middle was cut out
	torn       []byte // the part in front of tail of a control sequence that the cut tore
	chars      int64  // all characters of the output
	shown      int64  // of these, retained
	spill      spilled
}

// newCollector returns a collector that retains max characters. spill is nil
// when output that does not fit is only counted.
func newCollector(max int, clip Clip, spill *spill) *collector {
	c := &collector{max: int64(max), headMax: int64(max), spill: spill}
	c.late.limit = utf8.UTFMax * max
	if half := max / 2; clip == Middle && half > 0 {
		c.headMax -= int64(half)
		c.tail = &tail{limit: utf8.UTFMax * half}
	}
	return c
}

func (c *collector) write(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		c.late.add(p)
		return
	}
	for len(c.torn) > 0 && len(p) > 0 {
		c.torn, p = append(c.torn, p[0]), p[1:]
		for len(c.torn) > 0 && utf8.FullRune(c.torn) {
			_, size := utf8.DecodeRune(c.torn)
			c.take(c.torn[:size], 1)
			c.torn = append(c.torn[:0], c.torn[size:]...)
		}
	}
	whole := len(p) - tornSuffix(p)
	c.take(p[:whole], countChars(p[:whole]))
	c.torn = append(c.torn, p[whole:]...)
}

// take adds p, which holds n whole characters.
func (c *collector) take(p []byte, n int64) {
	if n == 0 {
		return
	}
	before := c.chars
	c.chars += n
	if c.chars > c.max && c.spill != nil {
		if before <= c.max { // nothing has been given up yet
			c.spill.write(c.head)
			if c.tail != nil {
				c.spill.write(c.tail.buf)
			}
		}
		c.spill.write(p)
	}
	if room := c.headMax - c.headChars; room > 0 {
		fits := len(p)
		if n > room {
			fits, n = skipChars(p, room), room
		}
		if need := len(c.head) + fits; need > cap(c.head) {
			// Doubling copies less of a large output than append's own growth.
			c.head = slices.Grow(c.head, max(need, 2*cap(c.head))-len(c.head))
		}
		c.head = append(c.head, p[:fits]...)
		c.headChars += n
		p = p[fits:]
	}
	if c.tail != nil {
		c.tail.add(p)
	}
}

// finish ends the output and gives the account of it. Only the first call does.
func (c *collector) finish() capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.torn { // a character that never became whole: one each
		c.take(c.torn[i:i+1], 1)
	}
	c.torn, c.finished = nil, true

	out := capture{head: c.head, chars: c.chars, shown: min(c.chars, c.max)}
	if c.tail != nil {
		at := 0
		if out.clipped() {
			at = lastChars(c.tail.buf, c.max-c.headMax)
			out.torn = tornSequence(c.tail.buf[max(0, at-maxSequenceLookback):at])
		}
		out.tail = c.tail.buf[at:]
	}
	if c.spill != nil {
		out.spill = c.spill.close()
	}
	return out
}

// takeLate returns and forgets what was written after finish, and how many of
// its first bytes were dropped.
func (c *collector) takeLate() (data []byte, lost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, lost = c.late.buf, c.late.dropped
	c.late.buf, c.late.dropped = nil, 0
	return data, lost
}

func (c capture) clipped() bool { return c.chars > c.shown }

// output is the retained output, exactly.
func (c capture) output() string { return string(c.head) + string(c.tail) }

// text is the retained output for a model. The gap notice stands where the
// middle was cut out.
func (c capture) text() string {
	if len(c.tail) == 0 {
		return screen.Text(c.head)
	}
	if !c.clipped() {
		return screen.Text(append(bytes.Clone(c.head), c.tail...))
	}
	var b textBuilder
	b.add(screen.Text(c.head))
	b.add(gapNotice(c.chars - c.shown))
	b.add(screen.Text(append(bytes.Clone(c.torn), c.tail...)))
	return b.String()
}

// tornSequence returns the beginning of the control sequence that is unfinished
// at the end of p, if there is one. Sequences that end with a letter count; a
// string sequence could swallow everything that follows.
func tornSequence(p []byte) []byte {
	i := bytes.LastIndexByte(p, 0x1b)
	if i < 0 {
		return nil
	}
	start := bytes.Clone(p[i:])
	if screen.Text(append(start, 'm')) == "" && screen.Text(append(start, 'm', 'x')) == "x" {
		return start
	}
	return nil
}
