package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/backend/conpty/conptytest"
)

// asProgram is set for every process that a test starts: the test binary then
// stands in for the program.
const asProgram = "SHELLSTEAD_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	conptytest.Serve(natives)
	if os.Getenv(asProgram) != "" {
		pressCtrlC = conptytest.Options().CtrlC
		main()
	}
	set := map[string]string{
		asProgram:                        "1",
		"SHELLSTEAD_SESSION_PERSISTENCE": "none", // tests that want a log say where
		"POWERSHELL_TELEMETRY_OPTOUT":    "1",
		"POWERSHELL_UPDATECHECK":         "Off",
		// A machine may be busy.
		"SHELLSTEAD_BACKENDS_PWSH_TIMEOUT_MS":  "60000",
		"SHELLSTEAD_BACKENDS_SHELL_TIMEOUT_MS": "60000",
	}
	if path := os.Getenv("SHELLSTEAD_TEST_PWSH"); path != "" {
		set["PATH"] = filepath.Dir(path) + string(filepath.ListSeparator) + os.Getenv("PATH")
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// program is the file of the program under test.
func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// natives are what commands run in a shell.
var natives = map[string]func(args []string){
	"bytes": func([]string) { os.Stdout.Write([]byte("\x00\x01\xff\x80\r\n\t\x1b[31mz\n")) },
	"streams": func([]string) {
		for range 5 {
			fmt.Fprint(os.Stdout, "o")
			fmt.Fprint(os.Stderr, "e")
		}
	},
	"flood": func([]string) { os.Stdout.Write(bytes.Repeat([]byte{'x'}, 1<<20)) },
	"ask": func([]string) {
		fmt.Print("name? ")
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Printf("native %q", line)
	},
	// It goes on, and so does a child of its own.
	"linger": func(args []string) {
		line := conptytest.Self("sleep")
		child := exec.Command(line[0], line[1:]...)
		if err := child.Start(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(os.Getpid(), child.Process.Pid)
		time.Sleep(time.Hour)
	},
	"sleep": func([]string) { time.Sleep(time.Hour) },
	"doze":  func([]string) { fmt.Print("asleep."); time.Sleep(time.Hour) },
}
