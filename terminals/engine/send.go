package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// writeSettles is how long after a send's deadline its write is waited for: a
// driver ends a write at once when its context does, and then knows how much the
// terminal took.
const writeSettles = 50 * time.Millisecond

// loopSettles is how long an event loop that reads with a limit is looked at
// often: its timers of the last input are over then. Node saves its history 15 ms
// after each line.
const loopSettles = 32 * time.Millisecond

// errLate ends the write of a send whose time is up.
var errLate = errors.New("the send's time is up")

// send is one active send. Its goroutine types the input and interrupts; the
// read loop and the timer see it end.
type send struct {
	s  *session
	op *operation
}

// StartSend implements [terminals.Session].
func (s *session) StartSend(ctx context.Context, req terminals.SendRequest) (terminals.Send, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	if s.command {
		if err := s.answerable(); err != nil {
			return nil, err
		}
	}
	text, err := s.input(req)
	if err != nil {
		return nil, err
	}
	op := newOperation(opSend)
	op.ctx, op.cancel = context.WithCancelCause(ctx)
	op.settling = 1 // the write
	op.forCommand = req.ForCommand
	x := &send{s: s, op: op}
	op.deadline = time.AfterFunc(s.cfg.Timeout, x.timeOut)
	reserve := s.reserve
	if s.command {
		reserve = s.reserveAnswer
	}
	if err := reserve(op); err != nil {
		op.deadline.Stop()
		op.cancel(nil)
		return nil, err
	}
	go x.run(text)
	return x, nil
}

// Done implements [terminals.Send].
func (x *send) Done() <-chan struct{} { return x.op.end }

// Result implements [terminals.Send].
func (x *send) Result() (terminals.SendResult, error) { return x.op.send, x.op.err }

// Output implements [terminals.Send].
func (x *send) Output() (text string, truncated bool) {
	s, op := x.s, x.op
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case op.over:
		text, truncated = op.rest, op.restCut
		op.rest, op.restCut = "", false
	case op.typed:
		text, truncated = s.scr.Text(op.shown, s.cfg.MaxReadBytes)
		op.shown = s.scr.End()
	}
	return text, truncated
}

// Cancel implements [terminals.Send].
func (x *send) Cancel(cause error) bool {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.op.over {
		return false
	}
	x.op.cancel(cause)
	return true
}

func (x *send) timeOut() {
	s, op := x.s, x.op
	s.feeding.Lock()
	defer s.leave()
	if s.closing.Load() {
		return // it ends with the session
	}
	if op.typed && !op.written && !op.late {
		op.late = true
		op.cancel(errLate) // run sees the write end
		op.deadline.Reset(writeSettles)
		return
	}
	s.finishSend(op, terminals.Timeout, nil)
}

// run types text, and interrupts when the send is cancelled after that. Nothing
// is typed and nobody is interrupted when it was cancelled before.
func (x *send) run(text string) {
	s, op := x.s, x.op
	before, err := s.dev.InputWait()
	if err != nil {
		before = backend.Wait{}
	}
	typing := x.beginTyping(before)
	n := 0
	if err = nil; !typing && op.answers != nil {
		err = errCompleted()
	}
	for _, part := range s.parts(op, text) {
		if !typing || n > 0 && !x.asksAgain() {
			break
		}
		// Past the send's own end the session stays reserved until the write is
		// over, so that a later input cannot mix with this one.
		var took int
		if took, err = s.dev.Write(op.ctx, []byte(part)); err != nil {
			n += took
			break
		}
		n += took
	}
	if typing && n < len(text) {
		err = fmt.Errorf("the terminal took %d of %d bytes; the program does not read the rest: %w", n, len(text), cmp.Or(err, context.Cause(op.ctx)))
	}
	typing = typing && (n > 0 || err == nil)

	s.feeding.Lock()
	s.settle(op)
	op.consumable = n > 0
	op.written = typing
	cancelled := op.ctx.Err() != nil && !op.late
	switch {
	case op.over:
	case op.outrun && typing:
		op.err = err // the command's end is the send's
	case op.late || !typing || err != nil && !cancelled:
		op.err = err
		s.finishSend(op, terminals.Timeout, nil)
	}
	s.leave()
	s.schedule(backOff[0])

	select {
	case <-op.end:
	case <-op.ctx.Done():
		if context.Cause(op.ctx) != errLate {
			x.interrupt()
		}
	}
}

// beginTyping notes that what comes from now on may be an answer: what came
// earlier is no evidence. It is false when the send is cancelled or over.
func (x *send) beginTyping(before backend.Wait) bool {
	s, op := x.s, x.op
	s.feeding.Lock()
	defer s.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if op.over || op.ctx.Err() != nil {
		return false
	}
	op.from = s.scr.End()
	op.shown = op.from
	op.before, op.typed, op.typedTime = before, true, time.Now()
	op.lastOutput = op.typedTime
	if cmd := op.answers; cmd != nil {
		if !op.forCommand {
			cmd.seen = append(cmd.seen, span{cmd.received, math.MaxInt64})
		}
		cmd.waiting, cmd.reported = nil, false
		cmd.candidate = backend.Wait{} // until the input is read it still seems to wait
	}
	return true
}

// interrupt interrupts the foreground program until the send has ended.
func (x *send) interrupt() {
	s, op := x.s, x.op
	s.mu.Lock()
	over := op.over // its end cancels its context too
	s.mu.Unlock()
	if over || x.awaitConsumed() {
		return
	}
	// The send may end before the signal settles; this bounds how long that keeps
	// the session reserved.
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Timeout)
	defer cancel()
	if op.answers != nil {
		x.interruptCommand(ctx)
		return
	}
	_ = op.interruptUntilOver(ctx, s) // its one error is that of ctx
}

// awaitConsumed gives the program a moment to read what was typed and takes back
// what it does not read, so that it is not read after the interrupt.
func (x *send) awaitConsumed() (over bool) {
	s, op := x.s, x.op
	for waited := time.Duration(0); waited < startWithin; waited += backOff[0] {
		if n, err := s.dev.PendingInput(); err != nil || n == 0 {
			return false
		}
		if over, _ = op.pause(context.Background(), backOff[0]); over {
			return true
		}
	}
	if err := s.takeBack(op); err != nil {
		s.log.Debug("flush input", "error", err)
	}
	return false
}

// promptAnswered tells whether the shell is at a prompt that it has printed since
// the write, with nothing typed there: an interrupt would hit the shell only.
func (s *session) promptAnswered(op *operation) bool {
	s.feeding.Lock()
	defer s.leave()
	if !op.marked || op.continued {
		return false
	}
	if n, err := s.dev.PendingOutput(); !s.promptShown(op) && (err != nil || n == 0) {
		return false
	}
	yes, known := s.atPrompt()
	if !known {
		yes = s.shellForeground()
	}
	return yes
}

// finishSend ends a send with its viewport. The session stays reserved while a
// write or a signal of the send is in flight. The caller holds feeding.
func (s *session) finishSend(op *operation, reason terminals.WaitReason, needs *terminals.NeedsInput) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !op.over {
		s.concludeSend(op, reason, needs)
	}
}

// concludeSend is finishSend for a caller that holds mu too.
func (s *session) concludeSend(op *operation, reason terminals.WaitReason, needs *terminals.NeedsInput) {
	op.send = terminals.SendResult{WaitReason: reason, Status: s.status, FullScreen: s.scr.AltScreen(), NeedsInput: needs}
	if op.typed {
		op.send.Viewport, op.send.Truncated = s.scr.Text(op.from, s.cfg.MaxReadBytes)
		op.rest, op.restCut = op.send.Viewport, op.send.Truncated
		if op.shown != op.from {
			op.rest, op.restCut = s.scr.Text(op.shown, s.cfg.MaxReadBytes)
		}
	}
	if cause := context.Cause(op.ctx); cause != nil && cause != errLate {
		op.err = cause // the caller's own reason says more than what followed from it
	}
	op.deadline.Stop()
	op.cancel(nil)
	if op.answers != nil {
		s.finishAnswer(op)
		return
	}
	s.end(op)
}

// decideSend applies the readiness rules in their order. It returns whether to
// probe again by itself.
func (s *session) decideSend(op *operation, edge bool) bool {
	if !op.written {
		return false // the end of the write schedules the next probe
	}
	if op.marked && s.decidePrompt(op, edge) || edge {
		return true
	}
	if w, err := s.dev.InputWait(); err == nil && s.freshWait(op, w) {
		switch {
		case !s.confirmed(op, w):
		case !s.atRest(w):
			return !s.answered(op, s.needsInput(w))
		case time.Since(op.since) >= lostAfter:
			return !s.answered(op, nil)
		}
		return true
	}
	op.candidate = backend.Wait{}
	silence := s.cfg.IdleSilence
	if op.marked {
		silence += s.cfg.HandoffGrace
	}
	// After a cancellation silence does not show that the program stopped.
	if op.ctx.Err() == nil && time.Since(op.lastOutput) >= silence {
		s.finishSend(op, terminals.InferredIdle, nil)
	}
	return true
}

// answered ends a send that was proved to be over. While the send's own interrupt
// is in flight that is put off: the end of the interrupt probes again, and the
// next send finds the session free.
func (s *session) answered(op *operation, needs *terminals.NeedsInput) bool {
	if !s.seal(op) {
		return false
	}
	s.finishSend(op, terminals.StdinRead, needs)
	return true
}

// decidePrompt ends a send whose shell is back at its prompt, or asks for more
// of an incomplete input.
func (s *session) decidePrompt(op *operation, edge bool) bool {
	if n, err := s.dev.PendingOutput(); s.inputPending() || err == nil && n > 0 {
		return false // the shell is about to read on, or has done so
	}
	if op.continued {
		w, err := s.dev.ShellWait()
		if err != nil || w.State != backend.WaitReading || w.Channel {
			return false
		}
		needs := s.needsInput(w)
		needs.Kind = terminals.ContinuationInput
		s.answered(op, needs)
		return true
	}
	if !s.promptShown(op) {
		return false
	}
	probe := s.atPrompt
	if edge {
		probe = s.atPromptSoon
	}
	yes, known := probe()
	if !known {
		yes = s.shellForeground()
	}
	if yes {
		s.mu.Lock()
		s.scr.LeaveAltScreen() // nobody is left who is on it
		s.mu.Unlock()
		s.answered(op, nil)
	}
	return yes
}

// promptShown tells whether exactly the prompt's text followed the newest mark.
func (s *session) promptShown(op *operation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scr.Tail(op.promptEnd, len(s.launch.Prompt)+1) == s.launch.Prompt
}

// shellForeground tells whether the shell owns the terminal. Where there are no
// process groups nothing speaks against it.
func (s *session) shellForeground() bool {
	fg, err := s.dev.Foreground()
	return errors.Is(err, backend.ErrUnsupported) || err == nil && fg.Shell
}

// inputPending tells whether typed input is provably unread.
func (s *session) inputPending() bool {
	n, err := s.dev.PendingInput()
	return err == nil && n > 0
}

// freshWait tells whether w is a wait for input that came after the write.
func (s *session) freshWait(op *operation, w backend.Wait) bool {
	if w.State != backend.WaitReading {
		op.left = op.left || w.State == backend.WaitBusy
		return false
	}
	if s.atRest(w) && op.answers != nil {
		return false // the prompt's mark announces it
	}
	if w.PID == s.dev.PID() && w.Timed && s.launch.AnswerQueries {
		return false // it asks the terminal, not a person
	}
	pending, err := s.dev.PendingInput()
	if err == nil && pending > 0 {
		return false
	}
	old := op.before
	switch {
	case op.left:
		return true
	case old.State == backend.WaitReading:
		// The counter of the thread's turns shows a wait that was left and
		// taken up again between two probes.
		if w.PID != old.PID || w.Site != old.Site || w.Turns != old.Turns {
			return true
		}
	case old.State != backend.WaitUnknown:
		return true
	}
	if !op.consumable {
		return true // nothing was typed that it would have to read first
	}
	// It may have been there all the time, unless it took the input since.
	return err == nil && time.Since(op.typedTime) >= s.cfg.ExactProbeAfter
}

// atRest tells whether w is the shell's wait at its own prompt.
func (s *session) atRest(w backend.Wait) bool {
	return s.markers && w.PID == s.dev.PID() && !w.Channel && w.Site == s.promptSite
}

// confirmed tells whether w was found by the last probe too, with no output in
// between and none unread: what the program printed before it waited is complete
// then. Output of others, which may never pause, does not put that off for long:
// then what was there when the wait was found has to be processed.
func (s *session) confirmed(op *operation, w backend.Wait) bool {
	unread, err := s.dev.PendingOutput() // asked for after w was seen
	if err != nil {
		unread = 0
	}
	w.Turns = 0 // a program may take up its wait again and again
	quiet := op.probed == s.fed && unread == 0
	op.probed = s.fed
	limited := w.Timed
	w.Timed = false // and an event loop with the limit of its next timer or without one
	if w != op.candidate {
		op.candidate, op.since, op.due = w, time.Now(), s.fed+int64(unread)
		op.probeSoon()
		return false
	}
	if waited := time.Since(op.since); limited && waited < s.cfg.ExactProbeAfter {
		if waited < loopSettles {
			op.probeSoon()
		}
		return false // it may only want to know whether something is there
	}
	if !quiet {
		op.probeSoon()
		return s.fed >= op.due && time.Since(op.since) >= refuteAfter
	}
	return true
}

// probeSoon makes the pauses between probes short again.
func (op *operation) probeSoon() {
	op.probes = 0
	if op.answers != nil {
		op.answers.probes = 0
	}
}
