// Package pwsh is the dialect of PowerShell 7.2 and later.
//
// The shell is driven by a private pipe, not by its terminal: its host calls a
// function PSConsoleHostReadLine for each line of input, and ours reads the next
// program from the pipe. So nothing is typed, nothing is echoed and no text is
// too long, while the terminal stays free for Ctrl-C and for programs that ask.
// The bootstrap is the pipe's first message; the secret of the markers is in no
// file, argument, environment or inherited descriptor.
//
// Where there is no such pipe (Dialect.Typed) the bootstrap is a private file
// that is removed once it has run, and so is each program, whose number is typed.
//
// The shell for a person has a reader that takes keys, echoes them and knows
// incomplete text. It reads no start-up file and writes no history.
//
// A message on the pipe is the command's number, eight bytes, and its text: a
// length in seven-bit groups and UTF-8, as System.IO.BinaryReader reads them. A
// negative number alone asks for the done and prompt markers again, with its
// absolute value. The number 0 comes before a command, with the text of a
// variable to set, NAME=VALUE, or to drop, NAME.
//
// A marker is an OSC sequence with the shell's secret, ended by ESC \ so that
// every console passes it:
//
//	ESC ] 7771 ; secret ; S ; seq ESC \                                start
//	ESC ] 7771 ; secret ; D ; seq ; status ; level ; cwd ESC \         done
//	ESC ] 7771 ; secret ; A ; seq ESC \                                prompt
//	ESC ] 7771 ; secret ; P ; seq ESC \                                continuation
//
// cwd is base64 of UTF-8, level the depth of nested prompts.
package pwsh

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
)

const (
	markerStart = "\x1b]7771;"
	markerEnd   = "\x1b\\"

	// maxPayload bounds a marker's payload: a path of 32767 UTF-16 units.
	maxPayload = 160 << 10

	// startTerm is the terminal type that the shell itself knows.
	startTerm = "ansi"

	// Prompt is the end of a visible prompt, after its mark: before it stands the
	// directory.
	Prompt = "> "

	// The private files of a shell that is typed to.
	bootstrapFile   = "bootstrap"
	commandFile     = "command"
	environmentFile = "environment"

	// .NET hands an interrupt from thread to thread until it stops the pipeline:
	// milliseconds, on a busy machine tens of them.
	interruptLead = 50 // ms

	// columns is wide enough that formatting cuts no cell that a person would
	// read; wider changes nothing else.
	columns = 4096
)

// warmUp takes the two modules that most commands need, the formatting of
// objects and the way of a command through the host out of the first command.
const warmUp = `$null = 1, 'a', (Microsoft.PowerShell.Management\Get-Item / -ErrorAction Ignore) | Microsoft.PowerShell.Utility\Out-String; $null`

// Dialect is the PowerShell dialect.
type Dialect struct {
	// Typed drives the shell through its terminal, for where no private channel
	// can be had. A program may then see on its terminal that one was given.
	Typed bool
}

var _ dialect.Dialect = Dialect{}

// Name returns "pwsh".
func (Dialect) Name() string { return "pwsh" }

// Programs returns "pwsh", then "pwsh-preview".
func (Dialect) Programs() []string { return []string{"pwsh", "pwsh-preview"} }

// Install names the three usual ways.
func (Dialect) Install() string {
	return "install PowerShell 7.2 or later with a package manager (https://aka.ms/install-powershell), " +
		"unpack an archive of https://github.com/PowerShell/PowerShell/releases, " +
		"or run dotnet tool install --global PowerShell"
}

// New returns a new shell's state.
func (d Dialect) New(setup dialect.Setup) (dialect.Shell, error) {
	if len(setup.Secret) < 32 || strings.Trim(setup.Secret, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("pwsh: the secret needs at least 128 bits in hexadecimal")
	}
	s := &shell{setup: setup, typed: d.Typed}
	if setup.Rewrites {
		return console{s}, nil
	}
	return s, nil
}

type shell struct {
	setup   dialect.Setup
	typed   bool   // there is no channel
	line    string // what was typed last, which the terminal may echo
	given   uint64 // the number of the last command
	begun   uint64 // given, once the shell has begun that command
	secrets bool   // the last command asks for something that must not be seen
}

func (s *shell) Launch() dialect.Launch {
	l := dialect.Launch{
		Args: s.args,
		Env: []string{
			// .NET writes the keypad's mode of the terminal after every program,
			// into the output, and PowerShell a title. This type has neither. The
			// bootstrap gives the children the type that the terminal has.
			"TERM=" + startTerm,
			// Without these a killed shell leaves sockets and pipes in the folder
			// for temporary files: .NET's for debuggers, and PowerShell's for
			// Enter-PSHostProcess. The bootstrap takes them from the children.
			"DOTNET_EnableDiagnostics=0",
			"POWERSHELL_DIAGNOSTICS_OPTOUT=1",
		},
		// Echo on lets a native program's password prompt be known; the shell
		// itself turns it off while it reads.
		Modes:    backend.Modes{Canonical: true, Echo: true, Signals: true, InputCR: true, NoFlush: true},
		OwnModes: true, // .NET sets its own, and puts these back for its children
		// A child that leaves O_NONBLOCK on a shared description ends the shell.
		SeparateDescriptors: true,
		AnswerQueries:       true,
		InterruptLead:       interruptLead,
		// A signal does not end a read of the shell's own; a key does, and for
		// some reads one more.
		InterruptKeys: [][]byte{{0x03}, {'\r'}},
		Asks:          s.asks,
	}
	if s.typed {
		l.Files = []dialect.File{{Name: bootstrapFile, Data: []byte(s.text(0))}}
	} else {
		l.Bootstrap = func(ch backend.ChannelRef) []byte { return message(s.text(ch.Number)) }
	}
	if !s.setup.CommandMode {
		l.Prompt, l.Modes.OutputProc = Prompt, true
		return l
	}
	l.KeepChannel, l.ReadsChannel = !s.typed, !s.typed
	l.WarmUp, l.MinCols = warmUp, columns
	return l
}

func (s *shell) args(ch backend.ChannelRef) []string {
	start := "[IO.File]::ReadAllText('" + quote(path.Join(s.setup.Dir, bootstrapFile)) + "')"
	if !s.typed {
		start = "($global:__shs=[IO.BinaryReader]::new([IO.FileStream]::new('" + ch.Path + "',3,1,3,65536))).ReadString()"
	}
	args := []string{"-NoLogo", "-NoProfile"}
	args = append(args, s.setup.Args...)
	return append(args, "-NoExit", "-Command", ". ([scriptblock]::Create("+start+"))")
}

func (s *shell) Marker() dialect.Marker {
	return dialect.Marker{Prefix: []byte(markerStart + s.setup.Secret + ";"), End: []byte(markerEnd), Max: maxPayload}
}

func (s *shell) Mark(payload []byte) (dialect.Mark, bool) {
	fields := strings.Split(string(payload), ";")
	if len(fields) < 2 {
		return dialect.Mark{}, false
	}
	seq, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return dialect.Mark{}, false
	}
	m := dialect.Mark{Seq: seq}
	switch {
	case fields[0] == "S" && len(fields) == 2:
		m.Kind = dialect.Start
		if seq == s.given { // others are forged, or old
			s.begun = seq
		}
	case fields[0] == "A" && len(fields) == 2:
		m.Kind = dialect.Prompt
	case fields[0] == "P" && len(fields) == 2:
		m.Kind = dialect.Continuation
	case fields[0] == "D" && len(fields) == 5:
		m.Kind = dialect.Done
		if m.Status, err = strconv.Atoi(fields[2]); err != nil {
			return dialect.Mark{}, false
		}
		m.HasStatus = true
		m.Level, _ = strconv.Atoi(fields[3]) // a variable that users can remove
		cwd, err := base64.StdEncoding.DecodeString(fields[4])
		m.Cwd, m.HasCwd = string(cwd), err == nil && len(cwd) > 0
	default:
		return dialect.Mark{}, false
	}
	return m, true
}

// Command delivers a program by the pipe, or by a file and its number by the
// terminal. PowerShell's text is Unicode: bytes
// that are none are refused. A byte order mark at the beginning is not part of
// the program.
func (s *shell) Command(script dialect.Script) (dialect.Delivery, error) {
	if !utf8.ValidString(script.Text) {
		at := 0
		for at < len(script.Text) {
			r, size := utf8.DecodeRuneInString(script.Text[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return dialect.Delivery{}, fmt.Errorf(
			"the command is not valid UTF-8 at offset %d (byte 0x%02x), which PowerShell cannot hold: write the byte as an escape, for instance [byte]0x%02x",
			at, script.Text[at], script.Text[at])
	}
	text := strings.TrimPrefix(script.Text, "\ufeff")
	s.given, s.secrets = script.Seq, readsSecret.MatchString(text)
	changes := slices.Concat(script.Env, script.Unset)
	if s.typed {
		d := s.typeNumber(int64(script.Seq))
		d.Files = []dialect.File{{Name: commandFile, Data: []byte(text)}}
		if len(changes) > 0 {
			d.Files = append(d.Files, dialect.File{Name: environmentFile, Data: []byte(strings.Join(changes, "\x00"))})
			s.line = "#0\n" + s.line
			d.Terminal = []byte(s.line)
		}
		return d, nil
	}
	var msg []byte
	for _, change := range changes {
		msg = append(binary.LittleEndian.AppendUint64(msg, 0), message(change)...)
	}
	msg = binary.LittleEndian.AppendUint64(msg, script.Seq)
	return dialect.Delivery{Channel: append(msg, message(text)...)}, nil
}

// typeNumber types the number of a command, or of a question.
func (s *shell) typeNumber(n int64) dialect.Delivery {
	s.line = fmt.Sprintf("#%d\n", n)
	return dialect.Delivery{Terminal: []byte(s.line)}
}

// message is a string as BinaryReader.ReadString reads it.
func message(s string) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(s))), s...)
}

// Resync asks the reader, which answers by itself: its number comes negative and
// without a text. The answer would say nothing of a command that the shell has
// not begun: its reader tells of each.
func (s *shell) Resync(seq uint64) (dialect.Delivery, error) {
	if seq <= s.given && seq != s.begun {
		return dialect.Delivery{}, fmt.Errorf("pwsh: command %d was not begun", seq)
	}
	if s.typed {
		return s.typeNumber(-int64(seq)), nil
	}
	return dialect.Delivery{Channel: binary.LittleEndian.AppendUint64(nil, -seq)}, nil
}

// machinery is what the host prints between a program and our marker: it asks
// for the cursor, and where $PSStyle.OutputRendering allows it, the prompt and
// the cursor keys' mode follow.
var machinery = []string{"\x1b[6n\x1b[0m\x1b[?1h", "\x1b[6n\x1b[?1h"}

// Trailer holds back the end of the output that is the machinery, or the
// beginning of it. After an interrupt the terminal's echo of the keys that were
// typed for it stands before that: a run of line ends and ^C, but for the line
// end of a text.
func (s *shell) Trailer(tail []byte, interrupted bool) int {
	n := 0
	for _, m := range machinery {
		for k := min(len(m), len(tail)); k > n; k-- {
			if string(tail[len(tail)-k:]) == m[:k] {
				n = k
			}
		}
	}
	if !interrupted {
		return n
	}
	rest := tail[:len(tail)-n]
	text := len(bytes.TrimRight(rest, "\r\n\x03"))
	echo := len(rest) - text
	if text > 0 && echo > 0 && rest[text] == '\n' {
		echo--
	}
	return n + echo
}

// Noise: the shell prints nothing of its own around a program. The terminal may
// echo what is typed before one, while a child that was not waited for holds it.
func (s *shell) Noise(where dialect.Kind, text []byte) []byte {
	if where != dialect.Start || s.line == "" {
		return text
	}
	return bytes.Replace(text, []byte(s.line), nil, 1)
}

var (
	// readsSecret finds a question in a program whose answer is not to be shown.
	readsSecret = regexp.MustCompile(`(?i)\bRead-Host\b[^;|\n]*\s-(AsSecureString|MaskInput)\b`)

	// secretPrompt is a prompt that asks for such an answer.
	secretPrompt = regexp.MustCompile(`(?i)(pass(word|wd|phrase|code)|\bpw\b|\bsecret|\btoken|\bpin\b|\bapi[ _-]?key)[^:]*:\s*$`)
)

// asks tells the host's questions, which read a line although the terminal is
// raw, from other uses of the console: the host takes ^C as a key. Nothing tells
// a question for a secret but its own words and the program's.
func (s *shell) asks(modes backend.Modes, prompt string) dialect.Ask {
	switch {
	case modes.Signals:
		return dialect.AskUnknown
	case s.secrets || secretPrompt.MatchString(prompt):
		return dialect.AskSecret
	}
	return dialect.AskLine
}

// Interrupted changes nothing: the shell tells the status itself.
func (s *shell) Interrupted(m dialect.Mark) dialect.Mark { return m }
