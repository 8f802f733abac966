package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/sandbox/launcher"
)

// bubblewrap confines by namespaces: the file system is mounted read-only for
// the shell but for what it may write, and the shell sees no process, socket or
// network of the host.
type bubblewrap struct{ dirs []string } // where bwrap is looked for

func (bubblewrap) name() string { return "bubblewrap" }

var errNoBubblewrap = errors.New("bwrap is not in /usr/bin, /usr/local/bin or PATH")

func newBubblewrap() bubblewrap {
	return bubblewrap{slices.Concat([]string{"/usr/bin", "/usr/local/bin"}, filepath.SplitList(os.Getenv("PATH")))}
}

// find returns bwrap's file. One that a confined shell can write is not used.
func (b bubblewrap) find(p plan) (string, error) {
	for _, dir := range b.dirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		path, err := exec.LookPath(filepath.Join(dir, "bwrap"))
		if err != nil {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil && !within(real, p.writable) {
			return real, nil
		}
	}
	return "", errNoBubblewrap
}

// namespaces are those that every confined shell has of its own.
var namespaces = []string{"mnt", "pid", "ipc"}

func (b bubblewrap) wrap(p plan, spec backend.Spec) (backend.Spec, error) {
	bwrap, err := b.find(p)
	if err != nil {
		return spec, err
	}
	task := launcher.Task{Session: spec.Rows > 0, Channel: spec.Channel != nil, Outside: map[string]string{}, ReadOnlyRoot: true, DropPrivileges: isRoot()}
	spec.Env, task.Env = withoutLoader(spec.Env)
	spec.Launched = task.Session
	if spec.Launched {
		task.Status = backend.LaunchStatus
	}
	own := namespaces
	if !p.network {
		own = append(slices.Clone(own), "net")
	}
	for _, name := range own {
		if task.Outside[name], err = os.Readlink("/proc/self/ns/" + name); err != nil {
			return spec, fmt.Errorf("the host's namespaces cannot be seen: %w", err)
		}
	}
	options, err := b.options(p)
	if err != nil {
		return spec, err
	}
	program, args := spec.Path, spec.Args
	spec.Path = bwrap
	spec.Args = func(ref backend.ChannelRef) []string {
		return slices.Concat(options, []string{"--", p.program}, task.Argv(program, arguments(args, ref)))
	}
	return spec, nil
}

// options are bwrap's. A later mount covers an earlier one. Not among them:
// --new-session, which would take job control and ^C away (the launcher makes a
// session of its own instead); --die-with-parent, which follows the thread that
// started bwrap, not the process.
func (bubblewrap) options(p plan) ([]string, error) {
	options := []string{"--unshare-pid", "--unshare-ipc"}
	if !p.network {
		options = append(options, "--unshare-net")
	}
	add := func(words ...string) { options = append(options, words...) }
	add("--ro-bind", "/", "/", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev", "--proc", "/proc")
	for _, path := range append(slices.Clone(p.writable), p.pinned...) {
		add("--bind", path, path)
	}
	for _, path := range p.protect {
		add("--ro-bind", path, path)
	}
	for _, folder := range p.private {
		add("--ro-bind", folder, folder)
	}
	add("--bind", p.temp, p.temp)
	for _, path := range p.hidden {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("sandbox.denyRead: %w", err)
		case info.IsDir():
			add("--perms", "0000", "--tmpfs", path, "--remount-ro", path)
		default:
			add("--ro-bind", "/dev/null", path)
		}
	}
	reachable := slices.Concat(p.writable, p.private, []string{p.temp})
	for _, path := range boundSockets() {
		if !within(path, reachable) && !within(path, p.hidden) && !within(path, []string{"/dev", "/proc"}) {
			add("--ro-bind", "/dev/null", path)
		}
	}
	dir := p.dir
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	add("--chdir", dir)
	return options, nil
}

func (bubblewrap) describe(opts Options) Description {
	d := Description{Provider: "bubblewrap",
		Confines: []string{
			"files: read-only but for the folders that the mode opens; attributes too",
			"protected files in the workspace stay read-only; denied folders cannot be read",
			"other processes cannot be seen, signalled or debugged",
			"devices, other terminals and shared memory are the sandbox's own",
		},
		Gaps: []string{
			"a protected file that did not exist when the shell was opened can be made",
			"a socket that a program outside binds in a folder after the shell was opened can be connected to; so can a named pipe be written",
		},
	}
	if opts.Network {
		d.Gaps = append(d.Gaps, "the network is open, and with it abstract sockets of programs outside")
	} else {
		d.Confines = append(d.Confines, "no network: only a loopback of its own")
	}
	return d
}

func (bubblewrap) remedy(err error) string {
	if errors.Is(err, errNoBubblewrap) {
		return "install bubblewrap, for instance with apt install bubblewrap"
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "Unknown option"):
		return "install bubblewrap 0.5 or newer"
	case readSetting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1"
	case readSetting("/proc/sys/user/max_user_namespaces") == "0":
		return "allow user namespaces: set the sysctl user.max_user_namespaces to some thousands"
	case readSetting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "allow bwrap user namespaces by an AppArmor profile (Ubuntu: the package apparmor-profiles has bwrap-userns-restrict), or set the sysctl kernel.apparmor_restrict_unprivileged_userns=0"
	case inContainer():
		return "the container forbids namespaces: start it with a seccomp profile that allows them and with an unmasked /proc, or rely on landlock"
	}
	return "see what bwrap --unshare-pid --ro-bind / / --proc /proc true says"
}

func readSetting(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func inContainer() bool {
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return os.Getenv("container") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
