package tool_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

func TestBounded(t *testing.T) {
	long := strings.Repeat("0123456789", 20)
	want := tool.Result{Text: long, Structured: long, IsError: true, Intent: tool.IntentRead}
	bounded := tool.Bounded(tool.Spec{Name: "long"}, 64, func(_ context.Context, _ *terminals.Owner, call tool.Call) tool.Result {
		want.Text = string(call.Arguments)
		return want
	})
	assert.Equal(t, tool.Spec{Name: "long"}, bounded.Spec())
	got := bounded.Call(t.Context(), nil, tool.Call{Arguments: []byte(long)})
	want.Text = long[:45] + "\n[output truncated]"
	assert.Equal(t, want, got, "the text alone is cut")
	assert.Equal(t, "short", bounded.Call(t.Context(), nil, tool.Call{Arguments: []byte("short")}).Text)
}

func TestErrorResult(t *testing.T) {
	got := tool.ErrorResult(tool.Missing("command"), tool.IntentExecute)
	assert.Equal(t, tool.Result{Text: `Error: "command" is required`, IsError: true, Intent: tool.IntentExecute}, got)

	stop := errors.New("the user pressed stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	assert.Equal(t, "Error: the user pressed stop", tool.ErrorResult(context.Cause(ctx), tool.IntentRead).Text)
	ctx, stopped := context.WithCancel(t.Context())
	stopped()
	assert.Equal(t, "Error: the call was cancelled", tool.ErrorResult(context.Cause(ctx), tool.IntentRead).Text)
}
