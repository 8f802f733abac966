//go:build windows || linux

package conpty

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Case: K9
func TestEnterKeys(t *testing.T) {
	for text, want := range map[string]string{
		"dir\n": "dir\r", "dir\r": "dir\r", "dir\r\n": "dir\r", "a\n\nb": "a\r\rb", "a\r\r\n": "a\r\r", "\n\r\n": "\r\r",
		"é漢🙂\x03\x1b[A": "é漢🙂\x03\x1b[A", "": "",
	} {
		for split := range len(text) + 1 {
			var k enterKeys
			got := k.translate(nil, []byte(text[:split]))
			got = k.translate(got, []byte(text[split:]))
			assert.Equal(t, want, string(got), "%q at %d", text, split)
		}
	}
}
