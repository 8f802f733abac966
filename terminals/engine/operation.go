package engine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/screen"
)

type opKind int

const (
	opStart   opKind = iota // the shell's own start-up
	opCommand               // a whole program
	opSend                  // typed input
)

// maxPending bounds output whose place is not decided yet: before a start mark,
// or after a mark that may turn out to end nothing.
const maxPending = 64 << 10

// operation is the one thing that a session does at a time. Fields are under
// the session's feeding lock unless said otherwise.
type operation struct {
	kind  opKind
	began time.Time

	// Under mu.
	bell     chan struct{} // closed and replaced when there is news
	end      chan struct{} // closed when it is over
	over     bool
	result   terminals.CommandResult
	send     terminals.SendResult
	err      error
	waiting  *terminals.NeedsInput // a program waits; nil when none does
	stuck    bool                  // the shell itself was stopped
	reported bool                  // that was reported already
	watchers int                   // callers who want news
	settling int                   // writes and signals in flight
	sealed   bool                  // it is about to complete: no further signal
	early    []byte                // what came before the program began
	markedAt time.Time             // when a done or prompt mark came
	askedFor bool                  // a program of it was reported to wait
	hit      *terminals.NeedsInput // who waited when it was interrupted first

	lastOutput time.Time // of the newest byte; the start when there is none; set under mu too
	probes     int       // since then
	candidate  backend.Wait
	since      time.Time // of the candidate
	due        int64     // session.fed once all is processed that was printed before it
	probed     int64     // session.fed when it was found last
	homeSince  time.Time // since when the shell is back at all
	nextProbe  time.Time // when the timer fires
	lostSince  time.Time // since when the shell is back without a mark
	promptEnd  screen.Position
	doneAt     screen.Position // where the newest done mark came

	// A command's.
	seq         uint64
	sink        func([]byte)
	confirm     time.Duration
	files       []string
	started     atomic.Bool // the start mark came, or its absence was accepted
	running     bool        // the start mark came
	interrupted atomic.Bool // not under feeding: a sink may hold that for long
	resynced    bool
	suspect     bool   // more marks came than one prompt makes, or other ones
	challenge   uint64 // the number that the shell was asked to answer with
	asked       time.Time
	asks        int
	prompted    bool   // the answer's prompt mark came
	answer      mark   // to that
	aside       []byte // between the answer's done and prompt marks
	head        []byte // before the start mark
	held        []byte // the end of the output, perhaps the shell's own
	asking      int    // how many bytes of held are provably the shell's own question
	recent      []byte // the last byte that was handed on
	done        mark
	prompt      mark
	noise       []byte // between done and prompt
	pending     []byte // after the newest of both
	markTime    time.Time
	received    int64  // output so far, in bytes
	seen        []span // of that, what sends have taken and is not handed on yet

	// A send's.
	answers    *operation      // the command of whose program it answers; nil in an interactive session
	forCommand bool            // output and end stay that command's
	late       bool            // its write was ended before all was typed, for its deadline
	outrun     bool            // or because the command it answers is about to complete
	ctx        context.Context // ends with the send or its cancellation
	cancel     context.CancelCauseFunc
	deadline   *time.Timer
	from       screen.Position
	shown      screen.Position // what Output has returned so far; under mu, like rest
	rest       string          // of a send that is over: what Output has not returned
	restCut    bool
	before     backend.Wait // who waited before the input was typed
	left       bool         // that wait was left since
	typed      bool         // the write has begun
	typedTime  time.Time
	written    bool // the write is over
	consumable bool // it left something to read
	marked     bool // a prompt mark came since it began
	continued  bool // the newest is a continuation
}

type mark struct {
	dialect.Mark
	set bool
}

func newOperation(kind opKind) *operation {
	now := time.Now()
	return &operation{kind: kind, began: now, bell: make(chan struct{}), end: make(chan struct{}), lastOutput: now}
}

// ring tells whoever waits that there is news. The caller holds mu.
func (op *operation) ring() {
	close(op.bell)
	op.bell = make(chan struct{})
}

// ended tells whether op is over.
func (op *operation) ended() bool {
	select {
	case <-op.end:
		return true
	default:
		return false
	}
}

// finish ends op. The caller holds feeding.
func (s *session) finish(op *operation) {
	for _, f := range op.files {
		os.Remove(filepath.Join(s.dir, f))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !op.over {
		s.end(op)
	}
}

// end marks op as over and frees the session, unless a write or a signal of op
// is in flight: settle does it then. The caller holds feeding and mu.
func (s *session) end(op *operation) {
	op.over = true
	s.probe.Stop()
	close(op.end)
	op.ring()
	if a := s.answering; a != nil && a.answers == op && !a.over {
		reason := terminals.StdinRead // the shell is back at its prompt
		if op.result.State == terminals.ShellEnded {
			reason = terminals.SessionExit
		}
		s.concludeSend(a, reason, nil)
	}
	s.free(op)
}

// beginSettling announces a signal of op, which the session stays reserved for.
// It is false when op is over or about to be.
func (s *session) beginSettling(op *operation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if op.over || op.sealed {
		return false
	}
	op.settling++
	return true
}

// settle ends what beginSettling announced.
func (s *session) settle(op *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op.settling--
	s.free(op)
}

// free lets the session take another operation once op is over and settled. The
// caller holds mu.
func (s *session) free(op *operation) {
	switch {
	case !op.over || op.settling > 0:
	case s.answering == op:
		s.answering = nil
		s.free(op.answers)
	case s.op == op && s.answering == nil:
		s.op = nil
	}
}

// seal is called before op completes: from then on it signals nobody, who might
// be the next command. It is false while a signal is in flight, or the write of
// an answer, of which the shell would get the rest.
func (s *session) seal(op *operation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.answering; a != nil && a.settling > 0 {
		if !a.written && !a.late && time.Since(op.markTime) > refuteAfter {
			a.late, a.outrun = true, true // the rest is read by nobody
			a.cancel(errLate)
		}
		return false
	}
	op.sealed = op.settling == 0
	return op.sealed
}

// settleExit ends op because the program ended or the session closes. The
// caller holds feeding.
func (s *session) settleExit(op *operation) {
	if op.kind == opCommand {
		if op.prompt.set {
			op.pending = s.shell.Noise(dialect.Done, op.pending)
		}
		s.releaseAll(op)
		op.result = terminals.CommandResult{State: terminals.ShellEnded, Interrupted: op.interrupted.Load(), Status: s.Status()}
	}
	if op.kind == opSend {
		s.finishSend(op, terminals.SessionExit, nil)
		return
	}
	s.finish(op)
}

// write takes a command's raw output.
func (op *operation) write(s *session, p []byte) {
	op.received += int64(len(p))
	switch {
	case !op.started.Load():
		op.head = append(op.head, p...)
		if len(op.head) > maxPending {
			op.begin(s)
		}
	case op.answer.set && !op.prompted:
		op.aside = append(op.aside, p...)
	case op.done.set || op.prompt.set:
		op.pending = append(op.pending, p...)
		if len(op.pending) > maxPending && op.challenge == 0 {
			s.release(op)
		}
	default:
		op.emit(s, p)
	}
}

// begin accepts that no start mark comes: what came is output.
func (op *operation) begin(s *session) {
	op.started.Store(true)
	if head := s.shell.Noise(dialect.Start, op.head); len(head) > 0 {
		op.emit(s, head)
	}
	op.head = nil
}

// What a shell's machinery prints after a program is no longer than this; after
// an interrupt it may end in a marker that was torn, with a path in it.
const (
	longestTrailer = 256
	longestTorn    = 5 << 10
)

// emit hands output on, but for an end that may be the shell's own.
func (op *operation) emit(s *session, p []byte) {
	if len(op.held) > 0 {
		p = append(op.held, p...)
		op.held = nil
	}
	tail, interrupted := p[max(0, len(p)-longestTrailer):], op.interrupted.Load()
	if interrupted {
		// Whether a newline ends a line of text is told by what came before it.
		tail = slices.Concat(op.recent, p[max(0, len(p)-longestTorn):])
	}
	k := min(len(p), s.shell.Trailer(tail, interrupted))
	if k > 0 {
		op.held = append([]byte(nil), p[len(p)-k:]...)
		p = p[:len(p)-k]
	}
	shells := min(op.asking, len(p))
	op.asking -= shells
	if p = p[shells:]; len(p) == 0 {
		return
	}
	op.recent = append(op.recent[:0], p[len(p)-1])
	op.hand(p, op.received-int64(k))
}

// hand gives output, which ends at byte end of all output, to the sink, but for
// what sends have taken.
func (op *operation) hand(p []byte, end int64) {
	if op.sink == nil {
		return
	}
	from := end - int64(len(p))
	for len(op.seen) > 0 && op.seen[0].from < end {
		taken := op.seen[0]
		if n := taken.from - from; n > 0 {
			op.sink(p[:n])
			p, from = p[n:], taken.from
		}
		if taken.to > end {
			return
		}
		if n := taken.to - from; n > 0 {
			p, from = p[n:], taken.to
		}
		op.seen = op.seen[1:]
	}
	if len(p) > 0 {
		op.sink(p)
	}
}

// release takes what came after a mark for output: no mark so far ended the
// command.
func (s *session) release(op *operation) {
	op.done, op.prompt = mark{}, mark{}
	if !op.started.Load() {
		return // all of it is in the head still
	}
	late := append(op.noise, op.pending...)
	op.noise, op.pending = nil, nil
	if len(late) > 0 {
		op.emit(s, late)
	}
}

// releaseAll gives out everything that was kept back, because no mark comes any
// more.
func (s *session) releaseAll(op *operation) {
	if !op.started.Load() {
		op.begin(s)
	}
	s.release(op)
	if own := op.held[op.asking:]; len(own) > 0 {
		op.hand(own, op.received)
	}
	op.held, op.asking = nil, 0
}

// mark takes a marker that came while op is active.
func (op *operation) mark(s *session, m dialect.Mark) {
	switch op.kind {
	case opStart:
		if m.Kind == dialect.Done || m.Kind == dialect.Prompt {
			op.prompt = mark{m, true}
			if m.HasCwd {
				s.last.Cwd, s.last.HasCwd = m.Cwd, true
			}
		}
		return
	case opSend:
		// While input lies unread the prompt is older than it, and the one that
		// answers it is still to come.
		if op.typed && (m.Kind == dialect.Prompt || m.Kind == dialect.Continuation) && !s.inputPending() {
			op.marked, op.continued = true, m.Kind == dialect.Continuation
		}
		return
	}
	if op.challenge != 0 {
		// Whoever prints another number did not see the question.
		if m.Seq == op.challenge && (m.Kind == dialect.Done || m.Kind == dialect.Prompt && !op.answer.set) {
			op.answer, op.markTime = mark{m, true}, time.Now()
		}
		if m.Seq == op.challenge && m.Kind == dialect.Prompt {
			op.pending = append(op.pending, s.shell.Noise(dialect.Prompt, op.aside)...)
			op.aside, op.prompted = nil, true
		}
		if m.Seq == op.seq && m.Kind == dialect.Prompt && op.done.set && !op.prompt.set && !op.answer.set {
			// The prompt before the question, read late. What came after it is
			// kept apart from what its own text explains.
			op.noise, op.pending = op.pending, nil
			op.prompt = mark{m, true}
		}
		return
	}
	switch {
	case m.Kind == dialect.Start:
		if m.Seq != op.seq {
			return
		}
	case m.Seq != op.seq && (m.Seq != 0 || !op.running):
		// The mark of an earlier command: the prompt that this one was typed
		// at, or a shell that came back without running it. Or somebody else's.
		if m.Kind == dialect.Prompt && !op.started.Load() {
			op.head = s.shell.Noise(dialect.Prompt, op.head)
		}
		return
	case m.Seq != op.seq || !op.running:
		op.suspect = true
	}
	op.markTime = time.Now()
	switch m.Kind {
	case dialect.Start:
		if op.started.Load() {
			op.suspect = true
			return
		}
		if rest := s.shell.Noise(dialect.Start, op.head); len(rest) > 0 {
			s.mu.Lock()
			if s.trimNewline {
				rest = bytes.TrimPrefix(rest, []byte{'\n'})
			}
			op.early = rest
			s.mu.Unlock()
		}
		op.head = nil
		op.done, op.prompt = mark{}, mark{} // of before: the shell's are to come
		op.started.Store(true)
		op.running = true
	case dialect.Done:
		s.mu.Lock()
		op.markedAt = op.markTime
		s.mu.Unlock()
		if op.done.set || op.prompt.set {
			op.suspect = true
			s.release(op) // the earlier one ended nothing
		}
		op.done = mark{m, true}
	case dialect.Prompt:
		switch {
		case op.prompt.set:
			op.suspect = true
			s.release(op)
		case op.done.set:
			op.noise, op.pending = op.pending, nil
		}
		op.prompt = mark{m, true}
	}
}

// complete ends a command whose shell is back at its prompt. The caller holds
// feeding.
func (s *session) complete(op *operation) {
	if !op.started.Load() {
		op.begin(s)
	}
	final := op.done
	if !final.set {
		final = op.prompt
	}
	m := final.Mark
	switch {
	case op.answer.set:
		m = op.answer.Mark
	case op.challenge != 0:
		m = dialect.Mark{} // it did not answer: better unknown than forged
	}
	interrupted := op.interrupted.Load()
	if interrupted {
		m = s.shell.Interrupted(m)
	}
	var late []byte
	switch {
	case op.done.set && op.prompt.set:
		late = append(s.shell.Noise(dialect.Prompt, op.noise), op.pending...)
	case op.done.set:
		late = s.shell.Noise(dialect.Prompt, op.pending)
		if !op.prompted {
			late = nil // of a prompt that is not the shell's own, which nobody sees
		}
	default:
		late = op.pending
	}
	if op.answer.set && !op.prompted {
		s.shell.Noise(dialect.Prompt, op.aside) // no mark of the prompt ended it
	}
	if !m.HasCwd {
		m.Cwd, m.HasCwd = s.last.Cwd, s.last.HasCwd
		if cwd, err := s.dev.Cwd(); err == nil {
			m.Cwd, m.HasCwd = cwd, true
		}
	}
	res := terminals.CommandResult{State: terminals.Completed, Interrupted: interrupted, Level: m.Level, Cwd: m.Cwd}
	if !m.HasStatus {
		m.Status = s.last.Status
	} else {
		res.ExitCode = &m.Status
	}
	if interrupted {
		res.NeedsInput = op.hit
	}
	taken := s.activeAnswer()
	s.mu.Lock()
	if len(late) > 0 && (taken == nil || !taken.typed) {
		s.keepUnsolicited(late)
	}
	s.trimNewline = interrupted
	s.last, s.repair = m, !op.done.set
	s.mu.Unlock()
	op.result = res
	s.finish(op)
}
