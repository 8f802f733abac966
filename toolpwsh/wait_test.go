//go:build linux

package toolpwsh_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// What waits for the terminal is reported, and the next command interrupts it:
// the shell lives on with its variables, and no key of ours shows.
//
// Case: W12 S26
func TestWaitingForInput(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("$kept = 'yes'; Set-Content f x", "", 0)
		for _, row := range []struct {
			text    string
			program string
			kind    terminals.InputKind
			prompt  string
		}{
			{"Read-Host 'name'", "pwsh", terminals.LineInput, "name: "},
			{"Read-Host -AsSecureString 'key'", "pwsh", terminals.SecretInput, "key: "},
			{"Read-Host 'name' -MaskInput", "pwsh", terminals.SecretInput, "name: "},
			{"Read-Host 'Your password'", "pwsh", terminals.SecretInput, "Your password: "},
			{"Get-Credential bob", "pwsh", terminals.SecretInput, "Password for user bob: "},
			{"function need { param([Parameter(Mandatory)]$x) $x }; need", "pwsh", terminals.LineInput, "x: "},
			{"Get-Credential -Message m", "pwsh", terminals.LineInput, "User: "},
			{"Remove-Item f -Confirm", "pwsh", terminals.LineInput, `[Y] Yes  [A] Yes to All  [N] No  [L] No to All  [S] Suspend  [?] Help (default is "Y"): `},
			{"$Host.UI.PromptForChoice('t', 'm', @('&Yes', '&No'), 0)", "pwsh", terminals.LineInput, `[Y] Yes  [N] No  [?] Help (default is "Y"): `},
			{"[Console]::ReadKey()", "pwsh", terminals.KeyInput, ""},
			{"[Console]::ReadLine()", "pwsh", terminals.KeyInput, ""},
			{"[Console]::In.Read()", "pwsh", terminals.KeyInput, ""},
			{"[Console]::OpenStandardInput().ReadByte()", "pwsh", terminals.KeyInput, ""},
			{"$Host.UI.RawUI.ReadKey()", "pwsh", terminals.KeyInput, ""},
			{"$Host.UI.ReadLine()", "pwsh", terminals.LineInput, ""},
			{"pause", "pwsh", terminals.LineInput, "Press Enter to continue...: "},
			{"& { Read-Host 'in'; 'rest' }; 'rest'", "pwsh", terminals.LineInput, "in: "},
			{"try { Read-Host 'x' } finally { $null }", "pwsh", terminals.LineInput, "x: "},
			{"Write-Warning x -WarningAction Inquire", "pwsh", terminals.LineInput, `[Y] Yes  [A] Yes to All  [H] Halt Command  [S] Suspend  [?] Help (default is "Y"): `},
			{"/bin/cat", "cat", terminals.LineInput, ""},
			{"/bin/bash -c 'read -p \"name? \" x'", "bash", terminals.LineInput, "name? "},
			// The shell never types to itself with an echo, but a program's
			// password prompt shows by turning it off.
			{"/bin/bash -c 'read -s -p \"Password: \" x'", "bash", terminals.SecretInput, "Password: "},
			{"/bin/bash -c 'read -n1 x'", "bash", terminals.KeyInput, ""},
			{"1..3 | /bin/cat - /dev/tty | /bin/cat", "cat", terminals.LineInput, "3"},
		} {
			a := h.run(row.text)
			require.Equal(t, persistent.WaitingInput, a.Reason, "%q: %+v", row.text, a.Result)
			assert.NotContains(t, a.exact, "\x1b[6n", "%q: the shell's own question", row.text)
			require.NotNil(t, a.NeedsInput)
			assert.Equal(t, row.program, a.NeedsInput.Program, row.text)
			assert.Equal(t, row.kind, a.NeedsInput.Kind, row.text)
			if row.prompt != "3" {
				assert.Equal(t, row.prompt, a.NeedsInput.Prompt, row.text)
			}
			assert.Contains(t, a.Text, "[waiting for input: "+row.program+" ("+string(row.kind)+"); the next command interrupts it]")
			a = h.run("$kept")
			assert.Equal(t, "yes\n", a.exact, "after %q: %+v", row.text, a.Result)
			assert.Empty(t, a.Unsolicited, "after %q", row.text)
			assert.Equal(t, "[interrupted "+row.program+", which was waiting for input]\nyes\n", a.Text, row.text)
		}
		assert.FileExists(t, filepath.Join(h.dir, "f"))
	})
}

// Case: S27
func TestGetpassIsASecret(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 in PATH, whose getpass this is about")
	}
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		a := h.run("& '" + python + "' -c 'import getpass; getpass.getpass()'")
		require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
		assert.Equal(t, terminals.SecretInput, a.NeedsInput.Kind)
		assert.Equal(t, "Password: ", a.NeedsInput.Prompt)
		assert.Equal(t, "1\n", h.run("1").exact)
	})
}

// A program that only looks whether there is input does not wait for it, nor
// does one that reads something else.
func TestNotWaiting(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("foreach ($i in 1..8) { if ([Console]::KeyAvailable) { break }; Start-Sleep -Milliseconds 100 }; $i", "8\n", 0)
		h.expect("Start-Sleep 1; 'a'", "a\n", 0)
		h.expect("/bin/sh -c 'sleep 1; echo x' | /bin/cat", "x\n", 0)
		h.expect("$null | /bin/cat", "", 0)
	})
}

// What a program left unread is not the next one's.
//
// Case: S11
func TestTypedInputIsNotTheNextCommands(t *testing.T) {
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := warmHostOf(t, d, path)
		// The answer to its question comes when it has ended.
		h.run(`/usr/bin/printf '\033[6n\033[c'`)
		a := h.run("Read-Host 'x'")
		assert.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
		h.run("'next'")
		h.expect("'after'", "after\n", 0)
	})
}

// A question of the shell's own whose answer is lost is answered again: it would
// wait for ever.
//
// Case: W1 S3 S4
func TestLostAnswer(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := patientHost(t, path) // the thief waits for input
		h.expect("$kept = 'yes'", "", 0)
		a := h.run("$thief = Start-Process /bin/dd -ArgumentList 'if=/dev/tty', 'bs=1', 'count=6', 'of=/dev/null', 'status=none' -PassThru; Start-Sleep -Milliseconds 500; $x = [Console]::CursorLeft; 'left'")
		assert.Equal(t, persistent.Completed, a.Reason, "%+v", a.Result)
		assert.Contains(t, a.exact, "left\n")
		h.run("$null = $thief.WaitForExit(5000); $thief.Kill()")
		assert.Equal(t, "yes\n", h.run("$kept").exact)
	})
}

// An interrupt ends the whole command and nothing else.
//
// Case: W8 S13 S29 F23 (microsoft/vscode#332907)
func TestInterrupt(t *testing.T) {
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := warmHostOf(t, d, path)
		h.expect("$kept = 'yes'", "", 0)
		for _, row := range []struct {
			text string
			code string // what $? and $LASTEXITCODE make of it, loosely
		}{
			{"40+2; while ($true) { }", ""},
			{"40+2; Start-Sleep 60; 'END'", ""},
			{"40+2\n/bin/sleep 60\n'END'", ""},
			{"40+2; /bin/sleep 60 | /bin/cat; 'END'", ""},
			{"40+2; 1..100 | ForEach-Object { /bin/sleep 60 }; 'END'", ""},
			{"try { 40+2; Start-Sleep 60 } finally { $cleaned = $true }", ""},
			{"40+2; & { while ($true) { Get-Item . | Out-Null } }", ""},
			{"40+2; Start-Job { Start-Sleep 60 } | Wait-Job", ""},
		} {
			began := time.Now()
			a, pid := h.cancelAfter(row.text, "42")
			assert.Equal(t, persistent.Cancelled, a.Reason, row.text)
			assert.NotContains(t, a.exact, "END", row.text)
			assert.NotContains(t, a.exact, "\x1b[6n", row.text)
			assert.Less(t, time.Since(began), 30*time.Second, row.text)
			h.expect("$kept", "yes\n", 0)
			assert.Equal(t, pid, h.session().PID(), "%q: the shell was replaced", row.text)
		}
		h.expect("$cleaned", "True\n", 0)
		h.run("Get-Job | Remove-Job -Force")
	})
}

// cancelAfter runs text and cancels it once it has printed token.
func (h *host) cancelAfter(text, token string) (a answer, shell int) {
	h.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("stop it")
	var out strings.Builder
	r := h.runner.Run(ctx, h.owner, persistent.Command{Text: text, Stream: func(p []byte) {
		out.Write(p)
		if shell == 0 && strings.Contains(out.String(), token) {
			shell = h.session().PID()
			cancel(cause)
		}
	}})
	cancel(nil)
	require.ErrorIs(h.t, r.Err(), cause, "%q: %+v", text, r)
	return answer{r, out.String()}, shell
}

// Case: S23
func TestInterruptOfAFlood(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("$kept = 'yes'", "", 0)
		for _, text := range []string{"for ($i = 0; ; $i++) { $i }", "/usr/bin/yes 1042"} {
			_, pid := h.cancelAfter(text, "42")
			h.expect("$kept", "yes\n", 0)
			assert.Equal(t, pid, h.session().PID(), text)
		}
	})
}

// A cancelled wait for input is interrupted as well.
//
// Case: S30
func TestCancelWhileWaiting(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := patientHost(t, path)
		h.expect("$kept = 'yes'", "", 0)
		for _, text := range []string{"Read-Host ('x' + 42)", "'42'; [Console]::ReadLine()", "'42'; /bin/cat"} {
			_, pid := h.cancelAfter(text, "42")
			h.expect("$kept", "yes\n", 0)
			assert.Equal(t, pid, h.session().PID(), text)
		}
	})
}

func TestTimeout(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		const limit = time.Second
		during := func(h *host, text string) persistent.Result {
			r := h.runner.Run(context.Background(), h.owner, persistent.Command{Text: text, Timeout: limit})
			assert.Equal(t, persistent.TimedOut, r.Reason, text)
			assert.Equal(t, "before\n", r.Output, text)
			return r
		}
		h := newHost(t, path)
		h.expect("$kept = 'yes'", "", 0)
		r := during(h, "'before'; Start-Sleep 60")
		assert.Contains(t, r.Text, "[timed out after 1000 ms; the shell was reset]\n[the next command starts a fresh shell in "+h.dir+"]")
		h.expect(`"kept=$kept"`, "kept=\n", 0)

		h = patientHost(t, path)
		h.expect("$kept = 'yes'", "", 0)
		for _, text := range []string{
			"'before'; Start-Sleep 60", "'before'; while ($true) { }", "'before'; /bin/sleep 60", "'before'; Read-Host", "'before'; [Console]::ReadKey()",
		} {
			r := during(h, text)
			assert.Contains(t, r.Text, "[timed out after 1000 ms; the program was interrupted and the shell kept]", text)
			h.expect(`"kept=$kept"`, "kept=yes\n", 0)
		}
	})
}

// A prompt within a command is reported with its depth, and the next command
// runs in it.
func TestNestedPromptsAndDebugger(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		waits := func(text, output string, level, code int) {
			t.Helper()
			a := h.run(text)
			require.Equal(t, persistent.WaitingInput, a.Reason, "%q: %+v", text, a.Result)
			assert.Contains(t, a.exact, output, text)
			assert.Contains(t, a.Text, "[waiting for input: nested prompt, level "+string(rune('0'+level))+"; the next command runs in it]", text)
			assert.Equal(t, code, *a.ExitCode, text)
		}
		waits("$Host.EnterNestedPrompt(); 'left'", "", 1, 0)
		waits("/bin/sh -c 'exit 3'", "", 1, 3)
		waits("if (", "Missing", 1, 1)
		waits("$Host.EnterNestedPrompt()", "", 2, 0)
		waits("exit", "", 1, 0)
		h.expect("exit", "left\n", 0)
		h.expect("'out'", "out\n", 0)

		waits("Set-PSBreakpoint -Variable zz -Mode Write | Out-Null; $zz = 1; 'after'", "Hit Variable breakpoint on '$zz'", 1, 0)
		waits("'in the debugger'", "in the debugger\n", 1, 0)
		h.expect("c", "after\n", 0)
		h.expect("Get-PSBreakpoint | Remove-PSBreakpoint", "", 0)
		waits("Wait-Debugger; 'after'", "", 1, 0)
		h.expect("c", "after\n", 0)
	})
}

// A program that ignores the interrupt is ended by other signals, which do not
// reach the shell although it shares its process group.
func TestDeafProgramIsEndedAlone(t *testing.T) {
	eachTransport(t, func(t *testing.T, d pwsh.Dialect, path string) {
		h := warmHostOf(t, d, path)
		h.expect("$kept = 'yes'", "", 0)
		pid := h.session().PID()
		mark := fmt.Sprintf("/nonexistent/%d", time.Now().UnixNano())
		for _, text := range []string{
			`/bin/sh -c 'trap "" INT; cat; echo no'; 'no'`,
			`/bin/sh -c 'trap "" INT; read x; echo no'`,
			// The shell itself ends sh, and comes back while cat reads on.
			`1..3 | /bin/sh -c 'trap "" INT; cat - /dev/tty ` + mark + `' | /bin/cat`,
		} {
			a := h.run(text)
			require.Equal(t, persistent.WaitingInput, a.Reason, "%q: %+v", text, a.Result)
			a = h.run("$kept")
			assert.Equal(t, "yes\n", a.exact, "after %q: %+v", text, a.Result)
			assert.NotContains(t, a.Text, "fresh shell", text)
			assert.Equal(t, pid, h.session().PID(), text)
		}
		require.Eventually(t, func() bool { return len(having(mark)) == 0 }, dialecttest.Patience, 10*time.Millisecond, "it reads on")
	})
}
