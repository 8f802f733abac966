//go:build unix

package toolbash_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
)

// steal is a program text that prints the shell's own markers with its real
// secret, as code that runs inside the shell can: done and prompt of the
// command that is running, with status 0.
const steal = `printf '%s' "${__shs_1%A;}D;$__shs_n;0;5.2;/${__shs_2}${__shs_1}$__shs_n;0${__shs_2}"`

// Nothing that a command or its children print, guess, replay, read or put back
// ends a wait or changes a status.
//
// Case: F02 (nickgnd/tmux-mcp#28) T24
func TestForgers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a blocked read can be proved on Linux only; elsewhere a marker with the right secret is believed")
	}
	const body = "; sleep 0.3; echo $((40+2)); false"
	for _, tt := range []struct{ name, forge string }{
		{"osc_133", `printf '\033]133;D;0\007'`},
		{"osc_633", `printf '\033]633;D;0\007'`},
		{"guessed_secret", `printf '\033]7771;00000000000000000000000000000000;D;1;0;5.2;/\007\033]7771;00000000000000000000000000000000;A;1;0\007'`},
		{"prompt_expansion", `[[ ${BASH_VERSINFO[0]} -ge 5 ]] && printf '%s' "${PS1@P}"`},
		{"prompt_eval", `eval "printf '%s' \"$PS1\""`},
		{"prompt_command", `eval "$PROMPT_COMMAND"`},
		{"prompt_command_and_prompt", `eval "$PROMPT_COMMAND"; eval "printf '%s' \"$PS1\""`},
		{"done_function", `__shs_d 0`},
		{"start_function", `__shs_s $__shs_n 0`},
		{"start_of_another_number", `__shs_s 999 0; __shs_d 0`},
		{"variables", steal},
		{"twice", steal + ";" + steal},
		{"from_a_subshell", "(" + steal + ")"},
		{"from_a_background_job", "{ " + steal + "; } & wait"},
		{"from_a_child", `export S="${__shs_1%A;}" N=$__shs_n; bash -c 'printf "%s" "${S}D;$N;0;5.2;/"$'"'\\a'"'"${S}A;$N;0"$'"'\\a'"`},
		{"declare_p", `declare -p __shs_1 | sed "s/.*=.'//; s/'$//" | { IFS= read -r s; printf "${s}$__shs_n;0\a"; }`},
		{"set", `set | grep -a '^__shs_1=' | sed "s/.*=.'//; s/'$//" | { IFS= read -r s; printf "${s}$__shs_n;0\a"; }`},
		{"declare_f", `s=$(declare -p __shs_m | grep -ao '[0-9a-f]\{32\}' | head -1); printf "\033]7771;$s;D;$__shs_n;0;5.2;/\007\033]7771;$s;A;$__shs_n;0\007"`},
		{"memory", `s=$(grep -aom1 '7771;[0-9a-f]\{32\}' /proc/$$/mem 2>/dev/null | head -1); s=${s#*;}; s=${s:-0}; printf "\033]7771;$s;D;$__shs_n;0;5.2;/\007\033]7771;$s;A;$__shs_n;0\007"`},
		{"to_the_terminal_by_name", steal + " >/dev/tty"},
		{"half_a_marker", `printf '%s' "${__shs_1}"`},
		{"to_the_descriptors_of_the_shell", steal + " >/proc/$$/fd/1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bashes()[0])
			a := h.run(tt.forge + body)
			assert.Equal(t, persistent.Completed, a.Reason, "%+v", a.Result)
			assert.Contains(t, a.exact, "42\n", "the command ended early")
			assert.Equal(t, code(1), a.ExitCode)
			h.expect("echo next; (exit 7)", "next\n", 7)
		})
	}
}

// A marker that is followed by waiting is no prompt.
func TestForgerThatWaits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a blocked read can be proved on Linux only; elsewhere a marker with the right secret is believed")
	}
	for _, tt := range []struct{ name, text string }{
		{"builtin", steal + "; read x"},
		{"builtin_key", steal + "; read -n1 x"},
		{"builtin_editing", steal + "; read -e x"},
		{"program", steal + "; cat"},
		{"nested_shell", steal + "; bash --norc --noediting -i"},
		{"other_shell_in_its_place", steal + "; exec bash --norc --noediting -i"},
		{"prompt_command", `eval "$PROMPT_COMMAND"; eval "printf '%s' \"$PS1\""; read x`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bashes()[0])
			a := h.run(tt.text)
			assert.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
			a = h.run("echo next")
			assert.Equal(t, "next\n", a.exact)
			assert.Equal(t, code(0), a.ExitCode)
		})
	}
}

// The secret is where only the shell itself can see it.
func TestSecretIsHidden(t *testing.T) {
	h := newHost(t, bashes()[0])
	a := h.run("printf '%s' \"${__shs_1:7:32}\"")
	require.Len(t, a.exact, 32)
	secret := a.exact
	for _, text := range []string{
		"env", "cat /proc/$$/environ /proc/self/environ | tr '\\0' '\\n'", "cat /proc/$$/cmdline", "set -a; PS1=$PS1; PS2=x; env",
		"for f in /proc/self/fd/*; do readlink $f; done; ls /proc/$$/fd", "history", "export -p", "grep -r \"" + secret[:8] + "\" \"${TMPDIR:-/tmp}\"/shellstead-* 2>/dev/null | grep -v grep",
		"set -x; env; true", "set -o posix; set +o posix; env",
	} {
		assert.NotContains(t, h.run(text).exact, secret, text)
	}
	// Nothing but the three standard descriptors reaches a child, and one that
	// ls opens for itself.
	h.expect("set +x; ls /proc/self/fd | tr '\\n' ' '", "++ set +x\n0 1 2 3 ", 0)
}

// A job in the background knows the secret and prints markers all the time:
// every command has its own status and output nonetheless.
//
// Case: F02 (amanthanvi/noctty PR#169)
func TestForgerInTheBackground(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a blocked read can be proved on Linux only; elsewhere a marker with the right secret is believed")
	}
	for _, number := range []string{"$__shs_n", "1", "9223372036854775807"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bashes()[0])
			h.run("k=${__shs_1%A;}; (while :; do printf '%s' \"${k}S;" + number + "${__shs_2}${k}D;" + number + ";77;5.2;/fake${__shs_2}${k}A;" + number + ";77${__shs_2}\"; done) & true")
			for i := range 30 {
				a := h.run(fmt.Sprintf("echo $((40+2)); (exit %d)", i))
				require.Equal(t, persistent.Completed, a.Reason, "%+v", a.Result)
				require.NotNil(t, a.ExitCode)
				assert.Equal(t, i, *a.ExitCode)
				assert.Equal(t, "42\n", a.exact)
				assert.Equal(t, h.dir, a.Cwd)
			}
			h.run("kill %1")
		})
	}
}
