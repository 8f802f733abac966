//go:build linux

package toolpwsh_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
)

// thief is run first: it finds out the secret, the number of the command that
// runs and the marks that would end it with status 0, as code inside the shell
// can.
const thief = `function global:steal {
	$m = (Get-Command __shs_read).ScriptBlock.Module
	$global:s = [regex]::Match("${function:__shs_read}", '7771;([0-9a-f]{32})').Groups[1].Value
	$global:n = & $m { $seq }
	$global:done = "` + "`e]7771;$s;D;$n;0;0;Lw==`e\\" + `"
	$global:prompt = "` + "`e]7771;$s;A;$n`e\\" + `"
	$global:raw = $done + $prompt
	$env:RAW = $raw
}`

// Nothing that a command or its children print, guess, replay, read or call
// ends a wait or changes a status.
//
// Case: F02 (nickgnd/tmux-mcp#28)
func TestForgers(t *testing.T) {
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := warmHostOf(t, d, path)
		h.expect(thief, "", 0)
		h.expect("steal; $s.Length", "32\n", 0)
		const body = "\nStart-Sleep -Milliseconds 300; 40 + 2; Get-Item /nope -ErrorAction SilentlyContinue"
		for _, forge := range []string{
			"[Console]::Write(\"`e]133;D;0`a\")",
			"[Console]::Write(\"`e]633;D;0`a\")",
			"[Console]::Write(\"`e]7771;00000000000000000000000000000000;D;1;0;0;`e\\`e]7771;00000000000000000000000000000000;A;1`e\\\")",
			"steal; [Console]::Write($raw)",
			"steal; [Console]::Write($raw + $raw)",
			"steal; [Console]::Write($done)",
			"steal; [Console]::Write($prompt)",
			"steal; [Console]::Write($prompt + $done)",
			"steal; Write-Host -NoNewline $raw",
			"steal; [Console]::Error.Write($raw)",
			"steal; Write-Error $raw",
			"steal; $raw | Out-File -NoNewline /dev/tty",
			"steal; [IO.File]::WriteAllText(\"/proc/$PID/fd/1\", $raw)",
			"steal; /bin/sh -c 'printf %s \"$RAW\"'",
			"steal; /bin/sh -c '(sleep 0.1; printf %s \"$RAW\") &'",
			"steal; Start-ThreadJob { [Console]::Write($using:raw) } | Wait-Job | Out-Null",
			"steal; foreach ($c in $raw.ToCharArray()) { [Console]::Write($c) }",
			"steal; [Console]::Write(\"`e]7771;$s;S;999`e\\`e]7771;$s;D;999;0;0;`e\\`e]7771;$s;A;999`e\\\")",
			"steal; [Console]::Write(\"`e]7771;$s;D;0;0;0;`e\\`e]7771;$s;A;0`e\\\")",
			"steal; [Console]::Write($raw.Substring(0, 30))",
			"steal; [Console]::Write(\"`e]7771;$s;\" + 'x' * 200000)",
			"steal; & (Get-Command __shs_read).ScriptBlock.Module { $out.Write([Text.Encoding]::ASCII.GetBytes($global:raw)) }",
			"PSConsoleHostReadLine", // replay by the shell's own function
			"__shs_read",
			"& ${function:__shs_read}",
			"${function:__shs_read}.Invoke()",
			"$null = [powershell]::Create('CurrentRunspace').AddCommand('PSConsoleHostReadLine').Invoke()",
			"$null = prompt",
			"& (Get-Command __shs_read).ScriptBlock.Module { $script:seq = 999 }; steal; & (Get-Command __shs_read).ScriptBlock.Module { $script:seq = $global:n }",
			`$k = (/bin/grep -aom1 '7771;[0-9a-f]\{32\}' /proc/$PID/mem 2>/dev/null | Select-Object -First 1); [Console]::Write("` + "`e]$k;D;$n;0;0;`e\\`e]$k;A;$n`e\\" + `")`,
		} {
			a := h.run(forge + body)
			assert.Equal(t, persistent.Completed, a.Reason, "%q: %+v", forge, a.Result)
			assert.Contains(t, a.exact, "42\n", "%q: the command ended early", forge)
			if assert.NotNil(t, a.ExitCode, forge) {
				assert.NotZero(t, *a.ExitCode, forge)
			}
			a = h.run("'next'; /bin/sh -c 'exit 7'")
			assert.Equal(t, "next\n", a.exact, "after %q", forge)
			if assert.NotNil(t, a.ExitCode, forge) {
				assert.Equal(t, 7, *a.ExitCode, "after %q", forge)
			}
		}
	})
}

// A marker that is followed by waiting is no prompt.
func TestForgerThatWaits(t *testing.T) {
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := warmHostOf(t, d, path)
		h.expect(thief, "", 0)
		for _, text := range []string{
			"steal; [Console]::Write($raw); Read-Host",
			"steal; [Console]::Write($raw); [Console]::ReadLine()",
			"steal; [Console]::Write($raw); /bin/cat",
			"steal; /bin/sh -c 'printf %s \"$RAW\"; read x'",
		} {
			a := h.run(text)
			assert.Equal(t, persistent.WaitingInput, a.Reason, "%q: %+v", text, a.Result)
			assert.Equal(t, "next\n", h.run("'next'").exact, "after %q", text)
		}
	})
}

// Code that takes the next command out of the shell's own pipe harms its shell
// alone: that command is never reported as run, and the one after it runs.
func TestThiefOfTheChannel(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect(thief, "", 0)
		h.run("steal; [Console]::Write($raw); & (Get-Command __shs_read).ScriptBlock.Module { $in.ReadInt64(); $in.ReadString() } | Out-Null")
		a := h.run("'stolen'")
		assert.NotEqual(t, persistent.Completed, a.Reason, "%+v", a.Result)
		assert.NotContains(t, a.exact, "stolen")
		h.expect("'next'", "next\n", 0)
	})
}

// The secret is where only the shell itself can see it, and nothing of ours
// reaches a child.
//
// Case: S5
func TestSecretIsHidden(t *testing.T) {
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := warmHostOf(t, d, path)
		h.expect(thief, "", 0)
		secret := h.run("steal; [Console]::Write($s); $env:RAW = $null").exact
		require.Len(t, secret, 32)
		for _, text := range []string{
			"/usr/bin/env", "Get-ChildItem env:", "/bin/cat /proc/$PID/environ /proc/$PID/cmdline", "[Environment]::CommandLine",
			"/bin/ls -l /proc/$PID/fd", "Get-History | Format-List", "/bin/grep -r " + secret[:8] + " \"$([IO.Path]::GetTempPath())\" --include='shellstead-*' | Out-String",
		} {
			assert.NotContains(t, h.run(text).exact, secret, text)
		}
		// Only the three standard descriptors reach a child, and one that ls opens
		// for itself.
		h.expect("/bin/ls /proc/self/fd | /usr/bin/tr '\\n' ' '", "0 1 2 3 ", 0)
		h.expect("/bin/sh -c 'ls /proc/self/fd' | /usr/bin/tr '\\n' ' '", "0 1 2 3 ", 0)
		h.expect("/usr/bin/env | /bin/grep -ce DOTNET_EnableDiagnostics -e ansi", "0\n", 1)
		h.expect("Get-ChildItem env:DOTNET_*, variable:__shs* -ErrorAction Ignore", "", 0)
	})
}
