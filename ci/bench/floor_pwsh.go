package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"

	"github.com/creack/pty"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/pwsh"
)

// pwshFloor starts PowerShell with the module's own bootstrap, which makes the
// host read commands from a pipe, and reads the terminal until the shell is back
// at its prompt. It answers the one question that the shell puts to a terminal,
// because without an answer each command would take seconds.
type pwshFloor struct {
	cmd      *exec.Cmd
	terminal *os.File
	commands *os.File
	shell    dialect.Shell
	seq      uint64
	buf      []byte
	tail     []byte // the newest bytes, long enough to hold the last markers
}

const (
	cursorQuery  = "\x1b[6n"
	cursorAnswer = "\x1b[1;1R"
	// The markers after a command hold the working directory.
	pwshTail = 8 << 10
	// The terminal's modes are those that the dialect asks for.
	pwshSetup = `stty -opost -ixon noflsh; exec "$@"`
	// The pipe is the first file after the standard ones.
	pwshPipe = 3
)

func startPwshFloor(string) (floor, error) {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	shell, err := pwsh.Dialect{}.New(dialect.Setup{CommandMode: true, Secret: hex.EncodeToString(secret)})
	if err != nil {
		return nil, err
	}
	launch := shell.Launch()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	ref := backend.ChannelRef{Path: fmt.Sprintf("/dev/fd/%d", pwshPipe), Number: pwshPipe}
	cmd := exec.Command("sh", append([]string{"-c", pwshSetup, "sh", "pwsh"}, launch.Args(ref)...)...)
	cmd.Env = append(os.Environ(), launch.Env...)
	cmd.ExtraFiles = []*os.File{read}
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: uint16(launch.MinCols)})
	if err != nil {
		write.Close()
		return nil, err
	}
	f := &pwshFloor{cmd: cmd, terminal: terminal, commands: write, shell: shell, buf: make([]byte, floorBuffer)}
	if _, err := write.Write(launch.Bootstrap(ref)); err != nil {
		f.close()
		return nil, err
	}
	if _, err := f.untilPrompt(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *pwshFloor) run(text string) (int, error) {
	f.seq++
	delivery, err := f.shell.Command(dialect.Script{Seq: f.seq, Text: text})
	if err != nil {
		return 0, err
	}
	if _, err := f.commands.Write(delivery.Channel); err != nil {
		return 0, err
	}
	return f.untilPrompt()
}

func (f *pwshFloor) untilPrompt() (int, error) {
	total := 0
	f.tail = f.tail[:0]
	for {
		n, err := f.terminal.Read(f.buf)
		if err != nil {
			return total, fmt.Errorf("floor: the shell ended: %w", err)
		}
		total += n
		seen := bytes.Count(f.tail, []byte(cursorQuery)) // answered already
		f.tail = append(f.tail, f.buf[max(0, n-pwshTail):n]...)
		for range bytes.Count(f.tail, []byte(cursorQuery)) - seen {
			if _, err := f.terminal.WriteString(cursorAnswer); err != nil {
				return total, err
			}
		}
		if f.prompted() {
			return total, nil
		}
		if extra := len(f.tail) - pwshTail; extra > 0 {
			f.tail = append(f.tail[:0], f.tail[extra:]...)
		}
	}
}

// prompted tells whether the output ends with the prompt marker of the newest
// command.
func (f *pwshFloor) prompted() bool {
	marker := f.shell.Marker()
	at := bytes.LastIndex(f.tail, marker.Prefix)
	if at < 0 {
		return false
	}
	payload, ended := bytes.CutSuffix(f.tail[at+len(marker.Prefix):], marker.End)
	if !ended {
		return false
	}
	mark, ok := f.shell.Mark(payload)
	return ok && mark.Kind == dialect.Prompt && mark.Seq == f.seq
}

func (f *pwshFloor) close() {
	_ = f.cmd.Process.Kill()
	_ = f.commands.Close()
	_ = f.terminal.Close()
	_ = f.cmd.Wait()
}
