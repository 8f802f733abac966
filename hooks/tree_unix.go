//go:build unix

package hooks

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// tree is a hook with all that it started: its process group.
type tree struct{ cmd *exec.Cmd }

// newTree prepares cmd, which has not started.
func newTree(cmd *exec.Cmd) *tree {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return &tree{cmd}
}

// adopt is called once the hook has started.
func (*tree) adopt() {}

// kill ends the group. Its leader was not waited for yet, so its id is its own.
func (t *tree) kill() error {
	err := syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func (*tree) release() {}
