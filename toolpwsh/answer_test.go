//go:build linux

package toolpwsh_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// What pwsh itself asks, and what a program asks, is answered by a send. The
// command's exit code comes with the answer, and not a second time.
//
// Case: S28
func TestAnswer(t *testing.T) {
	eachShell(t, func(t *testing.T, path string) {
		h := warmHost(t, path)
		reply := func(id, text string) terminals.SendResult {
			t.Helper()
			x, err := h.service.StartSend(context.Background(), h.owner, id, terminals.SendRequest{Text: text, Submit: true})
			require.NoError(t, err)
			<-x.Done()
			res, err := x.Result()
			require.NoError(t, err)
			assert.Equal(t, terminals.StdinRead, res.WaitReason, "%+v", res)
			return res
		}

		a := h.run("$x = Read-Host 'name'; \"hello $x\"")
		require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
		res := reply(a.TerminalID, "bob")
		assert.Equal(t, "bob\nhello bob\n", res.Viewport)
		require.NotNil(t, res.Command)
		zero := 0
		assert.Equal(t, &zero, res.Command.ExitCode)
		assert.Equal(t, "bob\n", h.run("$x").Text)

		a = h.run(`/bin/bash -c 'read -p "name? " x; read -s -p "Password: " y; echo "$x ${#y}"; exit 3'`)
		require.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
		res = reply(a.TerminalID, "bob")
		require.NotNil(t, res.NeedsInput)
		assert.Equal(t, terminals.SecretInput, res.NeedsInput.Kind)
		assert.Equal(t, "bob\nPassword: ", res.Viewport)
		res = reply(a.TerminalID, "hunter2")
		assert.Equal(t, "bob 7\n", res.Viewport)
		require.NotNil(t, res.Command)
		three := 3
		assert.Equal(t, &three, res.Command.ExitCode)
		assert.Equal(t, "1\n", h.run("1").Text)
	})
}
