// Package tool is the contract that every tool of the module keeps: a name, a
// description and JSON schemas for a model, one call, one bounded result. The
// packages toolbash, toolpwsh and toolpty implement it; hosts (the MCP server,
// an embedding program) use it.
package tool

import (
	"context"
	"encoding/json"

	"github.com/shellstead/shellstead/terminals"
)

// Tool is one tool that a model can call. It is safe for concurrent use.
type Tool interface {
	Spec() Spec

	// Call runs the tool for owner. It always returns a result: bad arguments
	// and failures are results with IsError set, whose text tells the model
	// what to do next. When ctx ends the call ends with its cause.
	Call(ctx context.Context, owner *terminals.Owner, call Call) Result
}

// Spec is what a host publishes of a tool. It does not change while the tool
// lives.
type Spec struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	ReadOnly     bool            `json:"readOnly"`    // never changes anything
	Destructive  bool            `json:"destructive"` // may destroy data
	OpenWorld    bool            `json:"openWorld"`   // reaches beyond this machine
}

// Call is one call.
type Call struct {
	Arguments json.RawMessage

	// Progress, when not nil, is called while the call runs with text for a
	// person, from one goroutine at a time, never after Call has returned.
	Progress func(text string)

	// Placed, when not nil, is called once the call has its place among the
	// owner's calls, by a tool that serves them in order: a call that begins
	// later comes after it. It must not block.
	Placed func()
}

// Place says that the call has its place. A tool that serves calls at the same
// time says so at once.
func (c Call) Place() {
	if c.Placed != nil {
		c.Placed()
	}
}

// Intent tells a user interface how to show a call.
type Intent string

// The display intents.
const (
	IntentTerminal Intent = "terminal"
	IntentExecute  Intent = "execute"
	IntentRead     Intent = "read"
	IntentDelete   Intent = "delete"
)

// Result is one result.
type Result struct {
	Text       string
	Structured any // marshals to an object that OutputSchema describes; nil for none
	IsError    bool
	Intent     Intent

	// Content, when not nil, is a JSON list of MCP content blocks that a hook
	// returned on purpose. A host passes it on unchanged in place of Text.
	Content json.RawMessage
}
