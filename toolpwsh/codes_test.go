//go:build unix

package toolpwsh_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/persistent"
)

// The exit code of a command is what PowerShell itself would let a script find
// out: the code of the native program that failed in it, else 1 when its last
// statement failed. All rows run in one shell, so each also shows that nothing
// of the row before is taken for its own.
//
// Case: W3 W4 S10 S17 F31 (microsoft/agent-framework#8205) F32 (letta-ai/letta-code#4009)
func TestExitCodes(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.run(`function simple { Write-Error boom }
function advanced { [CmdletBinding()]param() $PSCmdlet.WriteError([Management.Automation.ErrorRecord]::new([Exception]::new('boom'), 'id', 'NotSpecified', $null)) }
function native4 { /bin/sh -c 'exit 4' }
Set-Content script7.ps1 'exit 7'
Set-Content scriptErr.ps1 '"in"; Get-Item /nope -ErrorAction Ignore; Get-Item /nope 2>$null'
Set-Content notexec 'x'`)
		for _, row := range []struct {
			text string
			code int
		}{
			{"1", 0},
			{"", 0},
			{"# a comment", 0},
			{"break", 0},
			{"/bin/false", 1},
			{"/bin/sh -c 'exit 3'", 3},
			{"/bin/sh -c 'exit 3'", 3}, // the same number again is another program's
			{"# a comment after a failure", 0},
			{"function later { }", 0},
			{"class Later { [int] $x }", 0},
			{"using namespace System.IO", 0},
			{"foreach ($i in @()) { 1 }", 0},
			{"while ($false) { 1 }", 0},
			{"if ($false) { 1 }", 0},
			{"/bin/sh -c 'exit 255'", 255},
			{"/bin/sh -c 'exit 3'; Get-Item . | Out-Null", 0},
			{"Get-Item /nope", 1}, // $LASTEXITCODE is 3, but of the command before
			{"Get-Item /nope", 1},
			{"# a comment after a failed cmdlet", 0},
			{"/bin/sh -c 'exit 3'; Get-Item /nope", 3}, // which failed? PowerShell does not tell
			{"throw 'x'", 1},
			{"1/0", 1},
			{"no-such-command", 1},
			{"./notexec", 1},
			{"[int]'abc'", 1},
			{"1 +* 2", 1}, // does not parse
			{"1", 0},
			{"if (", 1}, // incomplete
			{"'after'", 0},
			{"./script7.ps1", 7},
			{"& ./script7.ps1", 7},
			{"./scriptErr.ps1", 0},
			{"& { /bin/sh -c 'exit 4' }", 0},
			{". { /bin/sh -c 'exit 4' }", 0},
			{"native4", 0},
			{"(/bin/sh -c 'exit 4')", 4},
			{"$v = /bin/sh -c 'exit 4'", 4},
			{"/bin/sh -c 'exit 4' | Out-Null", 4},
			{"1..3 | /bin/false | /bin/cat", 1}, // $LASTEXITCODE is cat's 0
			{"/bin/sh -c 'kill -9 $$'", 137},
			{"/bin/sh -c 'kill -TERM $$'", 143},
			{"$ErrorActionPreference = 'Stop'; Get-Item /nope", 1},
			{"Get-Item /nope", 1},
			{"$ErrorActionPreference = 'Continue'", 0},
			{"simple", 0},
			{"advanced", 1},
			{"Write-Error 'at the top'", 1},
			{"try { throw 1 } catch { 'caught' }", 0},
			{"try { throw 1 } catch { }", 1}, // pwsh -Command says the same: $? is false
			{"/bin/false || 'y'", 0},
			{"/bin/false && 'x'", 1},
			{"$PSNativeCommandUseErrorActionPreference = $true; /bin/sh -c 'exit 6'", 6},
			{"$PSNativeCommandUseErrorActionPreference = $false", 0},
			{"$LASTEXITCODE = 9", 0},
			{"$global:LASTEXITCODE = 11; Get-Item /nope", 11}, // as if a program had failed
			{"Remove-Variable LASTEXITCODE -Scope Global", 0},
			{"Get-Item /nope", 1},
			{"/bin/sh -c 'exit 8'", 8},
			{"Start-Sleep 0", 0},
			{"& /bin/sh -c 'exit 12' 2>&1 | Out-String", 12},
			{"/bin/sh -c 'exit 5' > $null", 5},
			{"$null = 1; return", 0},
			{"return (/bin/sh -c 'exit 5')", 5},
			{"Invoke-Expression 'throw 1'", 1},
			{"Invoke-Expression '/bin/sh -c \"exit 3\"'", 0}, // Invoke-Expression itself went well
			{"cmd /c exit 7", 1},                             // no such program here
			{"Get-Item .", 0},
		} {
			a := h.run(row.text)
			assert.Equal(t, persistent.Completed, a.Reason, "%q: %+v", row.text, a.Result)
			if assert.NotNil(t, a.ExitCode, "%q", row.text) {
				assert.Equal(t, row.code, *a.ExitCode, "%q printed %q", row.text, a.exact)
			}
		}
	})
}

// The next command finds $? and $LASTEXITCODE as PowerShell shows them at its
// own prompt.
func TestStatusIsVisibleToTheNextCommand(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("/bin/sh -c 'exit 3'", "", 3)
		h.expect(`"$? $LASTEXITCODE"`, "False 3\n", 0)
		h.expect(`"$? $LASTEXITCODE"`, "True 3\n", 0)
		h.expect("Get-Item /nope 2>$null", "", 1)
		h.expect(`"$? $LASTEXITCODE"`, "False 3\n", 0)
		h.run("1 +* 2")
		h.expect(`"$? $LASTEXITCODE"`, "True 3\n", 0)
		h.expect("$Error.Count", "2\n", 0)
	})
}
