package dialecttest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/shellstead/shellstead/backend/conpty/conptytest"
	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals/engine"
)

func TestMain(m *testing.M) { conptytest.Main(m, programs) }

// programs do what the suite's programs for /bin/sh do.
var programs = map[string]func(args []string){
	"cat": func(args []string) {
		data, err := os.ReadFile(args[0])
		if err != nil {
			fmt.Println(err)
		}
		os.Stdout.Write(data)
	},
	"flood": func([]string) { os.Stdout.Write(bytes.Repeat([]byte{'x'}, 5000000)) },
	"read":  func([]string) { _, _ = bufio.NewReader(os.Stdin).ReadString('\n') },
	"secret": func([]string) {
		var mode uint32
		in := windows.Handle(os.Stdin.Fd())
		if err := windows.GetConsoleMode(in, &mode); err != nil {
			fmt.Println(err)
		}
		_ = windows.SetConsoleMode(in, mode&^windows.ENABLE_ECHO_INPUT)
		fmt.Print("Password: ")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		_ = windows.SetConsoleMode(in, mode)
	},
	"sleep": func([]string) { time.Sleep(time.Minute) },
	"late": func([]string) {
		for {
			if _, err := os.Stat("go"); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		fmt.Print("late\r\n")
		_ = os.WriteFile("gone", nil, 0o600)
	},
	"background": func(args []string) { start(args[0], 0, os.Stdout) },
	"detached":   func(args []string) { start(args[0], windows.DETACHED_PROCESS, nil) },
}

// start starts one of programs, which nobody waits for.
func start(name string, flags uint32, stdout *os.File) {
	line := conptytest.Program(name)
	_, err := os.StartProcess(line[0], line, &os.ProcAttr{
		Files: []*os.File{nil, stdout, nil},
		Sys:   &syscall.SysProcAttr{CreationFlags: flags},
	})
	if err != nil {
		fmt.Println(err)
	}
}

func TestPwsh(t *testing.T) {
	path := os.Getenv("SHELLSTEAD_TEST_PWSH")
	if path == "" {
		t.Skip("SHELLSTEAD_TEST_PWSH names no pwsh.exe: install PowerShell 7 to run this suite")
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	run := func(name string, args ...string) string {
		text := "&"
		for _, a := range conptytest.Self(name, args...) {
			text += " " + quote(a)
		}
		return text
	}
	cmd := "& " + quote(os.Getenv("ComSpec")) + " /c exit "
	natives := map[string]string{
		"kill -TERM $$":                           cmd + "143",
		"head -c 5000000 /dev/zero | tr '\\0' x":  run("flood"),
		"read x":                                  run("read"),
		"stty -echo; printf 'Password: '; read x": run("secret"),
		"setsid sleep 1000.0625 >/dev/null 2>&1 & sleep 1000.0625 >/dev/null 2>&1 & true": run("detached", "sleep"),
	}
	var options []dialecttest.Option
	if conptytest.Wine() {
		// Wine's console goes on taking records for a read whose program was
		// interrupted. The next program must have come to its own read by the time
		// that a wait is reported.
		options = append(options, func(_ *engine.Config, p *persistent.Config) { p.WaitConfirm = 3 * time.Second })
	}
	dialecttest.Run(t, dialecttest.Language{
		Dialect: pwsh.Dialect{}, Path: path, Options: options,
		Set: `$x = 5; cd C:\`, Get: `"$x $PWD"`, Root: `C:\`,
		Print:     func(s string) string { return "Write-Host -NoNewline " + quote(s) },
		PrintLine: quote,
		Cat:       func(s string) string { return run("cat", s) },
		Native: func(text string) string {
			if code, ok := strings.CutPrefix(text, "exit "); ok {
				if _, err := strconv.Atoi(code); err == nil {
					return cmd + code
				}
			}
			native, ok := natives[text]
			if !ok {
				panic("the suite's program " + text + " has no counterpart on Windows: add one")
			}
			return native
		},
		Fail: `Get-Item C:\nonexistent`, FailCode: 1,
		Incomplete: []string{"if ($x) {", "'abc", "@'", "(1", "1 |", "function f {"}, IncompleteCode: 1,
		Loop: "40 + 2; while ($true) {}", Sleep: "40 + 2; " + run("sleep") + "; 'no'", InterruptCode: 1,
		Read:       "$null = Read-Host",
		Exit:       func(code int) string { return "exit " + strconv.Itoa(code) },
		Background: run("background", "late"),
		Literal: func(lines, file string) string {
			return "[IO.File]::WriteAllText((Join-Path $PWD '" + file + "'), @'\n" + lines + "\n'@)"
		},
		Refused: "echo a\xffb", RefusedWhy: "not valid UTF-8 at offset 6",
		Sabotage: []string{"function prompt { 'x' }", "function PSConsoleHostReadLine { 'x' }",
			"$ErrorActionPreference = 'Stop'", "$env:PATH = ''", "chcp 437", "$LASTEXITCODE = 'x'"},
	})
}
