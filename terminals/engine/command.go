package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/terminals"
)

const (
	// deliverWithin bounds the delivery of a command to a shell that is at its
	// prompt and therefore reads at once.
	deliverWithin = 10 * time.Second

	// interruptEvery is the pause before an interrupt is repeated while the
	// operation is young: a program that is just starting can miss the first.
	interruptEvery = 50 * time.Millisecond
	youngFor       = 250 * time.Millisecond

	// interruptAgain is the pause later on: many programs take a second
	// interrupt for an order to drop everything.
	interruptAgain = time.Second

	// strayGrace is what a program that reads on gets to end of a signal; almost all
	// end at once.
	strayGrace = 50 * time.Millisecond

	// startWithin is how long an interrupt waits at a time for a shell to start
	// what it was just given.
	startWithin = 20 * time.Millisecond
)

type commandRun struct {
	s  *session
	op *operation
}

// StartCommand implements [terminals.CommandSession].
func (s *session) StartCommand(ctx context.Context, req terminals.CommandRequest) (terminals.CommandRun, error) {
	if !s.command {
		return nil, &terminals.Error{Code: terminals.Unsupported, Message: "this session is interactive; type into it with a send"}
	}
	return s.startCommand(ctx, req)
}

func (s *session) startCommand(ctx context.Context, req terminals.CommandRequest) (*commandRun, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	op := newOperation(opCommand)
	op.sink, op.confirm = req.Sink, req.WaitConfirm
	if op.confirm <= 0 {
		op.confirm = defaultConfirm
	}
	if err := s.reserve(op); err != nil {
		return nil, err
	}
	s.feeding.Lock()
	defer s.leave()
	if op.over { // the shell has just ended
		return nil, s.usable()
	}
	text := req.Text
	if req.WarmUp && s.launch.WarmUp != "" {
		text = s.launch.WarmUp
	}
	script := dialect.Script{Seq: op.seq, Text: text, Status: s.last.Status, Dir: s.dir, Env: req.Env, Unset: req.Unset}
	if err := s.deliverCommand(ctx, op, script); err != nil {
		s.abandon(op)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	run := &commandRun{s: s, op: op}
	s.mu.Lock()
	s.probe.Reset(backOff[0])
	s.mu.Unlock()
	return run, nil
}

// reserve makes op the session's one operation.
func (s *session) reserve(op *operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusal(); err != nil {
		return err
	}
	if s.op != nil {
		return errBusy()
	}
	s.op = op
	if op.kind == opCommand {
		s.seq = newNumber(s.seq)
		op.seq = s.seq
	}
	return nil
}

func errBusy() error {
	return &terminals.Error{Code: terminals.SendActive, Message: "the session is busy with an earlier input; wait for it, or interrupt it"}
}

// abandon ends an operation that never reached the shell.
func (s *session) abandon(op *operation) {
	s.dev.FlushInput()
	s.finish(op)
}

// deliverCommand hands the program to the shell. The caller holds feeding.
func (s *session) deliverCommand(ctx context.Context, op *operation, script dialect.Script) error {
	d, err := s.shell.Command(script)
	if err != nil {
		return &terminals.Error{Code: terminals.InvalidArgument, Message: err.Error()}
	}
	// A program may have left the terminal in other modes, and unread input:
	// neither is this command's.
	if !s.launch.OwnModes {
		if m, err := s.dev.Modes(); err == nil && m != s.launch.Modes {
			if err := s.dev.SetModes(s.launch.Modes); err != nil {
				return err
			}
		}
	}
	if err := s.dev.FlushInput(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deliverWithin, errors.New("the shell does not read its input"))
	defer cancel()
	if s.repair {
		if r, err := s.shell.Resync(op.seq - 1); err == nil {
			if err := s.deliver(ctx, r); err != nil {
				return err
			}
		}
	}
	for _, f := range d.Files {
		op.files = append(op.files, f.Name)
	}
	if err := s.deliver(ctx, d); err != nil {
		return err
	}
	s.repair = false
	return nil
}

// deliver carries a delivery to the shell.
func (s *session) deliver(ctx context.Context, d dialect.Delivery) error {
	if err := writeFiles(s.dir, d.Files); err != nil {
		return err
	}
	if len(d.Channel) > 0 {
		ch := s.dev.Channel()
		if ch == nil {
			return errors.New("the shell has no command channel")
		}
		if err := writeChannel(ctx, ch, d.Channel); err != nil {
			return err
		}
	}
	if len(d.Terminal) > 0 {
		if _, err := s.dev.Write(ctx, d.Terminal); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles puts private files into a session's folder.
func writeFiles(dir string, files []dialect.File) error {
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			return fmt.Errorf("the command could not be handed to the shell (free the disk, or set TMPDIR): %w", err)
		}
	}
	return nil
}

// writeChannel writes to the shell's channel until ctx ends, where the channel
// can be bounded.
func writeChannel(ctx context.Context, ch io.Writer, p []byte) error {
	if bounded, ok := ch.(interface{ SetWriteDeadline(time.Time) error }); ok {
		if err := bounded.SetWriteDeadline(time.Time{}); err == nil {
			stop := context.AfterFunc(ctx, func() { _ = bounded.SetWriteDeadline(time.Now()) })
			defer stop()
		}
	}
	if _, err := ch.Write(p); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// watch counts the caller among those who want news and returns how to stop.
func (r *commandRun) watch() func() {
	s, op := r.s, r.op
	s.mu.Lock()
	op.watchers++
	if s.op == op {
		s.probe.Reset(backOff[0])
	}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		op.watchers--
		s.mu.Unlock()
	}
}

// news returns what there is to report, or a channel that is closed when that
// may have changed.
func (r *commandRun) news() (*terminals.CommandResult, <-chan struct{}) {
	s, op := r.s, r.op
	s.mu.Lock()
	defer s.mu.Unlock()
	var res terminals.CommandResult
	switch {
	case op.over:
		res = op.result
	case op.stuck && !op.reported:
		op.reported = true
		res = terminals.CommandResult{State: terminals.ShellStuck, Status: s.status}
	case op.waiting != nil && !op.reported:
		op.reported, op.askedFor = true, true
		res = terminals.CommandResult{State: terminals.Waiting, Status: s.status, NeedsInput: op.waiting, Cwd: s.last.Cwd}
	default:
		return nil, op.bell
	}
	res.Before, op.early = op.early, nil
	return &res, nil
}

// Wait implements [terminals.CommandRun].
func (r *commandRun) Wait(ctx context.Context) (terminals.CommandResult, error) {
	defer r.watch()()
	for {
		res, bell := r.news()
		if res != nil {
			return *res, nil
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return terminals.CommandResult{}, context.Cause(ctx)
		}
	}
}

// Settled implements [terminals.CommandRun].
func (r *commandRun) Settled() <-chan struct{} { return r.op.end }

// Waits implements [terminals.CommandRun].
func (r *commandRun) Waits() bool {
	s := r.s
	w, err := s.inputWaitNow()
	return err == nil && w.State == backend.WaitReading && !w.Timed && !s.atRest(w) && !s.inputPending()
}

// Interrupt implements [terminals.CommandRun].
func (r *commandRun) Interrupt(ctx context.Context) error {
	defer r.watch()()
	s, op := r.s, r.op
	s.mu.Lock()
	if !op.interrupted.Swap(true) {
		op.hit = op.waiting
	}
	s.mu.Unlock()
	for !op.started.Load() {
		// A signal before the shell has read the command would hit the shell at
		// its prompt, and then the command would run. Dropping the unread text
		// is no way: a read that has been woken for it would see an end of input.
		if over, err := op.pause(ctx, startWithin); over || err != nil {
			return err
		}
		if n, err := s.dev.PendingInput(); err != nil || n == 0 {
			break
		}
	}
	if err := op.interruptUntilOver(ctx, s); err != nil {
		return err
	}
	s.endStrays(ctx)
	return nil
}

// endStrays ends programs that outlived the interrupt of their command, without
// job control to stop them, and still read the terminal: they would take what is
// typed for others.
func (s *session) endStrays(ctx context.Context) {
	dev, ok := s.dev.(backend.ProgramSignaler)
	if !ok {
		return
	}
	for _, sig := range []terminals.Signal{terminals.SIGHUP, terminals.SIGTERM, terminals.SIGKILL} {
		if !s.signalStray(ctx, dev, sig) {
			return
		}
		select {
		case <-time.After(strayGrace):
		case <-ctx.Done():
			return
		}
	}
}

// signalStray reports whether there was a program to signal. None of a next
// command is: that is not delivered meanwhile.
func (s *session) signalStray(ctx context.Context, dev backend.ProgramSignaler, sig terminals.Signal) bool {
	s.feeding.Lock()
	defer s.leave()
	if s.active() != nil {
		return false
	}
	_, err := dev.SignalProgram(ctx, string(sig))
	return err == nil
}

// takeBack drops the input of op that no program has read yet.
func (s *session) takeBack(op *operation) error {
	if !s.beginSettling(op) {
		return nil // it was read after all
	}
	defer s.settle(op)
	return s.dev.FlushInput()
}

// interruptUntilOver repeats the interrupt. While the program's last words still
// come it holds back: a second interrupt would hit the shell instead.
func (op *operation) interruptUntilOver(ctx context.Context, s *session) error {
	for {
		if s.beginSettling(op) {
			if err := s.interrupt(ctx, op); err != nil {
				s.log.Debug("interrupt", "error", err)
			}
			s.settle(op)
			s.schedule(0) // the end may have waited for that
		}
		for sent := time.Now(); ; {
			if over, err := op.pause(ctx, interruptEvery); over || err != nil {
				return err
			}
			waited := time.Since(sent)
			if waited >= interruptAgain {
				break
			}
			s.mu.Lock()
			quiet := time.Since(op.lastOutput) >= interruptEvery
			s.mu.Unlock()
			if n, err := s.dev.PendingOutput(); err == nil && n > 0 {
				quiet = false
			}
			if !quiet {
				continue
			}
			if op.kind == opCommand {
				s.interruptMissed(ctx, op)
			}
			if sent.Sub(op.began) < youngFor {
				break
			}
		}
	}
}

// interrupt interrupts the foreground program of op once, unless the shell is
// back already.
func (s *session) interrupt(ctx context.Context, op *operation) error {
	var back bool
	if op.kind == opSend {
		back = s.promptAnswered(op)
	} else {
		back, _ = s.atPrompt()
	}
	if back {
		return nil
	}
	if op.kind == opCommand && op.returning(s) {
		return nil
	}
	if len(s.launch.InterruptKeys) > 0 {
		if w, err := s.dev.ShellWait(); err == nil && takesKeys(w) {
			return s.interruptKeys(ctx, op)
		}
	}
	_, err := s.dev.Interrupt(ctx, s.launch.InterruptShell)
	return err
}

// interruptMissed interrupts those who missed it, where that can be seen.
func (s *session) interruptMissed(ctx context.Context, op *operation) {
	dev, ok := s.dev.(backend.MissedInterrupter)
	if !ok || op.returning(s) || !s.beginSettling(op) {
		return
	}
	if _, err := dev.InterruptMissed(ctx); err != nil {
		s.log.Debug("interrupt of who missed it", "error", err)
	}
	s.settle(op)
	s.schedule(0)
}

// returning tells whether a mark says that the shell is on its way to its
// prompt, and nothing yet that the mark was not to be believed.
func (op *operation) returning(s *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(op.markedAt) < refuteAfter
}

// interruptKeys types the shell's interrupt keys, as many as it takes: one that
// comes too many would answer the shell's next question.
func (s *session) interruptKeys(ctx context.Context, op *operation) error {
	for _, key := range s.launch.InterruptKeys {
		if _, err := s.dev.Write(ctx, key); err != nil {
			return err
		}
		for unread := true; unread; {
			if over, err := op.pause(ctx, interruptEvery); over || err != nil {
				return err
			}
			unread = s.inputPending() // asked first: who reads after it was empty has taken the key
			if w, err := s.dev.ShellWait(); err != nil || !takesKeys(w) || w.Site == s.promptSite {
				return nil
			}
		}
	}
	return nil
}

// takesKeys tells whether a shell that waits so is interrupted by keys. A read with
// a limit is for an answer of the terminal.
func takesKeys(w backend.Wait) bool {
	return w.State == backend.WaitReading && !w.Channel && !w.Timed
}

// pause waits until op is over or d has passed.
func (op *operation) pause(ctx context.Context, d time.Duration) (over bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-op.end:
		return true, nil
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
