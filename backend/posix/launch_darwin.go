package posix

import (
	"context"
	"fmt"
	"os"

	"github.com/shellstead/shellstead/backend"
)

// launchStatus is what a launcher tells. No launcher is used on this system
// that does not become the program itself.
type launchStatus struct{}

func openLaunchStatus() (*launchStatus, error) {
	return nil, fmt.Errorf("posix: launchers: %w", backend.ErrUnsupported)
}

func (*launchStatus) childEnd() *os.File { return nil }
func (*launchStatus) close()             {}

func (*device) beginLaunched(context.Context, *os.Process, *exitWatch, *launchStatus) error {
	return fmt.Errorf("posix: launchers: %w", backend.ErrUnsupported)
}

// endWatch tells how a program that is not the host's child ended.
type endWatch struct{}

func watchEnd(identity, bool) endWatch { return endWatch{} }

func (endWatch) refine(status backend.ExitStatus) backend.ExitStatus { return status }
