package tool

import (
	"context"

	"github.com/shellstead/shellstead/terminals"
)

// Bounded returns a tool that runs call and bounds the text of whatever comes
// back to max bytes: of a text that is longer the head stays. A call whose text
// should keep another part bounds it itself, with [BoundText].
func Bounded(spec Spec, max int, call func(context.Context, *terminals.Owner, Call) Result) Tool {
	return &bounded{spec, max, call}
}

type bounded struct {
	spec Spec
	max  int
	call func(context.Context, *terminals.Owner, Call) Result
}

func (b *bounded) Spec() Spec { return b.spec }

func (b *bounded) Call(ctx context.Context, owner *terminals.Owner, call Call) Result {
	res := b.call(ctx, owner, call)
	res.Text, _ = BoundText(res.Text, b.max, KeepHead, "")
	return res
}

// ErrorResult is the result of a call that failed, for a tool whose failures
// have no structure of their own.
func ErrorResult(err error, intent Intent) Result {
	message := err.Error()
	if err == context.Canceled { // by somebody who gave no cause
		message = "the call was cancelled"
	}
	return Result{Text: "Error: " + message, IsError: true, Intent: intent}
}
