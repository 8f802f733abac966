package pwsh

import (
	"strconv"
	"strings"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
)

// console is the shell on a terminal that shows text rewritten, a console of
// Windows. For commands its output goes to a pipe, and its channel is two
// handles: one that every child inherits, which brings the bootstrap and is
// closed by it, and one that no child gets, which brings the programs.
//
// The shell for a person is as it comes, with its own line editor. It has no
// markers: such a terminal may show them before the text that they follow.
type console struct{ *shell }

const (
	// openHandle changes from the first handle to the second. The console's
	// encoding is what native programs write in. There is no screen to clear: the
	// command that does it would fail.
	openHandle = `$in.Dispose()
$in = [IO.BinaryReader]::new([IO.Pipes.AnonymousPipeClientStream]::new('In', '@FD@'))
[Console]::InputEncoding = [Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
Set-Item function:global:Clear-Host {}`

	// flushInput drops what an earlier program was typed and did not read.
	flushInput = `
if ($n -gt 0) { try { $Host.UI.RawUI.FlushInputBuffer() } catch { } }`
)

func (c console) Launch() dialect.Launch {
	args := append([]string{"-NoLogo", "-NoProfile"}, c.setup.Args...)
	if !c.setup.CommandMode {
		return dialect.Launch{
			Args:     func(backend.ChannelRef) []string { return args },
			OwnModes: true,
		}
	}
	return dialect.Launch{
		Args: func(ch backend.ChannelRef) []string {
			start := ". ([scriptblock]::Create(($global:__shs=[IO.BinaryReader]::new([IO.Pipes.AnonymousPipeClientStream]::new('In','" +
				strconv.FormatUint(uint64(ch.Number), 10) + "'))).ReadString()))"
			return append(args[:len(args):len(args)], "-NoExit", "-Command", start)
		},
		Bootstrap:    func(ch backend.ChannelRef) []byte { return message(c.text(ch.Number)) },
		KeepChannel:  true,
		OutputPipe:   true,
		Env:          []string{"DOTNET_EnableDiagnostics=0", "POWERSHELL_DIAGNOSTICS_OPTOUT=1"},
		OwnModes:     true,
		ReadsChannel: true,
		WarmUp:       warmUp,
		MinCols:      columns,
		// Ctrl-C ends a read of a line; a read of a key goes on until there is one.
		InterruptKeys: [][]byte{{0x03}, {'\r'}},
		Asks:          c.asks,
	}
}

// Marker is the shell's in command mode alone.
func (c console) Marker() dialect.Marker {
	if !c.setup.CommandMode {
		return dialect.Marker{}
	}
	return c.shell.Marker()
}

// Trailer knows no echo: the shell's terminal is not its output.
func (c console) Trailer(tail []byte, _ bool) int { return c.shell.Trailer(tail, false) }

func (c console) text(fd uintptr) string {
	return strings.NewReplacer("@FD@", strconv.FormatUint(uint64(fd), 10), "@SECRET@", c.setup.Secret, "@TERM@", startTerm, "@SET@", setVariable).Replace(
		strings.NewReplacer("@OPEN@", openHandle, "@NEXT@", readChannel+flushInput, "@SHOW@", "",
			"@RENDERING@", "$PSStyle.OutputRendering = 'PlainText'").Replace(bootstrap))
}
