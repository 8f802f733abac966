//go:build linux || darwin

package posix

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

func TestStartRefusals(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o600))
	garbage := filepath.Join(dir, "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("\x00\x01\x02"), 0o700))
	orphan := filepath.Join(dir, "orphan")
	require.NoError(t, os.WriteFile(orphan, []byte("#!/nonexistent/interpreter\n"), 0o700))

	tests := []struct {
		name   string
		change func(*backend.Spec)
		want   []string
	}{
		{"no program", func(s *backend.Spec) { s.Path = "" }, []string{"shellPath", "no program"}},
		{"unknown name", func(s *backend.Spec) { s.Path = "no-such-shell" }, []string{"shellPath", "no-such-shell", "PATH"}},
		{"missing file", func(s *backend.Spec) { s.Path = "/nonexistent/bash" }, []string{"shellPath", "/nonexistent/bash", "does not exist"}},
		{"below a file", func(s *backend.Spec) { s.Path = text + "/bash" }, []string{"shellPath", "does not exist"}},
		{"a folder", func(s *backend.Spec) { s.Path = dir }, []string{"shellPath", dir, "folder"}},
		{"a device", func(s *backend.Spec) { s.Path = os.DevNull }, []string{"shellPath", "not a regular file"}},
		{"not executable", func(s *backend.Spec) { s.Path = text }, []string{"shellPath", text, "not executable"}},
		{"relative", func(s *backend.Spec) { s.Path = "./bash" }, []string{"shellPath", "relative"}},
		{"garbage", func(s *backend.Spec) { s.Path = garbage }, []string{"shellPath", garbage, "not a program"}},
		{"no interpreter", func(s *backend.Spec) { s.Path = orphan }, []string{"shellPath", orphan, "interpreter"}},
		{"NUL in path", func(s *backend.Spec) { s.Path = "/bin/s\x00h" }, []string{"shellPath", "NUL"}},
		{"missing folder", func(s *backend.Spec) { s.Dir = "/nonexistent/dir" }, []string{"cwd", "/nonexistent/dir", "does not exist"}},
		{"folder is a file", func(s *backend.Spec) { s.Dir = text }, []string{"cwd", text, "not a folder"}},
		{"folder below a file", func(s *backend.Spec) { s.Dir = text + "/x" }, []string{"cwd", "not a folder"}},
		{"relative folder", func(s *backend.Spec) { s.Dir = "tmp" }, []string{"cwd", "absolute"}},
		{"no rows", func(s *backend.Spec) { s.Rows = 0 }, []string{"rows", "1 to 65535"}},
		{"too many columns", func(s *backend.Spec) { s.Cols = 70000 }, []string{"cols", "1 to 65535"}},
		{"NUL in argument", func(s *backend.Spec) {
			s.Args = func(backend.ChannelRef) []string { return []string{"a\x00"} }
		}, []string{"shellArgs", "NUL"}},
		{"NUL in variable", func(s *backend.Spec) { s.Env = []string{"PATH=/bin:/usr/bin", "A=\x00"} }, []string{"env", `"A"`, "NUL"}},
		{"environment too long", func(s *backend.Spec) { s.Env = append(s.Env, "A="+strings.Repeat("x", 16<<20)) }, []string{"env", "longer"}},
		{"folder to remove is the root", func(s *backend.Spec) { s.Remove = []string{"/tmp/.."} }, []string{"removed"}},
		{"folder to remove is relative", func(s *backend.Spec) { s.Remove = []string{"x"} }, []string{"removed"}},
	}
	before := openFiles(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := specOf("sh")
			tt.change(&spec)
			_, err := newDriver(t).Start(context.Background(), spec)
			require.ErrorIs(t, err, terminals.InvalidArgument)
			for _, want := range tt.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
	// Fewer may be open: the supervisor of an earlier test ends in its own time.
	assert.LessOrEqual(t, openFiles(t), before, "a failed start leaves nothing open")
	assert.Zero(t, leases(), "a failed start leaves nothing registered")
}

func leases() int {
	host.mu.Lock()
	defer host.mu.Unlock()
	return len(host.leases)
}

func openFiles(t testing.TB) int {
	t.Helper()
	dir, err := os.Open("/dev/fd")
	require.NoError(t, err)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	require.NoError(t, err)
	return len(names)
}

func TestStartCancelled(t *testing.T) {
	cause := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	_, err := newDriver(t).Start(ctx, specOf("sh"))
	require.ErrorIs(t, err, cause)
}

// The program gets its standard descriptors and the channel; what the host
// itself inherited and would hand on to every child stays out.
func TestDescriptors(t *testing.T) {
	leak, err := unix.Open(os.DevNull, unix.O_RDONLY, 0) // not close-on-exec
	require.NoError(t, err)
	defer unix.Close(leak)

	const list = `for f in /dev/fd/*; do n=${f##*/}; { true <&$n; } 2>/dev/null && printf '<%s>' "$n"; done; printf DONE`
	spec := specOf("bash", "-c", list)
	s := open(t, spec)
	s.ends(t)
	s.shows(t, "DONE")
	assert.Equal(t, "<0><1><2>DONE", s.output())

	spec = specOf("bash", "-c", list)
	spec.Channel = &backend.Channel{}
	spec.SeparateDescriptors = true
	s = open(t, spec)
	s.ends(t)
	s.shows(t, "DONE")
	assert.Equal(t, "<0><1><2><3>DONE", s.output())
}

// A child that makes its standard output non-blocking must not make the
// standard input so.
//
// Case: S33
func TestSeparateDescriptors(t *testing.T) {
	requires(t, "python3")
	const script = `import fcntl, os
fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_NONBLOCK)
print("input", bool(fcntl.fcntl(0, fcntl.F_GETFL) & os.O_NONBLOCK), os.isatty(0), os.isatty(2), os.ttyname(0) == os.ttyname(2))`
	for separate, want := range map[bool]string{false: "input True True True True", true: "input False True True True"} {
		spec := specOf("python3", "-c", script)
		spec.SeparateDescriptors = separate
		s := open(t, spec)
		s.ends(t)
		s.shows(t, want)
	}
}

func TestInitialTerminal(t *testing.T) {
	spec := shSpec("stty -a; stty size; tty; pwd; echo $MARK; echo done")
	spec.Modes = commandModes
	spec.Rows, spec.Cols = 41, 163
	spec.Env = append(spec.Env, "MARK=marked")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	spec.Dir = dir
	s := open(t, spec)
	s.ends(t)
	s.shows(t, "done")
	for _, want := range []string{"-echo ", "-opost", "-ixon", " noflsh", " icanon", "isig ", "iutf8", "41 163\n", "marked\n", dir + "\n", s.term.path} {
		assert.Contains(t, s.output(), want)
	}
}

func TestEmptyFolderIsTheHosts(t *testing.T) {
	spec := shSpec("pwd -P")
	spec.Dir = ""
	s := open(t, spec)
	s.ends(t)
	wd, err := os.Getwd()
	require.NoError(t, err)
	wd, err = filepath.EvalSymlinks(wd)
	require.NoError(t, err)
	s.shows(t, wd)
}

// A bootstrap that is larger than the pipe arrives while the program reads.
func TestLargeBootstrap(t *testing.T) {
	bootstrap := []byte(strings.Repeat("0123456789abcde\n", 1<<16)) // 1 MiB
	var seen backend.ChannelRef
	spec := backend.Spec{Channel: &backend.Channel{Bootstrap: func(ref backend.ChannelRef) []byte {
		seen = ref
		return bootstrap
	}}}
	base := specOf("sh")
	base.Channel = spec.Channel
	base.Args = func(ref backend.ChannelRef) []string {
		return []string{"-c", "wc -c <" + ref.Path + "; wc -c <&3; echo done"}
	}
	s := open(t, base)
	s.ends(t)
	s.shows(t, "done")
	assert.Equal(t, backend.ChannelRef{Path: "/dev/fd/3", Number: 3}, seen)
	assert.Equal(t, []string{"1048576", "0", "done"}, strings.Fields(s.output()))
	assert.Nil(t, s.Channel(), "the program reads end-of-file after its bootstrap")
}

// A program that does not read its bootstrap holds nothing up, and never gets
// half of it with an end-of-file after it.
func TestBootstrapIsBoundedByContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	spec := shSpec("read x; wc -c <&3; echo end-of-file")
	spec.Channel = &backend.Channel{Bootstrap: func(backend.ChannelRef) []byte { return make([]byte, 1<<20) }}
	dev, err := newDriver(t).Start(ctx, spec)
	require.NoError(t, err)
	s := &screen{device: dev.(*device), eof: make(chan struct{})}
	go s.collect()
	cancel()
	<-s.channel.sent
	s.types(t, "\n")
	conn, err := s.channel.file.SyscallConn()
	require.NoError(t, err)
	eventually(t, func() bool {
		unread := -1
		err := conn.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), ioctlInputQueue) })
		require.NoError(t, err, "the pipe stays open")
		return unread == 0
	}, "wc to empty the pipe")
	assert.NotContains(t, s.output(), "end-of-file")
	require.NoError(t, s.Terminate(context.Background(), time.Second))
	<-s.eof
}

func TestKeptChannel(t *testing.T) {
	spec := shSpec(`while read -r line <&3; do echo "got $line"; done; echo end-of-file; read x`)
	spec.Channel = &backend.Channel{Keep: true, Bootstrap: func(backend.ChannelRef) []byte { return []byte("bootstrap\n") }}
	s := open(t, spec)
	s.shows(t, "got bootstrap")
	_, err := s.Channel().Write([]byte("command\n"))
	require.NoError(t, err)
	s.shows(t, "got command")
	require.NoError(t, s.Channel().Close())
	s.shows(t, "end-of-file")
}

func TestKeptChannelHasDeadlines(t *testing.T) {
	for name, size := range map[string]int{"small bootstrap": 10, "bootstrap in flight": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			spec := shSpec("read x")
			spec.Channel = &backend.Channel{Keep: true, Bootstrap: func(backend.ChannelRef) []byte { return make([]byte, size) }}
			s := open(t, spec)
			bounded, ok := s.Channel().(interface{ SetWriteDeadline(time.Time) error })
			require.True(t, ok)
			require.NoError(t, bounded.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
			_, err := s.Channel().Write(make([]byte, 1<<20))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		})
	}
}
