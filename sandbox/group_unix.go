//go:build linux || darwin

package sandbox

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup has a killed probe take along what it started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// mayWrite tells whether this process may write a file, or files in a folder.
func mayWrite(path string) bool { return unix.Access(path, unix.W_OK) == nil }
