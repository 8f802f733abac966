package toolpty_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/none"
	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
	"github.com/shellstead/shellstead/toolpty"
)

// step is one send and what it has to come to: a program that waits, or the
// shell's own prompt where kind is empty.
type step struct {
	text   string
	keys   bool // without Enter
	shows  string
	kind   terminals.InputKind
	prompt string
	who    string // the beginning of the program's name
	screen bool
}

// anything is the prompt of a step whose program draws tables.
const anything = "*"

// take makes the steps in the session id.
func (f *fixture) take(id string, steps ...step) {
	f.t.Helper()
	for _, s := range steps {
		res := f.ok("terminal_send", map[string]any{"sessionId": id, "text": s.text, "submit": !s.keys})
		sent := res.Structured.(toolpty.SendResult)
		about := fmt.Sprintf("%q: %s", s.text, res.Text)
		require.Equal(f.t, terminals.StdinRead, sent.WaitReason, about)
		require.Equal(f.t, s.screen, sent.FullScreen, about)
		require.Equal(f.t, s.screen, strings.HasSuffix(res.Text, "\n[full-screen program]"), about)
		require.Contains(f.t, sent.Viewport, s.shows, about)
		if s.kind == "" {
			require.Nil(f.t, sent.NeedsInput, about)
			require.True(f.t, strings.HasSuffix(sent.Viewport, "$ "), about)
			continue
		}
		require.NotNil(f.t, sent.NeedsInput, about)
		require.Equal(f.t, s.kind, sent.NeedsInput.Kind, about)
		if !s.screen && s.prompt != anything {
			require.Equal(f.t, s.prompt, sent.NeedsInput.Prompt, about)
		}
		require.True(f.t, strings.HasPrefix(sent.NeedsInput.Program, s.who), about)
		require.Contains(f.t, res.Text, fmt.Sprintf("[waiting for input: %s (%s)]", sent.NeedsInput.Program, s.kind))
	}
}

// shows reads the session id until its newest lines have token.
func (f *fixture) shows(id, token string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		return strings.Contains(f.ok("terminal_read", map[string]any{"sessionId": id}).Text, token)
	}, dialecttest.Patience, 5*time.Millisecond, "%q in the scrollback", token)
}

// asNobody prefixes a command of a privileged test so that another user runs it.
func asNobody(command string) string {
	if os.Getuid() != 0 {
		return command
	}
	return "setpriv --reuid=65534 --regid=65534 --clear-groups " + command
}

// Programs that people drive in a terminal, each from its start in a shell to
// its end, by what a model gets of them.
//
// Case: P1 P2 P3 P4 P8 P10 F57 (google-antigravity/antigravity-cli#205, can1357/oh-my-pi#10091)
func TestProgramsInAShell(t *testing.T) {
	const (
		line, key, secret = terminals.LineInput, terminals.KeyInput, terminals.SecretInput
		eof               = "\x04"
	)
	for _, tt := range []struct {
		name  string
		needs []string
		steps []step
	}{
		{"cat", nil, []step{
			{text: "cat", kind: line, who: "cat"},
			{text: "hello", shows: "hello\nhello\n", kind: line, who: "cat"},
			{text: eof, keys: true},
		}},
		{"getpass", []string{"python3"}, []step{
			{text: `python3 -c "import getpass; print(len(getpass.getpass()))"`, kind: secret, prompt: "Password: ", who: "python3"},
			{text: "opensesame", shows: "\n10\n"},
		}},
		{"node", []string{"node"}, []step{
			{text: "node", kind: key, prompt: "> ", who: "node"},
			{text: "6*7", shows: "6*7\n42\n> ", kind: key, prompt: "> ", who: "node"},
			{text: "[1, 2].map(x => {", kind: key, prompt: "... ", who: "node"},
			{text: "return x * 7 })", shows: "[ 7, 14 ]\n", kind: key, prompt: "> ", who: "node"},
			{text: ".exit"},
		}},
		{"less", []string{"less"}, []step{
			{text: "seq 1000 | less", shows: "\n39\n", kind: key, who: "less", screen: true},
			{text: " ", keys: true, shows: "\n70\n", kind: key, who: "less", screen: true},
			{text: "q", keys: true},
		}},
		{"man", []string{"man", "less"}, []step{
			{text: `printf '.TH X 1\n.SH NAME\nx \\- does it\n.SH TEXT\n%s' "$(seq -s ' ' 9000)" >x.1; man -P less -l x.1`, shows: "does it", kind: key, who: "less", screen: true},
			{text: "q", keys: true},
		}},
		{"vim", []string{"vim"}, []step{
			{text: "vim -u NONE -N -n f", kind: key, who: "vim", screen: true},
			{text: "ihello there\x1b", keys: true, kind: key, who: "vim", screen: true},
			{text: ":wq"},
			{text: "cat f", shows: "\nhello there\n"},
		}},
		{"gdb", []string{"gdb"}, []step{
			{text: "gdb -q -nx --args cat", kind: key, prompt: "(gdb) ", who: "gdb"},
			{text: "print 6*7", shows: "$1 = 42\n", kind: key, prompt: "(gdb) ", who: "gdb"},
			{text: "run", kind: line, who: "cat"},
			{text: "hello", shows: "hello\nhello\n", kind: line, who: "cat"},
			{text: eof, keys: true, shows: "exited normally", kind: key, prompt: "(gdb) ", who: "gdb"},
			{text: "quit"},
		}},
		{"sqlite3", []string{"sqlite3"}, []step{
			{text: "sqlite3", kind: key, prompt: "sqlite> ", who: "sqlite3"},
			{text: "select 6*7;", shows: "\n42\n", kind: key, prompt: "sqlite> ", who: "sqlite3"},
			{text: "select 'a", kind: key, prompt: "   ...> ", who: "sqlite3"},
			{text: "b';", shows: "a\nb\n", kind: key, prompt: "sqlite> ", who: "sqlite3"},
			{text: ".quit"},
		}},
		{"bc", []string{"bc"}, []step{
			{text: "bc -q", kind: key, who: "bc"},
			{text: "2^100", shows: "\n1267650600228229401496703205376\n", kind: key, who: "bc"},
			{text: "quit"},
		}},
		{"perl debugger", []string{"perl"}, []step{
			{text: "PERL_RL='Perl o=0' perl -de 0", kind: line, prompt: "  DB<1> ", who: "perl"},
			{text: "p 6*7", shows: "\n42\n", kind: line, prompt: "  DB<2> ", who: "perl"},
			{text: "q"},
		}},
		{"git add -p", []string{"git"}, []step{
			{text: "git init -q . && echo a >f && git add f && echo b >f"},
			{text: "git add -p", shows: "-a\n+b\n", kind: line, prompt: "(1/1) Stage this hunk [y,n,q,a,d,e,?]? ", who: "git"},
			{text: "y"},
			{text: "git diff --cached", shows: "\n+b\n"},
		}},
		{"su", []string{"su", "setpriv"}, []step{
			{text: asNobody("su root"), kind: secret, prompt: "Password: ", who: "su"},
			{text: "opensesame", shows: "su: Authentication failure"},
		}},
		{"passwd", []string{"passwd", "setpriv"}, []step{
			{text: asNobody("passwd"), kind: secret, prompt: "Current password: ", who: "passwd"},
			{text: "\x03", keys: true, kind: secret, prompt: "Current password: ", who: "passwd"}, // it ignores that
			{text: "opensesame", shows: "password unchanged"},
		}},
		{"sudo", []string{"sudo", "setpriv"}, []step{
			{text: asNobody("sudo -k -p 'Secret: ' true"), kind: secret, prompt: "Secret: ", who: "sudo"},
			{text: "\x03", keys: true},
		}},
		{"tmux", []string{"tmux"}, []step{
			{text: "tmux -S t -f /dev/null new cat", kind: key, who: "cat", screen: true},
			{text: "hello", shows: "hello", kind: key, who: "cat", screen: true},
			{text: eof, keys: true, shows: "[exited]"},
		}},
		{"script", []string{"script"}, []step{
			{text: "script -qc cat /dev/null", kind: key, who: "cat"},
			{text: "hello", shows: "hello\nhello\n", kind: key, who: "cat"},
			{text: eof, keys: true},
		}},
		{"top", []string{"top"}, []step{
			{text: "top -b -n 1 | head -n 1", shows: "load average"},
			{text: "top -w 60", shows: "PID", kind: key, prompt: anything, who: "top"},
			{text: "q", keys: true},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, program := range tt.needs {
				need(t, program)
			}
			f := newReal(t)
			require.NoError(t, os.Chmod(f.owner.Cwd(), 0o777))
			id := f.open("shell")
			f.take(id, tt.steps...)
			page := f.ok("terminal_read", map[string]any{"sessionId": id}).Text
			assert.NotContains(t, page, "opensesame", "a secret is shown nowhere")
			f.take(id, step{text: "echo $((6*7))", shows: "\n42\n"})
		})
	}
}

// impatient is for sends that have to end by a guess: no sooner than a program
// starts on a busy machine.
func impatient(c *engine.Config) { c.IdleSilence = 4 * time.Second }

// What these programs wait for is not the person at the terminal.
//
// Case: P4 P5 P8 P10 F85 (anthropics/claude-code#3372)
func TestProgramsThatDoNotWait(t *testing.T) {
	for _, tt := range []struct {
		name, run string
		needs     []string
		reason    terminals.WaitReason
	}{
		{"tail", "echo rea''dy >f; tail -f f", nil, terminals.InferredIdle},
		{"pipeline", "echo rea''dy; sleep 300 | cat", nil, terminals.InferredIdle},
		{"node timer", `node -e "console.log('rea' + 'dy'); setTimeout(() => {}, 1e6)"`, []string{"node"}, terminals.InferredIdle},
		{"server", `python3 -uc "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler); print('rea' + 'dy'); s.serve_forever()"`, []string{"python3"}, terminals.InferredIdle},
		{"script", "script -qc 'echo rea\"\"dy; sleep 300' /dev/null", []string{"script"}, terminals.InferredIdle},
		{"tmux", "tmux -S t -f /dev/null new 'echo rea\"\"dy; sleep 300'", []string{"tmux"}, terminals.InferredIdle},
		{"watch", "watch -n 0.2 -p 'echo rea\"\"dy; date +%N'", []string{"watch"}, terminals.Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, program := range tt.needs {
				need(t, program)
			}
			f := newReal(t)
			f.add("impatient", bash.Dialect{}, func(c *engine.Config) {
				impatient(c)
				if tt.reason == terminals.Timeout {
					c.Timeout = 6 * time.Second
				}
			}, "bash")
			id := f.open("impatient")
			res := f.ok("terminal_send", map[string]any{"sessionId": id, "text": tt.run})
			sent := res.Structured.(toolpty.SendResult)
			assert.Equal(t, tt.reason, sent.WaitReason)
			assert.Nil(t, sent.NeedsInput)
			assert.NotContains(t, res.Text, "[waiting")
			assert.Contains(t, sent.Viewport, "ready")
			f.ok("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGTERM"})
			require.Eventually(t, func() bool { // it may take its time to end
				sent := f.keys(id, "")
				return sent.WaitReason == terminals.StdinRead && sent.NeedsInput == nil
			}, dialecttest.Patience, time.Millisecond)
			f.take(id, step{text: "echo $((6*7))", shows: "\n42\n"})
		})
	}
}

// A background job that wants the terminal is stopped by it: the shell is what
// waits. So is a program that was stopped by a signal.
//
// Case: P6 P12
func TestStoppedReaders(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	f.take(id,
		step{text: "cat &"},
		step{text: "wait -n; jobs", shows: "Stopped"},
		step{text: "cat", kind: terminals.LineInput, who: "cat"})
	f.ok("terminal_signal", map[string]any{"sessionId": id, "signal": "SIGTSTP"})
	f.take(id, step{text: "jobs", shows: "[2]+  Stopped"})

	// One that nobody is told of looks like a reader.
	f.add("cat", none.Dialect{}, impatient, "cat")
	open := f.ok("terminal_open", `{"type": "cat"}`).Structured.(toolpty.OpenResult)
	require.NoError(t, unix.Kill(open.PID, unix.SIGSTOP))
	sent := f.send(open.SessionID, "hello")
	assert.Equal(t, terminals.InferredIdle, sent.WaitReason)
	assert.Nil(t, sent.NeedsInput)
	require.NoError(t, unix.Kill(open.PID, unix.SIGCONT))
	assert.Equal(t, terminals.StdinRead, f.send(open.SessionID, "again").WaitReason)
}

// The end of the input, in the middle of a line and after one.
//
// Case: P18
func TestEndOfInput(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	f.take(id,
		step{text: "cat >f", kind: terminals.LineInput, who: "cat"},
		step{text: "abc\x04", keys: true, kind: terminals.LineInput, who: "cat", prompt: "abc"},
		step{text: "\x04", keys: true},
		step{text: "cat f; echo '|'", shows: "\nabc|\n"})
}

// A text that ends like a prompt is none.
//
// Case: F14 (wonderwhy-er/DesktopCommanderMCP#196)
func TestTextLikeAPrompt(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	f.take(id, step{text: "printf 'loading...'; sleep 1; printf '\\n>>> '; sleep 1; echo d''one", shows: "loading...\n>>> done\n"})
}

// Ctrl-C is a key, and stops what runs.
//
// Case: F49 (nickgnd/tmux-mcp#31, #16)
func TestControlKeys(t *testing.T) {
	f := newReal(t)
	f.add("impatient", bash.Dialect{}, impatient, "bash")
	id := f.open("impatient")
	assert.Equal(t, terminals.InferredIdle, f.send(id, "sleep 300").WaitReason)
	f.take(id,
		step{text: "\x03", keys: true, shows: "^C\n"},
		step{text: "echo $?", shows: "\n130\n"})
}

// One wait lasts until a silent program has ended, and a look at it in between
// does not end it.
//
// Case: F11 (openai/codex#38495) F12 (openai/codex#45419) F18 (wehnsdaefflae/terminal-control-mcp#2)
func TestSilentProgramIsOneTask(t *testing.T) {
	f := newReal(t)
	id := f.open("shell")
	task := f.background(id, "until [ -e go ]; do sleep 0.02; done; (exit 3); echo code=$?")
	for range 3 {
		assert.Equal(t, tasks.Running, f.output(task, 20*time.Millisecond).Status)
	}
	require.NoError(t, os.WriteFile(filepath.Join(f.owner.Cwd(), "go"), nil, 0o600))
	res := f.ok("task_output", map[string]any{"task_id": task, "wait": true})
	assert.Contains(t, res.Text, "code=3\n")
	assert.True(t, strings.HasSuffix(res.Text, "\n[status: completed, wait: stdin_read]"), res.Text)
}

// A program that fails at once keeps its words and its code.
//
// Case: F16 (wonderwhy-er/DesktopCommanderMCP#195, #395)
func TestProgramThatFailsAtOnce(t *testing.T) {
	f := newReal(t)
	f.add("fails", none.Dialect{}, nil, "sh", "-c", "echo oh no >&2; exit 3")
	res := f.call("terminal_open", `{"type": "fails"}`)
	assert.True(t, res.IsError)
	assert.Contains(t, res.Text, "exited during its start-up (code 3); it printed: oh no")
	assert.Equal(t, "(no terminal sessions)", f.ok("terminal_list", "").Text)

	f.add("later", none.Dialect{}, nil, "sh", "-c", "read x; echo oh no >&2; exit 3")
	id := f.open("later")
	text := f.ok("terminal_send", map[string]any{"sessionId": id, "text": "x"}).Text
	assert.True(t, strings.HasSuffix(text, "\noh no\n[wait: session_exit]\n[session: exited code=3 signal=null]"), "%q", text)
	assert.Contains(t, f.ok("terminal_read", map[string]any{"sessionId": id}).Text, "oh no")
	assert.Contains(t, f.ok("terminal_list", "").Text, "exited code=3 signal=null")
}

// What was typed ahead of a program that is then interrupted is run by nobody.
//
// Case: P22
func TestTypedAhead(t *testing.T) {
	f := newReal(t)
	f.add("impatient", bash.Dialect{}, impatient, "bash")
	id := f.open("impatient")
	assert.Equal(t, terminals.InferredIdle, f.send(id, "sleep 300").WaitReason)
	task := f.background(id, "echo st''ale")
	f.sees(task, "st''ale") // its echo
	f.ok("task_kill", map[string]any{"task_id": task})
	out := f.output(task, dialecttest.Patience)
	assert.Equal(t, tasks.Killed, out.Status)
	f.sendSoon(id, "echo $((6*7))")
	assert.NotContains(t, f.ok("terminal_read", map[string]any{"sessionId": id}).Text, "\nstale")
}

// A shell on another machine: its questions are seen, what runs there is not.
//
// Case: F56 (openai/codex#5905)
func TestSSH(t *testing.T) {
	need(t, "ssh")
	need(t, "ssh-keygen")
	sshd := need(t, "/usr/sbin/sshd")
	if os.Getuid() != 0 {
		t.Skip("a server that lets its user in takes root here")
	}
	f := newReal(t)
	dir := f.owner.Cwd()
	for _, name := range []string{"host", "user"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, listener.Close())
	require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // what the package's service makes
	server := exec.Command(sshd, "-D", "-e", "-f", "/dev/null", "-h", filepath.Join(dir, "host"), "-p", port,
		"-o", "ListenAddress=127.0.0.1", "-o", "PidFile=none", "-o", "UsePAM=no", "-o", "StrictModes=no", "-o", "PermitRootLogin=yes",
		"-o", "PasswordAuthentication=yes", "-o", "AuthorizedKeysFile="+filepath.Join(dir, "user.pub"))
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, dialecttest.Patience, 10*time.Millisecond)

	f.add("impatient", bash.Dialect{}, impatient, "bash")
	id := f.open("impatient")
	ssh := "ssh -F /dev/null -p " + port + " -o UserKnownHostsFile=$PWD/known -o IdentitiesOnly=yes "
	f.take(id,
		step{text: ssh + "-o PubkeyAuthentication=no root@127.0.0.1", shows: "can't be established", kind: terminals.LineInput,
			prompt: "Are you sure you want to continue connecting (yes/no/[fingerprint])? ", who: "ssh"},
		step{text: "yes", kind: terminals.SecretInput, prompt: "root@127.0.0.1's password: ", who: "ssh"},
		step{text: "opensesame", shows: "Permission denied", kind: terminals.SecretInput, prompt: "root@127.0.0.1's password: ", who: "ssh"},
		step{text: "\x03", keys: true})
	assert.NotContains(t, f.ok("terminal_read", map[string]any{"sessionId": id}).Text, "opensesame")

	// What runs there cannot be seen: a send ends by a guess, and what comes later
	// is in the scrollback.
	sent := f.send(id, ssh+"-i user -t root@127.0.0.1 'echo rea\"\"dy; exec cat'")
	assert.Equal(t, terminals.InferredIdle, sent.WaitReason)
	assert.Nil(t, sent.NeedsInput)
	f.shows(id, "\nready")
	assert.Equal(t, terminals.InferredIdle, f.send(id, "hello").WaitReason)
	f.shows(id, "\nhello\nhello")
	f.take(id, step{text: "\x04", keys: true, shows: "closed."})
}

// A database client waits for its user at the prompt, and for the server in
// between.
func TestPsql(t *testing.T) {
	need(t, "psql")
	need(t, "setpriv")
	bin, err := exec.LookPath("postgres")
	if err != nil {
		matches, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
		if len(matches) == 0 {
			need(t, "postgres")
		}
		bin = matches[0]
	}
	bin, err = filepath.EvalSymlinks(bin)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/var/tmp", "psql") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(dir, 65534, 65534))
	}
	run := func(command string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "exec "+asNobody(command))
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}
		return cmd
	}
	out, err := run(filepath.Join(filepath.Dir(bin), "initdb") + " -N -A trust -U app -D " + dir + "/db").CombinedOutput()
	require.NoError(t, err, "%s", out)
	server := run(bin + " -D " + dir + "/db -k " + dir + " -h '' -F")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(unix.SIGQUIT)
		_ = server.Wait()
	})
	require.Eventually(t, func() bool {
		return exec.Command("psql", "-h", dir, "-U", "app", "-c", "select 1", "postgres").Run() == nil
	}, dialecttest.Patience, 10*time.Millisecond)

	f := newReal(t)
	id := f.open("shell")
	at := func(prompt string) step { return step{kind: terminals.KeyInput, prompt: prompt, who: "psql"} }
	with := func(s step, text, shows string) step { s.text, s.shows = text, shows; return s }
	f.take(id,
		with(at("postgres=# "), "psql -X -h "+dir+" -U app postgres", "help"),
		with(at("postgres=# "), "select 6*7;", "\n       42\n(1 row)\n"),
		with(at("postgres-# "), "select pg_sleep(0.3),", ""),
		with(at("postgres=# "), "6*7;", "42\n"), // it is not taken for ready while the server works
	)
	task := f.background(id, "select 'be' || 'gun'; select pg_sleep(300);")
	f.sees(task, "begun")
	f.ok("task_kill", map[string]any{"task_id": task})
	ended := f.output(task, dialecttest.Patience)
	assert.Contains(t, ended.Output, "canceling statement due to user request")
	assert.Equal(t, "postgres=# ", ended.Result.(toolpty.End).NeedsInput.Prompt)
	f.sendSoon(id, "\\q")
	f.take(id, step{text: "echo $((6*7))", shows: "\n42\n"})
}
