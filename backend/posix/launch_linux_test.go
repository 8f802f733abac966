package posix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

func init() {
	roles["launcher"] = launcherMain
	roles["failing-launcher"] = func() {
		_, _ = os.NewFile(backend.LaunchStatus, "status").WriteString("sandbox: it is broken\n")
		os.Exit(125)
	}
	roles["dying-launcher"] = func() {
		fmt.Println("launcher: no namespaces here")
		os.Exit(1)
	}
	roles["hanging-launcher"] = func() { _ = exec.Command("sleep", "1000").Run() } // which holds the status too
}

// launcherMain starts the program of its arguments in a session of its own and
// ends as it does, as far as a code can tell.
func launcherMain() {
	status := os.NewFile(backend.LaunchStatus, "status")
	unix.CloseOnExec(backend.LaunchStatus)
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(status, err)
		os.Exit(125)
	}
	_ = status.Close()
	_ = cmd.Wait()
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		os.Exit(128 + int(ws.Signal()))
	}
	os.Exit(ws.ExitStatus())
}

func launchedSpec(t testing.TB, role string, args ...string) backend.Spec {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	spec := specOf(self, args...)
	spec.Env = append(spec.Env, roleVariable+"="+role)
	spec.Launched = true
	return spec
}

// The terminal is about the program, not about its launcher.
func TestLaunchedProgram(t *testing.T) {
	t.Parallel()
	s := open(t, launchedSpec(t, "launcher", "bash", "--noprofile", "--norc", "-i"))
	atPrompt := func() bool {
		w, err := s.ShellWait()
		fg, fgErr := s.Foreground()
		return err == nil && fgErr == nil && w.State == backend.WaitReading && w.Program == "bash" && fg.Shell
	}
	require.Eventually(t, atPrompt, patience, time.Millisecond)
	require.NotEqual(t, s.proc.Pid, s.PID())
	assert.Equal(t, "bash", commOf(s.PID()))

	s.types(t, "cat\n")
	require.Eventually(t, func() bool {
		w, err := s.InputWait()
		return err == nil && w.State == backend.WaitReading && w.Program == "cat"
	}, patience, time.Millisecond)
	fg, err := s.Foreground()
	require.NoError(t, err)
	assert.False(t, fg.Shell)
	_, err = s.Interrupt(context.Background(), false)
	require.NoError(t, err)
	require.Eventually(t, atPrompt, patience, time.Millisecond)
	_, err = s.Signal(context.Background(), "SIGKILL")
	assert.Error(t, err, "the shell is in the foreground")

	require.NoError(t, unix.Kill(s.PID(), unix.SIGSTOP))
	require.Eventually(t, func() bool { w, _ := s.ShellWait(); return w.State == backend.WaitStopped }, patience, time.Millisecond)
	require.NoError(t, unix.Kill(s.PID(), unix.SIGCONT))
	require.Eventually(t, atPrompt, patience, time.Millisecond)
}

func TestEndOfALaunchedProgram(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	s := open(t, launchedSpec(t, "launcher", "sh", "-c", "exit 137"))
	<-s.Exited()
	assert.Equal(t, backend.ExitStatus{Code: code(137)}, s.ExitStatus())

	s = open(t, launchedSpec(t, "launcher", "sh", "-c", "kill -9 $$"))
	<-s.Exited()
	if got := s.ExitStatus(); got.Code == nil { // Linux 6.15
		assert.Equal(t, backend.ExitStatus{Signal: "SIGKILL"}, got)
	} else {
		assert.Equal(t, 137, *got.Code)
	}
}

// Nothing is left of a launched program's tree, nor of its launcher.
func TestTeardownOfALaunchedProgram(t *testing.T) {
	t.Parallel()
	s := open(t, launchedSpec(t, "launcher", "sh", "-c", `setsid sh -c 'echo pid=$$=; exec sleep 1000' & sleep 1000`))
	var orphan int
	eventually(t, func() bool {
		_, rest, _ := strings.Cut(s.output(), "pid=")
		number, _, whole := strings.Cut(rest, "=")
		orphan, _ = strconv.Atoi(number)
		return whole && orphan > 0
	}, "the orphan's number")
	require.NoError(t, s.Terminate(context.Background(), time.Second))
	for _, pid := range []int{orphan, s.PID(), s.proc.Pid} {
		assert.True(t, gone(pid), "%d", pid)
	}
}

func TestLauncherThatFails(t *testing.T) {
	t.Parallel()
	_, err := newDriver(t).Start(context.Background(), launchedSpec(t, "failing-launcher"))
	assert.ErrorContains(t, err, "sandbox: it is broken")
	_, err = newDriver(t).Start(context.Background(), launchedSpec(t, "launcher", "/no/such/program"))
	assert.ErrorContains(t, err, "no such file or directory")

	s := open(t, launchedSpec(t, "dying-launcher"))
	s.shows(t, "launcher: no namespaces here")
	assert.Equal(t, 1, *s.ends(t).Code)

	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, late)
	defer cancel()
	_, err = newDriver(t).Start(ctx, launchedSpec(t, "hanging-launcher"))
	assert.ErrorIs(t, err, late)
}
