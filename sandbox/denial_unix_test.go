//go:build unix

package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	deniedWrite   = "[sandbox: workspace-write mode allows writes in the workspace and $TMPDIR only; to allow more, the user sets sandbox.writableRoots]"
	deniedAny     = "[sandbox: read-only mode allows writes in $TMPDIR only; to allow more, the user chooses --sandbox workspace-write]"
	deniedNetwork = "[sandbox: workspace-write mode has no network; to allow it, the user sets sandbox.network]"
)

// What programs print of a refusal, and what they print of other failures.
func TestDenial(t *testing.T) {
	work, outside, secret := folder(t), folder(t), folder(t)
	require.NoError(t, os.MkdirAll(filepath.Join(work, ".git"), 0o700))
	config := filepath.Join(work, ".git", "config")
	require.NoError(t, os.WriteFile(config, nil, 0o600))
	s, err := New(Options{Root: work, DenyRead: []string{secret}})
	require.NoError(t, err)
	denial := func(m Mode, output string, code int) string {
		return s.Denial(Grant{Mode: m}, Failure{Output: output, Cwd: work, ExitCode: code})
	}
	hidden := "[sandbox: " + secret + "/key cannot be read; to allow it, the user takes it out of sandbox.denyRead]"
	for output, want := range map[string]string{
		"touch: cannot touch '" + outside + "/x': Read-only file system":                         deniedWrite,
		"touch: cannot touch '" + outside + "/with space': Permission denied":                    deniedWrite,
		"mkdir: cannot create directory ‘" + outside + "/x’: Permission denied":                  deniedWrite,
		"bash: line 1: " + outside + "/x: Read-only file system":                                 deniedWrite,
		"bash: ../" + filepath.Base(filepath.Dir(outside)) + "/x: Permission denied":             "",
		"open " + outside + "/x: permission denied":                                              deniedWrite,
		"PermissionError: [Errno 13] Permission denied: '" + outside + "/x'":                     deniedWrite,
		"Error: EACCES: permission denied, open '" + outside + "/x'":                             deniedWrite,
		"Access to the path '" + outside + "/x' is denied.":                                      deniedWrite,
		"Error: Read-only file system (os error 30)":                                             deniedWrite,
		"first\nsecond\ncp: cannot create regular file '" + outside + "/x': Permission denied\n": deniedWrite,

		"cat: " + secret + "/key: Permission denied":                            hidden,
		"cat: " + secret + "/key: No such file or directory":                    hidden,
		"can't open file '" + secret + "/key': [Errno 13] Permission denied":    hidden,
		"error: could not write config file .git/config: Read-only file system": "[sandbox: " + config + " is protected; to allow it, the user takes it out of sandbox.protect]",

		"curl: (6) Could not resolve host: example.com":                                    deniedNetwork,
		"ping: connect: Network is unreachable":                                            deniedNetwork,
		"bash: socket: Permission denied":                                                  deniedNetwork,
		"urllib.error.URLError: <urlopen error [Errno 13] Permission denied>":              deniedNetwork,
		"Error: getaddrinfo EAI_AGAIN example.com":                                         deniedNetwork,
		"dial tcp: lookup a.example: dial udp 9.9.9.9:53: connect: network is unreachable": deniedNetwork,

		"":             "",
		"no such file": "",
		"cat: missing: No such file or directory":                              "",
		"touch: cannot touch 'mine': Permission denied":                        "",
		"cat: /proc/1/environ: Permission denied":                              "",
		"rm: cannot remove '/nowhere/at/all/x': Permission denied":             "",
		"ssh: Permission denied (publickey).":                                  "",
		"Permission denied, please try again.":                                 "",
		"kill: (1) - Operation not permitted":                                  "",
		"mktemp: '" + os.TempDir() + "/shellstead-tmp-1/x': Permission denied": "",
		"connect to 127.0.0.1 port 1: Connection refused":                      "",
	} {
		assert.Equal(t, want, denial(WorkspaceWrite, output, 1), output)
		assert.Empty(t, denial(WorkspaceWrite, output, 0), "it did not fail")
		assert.Empty(t, denial(DangerFullAccess, output, 1), "nothing was confined")
	}
	mine := "touch: cannot touch 'mine': Read-only file system"
	assert.Equal(t, deniedAny, denial(ReadOnly, mine, 1))
	assert.Empty(t, denial(ReadOnly, "bash: line 1: ./mine: Permission denied", 126), "it is no program")

	extra := folder(t)
	s, err = New(Options{Root: work, Writable: []string{extra}, Network: true, Protect: []string{}})
	require.NoError(t, err)
	assert.Equal(t, "[sandbox: workspace-write mode allows writes in the workspace, $TMPDIR and "+extra+" only; to allow more, the user sets sandbox.writableRoots]",
		denial(WorkspaceWrite, "bash: "+outside+"/x: Read-only file system", 1))
	assert.Empty(t, denial(WorkspaceWrite, "bash: "+extra+"/x: Read-only file system", 1))
	assert.Empty(t, denial(WorkspaceWrite, "ping: connect: Network is unreachable", 1), "it is not cut off")
}

// What the host cannot write either was not refused by the sandbox.
func TestDenialOfWhatNobodyMay(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	s, err := New(Options{Root: folder(t)})
	require.NoError(t, err)
	assert.Empty(t, s.Denial(Grant{Mode: WorkspaceWrite}, Failure{Output: "bash: /etc/passwd: Permission denied", ExitCode: 1}))
}
