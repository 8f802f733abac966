package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// logged is the program, which answers commands and logs them in one way.
type logged struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func (b *bench) startLogged(program, kind string) (*logged, error) {
	session := "new"
	if kind == "none" {
		session = "none"
	}
	cmd := exec.Command(program, "run", "--jsonl", "--log", kind, "--session", session)
	cmd.Env = append(os.Environ(), "DSH_HOME="+filepath.Join(b.dir, "home"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &logged{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// timed returns how long one command took, from its line to its answer's.
func (l *logged) timed() (time.Duration, error) {
	begin := time.Now()
	if _, err := io.WriteString(l.in, `{"command":"true"}`+"\n"); err != nil {
		return 0, err
	}
	_, err := l.lines.ReadString('\n')
	return time.Since(begin), err
}

func (l *logged) close() error {
	if err := l.in.Close(); err != nil {
		return err
	}
	return l.cmd.Wait()
}

// measureLog: what each kind of log adds to a command of the program. The floor
// is the program without one.
func measureLog(b *bench, _ *shell) ([]row, error) {
	program, err := b.program()
	if err != nil {
		return nil, err
	}
	var rows []row
	kinds := []string{"jsonl", "sqlite"}
	if b.smoke {
		kinds = kinds[:1] // the default one
	}
	for _, kind := range kinds {
		var sides [2]*logged
		for i, kind := range []string{"none", kind} {
			if sides[i], err = b.startLogged(program, kind); err != nil {
				return nil, err
			}
			if _, err := sides[i].timed(); err != nil { // the shell's start
				return nil, fmt.Errorf("--log %s: %w", kind, err)
			}
		}
		none, with, err := pair(b.pick(1000, 200), 50, sides[0].timed, sides[1].timed)
		if err != nil {
			return nil, err
		}
		for _, side := range sides {
			if err := side.close(); err != nil {
				return nil, err
			}
		}
		rows = append(rows, timeRow("`true` with --log "+kind+", floor: none", none, with, bound{aboveFloor: 0.1}))
	}
	return rows, nil
}
