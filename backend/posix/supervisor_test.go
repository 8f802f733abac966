//go:build linux || darwin

package posix

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

func goroutines() int { return runtime.NumGoroutine() }

func (s *supervisor) running() *guardian {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func init() {
	// A host that opens a shell with daemons of every kind and a folder, says so
	// and waits to be killed.
	roles["host"] = func() {
		d, err := New(Options{})
		if err != nil {
			panic(err)
		}
		spec := specOf("bash", "-c", os.Args[1])
		spec.Env = append(spec.Env, "F="+os.Args[2])
		spec.Remove = []string{os.Args[3], "/nonexistent/folder"}
		dev, err := d.Start(context.Background(), spec)
		if err != nil {
			panic(err)
		}
		for host.running() == nil {
			time.Sleep(tick)
		}
		if _, err := dev.Write(context.Background(), []byte("go\n")); err != nil {
			panic(err)
		}
		fmt.Println(dev.PID(), host.running().proc.Pid)
		buf := make([]byte, 1024)
		for {
			if _, err := dev.Read(buf); err != nil {
				return
			}
		}
	}
	roles["ignored"] = func() {
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGTERM)
		d, err := New(Options{})
		if err != nil {
			panic(err)
		}
		dev, err := d.Start(context.Background(), specOf("sh", "-c", "grep SigIgn /proc/self/status; yes | head -n1; trap 'exit 7' HUP; kill -HUP $$; sleep 300"))
		if err != nil {
			panic(err)
		}
		buf := make([]byte, 4096)
		for {
			n, err := dev.Read(buf)
			os.Stdout.Write(buf[:n])
			if err != nil {
				break
			}
		}
		fmt.Println("exit", *dev.ExitStatus().Code)
		fmt.Println("host", len(ignoredSignals()))
		if err := dev.Terminate(context.Background(), time.Second); err != nil {
			panic(err)
		}
	}
}

// What the host ignores its programs do not.
//
// Case: A31b, T43
func TestIgnoredSignalsAreReset(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the test reads the dispositions from /proc")
	}
	cmd := rerun(t, "ignored")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "SigIgn:\t0000000000000000\r\ny\r\nexit 7\nhost 8\n", string(out))
}

func TestIgnoredUnderNohup(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the test reads the dispositions from /proc")
	}
	requires(t, "nohup")
	again := rerun(t, "ignored")
	cmd := exec.Command("nohup", again.Args...)
	cmd.Env = again.Env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "SigIgn:\t0000000000000000\r\ny\r\nexit 7\nhost 8\n")
}

// Nothing outlives a host that is killed, its private folder included.
//
// Case: A31, reference 3.3 #78
func TestHostDeath(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("daemons without an environment of ours are a documented gap elsewhere")
	}
	// A shell gets its commands once it has been started, resource limit included.
	const scripts = `
read go
spawn='echo $$ >>"$0"; exec sleep 300'
sh -c "$spawn" "$F" &
nohup sh -c "$spawn" "$F" >/dev/null 2>&1 &
(setsid sh -c "$spawn" "$F" </dev/null >/dev/null 2>&1 &)
(env -i setsid sh -c "$spawn" "$F" </dev/null >/dev/null 2>&1 &)
(trap '' HUP TERM; sh -c 'echo $$ >>"$0"; while :; do sleep 0.05; done' "$F" </dev/null >/dev/null 2>&1 &)
sh -c "$spawn" "$F"; echo more >>"$F.more"`
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			private := filepath.Join(dir, "private folder")
			require.NoError(t, os.MkdirAll(filepath.Join(private, "inner"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(private, "inner", "file"), nil, 0o600))
			file := filepath.Join(dir, "pids")

			cmd := rerun(t, "host", scripts, file, private)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			line, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err)
			var shell, guard int
			_, err = fmt.Sscan(line, &shell, &guard)
			require.NoError(t, err)
			pids := append(numbers(t, file, 6), shell, guard)

			require.NoError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()
			for _, pid := range pids {
				eventually(t, func() bool { return gone(pid) }, "%d to end (supervisor is %d)", pid, guard)
			}
			assert.NoDirExists(t, private)
			assert.NoFileExists(t, file+".more")
			assert.FileExists(t, file, "nothing else is removed")
		})
	}
}

// A host that closes everything leaves no supervisor.
func TestSupervisorEndsWithLastTerminal(t *testing.T) {
	one, two := open(t, specOf("cat")), open(t, specOf("cat"))
	eventually(t, func() bool { return host.running() != nil }, "a supervisor")
	guard := host.running().proc.Pid
	require.NoError(t, one.Terminate(context.Background(), time.Second))
	assert.False(t, gone(guard))
	require.NoError(t, two.Terminate(context.Background(), time.Second))
	eventually(t, func() bool { return gone(guard) }, "the supervisor to end")
	assert.Nil(t, host.running())
}

// The supervisor is apart from the host: its own session, no descriptors but
// its pipe, none of the host's environment.
func TestSupervisorIsApart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test looks into /proc")
	}
	open(t, specOf("cat"))
	eventually(t, func() bool { return host.running() != nil }, "a supervisor")
	guard := host.running().proc.Pid
	eventually(t, func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guard))
		return err == nil && strings.HasPrefix(string(data), "shellstead-supervisor\x00")
	}, "it to run")
	p, err := systemTable().lookup(guard)
	require.NoError(t, err)
	assert.Equal(t, guard, p.sid)
	assert.Equal(t, guard, p.pgid)
	assert.Zero(t, p.tty)
	var fds []string
	eventually(t, func() bool { // the loader of its program opens some for a moment
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", guard))
		fds = nil
		for _, e := range entries {
			fds = append(fds, e.Name())
		}
		return err == nil && slices.Equal(fds, []string{"0", "1", "2"})
	}, "descriptors 0 to 2 alone")
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", guard))
	require.NoError(t, err)
	assert.NotContains(t, string(env), "HOME=")
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		eventually(t, func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
			return err == nil && parseIgnoredBit(status, sig)
		}, "%v to be ignored", sig)
	}
}

func parseIgnoredBit(status []byte, sig syscall.Signal) bool {
	for line := range strings.Lines(string(status)) {
		var mask uint64
		if _, err := fmt.Sscanf(line, "SigIgn: %x", &mask); err == nil {
			return mask&(1<<(sig-1)) != 0
		}
	}
	return false
}

func TestSupervisorEnvironment(t *testing.T) {
	got := supervisorEnv([]string{"HOME=/root", "API_KEY=x", markPrefix + "ab=1", "PATH=/evil"})
	assert.Equal(t, []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C", markPrefix + "ab=1"}, got)
}

// A supervisor that dies harms no terminal and is replaced at the next start.
func TestSupervisorIsReplaced(t *testing.T) {
	one := open(t, specOf("cat"))
	eventually(t, func() bool { return host.running() != nil }, "a supervisor")
	first := host.running()
	require.NoError(t, first.proc.Kill())
	eventually(t, func() bool { return host.running() == nil }, "its end to be seen")
	open(t, specOf("cat"))
	eventually(t, func() bool { return host.running() != nil }, "another supervisor")
	assert.NotEqual(t, first.proc.Pid, host.running().proc.Pid)
	assert.False(t, one.hasExited())
}

// A stopped supervisor takes no messages. It is given up without being taken
// for a dead host's.
func TestSupervisorThatDoesNotRead(t *testing.T) {
	one := open(t, specOf("cat"))
	eventually(t, func() bool { return host.running() != nil }, "a supervisor")
	guard := host.running()
	require.NoError(t, guard.proc.Signal(syscall.SIGSTOP))
	host.mu.Lock()
	for host.current == guard {
		host.tell("run nothing " + strings.Repeat("x", 4000) + " 1")
	}
	host.mu.Unlock()
	assert.True(t, gone(guard.proc.Pid))
	one.types(t, "alive\n")
	one.shows(t, "alive\r\nalive")
}

// The script keeps to what every /bin/sh has.
func TestSupervisorScript(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test is about the script for /proc")
	}
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			requires(t, shell[0])
			dir := t.TempDir()
			folder := filepath.Join(dir, "one *;$(x) folder")
			kept := filepath.Join(dir, "kept")
			require.NoError(t, os.Mkdir(folder, 0o700))
			require.NoError(t, os.Mkdir(kept, 0o700))
			mark, closed := newMark(), newMark()
			victim := func(env ...string) *exec.Cmd {
				cmd := exec.Command("sleep", "300")
				cmd.Env = append(slices.Clone(env), "NOTE=two\nlines")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				require.NoError(t, cmd.Start())
				return cmd
			}
			// The leader is the oldest: what it starts is younger.
			leader, marked, stranger, released := victim(), victim("A=b", mark+"=1"), victim(), victim(closed+"=1")
			defer func() {
				for _, cmd := range []*exec.Cmd{marked, leader, stranger, released} {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}
			}()
			p, err := systemTable().lookup(leader.Process.Pid)
			require.NoError(t, err)
			q, err := systemTable().lookup(stranger.Process.Pid)
			require.NoError(t, err)

			cmd := exec.Command(shell[0], append(shell[1:], "-c", supervisorScript)...)
			cmd.Env = []string{"PATH=/usr/bin:/bin"}
			cmd.Stdin = strings.NewReader(strings.Join([]string{
				"add " + closed, "dir " + closed + " " + kept, fmt.Sprintf("run %s %d %d", closed, q.pid, q.start), "del " + closed,
				"add " + mark, "dir " + mark + " " + folder,
				"run " + mark + " " + fmt.Sprint(p.pid, " ", startName(p.identity)),
				"add " + closed + "2", fmt.Sprintf("run %s2 %d %d", closed, q.pid, q.start+1), // a recycled number
			}, "\n") + "\n")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.True(t, gone(marked.Process.Pid), "found by its mark")
			assert.True(t, gone(leader.Process.Pid), "found by its number")
			assert.False(t, gone(stranger.Process.Pid), "the start time tells")
			assert.False(t, gone(released.Process.Pid), "its terminal was closed")
			assert.NoDirExists(t, folder)
			assert.DirExists(t, kept)
		})
	}
}

var _ backend.Device = (*device)(nil)
