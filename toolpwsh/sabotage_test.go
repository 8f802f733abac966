//go:build linux

package toolpwsh_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
)

// check looks whether the shell still works as promised.
func (h *host) check(after string, output bool) {
	h.t.Helper()
	run := func(text, want string, code int) {
		h.t.Helper()
		a := h.run(text)
		assert.Equal(h.t, persistent.Completed, a.Reason, "%q after %q: %+v", text, after, a.Result)
		if output {
			assert.Equal(h.t, want, a.exact, "%q after %q", text, after)
			assert.Empty(h.t, a.Unsolicited, "%q after %q", text, after)
		}
		assert.NotContains(h.t, a.exact, "7771;", "%q after %q", text, after)
		assert.NotContains(h.t, a.exact, "__shs", "%q after %q", text, after)
		if assert.NotNil(h.t, a.ExitCode, "%q after %q", text, after) {
			assert.Equal(h.t, code, *a.ExitCode, "%q after %q", text, after)
		}
	}
	run("'hi  there'", "hi  there\n", 0)
	run("/bin/sh -c 'exit 3'", "", 3)
	run("Microsoft.PowerShell.Management\\Get-Item /nope 2>$null", "", 1)
	run("1", "1\n", 0)
	run("[Console]::Out.Write('no newline')", "no newline", 0)
}

// Whatever a command does to its shell, the next commands have their own output
// and status, without a marker or a prompt, and the shell can be interrupted.
//
// Case: F19 (cline/cline#3445) F28 (starship/starship#330) W16 S12 S32
func TestSabotage(t *testing.T) {
	t.Parallel()
	const console = "$w = [IO.StreamWriter]::new([Console]::OpenStandardOutput()); $w.AutoFlush = $true; [Console]::SetOut($w)"
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := newHostOf(t, d, path)
		h.expect("$kept = 'yes'", "", 0)
		pid := h.session().PID()
		for _, row := range []struct {
			text, undo string
			changed    bool // the user has changed what is printed
		}{
			{text: "function prompt { 'PS> ' }"},
			{text: "function prompt { throw 'x' }"},
			{text: "function global:prompt { Write-Host -NoNewline X; ' ' }"},
			{text: "Remove-Item function:prompt -Force"},
			{text: "Remove-Item alias:prompt -Force -ErrorAction SilentlyContinue"},
			{text: "Set-Alias prompt Get-Date -Force -Scope Global -ErrorAction SilentlyContinue"},
			{text: "function PSConsoleHostReadLine { 'exit' }"},
			{text: "function global:PSConsoleHostReadLine { throw 1 }"},
			{text: "Remove-Item function:PSConsoleHostReadLine -Force -ErrorAction SilentlyContinue"},
			{text: "Remove-Item alias:PSConsoleHostReadLine -Force -ErrorAction SilentlyContinue"},
			{text: "Remove-Item function:__shs_read, function:__shs_prompt -Force -ErrorAction SilentlyContinue"},
			{text: "Set-Item function:__shs_read { 'exit' } -Force -ErrorAction SilentlyContinue"},
			{text: "Import-Module PSReadLine -ErrorAction SilentlyContinue"},
			{text: "Import-Module PSReadLine -Force -ErrorAction SilentlyContinue", undo: "Remove-Module PSReadLine -ErrorAction SilentlyContinue"},
			{text: "Get-Module | Remove-Module -Force"},
			{text: "Remove-Module shellstead -Force -ErrorAction SilentlyContinue"},
			// A terminating error is no longer an error record to redirect.
			{text: "$ErrorActionPreference = 'Stop'", undo: "$ErrorActionPreference = 'Continue'", changed: true},
			{text: "$ErrorActionPreference = 'SilentlyContinue'", undo: "$ErrorActionPreference = 'Continue'"},
			{text: "Set-StrictMode -Version Latest", undo: "Set-StrictMode -Off"},
			{text: "$PSModuleAutoLoadingPreference = 'None'", undo: "$PSModuleAutoLoadingPreference = 'All'"},
			{text: "Set-Alias Write-Output Get-Date; Set-Alias ForEach-Object Get-Date; Set-Alias Invoke-Expression Get-Date", undo: "Remove-Item alias:Write-Output, alias:ForEach-Object, alias:Invoke-Expression"},
			{text: "function Get-Variable { }; function Invoke-Expression { }", undo: "Remove-Item function:Get-Variable, function:Invoke-Expression"},
			{text: "$path = $env:PATH; $env:PATH = ''", undo: "$env:PATH = $path"},
			{text: "Set-PSDebug -Trace 1", undo: "Set-PSDebug -Off", changed: true},
			{text: "Set-PSDebug -Trace 2", undo: "Set-PSDebug -Off", changed: true},
			{text: "Set-PSDebug -Strict", undo: "Set-PSDebug -Off"},
			{text: "$here = \"$PWD\"; New-Item -ItemType Directory gone | Out-Null; Set-Location gone; Remove-Item \"$PWD\"", undo: "Set-Location $here"},
			{text: "Set-Location env:", undo: "Set-Location $here"},
			{text: "Set-Location function:", undo: "Set-Location $here"},
			{text: "Start-Transcript transcript.txt | Out-Null", undo: "Stop-Transcript | Out-Null"},
			{text: "Clear-History"},
			{text: "$MaximumHistoryCount = 1", undo: "$MaximumHistoryCount = 4096"},
			{text: "Remove-Variable LASTEXITCODE -Scope Global -ErrorAction SilentlyContinue"},
			{text: "$global:LASTEXITCODE = 'abc'"},
			{text: "$global:LASTEXITCODE = [int]::MinValue"},
			{text: "Remove-Variable NestedPromptLevel -Scope Global -Force -ErrorAction SilentlyContinue", undo: "$global:NestedPromptLevel = 0"},
			{text: "$global:NestedPromptLevel = 'a;b'", undo: "$global:NestedPromptLevel = 0"},
			{text: "$Error.Clear()"},
			{text: "$ErrorView = 'DetailedView'", undo: "$ErrorView = 'ConciseView'"},
			{text: "[Console]::SetOut([IO.TextWriter]::Null)", undo: console, changed: true},
			{text: "[Console]::SetIn([IO.TextReader]::Null)"},
			{text: "[Console]::OutputEncoding = [Text.Encoding]::Unicode", undo: "[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)", changed: true},
			{text: "$OutputEncoding = [Text.Encoding]::Unicode", undo: "$OutputEncoding = [Text.UTF8Encoding]::new($false)"},
			{text: "Set-PSBreakpoint -Variable seq, code, ok, t, m -Mode ReadWrite | Out-Null", undo: "Get-PSBreakpoint | Remove-PSBreakpoint"},
			{text: "Set-PSBreakpoint -Command __shs_read, prompt, PSConsoleHostReadLine, Get-Date | Out-Null", undo: "Get-PSBreakpoint | Remove-PSBreakpoint"},
			{text: "/bin/stty raw -echo"},
			{text: "/bin/stty sane"},
			{text: "/bin/stty -icanon min 0 time 5"},
			{text: "/bin/stty -isig -noflsh ixon", undo: "/bin/stty isig"},
			{text: "/bin/sh -c 'stty raw -echo; sleep 0.1'"},
			{text: "[Console]::TreatControlCAsInput = $true", undo: "[Console]::TreatControlCAsInput = $false"},
			{text: "[Console]::CursorVisible = $false", changed: true},
			{text: "$env:TERM = 'dumb'; Remove-Item env:NO_COLOR"},
			{text: "$PSStyle.OutputRendering = 'Host'", undo: "$PSStyle.OutputRendering = 'PlainText'", changed: true},
			{text: "$PSDefaultParameterValues['*:Verbose'] = $true", undo: "$PSDefaultParameterValues.Clear()"},
			{text: "Set-Variable in, out, seq, vars, read, bad, sure -Value 1 -Scope Global"},
			{text: "[cultureinfo]::CurrentCulture = [cultureinfo]::new('ar-SA', $false)", undo: "[cultureinfo]::CurrentCulture = [cultureinfo]::InvariantCulture"},
			{text: "$ExecutionContext.SessionState.InvokeCommand.CommandNotFoundAction = { }", undo: "$ExecutionContext.SessionState.InvokeCommand.CommandNotFoundAction = $null"},
			{text: "[Console]::Write(\"`e]0;title\")", changed: true},
			{text: "[Console]::Write(\"`e]7771;\")", changed: true},
			{text: "[Console]::Write(\"`e[?1049h\")"},
			{text: "[Console]::Write(\"`eP\")"},
			{text: "$null = Register-EngineEvent PowerShell.OnIdle -Action { 1 }", undo: "Get-EventSubscriber | Unregister-Event"},
			{text: "$null = Register-EngineEvent PowerShell.Exiting -Action { 1 }", undo: "Get-EventSubscriber | Unregister-Event"},
			{text: "function global:Out-Default { }", undo: "Remove-Item function:Out-Default", changed: true},
			{text: "trap { continue }"},
			{text: "[Environment]::CurrentDirectory = '/'"},
			{text: "/bin/kill -INT $PID; Start-Sleep -Milliseconds 50"},
			{text: "/bin/kill -WINCH $PID; /bin/kill -CHLD $PID"},
		} {
			h.run(row.text)
			h.check(row.text, !row.changed)
			now := h.session().PID()
			if !d.Typed { // an interrupt is the same either way
				_, now = h.cancelAfter("[Console]::OpenStandardOutput().Write([byte[]](52, 50)); while ($true) { }", "42")
			}
			if !assert.Equal(t, pid, now, "%q: the shell was replaced", row.text) {
				h.expect("$kept = 'yes'", "", 0)
				pid = h.session().PID()
			}
			if row.undo != "" {
				h.run(row.undo)
			}
			h.expect("$kept", "yes\n", 0)
		}
		h.endLanguage()
	})
}

// endLanguage takes the shell's language away, for which its user has no way
// back. Without any it runs nothing, and says so each time.
func (h *host) endLanguage() {
	h.t.Helper()
	h.run("$ExecutionContext.SessionState.LanguageMode = 'ConstrainedLanguage'")
	for range 2 {
		a := h.run("40 + 2")
		assert.Equal(h.t, persistent.Completed, a.Reason, "%+v", a.Result)
		assert.Equal(h.t, "42\n", a.exact)
	}
	a := h.run("if (")
	assert.Equal(h.t, persistent.Completed, a.Reason, "%+v", a.Result)
	h.expect("/bin/echo x; /bin/sh -c 'exit 3'", "x\n", 3)

	h.run("$ExecutionContext.SessionState.LanguageMode = 'NoLanguage'")
	a = h.run("/bin/echo x")
	assert.Contains(h.t, []persistent.Reason{persistent.Completed, persistent.Failed, persistent.ShellExited}, a.Reason, "%+v", a.Result)
	assert.NotContains(h.t, a.exact, "7771;")
}

// A program can leave its terminal non-blocking. On the shell's own input that
// ends the shell, which is reported; on the others it changes nothing.
//
// Case: S33
func TestChildLeavesNonBlocking(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 in PATH, which sets the flag")
	}
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := newHostOf(t, d, path)
		set := func(fd string) answer {
			return h.run("& '" + python + "' -c 'import fcntl, os; fcntl.fcntl(" + fd + ", fcntl.F_SETFL, os.O_NONBLOCK | os.O_RDWR)'")
		}
		for _, fd := range []string{"1", "2"} {
			a := set(fd)
			assert.Equal(t, persistent.Completed, a.Reason, "%+v", a.Result)
			a = h.run("'x' * 1MB")
			assert.Equal(t, strings.Repeat("x", 1<<20)+"\n", a.exact, "no byte is lost")
			h.check("O_NONBLOCK on "+fd, true)
		}
		// It ends at the first question whose answer is not there yet.
		a := set("0")
		for range 1000 {
			if a.Reason != persistent.Completed {
				break
			}
			a = h.run("1")
		}
		assert.Equal(t, persistent.ShellExited, a.Reason, "%+v", a.Result)
	})
}

// A crash of .NET is the shell's end, with its last words.
func TestFailFast(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.run("'before'; [Environment]::FailFast('the end of it')")
		assert.Equal(t, persistent.ShellExited, a.Reason, "%+v", a.Result)
		assert.True(t, strings.HasPrefix(a.exact, "before\n"), a.exact)
		assert.Contains(t, a.exact, "the end of it")
		require.NotNil(t, a.Signal)
		assert.Equal(t, "SIGABRT", *a.Signal)
		assert.Contains(t, a.Text, "[shell killed by signal: SIGABRT]\n[the next command starts a fresh shell in "+h.dir+"]")
	})
}
