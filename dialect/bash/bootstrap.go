package bash

import (
	"strconv"
	"strings"

	"github.com/shellstead/shellstead/backend"
)

const (
	markerStart = "\x1b]7771;"
	markerEnd   = "\a"
)

// hook is what PROMPT_COMMAND runs. Its output goes to /dev/null, so that
// neither a trace nor a DEBUG trap shows; the functions write to the terminal
// by its own name, so that no descriptor of ours is left open to close or to
// inherit. The trap that it prints after the done marker tells the dialect that
// a DEBUG trap exists: only the top level sees it.
const hook = `{ \__shs_d "$?"; \builtin trap -p DEBUG >/dev/tty; } >/dev/null 2>&1`

// bootstrap is the rc file. Functions and constants are read-only: a user's
// unset, alias or function cannot take them away. Where even that is not
// enough, the PS1 marker, which needs no builtin, tells the status.
//
// The done marker comes first: an interrupt that hits bash in its hook can make
// it take the end of the hook's text for the end of its input, and exit; after
// the marker the engine sends none. The options a, x and v are off at the prompt
// and back on when a program starts: nothing of ours is exported, traced or
// echoed.
//
// Jobs that ended are listed to nobody: bash then does not tell of them at the
// prompt.
const bootstrap = `exec @FD@<&-
unset HISTFILE
set +o history +H
__shs_n=0 __shs_f= __shs_w=
__shs_1=$'\e]7771;@SECRET@;A;' __shs_2=$'\a'
__shs_m='\e]7771;@SECRET@;D;%s;%s;'${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}';%q\a' __shs_q='\e]7771;@SECRET@;S;%s\a'
__shs_c='@HOOK@'
__shs_a='@WHERE@@OPEN@@PS1@@CLOSE@@PROMPT@'
__shs_b='@OPEN@${__shs_1%A;}P;${__shs_n}${__shs_2}@CLOSE@> '
__shs_d() {
	[[ -z ${2-} ]] || __shs_n=$2
	if \declare -F builtin; then
		__shs_w=1
		\printf "$__shs_m" "$__shs_n" "$1" "$PWD" >/dev/tty
	else
		__shs_w=
		\builtin printf "$__shs_m" "$__shs_n" "$1" "$PWD" >/dev/tty
	fi
	__shs_f=
	case $- in *[axv]*) __shs_o ;; esac
	if \declare -F .; then __shs_f+=f
	elif ! \type .; then __shs_f+=d; fi
	[[ ${PROMPT_COMMAND-} == "$__shs_c" && -z ${PROMPT_COMMAND[1]+x} ]] || __shs_i
	[[ ${PS1-} == "$__shs_a" && ${PS2-} == "$__shs_b" && -z ${PS0-} ]] || { PS0= PS2=$__shs_b; PS1=$__shs_a; }
	@EDITING@
	\builtin jobs
	if [[ $__shs_w ]]; then \return "$1"; else \builtin return "$1"; fi || (\exit "$1")
}
__shs_o() {
	case $- in *a*) \builtin set +a; \builtin export -n __shs_n __shs_f __shs_w; __shs_f+=a ;; esac
	case $- in *x*) \builtin set +x; __shs_f+=x ;; esac
	case $- in *v*) \builtin set +v; __shs_f+=v ;; esac
}
__shs_i() {
	__shs_f+=p
	[[ ${PROMPT_COMMAND-} == *__shs_d* ]] || PROMPT_COMMAND=$__shs_c${PROMPT_COMMAND:+$'\n'$PROMPT_COMMAND}
}
__shs_s() {
	__shs_n=$1
	if [[ $__shs_w ]]; then \printf "$__shs_q" "$1" >/dev/tty
	else \builtin printf "$__shs_q" "$1" >/dev/tty; fi
	case $__shs_f in *[vax]*) __shs_u ;; esac
	if [[ $__shs_w ]]; then \return "$2"; else \builtin return "$2"; fi || (\exit "$2")
}
__shs_u() {
	case $__shs_f in *v*) \builtin set -v ;; esac
	case $__shs_f in *a*) \builtin set -a ;; esac
	case $__shs_f in *x*) \builtin set -x ;; esac
}
readonly __shs_1 __shs_2 __shs_a __shs_b __shs_c __shs_m __shs_q
readonly -f __shs_d __shs_s __shs_o __shs_i __shs_u
PS1=$__shs_a PS2=$__shs_b PROMPT_COMMAND=$__shs_c
@REDRAW@
`

// directory begins an interactive prompt. It stands before the marker: what
// follows that is always the same text.
const directory = `\w`

// noRedraw keeps bash 5.1 and later from printing a pasted text twice, the second
// time without the highlighting.
const noRedraw = `\builtin bind 'set enable-active-region off' 2>/dev/null`

// psText is the marker in PS1; without promptvars bash prints it as it is.
const psText = `${__shs_1}${__shs_n};$?;${__shs_f}${__shs_2}`

// noEditing puts a user's set -o vi or emacs right again: with line editing
// switched on in a shell that was started without it, bash prints no prompt.
const noEditing = `case :$SHELLOPTS: in *:vi:*|*:emacs:*) \builtin set +o vi +o emacs ;; esac`

func (s *shell) bootstrap(ch backend.ChannelRef) []byte {
	where, open, end, prompt, editing, redraw := "", "", "", "", noEditing, ":"
	if !s.setup.CommandMode {
		where, open, end, prompt, editing, redraw = directory, `\[`, `\]`, Prompt, ":", noRedraw
	}
	return []byte(strings.NewReplacer(
		"@FD@", strconv.FormatUint(uint64(ch.Number), 10),
		"@SECRET@", s.setup.Secret,
		"@HOOK@", hook,
		"@WHERE@", where, "@OPEN@", open, "@CLOSE@", end, "@PROMPT@", prompt, "@PS1@", psText,
		"@EDITING@", editing, "@REDRAW@", redraw,
	).Replace(bootstrap))
}
