package tool

import (
	"strings"
	"unicode/utf8"

	"github.com/shellstead/shellstead/terminals/screen"
)

const (
	// MinResultBytes is the smallest bound of a result. It leaves room for a
	// session's id and for the lines that say how a call ended.
	MinResultBytes = 64
	// DefaultResultBytes is the bound of a result when none is set.
	DefaultResultBytes = 256 << 10
)

// ResultBytes checks a configured bound of a result: 0 is the default, and one
// below MinResultBytes is refused.
func ResultBytes(max int) (int, error) {
	switch {
	case max == 0:
		return DefaultResultBytes, nil
	case max < MinResultBytes:
		return 0, invalid("maxResultBytes must be %d or more, not %d", MinResultBytes, max)
	}
	return max, nil
}

// Truncated is the line that says that a result was cut.
const Truncated = "[output truncated]"

// Keep says which end of a text survives a cut.
type Keep int

const (
	KeepHead Keep = iota
	KeepTail
)

// BoundText puts the lines of meta below text and bounds the whole to max bytes
// of UTF-8, MinResultBytes at least. When something had to go the result ends
// with, or meta already has, the line [Truncated]; of text the end that keep
// names remains, cut between two code points, and is returned as kept. Of meta
// the first line and Truncated stay longest; lines between them go from the last
// on where even they do not fit.
func BoundText(text string, max int, keep Keep, meta string) (bounded, kept string) {
	if max < MinResultBytes {
		max = MinResultBytes
	}
	if whole := below(text, meta); len(whole) <= max {
		return whole, text
	}
	var lines []string
	if meta = strings.TrimRight(meta, "\n"); meta != "" {
		lines = strings.Split(meta, "\n")
	}
	at := -1
	for i, line := range lines {
		if line == Truncated {
			at = i
		}
	}
	if at < 0 {
		at = len(lines)
		lines = append(lines, Truncated)
	}
	size := len(lines) - 1
	for _, line := range lines {
		size += len(line)
	}
	for i := len(lines) - 1; size > max && i > 0; i-- {
		if i != at {
			size -= len(lines[i]) + 1
			lines = append(lines[:i], lines[i+1:]...)
			if i < at {
				at--
			}
		}
	}
	if size > max && at > 0 { // one line that is longer than everything
		lines[0] = Cut(lines[0], max-1-len(Truncated), KeepHead)
	}
	meta = strings.Join(lines, "\n")
	kept = Cut(text, max-1-len(meta), keep)
	return below(kept, meta), kept
}

// BoundTextOr is BoundText with a line that stands for a text that is empty,
// where there is room for it. kept is of text alone.
func BoundTextOr(text, none string, max int, keep Keep, meta string) (bounded, kept string) {
	if whole := below(none, meta); text == "" && len(whole) <= max {
		return whole, ""
	}
	return BoundText(text, max, keep, meta)
}

// OneLine makes a text that a program or a person chose fit into a line.
func OneLine(text string) string { return screen.OneLine(text) }

// below puts meta on a line of its own below text.
func below(text, meta string) string {
	if text == "" || meta == "" || strings.HasSuffix(text, "\n") {
		return text + meta
	}
	return text + "\n" + meta
}

// Cut returns at most max bytes of one end of text, in whole code points.
func Cut(text string, max int, keep Keep) string {
	if max <= 0 {
		return ""
	}
	if len(text) <= max {
		return text
	}
	if keep == KeepHead {
		for max > 0 && !utf8.RuneStart(text[max]) {
			max--
		}
		return text[:max]
	}
	from := len(text) - max
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[from:]
}
