package jsonl_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/session"
	"github.com/shellstead/shellstead/session/jsonl"
)

// confinedVariable makes this test program do the named thing on a thread that
// may make no system call, and exit with confinedExit.
const (
	confinedVariable = "JSONL_TEST_CONFINED"
	confinedExit     = 42
)

// Locate makes no system call at all: the kernel would kill it for one.
func TestLocateMakesNoSystemCall(t *testing.T) {
	p, err := jsonl.New(os.TempDir(), jsonl.Options{})
	require.NoError(t, err)
	h := session.NewHeader("/home/u/src/my-project")
	work := map[string]func(){
		"locate": func() {
			for range 100 {
				_, _ = p.Locate(h)
			}
		},
		"stat": func() { _, _ = os.Stat("/") },
	}
	if name := os.Getenv(confinedVariable); name != "" {
		require.NoError(t, confine(work[name]))
	}
	for name, wantSignal := range map[string]syscall.Signal{"locate": -1, "stat": unix.SIGSYS} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestLocateMakesNoSystemCall$")
			// The runtime interrupts nothing and collects nothing meanwhile.
			cmd.Env = append(os.Environ(), confinedVariable+"="+name, "GOGC=off", "GODEBUG=asyncpreemptoff=1")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			status := exit.Sys().(syscall.WaitStatus)
			assert.Equal(t, wantSignal, status.Signal(), "%s", out)
			if wantSignal < 0 {
				assert.Equal(t, confinedExit, status.ExitStatus(), "%s", out)
			}
		})
	}
}

// confine runs work under a filter that kills the process for every system call
// but those with which the runtime manages memory and threads. It returns only
// when there can be no filter.
func confine(work func()) error {
	work() // once before, for what is done once
	allowed := []uint32{
		unix.SYS_EXIT_GROUP, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK,
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE,
	}
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the call's number
	for i, number := range allowed {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jt: uint8(len(allowed) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}

	runtime.LockOSThread() // the filter is the thread's
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("filter: %w", errno)
	}
	work()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, confinedExit, 0, 0)
	return nil
}
