// Package docs holds the documents' own tests.
package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The program in embedding.md is compiled, and run where there is a driver, as
// it stands there.
func TestEmbeddingProgram(t *testing.T) {
	document, err := os.ReadFile("embedding.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(document), "```go\n")
	require.True(t, ok, "embedding.md has no Go block")
	program, _, ok := strings.Cut(rest, "```\n")
	require.True(t, ok, "the Go block of embedding.md has no end")

	source := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(source, []byte(program), 0o600))
	binary := filepath.Join(t.TempDir(), "embedding")
	build := exec.Command("go", "build", "-o", binary, source)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	formatted, err := exec.Command("gofmt", "-l", source).Output()
	require.NoError(t, err)
	assert.Empty(t, string(formatted), "the program is not formatted")

	if runtime.GOOS == "windows" {
		return // no driver yet
	}
	run := exec.Command(binary)
	run.Stderr = os.Stderr
	out, err = run.Output()
	require.NoError(t, err)
	// On macOS /tmp is a link.
	assert.Regexp(t, `^5 in (/private)?/tmp\n$`, string(out))
}

var (
	link    = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	codeBox = regexp.MustCompile("(?s)```.*?```")
)

// Every relative link of the documents leads somewhere.
func TestLinks(t *testing.T) {
	root := ".."
	files := []string{"README.md", "CHANGELOG.md", "ci/README.md"}
	own, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, name := range own {
		files = append(files, "docs/"+name)
	}
	checked := 0
	for _, name := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range link.FindAllStringSubmatch(codeBox.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			checked++
			_, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(m[1])))
			assert.NoError(t, err, "%s links to %s", name, m[1])
		}
	}
	assert.Greater(t, checked, 10)
}
