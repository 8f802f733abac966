package pwsh

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/shellstead/shellstead/backend"
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

func (s *shell) bootstrap(ch backend.ChannelRef) []byte {
	return message(strings.NewReplacer(
		"@FD@", strconv.FormatUint(uint64(ch.Number), 10),
		"@SECRET@", s.setup.Secret,
		"@TERM@", startTerm,
	).Replace(bootstrap))
}
