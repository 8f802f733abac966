//go:build linux

package none_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend/posix"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/none"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// patience bounds every wait of a test. None waits this long when all is well.
const patience = 60 * time.Second

// terminal is one open session of a real program.
type terminal struct {
	t *testing.T
	terminals.Session
	dir string
}

// open starts path, or a dialect's own program, in an empty folder.
func open(t *testing.T, d dialect.Dialect, path string, args []string, change ...func(*engine.Config)) *terminal {
	t.Helper()
	s, dir, err := tryOpen(t, d, path, args, change...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background(), "end of the test")) })
	return &terminal{t, s, dir}
}

func tryOpen(t *testing.T, d dialect.Dialect, path string, args []string, change ...func(*engine.Config)) (terminals.Session, string, error) {
	t.Helper()
	if path != "" {
		if _, err := exec.LookPath(path); err != nil {
			absent(t, path)
		}
	}
	drv, err := posix.New(posix.Options{})
	require.NoError(t, err)
	if c := drv.Capabilities(); !c.ExactRead {
		t.Skip("this system does not show what a program waits for: " + c.ExactReadWhy)
	}
	cfg := engine.DefaultConfig()
	cfg.ShellPath, cfg.ShellArgs, cfg.Timeout = path, args, patience
	cfg.IdleSilence = patience // what is not proved fails the test
	cfg.DisposeGrace = 500 * time.Millisecond
	for _, c := range change {
		c(&cfg)
	}
	b, err := engine.New(cfg, drv, d)
	require.NoError(t, err)
	dir := t.TempDir()
	s, err := b.Open(context.Background(), terminals.Setup{ID: "pty-1", Cwd: dir, Env: []string{"HOME=" + dir}})
	return s, dir, err
}

// absent skips a test whose program this machine lacks. In CI none may be.
func absent(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(name + " is not installed")
	}
	t.Skip(name + " is not installed")
}

func shell(t *testing.T, change ...func(*engine.Config)) *terminal {
	return open(t, bash.Dialect{}, "", nil, change...)
}

func impatient(c *engine.Config) { c.IdleSilence = 300 * time.Millisecond }

func (s *terminal) start(ctx context.Context, text string, submit bool) terminals.Send {
	s.t.Helper()
	x, err := s.StartSend(ctx, terminals.SendRequest{Text: text, Submit: submit})
	require.NoError(s.t, err)
	return x
}

func (s *terminal) end(x terminals.Send) terminals.SendResult {
	s.t.Helper()
	<-x.Done()
	res, err := x.Result()
	require.NoError(s.t, err)
	return res
}

// enter types a line and returns what came of it.
func (s *terminal) enter(text string) terminals.SendResult {
	s.t.Helper()
	return s.end(s.start(context.Background(), text, true))
}

// prompt is the shell's prompt in dir.
func prompt(dir string) string {
	if dir == "" {
		return "~$ "
	}
	return dir + "$ "
}

// home requires that the shell is at its prompt after it printed text.
func (s *terminal) home(res terminals.SendResult, text string) {
	s.t.Helper()
	assert.Equal(s.t, text+prompt(""), res.Viewport)
	assert.Equal(s.t, terminals.StdinRead, res.WaitReason)
	assert.Nil(s.t, res.NeedsInput)
	assert.False(s.t, res.FullScreen)
}

// asks requires that a program waits.
func (s *terminal) asks(res terminals.SendResult, kind terminals.InputKind, prompt string) {
	s.t.Helper()
	assert.Equal(s.t, terminals.StdinRead, res.WaitReason)
	if assert.NotNil(s.t, res.NeedsInput, "%+v", res) {
		assert.Equal(s.t, kind, res.NeedsInput.Kind)
		assert.Equal(s.t, prompt, res.NeedsInput.Prompt)
	}
}

// printed waits until the terminal has shown text.
func (s *terminal) printed(text string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		page, err := s.Read(0, 50)
		return err == nil && strings.Contains(page.Text, text)
	}, patience, 5*time.Millisecond)
}

// Programs as terminal types: ready at their first wait, and after each answer.
func TestPrograms(t *testing.T) {
	for _, tt := range []struct {
		path, quiet, line, viewport, prompt string
		kind                                terminals.InputKind
	}{
		{"python3", "-q", "1+1", "1+1\n2\n>>> ", ">>> ", terminals.KeyInput},
		{"bc", "-q", "1+1", "1+1\n2\n", "", terminals.KeyInput},
		{"sqlite3", "-interactive", "select 1+1;", "select 1+1;\n2\nsqlite> ", "sqlite> ", terminals.KeyInput},
		{"gdb", "-q", "print 1+1", "print 1+1\n$1 = 2\n(gdb) ", "(gdb) ", terminals.KeyInput},
		{"node", "-i", "1+1", "1+1\n2\n> ", "> ", terminals.KeyInput},
		{"cat", "-u", "1+1", "1+1\n1+1\n", "", terminals.LineInput},
	} {
		t.Run(tt.path, func(t *testing.T) {
			s := open(t, none.Dialect{}, tt.path, []string{tt.quiet})
			assert.True(t, strings.HasSuffix(s.Startup(), tt.prompt), "%q", s.Startup())
			res := s.enter(tt.line)
			assert.Equal(t, tt.viewport, res.Viewport)
			s.asks(res, tt.kind, tt.prompt)
			_, err := s.Session.(terminals.CommandSession).StartCommand(context.Background(), terminals.CommandRequest{Text: "x"})
			assert.ErrorIs(t, err, terminals.Unsupported)
		})
	}
}

func TestProgramEnds(t *testing.T) {
	s := open(t, none.Dialect{}, "python3", []string{"-q"})
	res := s.enter("raise SystemExit(3)")
	assert.Equal(t, terminals.SessionExit, res.WaitReason)
	three := 3
	assert.Equal(t, terminals.Status{Exited: true, ExitCode: &three}, res.Status)
	_, err := s.StartSend(context.Background(), terminals.SendRequest{Text: "x"})
	require.ErrorIs(t, err, terminals.SessionExited)
	assert.ErrorContains(t, err, "code 3")
}

// A program that is silent after it has printed something is ready by a guess,
// one that prints nothing never is.
func TestStartBySilence(t *testing.T) {
	s := open(t, none.Dialect{}, "sh", []string{"-c", "echo hello; exec sleep 1000"}, impatient)
	assert.Equal(t, "hello\n", s.Startup())

	_, _, err := tryOpen(t, none.Dialect{}, "sleep", []string{"1000"}, impatient, func(c *engine.Config) { c.Timeout = time.Second })
	assert.ErrorContains(t, err, "within 1000 ms (timeoutMs); it printed: nothing")

	_, _, err = tryOpen(t, none.Dialect{}, "sh", []string{"-c", "echo no; exit 4"})
	assert.ErrorContains(t, err, "sh exited during its start-up (code 4); it printed: no")
}

func TestInterruptAProgram(t *testing.T) {
	s := open(t, none.Dialect{}, "python3", []string{"-q"})
	ctx, cancel := context.WithCancelCause(context.Background())
	x := s.start(ctx, "print(40+2, flush=True)\rwhile True: pass\r", true)
	s.printed("42")
	cause := errors.New("enough")
	cancel(cause)
	<-x.Done()
	res, err := x.Result()
	require.ErrorIs(t, err, cause)
	assert.Contains(t, res.Viewport, "KeyboardInterrupt")
	s.asks(res, terminals.KeyInput, ">>> ")
	assert.Equal(t, "1+1\n2\n>>> ", s.enter("1+1").Viewport)
}

func TestShell(t *testing.T) {
	s := shell(t)
	assert.Equal(t, prompt(""), s.Startup())
	s.home(s.enter("echo hi"), "echo hi\nhi\n")
	s.asks(s.enter("if true"), terminals.ContinuationInput, "> ")
	s.home(s.enter("then echo $((40+2)); fi"), "then echo $((40+2)); fi\n42\n")
	s.home(s.enter(""), "\n")
	res := s.enter("cd /usr")
	assert.Equal(t, "cd /usr\n"+prompt("/usr"), res.Viewport)
	s.enter("cd")
	s.home(s.enter("PS1='mine> '"), "PS1='mine> '\n") // the shell repairs it
	res = s.end(s.start(context.Background(), "echo", false))
	assert.Equal(t, "echo", res.Viewport)
	assert.Equal(t, terminals.StdinRead, res.WaitReason, "the shell waits for more")
	s.home(s.enter(" hi"), " hi\nhi\n")

	// Without any mark it is seen to wait all the same.
	res = s.enter("PS1='mine> '; PROMPT_COMMAND=")
	assert.Equal(t, "PS1='mine> '; PROMPT_COMMAND=\nmine> ", res.Viewport)
	assert.Equal(t, terminals.StdinRead, res.WaitReason)
	assert.Equal(t, "echo hi\nhi\nmine> ", s.enter("echo hi").Viewport)

	res = s.enter("exit 3")
	assert.Equal(t, terminals.SessionExit, res.WaitReason)
	three := 3
	assert.Equal(t, terminals.Status{Exited: true, ExitCode: &three}, res.Status)
}

func TestInit(t *testing.T) {
	s := shell(t, func(c *engine.Config) { c.Init = "x=5\necho \"loaded $x\"" })
	assert.Equal(t, "loaded 5\n"+prompt(""), s.Startup())
	page, err := s.Read(0, 10)
	require.NoError(t, err)
	assert.Equal(t, "loaded 5\n"+prompt(""), page.Text)
	s.home(s.enter("echo $x"), "echo $x\n5\n")
}

// What waits in a shell is proved, and its kind.
func TestProgramsInAShell(t *testing.T) {
	for _, name := range []string{"python3", "less", "vim"} {
		if _, err := exec.LookPath(name); err != nil {
			absent(t, name)
		}
	}
	s := shell(t)
	s.asks(s.enter("cat"), terminals.LineInput, "")
	assert.Equal(t, "line\nline\n", s.enter("line").Viewport)
	s.home(s.end(s.start(context.Background(), "\x03", false)), "^C\n")

	s.asks(s.enter("python3 -q"), terminals.KeyInput, ">>> ")
	assert.Equal(t, "1+1\n2\n>>> ", s.enter("1+1").Viewport)
	s.asks(s.enter("import getpass; getpass.getpass()"), terminals.SecretInput, "Password: ")
	res := s.enter("hunter2")
	assert.Equal(t, "\n'hunter2'\n>>> ", res.Viewport)
	s.home(s.enter("exit()"), "exit()\n")

	s.asks(s.enter("read -s -p 'Password: ' x"), terminals.SecretInput, "Password: ")
	s.home(s.enter("x"), "")

	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "f"), []byte(strings.Repeat("text\n", 500)), 0o600))
	res = s.enter("less f")
	assert.True(t, res.FullScreen)
	s.asks(res, terminals.KeyInput, "f")
	res = s.end(s.start(context.Background(), "q", false))
	assert.True(t, strings.HasSuffix(res.Viewport, prompt("")), res.Viewport)
	assert.False(t, res.FullScreen)

	res = s.enter("vim -u NONE -n")
	assert.True(t, res.FullScreen)
	s.asks(res, terminals.KeyInput, "")
	res = s.enter("\x1b:q!")
	assert.True(t, strings.HasSuffix(res.Viewport, prompt("")), res.Viewport)
	s.home(s.enter("echo hi"), "echo hi\nhi\n")
}

// A program that does nothing to be seen ends a send by a guess or by the
// deadline, and runs on.
func TestSilentProgram(t *testing.T) {
	s := shell(t, impatient)
	res := s.enter("sleep 1000")
	assert.Equal(t, terminals.InferredIdle, res.WaitReason)
	s.home(s.end(s.start(context.Background(), "\x03", false)), "^C\n")

	s = shell(t, func(c *engine.Config) { c.Timeout = 5 * time.Second })
	res = s.enter("while :; do echo .; sleep 0.1; done")
	assert.Equal(t, terminals.Timeout, res.WaitReason)
	for res.WaitReason != terminals.StdinRead { // the shell may miss one between two programs
		_, err := s.Signal(context.Background(), terminals.SIGINT)
		require.NoError(t, err)
		res = s.end(s.start(context.Background(), "", false))
	}
	assert.Contains(t, s.enter("echo $((40+2))").Viewport, "42\n")
}

// A cancelled send interrupts what runs, whatever it does with the terminal.
func TestCancel(t *testing.T) {
	for name, tt := range map[string]struct {
		line  string
		stops bool
	}{
		"sleep":   {"echo $((40+2)); sleep 1000", true},
		"loop":    {"echo $((40+2)); while :; do :; done", true},
		"raw":     {"stty raw -echo; echo $((40+2)); sleep 1000", true},
		"ignores": {"(trap '' INT; echo $((40+2)); sleep 1000; sleep 1000)", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := shell(t, func(c *engine.Config) {
				if !tt.stops {
					c.Timeout = 2 * time.Second
				}
			})
			ctx, cancel := context.WithCancelCause(context.Background())
			x := s.start(ctx, tt.line, true)
			s.printed("42")
			cause := errors.New("enough")
			cancel(cause)
			<-x.Done()
			res, err := x.Result()
			require.ErrorIs(t, err, cause)
			if !tt.stops {
				assert.Equal(t, terminals.Timeout, res.WaitReason)
				return
			}
			assert.Equal(t, terminals.StdinRead, res.WaitReason)
			res = s.enter("echo $((2+1))")
			assert.Equal(t, terminals.StdinRead, res.WaitReason)
			assert.Contains(t, res.Viewport, "3\n")
		})
	}
}

// What a background job prints after the end of a send is in the scrollback and
// in no send.
func TestOutputBetweenSends(t *testing.T) {
	s := shell(t)
	res := s.enter("(until [ -e go ]; do sleep 0.02; done; echo $((40+2))) &")
	assert.NotContains(t, res.Viewport, "42")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	s.printed("42")
	res = s.enter("echo hi")
	assert.NotContains(t, res.Viewport, "42")
	assert.Contains(t, res.Viewport, "echo hi\nhi\n")
}

// A text of several lines is one paste where the line editor asks for it, and a
// tab in it completes nothing.
//
// Case: F48 (Tripstack-Corp/spyc PR#170)
func TestPaste(t *testing.T) {
	s := shell(t)
	text := "for i in 1 2\ndo echo $i$i\n\tdone"
	res := s.enter(text)
	assert.Equal(t, terminals.StdinRead, res.WaitReason)
	assert.True(t, strings.HasSuffix(res.Viewport, "\n11\n22\n"+prompt("")), res.Viewport)
	assert.Equal(t, 1, strings.Count(res.Viewport, prompt("")), "it was entered once")
	assert.NotContains(t, res.Viewport, "00~")

	s.asks(s.enter("cat"), terminals.LineInput, "")
	res = s.enter("a\nb")
	assert.Equal(t, "a\nb\n", strings.Replace(res.Viewport, "a\nb\n", "", 1), "a program that asked for no paste gets none")
	assert.NotContains(t, res.Viewport, "00~")
}

// A line that the terminal would cut is refused; a line editor has no limit.
//
// Case: P16 P17
func TestLongLine(t *testing.T) {
	s := shell(t)
	long := strings.Repeat("x", 4096)
	s.home(s.enter("wc -c <<<"+long), "wc -c <<<"+long+"\n4097\n")
	s.asks(s.enter("cat >f"), terminals.LineInput, "")
	_, err := s.StartSend(context.Background(), terminals.SendRequest{Text: "short\n" + long, Submit: true})
	require.ErrorIs(t, err, terminals.InvalidArgument)
	assert.ErrorContains(t, err, "takes 4095 bytes at most")
	s.asks(s.enter("short\n"+long[1:]), terminals.LineInput, "")
	s.home(s.end(s.start(context.Background(), "\x04", false)), "")
	s.home(s.enter("wc -c <f"), "wc -c <f\n4102\n")
}

// Much text arrives whole where it is read. Where it is not, the deadline ends
// the write, and the error says how much the terminal took.
func TestMuchText(t *testing.T) {
	s := shell(t)
	want := bytes.Repeat([]byte("0123456789012345678901234567890123456789012345678901234567890\n"), 10<<20/62)
	s.asks(s.enter("stty -echo; cat >f"), terminals.SecretInput, "")
	s.asks(s.end(s.start(context.Background(), string(want), false)), terminals.SecretInput, "")
	s.end(s.start(context.Background(), "\x04", false))
	got, err := os.ReadFile(filepath.Join(s.dir, "f"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))

	s = shell(t, func(c *engine.Config) { c.Timeout = 2 * time.Second })
	x := s.start(context.Background(), "sleep 1000\n"+string(want), true)
	<-x.Done()
	res, err := x.Result()
	assert.ErrorContains(t, err, "bytes; the program does not read the rest")
	assert.Equal(t, terminals.Timeout, res.WaitReason)
}

// NUL is a key: what Ctrl-Space types.
func TestNUL(t *testing.T) {
	s := shell(t)
	s.asks(s.enter("head -n1 | od -An -c"), terminals.LineInput, "")
	res := s.enter("a\x00b")
	assert.Contains(t, res.Viewport, `a  \0   b  \n`)
}

// A program that asks its terminal something is answered, or told at once that
// there is no such thing.
func TestQueries(t *testing.T) {
	s := shell(t)
	for query, reply := range map[string]string{
		`\e[c`:          `^[[?6c`,
		`\e[6n`:         `^[[1;1R`,
		`\eP+q544e\e\\`: `^[P0+r^[\`,
		`\e]11;?\a\e[c`: `^[[?6c`,
		`\e[?u\e[c`:     `^[[?6c`,
	} {
		res := s.enter(`stty raw -echo; printf '` + query + `'; x=; while IFS= read -rsn1 -t 5 c; do x+=$c; case $x in *[cR]|*r$'\e'\\) break ;; esac; done; stty sane; printf '%s\n' "$x" | cat -v`)
		assert.Contains(t, res.Viewport, reply, query)
		assert.Equal(t, terminals.StdinRead, res.WaitReason)
	}
}

// A program that leaves the alternate screen and raw mode behind: the shell is
// at its prompt, and that is no full-screen program.
func TestModesLeftBehind(t *testing.T) {
	s := shell(t)
	res := s.enter(`printf '\e[?1049h\e[2Jscreen'; stty raw -echo`)
	assert.Equal(t, terminals.StdinRead, res.WaitReason)
	assert.Nil(t, res.NeedsInput)
	assert.False(t, res.FullScreen)
	res = s.enter("echo $((40+2))")
	assert.Equal(t, terminals.StdinRead, res.WaitReason)
	assert.Contains(t, res.Viewport, "42\n")
	s.enter("stty sane")
	s.home(s.enter("echo hi"), "echo hi\nhi\n")
}
