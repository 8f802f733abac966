//go:build unix

package toolpwsh_test

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
)

// State lives on from command to command.
func TestStateLivesOn(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("$x = 5; Set-Location /tmp; function f { \"f$args\" }; $env:A = 'é'; Set-Alias hey f", "", 0)
		a := h.expect(`"$x in $PWD"; hey 2; /bin/sh -c 'echo $A'`, "5 in /tmp\nf2\né\n", 0)
		assert.Equal(t, "/tmp", a.Cwd)
		h.expect("$j = Start-ThreadJob { 7 }; $null = Wait-Job $j", "", 0)
		h.expect("Receive-Job $j", "7\n", 0)
		h.expect("using namespace System.IO", "", 0)
		h.expect("[Path]::Combine('a', 'b')", "a/b\n", 0)
		h.expect("$_ = 1; Get-Item . | ForEach-Object Name | Out-Null", "", 0)
		a = h.run("New-Item -ItemType Directory 'odd;é`nname' | Out-Null; Set-Location -LiteralPath 'odd;é`nname'; Set-Location env:")
		assert.Equal(t, "/tmp/odd;é`nname", a.Cwd, "the folder stays known while the location is no folder")
		h.expect("Set-Location /; Remove-Item -Recurse -LiteralPath '/tmp/odd;é`nname'", "", 0)
	})
}

// Case: W7 S34 S35 F47 (PowerShell/PSReadLine#4100)
func TestTextArrivesExactly(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		write := func(text string) string { return "[Console]::Write('" + text + "')" }
		for _, row := range []struct{ text, output string }{
			{write("\x1b[31m\ttab ! ` $x \"q\" \x01\x03\x04\x15\x7f end"), "\x1b[31m\ttab ! ` $x \"q\" \x01\x03\x04\x15\x7f end"},
			{write("é漢🙂 “smart” \u2028\u00a0"), "é漢🙂 “smart” \u2028\u00a0"},
			{write("nul\x00in"), "nul\x00in"},
			{write("cr\rlf\ncrlf\r\nend"), "cr\rlf\ncrlf\r\nend"},
			{"[Console]::Write(@'\na\n'b'\n'@)", "a\n'b'"},
			{"[Console]::Write(@'\r\na\r\nb\r\n'@)", "a\r\nb"},
			{"\ufeff'bom'", "bom\n"},
			{"'a'\r'b'", "a\nb\n"}, // a lone CR ends a statement
			{"'a'\r\n'b'\r\n", "a\nb\n"},
			{"'a'\n\n'b'\n", "a\nb\n"},
			{"'x' # é", "x\n"},
			{strings.Repeat("$x = 1\n", 5000) + "$x", "1\n"},
			{"'" + strings.Repeat("y", 5000) + "'", strings.Repeat("y", 5000) + "\n"},
			{"param($p = 5) $p", "5\n"},
			{"begin { 'b' } process { 'p' } end { 'e' }", "b\np\ne\n"},
			{"trap { 'trapped'; continue } throw 1; 'after'", "trapped\nafter\n"},
			{"class K { [int] Two() { return 2 } }; [K]::new().Two()", "2\n"},
			{"enum E { A; B }; [E]::B", "B\n"},
			{":outer foreach ($i in 1..3) { foreach ($j in 1..3) { if ($j -eq 2) { continue outer }; \"$i$j\" } }", "11\n21\n31\n"},
			{"#requires -Version 99\n'runs'", "runs\n"},
			{`"[$PSCommandPath][$PSScriptRoot]"`, "[][]\n"},
			{"return 5; 'no'", "5\n"},
			{"Write-Output a b | Out-Null", ""},
			{"$^; $$", "Write-Output\nOut-Null\n"},
			{"(Get-History -Count 1).CommandLine", "$^; $$\n"},
		} {
			a := h.run(row.text)
			assert.Equal(t, row.output, a.exact, "%.100q", row.text)
			assert.Equal(t, persistent.Completed, a.Reason, "%.100q", row.text)
		}
	})
}

func TestTextThatIsNotPowerShell(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		a := h.run("'a\xffb'")
		require.Equal(t, persistent.Failed, a.Reason)
		assert.Contains(t, a.Error.Message, "offset 2 (byte 0xff)")
		assert.Empty(t, a.exact)
		a = h.run("'a' \x00 'b'")
		assert.Contains(t, a.exact, "Error")
		assert.Equal(t, 1, *a.ExitCode)
		h.expect("'alive'", "alive\n", 0)
	})
}

// Case: S16
func TestHugeText(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		big := strings.Repeat("0123456789abcde\n", 1<<16)
		sum := md5.Sum([]byte(big[:len(big)-1]))
		h.expect("$big = @'\n"+big+"'@\n[Convert]::ToHexString([Security.Cryptography.MD5]::HashData([Text.Encoding]::ASCII.GetBytes($big))).ToLower()", hex.EncodeToString(sum[:])+"\n", 0)
		h.expect("'"+strings.Repeat("z", 1<<20)+"'.Length", fmt.Sprintln(1<<20), 0)
	})
}

// Incomplete text is an error at once, not a question for more.
//
// Case: W6 S36 F22 (RooCodeInc/Roo-Code#4200) F29 (nickgnd/tmux-mcp PR#5)
func TestIncompleteTextIsAnErrorAtOnce(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		for _, row := range []struct{ text, says string }{
			{"if ($x) {", "Missing closing '}'"},
			{"@'", "missing the terminator: '@"},
			{"@'\nabc", "missing the terminator: '@"},
			{"1 |", "empty pipe element"},
			{"'abc", "missing the terminator: '"},
			{"\"a $(", "missing the closing ')'"},
			{"(1", "Missing closing ')'"},
			{"1 `", "Incomplete"},
			{"function f {\n'é", "missing the terminator"},
			{"<# comment", "terminator '#>' is missing"},
		} {
			a := h.run(row.text)
			assert.Equal(t, persistent.Completed, a.Reason, "%q: %+v", row.text, a.Result)
			assert.Equal(t, 1, *a.ExitCode, row.text)
			assert.Contains(t, a.exact, row.says, row.text)
			assert.NotContains(t, a.exact, ">>", row.text)
		}
		// What is wrong rather than incomplete is told with its place.
		a := h.run("'a'\n1 +* 2")
		assert.Regexp(t, `(?s)ParserError.*Line.*2 \|.*1 \+\* 2.*~`, a.exact)
		assert.Equal(t, 1, *a.ExitCode)
		h.expect("'next'", "next\n", 0)
	})
}
