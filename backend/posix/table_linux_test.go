package posix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// crowd forks as many processes as its argument says, which wait for ever.
const crowd = `
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv) {
	for (int i = atoi(argv[1]); i > 0; i--)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, 9);
			for (;;) pause();
		}
	puts("ready");
	fflush(stdout);
	for (;;) pause();
}`

// cost is the processor time that one call of f takes, on average over a while.
func cost(f func()) (each time.Duration) {
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	const while = 300 * time.Millisecond
	n := 0
	for began := time.Now(); time.Since(began) < while; n++ {
		f()
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	return time.Duration(spent / int64(n))
}

// A process table of thousands does not make the question expensive.
func TestInputWaitInACrowdSoak(t *testing.T) {
	binary := program(t, crowd)
	many := strconv.Itoa(samples(5000))
	s := open(t, shSpec("sleep 300; exit"))
	s.waits(t, backend.WaitBusy)
	ask := func(s *screen) func() {
		return func() {
			w, err := s.InputWait()
			require.NoError(t, err)
			require.Equal(t, backend.WaitBusy, w.State)
		}
	}
	alone := cost(ask(s))

	others := open(t, shSpec(binary+" "+many+" & sleep 300; exit"))
	others.shows(t, "ready")
	among := cost(ask(s))
	t.Logf("a scan takes %v", s.probe.scanCost)
	began := time.Now()
	require.NoError(t, others.Terminate(context.Background(), time.Second))
	t.Logf("they end in %v", time.Since(began))

	beside := open(t, specOf("bash", "-c", "set -m; "+binary+" "+many+" & set +m; sleep 300; exit"))
	beside.shows(t, "ready")
	jobs := cost(ask(beside))

	t.Logf("alone %v, among %s others %v, beside as many in background jobs %v", alone, many, among, jobs)
	assert.Less(t, among, 5*alone+time.Millisecond)
	assert.Less(t, jobs, 50*alone+20*time.Millisecond)
}

func init() {
	roles["recycle"] = func() {
		if err := recycle(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("unharmed")
	}
}

// recycle runs where process ids come round after a hundred: a program goes on
// forking what is looked at, and its host starts processes that get the ids of
// those. They have to live through the end of the program's terminal.
func recycle() error {
	driver, err := New(Options{})
	if err != nil {
		return err
	}
	started, err := driver.Start(context.Background(), shSpec("while :; do (sleep 0.01 &); sleep 0.02; done"))
	if err != nil {
		return err
	}
	dev := started.(*device)
	go func() { _, _ = io.Copy(io.Discard, dev) }()

	const enough = 20
	var strangers []*exec.Cmd
	defer func() {
		for _, cmd := range strangers {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	var meant []identity // whose ids the strangers have
	for deadline := time.Now().Add(patience); len(strangers) < enough; {
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d ids came round", len(strangers))
		}
		if _, err := dev.InputWait(); err != nil {
			return err
		}
		cmd := exec.Command("sleep", "300")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		if id, ok := dev.family.had(cmd.Process.Pid); ok {
			strangers, meant = append(strangers, cmd), append(meant, id)
			continue
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for _, id := range meant {
		if err := systemTable().signal(id, unix.SIGKILL); !errors.Is(err, errGone) {
			return fmt.Errorf("a signal to %v, which has ended: %w", id, err)
		}
	}
	if err := dev.Terminate(context.Background(), time.Second); err != nil {
		return err
	}
	for _, cmd := range strangers {
		if gone(cmd.Process.Pid) {
			return fmt.Errorf("%d was none of the program's", cmd.Process.Pid)
		}
	}
	return nil
}

// had tells whether a member once had a process id.
func (f *family) had(pid int) (identity, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.seen {
		if id.pid == pid {
			return id, true
		}
	}
	return identity{}, false
}

// The same with a real process table.
//
// Case: reference 3.3 #73
func TestRecycledIDsAreNobodys(t *testing.T) {
	t.Parallel()
	requires(t, "unshare", "mount")
	if os.Getuid() != 0 {
		t.Skip("a namespace of process ids takes root")
	}
	// Before Linux 6.14 the limit is the whole system's.
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	require.NoError(t, err)
	if major < 6 || major == 6 && minor < 14 {
		t.Skip("this kernel does not limit the process ids of one namespace")
	}
	before, err := os.ReadFile("/proc/sys/kernel/pid_max")
	require.NoError(t, err)
	again := rerun(t, "recycle")
	cmd := exec.Command("unshare", append([]string{"--pid", "--fork", "--mount-proc", "sh", "-c", `echo 400 >/proc/sys/kernel/pid_max && "$@"; exit`, "sh"}, again.Args...)...)
	cmd.Env = again.Env
	out, err := cmd.CombinedOutput()
	after, readErr := os.ReadFile("/proc/sys/kernel/pid_max")
	require.NoError(t, readErr)
	require.Equal(t, string(before), string(after))
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "unharmed")
}
