package posix

import (
	"fmt"
	"os"
	"strings"
)

// workingDir returns the folder that a process works in. A folder that has been
// removed is an error: its old path may lead to another one.
func workingDir(pid int) (string, error) {
	dir, err := os.Readlink(procPath(pid, "cwd"))
	if err != nil {
		return "", fmt.Errorf("posix: working directory: %w", plain(err))
	}
	if gone, ok := strings.CutSuffix(dir, " (deleted)"); ok {
		if _, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("posix: the working directory %s has been removed", gone)
		}
	}
	return dir, nil
}
