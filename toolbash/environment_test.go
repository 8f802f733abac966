//go:build unix

package toolbash_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// managed returns an option that makes env the managed environment of whatever
// is run next.
func managed(env *[]string) option {
	return func(_ *engine.Config, p *persistent.Config) {
		p.Resolve = func(context.Context, *terminals.Owner, string, string) ([]string, error) {
			if *env == nil {
				return nil, errors.New("contributor tickets: DSH_TICKET was not declared")
			}
			return slices.Clone(*env), nil
		}
	}
}

// A live shell follows the managed environment, its children too, and neither
// the status of the last command nor an option of the shell's stands in the way.
func TestEnvironmentOfALiveShell(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		env := []string{"DSH_A=1", "DSH_B=two"}
		h := newHost(t, path, managed(&env))
		const show = "printenv DSH_A DSH_B DSH_C; "
		h.expect(show, "1\ntwo\n", 1)

		env = []string{"DSH_A=1", "DSH_C=it's $(x) \\ \"é\"\nand more"}
		h.expect("echo $?; "+show, "1\n1\nit's $(x) \\ \"é\"\nand more\n", 1)
		h.expect(`echo "${DSH_B-gone}"`, "gone\n", 0)

		env = []string{"DSH_A=1", "DSH_C="}
		h.expect("DSH_A=mine; "+show, "mine\n\n", 1)
		h.expect(show, "mine\n\n", 1) // it is the user's until ours changes

		env = nil
		a := h.run("echo never")
		assert.Equal(t, persistent.Failed, a.Reason)
		assert.Equal(t, persistent.CodeEnvironment, a.Error.Code)
		assert.Equal(t, "Error: contributor tickets: DSH_TICKET was not declared", strings.TrimSpace(a.Text))

		env = []string{"DSH_A=2", "DSH_B=" + strings.Repeat("long ", 20000)}
		h.expect(`echo "$DSH_A" ${#DSH_B} ${DSH_C-gone}`, "2 100000 gone\n", 0)
	})
}

func TestEnvironmentOfAnUnfriendlyShell(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, unfriendly := range []string{
			"set -eu", "set -x", "trap 'echo debug' DEBUG", "trap 'echo trapped' ERR", "set -o posix",
			".() { echo dot; }", "enable -n .", "export() { echo export; }; unset() { echo unset; }",
			"builtin() { echo builtin; }", "alias export=false unset=false builtin=false", "exec 2>&-", "set -o noclobber",
			"declare -ai DSH_A", "declare -i DSH_C", "readonly DSH_A", "readonly DSH_B; set -e", "set -o nounset; unset __shs_w",
		} {
			t.Run(unfriendly, func(t *testing.T) {
				env := []string{"DSH_A=1", "DSH_B=2"}
				h := newHost(t, path, managed(&env))
				h.run(unfriendly)
				h.run("true")
				env = []string{"DSH_A=changed", "DSH_C=new"}
				want := "changed gone new\n"
				if strings.Contains(unfriendly, "readonly DSH_A") {
					want = "1 gone new\n"
				} else if strings.Contains(unfriendly, "readonly DSH_B") {
					want = "changed 2 new\n"
				}
				a := h.run(`echo "$DSH_A ${DSH_B-gone} $DSH_C"`)
				assert.Contains(t, a.exact, want)
				assert.Equal(t, persistent.Completed, a.Reason)
				env = []string{"DSH_C=newer"}
				changed := h.run(`echo "${DSH_C}"`)
				same := h.run(`echo "${DSH_C}"`)
				assert.Contains(t, changed.exact, "newer\n")
				assert.Equal(t, same.exact, changed.exact, "nothing is printed of the change")
			})
		}
	})
}
