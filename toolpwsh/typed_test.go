//go:build linux

package toolpwsh_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/pwsh"
)

// eachTyped runs f for each shell, typed to.
func eachTyped(t *testing.T, f func(t *testing.T, h *host)) {
	eachShell(t, func(t *testing.T, path string) { f(t, warmHostOf(t, pwsh.Dialect{Typed: true}, path)) })
}

// A child that was not waited for keeps the terminal in the mode that echoes.
// The echo of what we type is nobody's output, and a child's is.
func TestTypedEchoIsCut(t *testing.T) {
	eachTyped(t, func(t *testing.T, h *host) {
		h.expect("$sleep = Start-Process -PassThru /bin/sleep -ArgumentList 1000; '#1'", "#1\n", 0)
		for range 5 {
			h.expect("/bin/stty -a | Select-String -SimpleMatch ' echo ' -Quiet; '#2'", "True\n#2\n", 0)
			h.expect("/bin/sh -c 'exit 3'", "", 3)
		}
		h.expect("'"+strings.Repeat("long ", 20000)+"'.Length", "100000\n", 0)
		h.expect("$sleep.Kill(); $sleep.WaitForExit()", "", 0)
	})
}

// Nothing lies around longer than it is needed, for nobody else to see.
func TestTypedFiles(t *testing.T) {
	eachTyped(t, func(t *testing.T, h *host) {
		const list = `$d = [regex]::Match([Environment]::CommandLine, "ReadAllText\('(.+)/bootstrap'").Groups[1].Value; `
		for range 2 {
			h.expect(list+`(Get-ChildItem -Force $d).Name; /usr/bin/stat -c %a $d $d/command`, "command\n700\n600\n", 0)
		}
		h.expect("/bin/ls /proc/self/fd | /usr/bin/tr '\\n' ' '", "0 1 2 3 ", 0)
	})
}

// What is typed at the prompt by others, an answer to a background program for
// instance, does not reach the next command.
func TestTypedPromptIsLeftAlone(t *testing.T) {
	eachTyped(t, func(t *testing.T, h *host) {
		for i := range 3 {
			h.expect(`/bin/sh -c "(until [ -e go ]; do sleep 0.02; done; printf '\033[6n\033[c'; >gone) &"`, "", 0)
			require.NoError(t, os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600))
			appears(t, filepath.Join(h.dir, "gone"))
			a := h.run("Remove-Item go, gone; 'next'")
			assert.Equal(t, "next\n", a.exact, "round %d: %+v", i, a.Result)
			h.run("'then'")
		}
	})
}
