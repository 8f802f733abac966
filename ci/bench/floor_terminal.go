package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/creack/pty"
)

// pasteModes takes out what line editors of some versions say around a prompt.
var pasteModes = strings.NewReplacer("\x1b[?2004h", "", "\x1b[?2004l", "")

// replFloor is the least that a Go program has to do to ask a program on a
// terminal: write a line, read until the answer. It knows the answer's last
// bytes, which a framework does not.
type replFloor struct {
	cmd      *exec.Cmd
	terminal *os.File
	buf      []byte
	seen     []byte
}

func startReplFloor(r repl) (*replFloor, error) {
	cmd := exec.Command(r.program, r.args...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "PAGER=cat", "PS1=$ ")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 160})
	if err != nil {
		return nil, err
	}
	f := &replFloor{cmd: cmd, terminal: terminal, buf: make([]byte, floorBuffer)}
	if r.prompt != "" {
		if err := f.until(r.prompt); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// ask returns the time from the write of a line to the end of its answer.
func (f *replFloor) ask(line, answer string) (time.Duration, error) {
	begin := time.Now()
	if _, err := f.terminal.WriteString(line + "\r"); err != nil {
		return 0, err
	}
	err := f.until(answer)
	return time.Since(begin), err
}

// until reads up to a text that ends what has come.
func (f *replFloor) until(text string) error {
	f.seen = f.seen[:0]
	for !bytes.Contains(f.seen, []byte(text)) {
		n, err := f.terminal.Read(f.buf)
		if err != nil {
			return fmt.Errorf("floor: %s ended before it printed %q: %w", f.cmd.Path, text, err)
		}
		f.seen = append(f.seen, pasteModes.Replace(string(f.buf[:n]))...)
	}
	return nil
}

func (f *replFloor) close() {
	_ = f.cmd.Process.Kill()
	_ = f.terminal.Close()
	_ = f.cmd.Wait()
}
