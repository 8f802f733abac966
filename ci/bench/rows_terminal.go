package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/shellstead/shellstead/backend/posix"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/dialect/bash"
	"github.com/shellstead/shellstead/dialect/none"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/engine"
)

// repl is a program that answers line by line.
type repl struct {
	program string
	args    []string
	prompt  string // what it prints when it is ready; empty: nothing
	line    string // the question
	answer  string // the end of its answer: result and prompt
}

// In each program's own spelling the question is 1+1. A result is followed by
// the next prompt, so that an echo cannot be taken for it.
var repls = []repl{
	{"python3", []string{"-q"}, ">>> ", "1+1", "2\r\n>>> "},
	{"node", nil, "> ", "1+1", "> \x1b[3G"},
	{"sqlite3", nil, "sqlite> ", "select 1+1;", "2\r\nsqlite> "},
	{"bc", []string{"-q"}, "", "1+1", "\r2\r\n"},
	{"gdb", []string{"-q", "-nx"}, "(gdb) ", "print 1+1", "= 2\r\n(gdb) "},
}

// terminalStack serves interactive sessions of one program.
type terminalStack struct {
	service *terminals.Service
	owner   *terminals.Owner
}

func newTerminalStack(d dialect.Dialect, program string, args ...string) (*terminalStack, error) {
	driver, err := posix.New(posix.Options{})
	if err != nil {
		return nil, err
	}
	cfg := engine.DefaultConfig()
	cfg.Type, cfg.ShellPath, cfg.ShellArgs = "bench", program, args
	// A guess from silence must not pass for an answer.
	cfg.Timeout, cfg.IdleSilence = 2*time.Minute, 2*time.Minute
	backend, err := engine.New(cfg, driver, d)
	if err != nil {
		return nil, err
	}
	s := &terminalStack{service: terminals.NewService(terminals.Options{})}
	if _, err := s.service.Register(cfg.Type, backend); err != nil {
		return nil, err
	}
	s.owner, err = s.service.NewOwner(terminals.OwnerOptions{Name: "bench", Cwd: "/"})
	return s, err
}

func (s *terminalStack) close() error { return s.service.Dispose(context.Background()) }

func (s *terminalStack) open() (string, error) {
	info, err := s.service.Open(context.Background(), s.owner, terminals.OpenRequest{Type: "bench"})
	return info.SessionID, err
}

func (s *terminalStack) start(id, line string) (terminals.Send, error) {
	return s.service.StartSend(context.Background(), s.owner, id, terminals.SendRequest{Text: line, Submit: true})
}

// ask sends one line whose answer has to be proved.
func (s *terminalStack) ask(id, line, answer string) (time.Duration, error) {
	begin := time.Now()
	send, err := s.start(id, line)
	if err != nil {
		return 0, err
	}
	<-send.Done()
	took := time.Since(begin)
	res, err := send.Result()
	if err == nil && (res.WaitReason != terminals.StdinRead || !strings.Contains(res.Viewport, answer)) {
		err = fmt.Errorf("ours: %q came back as %s: %.200q", line, res.WaitReason, res.Viewport)
	}
	return took, err
}

// skippedWithout is the row of a program that is not here.
func skippedWithout(program string, rows ...row) ([]row, bool) {
	if _, err := exec.LookPath(program); err == nil {
		return nil, false
	}
	for i := range rows {
		rows[i].Skipped = program + " is not installed"
	}
	return rows, true
}

// measureRepl: a question to a program on a terminal, until its answer is known
// to be whole.
func measureRepl(b *bench, _ *shell) ([]row, error) {
	var rows []row
	for _, r := range repls {
		work := fmt.Sprintf("`%s` in %s", r.line, r.program)
		limits := bound{aboveFloor: 20}
		if skipped, ok := skippedWithout(r.program, row{Work: work, Unit: milliseconds, bound: limits}); ok {
			rows = append(rows, skipped...)
			continue
		}
		made, err := b.repl(r, work, limits)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.program, err)
		}
		rows = append(rows, made)
	}
	return rows, nil
}

func (b *bench) repl(r repl, work string, limits bound) (row, error) {
	f, err := startReplFloor(r)
	if err != nil {
		return row{}, err
	}
	defer f.close()
	s, err := newTerminalStack(none.Dialect{}, r.program, r.args...)
	if err != nil {
		return row{}, err
	}
	defer s.close()
	id, err := s.open()
	if err != nil {
		return row{}, err
	}
	floorTimes, oursTimes, err := pair(b.pick(100, 20), 10,
		func() (time.Duration, error) { return f.ask(r.line, r.answer) },
		func() (time.Duration, error) { return s.ask(id, r.line, "2") })
	if err != nil {
		return row{}, err
	}
	return timeRow(work, floorTimes, oursTimes, limits), nil
}

// measureSignal: a SIGINT to a program that sleeps, until the shell is known to
// be back.
func measureSignal(b *bench, _ *shell) ([]row, error) {
	s, err := newTerminalStack(bash.Dialect{}, "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	id, err := s.open()
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for range b.pick(100, 20) {
		send, err := s.start(id, "sleep 100")
		if err != nil {
			return nil, err
		}
		if err := s.untilForeign(id); err != nil {
			return nil, err
		}
		begin := time.Now()
		if _, err := s.service.Signal(context.Background(), s.owner, id, terminals.SIGINT); err != nil {
			return nil, err
		}
		<-send.Done()
		times = append(times, time.Since(begin))
		if res, err := send.Result(); err != nil || res.WaitReason != terminals.StdinRead {
			return nil, fmt.Errorf("ours: an interrupted sleep came back as %s: %w", res.WaitReason, err)
		}
	}
	return []row{{Work: "SIGINT on `sleep 100` to ready", Unit: milliseconds, Ours: summarise(times), bound: bound{p50: 10}}}, nil
}

// untilForeign returns when the shell's child has the terminal: SIGKILL, which
// is refused while the shell has it, would be delivered. Nothing is sent.
func (s *terminalStack) untilForeign(id string) error {
	shell := 0
	for _, info := range s.service.List(s.owner) {
		if info.SessionID == id {
			shell = info.PID
		}
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		children, err := exec.Command("ps", "-o", "comm=", "--ppid", fmt.Sprint(shell)).Output()
		if err == nil && strings.Contains(string(children), "sleep") {
			return nil
		}
	}
	return errors.New("ours: sleep does not start")
}

// measureSecret: a password prompt, from its text on the terminal at the floor
// to its being known as one.
func measureSecret(b *bench, _ *shell) ([]row, error) {
	work := "a `getpass` prompt is known as secret"
	limits := bound{aboveFloor: 60}
	if skipped, ok := skippedWithout("python3", row{Work: work, Unit: milliseconds, bound: limits}); ok {
		return skipped, nil
	}
	const asks = "getpass.getpass('word: ')"
	r := repl{"python3", []string{"-q"}, ">>> ", asks, "word: "}
	f, err := startReplFloor(r)
	if err != nil {
		return nil, err
	}
	defer f.close()
	s, err := newTerminalStack(none.Dialect{}, r.program, r.args...)
	if err != nil {
		return nil, err
	}
	defer s.close()
	id, err := s.open()
	if err != nil {
		return nil, err
	}
	if _, err := f.ask("import getpass", ">>> "); err != nil {
		return nil, err
	}
	if _, err := s.ask(id, "import getpass", ""); err != nil {
		return nil, err
	}
	floorTimes, oursTimes, err := pair(b.pick(100, 20), 10,
		func() (time.Duration, error) {
			// The echo of the question holds the prompt's text too.
			took, err := f.ask(asks, "\r\nword: ")
			if err == nil {
				_, err = f.ask("x", ">>> ")
			}
			return took, err
		},
		func() (time.Duration, error) {
			begin := time.Now()
			send, err := s.start(id, asks)
			if err != nil {
				return 0, err
			}
			<-send.Done()
			took := time.Since(begin)
			res, err := send.Result()
			if err == nil && (res.NeedsInput == nil || res.NeedsInput.Kind != terminals.SecretInput) {
				err = fmt.Errorf("ours: the prompt came back as %s %+v: %.200q", res.WaitReason, res.NeedsInput, res.Viewport)
			}
			if err == nil {
				_, err = s.ask(id, "x", ">>> ")
			}
			return took, err
		})
	if err != nil {
		return nil, err
	}
	return []row{timeRow(work, floorTimes, oursTimes, limits)}, nil
}

// measureOpen: a terminal from nothing to its first prompt.
func measureOpen(b *bench, _ *shell) ([]row, error) {
	s, err := newTerminalStack(bash.Dialect{}, "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	floorTimes, oursTimes, err := pair(b.pick(50, 10), 5,
		func() (time.Duration, error) {
			begin := time.Now()
			f, err := startReplFloor(repl{program: "bash", args: []string{"--noprofile", "--norc", "-i"}, prompt: "$ "})
			took := time.Since(begin)
			if err == nil {
				f.close()
			}
			return took, err
		},
		func() (time.Duration, error) {
			begin := time.Now()
			id, err := s.open()
			took := time.Since(begin)
			if err == nil {
				_, err = s.service.Close(context.Background(), s.owner, id, "bench")
			}
			return took, err
		})
	if err != nil {
		return nil, err
	}
	return []row{timeRow("open to prompt", floorTimes, oursTimes, bound{ratioP50: 3})}, nil
}

// measureMany: 50 sessions at once, each with a program that answers in turn.
func measureMany(b *bench, _ *shell) ([]row, error) {
	const sessions = 50
	work := fmt.Sprintf("answer of one of %d live python3", sessions)
	limits := bound{p99: 60}
	if skipped, ok := skippedWithout("python3", row{Work: work, Unit: milliseconds, bound: limits}); ok {
		return skipped, nil
	}
	s, err := newTerminalStack(none.Dialect{}, "python3", "-q")
	if err != nil {
		return nil, err
	}
	defer s.close()
	ids := make([]string, sessions)
	for i := range ids {
		if ids[i], err = s.open(); err != nil {
			return nil, err
		}
	}
	var times []time.Duration
	for round := range b.pick(10, 3) {
		for i, id := range ids {
			n := round*sessions + i
			took, err := s.ask(id, fmt.Sprintf("%d+1", 1000+n), fmt.Sprint(1001+n))
			if err != nil {
				return nil, err
			}
			times = append(times, took)
		}
	}
	return []row{{Work: work, Unit: milliseconds, Ours: summarise(times), bound: limits}}, nil
}

// measureSilent: what it costs to wait for a program that says nothing.
func measureSilent(b *bench, _ *shell) ([]row, error) {
	rows := []row{{Work: "a send that waits for a silent program: share of one core", Unit: percent, bound: bound{max: 1}}}
	if runtime.GOOS != "linux" {
		rows[0].Skipped = linuxOnly
		return rows, nil
	}
	s, err := newTerminalStack(bash.Dialect{}, "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	id, err := s.open()
	if err != nil {
		return nil, err
	}
	send, err := s.start(id, "sleep 60")
	if err != nil {
		return nil, err
	}
	if err := s.untilForeign(id); err != nil {
		return nil, err
	}
	before, begin := processorTime(), time.Now()
	select {
	case <-send.Done():
		return nil, errors.New("ours: a send ended while its program slept")
	case <-time.After(time.Duration(b.pick(30, 3)) * time.Second):
	}
	rows[0].Ours = single(100 * float64(processorTime()-before) / float64(time.Since(begin)))
	return rows, nil
}
