package posix

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// waits waits until InputWait reports the state, and returns the evidence.
func (s *screen) waits(t testing.TB, state backend.WaitState) backend.Wait {
	t.Helper()
	var w backend.Wait
	eventually(t, func() bool {
		var err error
		w, err = s.InputWait()
		return err == nil && w.State == state
	}, "state %d (last: %+v, output %q)", state, &w, s.output())
	return w
}

// never checks that InputWait does not report a state while the program is in
// the one situation that ready has established.
func (s *screen) never(t testing.TB, state backend.WaitState) {
	t.Helper()
	for range 50 {
		w, err := s.InputWait()
		require.NoError(t, err)
		require.NotEqual(t, state, w.State, "%+v", w)
		time.Sleep(tick)
	}
}

// platform A9, P1–P10: what programs look like while they wait for a line, a
// key or a secret.
func TestInputWaitReading(t *testing.T) {
	tests := []struct {
		name    string
		program string // what must be installed
		spec    backend.Spec
		waiter  string
		timed   bool
	}{
		{"read", "bash", specOf("bash", "-c", "read x"), "bash", false},
		{"read with a limit", "bash", specOf("bash", "-c", "read -t 300 x"), "bash", true},
		{"read a key", "bash", specOf("bash", "-c", "read -n1 x"), "bash", false},
		{"read a secret", "bash", specOf("bash", "-c", "read -s -p pass: x"), "bash", false},
		{"read -e", "bash", specOf("bash", "-c", "read -e x"), "bash", false},
		{"read from /dev/tty", "bash", specOf("bash", "-c", "exec 3</dev/tty; read -u 3 x"), "bash", false},
		{"select", "bash", specOf("bash", "-c", "select x in a b; do :; done"), "bash", false},
		{"sh read", "sh", shSpec("read x"), "sh", false},
		{"cat", "cat", shSpec("cat; exit"), "cat", false},
		{"script of a script", "cat", shSpec("sh -c 'cat; exit'; exit"), "cat", false},
		{"python input", "python3", specOf("python3", "-c", "input('? ')"), "python3", false},
		{"python getpass", "python3", specOf("python3", "-c", "import getpass; getpass.getpass()"), "python3", false},
		{"python thread", "python3", specOf("python3", "-c", "import threading, sys, time; threading.Thread(target=sys.stdin.readline).start(); time.sleep(300)"), "python3", false},
		{"python poll", "python3", specOf("python3", "-c", "import select; p = select.poll(); p.register(0, 1); p.poll()"), "python3", false},
		{"python poll with a limit", "python3", specOf("python3", "-c", "import select; p = select.poll(); p.register(0, 1); p.poll(300000)"), "python3", true},
		{"python select", "python3", specOf("python3", "-c", "import select; select.select([0], [], [])"), "python3", false},
		{"python epoll", "python3", specOf("python3", "-c", "import select; e = select.epoll(); e.register(0, 1); e.poll()"), "python3", false},
		{"python epoll in epoll", "python3", specOf("python3", "-c", "import select; e = select.epoll(); e.register(0, 1); f = select.epoll(); f.register(e, 1); f.poll()"), "python3", false},
		{"python epoll on /dev/tty", "python3", specOf("python3", "-c", "import select; t = open('/dev/tty'); e = select.epoll(); e.register(t, 1); e.poll()"), "python3", false},
		{"perl", "perl", specOf("perl", "-e", "<STDIN>"), "perl", false},
		{"node", "node", specOf("node", "-i"), "node", false},
		{"less", "less", shSpec("seq 1000 | less; exit"), "less", false},
		{"gdb", "gdb", specOf("gdb", "-q", "-nx"), "gdb", false},
		{"other session", "setsid", shSpec("setsid -w cat; exit"), "cat", false},
		{"script with a reader", "script", shSpec("script -qc 'cat; exit' /dev/null; exit"), "cat", false},
		{"script in a script", "script", shSpec("script -qc 'script -qc cat /dev/null; exit' /dev/null; exit"), "cat", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.program)
			s := open(t, tt.spec)
			var w backend.Wait
			eventually(t, func() bool { // node starts with timers of its own
				w = s.waits(t, backend.WaitReading)
				return w.Timed == tt.timed
			}, "a read with limit: %v", tt.timed)
			assert.True(t, strings.HasPrefix(w.Program, tt.waiter), "%s", w.Program)
			assert.NotZero(t, w.PID)
			assert.NotZero(t, w.Turns)
			assert.False(t, w.Channel)
			same, err := s.InputWait()
			require.NoError(t, err)
			assert.Equal(t, w.Site, same.Site, "nobody has typed")
		})
	}
}

// platform P4, P5, P8, P10: what must not be taken for waiting.
func TestInputWaitBusy(t *testing.T) {
	tests := []struct {
		name    string
		program string
		spec    backend.Spec
	}{
		{"sleep", "sleep", shSpec("echo rea''dy; sleep 300")},
		{"loop", "sh", shSpec("echo rea''dy; while :; do :; done")},
		{"cat at a pipe", "cat", shSpec("echo rea''dy; sleep 300 | cat")},
		{"tail", "tail", shSpec("echo rea''dy; tail -f /dev/null")},
		{"node timer", "node", specOf("node", "-e", "console.log('ready'); setTimeout(() => {}, 1e6)")},
		{"python writer", "python3", specOf("python3", "-c", "import select; print('ready', flush=True); select.select([], [], [0], 300)")},
		{"python poll for output", "python3", specOf("python3", "-c", "import select, os; r, w = os.pipe(); p = select.poll(); p.register(r, 1); p.register(0, 0); print('ready', flush=True); p.poll()")},
		{"script without a reader", "script", shSpec("script -qc 'echo rea\"\"dy; sleep 300' /dev/null; exit")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.program)
			s := open(t, tt.spec)
			s.shows(t, "ready")
			s.waits(t, backend.WaitBusy)
			s.never(t, backend.WaitReading)
		})
	}
}

// platform P6, P12, A4b: a stopped program still shows the call that it was
// stopped in.
func TestInputWaitStopped(t *testing.T) {
	s := open(t, shSpec("cat; exit"))
	w := s.waits(t, backend.WaitReading)
	require.NoError(t, unix.Kill(w.PID, unix.SIGSTOP))
	stopped := s.waits(t, backend.WaitStopped)
	assert.Equal(t, "cat", stopped.Program)
	s.never(t, backend.WaitReading)
	require.NoError(t, unix.Kill(w.PID, unix.SIGCONT))
	s.waits(t, backend.WaitReading)
}

// platform A4: after a stop poll goes on as restart_syscall.
func TestInputWaitAfterRestart(t *testing.T) {
	need(t, "python3")
	for name, busy := range map[string]bool{
		"import select; p = select.poll(); p.register(0, 1); print('ready', flush=True); p.poll(300000)": false,
		"import ctypes; print('ready', flush=True); ctypes.CDLL(None).sleep(300)":                        true,
	} {
		s := open(t, shSpec(`python3 -c "$1"; exit`, name))
		s.shows(t, "ready")
		var pid int
		eventually(t, func() bool {
			for _, child := range childrenOf(s.PID()) {
				pid = child
			}
			st, err := readStat(procPath(pid, "stat"))
			return pid != 0 && err == nil && st.state == 'S'
		}, "python to sleep")
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		s.waits(t, backend.WaitStopped)
		require.NoError(t, unix.Kill(pid, unix.SIGCONT))
		if busy {
			eventually(t, func() bool { st, err := readStat(procPath(pid, "stat")); return err == nil && st.state == 'S' }, "python to sleep on")
			s.never(t, backend.WaitReading)
		} else {
			s.waits(t, backend.WaitReading)
		}
	}
}

// platform A10: a reader whose parent has ended is found in the process table.
func TestInputWaitOrphan(t *testing.T) {
	s := open(t, shSpec("(cat </dev/tty & echo rea''dy); sleep 300"))
	s.shows(t, "ready")
	w := s.waits(t, backend.WaitReading)
	assert.Equal(t, "cat", w.Program)
}

// platform P6: the shell is at its prompt; its stopped job waits for nothing.
func TestInputWaitWithBackgroundReader(t *testing.T) {
	s := open(t, bashSpec())
	s.readsShell(t)
	s.types(t, "set -b; cat &\n")
	s.shows(t, "Stopped")
	w := s.waits(t, backend.WaitReading)
	assert.Equal(t, s.PID(), w.PID)
}

// platform P13, A3: a 32-bit program counts its calls differently.
func TestInputWaitOf32BitProgram(t *testing.T) {
	gcc := need(t, "gcc")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "r.c"), filepath.Join(dir, "r")
	require.NoError(t, os.WriteFile(source, []byte(`
void _start(void) {
	char c;
	long r;
	for (;;) __asm__ volatile("int $0x80" : "=a"(r) : "a"(3), "b"(0), "c"(&c), "d"(1) : "memory");
}`), 0o600))
	if out, err := exec.Command(gcc, "-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-o", program, source).CombinedOutput(); err != nil {
		t.Skipf("this compiler makes no 32-bit programs: %s", out)
	}
	check := exec.Command(program)
	if err := check.Start(); err != nil {
		t.Skipf("this kernel runs no 32-bit programs: %v", err)
	}
	require.NoError(t, check.Process.Kill())
	_ = check.Wait()
	s := open(t, shSpec(program+"; exit"))
	assert.Equal(t, "r", s.waits(t, backend.WaitReading).Program)
	direct := open(t, specOf(program))
	direct.readsTerminal(t)
}

func init() {
	roles["su"] = func() {
		d, err := New(Options{})
		if err != nil {
			panic(err)
		}
		spec := specOf("su", "root", "-c", "true")
		spec.Modes.Echo = os.Getenv("ECHO") == "1"
		dev, err := d.Start(context.Background(), spec)
		if err != nil {
			panic(err)
		}
		go func() {
			buf := make([]byte, 1024)
			for {
				if _, err := dev.Read(buf); err != nil {
					return
				}
			}
		}()
		state, program := backend.WaitUnknown, ""
		for deadline := time.Now().Add(patience / 4); time.Now().Before(deadline); time.Sleep(tick) {
			w, err := dev.InputWait()
			if err == nil && w.State == backend.WaitReading {
				state, program = w.State, w.Program
				break
			}
			if err == nil && w.State == backend.WaitUnknown && os.Getenv("ECHO") != "1" && time.Until(deadline) < patience/4-time.Second {
				break // it has been at its prompt for long
			}
		}
		_, calls := os.ReadFile(procPath(dev.PID(), "syscall"))
		err = dev.Terminate(context.Background(), time.Second)
		os.Stdout.WriteString(map[backend.WaitState]string{backend.WaitReading: "reading ", backend.WaitUnknown: "unknown "}[state] + program)
		if calls != nil {
			os.Stdout.WriteString(" hidden")
		}
		if err != nil {
			os.Stdout.WriteString(" " + err.Error())
		}
	}
}

// platform P2, A2, A12: a set-uid program hides its calls; its password prompt
// shows in the terminal's modes, where the terminal had echo before.
func TestInputWaitOfSetuidProgram(t *testing.T) {
	need(t, "su")
	setpriv := need(t, "setpriv")
	if os.Getuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	open, err := os.MkdirTemp("/var/tmp", "posix") // the build folder is root's
	require.NoError(t, err)
	defer os.RemoveAll(open)
	require.NoError(t, os.Chmod(open, 0o755))
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	copied := filepath.Join(open, "test")
	require.NoError(t, os.WriteFile(copied, binary, 0o755))
	for echo, want := range map[string]string{"1": "reading su hidden", "0": "unknown  hidden"} {
		cmd := exec.Command(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", copied)
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=/usr/bin:/bin", "ECHO=" + echo, roleVariable + "=su", "TMPDIR=/tmp"}
		cmd.Stderr = os.Stderr // a coverage build warns there
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, want, string(out))
	}
}

func TestShellWait(t *testing.T) {
	s := open(t, bashSpec())
	w := s.readsTerminal(t)
	assert.Equal(t, s.PID(), w.PID)
	assert.Equal(t, "bash", w.Program)
	assert.NotZero(t, w.Turns)
	assert.False(t, w.Timed)
	prompt := w.Site

	s.types(t, "sleep 300\n")
	eventually(t, func() bool {
		children := childrenOf(s.PID())
		return len(children) == 1 && commOf(children[0]) == "sleep"
	}, "sleep")
	eventually(t, func() bool { w, err := s.ShellWait(); return err == nil && w.State == backend.WaitBusy }, "the shell to wait for it")
	_, err := s.Signal(context.Background(), "SIGINT")
	require.NoError(t, err)
	after := s.readsTerminal(t)
	assert.Equal(t, prompt, after.Site, "the same line of its code")
	assert.Greater(t, after.Turns, w.Turns)

	s.types(t, "read x\n")
	eventually(t, func() bool {
		w, err := s.ShellWait()
		return err == nil && w.State == backend.WaitReading && w.Site != prompt
	}, "the builtin to read elsewhere")
}

func TestShellWaitOnChannel(t *testing.T) {
	s := open(t, withChannel(shSpec("read x <&3; read y; read z <&3 & wait")))
	w := s.readsTerminal(t)
	assert.True(t, w.Channel)
	_, err := s.Channel().Write([]byte("go\n"))
	require.NoError(t, err)
	eventually(t, func() bool {
		w, err = s.ShellWait()
		return err == nil && w.State == backend.WaitReading && !w.Channel
	}, "a read of the terminal")
	s.types(t, "\n")
	eventually(t, func() bool { w, err := s.ShellWait(); return err == nil && w.State == backend.WaitBusy }, "wait")
}

// pwsh S26: a reader in a thread of its own, and a read that is timed by the
// terminal's modes.
func TestShellWaitOfThread(t *testing.T) {
	need(t, "python3")
	const script = `
import os, sys, termios, threading, time
def read():
    os.read(3, 1)
    mode = termios.tcgetattr(0)
    mode[3] &= ~termios.ICANON
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 100
    termios.tcsetattr(0, termios.TCSANOW, mode)
    os.read(0, 1)
    time.sleep(300)
threading.Thread(target=read).start()
time.sleep(300)`
	s := open(t, withChannel(specOf("python3", "-c", script)))
	w := s.readsTerminal(t)
	assert.True(t, w.Channel)
	assert.NotEqual(t, s.PID(), s.probe.thread.tid, "it is remembered for the next time")
	_, err := s.Channel().Write([]byte("x"))
	require.NoError(t, err)
	eventually(t, func() bool {
		w, err = s.ShellWait()
		return err == nil && w.State == backend.WaitReading && !w.Channel
	}, "a read of the terminal")
	assert.True(t, w.Timed)
	s.types(t, "x")
	eventually(t, func() bool { w, err := s.ShellWait(); return err == nil && w.State == backend.WaitBusy }, "sleep")
}

// platform T35: a stopped shell is stopped, not running.
func TestShellWaitStopped(t *testing.T) {
	s := open(t, bashSpec())
	s.readsTerminal(t)
	require.NoError(t, unix.Kill(s.PID(), unix.SIGSTOP))
	eventually(t, func() bool { w, err := s.ShellWait(); return err == nil && w.State == backend.WaitStopped }, "the stop")
	require.NoError(t, unix.Kill(s.PID(), unix.SIGCONT))
	s.readsTerminal(t)
}

// platform A8: the files decide, not their numbers.
func TestShellWaitAfterRedirection(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	s := open(t, shSpec(`read x; exec 4<&0 0<>"$1"; echo rea''dy; read y; exec 0<&4; read z; exec 5</dev/tty; read w <&5`, fifo))
	s.readsTerminal(t)
	s.types(t, "\n")
	s.shows(t, "ready")
	eventually(t, func() bool { w, err := s.ShellWait(); return err == nil && w.State == backend.WaitBusy }, "a read of the fifo")
	require.NoError(t, os.WriteFile(fifo, []byte("\n"), 0))
	s.readsTerminal(t)
	s.types(t, "\n")
	eventually(t, func() bool {
		w, err := s.ShellWait()
		return err == nil && w.Site[1] == 0 && w.State == backend.WaitReading
	}, "a read of /dev/tty")
}

func TestWaitsOfAnEndedProgram(t *testing.T) {
	s := open(t, shSpec("exit"))
	s.ends(t)
	w, err := s.ShellWait()
	require.NoError(t, err)
	assert.Equal(t, backend.WaitUnknown, w.State)
	_, err = s.InputWait()
	require.Error(t, err, "the terminal is closing")
	require.NoError(t, s.Terminate(context.Background(), time.Second))
	w, err = s.ShellWait()
	require.NoError(t, err)
	assert.Equal(t, backend.WaitUnknown, w.State)
}

func TestExactReadIsProbed(t *testing.T) {
	require.NoError(t, probeExactRead())
}
