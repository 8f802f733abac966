package posix

import (
	"bytes"
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

// What programs look like while they wait for a line, a key or a secret.
//
// Case: A9, P1, P3, P4, P8
func TestInputWaitReading(t *testing.T) {
	t.Parallel()
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
		{"python epoll with a limit", "python3", specOf("python3", "-c", "import select; e = select.epoll(); e.register(0, 1); e.poll(300)"), "python3", false},
		{"python epoll again and again", "python3", specOf("python3", "-c", "import select; e = select.epoll(); e.register(0, 1)\nwhile not e.poll(0.9): pass"), "python3", true},
		{"python epoll in epoll", "python3", specOf("python3", "-c", "import select; e = select.epoll(); e.register(0, 1); f = select.epoll(); f.register(e, 1); f.poll()"), "python3", false},
		{"python poll of epoll", "python3", specOf("python3", "-c", "import select; e = select.epoll(); e.register(0, 1); p = select.poll(); p.register(e, 1); p.poll()"), "python3", false},
		{"python splice", "python3", specOf("python3", "-c", "import os, ctypes; ctypes.CDLL(None).splice(0, None, os.pipe()[1], None, ctypes.c_size_t(100), 0)"), "python3", false},
		{"python without its first thread", "python3", shSpec(`python3 -c "$1"; exit`, firstThreadEnds), "python3", false},
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
			t.Parallel()
			requires(t, tt.program)
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

// firstThreadEnds is a program that goes on in its other thread.
const firstThreadEnds = `
import ctypes, os, sys, threading
threading.Thread(target=sys.stdin.readline).start()
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)`

// What must not be taken for waiting.
//
// Case: P4, P5, P8, P10
func TestInputWaitBusy(t *testing.T) {
	t.Parallel()
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
		// n_tty stops a job that reads in the background, but lets it wait.
		{"job in the background", "python3", specOf("bash", "-c", `set -m; python3 -c 'import select; print("ready", flush=True); select.select([0], [], [])' & set +m; while :; do :; done`)},
		{"script without a reader", "script", shSpec("script -qc 'echo rea\"\"dy; sleep 300' /dev/null; exit")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			requires(t, tt.program)
			s := open(t, tt.spec)
			s.shows(t, "ready")
			s.waits(t, backend.WaitBusy)
			s.never(t, backend.WaitReading)
		})
	}
}

// What may be a wait for the terminal, but cannot be seen to be one.
func TestInputWaitUnknown(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script string }{
		// Its lock may be released, and its ring filled, by anybody.
		{"futex", "import threading; l = threading.Lock(); l.acquire(); print('ready', flush=True); l.acquire()"},
		// Case: A11
		// A client of a server elsewhere passes on what it reads.
		{"connection", `
import select, socket
a = socket.create_server(('127.0.0.1', 0))
b = socket.create_connection(a.getsockname())
print('ready', flush=True)
select.select([0, b], [], [])`},
		{"connection in an epoll set", `
import select, socket
a = socket.create_server(('127.0.0.1', 0))
b = socket.create_connection(a.getsockname())
e = select.epoll()
e.register(b, 1)
e.register(0, 1)
print('ready', flush=True)
e.poll()`},
		// docker and kubectl read in one thread and have the connection in another.
		{"connection of a transparent terminal", `
import os, socket, tty
a, b = socket.socketpair()
tty.setraw(0)
os.write(1, b'ready')
os.read(0, 1)`},
		{"epoll within epoll within epoll", `
import select
inner = select.epoll()
inner.register(0, 1)
for _ in range(3):
    outer = select.epoll()
    outer.register(inner, 1)
    inner, kept = outer, inner
    globals()[str(outer)] = kept
print('ready', flush=True)
inner.poll()`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			requires(t, "python3")
			s := open(t, specOf("python3", "-c", tt.script))
			s.shows(t, "ready")
			s.waits(t, backend.WaitUnknown)
			s.never(t, backend.WaitReading)
		})
	}
}

// program compiles a C program.
func program(t *testing.T, source string, flags ...string) string {
	t.Helper()
	requires(t, "gcc")
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "r.c"), filepath.Join(dir, "r")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	if out, err := exec.Command("gcc", append(flags, "-o", binary, file)...).CombinedOutput(); err != nil {
		t.Skipf("this compiler does not make the program: %s", out)
	}
	return binary
}

// While nothing moves the answer is not looked for again; whatever begins to
// move is seen by the next probe.
func TestInputWaitAfterStillness(t *testing.T) {
	t.Parallel()
	requires(t, "bash", "python3")
	for name, tt := range map[string]struct {
		script string
		move   func(t *testing.T, s *screen)
		want   backend.WaitState
	}{
		"reads":                  {"read x <&3; read y", tell, backend.WaitReading},
		"child reads":            {"(read x <&3; read y); exit", tell, backend.WaitReading},
		"starts a reader":        {"read x <&3; cat; exit", tell, backend.WaitReading},
		"replaces itself":        {"read x <&3; exec cat", tell, backend.WaitReading},
		"other group reads":      {"set -m; (read x <&3; read y); exit", tell, backend.WaitReading},
		"job comes to the front": {"set -m; python3 -c 'import select; select.select([0], [], [])' & read x <&3; fg", tell, backend.WaitReading},
		"stops": {"read x <&3", func(t *testing.T, s *screen) {
			require.NoError(t, unix.Kill(s.PID(), unix.SIGSTOP))
		}, backend.WaitStopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, withChannel(specOf("bash", "-c", tt.script)))
			eventually(t, func() bool {
				w, err := s.InputWait()
				require.NoError(t, err)
				return w.State == backend.WaitBusy && s.probe.still.lasts()
			}, "the program to rest")
			tt.move(t, s)
			s.waits(t, tt.want)
			assert.False(t, s.probe.still.holds)
		})
	}
}

// tell lets a program with a channel go on.
func tell(t *testing.T, s *screen) {
	t.Helper()
	_, err := s.Channel().Write([]byte("go\n"))
	require.NoError(t, err)
}

// An io_uring holds reads that no system call names, whether its program waits
// for the ring itself or by way of an epoll set.
//
// Case: P14, A7
func TestInputWaitOfRing(t *testing.T) {
	t.Parallel()
	const source = `
#include <linux/io_uring.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
	struct io_uring_params p;
	static char buf[64];
	memset(&p, 0, sizeof p);
	int ring = syscall(SYS_io_uring_setup, 4, &p);
	if (ring < 0) { puts("refused"); fflush(stdout); pause(); }
	char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	struct io_uring_sqe *e = mmap(0, p.sq_entries * sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	memset(e, 0, sizeof *e);
	e->opcode = IORING_OP_READ;
	e->flags = argv[1][0] == 'a' ? IOSQE_ASYNC : 0;
	e->addr = (unsigned long)buf;
	e->len = sizeof buf;
	*(unsigned *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0);
	puts("ready");
	fflush(stdout);
	if (argv[1][0] == 'e') {
		struct epoll_event v = { .events = EPOLLIN };
		int set = epoll_create1(0);
		epoll_ctl(set, EPOLL_CTL_ADD, ring, &v);
		epoll_wait(set, &v, 1, -1);
	} else if (argv[1][0] == 'p') {
		struct pollfd f = { ring, POLLIN, 0 };
		poll(&f, 1, -1);
	} else {
		syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	}
	return 0;
}`
	binary := program(t, source)
	for _, how := range []string{"enter", "async", "poll", "epoll"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := open(t, specOf(binary, map[string]string{"enter": "w", "async": "a", "poll": "p", "epoll": "e"}[how]))
			eventually(t, func() bool { return strings.Contains(s.output(), "re") }, "the ring")
			if strings.Contains(s.output(), "refused") {
				t.Skip("this kernel gives no io_uring")
			}
			s.waits(t, backend.WaitUnknown)
			s.never(t, backend.WaitReading)
			s.types(t, "x\n")
			assert.Equal(t, code(0), s.ends(t).Code, "it did read")
		})
	}
}

// A stopped program still shows the call that it was stopped in.
//
// Case: P6, P12, A4b
func TestInputWaitStopped(t *testing.T) {
	t.Parallel()
	s := open(t, shSpec("cat; exit"))
	w := s.waits(t, backend.WaitReading)
	require.NoError(t, unix.Kill(w.PID, unix.SIGSTOP))
	stopped := s.waits(t, backend.WaitStopped)
	assert.Equal(t, "cat", stopped.Program)
	s.never(t, backend.WaitReading)
	require.NoError(t, unix.Kill(w.PID, unix.SIGCONT))
	s.waits(t, backend.WaitReading)
}

// After a stop poll goes on as restart_syscall.
//
// Case: A4
func TestInputWaitAfterRestart(t *testing.T) {
	t.Parallel()
	requires(t, "python3")
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

// A reader whose parent has ended is found in the process table.
//
// Case: A10
func TestInputWaitOrphan(t *testing.T) {
	t.Parallel()
	s := open(t, shSpec("(cat </dev/tty & echo rea''dy); sleep 300"))
	s.shows(t, "ready")
	w := s.waits(t, backend.WaitReading)
	assert.Equal(t, "cat", w.Program)
}

// The shell is at its prompt; its stopped job waits for nothing.
//
// Case: P6
func TestInputWaitWithBackgroundReader(t *testing.T) {
	t.Parallel()
	s := open(t, bashSpec())
	s.readsShell(t)
	s.types(t, "set -b; cat &\n")
	s.shows(t, "Stopped")
	w := s.waits(t, backend.WaitReading)
	assert.Equal(t, s.PID(), w.PID)
}

// A 32-bit program counts its calls differently.
//
// Case: P13, A3
func TestInputWaitOf32BitProgram(t *testing.T) {
	t.Parallel()
	binary := program(t, `
void _start(void) {
	char c;
	long r;
	for (;;) __asm__ volatile("int $0x80" : "=a"(r) : "a"(3), "b"(0), "c"(&c), "d"(1) : "memory");
}`, "-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie")
	check := exec.Command(binary)
	if err := check.Start(); err != nil {
		t.Skipf("this kernel runs no 32-bit programs: %v", err)
	}
	require.NoError(t, check.Process.Kill())
	_ = check.Wait()
	s := open(t, shSpec(binary+"; exit"))
	assert.Equal(t, "r", s.waits(t, backend.WaitReading).Program)
	direct := open(t, specOf(binary))
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
		asked := make(chan struct{}) // for the password
		go func() {
			var text []byte
			buf := make([]byte, 1024)
			for {
				n, err := dev.Read(buf)
				if err != nil {
					return
				}
				seen := bytes.Contains(text, []byte("Password"))
				if text = append(text, buf[:n]...); !seen && bytes.Contains(text, []byte("Password")) {
					close(asked)
				}
			}
		}()
		select {
		case <-asked:
		case <-time.After(patience):
		}
		within := patience // of its question it is seen to wait, or never
		if os.Getenv("EXPECT") != "reading" {
			within = 300 * time.Millisecond
		}
		state, program := backend.WaitUnknown, ""
		for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(tick) {
			w, err := dev.InputWait()
			if err != nil {
				panic(err)
			}
			state, program = w.State, w.Program
			if state == backend.WaitReading {
				break
			}
		}
		_, calls := os.ReadFile(procPath(dev.PID(), "syscall"))
		err = dev.Terminate(context.Background(), time.Second)
		os.Stdout.WriteString(stateNames[state] + " " + program)
		if calls != nil {
			os.Stdout.WriteString(" hidden")
		}
		if err != nil {
			os.Stdout.WriteString(" " + err.Error())
		}
	}
}

// A set-uid program hides its calls; its password prompt shows in the
// terminal's modes, where the terminal had echo before.
//
// Case: P2, A2, A12
func TestInputWaitOfSetuidProgram(t *testing.T) {
	t.Parallel()
	requires(t, "su")
	for echo, want := range map[string]string{"1": "reading su hidden", "0": "unknown  hidden"} {
		cmd := unprivileged(t)
		expected, _, _ := strings.Cut(want, " ")
		cmd.Env = append(cmd.Env, "ECHO="+echo, "EXPECT="+expected, roleVariable+"=su")
		cmd.Stderr = os.Stderr // a coverage build warns there
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, want, string(out))
	}
}

// Where /proc hides other users' processes, and even a folder of one is not
// there.
//
// Case: A2c
func TestInputWaitWithHiddenProcesses(t *testing.T) {
	t.Parallel()
	requires(t, "su", "unshare", "mount")
	for _, hide := range []string{"1", "2"} {
		t.Run("hidepid="+hide, func(t *testing.T) {
			t.Parallel()
			plain := unprivileged(t)
			if err := exec.Command("unshare", "-m", "mount", "-t", "proc", "-o", "hidepid="+hide, "proc", "/proc").Run(); err != nil {
				t.Skipf("a private /proc cannot be mounted here: %v", err)
			}
			args := append([]string{"-m", "sh", "-c", `mount -t proc -o hidepid="$0" proc /proc && exec "$@"`, hide}, plain.Args...)
			cmd := exec.Command("unshare", args...)
			cmd.Env = append(plain.Env, "ECHO=1", "EXPECT=unknown", roleVariable+"=su")
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			require.NoError(t, err, "%s", out)
			assert.Equal(t, "unknown  hidden", string(out))

			cmd = exec.Command("unshare", append(args, "-test.run=^TestInputWait(Reading|Busy)$/^(read|cat|script)")...)
			cmd.Env = plain.Env
			out, err = cmd.CombinedOutput()
			require.NoError(t, err, "one's own programs show: %s", out)
		})
	}
}

func TestShellWait(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// A reader in a thread of its own, and a read that is timed by the terminal's
// modes.
//
// Case: S26
func TestShellWaitOfThread(t *testing.T) {
	t.Parallel()
	requires(t, "python3")
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

// A stopped shell is stopped, not running.
//
// Case: T35
func TestShellWaitStopped(t *testing.T) {
	s := open(t, bashSpec())
	s.readsTerminal(t)
	require.NoError(t, unix.Kill(s.PID(), unix.SIGSTOP))
	eventually(t, func() bool { w, err := s.ShellWait(); return err == nil && w.State == backend.WaitStopped }, "the stop")
	require.NoError(t, unix.Kill(s.PID(), unix.SIGCONT))
	s.readsTerminal(t)
}

// The files decide, not their numbers.
//
// Case: A8
func TestShellWaitAfterRedirection(t *testing.T) {
	t.Parallel()
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
