package posix

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

func present(programs []string) bool {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	return true
}

// kind is what a program that waits expects, as the terminal's modes tell it.
func (s *screen) kind(t testing.TB) string {
	t.Helper()
	m, err := s.Modes()
	require.NoError(t, err)
	switch {
	case !m.Canonical:
		return "key"
	case !m.Echo:
		return "secret"
	}
	return "line"
}

// place is where the programs of one test keep their files: short, since paths
// of sockets are limited, and open to other users.
func place(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "posix")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// asNobody prefixes a command of a privileged test so that another user runs it.
func asNobody(command string) string {
	if os.Getuid() != 0 {
		return command
	}
	return "setpriv --reuid=65534 --regid=65534 --clear-groups " + command
}

// classified is one row of the table: a program in a state that output shows,
// and what has to be told of it.
type classified struct {
	name  string
	needs []string // programs beside sh
	run   string   // by sh, in a folder of its own
	env   []string
	types string // once it waits for the first time
	shows string // before what counts is asked
	state backend.WaitState
	kind  string // of a reading program
	who   string // the reader's name, or the start of it
	timed bool   // it wakes up by itself
}

const hostKeys = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

var classification = []classified{
	{name: "cat", run: "cat", state: backend.WaitReading, kind: "line", who: "cat"},
	{name: "python3", needs: []string{"python3"}, run: "python3 -q", shows: ">>> ", state: backend.WaitReading, kind: "key", who: "python3"},
	{name: "python3 that sleeps", needs: []string{"python3"}, run: "python3 -q", types: "import time; print('re'+'ady'); time.sleep(300)\n", shows: "ready", state: backend.WaitBusy},
	{name: "getpass", needs: []string{"python3"}, run: `python3 -c "import getpass; getpass.getpass()"`, shows: "Password: ", state: backend.WaitReading, kind: "secret", who: "python3"},
	{name: "node", needs: []string{"node"}, run: "node", shows: "> ", state: backend.WaitReading, kind: "key", who: "node"},
	{name: "node timer", needs: []string{"node"}, run: `node -e "console.log('ready'); setTimeout(() => {}, 1e6)"`, shows: "ready", state: backend.WaitBusy},
	{name: "less", needs: []string{"less"}, run: "seq 1000 | less", state: backend.WaitReading, kind: "key", who: "less"},
	{name: "man", needs: []string{"man", "less"}, run: `printf '.TH X 1\n.SH NAME\nx\n%s' "$(seq 1000)" >x.1; man -P less -l x.1`, state: backend.WaitReading, kind: "key", who: "less"},
	{name: "vim", needs: []string{"vim"}, run: "vim -u NONE -N", state: backend.WaitReading, kind: "key", who: "vim"},
	{name: "gdb", needs: []string{"gdb"}, run: "gdb -q -nx", shows: "(gdb)", state: backend.WaitReading, kind: "key", who: "gdb"},
	{name: "gdb that runs sleep", needs: []string{"gdb"}, run: "gdb -q -nx -ex run --args sh -c 'echo rea\"\"dy; exec sleep 300'", shows: "ready", state: backend.WaitBusy},
	{name: "gdb that runs cat", needs: []string{"gdb"}, run: "gdb -q -nx -ex run --args sh -c 'echo rea\"\"dy; exec cat'", shows: "ready", state: backend.WaitReading, kind: "line", who: "cat"},
	{name: "sqlite3", needs: []string{"sqlite3"}, run: "sqlite3", shows: "sqlite> ", state: backend.WaitReading, kind: "key", who: "sqlite3"},
	{name: "bc", needs: []string{"bc"}, run: "bc -q", state: backend.WaitReading, kind: "key", who: "bc"},
	{name: "perl debugger", needs: []string{"perl"}, run: "perl -de 0", env: []string{"PERL_RL=Perl o=0"}, shows: "DB<1>", state: backend.WaitReading, kind: "line", who: "perl"},
	{name: "git add -p", needs: []string{"git"}, run: "git init -q . && echo a >f && git add f && echo b >f && git add -p", shows: "Stage this hunk", state: backend.WaitReading, kind: "line", who: "git"},
	{name: "su", needs: []string{"su", "setpriv"}, run: asNobody("su root"), shows: "Password: ", state: backend.WaitReading, kind: "secret", who: "su"},
	{name: "passwd", needs: []string{"passwd", "setpriv"}, run: asNobody("passwd"), shows: "urrent password: ", state: backend.WaitReading, kind: "secret", who: "passwd"},
	{name: "sudo", needs: []string{"sudo", "setpriv"}, run: asNobody("sudo -p 'Password: ' true"), shows: "Password: ", state: backend.WaitReading, kind: "secret", who: "sudo"},
	{name: "top", needs: []string{"top"}, run: "top", shows: "PID", state: backend.WaitReading, kind: "key", who: "top", timed: true},
	{name: "watch", needs: []string{"watch"}, run: "watch echo rea''dy", shows: "ready", state: backend.WaitBusy},
	{name: "tail -f", needs: []string{"tail"}, run: "echo rea''dy >f; tail -f f", shows: "ready", state: backend.WaitBusy},
	{name: "pipeline", run: "echo rea''dy; sleep 300 | cat", shows: "ready", state: backend.WaitBusy},

	{name: "script with cat", needs: []string{"script"}, run: "script -qc 'echo rea\"\"dy; cat' /dev/null", shows: "ready", state: backend.WaitReading, kind: "key", who: "cat"},
	{name: "script with sleep", needs: []string{"script"}, run: "script -qc 'echo rea\"\"dy; sleep 300' /dev/null", shows: "ready", state: backend.WaitBusy},
	{name: "tmux with cat", needs: []string{"tmux"}, run: "tmux -S t -f /dev/null new 'echo rea\"\"dy; cat'", shows: "ready", state: backend.WaitReading, kind: "key", who: "cat"},
	{name: "tmux with sleep", needs: []string{"tmux"}, run: "tmux -S t -f /dev/null new 'echo rea\"\"dy; sleep 300'", shows: "ready", state: backend.WaitBusy},
	{name: "tmux with a shell", needs: []string{"tmux", "bash"}, run: "tmux -S t -f /dev/null new 'bash --norc --noprofile'", shows: "$ ", state: backend.WaitReading, kind: "key", who: "bash"},
	{name: "tmux with cat beside sleep", needs: []string{"tmux"}, run: "tmux -S t -f /dev/null new cat ';' split-window 'echo rea\"\"dy; sleep 300'", shows: "ready", state: backend.WaitUnknown},
	{name: "screen with cat", needs: []string{"screen"}, run: "mkdir -m 700 s; SCREENDIR=$PWD/s screen -c /dev/null sh -c 'echo rea\"\"dy; cat'", shows: "ready", state: backend.WaitReading, kind: "key", who: "cat"},
	{name: "screen with sleep", needs: []string{"screen"}, run: "mkdir -m 700 s; SCREENDIR=$PWD/s screen -c /dev/null sh -c 'echo rea\"\"dy; sleep 300'", shows: "ready", state: backend.WaitBusy},
	{name: "expect with cat", needs: []string{"expect"}, run: "expect -c 'spawn sh -c {echo rea\"\"dy; cat}; interact'", shows: "ready", state: backend.WaitReading, kind: "key", who: "cat"},
	{name: "expect with sleep", needs: []string{"expect"}, run: "expect -c 'spawn sh -c {echo rea\"\"dy; sleep 300}; interact'", shows: "ready", state: backend.WaitBusy},

	{name: "bwrap with cat", needs: []string{"bwrap"}, run: "bwrap --bind / / --dev /dev --proc /proc --unshare-pid sh -c 'echo rea\"\"dy; cat'", shows: "ready", state: backend.WaitReading, kind: "line", who: "cat"},
	{name: "bwrap with sleep", needs: []string{"bwrap"}, run: "bwrap --bind / / --dev /dev --proc /proc --unshare-pid sh -c 'echo rea\"\"dy; sleep 300'", shows: "ready", state: backend.WaitBusy},
	{name: "bwrap with a session of its own", needs: []string{"bwrap"}, run: "bwrap --bind / / --dev /dev --new-session sh -c 'echo rea\"\"dy; cat'", shows: "ready", state: backend.WaitReading, kind: "line", who: "cat"},
	// The terminal within has the number of the first one of its own /dev/pts.
	{name: "bwrap with script with getpass", needs: []string{"bwrap", "script", "python3"}, run: "bwrap --bind / / --dev /dev script -qc \"python3 -c 'import getpass; getpass.getpass()'\" /dev/null", shows: "Password: ", state: backend.WaitReading, kind: "key", who: "python3"},
	{name: "bwrap with script with sleep", needs: []string{"bwrap", "script"}, run: "bwrap --bind / / --dev /dev script -qc 'echo rea\"\"dy; sleep 300' /dev/null", shows: "ready", state: backend.WaitBusy},
}

// What each program looks like when it waits for a line, a key, a secret, or
// for something else.
//
// Case: A9, A11, P1, P2, P3, P4, P5, P8, P10
func TestClassification(t *testing.T) {
	t.Parallel()
	for _, row := range classification {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			requires(t, row.needs...)
			row.checkIn(t, place(t))
		})
	}
}

// in starts the row's program in a folder and returns when it shows that it is
// where it should be.
func (row *classified) in(t *testing.T, dir string) *screen {
	t.Helper()
	spec := shSpec(row.run + "\nexit")
	spec.Dir = dir
	spec.Env = append(spec.Env, "TERM=xterm", "HOME="+dir, "LC_ALL=C.UTF-8", "SHELL=/bin/sh", "TMUX=", "STY=")
	spec.Env = append(spec.Env, row.env...)
	s := open(t, spec)
	if row.types != "" {
		s.waits(t, backend.WaitReading)
		s.types(t, row.types)
	}
	if row.shows != "" {
		s.shows(t, row.shows)
	}
	return s
}

func (row *classified) checkIn(t *testing.T, dir string) {
	t.Helper()
	settle(t, []classified{*row}, []*screen{row.in(t, dir)})
}

// settle waits until the rows' programs are what the rows say. Programs still
// start up behind their first output; what they have come to stays, so it is
// seen for a while.
func settle(t *testing.T, rows []classified, screens []*screen) {
	t.Helper()
	const steady = 300 * time.Millisecond
	since := time.Now()
	for i := 0; i < len(rows); {
		row, s := &rows[i], screens[i]
		var w backend.Wait
		right := func() bool {
			var err error
			w, err = s.InputWait()
			return err == nil && w.State == row.state && strings.HasPrefix(w.Program, row.who) && (w.Timed || !row.timed) &&
				(row.kind == "" || s.kind(t) == row.kind)
		}
		if !right() {
			eventually(t, right, "%s (%s %q %s): %+v\n%s", row.name, stateNames[row.state], row.who, row.kind, &w, s)
			since = time.Now()
		}
		if i++; i == len(rows) && time.Since(since) < steady {
			i = 0
			time.Sleep(tick) // between two samples: the state has to last, and nothing tells of that
		}
	}
}

var stateNames = map[backend.WaitState]string{
	backend.WaitUnknown: "unknown", backend.WaitBusy: "busy", backend.WaitReading: "reading", backend.WaitStopped: "stopped",
}

func (s *screen) String() string { return s.output() }

// A client of another machine always reads the terminal, whether or not anybody
// at the far end does; its own questions are seen.
func TestClassificationOfSSH(t *testing.T) {
	t.Parallel()
	requires(t, "ssh", "ssh-keygen")
	sshd := "/usr/sbin/sshd"
	requires(t, sshd)
	if os.Getuid() != 0 {
		t.Skip("a server that lets its user in takes root here")
	}
	dir := place(t)
	for name, secret := range map[string]string{"host": "", "open": "", "locked": "secret"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", secret, "-f", filepath.Join(dir, name)).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // what the package's service makes
	server := exec.Command(sshd, "-D", "-e", "-f", "/dev/null", "-h", filepath.Join(dir, "host"), "-p", strconv.Itoa(port),
		"-o", "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o", "UsePAM=no", "-o", "StrictModes=no", "-o", "PermitRootLogin=yes",
		"-o", "PasswordAuthentication=yes", "-o", "AuthorizedKeysFile="+filepath.Join(dir, "open.pub")+" "+filepath.Join(dir, "locked.pub"))
	server.Stderr = os.Stderr
	if !testing.Verbose() {
		server.Stderr = nil
	}
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, "sshd to listen")

	ssh := fmt.Sprintf("ssh -F /dev/null -p %d -o IdentitiesOnly=yes ", port)
	const at = " root@127.0.0.1 "
	rows := []classified{
		{name: "question", run: ssh + "-o UserKnownHostsFile=$PWD/k" + at, shows: "(yes/no", state: backend.WaitReading, kind: "line", who: "ssh"},
		{name: "passphrase", run: ssh + hostKeys + " -i locked" + at, shows: "passphrase", state: backend.WaitReading, kind: "secret", who: "ssh"},
		{name: "password", run: ssh + hostKeys + " -o PubkeyAuthentication=no" + at, shows: "password: ", state: backend.WaitReading, kind: "secret", who: "ssh"},
		{name: "shell", run: ssh + hostKeys + " -i open -t" + at + "'echo rea\"\"dy; exec cat'", shows: "ready", state: backend.WaitUnknown},
		{name: "sleep on a terminal", run: ssh + hostKeys + " -i open -t" + at + "'echo rea\"\"dy; exec sleep 300'", shows: "ready", state: backend.WaitUnknown},
		{name: "sleep", run: ssh + hostKeys + " -i open" + at + "'echo rea\"\"dy; exec sleep 300'", shows: "ready", state: backend.WaitUnknown},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.checkIn(t, dir)
		})
	}
}

// A database client waits for its user at the prompt, and for the server in
// between.
func TestClassificationOfPsql(t *testing.T) {
	t.Parallel()
	requires(t, "psql", "setpriv")
	bin, err := exec.LookPath("postgres")
	if err != nil {
		matches, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
		if len(matches) == 0 {
			requires(t, "postgres")
		}
		bin = matches[0]
	}
	bin, err = filepath.EvalSymlinks(bin)
	require.NoError(t, err)
	dir := place(t)
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(dir, 65534, 65534))
	}
	run := func(command string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "exec "+asNobody(command))
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}
		return cmd
	}
	initdb := filepath.Join(filepath.Dir(bin), "initdb")
	out, err := run(initdb + " -N -A trust -U app -D " + dir + "/db").CombinedOutput()
	require.NoError(t, err, "%s", out)
	server := run(bin + " -D " + dir + "/db -k " + dir + " -h '' -F")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(unix.SIGQUIT)
		_ = server.Wait()
	})
	eventually(t, func() bool {
		return exec.Command("psql", "-h", dir, "-U", "app", "-c", "select 1", "postgres").Run() == nil
	}, "the server")
	psql := "psql -X -h " + dir + " -U app postgres"
	for _, row := range []classified{
		{name: "prompt", run: psql, shows: "postgres=# ", state: backend.WaitReading, kind: "key", who: "psql"},
		{name: "query", run: psql, types: "select pg_sleep(300);\n", state: backend.WaitBusy},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.checkIn(t, place(t))
		})
	}
}

// The same table, by a host that is not root: set-uid programs hide their calls.
func TestClassificationUnprivileged(t *testing.T) {
	t.Parallel()
	cmd := unprivileged(t, "-test.run=^TestClassification(OfPsql)?$", "-test.v")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "--- PASS: TestClassification/su ")
}

// unprivileged prepares another run of this test binary by a user without
// rights.
func unprivileged(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	requires(t, "setpriv")
	if os.Getuid() != 0 {
		t.Skip("becoming another user takes root")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := place(t) // the build folder is root's
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	copied := filepath.Join(dir, "test")
	syscall.ForkLock.RLock() // a child that is forked meanwhile would keep the file open for writing: ETXTBSY
	err = os.WriteFile(copied, binary, 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	cmd := exec.Command("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups", copied}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CI=" + os.Getenv("CI"), "TMPDIR=/var/tmp", "HOME=/nonexistent"}
	return cmd
}
