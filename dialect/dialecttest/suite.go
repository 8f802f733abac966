package dialecttest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// Language is what the suite needs to know of a shell's language: texts that do
// the same in every shell.
type Language struct {
	Dialect dialect.Dialect
	Path    string // the shell's file; empty: looked up
	Options []Option

	// Set puts 5 into a variable and moves to the root directory; Get prints the
	// variable, a blank and the working directory, with a newline.
	Set, Get string
	Root     string // empty: /

	// Print prints its one argument without a newline; PrintLine with one.
	Print, PrintLine func(text string) string

	// Cat prints a file's bytes as they are. Native runs a program with
	// /bin/sh -c.
	Cat, Native func(text string) string

	// Fail is a failure of the shell's own with its exit code.
	Fail     string
	FailCode int

	// Incomplete texts need more input: each is an error at once.
	Incomplete     []string
	IncompleteCode int

	// Loop prints 42, of which its text holds no sign, then runs for ever
	// inside the shell; Sleep does the same in another program.
	Loop, Sleep   string
	InterruptCode int

	// Read waits for a line in the shell itself.
	Read string

	// Exit ends the shell with a code.
	Exit func(code int) string

	// Background starts what prints "late" with a newline once the file "go"
	// is there, then makes the file "gone", and does not wait for it.
	Background string

	// Literal is a text that writes the given lines to a file, byte for byte,
	// and prints nothing.
	Literal func(lines, file string) string

	// Refused is a text that the language cannot hold, with a part of the
	// error that names why.
	Refused, RefusedWhy string

	// Forge prints this shell's own done and prompt markers with its real
	// secret, as code in the shell can.
	Forge string

	// Sabotage are texts that harm the shell's workings; after each, Native and
	// PrintLine must do as ever.
	Sabotage []string
}

// Run runs the suite. One shell goes through it until its end, since the start of
// one can take longer than all that it is asked.
func Run(t *testing.T, l Language) {
	if l.Root == "" {
		l.Root = "/"
	}
	shared := NewHost(t, l.Dialect, l.Path, l.Options...)
	part := func(name string, f func(t *testing.T, h *Host)) {
		t.Run(name, func(t *testing.T) { f(t, shared.With(t)) })
	}

	part("exit_codes", func(t *testing.T, h *Host) {
		a := h.Run(l.Fail)
		assert.Equal(t, &l.FailCode, a.ExitCode)
		h.Expect(l.PrintLine("ok"), "ok\n", 0)
		for _, code := range []int{0, 1, 2, 3, 126, 127, 255, 3} {
			h.Expect(l.Native("exit "+strconv.Itoa(code)), "", code)
		}
		killed := 143
		assert.Equal(t, &killed, h.Run(l.Native("kill -TERM $$")).ExitCode)
		h.Expect("", "", 0)
	})

	part("exact_bytes", func(t *testing.T, h *Host) {
		h.Expect(l.Print("abc"), "abc", 0)
		h.Expect(l.PrintLine("é漢🙂"), "é漢🙂\n", 0)
		data := make([]byte, 300000)
		rand.Read(data)
		require.NoError(t, os.WriteFile(filepath.Join(h.Dir, "f"), data, 0o600))
		a := h.Run(l.Cat("f"))
		assert.Equal(t, sha256.Sum256([]byte(lines(string(data)))), sha256.Sum256([]byte(a.Exact)))
		h.Expect(l.PrintLine("after"), "after\n", 0)
	})

	part("text_arrives_as_it_is", func(t *testing.T, h *Host) {
		line := "a\tb !! \\ ` \" $(x) é漢🙂 \x1b[31m\x01\x03\x04\x15\x7f end\n"
		for _, n := range []int{1, 100, 20000} {
			want := strings.Repeat(line, n)
			a := h.Expect(l.Literal(want, "f"), "", 0)
			got, err := os.ReadFile(filepath.Join(h.Dir, "f"))
			require.NoError(t, err, "%+v", a.Error)
			assert.Equal(t, sha256.Sum256([]byte(want)), sha256.Sum256(got), "%d lines", n)
		}
		a := h.Run(l.Refused)
		require.NotNil(t, a.Error)
		assert.Contains(t, a.Error.Message, l.RefusedWhy)
		h.Expect("\ufeff"+l.PrintLine("bom"), "bom\n", 0)
	})

	part("incomplete_text_is_an_error", func(t *testing.T, h *Host) {
		for _, text := range l.Incomplete {
			a := h.Run(text)
			assert.Equal(t, persistent.Completed, a.Reason, text)
			assert.Equal(t, &l.IncompleteCode, a.ExitCode, text)
			assert.NotEmpty(t, a.Exact, text)
		}
		h.Expect(l.PrintLine("alive"), "alive\n", 0)
	})

	part("flood", func(t *testing.T, h *Host) {
		a := h.Run(l.Native("head -c 5000000 /dev/zero | tr '\\0' x"))
		assert.Equal(t, 5000000, len(a.Exact))
		assert.True(t, a.Clipped)
		h.Expect(l.PrintLine("after"), "after\n", 0)
	})

	part("waiting", func(t *testing.T, h *Host) {
		for _, text := range []string{l.Read, l.Native("read x")} {
			a := h.Run(text)
			assert.Equal(t, persistent.WaitingInput, a.Reason, "%s: %+v", text, a.Result)
			a = h.Run(l.PrintLine("next"))
			assert.Equal(t, "next\n", a.Exact)
			assert.True(t, strings.HasPrefix(a.Text, "[interrupted "), a.Text)
		}
		a := h.Run(l.Native(`stty -echo; printf 'Password: '; read x`))
		require.Equal(t, persistent.WaitingInput, a.Reason)
		assert.Equal(t, terminals.SecretInput, a.NeedsInput.Kind, "%+v", a.NeedsInput)
		assert.Equal(t, "Password: ", a.NeedsInput.Prompt)
		h.Run(l.PrintLine("next"))
	})

	part("unsolicited", func(t *testing.T, h *Host) {
		h.Expect(l.Background, "", 0)
		require.NoError(t, os.WriteFile(filepath.Join(h.Dir, "go"), nil, 0o600))
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(h.Dir, "gone"))
			return err == nil
		}, Patience, Patience/10000)
		a := h.Run(l.PrintLine("now"))
		assert.Equal(t, "now\n", a.Exact)
		// What is still on its way when a command starts comes with the next.
		b := h.Run(l.PrintLine("then"))
		assert.Equal(t, "then\n", b.Exact)
		assert.Equal(t, "late\n", lines(a.Unsolicited+b.Unsolicited))
		require.NoError(t, errors.Join(os.Remove(filepath.Join(h.Dir, "go")), os.Remove(filepath.Join(h.Dir, "gone"))))
	})

	part("forged_markers", func(t *testing.T, h *Host) {
		if !Driver.Capabilities().ExactRead {
			t.Skip("where a blocked read cannot be proved, a marker with the right secret is believed")
		}
		a := h.Run(l.Forge + "\n" + l.Native("sleep 0.3; echo $((40+2)); exit 3"))
		assert.Contains(t, a.Exact, "42\n")
		three := 3
		assert.Equal(t, &three, a.ExitCode)
		a = h.Run(l.Forge + "\n" + l.Read)
		assert.Equal(t, persistent.WaitingInput, a.Reason, "%+v", a.Result)
	})

	got := "5 " + l.Root + "\n"
	part("state_persists", func(t *testing.T, h *Host) {
		h.Expect(l.Set, "", 0)
		a := h.Expect(l.Get, got, 0)
		assert.Equal(t, l.Root, a.Cwd)
	})

	part("interrupt", func(t *testing.T, h *Host) {
		for _, text := range []string{l.Loop, l.Sleep} {
			ctx, cancel := context.WithCancelCause(context.Background())
			a := h.During(ctx, text, "42", func() { cancel(errors.New("stop")) })
			assert.Equal(t, persistent.Cancelled, a.Reason)
			assert.Equal(t, "42\n", a.Exact)
		}
		h.Expect(l.Get, got, 0) // the shell is the same
	})

	// Each harm comes on top of those before it.
	part("sabotage", func(t *testing.T, h *Host) {
		for _, text := range l.Sabotage {
			h.Run(text)
			a := h.Run(l.Native("exit 7"))
			seven := 7
			assert.Equal(t, persistent.Completed, a.Reason, "%q: %+v", text, a.Result)
			assert.Equal(t, &seven, a.ExitCode, "%q", text)
			a = h.Run(l.PrintLine("still"))
			assert.Equal(t, "still\n", a.Exact, "%q", text)
			assert.Less(t, a.DurationMs, int64(5000), "%q cost seconds", text)
		}
	})

	part("shell_ends", func(t *testing.T, h *Host) {
		a := h.Run(l.Exit(9))
		nine := 9
		assert.Equal(t, persistent.ShellExited, a.Reason)
		assert.Equal(t, &nine, a.ExitCode)
		h.Expect(l.PrintLine("fresh"), "fresh\n", 0)
	})

	part("nothing_survives", func(t *testing.T, h *Host) {
		h.Run(l.Native("setsid sleep 1000.0625 >/dev/null 2>&1 & sleep 1000.0625 >/dev/null 2>&1 & true"))
		h.Run(l.Background)
		require.NoError(t, h.Service.DisposeOwner(context.Background(), h.Owner))
		assert.Empty(t, h.Service.List(h.Owner))
	})
}
