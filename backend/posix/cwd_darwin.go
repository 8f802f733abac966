package posix

import (
	"fmt"

	"github.com/shellstead/shellstead/backend"
)

func workingDir(int) (string, error) {
	return "", fmt.Errorf("posix: macOS tells a process's working directory to C programs only: %w", backend.ErrUnsupported)
}
