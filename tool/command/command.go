// Package command is the command tool that every shell shares: one string in,
// what the command printed and how it ended out, in a shell that lives on. The
// package of a shell gives it a name and a description.
package command

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"strings"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

// Rules is the part of a tool's description that is true of every shell. It is
// one stable text, so that a client's cache of the tool list stays valid.
const Rules = "Calls run one after another; stdout and stderr come back together with the exit code when it is not 0. " +
	"Output that is too long is clipped, and the result names the file that holds all of it. " +
	"A command that takes too long is stopped. " +
	"A program that waits for input is reported at once instead of blocking, and the next command interrupts it: prefer flags that ask nothing. "

//go:embed input.schema.json
var inputSchema []byte

// Options are what one shell's tool is called. All are needed.
type Options struct {
	Name        string // for the model, and unique among a host's tools
	Title       string // for people
	Description string // what the model reads
}

// Tool is a command tool. It is safe for concurrent use.
type Tool struct {
	runner *persistent.Runner
	spec   tool.Spec
}

var _ tool.Tool = (*Tool)(nil)

// New returns the tool over runner.
func New(runner *persistent.Runner, opts Options) *Tool {
	return &Tool{runner: runner, spec: tool.Spec{
		Name:         opts.Name,
		Title:        opts.Title,
		Description:  opts.Description,
		InputSchema:  bytes.Clone(inputSchema),
		OutputSchema: persistent.ResultSchema(),
		Destructive:  true,
		OpenWorld:    true,
	}}
}

// Spec implements tool.Tool.
func (t *Tool) Spec() tool.Spec { return t.spec }

// Call implements tool.Tool. The structured result is a [persistent.Result]. A
// command that fails by its exit code is a result like any other; IsError is
// set when there is no such result: the command could not be run, or the call
// was cancelled.
func (t *Tool) Call(ctx context.Context, owner *terminals.Owner, call tool.Call) tool.Result {
	var args struct {
		Command *string `json:"command"`
	}
	err := tool.Decode(call.Arguments, &args)
	switch {
	case err != nil:
		return result(persistent.Refused("", err))
	case args.Command == nil:
		return result(persistent.Refused("", tool.Missing("command")))
	case strings.TrimSpace(*args.Command) == "":
		return result(persistent.Refused(*args.Command, errors.New(`"command" is empty; give the text of a command`)))
	}
	cmd := persistent.Command{Text: *args.Command, Placed: call.Placed}
	if call.Progress != nil {
		progress := tool.NewProgress(call.Progress)
		defer progress.Stop()
		cmd.Stream = progress.Write
	}
	return result(t.runner.Run(ctx, owner, cmd))
}

func result(r persistent.Result) tool.Result {
	return tool.Result{
		Text:       r.Text,
		Structured: r,
		IsError:    r.Err() != nil,
		Intent:     tool.IntentExecute,
	}
}
