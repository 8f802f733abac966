// Package layering holds the module's import rules: who may import whom, which
// packages know no operating system, and which know no shell.
package layering

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/shellstead/shellstead/"

// rule is what one package may import beyond the standard library.
type rule struct {
	ours   []string // packages of this module
	others []string // modules
}

// rules has one entry for each package that programs can embed. Imports run one
// way: cmd → tools → persistent → terminals ← engine, backends, dialects. The
// contract packages (terminals, backend, dialect, tool) hold types.
var rules = map[string]rule{
	"shellenv":                  {},
	"terminals":                 {},
	"backend":                   {},
	"dialect":                   {ours: []string{"backend"}},
	"dialect/bash":              {ours: []string{"backend", "dialect"}},
	"dialect/pwsh":              {ours: []string{"backend", "dialect"}},
	"dialect/none":              {ours: []string{"backend", "dialect"}},
	"backend/posix":             {ours: []string{"backend", "terminals", "shellenv"}, others: []string{"github.com/creack/pty", "golang.org/x/sys"}},
	"backend/conpty":            {ours: []string{"backend", "terminals"}, others: []string{"github.com/UserExistsError/conpty", "golang.org/x/sys"}},
	"terminals/screen":          {ours: []string{"terminals"}},
	"terminals/engine":          {ours: []string{"terminals", "terminals/screen", "backend", "dialect", "shellenv"}},
	"tool":                      {ours: []string{"terminals", "terminals/screen"}},
	"persistent":                {ours: []string{"terminals", "terminals/screen", "shellenv"}},
	"tool/command":              {ours: []string{"terminals", "persistent", "tool"}},
	"toolbash":                  {ours: []string{"persistent", "tool/command"}},
	"toolpwsh":                  {ours: []string{"persistent", "tool/command"}},
	"tasks":                     {ours: []string{"terminals", "tool"}},
	"toolpty":                   {ours: []string{"terminals", "tool", "tasks"}},
	"session":                   {},
	"session/internal/filelock": {others: []string{"golang.org/x/sys"}},
	"session/jsonl":             {ours: []string{"session", "session/internal/filelock"}, others: []string{"github.com/klauspost/compress"}},
	"session/sqlite":            {ours: []string{"session", "session/internal/filelock"}, others: []string{"modernc.org/sqlite"}},
	"hooks":                     {ours: []string{"tool", "terminals/screen"}, others: []string{"golang.org/x/sys"}},
	"sandbox":                   {ours: []string{"backend", "terminals", "sandbox/launcher"}, others: []string{"golang.org/x/sys"}},
	"sandbox/launcher":          {others: []string{"golang.org/x/sys"}},
	"config": {
		others: []string{"github.com/spf13/viper", "github.com/spf13/pflag", "go.yaml.in/yaml/v3"},
	},
}

// free are the packages that only wire or only serve development.
var free = []string{"cmd/", "ci/", "docs", "dialect/dialecttest", "backend/conpty/conptytest"}

// Packages that know no operating system and, but for the dialects, no shell.
var (
	systemless = []string{"terminals", "terminals/screen", "terminals/engine", "persistent", "tool", "tool/command", "toolbash", "toolpwsh", "toolpty", "tasks", "dialect", "dialect/bash", "dialect/pwsh", "dialect/none", "shellenv"}
	shellless  = []string{"terminals", "terminals/screen", "terminals/engine", "persistent", "tool", "tool/command", "toolpty", "tasks", "backend", "backend/posix", "dialect/none"}
	pure       = []string{"dialect", "dialect/bash", "dialect/pwsh", "dialect/none", "shellenv"}
)

// What those packages may not import. The engine looks up a shell in PATH, which
// is the same call everywhere; TestSources holds it to that one.
var (
	systemImports = []string{"syscall", "golang.org/x/sys", "os/exec", "os/signal", "os/user"}
	impureImports = []string{"os", "io/fs", "io/ioutil", "net", "time", "path/filepath", "runtime", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand"}
)

// goPackage is what go list says of one package.
type goPackage struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// list returns the module's packages, and everything that they need, as they
// are on one system.
func list(t *testing.T, goos string) map[string]goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Standard,Imports", "./...")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	packages := map[string]goPackage{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		packages[p.ImportPath] = p
	}
	return packages
}

var systems = []string{"linux", "darwin", "windows", "freebsd"}

func TestImports(t *testing.T) {
	for _, goos := range systems {
		t.Run(goos, func(t *testing.T) {
			packages := list(t, goos)
			for path, p := range packages {
				name, ours := strings.CutPrefix(path, module)
				if !ours || isFree(name) {
					continue
				}
				allowed, known := rules[name]
				if !assert.True(t, known, "package %s has no rule: add it to the table with what it may import", name) {
					continue
				}
				for _, imported := range p.Imports {
					assert.True(t, allowed.allows(packages, imported), "%s must not import %s", name, imported)
					if slices.Contains(systemless, name) {
						lookup := name == "terminals/engine" && imported == "os/exec"
						assert.False(t, matches(systemImports, imported) && !lookup, "%s knows no operating system and must not import %s", name, imported)
					}
					if slices.Contains(pure, name) {
						assert.False(t, slices.Contains(impureImports, imported) || strings.HasPrefix(imported, "net/"), "%s is pure and must not import %s", name, imported)
					}
				}
			}
		})
	}
}

func isFree(name string) bool {
	return slices.ContainsFunc(free, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (r rule) allows(packages map[string]goPackage, imported string) bool {
	if ours, ok := strings.CutPrefix(imported, module); ok {
		return slices.Contains(r.ours, ours)
	}
	if p, ok := packages[imported]; ok && p.Standard {
		return true
	}
	return matches(r.others, imported)
}

// matches tells whether path is one of roots or lies under one.
func matches(roots []string, path string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") })
}

var (
	buildTag   = regexp.MustCompile(`(?m)^//go:build `)
	systemFile = regexp.MustCompile(`_(aix|android|darwin|dragonfly|freebsd|illumos|ios|linux|netbsd|openbsd|plan9|solaris|unix|windows|amd64|arm64|386)(_test)?\.go$`)
	shellWord  = regexp.MustCompile(`(?i)bash|pwsh|powershell`)
	toolName   = regexp.MustCompile(`\btool(bash|pwsh)\b`) // a package's name says nothing about a shell
)

// Shared code carries no build tag and no file for one system, and code below
// the tools names no shell: in identifiers, strings or comments.
func TestSources(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(name), "*.go"))
		require.NoError(t, err)
		assert.NotEmpty(t, files, "%s is in the table and has no Go file", name)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			base := name + "/" + filepath.Base(file)
			if slices.Contains(systemless, name) {
				assert.False(t, systemFile.MatchString(file), "%s: shared code has no file for one system", base)
				assert.False(t, buildTag.Match(text), "%s: shared code has no build tag", base)
				assert.False(t, startsProcess(string(text)), "%s: shared code starts no process", base)
			}
			if slices.Contains(shellless, name) {
				for i, line := range strings.Split(toolName.ReplaceAllString(string(text), ""), "\n") {
					assert.False(t, shellWord.MatchString(line), "%s:%d names a shell: %s", base, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}

var execUse = regexp.MustCompile(`\bexec\.\w+`)

// startsProcess tells whether text uses more of os/exec than the look-up.
func startsProcess(text string) bool {
	if !strings.Contains(text, `"os/exec"`) {
		return false
	}
	return slices.ContainsFunc(execUse.FindAllString(text, -1), func(use string) bool {
		return use != "exec.LookPath" && use != "exec.ErrNotFound"
	})
}

// The checks themselves: a rule that cannot fail holds nothing.
func TestRulesCanFail(t *testing.T) {
	packages := map[string]goPackage{"fmt": {Standard: true}, "github.com/creack/pty": {}}
	r := rule{ours: []string{"terminals"}, others: []string{"golang.org/x/sys"}}
	assert.True(t, r.allows(packages, "fmt"))
	assert.True(t, r.allows(packages, module+"terminals"))
	assert.True(t, r.allows(packages, "golang.org/x/sys/unix"))
	assert.False(t, r.allows(packages, module+"terminals/engine"))
	assert.False(t, r.allows(packages, "github.com/creack/pty"))
	assert.False(t, r.allows(packages, "golang.org/x/sysother"))
	assert.True(t, systemFile.MatchString("proc_linux.go"))
	assert.False(t, systemFile.MatchString("process.go"))
	assert.True(t, startsProcess("import \"os/exec\"\n exec.Command()"))
	assert.False(t, startsProcess("import \"os/exec\"\n exec.LookPath()"))
	assert.True(t, buildTag.MatchString("// x\n//go:build linux\n"))
	assert.True(t, shellWord.MatchString("runBash"))
	assert.False(t, shellWord.MatchString(toolName.ReplaceAllString("packages toolbash, toolpwsh", "")))
}
