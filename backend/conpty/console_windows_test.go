package conpty

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/windows"
)

// A size is clamped before it is cut to 16 bits, which would make 40000 negative.
//
// Case: K18
func TestConsoleSize(t *testing.T) {
	for _, tt := range []struct {
		cols, rows int
		want       windows.Coord
	}{
		{80, 24, windows.Coord{X: 80, Y: 24}},
		{0, -1, windows.Coord{X: 1, Y: 1}},
		{40000, 65536, windows.Coord{X: 32767, Y: 32767}},
		{32767, 1 << 40, windows.Coord{X: 32767, Y: 32767}},
	} {
		assert.Equal(t, tt.want, consoleSize(tt.cols, tt.rows))
	}
}
