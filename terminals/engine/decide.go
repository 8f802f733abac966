package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/screen"
)

// Pauses between probes of an undecided operation, counted from its last
// output; further ones are PollInterval.
var backOff = []time.Duration{
	2 * time.Millisecond, 4 * time.Millisecond, 8 * time.Millisecond, 16 * time.Millisecond, 32 * time.Millisecond,
}

const (
	// spinProbes is how often a prompt's marker is followed by a probe without a
	// pause, some tens of microseconds in all: a shell reaches its read within
	// microseconds of printing it.
	spinProbes = 16

	// firstLook is how long a command has to be quiet before its programs are
	// looked at: most commands are over sooner, and what waits is reported much
	// later.
	firstLook = 20 * time.Millisecond

	// refuteAfter is how long after a marker a shell that is not at its prompt
	// shows that the marker ended nothing.
	refuteAfter = 50 * time.Millisecond

	// settleUnproved is the quiet time after which a done marker without a
	// prompt marker counts where no blocked read can be proved.
	settleUnproved = 150 * time.Millisecond

	// lostInFlood is the same where a background job's output never pauses.
	lostInFlood = time.Second

	// answerWithin bounds the wait for a shell's answer about its status: a shell
	// at its prompt answers at once or has lost the means to.
	answerWithin = 500 * time.Millisecond
	maxAsks      = 3

	// lostAnswerAfter is how long a shell must wait for an answer of the terminal
	// before that counts as lost. A busy machine can take tens of milliseconds to
	// carry one, and a second answer would be input; shells give up after a second.
	lostAnswerAfter = 100 * time.Millisecond

	// defaultConfirm is CommandRequest.WaitConfirm's default.
	defaultConfirm = 250 * time.Millisecond

	// lostAfter is how long the shell must be at its prompt, with nothing of its
	// output unread, before its marker counts as lost.
	lostAfter = 100 * time.Millisecond
)

// schedule arms the timer.
func (s *session) schedule(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.op != nil {
		s.probe.Reset(d)
	}
}

func (s *session) onTimer() {
	s.missed.Store(true)
	if !s.feeding.TryLock() {
		return // a sink may hold it for long; leave makes up for it
	}
	s.missed.Store(false)
	s.decide(false)
	s.leave()
}

// leave gives feeding back, and makes up for a timer that found it taken.
func (s *session) leave() {
	s.feeding.Unlock()
	if s.missed.Swap(false) {
		s.schedule(0)
	}
}

// decide looks whether the active operation has something to report. edge says
// that output was just processed. The caller holds feeding.
func (s *session) decide(edge bool) {
	op := s.active()
	if op == nil || s.closing.Load() {
		return // the end of a session that closes is the end of its program
	}
	if !edge && s.launch.AnswerQueries {
		s.answerStalled()
	}
	again := true
	switch op.kind {
	case opStart:
		s.decideStart(op, edge)
	case opCommand:
		again = s.decideCommand(op, edge)
		if a := s.activeAnswer(); a != nil {
			again = s.decideSend(a, edge) || again
		}
	case opSend:
		again = s.decideSend(op, edge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.op != op || !again {
		return
	}
	d := s.cfg.PollInterval
	if op.probes < len(backOff) {
		d = min(d, backOff[op.probes])
	}
	op.probes++
	// Output that never pauses must not put the next probe off for ever.
	now := time.Now()
	if edge && op.nextProbe.After(now) && op.nextProbe.Before(now.Add(d)) {
		return
	}
	op.nextProbe = now.Add(d)
	s.probe.Reset(d)
}

// answerStalled answers a shell that waits for an answer which is lost: a signal
// can flush it, and typed input that lay unread kept it from being given. The
// shell would wait for ever.
func (s *session) answerStalled() {
	w, err := s.dev.ShellWait()
	if err != nil || w.State != backend.WaitReading || w.Channel || !w.Timed {
		s.stalled = backend.Wait{}
		return
	}
	if w != s.stalled {
		s.stalled, s.stalledAt = w, time.Now()
	}
	if time.Since(s.stalledAt) < lostAnswerAfter {
		return // the answer may be on its way through the terminal
	}
	in, inErr := s.dev.PendingInput()
	out, outErr := s.dev.PendingOutput()
	if inErr == nil && outErr == nil && in == 0 && out == 0 {
		s.reply([]byte(cursorReply))
		s.stalledAt = time.Now()
	}
}

// atPrompt tells whether the shell is provably blocked in its own prompt read.
// known is false where that cannot be told.
func (s *session) atPrompt() (yes, known bool) {
	if !s.exact {
		return false, false
	}
	w, err := s.dev.ShellWait()
	if errors.Is(err, backend.ErrUnsupported) {
		return false, false
	}
	if err != nil || w.State != backend.WaitReading || w.Channel != s.launch.ReadsChannel {
		return false, true
	}
	return w.Channel || w.Site == s.promptSite, true
}

// atPromptSoon is atPrompt for the moment after a prompt's marker.
func (s *session) atPromptSoon() (yes, known bool) {
	for range spinProbes {
		if yes, known = s.atPrompt(); yes || !known {
			break
		}
		runtime.Gosched()
	}
	return yes, known
}

// decideStart publishes a shell that is at its first prompt and learns where
// that is: no foreign code has run in the shell yet.
func (s *session) decideStart(op *operation, edge bool) {
	if !s.markers {
		if !edge {
			s.decideUnmarked(op)
		}
		return
	}
	if !op.prompt.set || !s.command && !s.promptShown(op) || !s.shellForeground() {
		return
	}
	if s.exact {
		w, err := s.dev.ShellWait()
		switch {
		case errors.Is(err, backend.ErrUnsupported):
			s.exact = false
		case err != nil || w.State != backend.WaitReading || w.Channel != s.launch.ReadsChannel:
			return
		default:
			s.promptSite = w.Site
		}
	}
	s.finish(op)
}

// decideUnmarked publishes a program without markers: it waits for input, or it
// is silent after it has printed something.
func (s *session) decideUnmarked(op *operation) {
	w, err := s.dev.InputWait()
	ready := err == nil && w.State == backend.WaitReading && s.confirmed(op, w)
	if !ready && time.Since(op.lastOutput) >= s.cfg.IdleSilence {
		s.mu.Lock()
		text, _ := s.scr.Text(screen.Position(0), s.cfg.MaxReadBytes)
		s.mu.Unlock()
		ready = strings.TrimSpace(text) != ""
	}
	if ready {
		s.finish(op)
	}
}

// decideCommand returns whether to probe again by itself.
func (s *session) decideCommand(op *operation, edge bool) bool {
	if edge && op.done.set && !op.prompt.set && time.Since(op.markTime) < backOff[0] {
		return true // the prompt's own mark is about to follow
	}
	if op.done.set || op.prompt.set || op.answer.set {
		if !op.running && s.inputPending() {
			return true // the shell has not read the command: that mark is no end of it
		}
		probe := s.atPrompt
		if edge && op.prompt.set {
			probe = s.atPromptSoon
		}
		yes, known := probe()
		refuted := known && !yes
		if !known {
			yes, refuted = s.unprovedPrompt(op)
		}
		if yes && known && (s.promptComing(op) || s.doubtful(op)) {
			return true
		}
		switch {
		case yes && s.seal(op):
			s.complete(op)
			return false
		case refuted && op.challenge == 0 && time.Since(op.markTime) > refuteAfter:
			s.release(op)
		}
		return true
	}
	if edge {
		return true
	}
	s.mu.Lock()
	watched := op.watchers > 0
	s.mu.Unlock()
	if !watched {
		return false // whoever comes for news schedules the next probe
	}
	if time.Since(op.lastOutput) < min(firstLook, op.confirm/4) {
		return true
	}
	s.decideLost(op)
	if s.active() == op {
		s.decideWaiting(op)
	}
	return true
}

// promptComing tells whether the prompt's mark is still to come from a shell that
// is at its prompt: it was printed before the shell began to read, but the host
// may be late to read it. What lies between the marks can only be told apart
// with both of them.
func (s *session) promptComing(op *operation) bool {
	complete := op.prompt.set
	if op.answer.set {
		complete = op.prompted
	}
	if complete {
		s.unprompted = false
		return false
	}
	if op.homeSince.Before(op.markTime) {
		op.homeSince = time.Now()
	}
	if s.unprompted || time.Since(op.homeSince) >= refuteAfter {
		s.unprompted = true
		return false
	}
	return true
}

// doubtful tells whether the marks that a shell at its prompt left need a
// further look. Whoever knows the secret can print marks beside the shell's own,
// a background job for instance. As soon as there are more marks than one prompt
// makes, or output that was not looked at yet, the shell is asked for its status
// again, by a number that nobody else can know.
func (s *session) doubtful(op *operation) bool {
	unread, err := s.dev.PendingOutput()
	more := err == nil && unread > 0
	if more && time.Since(op.markTime) < refuteAfter {
		return true // it is about to be read
	}
	switch {
	case op.answer.set:
		return false
	case op.challenge != 0:
		if time.Since(op.asked) < answerWithin {
			return true
		}
		if op.asks == maxAsks {
			return false
		}
	case !op.suspect && !more:
		return false
	}
	op.asks++
	op.challenge = newNumber(op.seq)
	s.mu.Lock()
	s.seq = max(s.seq, op.challenge)
	s.mu.Unlock()
	if err := s.resync(op.challenge); err != nil {
		return false // it cannot be asked: the status stays unknown
	}
	op.asked = time.Now()
	return true
}

// newNumber returns a number for a command or a question that is larger than
// the one before and cannot be guessed. It is a variable for tests.
var newNumber = func(before uint64) uint64 {
	var b [4]byte
	rand.Read(b[:])
	return before + 1 + uint64(binary.LittleEndian.Uint32(b[:]))
}

// unprovedPrompt believes or refutes a marker on the word of the foreground
// group.
func (s *session) unprovedPrompt(op *operation) (yes, refuted bool) {
	fg, err := s.dev.Foreground()
	switch {
	case errors.Is(err, backend.ErrUnsupported):
	case err != nil:
		return false, false
	case !fg.Shell:
		return false, true
	}
	return op.prompt.set || time.Since(op.markTime) >= settleUnproved, false
}

// decideLost notices a shell that is back at its prompt without a marker: its
// markers are gone, or it skipped the program.
func (s *session) decideLost(op *operation) {
	if yes, known := s.atPrompt(); !yes || !known {
		op.lostSince, op.homeSince = time.Time{}, time.Time{}
		return
	}
	in, inErr := s.dev.PendingInput()
	out, outErr := s.dev.PendingOutput()
	now := time.Now()
	if op.homeSince.IsZero() || in > 0 {
		op.homeSince = now
	}
	if now.Sub(op.homeSince) > lostInFlood {
		// Somebody else writes without a pause.
	} else if inErr != nil || outErr != nil || in > 0 || out > 0 || op.lostSince.IsZero() || op.lastOutput.After(op.lostSince) {
		op.lostSince = now
		return
	}
	if now.Sub(op.lostSince) < lostAfter {
		return
	}
	op.lostSince = now
	if !op.resynced && (op.running || !op.interrupted.Load()) {
		op.resynced = true
		if err := s.resync(op.seq); err == nil {
			return
		}
	}
	if !s.seal(op) {
		return
	}
	s.releaseAll(op)
	s.repair = true
	op.result = terminals.CommandResult{State: terminals.Completed, Interrupted: op.interrupted.Load(), NotStarted: !op.running, Cwd: s.last.Cwd}
	s.finish(op)
}

// resync has a shell that is at its prompt announce itself, unseen.
func (s *session) resync(seq uint64) error {
	d, err := s.shell.Resync(seq)
	if err != nil {
		return err
	}
	if len(d.Terminal) > 0 {
		quiet := s.launch.Modes
		if s.launch.OwnModes {
			var err error
			if quiet, err = s.dev.Modes(); err != nil {
				return err
			}
		}
		quiet.Echo = false // until the next command, or the shell, sets the modes
		if err := s.dev.SetModes(quiet); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.PollInterval)
	defer cancel()
	return s.deliver(ctx, d)
}

// decideWaiting reports a program that stays blocked reading the terminal.
func (s *session) decideWaiting(op *operation) {
	w, err := s.dev.InputWait()
	if err != nil {
		return
	}
	shell := w.PID == s.dev.PID()
	waits := w.State == backend.WaitReading && !w.Timed && !s.atRest(w)
	stuck := w.State == backend.WaitStopped && shell
	if waits {
		if n, err := s.dev.PendingInput(); err == nil && n > 0 {
			waits = false // it is about to read that
		}
	}
	if !waits && !stuck {
		w = backend.Wait{}
	}
	if w != op.candidate {
		// Another wait than before, or the same one taken up again: the counter
		// of turns tells them apart.
		op.candidate, op.since = w, time.Now()
		s.mu.Lock()
		op.waiting, op.stuck, op.reported = nil, false, false
		s.mu.Unlock()
	}
	if op.lastOutput.After(op.since) {
		op.since = op.lastOutput
	}
	if !waits && !stuck || time.Since(op.since) < op.confirm {
		return
	}
	needs := s.needsInput(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if op.reported || op.waiting != nil || op.stuck {
		return
	}
	if stuck {
		op.stuck = true
	} else {
		op.waiting = needs
	}
	op.ring()
}

// ReadsSecret reports whether what is typed now would not be shown: by what the
// program that waits asks for, or by the terminal's modes where none is seen to
// wait.
func (s *session) ReadsSecret() bool {
	if w, err := s.inputWaitNow(); err == nil && w.State == backend.WaitReading && !s.atRest(w) {
		return s.needsInput(w).Kind == terminals.SecretInput
	}
	m, err := s.dev.Modes()
	return err == nil && m.Canonical && !m.Echo
}

func (s *session) needsInput(w backend.Wait) *terminals.NeedsInput {
	n := &terminals.NeedsInput{Kind: terminals.LineInput, Program: w.Program, PID: w.PID}
	s.mu.Lock()
	n.Prompt = s.scr.LastLine()
	if s.scr.AltScreen() && utf8.RuneCountInString(n.Prompt) > s.cfg.Cols {
		n.Prompt = "" // a whole screen, written without line ends
	}
	if w.Prompt != "" {
		n.Prompt = w.Prompt // the terminal's text is not the output
	}
	s.mu.Unlock()
	m, err := s.dev.Modes()
	if err != nil {
		return n
	}
	ask := dialect.AskUnknown
	if s.launch.Asks != nil && w.PID == s.dev.PID() {
		ask = s.launch.Asks(m, n.Prompt)
	}
	switch {
	case ask == dialect.AskLine:
	case ask == dialect.AskSecret:
		n.Kind = terminals.SecretInput
	case !m.Canonical:
		n.Kind = terminals.KeyInput
	case !m.Echo:
		n.Kind = terminals.SecretInput
	}
	return n
}
