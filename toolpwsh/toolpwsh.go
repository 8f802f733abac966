// Package toolpwsh is the command tool for PowerShell: one string in, what the
// command printed and how it ended out, in a shell that lives on.
package toolpwsh

import (
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/tool/command"
)

// Name is the tool's name.
const Name = "pwsh"

// DefaultDescription is what a model reads about the tool.
const DefaultDescription = "Run a command in a PowerShell 7 shell (pwsh) that lives on between calls: " +
	"location, variables, functions, modules, background jobs and activated environments stay as the last command left them. " +
	command.Rules +
	"The exit code is that of the last native program, or 1 after an error. " +
	"The variables $env:DSH_* describe this session."

// Options adapt the tool.
type Options struct {
	// Description replaces DefaultDescription when it is not empty.
	Description string
}

// New returns the tool over runner, whose backend must start PowerShell.
func New(runner *persistent.Runner, opts Options) *command.Tool {
	if opts.Description == "" {
		opts.Description = DefaultDescription
	}
	return command.New(runner, command.Options{Name: Name, Title: "PowerShell", Description: opts.Description})
}
