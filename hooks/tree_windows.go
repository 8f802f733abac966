package hooks

import (
	"os/exec"

	"golang.org/x/sys/windows"
)

// tree is a hook with all that it started: a job object. Where none can be had
// it is the hook alone.
type tree struct {
	cmd *exec.Cmd
	job windows.Handle
}

// newTree prepares cmd, which has not started.
func newTree(cmd *exec.Cmd) *tree {
	t := &tree{cmd: cmd}
	if job, err := windows.CreateJobObject(nil, nil); err == nil {
		t.job = job
	}
	return t
}

// adopt is called once the hook has started.
func (t *tree) adopt() {
	if t.job == 0 {
		return
	}
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE
	process, err := windows.OpenProcess(access, false, uint32(t.cmd.Process.Pid))
	if err != nil {
		return // it has ended
	}
	defer func() { _ = windows.CloseHandle(process) }()
	_ = windows.AssignProcessToJobObject(t.job, process)
}

// kill ends the job and, should it not be in there yet, the hook itself.
func (t *tree) kill() error {
	if t.job != 0 {
		_ = windows.TerminateJobObject(t.job, 1)
	}
	return t.cmd.Process.Kill()
}

func (t *tree) release() {
	if t.job != 0 {
		_ = windows.CloseHandle(t.job)
	}
}
