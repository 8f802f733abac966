package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// enter is what the Enter key types.
const enter = "\r"

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
	op := newOperation(opSend)
	op.ctx, op.cancel = context.WithCancelCause(ctx)
	op.settling = 1 // the write
	x := &send{s: s, op: op}
	op.deadline = time.AfterFunc(s.cfg.Timeout, x.timeOut)
	if err := s.reserve(op); err != nil {
		op.deadline.Stop()
		op.cancel(nil)
		return nil, err
	}
	text := req.Text
	if req.Submit {
		text += enter
	}
	go x.run(text)
	return x, nil
}

// Done implements [terminals.Send].
func (x *send) Done() <-chan struct{} { return x.op.end }

// Result implements [terminals.Send].
func (x *send) Result() (terminals.SendResult, error) { return x.op.send, x.op.err }

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
	x.s.feeding.Lock()
	defer x.s.leave()
	if x.s.closing.Load() {
		return // it ends with the session
	}
	x.s.finishSend(x.op, terminals.Timeout, nil)
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
	if err = nil; typing && text != "" {
		// Past the send's own end the session stays reserved until the write is
		// over, so that a later input cannot mix with this one.
		if n, err = s.dev.Write(op.ctx, []byte(text)); err != nil {
			err = fmt.Errorf("the terminal took %d of %d bytes: the program does not read them: %w", n, len(text), err)
		}
	}
	typing = typing && (n > 0 || err == nil)

	s.feeding.Lock()
	s.settle(op)
	op.consumable = n > 0
	op.written = typing
	cancelled := op.ctx.Err() != nil
	if (!typing || err != nil && !cancelled) && !op.over {
		op.err = err
		s.finishSend(op, "", nil)
	}
	s.leave()
	s.schedule(backOff[0])

	select {
	case <-op.end:
	case <-op.ctx.Done():
		x.interrupt()
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
	op.before, op.typed, op.typedTime = before, true, time.Now()
	op.lastOutput = op.typedTime
	return true
}

// interrupt interrupts the foreground program until the send has ended.
func (x *send) interrupt() {
	s, op := x.s, x.op
	if over := x.awaitConsumed(); over {
		return
	}
	// The send may end before the signal settles; this bounds how long that keeps
	// the session reserved.
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Timeout)
	defer cancel()
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
	if op.over {
		return
	}
	op.send = terminals.SendResult{WaitReason: reason, Status: s.status, FullScreen: s.scr.AltScreen(), NeedsInput: needs}
	if op.typed {
		op.send.Viewport, op.send.Truncated = s.scr.Text(op.from, s.cfg.MaxReadBytes)
	}
	if cause := context.Cause(op.ctx); cause != nil {
		op.err = cause // the caller's own reason says more than what followed from it
	}
	op.deadline.Stop()
	op.cancel(nil)
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
		s.finishSend(op, terminals.StdinRead, s.needsInput(w))
		return false
	}
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
		s.finishSend(op, terminals.StdinRead, needs)
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
		s.finishSend(op, terminals.StdinRead, nil)
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
	if w.PID == s.dev.PID() && !w.Channel && w.Site == s.promptSite {
		return false // the shell at rest, which the prompt's mark announces
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
	// It may have been there all the time, unless it took the input since.
	return op.consumable && err == nil && time.Since(op.typedTime) >= s.cfg.ExactProbeAfter
}
