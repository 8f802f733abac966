package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// Options configure a Sandbox. The zero value confines to the current folder,
// without network, through the first provider that works.
type Options struct {
	// Root is the workspace: the folder that a shell may write in
	// WorkspaceWrite. Empty: the process's own folder. It must exist.
	Root string

	// Writable are further folders, or single files and sockets, that a shell
	// may write in WorkspaceWrite. "~" is the home folder. They must exist.
	Writable []string

	// Protect are paths in the workspace that stay read-only because other
	// programs execute what they hold. Nil: DefaultProtect; empty: none. Only
	// what exists when the shell is opened is protected.
	Protect []string

	// DenyRead are paths whose content a shell must not read. "~" is the home
	// folder; what does not exist is skipped. Nil: DefaultDenyRead; empty: none.
	DenyRead []string

	// Network leaves the network to confined shells.
	Network bool

	// Provider is the name of the one provider to use; empty: the first that
	// works.
	Provider string

	// TempDir is where the private temporary folders of shells are made. Empty:
	// the system's.
	TempDir string

	// Logger receives what happens where no caller is left. Nil: slog.Default.
	Logger *slog.Logger
}

// DefaultProtect are the files in a workspace that git, direnv and editors
// execute without being asked by the user of the shell.
var DefaultProtect = []string{".git/hooks", ".git/config", ".envrc", ".vscode/tasks.json"}

// DefaultDenyRead are the usual places of keys, passwords and tokens.
var DefaultDenyRead = []string{
	"~/.ssh", "~/.gnupg", "~/.password-store", "~/.local/share/keyrings", "~/Library/Keychains",
	"~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.docker/config.json", "~/.terraform.d/credentials.tfrc.json", "~/.vault-token", "~/.config/rclone",
	"~/.netrc", "~/.git-credentials", "~/.config/git/credentials", "~/.config/gh", "~/.config/glab-cli",
	"~/.npmrc", "~/.pypirc", "~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials",
}

// Grant is what one shell gets.
type Grant struct {
	Mode Mode

	// Root is the workspace of the shell's session; empty: Options.Root.
	Root string
}

// Sandbox confines the shells of one process. Its methods may be called from
// any goroutine.
type Sandbox struct {
	opts      Options
	home      string
	program   string // the host's own, for the launcher
	providers []provider

	probeLimit time.Duration

	mu     sync.Mutex
	chosen provider // nil until one has been seen to confine
}

// provider is one way to confine.
type provider interface {
	name() string

	// wrap changes a start that p describes in full. It does no more than read
	// the file system.
	wrap(p plan, s backend.Spec) (backend.Spec, error)

	// describe tells what it does on this machine.
	describe(opts Options) Description

	// remedy says how to make it work here, for one error of its probe.
	remedy(err error) string
}

// New returns a Sandbox. An option that cannot be used is an error that names
// its key of the configuration. No provider is tried yet; see Check.
func New(opts Options) (*Sandbox, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Protect == nil {
		opts.Protect = DefaultProtect
	}
	if opts.DenyRead == nil {
		opts.DenyRead = DefaultDenyRead
	}
	for _, path := range opts.Protect {
		if !filepath.IsLocal(path) || filepath.Clean(path) == "." {
			return nil, fmt.Errorf("sandbox.protect: %q is not a path inside the workspace", path)
		}
	}
	s := &Sandbox{opts: opts, probeLimit: probeLimit}
	s.home, _ = os.UserHomeDir() // without one nothing of it can be meant
	var err error
	if s.program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("sandbox: the program's own file is unknown: %w", err)
	}
	if s.program, err = filepath.EvalSymlinks(s.program); err != nil {
		return nil, fmt.Errorf("sandbox: the program's own file: %w", err)
	}
	if _, err := s.roots(Grant{Mode: WorkspaceWrite}); err != nil {
		return nil, err
	}
	s.providers = systemProviders()
	if opts.Provider == "" {
		return s, nil
	}
	names := make([]string, len(s.providers))
	for i, p := range s.providers {
		names[i] = p.name()
	}
	i := slices.Index(names, opts.Provider)
	if i < 0 {
		if len(names) == 0 {
			return nil, fmt.Errorf("sandbox.provider: %q is not available on this system, which has none", opts.Provider)
		}
		return nil, fmt.Errorf("sandbox.provider: %q is not available on this system; use %s, or leave it empty for the first that works", opts.Provider, strings.Join(names, " or "))
	}
	s.providers = s.providers[i : i+1]
	return s, nil
}

// Wrap returns spec with its program confined as g says, and what removes the
// shell's temporary folder once the terminal is closed. spec.Remove names the
// private folders of the session, which the shell sees but cannot change. In
// DangerFullAccess spec comes back as it is.
//
// The first call tries the providers, bounded by ctx. *UnavailableError says
// that none works here; a *terminals.Error with the code InvalidArgument names a
// setting that cannot be used.
func (s *Sandbox) Wrap(ctx context.Context, g Grant, spec backend.Spec) (backend.Spec, func() error, error) {
	if _, err := ParseMode(string(g.Mode)); err != nil {
		return spec, nil, invalid("%v", err)
	}
	if !g.Mode.Confined() {
		return spec, func() error { return nil }, nil
	}
	chosen, err := s.provider(ctx)
	if err != nil {
		return spec, nil, err
	}
	p, remove, err := s.plan(g, spec)
	if err != nil {
		return spec, nil, err
	}
	wrapped, err := s.confine(chosen, p, spec)
	if err != nil {
		return spec, nil, errors.Join(err, remove())
	}
	return wrapped, remove, nil
}

// confine puts one provider around spec.
func (s *Sandbox) confine(chosen provider, p plan, spec backend.Spec) (backend.Spec, error) {
	path, err := findProgram(spec.Path, spec.Env)
	if err != nil {
		return spec, err
	}
	spec.Path = path
	spec.Env = environment(spec.Env, p.temp, path)
	if err := lendCache(spec.Env, p.temp, path); err != nil {
		s.opts.Logger.Debug("a shell starts without its cache", "error", err)
	}
	spec.Remove = append(slices.Clone(spec.Remove), p.temp)
	return chosen.wrap(p, spec)
}

// plan is everything that a provider must know. All paths are absolute, exist,
// and hold no symbolic links.
type plan struct {
	network  bool
	dir      string   // where the program starts; empty: the host's own folder
	temp     string   // the private temporary folder, writable
	private  []string // the session's folders, readable
	writable []string // parents before what is in them; none in ReadOnly
	pinned   []string // folders in the workspace that must not be renamed, parents first
	protect  []string // read-only although a writable folder holds them
	hidden   []string // not readable
	program  string   // the host's own
}

// tempPrefix names the private temporary folders.
const tempPrefix = "shellstead-tmp-"

// plan resolves what g means now and makes the temporary folder.
func (s *Sandbox) plan(g Grant, spec backend.Spec) (p plan, remove func() error, err error) {
	p = plan{network: s.opts.Network, dir: spec.Dir, program: s.program}
	roots, err := s.roots(g)
	if err != nil {
		return p, nil, err
	}
	p.writable = outermostFirst(roots)
	for _, folder := range spec.Remove {
		path, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return p, nil, fmt.Errorf("sandbox: the session's folder: %w", err)
		}
		p.private = append(p.private, path)
	}
	if len(roots) > 0 {
		p.pinned, p.protect = protected(roots[0], s.opts.Protect)
	}
	if within(p.program, p.writable) {
		p.protect = append(p.protect, p.program)
	}
	if p.hidden, err = s.hidden(p); err != nil {
		return p, nil, err
	}
	temp, err := os.MkdirTemp(s.opts.TempDir, tempPrefix) // 0700
	if err != nil {
		return p, nil, fmt.Errorf("sandbox: no temporary folder for the shell (set TMPDIR to a writable folder): %w", err)
	}
	remove = func() error { return removeAll(temp) }
	if p.temp, err = filepath.EvalSymlinks(temp); err != nil {
		return p, nil, errors.Join(err, remove())
	}
	return p, remove, nil
}

// roots returns the folders that may be written, the workspace first.
func (s *Sandbox) roots(g Grant) ([]string, error) {
	if g.Mode == ReadOnly {
		return nil, nil
	}
	key, root := "sandbox.workspaceRoot", g.Root
	if root == "" {
		root = s.opts.Root
	}
	roots := make([]string, 0, 1+len(s.opts.Writable))
	for i, path := range slices.Concat([]string{root}, s.opts.Writable) {
		if i > 0 {
			key = "sandbox.writableRoots"
		}
		absolute, err := filepath.Abs(s.expand(path))
		if err == nil {
			absolute, err = filepath.EvalSymlinks(absolute)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, invalid("%s: %s does not exist", key, path)
		case err != nil:
			return nil, invalid("%s: %s cannot be used: %v", key, path, err)
		case slices.Contains(unwritable, absolute):
			return nil, invalid("%s: %s cannot be opened for writing as a whole; work in a folder of it, or use the mode %s", key, absolute, DangerFullAccess)
		}
		if info, err := os.Stat(absolute); i == 0 && err == nil && !info.IsDir() {
			return nil, invalid("%s: %s is not a folder", key, absolute)
		}
		roots = append(roots, absolute)
	}
	return roots, nil
}

// unwritable are folders that no mode but DangerFullAccess opens: with them a
// program gets at everything else.
var unwritable = []string{"/", "/dev", "/dev/shm", "/proc", "/sys", "/run", "/System"}

// hidden resolves the paths that must not be read.
func (s *Sandbox) hidden(p plan) ([]string, error) {
	var hidden []string
	for _, path := range s.opts.DenyRead {
		expanded := s.expand(path)
		if !filepath.IsAbs(expanded) {
			if strings.HasPrefix(path, "~") {
				continue // there is no home
			}
			return nil, invalid("sandbox.denyRead: %q is neither absolute nor in ~", path)
		}
		real, err := filepath.EvalSymlinks(expanded)
		if err != nil {
			continue // not there, or out of reach inside as well
		}
		for _, needed := range slices.Concat(p.writable, p.private, []string{p.program}) {
			if within(needed, []string{real}) {
				return nil, invalid("sandbox.denyRead: %s holds %s, which the shell needs; take one of the two away", path, needed)
			}
		}
		if !within(real, hidden) {
			hidden = append(hidden, real)
		}
	}
	return hidden, nil
}

func (s *Sandbox) expand(path string) string {
	if s.home != "" && (path == "~" || strings.HasPrefix(path, "~/")) {
		return filepath.Join(s.home, path[1:])
	}
	return path
}

// protected finds what of names exists in root, and the folders between: one
// that could be renamed would take the protection along and leave its place to
// another.
func protected(root string, names []string) (pinned, paths []string) {
	for _, name := range names {
		path, ancestors := root, []string(nil)
		for part := range strings.SplitSeq(filepath.Clean(name), string(filepath.Separator)) {
			path = filepath.Join(path, part)
			info, err := os.Lstat(path)
			if err != nil {
				path = ""
				break
			}
			if !info.IsDir() {
				break // a file on the way, such as the .git of a worktree, decides as much
			}
			ancestors = append(ancestors, path)
		}
		if path == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		for _, folder := range ancestors {
			if folder != real && !slices.Contains(pinned, folder) {
				pinned = append(pinned, folder)
			}
		}
		if !slices.Contains(paths, real) {
			paths = append(paths, real)
		}
	}
	slices.Sort(pinned)
	return pinned, paths
}

// within tells whether path is one of folders or in one.
func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
	})
}

// outermostFirst drops what another folder holds and sorts the rest.
func outermostFirst(paths []string) []string {
	sorted := slices.Clone(paths)
	slices.Sort(sorted)
	var outer []string
	for _, path := range sorted {
		if !within(path, outer) {
			outer = append(outer, path)
		}
	}
	return outer
}

// environment points programs to the temporary folder. A cache in the home
// folder cannot be written, so it moves there too. So do other folders that
// programs make at their first start, as long as nobody has made them: many
// programs end when they cannot. What somebody has moved already stays there.
func environment(env []string, temp, program string) []string {
	out := make([]string, 0, len(env)+4)
	var home string
	set := make(map[string]bool)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "TMPDIR", "TMP", "TEMP":
			continue
		case "HOME":
			home = value
		}
		set[name] = true
		out = append(out, entry)
	}
	out = append(out, "TMPDIR="+temp)
	for _, folder := range []struct{ variable, own, place string }{
		{"XDG_CACHE_HOME", ".cache", ""},
		{"XDG_CONFIG_HOME", ".config", ".config"},
		{"XDG_DATA_HOME", ".data", filepath.Join(".local", "share", ownFolder(program))},
	} {
		if set[folder.variable] || folder.place != "" && home != "" && exists(filepath.Join(home, folder.place)) {
			continue
		}
		out = append(out, folder.variable+"="+filepath.Join(temp, folder.own))
	}
	return out
}

// lendCache has a program find in its private cache what it kept at earlier starts,
// which it may read and not change. PowerShell starts half a second later without.
func lendCache(env []string, temp, program string) error {
	own, cache, home := ownFolder(program), filepath.Join(temp, ".cache"), ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "HOME="); ok {
			home = value
		}
	}
	kept := filepath.Join(home, ".cache", own)
	if own == "" || !filepath.IsAbs(kept) || !exists(kept) || !slices.Contains(env, "XDG_CACHE_HOME="+cache) {
		return nil
	}
	if err := os.Mkdir(cache, 0o700); err != nil {
		return err
	}
	return os.Symlink(kept, filepath.Join(cache, own))
}

// ownFolder is a program's folder in the user's data, without which it does not
// start, and in the user's cache.
func ownFolder(program string) string {
	if strings.HasPrefix(filepath.Base(program), "pwsh") {
		return "powershell"
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// findProgram returns the file of a program. A name is looked up in the
// absolute folders of env's PATH, as the driver does for an unconfined one. The
// driver starts the provider in its place, so what is wrong with the program has
// to be said here.
func findProgram(path string, env []string) (string, error) {
	if strings.ContainsRune(path, filepath.Separator) {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return "", invalid("shellPath: %s cannot be used: %v", path, reason(err))
		case !info.Mode().IsRegular():
			return "", invalid("shellPath: %s is not a program but a %s", path, kind(info))
		case !executable(info):
			return "", invalid("shellPath: %s is not executable", path)
		}
		return path, nil
	}
	search := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			search = value
		}
	}
	for _, dir := range filepath.SplitList(search) {
		if filepath.IsAbs(dir) && path != "" {
			file := filepath.Join(dir, path)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && executable(info) {
				return file, nil
			}
		}
	}
	return "", invalid("shellPath: %s is not in PATH (%s); install it or give its absolute path", path, search)
}

func executable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }

func kind(info fs.FileInfo) string {
	if info.IsDir() {
		return "folder"
	}
	return "special file"
}

func reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// removeAll removes a folder even when a program took its own rights away.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func invalid(format string, args ...any) error {
	return &terminals.Error{Code: terminals.InvalidArgument, Message: fmt.Sprintf(format, args...)}
}
