//go:build !windows

package conpty

import (
	"fmt"
	"io"
	"runtime"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// Driver starts programs in pseudo consoles. This system has none.
type Driver struct{ backend.Driver }

// New refuses: the returned error matches terminals.Unsupported and
// backend.ErrUnsupported and names the system.
func New(Options) (*Driver, error) { return nil, unsupported() }

// RunHelper refuses as New does.
func RunHelper(io.Reader, io.Writer) error { return unsupported() }

func unsupported() error {
	return &terminals.Error{
		Code:    terminals.Unsupported,
		Message: fmt.Sprintf("the conpty driver does not run on %s; it knows windows", runtime.GOOS),
		Err:     backend.ErrUnsupported,
	}
}
