package sandbox_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/sandbox"
)

// patience bounds every wait of a test; none takes as long when all is well.
const patience = 30 * time.Second

// terminal is a confined program on a terminal, started as backend.Spec asks.
type terminal struct {
	t      *testing.T
	master *os.File
	proc   *os.Process
	status string        // what the launcher said
	ended  chan struct{} // closed once state is set
	state  *os.ProcessState

	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

// openTerminal makes a terminal. Closing the master ends a Read of it.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	master = os.NewFile(uintptr(fd), "master")
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return master, slave
}

func (c *cage) terminal(t *testing.T, mode sandbox.Mode, s backend.Spec, channel *os.File) *terminal {
	t.Helper()
	s.Rows, s.Cols, s.Dir = 24, 80, c.workspace
	s = c.wrap(t, mode, s)
	master, slave := openTerminal(t)
	defer slave.Close()
	files := []*os.File{slave, slave, slave}
	if channel != nil || s.Launched {
		files = append(files, channel)
	}
	var report, own *os.File
	var err error
	if s.Launched {
		report, own, err = os.Pipe()
		require.NoError(t, err)
		files = append(files, own)
		require.Equal(t, backend.LaunchStatus, len(files)-1)
	}
	path, err := exec.LookPath(s.Path)
	require.NoError(t, err)
	ref := backend.ChannelRef{Path: "/dev/fd/3", Number: 3}
	proc, err := os.StartProcess(path, append([]string{path}, s.Args(ref)...), &os.ProcAttr{
		Dir: s.Dir, Env: s.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: !s.Launched},
	})
	require.NoError(t, err)
	term := &terminal{t: t, master: master, proc: proc, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	go func() {
		term.state, _ = proc.Wait()
		close(term.ended)
	}()
	t.Cleanup(func() {
		_ = master.Close() // hangs up
		term.end()
	})
	if s.Launched {
		_ = own.Close()
		text, err := io.ReadAll(report)
		require.NoError(t, err)
		term.status = string(text)
		_ = report.Close()
	}
	go term.read()
	return term
}

func (x *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := x.master.Read(buf)
		x.mu.Lock()
		x.text.Write(buf[:n])
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// end waits for the program's end.
func (x *terminal) end() *os.ProcessState {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(patience):
		_ = x.proc.Kill()
		<-x.ended
		x.t.Errorf("the program does not end: %q", x.output())
	}
	return x.state
}

func (x *terminal) output() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// until waits for text that the program prints.
func (x *terminal) until(text string) {
	x.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(x.output(), text) {
		select {
		case <-x.more:
		case <-deadline:
			require.Contains(x.t, x.output(), text)
		}
	}
}

func (x *terminal) typed(text string) {
	x.t.Helper()
	_, err := x.master.WriteString(text)
	require.NoError(x.t, err)
}

// leader is the program that leads the terminal's session.
func (x *terminal) leader() int { return x.ask(unix.TIOCGSID) }

func (x *terminal) foreground() int { return x.ask(unix.TIOCGPGRP) }

func (x *terminal) ask(request uint) (pid int) {
	x.t.Helper()
	conn, err := x.master.SyscallConn()
	require.NoError(x.t, err)
	var askErr error
	require.NoError(x.t, conn.Control(func(fd uintptr) { pid, askErr = unix.IoctlGetInt(int(fd), request) }))
	require.NoError(x.t, askErr)
	return pid
}

func interactive() backend.Spec {
	s := spec("bash", "--noprofile", "--norc", "-i")
	s.Env = append(s.Env, "PS1=$ ", "TERM=dumb", "HISTFILE=")
	return s
}

// Case: P23
func TestTerminal(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, nil)
		x := c.terminal(t, sandbox.WorkspaceWrite, interactive(), nil)
		assert.Empty(t, x.status)
		x.typed("printf 'ready%s\\n' =; tty\n")
		x.until("ready=")
		comm, err := os.ReadFile("/proc/" + strconv.Itoa(x.leader()) + "/comm")
		require.NoError(t, err)
		assert.Equal(t, "bash\n", string(comm))

		// Job control, and ^C for the foreground job alone.
		x.typed("sleep 600 | cat & jobs; printf 'started%s\\n' =\n")
		x.until("started=")
		x.typed("trap 'echo the'' shell' INT; fg\n")
		require.Eventually(t, func() bool { return x.foreground() != x.leader() }, patience, 10*time.Millisecond)
		x.typed("\x03echo code=$?\n")
		x.until("code=130")
		assert.NotContains(t, x.output(), "no job control")
		assert.NotContains(t, x.output(), "the shell")

		// What a program does that asks for a password.
		x.typed("stty -echo </dev/tty && stty -a </dev/tty | tr ' ' = && stty echo </dev/tty; printf 'asked%s\\n' =\n")
		x.until("asked=")
		assert.Contains(t, x.output(), "=-echo=")

		// A terminal inside of the terminal, with a size of its own.
		if _, err := exec.LookPath("script"); err == nil {
			x.typed("script -qec 'test -t 0 && echo inner=$((40+2))' /dev/null; printf 'left%s\\n' =\n")
			x.until("left=") // what is typed earlier may be read by script
			assert.Contains(t, x.output(), "inner=42")
		}
		x.typed("exit 7\n")
		assert.Equal(t, 7, x.end().ExitCode())
	})
}

// A program that does not make a process group of its own is the foreground
// all the same, and ^C ends it and nothing else.
func TestProgramWithoutJobControl(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, nil)
		x := c.terminal(t, sandbox.ReadOnly, spec("sh", "-c", `trap 'echo caught=INT' INT; echo up; read x; echo "x=$x"; kill -TERM $$`), nil)
		x.until("up")
		assert.Equal(t, x.leader(), x.foreground())
		x.typed("\x03")
		x.until("caught=INT")
		// It goes on to read when the signal came just before that.
		_, _ = x.master.WriteString("\n")
		state := x.end().Sys().(syscall.WaitStatus)
		// A launcher that is not replaced by the program can only tell a code.
		if provider == "bubblewrap" {
			assert.Equal(t, 128+int(unix.SIGTERM), state.ExitStatus())
		} else {
			assert.Equal(t, unix.SIGTERM, state.Signal())
		}
	})
}

// The program gets its channel and no other descriptor.
func TestDescriptors(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, nil)
		r, w, err := os.Pipe()
		require.NoError(t, err)
		_, err = w.WriteString("from the channel\n")
		require.NoError(t, err)
		require.NoError(t, w.Close())
		s := spec("bash", "-c", `read text </dev/fd/3; echo "got=$text"; exec 3<&-; cd /proc/self/fd; echo open= *`)
		s.Channel = &backend.Channel{}
		x := c.terminal(t, sandbox.WorkspaceWrite, s, r)
		require.NoError(t, r.Close())
		x.until("got=from the channel")
		x.until("open=")
		assert.Zero(t, x.end().ExitCode())
		assert.Regexp(t, `open= 0 1 2( 255| 3)?\r\n`, x.output(), "255 is bash's own, 3 the folder that it lists")
	})
}

// The launcher says why there is no program.
func TestLauncherFails(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, nil)
		script := write(t, filepath.Join(c.workspace, "script"), "#!/no/such/interpreter\n")
		require.NoError(t, os.Chmod(script, 0o755))
		x := c.terminal(t, sandbox.WorkspaceWrite, spec(script), nil)
		assert.Equal(t, 125, x.end().ExitCode())
		const want = "cannot be started inside: no such file or directory"
		if x.status == "" {
			x.until(want)
		} else {
			assert.Contains(t, x.status, want)
		}
	})
}

// Case: T34
func TestReadOnly(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, nil)
		out, code := c.sh(t, sandbox.ReadOnly, `echo x >file; echo "$?"
cat <<E | wc -c
`+strings.Repeat("x", 100_000)+`
E
[ -d "$TMPDIR" ] && stat -c %a "$TMPDIR" && mktemp >/dev/null && echo x >/dev/null && echo tmp`)
		assert.Zero(t, code)
		assert.Regexp(t, `(?s)^sh: .*(Read-only file system|Permission denied).*\n[12]\n100001\n700\ntmp\n$`, out)
		entries, err := os.ReadDir(c.workspace)
		require.NoError(t, err)
		assert.Empty(t, entries)
	})
}

func TestWorkspaceWrite(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		extra := t.TempDir()
		c := newCage(t, provider, func(o *sandbox.Options) { o.Writable = []string{extra} })
		out, code := c.sh(t, sandbox.WorkspaceWrite, `set -e
echo a >a; mkdir d; mv a d/b; ln d/b c; ln -s c l; chmod 700 d; cat l; rm -r d
echo x >"$1/x"; echo x >"$TMPDIR/x"; touch -d 2001-01-01 c
mkdir -p "$XDG_CACHE_HOME"; [ "$(pwd)" = "$2" ]; echo done`, extra, c.workspace)
		assert.Zero(t, code)
		assert.Equal(t, "a\ndone\n", out)
		assert.FileExists(t, filepath.Join(extra, "x"))
		temp, err := os.ReadDir(c.opts.TempDir)
		require.NoError(t, err)
		assert.Len(t, temp, 1, "the folder is there until the clean-up")
	})
}

func TestTemporaryFolderGoes(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, nil)
		s, remove, err := c.Wrap(t.Context(), sandbox.Grant{Mode: sandbox.ReadOnly}, spec("sh", "-c", `mkdir -p "$TMPDIR/a/b" && chmod 0 "$TMPDIR/a"`))
		require.NoError(t, err)
		require.Len(t, s.Remove, 1, "the host's death takes it too")
		out, err := command(t, s).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.DirExists(t, s.Remove[0])
		require.NoError(t, remove())
		assert.NoDirExists(t, s.Remove[0])
	})
}

// A library that the environment has every program load may have been made by a
// shell: it is loaded by none of those that confine, and by the program.
func TestPreloadedLibrary(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("cc is not installed")
		}
		t.Skip("cc is not installed")
	}
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, nil)
		code := write(t, filepath.Join(c.workspace, "lib.c"), `#include <fcntl.h>
__attribute__((constructor)) static void loaded(void) { open("`+c.outside+`/made", O_CREAT | O_WRONLY, 0600); open("made", O_CREAT | O_WRONLY, 0600); }
`)
		library := filepath.Join(c.workspace, "lib.so")
		out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, code).CombinedOutput()
		require.NoError(t, err, "%s", out)
		s := spec("sh", "-c", `echo "$LD_PRELOAD"`)
		s.Env, s.Dir = append(s.Env, "LD_PRELOAD="+library), c.workspace
		out, err = command(t, c.wrap(t, sandbox.WorkspaceWrite, s)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, library+"\n", string(out))
		assert.FileExists(t, filepath.Join(c.workspace, "made"), "the program has loaded it")
		assert.NoFileExists(t, filepath.Join(c.outside, "made"), "something unconfined has loaded it")
	})
}

// The session's own folder is seen, and cannot be changed.
func TestPrivateFolder(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		for _, parent := range []string{"/dev/shm", t.TempDir()} {
			private, err := os.MkdirTemp(parent, "shellstead-test-")
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, os.RemoveAll(private)) })
			file := write(t, filepath.Join(private, "command"), "text")
			c := newCage(t, provider, nil)
			s := spec("sh", "-c", `cat "$1"; echo x >"$1"; echo x >"$1.new"; echo`, "sh", file)
			s.Remove = []string{private}
			out, err := command(t, c.wrap(t, sandbox.WorkspaceWrite, s)).CombinedOutput()
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(string(out), "text"), "%s", out)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, "text", string(text))
			assert.NoFileExists(t, file+".new")
		}
	})
}

func TestNetworkByChoice(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		c := newCage(t, provider, func(o *sandbox.Options) { o.Network = true })
		escaped, report := c.attack(t, sandbox.ReadOnly, "tcp", nil, listen(t, "tcp", "127.0.0.1:0").Addr().String())
		assert.True(t, escaped, report)
	})
}

func TestFullAccess(t *testing.T) {
	c := newCage(t, "", nil)
	s := spec("sh", "-c", "exit 3")
	wrapped, remove, err := c.Wrap(t.Context(), sandbox.Grant{Mode: sandbox.DangerFullAccess}, s)
	require.NoError(t, err)
	assert.Equal(t, s.Path, wrapped.Path)
	assert.Equal(t, s.Env, wrapped.Env)
	assert.NoError(t, remove())
	temp, err := os.ReadDir(c.opts.TempDir)
	require.NoError(t, err)
	assert.Empty(t, temp)
}

// What is wrong with a program is said before a provider is started for it.
func TestProgramThatCannotRun(t *testing.T) {
	c := newCage(t, "", nil)
	if _, err := c.Check(t.Context()); err != nil {
		t.Skip(err)
	}
	plain := write(t, filepath.Join(c.outside, "plain"), "text")
	for path, want := range map[string]string{
		"no-such-program": "shellPath: no-such-program is not in PATH",
		"/no/such":        "shellPath: /no/such cannot be used: no such file or directory",
		c.outside:         "is not a program but a folder",
		"/dev/null":       "is not a program but a special file",
		plain:             "is not executable",
	} {
		_, _, err := c.Wrap(t.Context(), sandbox.Grant{Mode: sandbox.ReadOnly}, spec(path))
		assert.ErrorContains(t, err, want)
	}
	temp, err := os.ReadDir(c.opts.TempDir)
	require.NoError(t, err)
	assert.Empty(t, temp)
}
