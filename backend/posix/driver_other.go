//go:build !linux && !darwin

package posix

import (
	"fmt"
	"runtime"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// Driver starts programs on pseudo terminals. This system has none that the
// package knows.
type Driver struct{ backend.Driver }

// New refuses: the returned error matches terminals.Unsupported and
// backend.ErrUnsupported and names the system.
func New(Options) (*Driver, error) {
	return nil, &terminals.Error{
		Code:    terminals.Unsupported,
		Message: fmt.Sprintf("the posix driver does not run on %s; it knows linux and darwin", runtime.GOOS),
		Err:     backend.ErrUnsupported,
	}
}
