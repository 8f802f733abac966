package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/creack/pty"
)

// floor is the least that a Go program has to do to run commands in a live
// shell. It has no readiness proof, no deadline, no cancellation, no bound on
// memory and no clean-up of children.
type floor interface {
	// run runs one program text and returns the number of bytes that came back,
	// the marker included.
	run(text string) (int, error)
	close()
}

// bashFloor has a pseudo-terminal, a marker in the prompt, and one private file
// per command that the shell sources.
type bashFloor struct {
	cmd      *exec.Cmd
	terminal *os.File
	dir      string
	seq      int
	buf      []byte
	tail     []byte // the newest bytes, long enough to hold a marker
}

// The floor's prompt is an OSC sequence with the exit code.
const (
	floorMarkStart = "\x1b]133;D;"
	floorMarkEnd   = '\a'
	floorSetup     = `stty -echo -opost; PS2= PS1='\033]133;D;$?\007'` + "\n"
	floorBuffer    = 64 << 10
	floorTail      = 32
)

func startBashFloor(dir string) (floor, error) {
	folder, err := os.MkdirTemp(dir, "floor-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("bash", "--noprofile", "--norc", "--noediting", "-i")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TERM=dumb", "LC_ALL=" + os.Getenv("LC_ALL"), "LANG=" + os.Getenv("LANG")}
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 160})
	if err != nil {
		return nil, err
	}
	f := &bashFloor{cmd: cmd, terminal: terminal, dir: folder, buf: make([]byte, floorBuffer)}
	if _, err := terminal.WriteString(floorSetup); err != nil {
		return nil, err
	}
	if _, err := f.untilPrompt(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *bashFloor) run(text string) (int, error) {
	f.seq++
	file := filepath.Join(f.dir, fmt.Sprintf("c%d", f.seq))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return 0, err
	}
	defer os.Remove(file)
	if _, err := f.terminal.WriteString(`\. ` + file + "\n"); err != nil {
		return 0, err
	}
	return f.untilPrompt()
}

func (f *bashFloor) untilPrompt() (int, error) {
	total := 0
	for {
		n, err := f.terminal.Read(f.buf)
		if err != nil {
			return total, fmt.Errorf("floor: the shell ended: %w", err)
		}
		total += n
		f.tail = append(f.tail, f.buf[max(0, n-floorTail):n]...)
		if extra := len(f.tail) - floorTail; extra > 0 {
			f.tail = append(f.tail[:0], f.tail[extra:]...)
		}
		if f.tail[len(f.tail)-1] == floorMarkEnd && bytes.Contains(f.tail, []byte(floorMarkStart)) {
			f.tail = f.tail[:0]
			return total, nil
		}
	}
}

func (f *bashFloor) close() {
	_ = f.cmd.Process.Kill()
	_ = f.terminal.Close()
	_ = f.cmd.Wait()
	_ = os.RemoveAll(f.dir)
}

// floorStart is a whole process at the floor: start the shell that args name,
// run one command, say so, end.
func floorStart(args []string) error {
	f, err := shells[args[0]].startFloor("")
	if err != nil {
		return err
	}
	defer f.close()
	if _, err := f.run("echo ready"); err != nil {
		return err
	}
	_, err = fmt.Println("ready")
	return err
}

// timed returns how long one run of text took.
func timed(f floor, text string) (time.Duration, error) {
	begin := time.Now()
	_, err := f.run(text)
	return time.Since(begin), err
}
