package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// fakeBubblewrap is a sandbox whose only provider is a bwrap with the given
// text.
func fakeBubblewrap(t *testing.T, script string) *Sandbox {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+script), 0o755))
	s, err := New(Options{Root: t.TempDir(), TempDir: t.TempDir()})
	require.NoError(t, err)
	s.providers = []provider{bubblewrap{dirs: []string{dir}}}
	return s
}

const (
	// skipOptions leaves what follows the options of bwrap.
	skipOptions = `while [ "$1" != -- ]; do shift; done; shift
`
	// skipLauncher leaves the program that the launcher would become.
	skipLauncher = skipOptions + `shift 3
`
)

// A provider that is broken never leads to an unconfined shell.
func TestBrokenProviders(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"unconfined":          {skipOptions + `exec "$@"`, "nothing is confined"},
		"without_launcher":    {skipLauncher + `exec "$@"`, "it ran the program without confining it"},
		"garbage":             {`printf 'cannot \377 do it\nmore\n'`, "the confined program did not run"},
		"garbage_and_fails":   {`printf 'cannot \377 do it\nmore\n'; exit 1`, "cannot ? do it"},
		"fails_in_silence":    {`exit 4`, "exit status 4"},
		"is_killed":           {`kill -9 $$`, "signal: killed"},
		"user_namespaces_off": {`echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1`, "setting up uid map: Permission denied"},
		"is_too_old":          {`echo 'bwrap: Unknown option --perms' >&2; exit 1`, "install bubblewrap 0.5 or newer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakeBubblewrap(t, tt.script)
			_, err := s.Check(t.Context())
			assert.ErrorIs(t, err, terminals.Unsupported)
			assert.ErrorContains(t, err, tt.want)
			assert.ErrorContains(t, err, "bubblewrap: ")
			var unavailable *UnavailableError
			require.ErrorAs(t, err, &unavailable)
			require.Len(t, unavailable.Tried, 1)
			assert.NotEmpty(t, unavailable.Tried[0].Remedy)
			for _, mode := range []Mode{ReadOnly, WorkspaceWrite} {
				wrapped, remove, err := s.Wrap(t.Context(), Grant{Mode: mode}, backend.Spec{Path: "sh", Env: os.Environ()})
				assert.ErrorIs(t, err, terminals.Unsupported)
				assert.Nil(t, remove)
				assert.Equal(t, "sh", wrapped.Path)
			}
			left, err := os.ReadDir(s.opts.TempDir)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}

func TestHangingProvider(t *testing.T) {
	s := fakeBubblewrap(t, `sleep 600 & wait`)
	s.probeLimit = 100 * time.Millisecond
	_, err := s.Check(t.Context())
	assert.ErrorIs(t, err, terminals.Unsupported)
	assert.ErrorContains(t, err, "the probe did not end within 100ms")

	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err = s.Check(ctx)
	assert.ErrorIs(t, err, gone)
}

// A provider that confines the probe and not the shell is caught at the shell:
// the launcher looks for itself.
func TestProviderThatConfinesTheProbeOnly(t *testing.T) {
	s := fakeBubblewrap(t, skipOptions+`exec "$@"`)
	s.chosen = s.providers[0]
	file := filepath.Join(t.TempDir(), "file")
	spec, remove, err := s.Wrap(t.Context(), Grant{Mode: ReadOnly}, backend.Spec{Path: "touch", Env: os.Environ(),
		Args: func(backend.ChannelRef) []string { return []string{file} }})
	require.NoError(t, err)
	defer func() { assert.NoError(t, remove()) }()
	cmd := exec.Command(spec.Path, spec.Args(backend.ChannelRef{})...)
	out, err := cmd.CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "nothing is confined")
	assert.NoFileExists(t, file)
}

// What was seen to work is not tried again, and what failed is.
func TestProbeIsKept(t *testing.T) {
	s := fakeBubblewrap(t, `exit 1`)
	_, err := s.Check(t.Context())
	require.Error(t, err)
	real := newBubblewrap()
	s.providers = []provider{real, s.providers[0]}
	first, err := s.Check(t.Context())
	if err != nil {
		t.Skip(err)
	}
	s.providers = nil
	again, err := s.Check(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first, again)
}

func TestSecondProviderIsTried(t *testing.T) {
	s := fakeBubblewrap(t, `exit 1`)
	s.providers = append(s.providers, landlock{})
	d, err := s.Check(t.Context())
	if err != nil {
		t.Skip(err)
	}
	assert.Equal(t, "landlock", d.Provider)
}

// A bwrap that a shell could have put there is not used.
func TestProviderInTheWorkspace(t *testing.T) {
	s := fakeBubblewrap(t, skipOptions+`exec "$@"`)
	dir := s.providers[0].(bubblewrap).dirs[0]
	_, err := bubblewrap{dirs: []string{dir}}.find(plan{writable: []string{dir}})
	assert.ErrorIs(t, err, errNoBubblewrap)
	_, err = bubblewrap{dirs: []string{dir, "relative", ""}}.find(plan{writable: []string{"/elsewhere"}})
	assert.NoError(t, err)
}

func TestRemedies(t *testing.T) {
	assert.Contains(t, bubblewrap{}.remedy(errNoBubblewrap), "apt install bubblewrap")
	assert.NotEmpty(t, bubblewrap{}.remedy(errors.New("setting up uid map: Permission denied")))
	assert.Contains(t, landlock{}.remedy(errOldLandlock{2}), "Linux 6.2")
	assert.EqualError(t, errOldLandlock{2}, "the kernel has version 2 of Landlock, and 3 is needed")
	assert.EqualError(t, errOldLandlock{}, "the kernel has no Landlock, or it is not enabled")
}
