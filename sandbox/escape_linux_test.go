package sandbox_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/posix"
	"github.com/shellstead/shellstead/sandbox"
	"github.com/shellstead/shellstead/sandbox/launcher"
)

// victimMark is in the environment of the process that attacks are aimed at.
const victimMark = "SHELLSTEAD_TEST_VICTIM"

func TestMain(m *testing.M) {
	if name := os.Getenv(attackVariable); name != "" {
		attackMain(name)
		return
	}
	os.Exit(m.Run())
}

var providers = []string{"bubblewrap", "landlock"}

// eachProvider runs f for every provider that this machine can have.
func eachProvider(t *testing.T, f func(t *testing.T, provider string)) {
	for _, provider := range providers {
		t.Run(provider, func(t *testing.T) {
			s, err := sandbox.New(sandbox.Options{Provider: provider, Root: t.TempDir()})
			require.NoError(t, err)
			if _, err := s.Check(t.Context()); err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			f(t, provider)
		})
	}
}

// cage is a sandbox with a place inside and one outside.
type cage struct {
	*sandbox.Sandbox
	opts      sandbox.Options
	base      string
	workspace string // writable
	outside   string // not
	secret    string // not readable
}

func newCage(t testing.TB, provider string, change func(*sandbox.Options)) *cage {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &cage{base: base, workspace: filepath.Join(base, "workspace"), outside: filepath.Join(base, "outside"), secret: filepath.Join(base, "secret")}
	temp := filepath.Join(base, "tmp")
	for _, dir := range []string{c.workspace, c.outside, c.secret, temp} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	c.opts = sandbox.Options{Provider: provider, Root: c.workspace, TempDir: temp, DenyRead: []string{c.secret}}
	if change != nil {
		change(&c.opts)
	}
	c.Sandbox, err = sandbox.New(c.opts)
	require.NoError(t, err)
	return c
}

// spec starts a program on no terminal.
func spec(path string, args ...string) backend.Spec {
	return backend.Spec{Path: path, Args: func(backend.ChannelRef) []string { return args }, Env: os.Environ()}
}

// wrap confines s until the test ends.
func (c *cage) wrap(t testing.TB, mode sandbox.Mode, s backend.Spec) backend.Spec {
	t.Helper()
	s, remove, err := c.Wrap(t.Context(), sandbox.Grant{Mode: mode}, s)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remove()) })
	return s
}

func command(t testing.TB, s backend.Spec) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), s.Path, s.Args(backend.ChannelRef{})...)
	cmd.Env, cmd.Dir = s.Env, s.Dir
	return cmd
}

// sh runs a script inside and returns what it printed and its exit code.
func (c *cage) sh(t testing.TB, mode sandbox.Mode, script string, args ...string) (string, int) {
	t.Helper()
	s := spec("sh", append([]string{"-c", script, "sh"}, args...)...)
	s.Dir = c.workspace
	cmd := command(t, c.wrap(t, mode, s))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// attack makes one attack and tells whether it got what it wanted.
func (c *cage) attack(t testing.TB, mode sandbox.Mode, name string, leak []*os.File, args ...string) (escaped bool, report string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := spec(self, args...)
	s.Env = append(s.Env, attackVariable+"="+name, "GORACE=atexit_sleep_ms=0") // a race build waits a second at its end
	s.Dir = c.workspace
	cmd := command(t, c.wrap(t, mode, s))
	cmd.ExtraFiles = leak
	out, err := cmd.CombinedOutput()
	code := cmd.ProcessState.ExitCode()
	require.Contains(t, []int{0, refused}, code, "the attack must be made: %v: %s", err, out)
	return code == 0, string(out)
}

// victim is a process outside.
func victim(t testing.TB) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.Env = append(os.Environ(), victimMark+"=1")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func write(t testing.TB, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// escape is one way out that is tried.
type escape struct {
	name   string
	attack string
	// prepare makes what the attack needs outside, and returns its arguments.
	prepare func(t *testing.T, c *cage) []string
	leak    func(t *testing.T, c *cage) []*os.File
	options func(*sandbox.Options)

	open    []string // providers that cannot stop it, as docs/sandbox.md says
	root    bool     // it needs root
	harmful bool     // it is not tried unconfined, where it would harm the machine
}

// outsideFile is the argument of the attacks on a file that exists.
func outsideFile(t *testing.T, c *cage) []string {
	return []string{write(t, filepath.Join(c.outside, "file"), "original")}
}

func pidOfVictim(t *testing.T, _ *cage) []string {
	return []string{strconv.Itoa(victim(t).Process.Pid)}
}

// supervisor starts a terminal and returns the process that ends what a host that
// has died left open.
func supervisor(t *testing.T, c *cage) []string {
	driver, err := posix.New(posix.Options{})
	require.NoError(t, err)
	s := spec("sleep", "600")
	s.Rows, s.Cols = 24, 80
	device, err := driver.Start(t.Context(), s)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, device.Terminate(context.Background(), time.Second)) })
	var found string
	require.Eventually(t, func() bool { // it is started on the side
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, list := range lists {
			children, _ := os.ReadFile(list) // the thread may have ended
			for _, pid := range strings.Fields(string(children)) {
				if text, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && bytes.HasPrefix(text, []byte("shellstead-supervisor")) {
					found = pid
				}
			}
		}
		return found != ""
	}, patience, 10*time.Millisecond, "there is no supervisor")
	return []string{found}
}

// privateFile is a file in a private folder like those of shells' programs and of
// long output. parent is its place; empty: where temporary folders are made.
func privateFile(parent string) func(*testing.T, *cage) []string {
	return func(t *testing.T, c *cage) []string {
		folder, err := os.MkdirTemp(cmp.Or(parent, c.opts.TempDir), "shellstead-")
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, os.RemoveAll(folder)) })
		return []string{write(t, filepath.Join(folder, "file"), "original")}
	}
}

func workspaceFile(name string) func(*testing.T, *cage) []string {
	return func(t *testing.T, c *cage) []string {
		return []string{write(t, filepath.Join(c.workspace, name), "original")}
	}
}

// openWhen names a provider as open where the kernel is too old.
func openWhen(tooOld bool, provider string) []string {
	if tooOld {
		return []string{provider}
	}
	return nil
}

var escapes = []escape{
	{name: "new_file", attack: "create", prepare: func(t *testing.T, c *cage) []string { return []string{filepath.Join(c.outside, "new")} }},
	{name: "new_folder", attack: "mkdir", prepare: func(t *testing.T, c *cage) []string { return []string{filepath.Join(c.outside, "new")} }},
	{name: "append", attack: "append", prepare: outsideFile},
	{name: "truncate", attack: "truncate", prepare: outsideFile},
	{name: "remove", attack: "remove", prepare: outsideFile},
	{name: "by_dots", attack: "append", prepare: func(t *testing.T, c *cage) []string {
		outsideFile(t, c)
		return []string{filepath.Join(c.workspace) + "/../outside/file"}
	}},
	{name: "by_symlink", attack: "symlink", prepare: func(t *testing.T, c *cage) []string {
		return append(outsideFile(t, c), filepath.Join(c.workspace, "link"))
	}},
	{name: "by_symlinked_folder", attack: "create", prepare: func(t *testing.T, c *cage) []string {
		require.NoError(t, os.Symlink(c.outside, filepath.Join(c.workspace, "link")))
		return []string{filepath.Join(c.workspace, "link", "new")}
	}},
	{name: "by_hardlink", attack: "hardlink", prepare: func(t *testing.T, c *cage) []string {
		return append(outsideFile(t, c), filepath.Join(c.workspace, "link"))
	}},
	{name: "rename_out", attack: "rename", prepare: func(t *testing.T, c *cage) []string {
		return []string{write(t, filepath.Join(c.workspace, "file"), "attack"), filepath.Join(c.outside, "file")}
	}},
	{name: "rename_in", attack: "rename", prepare: func(t *testing.T, c *cage) []string {
		return append(outsideFile(t, c), filepath.Join(c.workspace, "file"))
	}},
	{name: "mode_of_a_file", attack: "chmod", prepare: outsideFile, open: []string{"landlock"}},
	{name: "times_of_a_file", attack: "utimes", prepare: outsideFile, open: []string{"landlock"}},
	{name: "attributes_of_a_file", attack: "xattr", prepare: outsideFile, open: []string{"landlock"}},
	{name: "bind_mount_in_a_user_namespace", attack: "mount", prepare: func(t *testing.T, c *cage) []string {
		point := filepath.Join(c.workspace, "mount")
		require.NoError(t, os.Mkdir(point, 0o755))
		return []string{c.outside, point, "new"}
	}},
	{name: "bind_mount_as_root", attack: "mount_inside", root: true, harmful: true, prepare: func(t *testing.T, c *cage) []string {
		point := filepath.Join(c.workspace, "mount")
		require.NoError(t, os.Mkdir(point, 0o755))
		return []string{c.outside, point, "new"}
	}},
	{name: "root_folder_of_a_process", attack: "proc_root", prepare: func(t *testing.T, c *cage) []string {
		return append(pidOfVictim(t, c), filepath.Join(c.outside, "new"))
	}},
	{name: "memory_of_a_process", attack: "proc_mem", prepare: pidOfVictim},
	{name: "environment_of_a_process", attack: "proc_environ", prepare: pidOfVictim},
	{name: "debug_a_process", attack: "ptrace", prepare: pidOfVictim},
	{name: "kill_a_process", attack: "kill", prepare: pidOfVictim, open: openWhen(!launcher.Scopes(), "landlock")},
	{name: "kill_the_supervisor", attack: "kill", prepare: supervisor, open: openWhen(!launcher.Scopes(), "landlock")},
	{name: "program_files_of_another_shell", attack: "append", prepare: privateFile("/dev/shm")},
	{name: "saved_output", attack: "append", prepare: privateFile("")},
	{name: "leaked_folder", attack: "leaked_descriptor",
		prepare: func(t *testing.T, c *cage) []string { return []string{"new"} },
		leak: func(t *testing.T, c *cage) []*os.File {
			dir, err := os.Open(c.outside)
			require.NoError(t, err)
			t.Cleanup(func() { _ = dir.Close() })
			return []*os.File{dir, dir}
		}},
	{name: "socket_in_a_file", attack: "socket", open: openWhen(!launcher.Sockets(), "landlock"), prepare: func(t *testing.T, c *cage) []string {
		return []string{listen(t, "unix", filepath.Join(c.outside, "s")).Addr().String()}
	}},
	{name: "abstract_socket", attack: "abstract_socket", open: openWhen(!launcher.Scopes(), "landlock"), prepare: func(t *testing.T, c *cage) []string {
		name := fmt.Sprintf("shellstead-test-%d", time.Now().UnixNano())
		listen(t, "unix", "@"+name)
		return []string{name}
	}},
	{name: "tcp", attack: "tcp", prepare: func(t *testing.T, c *cage) []string {
		return []string{listen(t, "tcp", "127.0.0.1:0").Addr().String()}
	}},
	{name: "udp", attack: "udp", prepare: func(t *testing.T, c *cage) []string {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			if _, from, err := conn.ReadFrom(make([]byte, 10)); err == nil {
				_, _ = conn.WriteTo([]byte("answer"), from)
			}
		}()
		return []string{conn.LocalAddr().String()}
	}},
	{name: "named_pipe", attack: "named_pipe", open: []string{"bubblewrap"}, prepare: func(t *testing.T, c *cage) []string {
		path := filepath.Join(c.outside, "pipe")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		reader, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = reader.Close() })
		return []string{path}
	}},
	{name: "other_terminal", attack: "other_terminal", open: []string{"landlock"}, prepare: func(t *testing.T, c *cage) []string {
		master, slave := openTerminal(t)
		t.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
		return []string{slave.Name()}
	}},
	{name: "typing_into_a_terminal", attack: "type_into_terminal", prepare: func(t *testing.T, c *cage) []string {
		// As root it is allowed whatever this says.
		if setting, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti"); err == nil && string(setting) == "0\n" && os.Geteuid() != 0 {
			t.Skip("the kernel refuses it to everybody: dev.tty.legacy_tiocsti is 0")
		}
		master, slave := openTerminal(t)
		t.Cleanup(func() { _ = master.Close(); _ = slave.Close() })
		return []string{slave.Name()}
	}},
	{name: "system_v_memory", attack: "shared_memory", open: []string{"landlock"}, prepare: func(t *testing.T, c *cage) []string {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		require.NoError(t, err)
		t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
		return []string{strconv.Itoa(id)}
	}},
	{name: "set_user_id_programs", attack: "new_privileges"},
	{name: "privileges_of_root", attack: "privileges", root: true},
	{name: "device", attack: "make_device", root: true, prepare: func(t *testing.T, c *cage) []string {
		return []string{filepath.Join(c.workspace, "disk")}
	}},
	{name: "file_by_handle", attack: "open_by_handle", root: true, prepare: func(t *testing.T, c *cage) []string {
		return append([]string{c.workspace}, outsideFile(t, c)...)
	}},
	{name: "read_a_secret", attack: "read", prepare: func(t *testing.T, c *cage) []string {
		return []string{write(t, filepath.Join(c.secret, "key"), "secret")}
	}},
	{name: "read_a_secret_through_proc", attack: "read", prepare: func(t *testing.T, c *cage) []string {
		return []string{"/proc/self/root" + write(t, filepath.Join(c.secret, "key"), "secret")}
	}},
	{name: "read_a_secret_file", attack: "read", options: func(o *sandbox.Options) {
		o.DenyRead = []string{filepath.Join(o.Root, "..", "outside", "file")}
	}, prepare: outsideFile},
	{name: "program_in_the_workspace", attack: "append", open: []string{"landlock"}, prepare: workspaceFile(".git/hooks/pre-commit")},
	{name: "new_program_in_the_workspace", attack: "create", open: []string{"landlock"}, prepare: func(t *testing.T, c *cage) []string {
		workspaceFile(".git/hooks/pre-commit")(t, c)
		return []string{filepath.Join(c.workspace, ".git/hooks/post-checkout")}
	}},
	{name: "replaced_program_in_the_workspace", attack: "rename", open: []string{"landlock"}, prepare: func(t *testing.T, c *cage) []string {
		return append(workspaceFile("mine")(t, c), workspaceFile(".git/config")(t, c)...)
	}},
	{name: "swapped_folder_in_the_workspace", attack: "swap_folder", open: []string{"landlock"}, prepare: func(t *testing.T, c *cage) []string {
		return append([]string{filepath.Join(c.workspace, ".git")}, workspaceFile(".git/hooks/pre-commit")(t, c)...)
	}},
	{name: "git_file_of_a_worktree", attack: "append", open: []string{"landlock"}, prepare: workspaceFile(".git")},
}

// Every way out is tried without a sandbox too: there it has to work.
func TestEscapes(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		for _, e := range escapes {
			t.Run(e.name, func(t *testing.T) {
				if e.root && os.Geteuid() != 0 {
					t.Skip("it needs root")
				}
				try := func(mode sandbox.Mode) (bool, string) {
					c := newCage(t, provider, e.options)
					var args []string
					if e.prepare != nil {
						args = e.prepare(t, c)
					}
					if e.options != nil { // what it hides exists only now
						var err error
						c.Sandbox, err = sandbox.New(c.opts)
						require.NoError(t, err)
					}
					var leak []*os.File
					if e.leak != nil {
						leak = e.leak(t, c)
					}
					before := snapshot(t, c.outside, c.secret)
					escaped, report := c.attack(t, mode, e.attack, leak, args...)
					if !escaped {
						assert.Equal(t, before, snapshot(t, c.outside, c.secret), report)
					}
					return escaped, report
				}
				escaped, report := try(sandbox.WorkspaceWrite)
				assert.Equal(t, slices.Contains(e.open, provider), escaped, "%s", report)
				if !e.harmful {
					escaped, report = try(sandbox.DangerFullAccess)
					assert.True(t, escaped, "the attack must work where nothing stops it: %s", report)
				}
			})
		}
	})
}

// snapshot is everything that can be seen of folders.
func snapshot(t testing.TB, dirs ...string) (lines []string) {
	t.Helper()
	for _, dir := range dirs {
		require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			line := fmt.Sprint(path, info.Mode(), info.ModTime(), info.Sys().(*syscall.Stat_t).Nlink)
			if info.Mode().IsRegular() {
				text, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += string(text)
			}
			lines = append(lines, line)
			return nil
		}))
	}
	return lines
}

// The suite once more as a user without any right.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the suite runs as an ordinary user already")
	}
	const user = 61234 // nobody's
	base, err := os.MkdirTemp("", "shellstead-user-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(base)) })
	require.NoError(t, os.Chmod(base, 0o755))
	program := filepath.Join(base, "sandbox.test")
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer self.Close()
	copied, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(copied, self)
	require.NoError(t, errors.Join(err, copied.Close()))
	home := filepath.Join(base, "home")
	require.NoError(t, os.Mkdir(home, 0o755))
	require.NoError(t, os.Chown(home, user, user))

	// What reads the package's folder is left out: the user may not reach it.
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.skip=^(TestSeatbeltProfile|TestAsOrdinaryUser)$")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	assert.NoError(t, cmd.Run(), "%s", failures(out.String()))
	assert.Contains(t, out.String(), "PASS: TestEscapes/bubblewrap")
	assert.Contains(t, out.String(), "PASS: TestEscapes/landlock")
}

// failures leaves out what passed.
func failures(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		if !strings.Contains(line, "=== ") && !strings.Contains(line, "--- PASS") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
