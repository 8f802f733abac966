// Package document replaces generated parts of hand-written documents.
package document

import (
	"bytes"
	"fmt"
)

// Replace puts text between the two comments that enclose part:
//
//	<!-- generated: PART -->
//	<!-- end of PART -->
func Replace(document []byte, part, text string) ([]byte, error) {
	begin := []byte("<!-- generated: " + part + " -->\n")
	end := []byte("<!-- end of " + part + " -->\n")
	head, rest, ok := bytes.Cut(document, begin)
	if !ok {
		return nil, fmt.Errorf("document: the line %q is missing", bytes.TrimSpace(begin))
	}
	_, tail, ok := bytes.Cut(rest, end)
	if !ok {
		return nil, fmt.Errorf("document: the line %q is missing", bytes.TrimSpace(end))
	}
	return bytes.Join([][]byte{head, begin, []byte("\n" + text + "\n"), end, tail}, nil), nil
}
