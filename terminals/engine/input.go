package engine

import (
	"strings"

	"github.com/shellstead/shellstead/terminals"
)

const (
	// enter is what the Enter key types.
	enter = "\r"

	// What a terminal puts around pasted text for a program that asked for it
	// (DECSET 2004).
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// input is what is typed for req. A line that the terminal would cut is refused:
// a canonical terminal drops what is beyond its limit, and echoes it nonetheless.
func (s *session) input(req terminals.SendRequest) (string, error) {
	modes, err := s.dev.Modes()
	canonical := err == nil && modes.Canonical
	text := req.Text
	if canonical && s.maxLine > 0 && len(text) > s.maxLine {
		ends := "\n"
		if modes.InputCR {
			ends = "\n\r"
		}
		for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(ends, r) }) {
			if len(line) > s.maxLine {
				return "", invalid("text has a line of %d bytes, and the program reads by lines of which the terminal takes %d bytes at most; "+
					"send shorter lines, or hand the text over in a file", len(line), s.maxLine)
			}
		}
	}
	if !req.Submit {
		return text, nil
	}
	s.mu.Lock()
	wanted := s.scr.BracketedPaste()
	s.mu.Unlock()
	if wanted && err == nil && !canonical {
		text = paste(text)
	}
	return text + enter, nil
}

// paste puts the marks of a paste around a text of several lines, or with a tab
// inside: a line editor takes it whole then, instead of entering each line and
// completing at each tab. A text with control characters is meant as keys and
// stays as it is; only marks of a paste are taken out of it, which could end it
// early.
func paste(text string) string {
	if !strings.ContainsAny(strings.TrimRight(text, "\t\r\n"), "\t\r\n") {
		return text
	}
	inner := text
	for marks := strings.NewReplacer(pasteBegin, "", pasteEnd, ""); ; {
		without := marks.Replace(inner)
		if without == inner {
			break
		}
		inner = without
	}
	isKey := func(r rune) bool {
		return r < ' ' && !strings.ContainsRune("\t\r\n", r) || r >= 0x7f && r < 0xa0
	}
	if strings.ContainsFunc(inner, isKey) {
		return text
	}
	// Terminals paste line ends as the Enter key.
	return pasteBegin + strings.NewReplacer("\r\n", enter, "\n", enter).Replace(inner) + pasteEnd
}
