//go:build !windows && (!unix || solaris || aix)

package filelock

import (
	"fmt"
	"os"
	"runtime"
)

// Lock refuses: a file with two writers is worse than none.
func Lock(f *os.File) error {
	return fmt.Errorf("filelock: %s has no lock that ends with its process", runtime.GOOS)
}
