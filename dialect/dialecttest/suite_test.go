//go:build unix

package dialecttest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/pwsh"
)

func TestBash(t *testing.T) {
	paths := strings.Split(os.Getenv("SHELLSTEAD_TEST_BASHES"), ":")
	for _, path := range paths {
		if path == "" {
			path = "bash"
		}
		t.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
			dialecttest.Run(t, dialecttest.Language{
				Dialect: bash.Dialect{}, Path: path,
				Set: "x=5; cd /", Get: `echo "$x $PWD"`,
				Print:     func(s string) string { return "printf %s " + quote(s) },
				PrintLine: func(s string) string { return `\echo ` + quote(s) },
				Cat:       func(s string) string { return "cat " + s },
				Native:    func(s string) string { return "/bin/sh -c " + quote(s) },
				Fail:      "[[ a == b ]]", FailCode: 1,
				Incomplete: []string{`echo "abc`, "if true; then", "echo $(", "f() {", "case x in"}, IncompleteCode: 2,
				Loop: "echo $((40+2)); while :; do :; done", Sleep: "echo $((40+2)); sleep 60; echo no", InterruptCode: 130,
				Read:       "read x",
				Exit:       func(code int) string { return "exit " + string(rune('0'+code)) },
				Background: `(until [ -e go ]; do sleep 0.02; done; echo late; >gone) &`,
				Literal:    func(lines, file string) string { return "cat >" + file + " <<'END OF TEXT'\n" + lines + "END OF TEXT" },
				Refused:    "echo a\x00b", RefusedWhy: "NUL byte at offset 6",
				Forge: `printf '%s' "${__shs_1%A;}D;$__shs_n;0;5.2;/${__shs_2}${__shs_1}$__shs_n;0${__shs_2}"`,
				Sabotage: []string{"PROMPT_COMMAND=; unset PS1", "printf(){ :; }", "alias .=echo", "enable -n printf", "set -o vi",
					"exec 2>/dev/null", "set -u", "stty raw -echo", "IFS=", "PATH="},
			})
		})
	}
}

func TestPwsh(t *testing.T) {
	path, err := exec.LookPath("pwsh")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no pwsh in PATH")
		}
		t.Skip("no pwsh in PATH: install PowerShell 7 to run this suite")
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	language := dialecttest.Language{
		Path: path, Set: "$x = 5; cd /", Get: `"$x $PWD"`,
		Print:     func(s string) string { return "Write-Host -NoNewline " + quote(s) },
		PrintLine: quote,
		Cat:       func(s string) string { return "/bin/cat " + s },
		Native:    func(s string) string { return "/bin/sh -c " + quote(s) },
		Fail:      "Get-Item /nonexistent", FailCode: 1,
		Incomplete: []string{"if ($x) {", "'abc", "@'", "(1", "1 |", "function f {"}, IncompleteCode: 1,
		Loop: "40 + 2; while ($true) {}", Sleep: "40 + 2; /bin/sleep 60; 'no'", InterruptCode: 1,
		Read:       "$null = Read-Host",
		Exit:       func(code int) string { return "exit " + string(rune('0'+code)) },
		Background: `/bin/sh -c '(until [ -e go ]; do sleep 0.02; done; echo late; >gone) &'`,
		Literal: func(lines, file string) string {
			return "[IO.File]::WriteAllText((Join-Path $PWD '" + file + "'), @'\n" + lines + "\n'@)"
		},
		Refused: "echo a\xffb", RefusedWhy: "not valid UTF-8 at offset 6",
		Forge: "$s = [regex]::Match(${function:PSConsoleHostReadLine}.ToString(), '7771;[0-9a-f]{32};').Value\n" +
			"[Console]::Write(\"`e]$($s)D;99;0;0;`e\\`e]$($s)A;99`e\\\")",
		Sabotage: []string{"function prompt { 'x' }", "function PSConsoleHostReadLine { 'x' }", "Remove-Item function:prompt -Force",
			"$ErrorActionPreference = 'Stop'", "Set-StrictMode -Version Latest", "$env:PATH = ''", "[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)",
			"Set-PSDebug -Trace 0", "Get-Module | Remove-Module -Force", "$LASTEXITCODE = 'x'"},
	}
	for name, d := range map[string]pwsh.Dialect{"channel": {}, "typed": {Typed: true}} {
		language.Dialect = d
		t.Run(name, func(t *testing.T) { dialecttest.Run(t, language) })
	}
}
