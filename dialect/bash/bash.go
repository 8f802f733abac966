// Package bash is the dialect of bash 3.2 to 5.3.
//
// A shell gets its bootstrap by a private pipe as its rc file, so the secret of
// its markers is in no file, argument, environment or inherited descriptor. The
// bootstrap defines a few read-only functions whose names start with __shs_ and
// installs two markers that a prompt prints, one from PROMPT_COMMAND and one in
// PS1: whatever a user does to one of them, the other still comes.
//
// A marker is an OSC sequence with the shell's secret:
//
//	ESC ] 7771 ; secret ; S ; seq BEL                           start
//	ESC ] 7771 ; secret ; D ; seq ; status ; version ; cwd BEL  done
//	ESC ] 7771 ; secret ; A ; seq ; status ; flags BEL          prompt
//	ESC ] 7771 ; secret ; P ; seq BEL                           continuation
//
// A program travels as a file that the shell sources, so its text never passes
// a line editor and has no length limit. The line that is typed is a list, not
// a single command: an interrupt then ends the whole program (bash 4.4 and
// later go on with the next line of a file that was sourced alone).
package bash

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
)

// Prompt is the printable prompt of an interactive shell.
const Prompt = "$ "

// maxPayload bounds a marker's payload: a quoted PATH_MAX of 4096 bytes may
// take four characters a byte.
const maxPayload = 20 << 10

// Dialect is the bash dialect.
type Dialect struct{}

var _ dialect.Dialect = Dialect{}

// Name returns "bash".
func (Dialect) Name() string { return "bash" }

// Programs returns "bash".
func (Dialect) Programs() []string { return []string{"bash"} }

// Install names the one usual way.
func (Dialect) Install() string { return "install the package bash" }

// New returns a new shell's state.
func (Dialect) New(setup dialect.Setup) (dialect.Shell, error) {
	if len(setup.Secret) < 32 || strings.Trim(setup.Secret, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("bash: the secret needs at least 128 bits in hexadecimal")
	}
	return &shell{setup: setup}, nil
}

// shell is what is known about one running bash.
type shell struct {
	setup   dialect.Setup
	version version
	typed   string   // the line of the last program, which the terminal echoes
	asked   []string // those of the Resyncs before it
	flags   string   // options and oddities that the last prompt reported, a letter each
	debug   bool     // a DEBUG trap is set
}

type version struct{ major, minor int }

func (v version) before(major, minor int) bool {
	return v.major != 0 && (v.major < major || v.major == major && v.minor < minor)
}

func (s *shell) Launch() dialect.Launch {
	l := dialect.Launch{
		Args:      s.args,
		Bootstrap: s.bootstrap,
		Env:       []string{"BASH_SILENCE_DEPRECATION_WARNING=1"},
		// What a parent shell exports must not reach into this one: start-up
		// files, prompts, traces, time-outs, functions.
		Unset: []string{"BASH_ENV", "ENV", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "HISTFILE",
			"BASH_XTRACEFD", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "TMOUT", "IGNOREEOF", "BASH_FUNC_*"},
		// Bash keeps its own interrupt until its foreground job has ended, then
		// drops the rest of the command.
		InterruptShell: s.setup.CommandMode,
		// Echo stays on in command mode too: a program that asks for a password
		// turns it off, and that is how a password prompt is known. The echo of
		// the one line that is typed comes before the start marker and is cut.
		Modes: backend.Modes{Canonical: true, Echo: true, Signals: true, InputCR: true, NoFlush: true},
	}
	if s.setup.CommandMode {
		l.Env = append(l.Env, "TERM=dumb")
		return l
	}
	l.Env = append(l.Env, "TERM=xterm-256color")
	l.Modes.OutputProc = true
	l.Prompt = Prompt
	return l
}

func (s *shell) args(ch backend.ChannelRef) []string {
	if len(s.setup.Args) > 0 {
		// The rc file is not a choice: without it the shell has no markers.
		return append([]string{"--noprofile", "--rcfile", ch.Path}, s.setup.Args...)
	}
	args := []string{"--noprofile", "--rcfile", ch.Path}
	if s.setup.CommandMode {
		args = append(args, "--noediting") // long options come before -i
	}
	return append(args, "-i")
}

func (s *shell) Marker() dialect.Marker {
	return dialect.Marker{Prefix: []byte(markerStart + s.setup.Secret + ";"), End: []byte(markerEnd), Max: maxPayload}
}

func (s *shell) Mark(payload []byte) (dialect.Mark, bool) {
	kind, rest, _ := bytes.Cut(payload, []byte{';'})
	if len(kind) != 1 {
		return dialect.Mark{}, false
	}
	fields := strings.SplitN(string(rest), ";", 4)
	var m dialect.Mark
	if fields[0] != "" { // a user may have unset the variable
		seq, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			return dialect.Mark{}, false
		}
		m.Seq = seq
	}
	if len(fields) > 1 {
		if n, err := strconv.Atoi(fields[1]); err == nil {
			m.Status, m.HasStatus = n, true
		}
	}
	switch kind[0] {
	case 'S':
		m.Kind = dialect.Start
	case 'P':
		m.Kind = dialect.Continuation
	case 'A':
		m.Kind = dialect.Prompt
		if len(fields) == 3 {
			s.flags = fields[2]
		}
	case 'D':
		m.Kind = dialect.Done
		if len(fields) != 4 || !m.HasStatus {
			return dialect.Mark{}, false
		}
		major, minor, _ := strings.Cut(fields[2], ".")
		s.version.major, _ = strconv.Atoi(major)
		s.version.minor, _ = strconv.Atoi(minor)
		m.Cwd, m.HasCwd = unquote(fields[3])
	default:
		return dialect.Mark{}, false
	}
	return m, true
}

// Command delivers a program as a file. NUL is the one byte that bash cannot
// hold. A byte order mark at the beginning is not part of the program.
func (s *shell) Command(script dialect.Script) (dialect.Delivery, error) {
	text := strings.TrimPrefix(script.Text, "\ufeff")
	if i := strings.IndexByte(text, 0); i >= 0 {
		return dialect.Delivery{}, fmt.Errorf(
			"the command contains a NUL byte at offset %d, which bash cannot hold: write it as an escape, for instance printf '\\0'", i)
	}
	const name = "command"
	dot := `\.`
	switch {
	case strings.Contains(s.flags, "f"): // a function named . exists
		dot = `\builtin .`
	case strings.Contains(s.flags, "d"): // the builtin . is disabled
		dot = `\source`
	}
	source := dot + " " + quote(path.Join(script.Dir, name))
	if s.version.before(4, 4) {
		// Before 4.4 an interrupt ends no list, but it ends a loop.
		source = "for __shs_l in 1; do " + source + "; done"
	}
	// The start marks the program's beginning and shows it the status of the
	// last command. The && keeps that status from ending a shell under set -e
	// and from an ERR trap.
	line := fmt.Sprintf(`\__shs_s %d %d >/dev/null 2>&1 && ((1)); %s`, script.Seq, script.Status, source)
	if s.debug || strings.Contains(s.flags, "x") {
		// Traces and a DEBUG trap would show the sourcing itself: the start
		// comes from inside the file, on its first line so that line numbers
		// stay right.
		line = fmt.Sprintf("__shs_n=%d; %s", script.Seq, source)
		text = fmt.Sprintf(`{ \__shs_s %d %d && ((1)); } >/dev/null 2>&1; `, script.Seq, script.Status) + text
	}
	files := []dialect.File{{Name: name, Data: []byte(text)}}
	if len(script.Env)+len(script.Unset) > 0 {
		const name = "environment"
		data, err := environment(script.Env, script.Unset)
		if err != nil {
			return dialect.Delivery{}, err
		}
		files = append(files, dialect.File{Name: name, Data: data})
		// The || keeps a read-only variable from ending a shell under set -e.
		line = fmt.Sprintf("%s %s >/dev/null 2>&1 || ((1)); %s", dot, quote(path.Join(script.Dir, name)), line)
	}
	s.typed = line + "\n"
	return dialect.Delivery{Files: files, Terminal: []byte(s.typed)}, nil
}

// environment is a program that changes variables. One that exists is removed
// first, with whatever attributes it has.
func environment(set, unset []string) ([]byte, error) {
	names, entries := slices.Clone(unset), make([]string, len(set))
	for i, entry := range set {
		name, value, _ := strings.Cut(entry, "=")
		if strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("the value of the variable %s contains a NUL byte, which bash cannot hold", name)
		}
		names, entries[i] = append(names, name), name+"="+quote(value)
	}
	for _, name := range names {
		if !variableName.MatchString(name) {
			return nil, fmt.Errorf("bash has no variable of the name %q", name)
		}
	}
	commands := func(builtin string) string {
		text := builtin + "unset -v " + strings.Join(names, " ") + "\n"
		if len(entries) > 0 {
			text += builtin + "export " + strings.Join(entries, " ") + "\n"
		}
		return text
	}
	// As in the bootstrap: a user's function may have the name builtin.
	return []byte("if [[ ${__shs_w-} ]]; then\n" + commands(`\`) + "else\n" + commands(`\builtin `) + "fi\n"), nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Resync has the shell print its done marker, which repairs the others.
func (s *shell) Resync(seq uint64) (dialect.Delivery, error) {
	line := fmt.Sprintf("\\__shs_d \"$?\" %d >/dev/null 2>&1 && ((1))\n", seq)
	s.asked = append(s.asked, line)
	return dialect.Delivery{Terminal: []byte(line)}, nil
}

// Trailer knows what bash prints between a program and the done marker. After an interrupt each of its processes that was not a program yet
// prints a newline, and so does the shell: a run of newlines that came after the
// interrupt is theirs, but for the one that ends a line of text, and so is a
// marker that the interrupt cut short. Under set -v it
// prints the text of PROMPT_COMMAND.
func (s *shell) Trailer(tail []byte, interrupted bool) int {
	text := tail
	for n := -1; n != len(text); {
		n = len(text)
		text = bytes.TrimSuffix(text, []byte(hook+"\n"))
		if interrupted {
			text = bytes.TrimRight(text[:len(text)-s.torn(text)], "\n")
		}
	}
	if n := len(text); interrupted && n > 0 && n < len(tail) && tail[n] == '\n' {
		text = tail[:n+1] // it ends a line of text
	}
	if len(text) < len(tail) {
		return len(tail) - len(text)
	}
	return begins(tail, hook+"\n")
}

// begins returns the length of the longest end of tail that is a beginning of
// text.
func begins(tail []byte, text string) int {
	last := tail[max(0, len(tail)-len(text)):]
	for at := 0; at < len(last); at++ {
		next := bytes.IndexByte(last[at:], text[0])
		if next < 0 {
			return 0
		}
		at += next
		if strings.HasPrefix(text, string(last[at:])) {
			return len(last) - at
		}
	}
	return 0
}

// torn returns how many bytes at the end of text are the beginning of a marker:
// an interrupt can hit the shell while it prints one.
func (s *shell) torn(text []byte) int {
	prefix := s.Marker().Prefix
	if at := bytes.LastIndex(text, prefix); at >= 0 {
		return len(text) - at
	}
	return begins(text, string(prefix))
}

// debugTrap is what bash prints between the markers of a prompt: the DEBUG trap
// that the hook asks for.
var debugTrap = regexp.MustCompile(`(?s)trap -- .*? DEBUG\n`)

// Noise learns from the text after the done marker whether a DEBUG trap is set.
// The terminal's echo of the typed line, and what a DEBUG trap or a trace prints
// for it, are the shell's own doing.
func (s *shell) Noise(where dialect.Kind, text []byte) []byte {
	if where == dialect.Prompt {
		s.debug = false
		text = debugTrap.ReplaceAllFunc(text, func(trap []byte) []byte {
			s.debug = s.debug || !bytes.HasPrefix(trap, []byte("trap -- - "))
			return nil
		})
		if strings.Contains(s.flags, "p") {
			return nil // a PROMPT_COMMAND of the user's prints for a prompt that nobody sees
		}
		return bytes.ReplaceAll(text, []byte(psText), nil)
	}
	if where == dialect.Done {
		// Said at the end of its input.
		return bytes.TrimSuffix(text, []byte("exit\n"))
	}
	if s.debug {
		return nil
	}
	text = cutAsked(text, s.asked)
	s.asked = nil
	text = cutEcho(text, s.typed)
	if !bytes.Contains(text, []byte("__shs_")) {
		return text
	}
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte("__shs_")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// maxCuts bounds into how many parts the output of background jobs cuts an
// echo: with more, text that is no echo could look like one.
const maxCuts = 4

// cutEcho takes the echo of the typed line out of text. A background job's
// output may have cut it in parts.
func cutEcho(text []byte, typed string) []byte {
	if rest, ok := cutParts(text, typed, maxCuts); ok {
		return rest
	}
	return text
}

// cutAsked is cutEcho for lines that differ in a number, some of which were typed
// without an echo: one that is there whole is not taken for another in parts.
func cutAsked(text []byte, asked []string) []byte {
	whole := false
	for _, line := range asked {
		if before, after, ok := bytes.Cut(text, []byte(line)); ok {
			text, whole = slices.Concat(before, after), true
		}
	}
	if whole {
		return text
	}
	for _, line := range asked {
		if rest, ok := cutParts(text, line, maxCuts); ok {
			return rest
		}
	}
	return text
}

func cutParts(text []byte, typed string, parts int) (rest []byte, ok bool) {
	if typed == "" || parts == 0 {
		return text, typed == ""
	}
	for n := len(typed); n > 0; n-- {
		at := bytes.Index(text, []byte(typed[:n]))
		if at < 0 {
			continue
		}
		rest, ok := cutParts(text[at+n:], typed[n:], parts-1)
		return slices.Concat(text[:at], rest), ok
	}
	return nil, false
}

// Interrupted maps the status 1 that a loop of bash before 4.4 has after an
// interrupt.
func (s *shell) Interrupted(m dialect.Mark) dialect.Mark {
	if s.version.before(4, 4) && m.Status == 1 {
		m.Status = 130
	}
	return m
}
