// Package toolbash is the command tool for bash: one string in, what the
// command printed and how it ended out, in a shell that lives on.
package toolbash

import (
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/tool/command"
)

// Name is the tool's name.
const Name = "bash"

// DefaultDescription is what a model reads about the tool.
const DefaultDescription = "Run a command in a bash shell that lives on between calls: " +
	"working directory, variables, functions, background jobs and activated environments stay as the last command left them. " +
	command.Rules +
	"The variables $DSH_* describe this session."

// Options adapt the tool.
type Options struct {
	// Description replaces DefaultDescription when it is not empty.
	Description string
}

// New returns the tool over runner, whose backend must start bash.
func New(runner *persistent.Runner, opts Options) *command.Tool {
	if opts.Description == "" {
		opts.Description = DefaultDescription
	}
	return command.New(runner, command.Options{Name: Name, Title: "Bash", Description: opts.Description})
}
