//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// TestMain makes this test binary stand in for the program: scripts and tests
// find it in PATH as shellstead.
func TestMain(m *testing.M) {
	// Under the race detector every process that ends would wait a second.
	if err := os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")); err != nil {
		panic(err)
	}
	// Tests that want a log or a sandbox say so. As the program it is left to its caller.
	if filepath.Base(os.Args[0]) != "shellstead" {
		for name, value := range map[string]string{
			"SHELLSTEAD_SESSION_PERSISTENCE": "none",
			// Confined processes have other ids than the ones that tests look for.
			"SHELLSTEAD_SANDBOX_MODE": "danger-full-access",
		} {
			if os.Getenv(name) != "" { // ci/sandbox runs the tests confined
				continue
			}
			if err := os.Setenv(name, value); err != nil {
				panic(err)
			}
		}
	}
	testscript.Main(m, map[string]func(){"shellstead": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PROGRAM", program(t)) // for a script that changes PATH
			env.Setenv("GORACE", os.Getenv("GORACE"))
			// PowerShell keeps files in a home, and asks home about versions.
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("POWERSHELL_TELEMETRY_OPTOUT", "1")
			env.Setenv("POWERSHELL_UPDATECHECK", "Off")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"refused": refused,
		},
	})
}

// program is the file of the program under test.
func program(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("shellstead")
	require.NoError(t, err)
	return path
}

// exits CODE PROGRAM ARG... runs a program and wants exactly that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

var oneLine = regexp.MustCompile(`^shellstead: [^\n]+\n$`)

// refused PATTERN ARG... runs shellstead and wants a usage error: exit code 2,
// nothing on stdout, and one line on stderr that matches the pattern.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused PATTERN ARG...")
	}
	exits(ts, false, append([]string{"2", ts.Getenv("PROGRAM")}, args[1:]...))
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("stdout is not empty: %q", out)
	}
	line := ts.ReadFile("stderr")
	if !oneLine.MatchString(line) {
		ts.Fatalf("stderr is not one line of shellstead: %q", line)
	}
	if !regexp.MustCompile(args[0]).MatchString(strings.TrimSuffix(line, "\n")) {
		ts.Fatalf("%q does not match %q", line, args[0])
	}
}
