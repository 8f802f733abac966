//go:build unix

package sandbox

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func touch(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	return path
}

func planOf(t *testing.T, o Options, g Grant) plan {
	t.Helper()
	s, err := New(o)
	require.NoError(t, err)
	p, remove, err := s.plan(g, backend.Spec{})
	require.NoError(t, err)
	require.NoError(t, remove())
	return p
}

func TestPlan(t *testing.T) {
	root, extra, home := folder(t), folder(t), folder(t)
	t.Setenv("HOME", home)
	touch(t, filepath.Join(root, ".git/hooks/pre-commit"))
	touch(t, filepath.Join(root, ".git/config"))
	touch(t, filepath.Join(root, "sub/file"))
	touch(t, filepath.Join(home, ".ssh/id"))
	touch(t, filepath.Join(home, "real/netrc"))
	require.NoError(t, os.Symlink(filepath.Join(home, "real/netrc"), filepath.Join(home, ".netrc")))
	require.NoError(t, os.Symlink(root, filepath.Join(home, "link")))
	o := Options{Root: filepath.Join(home, "link"), Writable: []string{extra, filepath.Join(root, "sub"), "~/real"}}

	p := planOf(t, o, Grant{Mode: WorkspaceWrite})
	assert.ElementsMatch(t, []string{root, extra, filepath.Join(home, "real")}, p.writable, "real paths, and none in another")
	assert.Equal(t, []string{filepath.Join(root, ".git")}, p.pinned)
	assert.Equal(t, []string{filepath.Join(root, ".git/hooks"), filepath.Join(root, ".git/config")}, p.protect)
	assert.Equal(t, []string{filepath.Join(home, ".ssh"), filepath.Join(home, "real/netrc")}, p.hidden)
	assert.False(t, p.network)

	p = planOf(t, o, Grant{Mode: ReadOnly})
	assert.Empty(t, p.writable)
	assert.Empty(t, p.protect)
	assert.NotEmpty(t, p.hidden)

	other := folder(t)
	p = planOf(t, Options{Root: root, Protect: []string{}, DenyRead: []string{}}, Grant{Mode: WorkspaceWrite, Root: other})
	assert.Equal(t, []string{other}, p.writable, "the session's own root")
	assert.Empty(t, p.protect)
	assert.Empty(t, p.hidden)
}

func TestOptionsThatCannotBeUsed(t *testing.T) {
	root := folder(t)
	file := touch(t, filepath.Join(root, "file"))
	for want, o := range map[string]Options{
		"sandbox.workspaceRoot: /no/such does not exist": {Root: "/no/such"},
		"is not a folder": {Root: file},
		"sandbox.workspaceRoot: / cannot be opened for writing as a whole":        {Root: "/"},
		"sandbox.writableRoots: /dev/shm cannot be opened for writing as a whole": {Root: root, Writable: []string{"/dev/shm"}},
		"sandbox.writableRoots: /no/such does not exist":                          {Root: root, Writable: []string{"/no/such"}},
		`sandbox.protect: "../x" is not a path inside the workspace`:              {Root: root, Protect: []string{"../x"}},
		`sandbox.provider: "magic" is not available on this system`:               {Root: root, Provider: "magic"},
	} {
		_, err := New(o)
		assert.ErrorContains(t, err, want)
	}

	for want, denied := range map[string]string{
		`sandbox.denyRead: "relative" is neither absolute nor in ~`: "relative",
		"which the shell needs": root,
	} {
		s, err := New(Options{Root: root, DenyRead: []string{denied}})
		require.NoError(t, err)
		_, _, err = s.plan(Grant{Mode: WorkspaceWrite}, backend.Spec{})
		assert.ErrorContains(t, err, want)
		assert.ErrorIs(t, err, terminals.InvalidArgument)
	}

	s, err := New(Options{Root: root})
	require.NoError(t, err)
	_, _, err = s.Wrap(t.Context(), Grant{Mode: "none"}, backend.Spec{})
	assert.ErrorIs(t, err, terminals.InvalidArgument)
}

func TestEnvironment(t *testing.T) {
	home := t.TempDir()
	assert.Equal(t, []string{"A=1", "TMPDIR=/t", "XDG_CACHE_HOME=/t/.cache", "XDG_CONFIG_HOME=/t/.config", "XDG_DATA_HOME=/t/.data"},
		environment([]string{"TMPDIR=/old", "A=1", "TMP=x", "TEMP=y"}, "/t", "/bin/bash"))
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".local", "share"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(home, ".config"), 0o700))
	assert.Equal(t, []string{"XDG_CACHE_HOME=/mine", "HOME=" + home, "TMPDIR=/t"},
		environment([]string{"XDG_CACHE_HOME=/mine", "HOME=" + home}, "/t", "/bin/bash"))
	assert.Equal(t, []string{"XDG_CACHE_HOME=/mine", "HOME=" + home, "TMPDIR=/t", "XDG_DATA_HOME=/t/.data"},
		environment([]string{"XDG_CACHE_HOME=/mine", "HOME=" + home}, "/t", "/opt/pwsh-preview"), "it would not start")
}

// A private cache has what the user's own holds for the shell, and only where it
// is private.
func TestLendCache(t *testing.T) {
	home := t.TempDir()
	kept := filepath.Join(home, ".cache", "powershell")
	require.NoError(t, os.MkdirAll(kept, 0o700))
	for _, tt := range []struct {
		program string
		cache   string // of the environment; empty: the private one
		lent    bool
	}{{"/opt/pwsh", "", true}, {"/bin/bash", "", false}, {"/opt/pwsh", "/mine", false}} {
		temp := t.TempDir()
		env := []string{"HOME=" + home, "XDG_CACHE_HOME=" + cmp.Or(tt.cache, filepath.Join(temp, ".cache"))}
		require.NoError(t, lendCache(env, temp, tt.program))
		to, err := os.Readlink(filepath.Join(temp, ".cache", "powershell"))
		assert.Equal(t, tt.lent, err == nil, "%+v", tt)
		if tt.lent {
			assert.Equal(t, kept, to)
		}
	}
}

func TestSeatbeltProfile(t *testing.T) {
	closed := plan{
		temp:     "/private/tmp/shellstead-tmp-1",
		private:  []string{"/private/tmp/shellstead-2"},
		writable: []string{"/Users/me/work", `/Users/me/with "quotes" and \`},
		pinned:   []string{"/Users/me/work/.git"},
		protect:  []string{"/Users/me/work/.git/hooks"},
		hidden:   []string{"/Users/me/.ssh"},
	}
	open := plan{temp: "/private/tmp/shellstead-tmp-1", network: true}
	for file, p := range map[string]plan{"workspace-write.sb": closed, "read-only-network.sb": open} {
		path, got := filepath.Join("testdata", file), seatbeltProfile(p)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), got)
	}
}
