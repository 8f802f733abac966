package shellenv_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/shellenv"
)

// Credentials and managed names of the surroundings never reach a shell.
//
// Case: reference 3.3 #79
func TestScrub(t *testing.T) {
	for _, entry := range []string{
		"DSH_X=1", "dsh_x=1", "Dsh_Session_Id=stale", "DSH_=",
		"API_KEY=k", "x_token=t", "MyPassword=p", "PGPASSWD=p", "GPG_PASSPHRASE=p",
		"client_secret=s", "GOOGLE_APPLICATION_CREDENTIALS=/f", "KEY=", "monkey=1",
	} {
		t.Run(entry, func(t *testing.T) {
			assert.Empty(t, shellenv.Scrub([]string{entry}))
		})
	}

	harmless := []string{
		"PATH=/usr/bin", "HOME=/root", "EMPTY=", "NOTE=my secret token", "MY_DSH_X=1",
		"DSHX=1", "BASH_FUNC_f%%=() { :\n}", `=C:=C:\work`,
	}
	before := slices.Clone(harmless)
	assert.Equal(t, harmless, shellenv.Scrub(harmless))
	assert.Equal(t, before, harmless, "the argument is not changed")

	assert.Equal(t, []string{"A=1"}, shellenv.Scrub([]string{"", "noequals", "A=1"}))
}

// Explicit settings may restore what the scrub removed, and the managed snapshot
// wins over everything.
//
// Case: reference 3.3 #79
func TestScrubbedNamesCanBeRestored(t *testing.T) {
	ambient := []string{"API_KEY=ambient", "DSH_SESSION_ID=outer", "PATH=/bin"}
	explicit := []string{"API_KEY=explicit", "DSH_SESSION_ID=forged"}
	managed := []string{"DSH_SESSION_ID=own"}
	assert.Equal(t,
		[]string{"PATH=/bin", "API_KEY=explicit", "DSH_SESSION_ID=own"},
		shellenv.Merge(false, shellenv.Scrub(ambient), explicit, managed))
}

func TestMerge(t *testing.T) {
	tests := []struct {
		name   string
		folded bool
		layers [][]string
		want   []string
	}{
		{"nothing", false, nil, []string{}},
		{"later layer wins in place", false, [][]string{{"A=1", "B=2"}, {"C=3", "A=4"}}, []string{"A=4", "B=2", "C=3"}},
		{"last duplicate of a layer wins", false, [][]string{{"A=1", "B=2", "A=3"}}, []string{"A=3", "B=2"}},
		{"case matters", false, [][]string{{"PATH=a"}, {"Path=b"}}, []string{"PATH=a", "Path=b"}},
		{"case does not matter", true, [][]string{{"PATH=a", "X=1"}, {"Path=b"}}, []string{"Path=b", "X=1"}},
		{"malformed", false, [][]string{{"", "A", "=", "=A", "B=2"}}, []string{"B=2"}},
		{"drive folders", true, [][]string{{`=C:=C:\a`, `=D:=D:\b`}, {`=c:=C:\c`}}, []string{`=c:=C:\c`, `=D:=D:\b`}},
		{"value with equals", false, [][]string{{"A=b=c"}}, []string{"A=b=c"}},
		{"empty value is set", false, [][]string{{"A=1"}, {"A="}}, []string{"A="}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, shellenv.Merge(tt.folded, tt.layers...))
		})
	}
}

func TestUnset(t *testing.T) {
	env := []string{"PATH=/bin", "BASH_ENV=x", "BASH_FUNC_f%%=() { :; }", "BASH_FUNC_g%%=() { :; }", "bash_env=y", "PS4=+"}
	before := slices.Clone(env)
	assert.Equal(t,
		[]string{"PATH=/bin", "bash_env=y"},
		shellenv.Unset(env, []string{"BASH_ENV", "BASH_FUNC_*", "PS4", "ABSENT"}, false))
	assert.Equal(t,
		[]string{"PATH=/bin", "PS4=+"},
		shellenv.Unset(env, []string{"BASH_*"}, true))
	assert.Equal(t, []string{}, shellenv.Unset(env, []string{"*"}, false))
	assert.Equal(t, env, shellenv.Unset(env, nil, false))
	assert.Equal(t, before, env, "the argument is not changed")
}
