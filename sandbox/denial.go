package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Failure is how a command ended that exited with a code other than 0.
type Failure struct {
	Output   string
	Cwd      string // where it ended; empty: the workspace
	ExitCode int
}

// Denial is one line for the result of a command that failed because of its
// confinement: what was refused, and how to allow it. It is empty unless the
// output shows a refusal of something that the host itself could do, so a file
// without rights for anybody makes none. The line is a hint, never a proof.
func (s *Sandbox) Denial(g Grant, f Failure) string {
	// 126 is a shell's word for a file that is no program.
	if !g.Mode.Confined() || f.ExitCode == 0 || f.ExitCode == 126 {
		return ""
	}
	in := s.inside(g, f.Cwd)
	for line := range strings.Lines(f.Output) {
		line = strings.TrimSpace(line)
		if !s.opts.Network && cutOff.MatchString(line) {
			return "[sandbox: " + string(g.Mode) + " mode has no network; to allow it, the user sets sandbox.network]"
		}
		if why := in.refused(line); why != "" {
			return "[sandbox: " + why + "]"
		}
	}
	return ""
}

var (
	// cutOff is what programs print where there is no network. What comes last is
	// the refusal of a socket, which names no file.
	cutOff = regexp.MustCompile(`(?i)network is unreachable|ENETUNREACH|EAI_AGAIN|temporary failure in name resolution|name or service not known|could not resolve host|couldn't connect to server|` +
		`\bsocket: (?:permission denied|operation not permitted)|^[^'"]*errno 13\] permission denied[>)'"]*$`)

	// fileRefusal is what they print of a file. The file stands before or after it.
	fileRefusal = regexp.MustCompile(`(?i)read-only file system|permission denied|operation not permitted|no such file or directory|access to the path .* is denied`)

	// quoted does not begin at an apostrophe within a word.
	quoted = regexp.MustCompile(`(?:^|[\s(:=])['"‘“` + "`" + `]([^'"’”` + "`" + `]+)['"’”` + "`" + `]`)
)

// inside is what one shell may do, as far as refusals are concerned.
type inside struct {
	mode     Mode
	cwd      string
	limits   string
	writable []string
	protect  []string
	hidden   []string
}

func (s *Sandbox) inside(g Grant, cwd string) inside {
	// What cannot be resolved any more refuses nothing.
	roots, _ := s.roots(g)
	in := inside{mode: g.Mode, cwd: cwd, limits: s.limits(g.Mode), writable: roots}
	if len(roots) > 0 {
		_, in.protect = protected(roots[0], s.opts.Protect)
		if in.cwd == "" {
			in.cwd = roots[0]
		}
	}
	in.hidden, _ = s.hidden(plan{})
	return in
}

// refused says why a line of output is there, empty when the confinement has
// nothing to do with it.
func (in inside) refused(line string) string {
	at := fileRefusal.FindStringIndex(line)
	if at == nil {
		return ""
	}
	what := strings.ToLower(line[at[0]:at[1]])
	paths := named(line, at)
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(in.cwd, path)
		}
		path = resolved(path)
		switch {
		case within(path, in.hidden):
			return path + " cannot be read; to allow it, the user takes it out of sandbox.denyRead"
		case strings.HasPrefix(what, "no such"), within(path, []string{"/proc", "/sys"}), strings.Contains(path, "/"+tempPrefix):
		case within(path, in.protect):
			return path + " is protected; to allow it, the user takes it out of sandbox.protect"
		case !within(path, in.writable) && hostWrites(path):
			return in.limits
		}
	}
	if len(paths) == 0 && strings.HasPrefix(what, "read-only") {
		return in.limits
	}
	return ""
}

// named are the files that a line may name around the refusal at a place of it:
// in quotes, or between the colons before it.
func named(line string, at []int) (paths []string) {
	add := func(path string) {
		if path = strings.TrimSpace(path); path != "" && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	for _, match := range quoted.FindAllStringSubmatch(line, -1) {
		add(match[1])
	}
	before, colon := strings.CutSuffix(strings.TrimSpace(line[:at[0]]), ":")
	if !colon || len(paths) > 0 {
		return paths
	}
	// "cat: a file", "bash: line 1: a file", "open /a/file"; what stands first and
	// has no slash is the program, or "Error".
	start := strings.LastIndex(before, ": ") + 1
	segment := strings.TrimSpace(before[start:])
	if start > 0 || strings.Contains(segment, "/") {
		add(segment)
	}
	if words := strings.Fields(segment); len(words) > 1 && strings.Contains(words[len(words)-1], "/") {
		add(words[len(words)-1])
	}
	return paths
}

// resolved follows the links of what exists of a path.
func resolved(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return path
}

// hostWrites tells whether the host could write a file, or make it.
func hostWrites(path string) bool {
	if _, err := os.Lstat(path); err != nil {
		path = filepath.Dir(path)
	}
	return mayWrite(path)
}

// limits says what a shell in mode m may write, and how it gets more.
func (s *Sandbox) limits(m Mode) string {
	if m == ReadOnly {
		return string(m) + " mode allows writes in $TMPDIR only; to allow more, the user chooses --sandbox " + string(WorkspaceWrite)
	}
	places := "the workspace and $TMPDIR"
	if len(s.opts.Writable) > 0 {
		places = "the workspace, $TMPDIR and " + strings.Join(s.opts.Writable, ", ")
	}
	return string(m) + " mode allows writes in " + places + " only; to allow more, the user sets sandbox.writableRoots"
}
