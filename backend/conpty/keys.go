//go:build windows || linux

package conpty

// enterKeys turns typed text into what a pseudo console takes for the keys that
// were meant: Enter is \r there, while \n is Ctrl+J and \r\n would be both. It
// keeps its state from one write to the next.
type enterKeys struct{ afterCR bool }

// translate appends p as keys to dst. Each byte of p becomes one byte or none,
// so that what was accepted can be counted: taken(n) bytes of p make the first n
// of them.
func (k *enterKeys) translate(dst, p []byte) []byte {
	for _, b := range p {
		lineEnd := b == '\n'
		if lineEnd && k.afterCR {
			k.afterCR = false
			continue
		}
		k.afterCR = b == '\r'
		if lineEnd {
			b = '\r'
		}
		dst = append(dst, b)
	}
	return dst
}
