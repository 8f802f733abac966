//go:build unix

package toolpwsh_test

import (
	"context"
	"strings"
	"testing"

	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/dialect/pwsh"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// A live shell follows the managed environment, its children too, by either way
// to it.
func TestEnvironmentOfALiveShell(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, path string) {
		for name, d := range map[string]pwsh.Dialect{"channel": {}, "typed": {Typed: true}} {
			t.Run(name, func(t *testing.T) {
				env := []string{"DSH_A=1", "DSH_B=two"}
				h := dialecttest.NewHost(t, d, path, func(_ *engine.Config, p *persistent.Config) {
					p.Resolve = func(context.Context, *terminals.Owner, string, string) ([]string, error) { return env, nil }
				})
				const show = "/usr/bin/printenv DSH_A DSH_B DSH_C"
				h.Expect(show, "1\ntwo\n", 1)

				env = []string{"DSH_A=1", "DSH_C=it's = $(x) \" é\nand more"}
				h.Expect("$?; $LASTEXITCODE; "+show, "False\n1\n1\nit's = $(x) \" é\nand more\n", 1)
				h.Expect(`"$($null -eq $env:DSH_B)"`, "True\n", 0)

				env = []string{"DSH_A=2", "DSH_B=" + strings.Repeat("long ", 20000)}
				h.Expect(`"$env:DSH_A $($env:DSH_B.Length) $($null -eq $env:DSH_C)"`, "2 100000 True\n", 0)
				h.Expect("function prompt { 'x' }; $ErrorActionPreference = 'Stop'; Set-StrictMode -Version Latest; 'ok'", "ok\n", 0)
				env = []string{"DSH_C=3"}
				h.Expect(`"$($null -eq $env:DSH_A) $env:DSH_C"; /bin/sh -c 'echo ${DSH_A-none} ${DSH_B-none} $DSH_C'`, "True 3\nnone none 3\n", 0)
			})
		}
	})
}
