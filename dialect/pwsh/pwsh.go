// Package pwsh is the dialect of PowerShell 7.2 and later.
//
// The shell is driven by a private pipe, not by its terminal: its host calls a
// function PSConsoleHostReadLine for each line of input, and ours reads the next
// program from the pipe. So nothing is typed, nothing is echoed and no text is
// too long, while the terminal stays free for Ctrl-C and for programs that ask.
// The bootstrap is the pipe's first message; the secret of the markers is in no
// file, argument, environment or inherited descriptor.
//
// A message on the pipe is the command's number, eight bytes, and its text: a
// length in seven-bit groups and UTF-8, as System.IO.BinaryReader reads them. A
// negative number alone asks for the done and prompt markers again, with its
// absolute value.
//
// A marker is an OSC sequence with the shell's secret, ended by ESC \ so that
// every console passes it:
//
//	ESC ] 7771 ; secret ; S ; seq ESC \                                start
//	ESC ] 7771 ; secret ; D ; seq ; status ; level ; cwd ESC \         done
//	ESC ] 7771 ; secret ; A ; seq ESC \                                prompt
//
// cwd is base64 of UTF-8, level the depth of nested prompts.
package pwsh

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
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

	// columns is wide enough that formatting cuts no cell that a person would
	// read; wider changes nothing else.
	columns = 4096
)

// warmUp takes the two modules that most commands need, the formatting of
// objects and the way of a command through the host out of the first command.
const warmUp = `$null = 1, 'a', (Microsoft.PowerShell.Management\Get-Item / -ErrorAction Ignore) | Microsoft.PowerShell.Utility\Out-String; $null`

// Dialect is the PowerShell dialect.
type Dialect struct{}

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
func (Dialect) New(setup dialect.Setup) (dialect.Shell, error) {
	if len(setup.Secret) < 32 || strings.Trim(setup.Secret, "0123456789abcdef") != "" {
		return nil, fmt.Errorf("pwsh: the secret needs at least 128 bits in hexadecimal")
	}
	return &shell{setup: setup}, nil
}

type shell struct {
	setup dialect.Setup
	given uint64 // the number of the last command
	begun uint64 // the number of the last command that the shell has begun
}

func (s *shell) Launch() dialect.Launch {
	return dialect.Launch{
		Args:        s.args,
		Bootstrap:   s.bootstrap,
		KeepChannel: true,
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
		// itself is never typed to.
		Modes:    backend.Modes{Canonical: true, Echo: true, Signals: true, InputCR: true, NoFlush: true},
		OwnModes: true, // .NET sets its own, and puts these back for its children
		// A child that leaves O_NONBLOCK on a shared description ends the shell.
		SeparateDescriptors: true,
		ReadsChannel:        true,
		WarmUp:              warmUp,
		MinCols:             columns,
		AnswerQueries:       true,
		// A signal does not end a read of the shell's own; a key does, and for
		// some reads one more.
		InterruptKeys: [][]byte{{0x03}, {'\r'}},
	}
}

func (s *shell) args(ch backend.ChannelRef) []string {
	start := ". ([scriptblock]::Create(($global:__shs=[IO.BinaryReader]::new([IO.FileStream]::new('" + ch.Path +
		"',3,1,3,65536))).ReadString()))"
	args := []string{"-NoLogo", "-NoProfile"}
	args = append(args, s.setup.Args...)
	return append(args, "-NoExit", "-Command", start)
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
		s.begun = seq
	case fields[0] == "A" && len(fields) == 2:
		m.Kind = dialect.Prompt
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

// Command delivers a program by the pipe. PowerShell's text is Unicode: bytes
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
	s.given = script.Seq
	msg := binary.LittleEndian.AppendUint64(nil, script.Seq)
	return dialect.Delivery{Channel: append(msg, message(strings.TrimPrefix(script.Text, "\ufeff"))...)}, nil
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

// Noise: the shell prints nothing of its own around a program.
func (s *shell) Noise(_ dialect.Kind, text []byte) []byte { return text }

// Interrupted changes nothing: the shell tells the status itself.
func (s *shell) Interrupted(m dialect.Mark) dialect.Mark { return m }
