package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// atTerminal is the program started by a person at a terminal.
type atTerminal struct {
	t    *testing.T
	in   *os.File
	cmd  *exec.Cmd
	read chan []byte
	seen []byte
}

func startAtTerminal(t *testing.T, args ...string) *atTerminal {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	terminal, err := pty.Start(cmd)
	require.NoError(t, err)
	p := &atTerminal{t: t, in: terminal, cmd: cmd, read: make(chan []byte, 100)}
	go func() {
		defer close(p.read)
		for {
			buf := make([]byte, 4096)
			n, err := terminal.Read(buf)
			if err != nil {
				return
			}
			p.read <- buf[:n]
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = terminal.Close()
		_ = cmd.Wait()
	})
	return p
}

// until reads to a text and returns all that came since the last one.
func (p *atTerminal) until(text string) string {
	p.t.Helper()
	patience := time.After(patience)
	for {
		if i := bytes.Index(p.seen, []byte(text)); i >= 0 {
			i += len(text)
			seen := string(p.seen[:i])
			p.seen = p.seen[i:]
			return seen
		}
		select {
		case more, ok := <-p.read:
			require.True(p.t, ok, "the program ended; it had printed %q", p.seen)
			p.seen = append(p.seen, more...)
		case <-patience:
			require.Fail(p.t, "it is not printed", "%q, only %q", text, p.seen)
		}
	}
}

// untilUnseen returns when the terminal shows no more what is typed.
func (p *atTerminal) untilUnseen() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		modes, err := unix.IoctlGetTermios(int(p.in.Fd()), unix.TCGETS)
		return err == nil && modes.Lflag&unix.ECHO == 0
	}, patience, time.Millisecond)
}

func (p *atTerminal) write(text string) {
	p.t.Helper()
	_, err := p.in.Write([]byte(text))
	require.NoError(p.t, err)
}

// A person answers a program by typing: a line is seen once, a secret never, a
// key counts without Enter, and Ctrl-D is the end of input.
func TestPersonAnswers(t *testing.T) {
	t.Parallel()
	p := startAtTerminal(t, "run",
		`read -p 'name: ' name; echo "hello ${name^^}"
read -s -p 'word: ' word; echo " has ${#word} letters"
read -n 1 -p 'sure? ' key; echo " key ${key^^}"
cat | tr a-z A-Z; exit 3`)
	p.until("name: ")
	p.write("bob\r")
	assert.Equal(t, "bob\r\nhello BOB\r\n", p.until("hello BOB\r\n"))
	p.until("word: ")
	p.untilUnseen()
	p.write("opensesame\r")
	shown := p.until("has 10 letters")
	assert.NotContains(t, shown, "opensesame")
	p.until("sure? ")
	p.write("y")
	p.until(" key Y")
	p.write("line\r\x04")
	p.until("LINE\r\n")
	p.until("[shell exited: code 3]")
	for range p.read { // to the end of what it prints
	}
	var exit *exec.ExitError
	require.ErrorAs(t, p.cmd.Wait(), &exit)
	assert.Equal(t, 3, exit.ExitCode())
}

// Ctrl-C at a question ends the run, and the terminal is as it was.
func TestPersonInterrupts(t *testing.T) {
	t.Parallel()
	p := startAtTerminal(t, "run", `read -s -p 'word: ' word`)
	p.until("word: ")
	p.untilUnseen()
	p.write("\x03")
	for range p.read {
	}
	var exit *exec.ExitError
	require.ErrorAs(t, p.cmd.Wait(), &exit)
	assert.Equal(t, 130, exit.ExitCode())
}

func TestEchoFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line   string
		whole  bool
		chunks []string
		want   string
	}{
		{"bob", true, []string{"bob\nhello bob\n"}, "hello bob\n"},
		{"bob", true, []string{"b", "ob", "\n", "hello\n"}, "hello\n"},
		{"bob", false, []string{"bobhello\n"}, "hello\n"},
		{"bob", true, []string{"bo", "y\nbob\n"}, "boy\nbob\n"},
		{"bob", true, []string{"hello\n", "bob\n"}, "hello\nbob\n"},
		{"", true, []string{"\n", "\nx"}, "\nx"},
		{"bob", true, []string{"bo"}, "bo"},
	} {
		var f echoFilter
		f.expect([]byte(c.line), c.whole)
		var got strings.Builder
		for _, chunk := range c.chunks {
			got.Write(f.filter([]byte(chunk)))
		}
		got.Write(f.rest())
		assert.Equal(t, c.want, got.String(), "%q %q", c.line, c.chunks)
	}
}
