//go:build linux

package toolbash_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect/dialecttest"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// ask runs a command whose program waits for input.
func (h *host) ask(text string) answer {
	h.t.Helper()
	a := h.run(text)
	require.Equal(h.t, persistent.WaitingInput, a.Reason, "%q: %+v", text, a.Result)
	require.NotEmpty(h.t, a.TerminalID)
	return a
}

// start begins to answer the program in the shell id.
func (h *host) start(ctx context.Context, id, text string) terminals.Send {
	h.t.Helper()
	x, err := h.service.StartSend(ctx, h.owner, id, terminals.SendRequest{Text: text, Submit: true})
	require.NoError(h.t, err)
	return x
}

// reply answers the program in the shell id.
func (h *host) reply(id, text string) terminals.SendResult {
	h.t.Helper()
	x := h.start(context.Background(), id, text)
	<-x.Done()
	res, err := x.Result()
	require.NoError(h.t, err)
	return res
}

// refused requires that nothing can be sent to the shell id.
func (h *host) refused(id string, code terminals.Code) {
	h.t.Helper()
	_, err := h.service.StartSend(context.Background(), h.owner, id, terminals.SendRequest{Text: "x"})
	require.ErrorIs(h.t, err, code)
}

// printed waits until the shell id has printed text.
func (h *host) printed(id, text string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		page, err := h.service.Read(h.owner, id, 0, 10)
		return err == nil && strings.Contains(page.Text, text)
	}, dialecttest.Patience, 10*time.Millisecond)
}

// settled waits until no command runs in the shell id.
func (h *host) settled(id string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		_, err := h.service.StartSend(context.Background(), h.owner, id, terminals.SendRequest{Text: "x"})
		return errors.Is(err, terminals.Unsupported)
	}, dialecttest.Patience, 10*time.Millisecond)
}

// touch makes a file in the owner's folder.
func (h *host) touch(name string) {
	h.t.Helper()
	require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, name), nil, 0o600))
}

// mounted is a host whose caller has the terminal tools.
func mounted(_ *engine.Config, p *persistent.Config) { p.TerminalTools = true }

// An answer ends with the command: its exit code comes with the answer and
// nowhere else, and so does its output.
func TestAnswerCompletesTheCommand(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path, mounted)
		a := h.ask(`cd /; read -p 'name? ' x; echo "hello $x"; (exit 3)`)
		assert.Equal(t, "name? ", a.exact)
		assert.Equal(t, "name? \n[waiting for input: "+a.NeedsInput.Program+" (line); answer with terminal_send to "+a.TerminalID+
			", or run another command, which interrupts it]", a.Text)
		res := h.reply(a.TerminalID, "bob")
		assert.Equal(t, "bob\nhello bob\n", res.Viewport)
		assert.Equal(t, terminals.StdinRead, res.WaitReason)
		assert.Nil(t, res.NeedsInput)
		require.NotNil(t, res.Command)
		assert.Equal(t, code(3), res.Command.ExitCode)
		assert.False(t, res.Status.Exited)
		h.refused(a.TerminalID, terminals.Unsupported)

		b := h.run(`echo "$x $? $PWD"`)
		assert.Equal(t, "bob 3 /\n", b.Text, "%+v", b.Result)
		assert.Empty(t, b.Unsolicited)
	})
}

// Several questions of one program, an answer each.
func TestAnswerAfterAnswer(t *testing.T) {
	program(t, "python3")
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.ask(`python3 -c 'import getpass
a = input("first ")
b = input("second ")
c = getpass.getpass("third ")
print(a, b, len(c))
raise SystemExit(4)'`)
		assert.Equal(t, "first ", a.NeedsInput.Prompt)
		res := h.reply(a.TerminalID, "one")
		assert.Equal(t, "one\nsecond ", res.Viewport)
		assert.Equal(t, terminals.StdinRead, res.WaitReason)
		assert.Nil(t, res.Command)
		require.NotNil(t, res.NeedsInput)
		assert.Equal(t, terminals.LineInput, res.NeedsInput.Kind)
		assert.Equal(t, "second ", res.NeedsInput.Prompt)
		assert.Contains(t, res.NeedsInput.Program, "python")

		res = h.reply(a.TerminalID, "two")
		assert.Equal(t, "two\nthird ", res.Viewport)
		require.NotNil(t, res.NeedsInput)
		assert.Equal(t, terminals.SecretInput, res.NeedsInput.Kind)

		res = h.reply(a.TerminalID, "hunter2")
		assert.Equal(t, "\none two 7\n", res.Viewport, "a secret has no echo")
		require.NotNil(t, res.Command)
		assert.Equal(t, code(4), res.Command.ExitCode)
		h.expect("echo next", "next\n", 0)
	})
}

// A command that completes after its answer had ended is reported by the next
// command, with the output that nobody has seen.
func TestAnsweredCommandCompletesLater(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.IdleSilence = 200 * time.Millisecond })
		a := h.ask(`read x; echo "got $x"; until [ -e go ]; do sleep 0.02; done; echo late; (exit 6)`)
		res := h.reply(a.TerminalID, "it")
		assert.Equal(t, "it\ngot it\n", res.Viewport)
		assert.Equal(t, terminals.InferredIdle, res.WaitReason)
		assert.Nil(t, res.Command)
		h.refused(a.TerminalID, terminals.SendActive)

		h.touch("go")
		h.printed(a.TerminalID, "\nlate")
		h.settled(a.TerminalID)
		b := h.run("echo next")
		assert.Equal(t, "[the previous command completed: exit code 6]\n[output since the last command]\nlate\n[output of this command]\nnext\n", b.Text)
		assert.Equal(t, "late\n", b.Unsolicited)
		assert.Equal(t, "next\n", h.run("echo next").Text)
	})
}

// A command that goes on after its answer is interrupted by the next one.
func TestAnsweredCommandIsInterrupted(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path, func(e *engine.Config, _ *persistent.Config) { e.IdleSilence = 200 * time.Millisecond })
		a := h.ask("read x; sleep 1000")
		assert.Equal(t, terminals.InferredIdle, h.reply(a.TerminalID, "it").WaitReason)
		assert.Equal(t, "[interrupted "+a.NeedsInput.Program+", which was still running]\nnext\n", h.run("echo next").Text)

		a = h.ask("read x; cat")
		require.NotNil(t, h.reply(a.TerminalID, "it").NeedsInput)
		assert.Equal(t, "[interrupted cat, which was waiting for input]\nnext\n", h.run("echo next").Text)
	})
}

// The next command does not wait for an answer that is still on its way: it
// interrupts the program, and the answer says so.
func TestNextCommandEndsAnAnswer(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.ask(`read x; echo "<$((40+2))>"; sleep 1000`)
		x := h.start(context.Background(), a.TerminalID, "it")
		h.printed(a.TerminalID, "<42>")
		h.refused(a.TerminalID, terminals.SendActive)
		assert.Equal(t, "[interrupted "+a.NeedsInput.Program+", which was still running]\nnext\n", h.run("echo next").Text)
		<-x.Done()
		res, err := x.Result()
		require.NoError(t, err)
		require.NotNil(t, res.Command)
		assert.True(t, res.Command.Interrupted)
		assert.Equal(t, code(130), res.Command.ExitCode)
		assert.Equal(t, "next\n", h.run("echo next").Text)
	})
}

// A cancelled answer interrupts the program. Who cancelled it gets the cause and
// no exit code, so the next command reports that.
func TestCancelAnAnswer(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.ask(`read x; echo "<$((40+2))>"; sleep 1000`)
		ctx, cancel := context.WithCancelCause(context.Background())
		x := h.start(ctx, a.TerminalID, "it")
		h.printed(a.TerminalID, "<42>")
		cause := errors.New("no longer wanted")
		cancel(cause)
		<-x.Done()
		res, err := x.Result()
		require.ErrorIs(t, err, cause)
		assert.Nil(t, res.Command)
		b := h.run("echo next")
		assert.True(t, strings.HasPrefix(b.Text, "[the previous command completed: exit code 130]\n"), b.Text)
		assert.Equal(t, "next\n", b.exact)
	})
}

// An answer of several lines goes to the programs that ask for them, line by
// line. What nobody asks for is not typed: the shell would run it.
func TestAnswerOfSeveralLines(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.ask(`read x; read y; echo "$y $x"`)
		res := h.reply(a.TerminalID, "one\ntwo")
		assert.Equal(t, "one\ntwo\ntwo one\n", res.Viewport)
		require.NotNil(t, res.Command)

		a = h.ask(`read x; echo "got $x"; (exit 7)`)
		x := h.start(context.Background(), a.TerminalID, "one\ntouch surplus")
		<-x.Done()
		res, err := x.Result()
		assert.ErrorContains(t, err, "the terminal took 4 of 18 bytes; the program does not read the rest")
		assert.Equal(t, "one\ngot one\n", res.Viewport)
		b := h.run("echo next")
		assert.Equal(t, "[the previous command completed: exit code 7]\nnext\n", b.Text)
		assert.NoFileExists(t, filepath.Join(h.dir, "surplus"))
	})
}

// The answered command ends the shell.
func TestAnswerEndsTheShell(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		a := h.ask("read x; echo bye; exit 5")
		res := h.reply(a.TerminalID, "it")
		assert.Equal(t, terminals.SessionExit, res.WaitReason)
		assert.Equal(t, "it\nbye\n", res.Viewport)
		assert.Equal(t, terminals.Status{Exited: true, ExitCode: code(5)}, res.Status)
		assert.Nil(t, res.Command)
		assert.Contains(t, h.run("echo next").Text, "[the shell had exited since the last command (code 5); this command runs in a fresh shell in ")
	})
}

// Nothing is typed into a shell whose program does not wait.
func TestAnswerRefused(t *testing.T) {
	eachBash(t, func(t *testing.T, path string) {
		h := newHost(t, path)
		h.expect("true", "", 0)
		id := h.service.List(h.owner)[0].SessionID
		h.refused(id, terminals.Unsupported)
		h.during("echo $((40+2)); until [ -e go ]; do sleep 0.02; done", "42", func() {
			h.refused(id, terminals.SendActive)
			h.touch("go")
		})
		h.expect("echo next", "next\n", 0)
	})
}
