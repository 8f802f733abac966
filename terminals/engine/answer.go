package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// A send to a session in command mode answers the program that the active
// command was reported to wait in. It is an operation beside the command: the
// command's marks and probes go on, and the output that comes meanwhile is the
// send's.

// span is a part of a command's output, in bytes from its beginning.
type span struct{ from, to int64 }

// answerable says why no send can answer a program of the session.
func (s *session) answerable() error {
	s.mu.Lock()
	op := s.op
	running := op != nil && op.kind == opCommand && !op.over
	asked := running && op.askedFor
	s.mu.Unlock()
	switch {
	case !running:
		return &terminals.Error{Code: terminals.Unsupported, Message: "this shell belongs to a command tool and takes whole commands only; " +
			"run a command with that tool, or open a terminal of your own"}
	case !asked:
		return &terminals.Error{Code: terminals.SendActive, Message: "a command runs in this shell and no program in it was reported to wait for input; wait for the command"}
	}
	// What was reported may be long ago. The shell must never get what was meant
	// for a program.
	w, err := s.inputWaitNow()
	if err == nil && w.State == backend.WaitReading && !s.atRest(w) {
		return nil
	}
	return &terminals.Error{Code: terminals.SendActive, Err: errIfNot(err, backend.ErrUnsupported),
		Message: "the program in this shell does not wait for input now; read the terminal to see what it does, or interrupt it"}
}

// inputWaitNow looks for a program that waits at this moment, where nothing has
// looked for one just before.
func (s *session) inputWaitNow() (backend.Wait, error) {
	if d, ok := s.dev.(backend.WaitProber); ok {
		return d.ProbeInputWait()
	}
	return s.dev.InputWait()
}

// errIfNot returns err unless it says no more than known does.
func errIfNot(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

// reserveAnswer makes op the one send that answers the active command.
func (s *session) reserveAnswer(op *operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusal(); err != nil {
		return err
	}
	cmd := s.op
	switch {
	case s.answering != nil:
		return errBusy()
	case cmd == nil || cmd.kind != opCommand || cmd.over:
		return errCompleted()
	}
	s.answering, op.answers = op, cmd
	cmd.watchers++ // it is probed as long as somebody wants to know
	s.probe.Reset(backOff[0])
	return nil
}

func errCompleted() error {
	return &terminals.Error{Code: terminals.SendActive, Message: "the command has just completed, so nothing was typed; the next command reports its exit code"}
}

// activeAnswer returns the send that answers the active command, nil when there
// is none.
func (s *session) activeAnswer() *operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answering == nil || s.answering.over {
		return nil
	}
	return s.answering
}

// finishAnswer ends the send op and keeps the command it answered. When that has
// completed and nobody knows yet, op is who reports it, unless its own caller
// gets an error instead of a result. The caller holds feeding and mu.
func (s *session) finishAnswer(op *operation) {
	cmd := op.answers
	cmd.watchers--
	if op.typed && !op.forCommand {
		cmd.seen[len(cmd.seen)-1].to = cmd.received
	}
	switch {
	case !cmd.over:
		if op.send.NeedsInput != nil {
			cmd.waiting, cmd.reported = op.send.NeedsInput, true
		}
	case op.forCommand: // its caller hears of the end anyway
	case cmd.result.State == terminals.Completed && !cmd.result.Reported && op.err == nil:
		result := cmd.result
		op.send.Command = &result
		cmd.result.Reported = true
	}
	op.over = true
	s.free(op)
	close(op.end)
	op.ring()
}

// parts are the pieces of text that are typed one by one. A shell that reads the
// terminal at its prompt would run the lines that the answered program left: each
// line is typed only when a program asks for it.
func (s *session) parts(op *operation, text string) []string {
	m, err := s.dev.Modes()
	if op.answers == nil || s.launch.ReadsChannel || err != nil || !m.Canonical {
		return []string{text}
	}
	var lines []string
	for line := range strings.SplitAfterSeq(text, "\n") {
		for part := range strings.SplitAfterSeq(line, enter) {
			if part != "" {
				lines = append(lines, part)
			}
		}
	}
	return lines
}

// asksAgain waits until a program has read what was typed so far and waits for
// more. It is false when the send ended before that, or is to end.
func (x *send) asksAgain() bool {
	s, op := x.s, x.op
	for {
		if over, err := op.pause(op.ctx, backOff[0]); over || err != nil {
			return false
		}
		if s.inputPending() {
			continue
		}
		if w, err := s.dev.InputWait(); err == nil && w.State == backend.WaitReading && !s.atRest(w) && !s.inputPending() {
			return true
		}
	}
}

// interruptCommand interrupts the command that the send answers, until the send
// has ended.
func (x *send) interruptCommand(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-x.op.end:
		case <-ctx.Done():
		}
		cancel()
	}()
	_ = (&commandRun{x.s, x.op.answers}).Interrupt(ctx) // its one error is that of ctx
}
