//go:build unix

package hooks_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// running tells whether the process is there and no zombie that nobody has
// waited for.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
