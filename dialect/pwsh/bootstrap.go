package pwsh

import (
	_ "embed"
	"path"
	"strconv"
	"strings"
)

// bootstrap runs once in the new shell. A version that is too old says so and
// ends: to ask for the version first would cost a start of its own.
//
// The reader and the prompt are constant functions behind constant aliases: the
// host finds them whatever a user defines, imports or removes. They call no
// command, only .NET, so that PATH, aliases and preferences do not reach them.
//
// The exit code of a command: 1 when its text does not parse; else 0 when $?
// is true; else the code of the native program that ran last, when one ran in
// this command (its $LASTEXITCODE is another object than at the last prompt,
// even for equal numbers); else 1. A false $? may be left from the command
// before, when this one has no statement that sets it: $sure says that it has. A
// command that opens a nested prompt has not ended yet.
//
// A command that calls the reader gets nothing: the next command would go to it
// instead of the shell.
//
// Text that is incomplete would make the host ask for more. It goes through
// Invoke-Expression, which makes it an error.
//
//go:embed bootstrap.ps1
var bootstrap string

// How the reader gets the next program: $t is the program and $n its number, or
// the negative number of a question.
var (
	// From the private pipe.
	//
	//go:embed channel.ps1
	readChannel string

	// From a file, when its number was typed: a line that ends in # and the
	// number, whatever lies unread before that. A line this short fits into
	// every terminal's buffer.
	//
	//go:embed typed.ps1
	readTyped string

	// From a person. The host's own line editor asks for the cursor at each key
	// and paints by addresses, PSReadLine even more so; this one needs a
	// terminal that can go back by one cell. Text that is incomplete asks for
	// more.
	//
	//go:embed keys.ps1
	readKeys string
)

const (
	// closeInherited: the number of the channel would go to every child.
	closeInherited = "[Microsoft.Win32.SafeHandles.SafeFileHandle]::new([IntPtr]@FD@, $true).Dispose()"

	// openTerminal opens a way to the terminal that is the reader's own: another
	// descriptor and a buffer that stays where it is tell its read from the
	// questions of programs. It takes no more than it is asked for, so that the
	// rest is there for those.
	openTerminal = `
$tty = [IO.FileStream]::new('/dev/tty', 3, 1, 3, 0)
$key = [byte[]]::new(1)
$cr = $false
$null = [Runtime.InteropServices.GCHandle]::Alloc($key, 'Pinned')`

	// setVariable sets the variable of $pair, NAME=VALUE, or drops it, NAME alone.
	// What is no name changes nothing.
	setVariable = `$k, $v = $pair.Split('=', 2); if ($null -eq $v) { $v = [NullString]::Value }; try { [Environment]::SetEnvironmentVariable($k, $v) } catch { }`

	// show puts the visible prompt around the prompt's mark. While there is input
	// already, typed ahead, the prompt is not one to wait at and has no mark.
	show = `$ahead = [Console]::KeyAvailable
if ($ahead) { $a = '' }
$m += try { [regex]::Replace("PS $($script:place.CurrentLocation)" + '>' * $level, '[\x00-\x1f\x7f-\x9f]', '?') } catch { 'PS' }
$a += '` + Prompt + `'`
)

// text is the bootstrap of this shell. fd is its channel's number, if it has one.
func (s *shell) text(fd uintptr) string {
	open, next, shown, rendering := "", readTyped, "", "$PSStyle.OutputRendering = 'PlainText'"
	if !s.typed {
		open, next = closeInherited, readChannel
	}
	if !s.setup.CommandMode {
		next, shown, rendering = readKeys, show, ""
		if !s.typed {
			open += "\n$in.Dispose()"
		}
	}
	if s.typed || !s.setup.CommandMode {
		open += openTerminal
	}
	text := strings.NewReplacer(
		"@OPEN@", open, "@NEXT@", next, "@SHOW@", shown, "@RENDERING@", rendering,
	).Replace(bootstrap)
	return strings.NewReplacer(
		"@FD@", strconv.FormatUint(uint64(fd), 10),
		"@SECRET@", s.setup.Secret,
		"@TERM@", startTerm,
		"@SET@", setVariable,
		"@FILE@", quote(path.Join(s.setup.Dir, commandFile)),
		"@ENVIRONMENT@", quote(path.Join(s.setup.Dir, environmentFile)),
	).Replace(text)
}

// quote is what stands between single quotes for text.
func quote(text string) string { return strings.ReplaceAll(text, "'", "''") }
