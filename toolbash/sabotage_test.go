//go:build unix

package toolbash_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/persistent"
)

// Whatever a command does to its shell, the next commands have their own
// output and status, without a marker, an echo or a delay.
//
// Case: T21 T36 T44 T46 T47 T48 F19 (cline/cline#3445) F21 (RooCodeInc/Roo-Code#2017) F24 (microsoft/vscode#282355) F28
func TestSabotage(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		for _, text := range []string{
			"PROMPT_COMMAND=", "unset PROMPT_COMMAND", "unset PS1", `PS1="(venv) $PS1"`, "PS1='$ '", "readonly PS1", "readonly PS1=zz",
			"readonly PROMPT_COMMAND", "readonly PROMPT_COMMAND=", "PROMPT_COMMAND=; unset PS1", "PS2=x", "PROMPT_COMMAND='true'",
			"PROMPT_COMMAND=(a b)", "PROMPT_COMMAND='printf noise'", `PROMPT_COMMAND="$PROMPT_COMMAND; true"`,
			"alias printf=echo", "printf(){ :; }", "enable -n printf", "alias builtin=echo", "builtin(){ :; }", "enable -n builtin",
			"alias .=echo", ".(){ echo dot; }", "enable -n .", "alias source=echo; alias .=echo", "alias return=echo", "return(){ :; }", "alias set=echo",
			"set(){ :; }", "enable -n set", "declare(){ :; }", "enable -n declare", "alias declare=echo", "type(){ :; }", "enable -n type",
			"trap(){ :; }", "enable -n trap", "alias trap=echo", "test(){ :; }", "eval(){ :; }", "exec(){ :; }", "command(){ :; }",
			"alias __shs_s=echo __shs_d=echo __shs_p=echo", "builtin(){ echo Z; }", "enable -n builtin", "enable -n return", "enable -n builtin printf", "enable -n builtin return", "unset -f __shs_d __shs_s 2>/dev/null; true", "for f in $(compgen -A function); do unset -f $f 2>/dev/null; done; true",
			"unset __shs_n __shs_f", "shopt -u promptvars", "shopt -s extglob nocasematch dotglob nullglob", "set -o vi", "set -o emacs", "set +o emacs", "set -o posix",
			"set -f", "set -k", "set -a", "set -u", "set -T", "set -E", "set -o pipefail", "set -b", "set -h", "set -C", "set +m", "set -m", "set +B",
			"IFS=", "IFS=0123456789", "LC_ALL=C", "LC_ALL=nonsense 2>/dev/null", "umask 777", "ulimit -u 1", "ulimit -n 10", "exec </dev/tty", "exec 2>/dev/null", "exec 3>&1 4>&2",
			"exec 201>&-", "exec 5<&0", "PATH=", "unset PATH", "HISTFILE=h; set -o history", "set -H", "BASH_ENV=x; export BASH_ENV",
			"trap 'echo hi' ERR; trap - ERR", "trap true DEBUG", "trap 'true' RETURN", "trap '' INT", "trap : INT", "trap '' HUP TERM", "stty raw -echo", "stty sane", "stty -icanon", "stty -isig",
			"stty -onlcr opost", "tput reset 2>/dev/null; true", "reset 2>/dev/null >/dev/null; true", "cd /; mkdir -p \"$OLDPWD/d\"; cd \"$OLDPWD/d\"; rmdir \"$PWD\"", "TMPDIR=/proc/nonexistent",
			"set -- a b c", "shift 0", "exec 9>/dev/null; BASH_XTRACEFD=9; set -x", "PS4='$(echo x >&2)+'", "export PS1 PS2 PS4 PROMPT_COMMAND", "SHELLOPTS=x 2>/dev/null; true", "declare -i x; readonly -p >/dev/null",
			"f() { f2; }; f2() { return 0; }; f", "coproc cat; true", "sleep 200 & true", "disown -a", "kill -CHLD $$", "kill -INT $$ 2>/dev/null; true", "kill -WINCH $$", "enable -n echo; enable echo", "shopt -s expand_aliases; alias true=false; unalias true",
			"printf '\\033]0;title'", "printf '\\033'", "printf '\\033]7771;'", "printf '\\303'", "printf '\\033P'", "printf '\\033[?1049h'",
		} {
			t.Run(text, func(t *testing.T) {
				t.Parallel()
				h := newHost(t, path)
				h.run(text)
				a := h.run("false")
				assert.Equal(t, persistent.Completed, a.Reason, "%+v", a.Result)
				assert.Equal(t, code(1), a.ExitCode)
				assert.NotContains(t, a.exact, "__shs")
				a = h.run(`\command echo "hi  there"; (exit 4)`)
				assert.Equal(t, persistent.Completed, a.Reason)
				assert.NotContains(t, a.exact, "__shs")
				assert.Less(t, a.DurationMs, int64(5000), "it cost seconds")
				if a.exact != "" { // exec >file and the like take it away
					assert.Contains(t, a.exact, "hi  there\n")
				}
				assert.Contains(t, []int{4, 1, 254}, *a.ExitCode) // no fork under ulimit -u 1
			})
		}
	})
}

// A DEBUG trap under extdebug that refuses every command refuses ours too: the
// result says so, and the next command has a fresh shell.
//
// Case: F21 (RooCodeInc/Roo-Code#1083)
func TestShellThatRefusesEverything(t *testing.T) {
	h := newHost(t, bashes()[0])
	h.run("shopt -s extdebug; trap false DEBUG")
	a := h.run("echo no")
	assert.Equal(t, persistent.Failed, a.Reason, "%+v", a.Result)
	assert.Empty(t, a.exact)
	h.expect("echo yes", "yes\n", 0)
}

// Case: F21 (RooCodeInc/Roo-Code#1663)
func TestDebugTrapShowsOnlyTheCommand(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("trap 'echo trap' DEBUG", "", 0)
		// Sourced text runs no DEBUG trap without functrace.
		h.expect("echo a", "a\n", 0)
		h.expect("set -T", "", 0)
		h.expect("echo a", "trap\na\n", 0)
		h.expect("false", "trap\n", 1)
		h.expect("trap - DEBUG; set +T", "trap\n", 0)
		h.expect("echo b", "b\n", 0)
	})
}

func TestVerboseShowsOnlyTheText(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("set -v", "", 0)
		h.expect("echo a\necho b", "echo a\na\necho b\nb\n", 0)
		h.expect("set +v", "set +v\n", 0)
		h.expect("echo c", "c\n", 0)
	})
}
