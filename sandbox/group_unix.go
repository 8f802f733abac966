//go:build linux || darwin

package sandbox

import (
	"os/exec"
	"syscall"
)

// ownGroup has a killed probe take along what it started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
