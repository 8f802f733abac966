//go:build unix

package toolpwsh_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
)

// What a command writes comes unaltered: no prompt, no newline, no sequence of
// the shell's own, no wrapping, no colours from PowerShell itself.
func TestExactOutput(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		wide := strings.Repeat("x", 300)
		for _, row := range []struct{ text, output string }{
			{"$null", ""},
			{"1", "1\n"},
			// Case: W10 S9
			{"Write-Host -NoNewline abc", "abc"},
			// Case: S20
			{"for ($i = 0; $i -lt 100; $i += 10) { Write-Progress -Activity x -PercentComplete $i }; 'done'", "done\n"},
			// Case: S18
			{"'x' * 300", wide + "\n"},
			{"Write-Host ('x' * 300)", wide + "\n"},
			{"1..3 | ForEach-Object { [pscustomobject]@{ n = 'x' * 300 } } | Format-Table", "\nn\n-\n" + strings.Repeat(wide+"\n", 3) + "\n"},
			// Case: W11 S21
			{"[Console]::Write(\"a`tb  \")", "a\tb  "},
			{"[Console]::Write(\"a`r`nb`r`a`0é漢🙂\")", "a\r\nb\r\a\x00é漢🙂"},
			{`/usr/bin/printf '\000\001\377\200\r\n\033x'`, "\x00\x01\xff\x80\r\n\x1bx"},
			// Case: W15
			{"/bin/echo é漢🙂", "é漢🙂\n"},
			// Case: F33 (earendil-works/pi#8842)
			{"/bin/sh -c 'echo out; echo err >&2; echo out'", "out\nerr\nout\n"},
			// Case: S8
			// .NET would announce the keypad's mode after every program, and
			// PowerShell the window's title.
			{"/bin/echo a; 'b'; /bin/echo c; [Console]::Write('d'); /bin/echo e", "a\nb\nc\nde\n"},
			{"/bin/true | /bin/cat; /bin/echo x", "x\n"},
			// A program's own last sequence is not the shell's.
			{`/usr/bin/printf '\033[31mred\033[0m'`, "\x1b[31mred\x1b[0m"},
			{"[Console]::Write(\"`e[31mred`e[0m\")", "\x1b[31mred\x1b[0m"},
			{`/usr/bin/printf '\033[6'`, "\x1b[6"},
			{`/usr/bin/printf '\033[?1h'`, "\x1b[?1h"},
			{`/usr/bin/printf 'a\033'`, "a\x1b"},
			// A query in a text is no question.
			{`/bin/sh -c 'printf "a\033[6n\033[cb"; sleep 0.3; printf c'`, "a\x1b[6n\x1b[cbc"},
			// Case: S19
			// PlainText takes colours from strings.
			{`"$($PSStyle.Foreground.Red)red$($PSStyle.Reset)"`, "red\n"},
			{"Write-Warning w; Write-Verbose v -Verbose; Write-Error e -ErrorAction Continue; Write-Host h -ForegroundColor Red", "WARNING: w\nVERBOSE: v\nWrite-Error: e\nh\n"},
			{"[Console]::Error.Write('err'); [Console]::Write('out')", "errout"},
			// Objects wait for their columns, on every console.
			{"[pscustomobject]@{ a = 1 }; /bin/echo mid", "\nmid\na\n-\n1\n\n"},
			// Case: S24
			{"Get-Item /nope", "Get-Item: Cannot find path '/nope' because it does not exist.\n"},
			// Case: W13
			{"\"$env:TERM $env:NO_COLOR $env:PAGER\"", "xterm-256color 1 cat\n"},
			{"/bin/stty size", "40 4096\n"},
		} {
			a := h.run(row.text)
			assert.Equal(t, row.output, a.exact, "%q", row.text)
			assert.Equal(t, persistent.Completed, a.Reason, "%q", row.text)
			assert.Empty(t, a.Unsolicited, "before %q", row.text)
		}
	})
}

// Where the user has colours back, the host's own sequences stay out of the
// output's end.
func TestOutputRenderingOfTheUser(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("$PSStyle.OutputRendering = 'Ansi'", "", 0)
		for range 2 {
			a := h.run("Write-Host -NoNewline abc")
			assert.True(t, strings.HasSuffix(a.exact, "abc"), "%q", a.exact)
			assert.Equal(t, "abc", a.Text)
		}
		h.run("$PSStyle.OutputRendering = 'PlainText'")
	})
}

func TestBinaryOutputIsExact(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		data := make([]byte, 300000)
		rand.Read(data)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "f"), data, 0o600))
		a := h.run("/bin/cat f")
		assert.Equal(t, data, []byte(a.exact))
		assert.True(t, a.Clipped)
		spilled, err := os.ReadFile(a.OutputFile)
		require.NoError(t, err)
		assert.Equal(t, data, spilled)
	})
}

func TestLargeOutput(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		a := h.run("'x' * 10MB")
		assert.Equal(t, 10<<20+1, len(a.exact))
		assert.Equal(t, strings.Repeat("x", 10<<20)+"\n", a.exact)
		a = h.run("/usr/bin/seq 200000")
		var want strings.Builder
		for i := 1; i <= 200000; i++ {
			fmt.Fprintln(&want, i)
		}
		assert.Equal(t, want.String(), a.exact)
		a = h.run("1..20000")
		assert.Equal(t, want.String()[:len(a.exact)], a.exact)
		assert.Equal(t, 20000, strings.Count(a.exact, "\n"))
	})
}

// What a job writes between two commands is no command's output.
func TestLateOutputIsUnsolicited(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.expect("Start-Process /bin/sh -ArgumentList '-c', '\"until [ -e go ]; do sleep 0.02; done; echo late; touch gone\"'", "", 0)
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
		appears(t, filepath.Join(h.dir, "gone"))
		a := h.run("'now'")
		assert.Equal(t, "now\n", a.exact)
		assert.Equal(t, "late\n", a.Unsolicited)
		assert.True(t, strings.HasPrefix(a.Text, "[output since the last command]\nlate\n[output of this command]\nnow\n"), a.Text)
		h.expect("'next'", "next\n", 0)
	})
}

// A job of PowerShell's own writes from a thread of the shell.
//
// Case: S25
func TestLateOutputOfAThread(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		h.run("Set-Variable j (Start-ThreadJob { while (-not (Test-Path $using:PWD/go)) { [Threading.Thread]::Sleep(10) }; [Console]::WriteLine('late'); Set-Content $using:PWD/gone x })")
		require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
		appears(t, filepath.Join(h.dir, "gone"))
		a := h.run("'now'")
		assert.Equal(t, "now\n", a.exact)
		assert.Equal(t, "late\n", a.Unsolicited)
	})
}
