package conpty

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend"
)

// job is a job object: a program with everything that it starts. A process
// cannot leave it. It does not hold what a program has another process start:
// a service, the task scheduler, WMI, a COM server.
type job struct{ handle windows.Handle }

// newJob makes a job that ends with its last handle, which only the host has.
func newJob() (*job, error) {
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("conpty: create a job object: %w", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		closeHandles(h)
		return nil, fmt.Errorf("conpty: have the job object end with the host: %w", err)
	}
	return &job{h}, nil
}

// maxMembers is how many members of a job are listed.
const maxMembers = 4096

// members lists the processes that live in the job.
func (j *job) members() ([]uint32, error) {
	var list struct {
		assigned, listed uint32
		pids             [maxMembers]uintptr
	}
	err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicProcessIdList,
		uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && !errors.Is(err, windows.ERROR_MORE_DATA) {
		return nil, fmt.Errorf("conpty: list the job's processes: %w", err)
	}
	pids := make([]uint32, 0, list.listed)
	for _, pid := range list.pids[:min(list.listed, maxMembers)] {
		pids = append(pids, uint32(pid))
	}
	return pids, nil
}

// killed is the exit code of what a teardown ends by force.
const killed = 1

func (j *job) kill() error {
	if err := windows.TerminateJobObject(j.handle, killed); err != nil {
		return fmt.Errorf("conpty: end the job's processes: %w", err)
	}
	return nil
}

// process names a process for people.
func process(pid uint32) backend.Process {
	return backend.Process{PID: int(pid), Program: programName(pid)}
}

// programName is the file name of a process's program, "?" when it cannot be
// seen.
func programName(pid uint32) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return "?"
	}
	defer closeHandles(h)
	buf := make([]uint16, windows.MAX_LONG_PATH)
	n := uint32(len(buf))
	if err := windows.QueryFullProcessImageName(h, 0, &buf[0], &n); err != nil {
		return "?"
	}
	return filepath.Base(windows.UTF16ToString(buf[:n]))
}

// started returns when a process was started; later is younger.
func started(pid uint32) (int64, bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return 0, false
	}
	defer closeHandles(h)
	var creation, exit, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &creation, &exit, &kernel, &user); err != nil {
		return 0, false
	}
	return creation.Nanoseconds(), true
}
