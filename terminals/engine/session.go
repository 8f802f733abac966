package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/dialect"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/screen"
)

const (
	// readBuffer is one read. A terminal hands out at most 4 KiB at a time on
	// most systems, and every idle session holds one.
	readBuffer = 8 << 10

	// maxUnsolicited bounds what is kept of output that no command asked for.
	maxUnsolicited = 256 << 10
)

var errStartTimeout = errors.New("the shell did not become ready in time")

// session is one live terminal.
//
// Locks: feeding is held while a chunk of output is processed, sinks included,
// and while a probe decides; whoever holds it sees all output up to now
// accounted for. mu guards the fields and is never held while calling out.
// feeding is taken before mu.
type session struct {
	cfg     Config
	dev     backend.Device
	shell   dialect.Shell // under feeding
	launch  dialect.Launch
	split   *screen.Splitter // the read goroutine's
	dir     string
	remove  func() error // dir, and what was prepared for the start
	path    string       // the shell's file, for messages
	command bool
	// language is the dialect's name, for messages.
	language string
	markers  bool // the shell prints markers
	exact    bool // a blocked read can be proved
	maxLine  int  // of canonical input; 0: no limit
	log      *slog.Logger

	feeding   sync.Mutex
	mu        sync.Mutex
	scr       *screen.Screen
	op        *operation // the active send or command
	answering *operation // the send that answers a program of the active command
	probe     *time.Timer

	fed         int64        // bytes of output that were processed; under feeding
	seq         uint64       // of the last command
	last        dialect.Mark // of the last command that completed
	repair      bool         // the shell's own hook did not run: have it repaired
	promptSite  backend.Site // where the shell waits at its prompt
	unprompted  bool         // the last prompt had no mark: somebody replaced it
	stalled     backend.Wait // how the last probe saw the shell wait for an answer of the terminal
	stalledAt   time.Time    // since when, or its newest answer
	unsolicited []byte
	lost        int64
	trimNewline bool // an interrupt may have hit the prompt: its newline is not output
	startup     string

	missed    atomic.Bool // the timer found feeding taken
	closing   atomic.Bool
	status    terminals.Status
	exited    chan struct{} // the program has ended and its output is drained
	readDone  chan struct{}
	closeOnce sync.Mutex // one teardown at a time
}

func (s *session) PID() int { return s.dev.PID() }

func (s *session) Exited() <-chan struct{} { return s.exited }

func (s *session) Startup() string { return s.startup }

func (s *session) Status() terminals.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *session) Read(offset, count int) (terminals.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scr.Page(offset, count, s.cfg.MaxReadBytes)
}

func (s *session) Signal(ctx context.Context, sig terminals.Signal) (int, error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	deliver := s.dev.Signal
	if d, ok := s.dev.(backend.ProgramSignaler); ok && s.command && sig != terminals.SIGINT && sig != terminals.SIGTSTP {
		deliver = d.SignalProgram // a shell for commands is closed, not signalled
	}
	pgid, err := deliver(ctx, string(sig))
	if errors.Is(err, backend.ErrUnsupported) {
		err = &terminals.Error{Code: terminals.Unsupported, Message: fmt.Sprintf("%s cannot be delivered here", sig), Err: err}
	}
	return pgid, err
}

func (s *session) Unsolicited() ([]byte, int64) {
	s.catchUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trimUnsolicited()
	data, lost := s.unsolicited, s.lost
	s.unsolicited, s.lost = nil, 0
	return data, lost
}

// catchUpWithin bounds how long output that is there already is waited for;
// processes that never stop writing would make it for ever.
const catchUpWithin = 20 * time.Millisecond

// catchUp lets the reader take what the terminal holds.
func (s *session) catchUp() {
	for start := time.Now(); time.Since(start) < catchUpWithin; runtime.Gosched() {
		if n, err := s.dev.PendingOutput(); err != nil || n == 0 {
			return
		}
	}
}

// usable says why the session takes no input.
func (s *session) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal()
}

// refusal is usable for a caller that holds mu.
func (s *session) refusal() error {
	if s.closing.Load() {
		return &terminals.Error{Code: terminals.SessionClosing, Message: "the session is closing; open a new one"}
	}
	if st := s.status; st.Exited {
		return &terminals.Error{Code: terminals.SessionExited, Message: "the session has exited (" + describe(st) + "); close it and open a new one"}
	}
	return nil
}

func describe(st terminals.Status) string {
	switch {
	case st.Signal != "":
		return "killed by " + st.Signal
	case st.ExitCode != nil:
		return fmt.Sprintf("code %d", *st.ExitCode)
	}
	return "code unknown"
}

// start reads the terminal and returns when the shell is at its first prompt.
// ctx is the caller's, startCtx adds the time limit.
func (s *session) start(ctx, startCtx context.Context) error {
	op := newOperation(opStart)
	s.op = op
	go s.readLoop()
	s.schedule(0)
	select {
	case <-op.end:
	case <-startCtx.Done():
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if startCtx.Err() != nil && !op.ended() {
		return fmt.Errorf("%s: no prompt within %d ms (timeoutMs); it printed: %s%s", s.cfg.Type, s.cfg.Timeout.Milliseconds(), s.printed(), s.advice())
	}
	if st := s.Status(); st.Exited {
		return fmt.Errorf("%s: %s exited during its start-up (%s); it printed: %s%s", s.cfg.Type, s.path, describe(st), s.printed(), s.advice())
	}
	if s.cfg.Init != "" {
		if err := s.runInit(ctx, startCtx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if !s.command { // else what the initial program printed
		s.startup, _ = s.scr.Text(screen.Position(0), s.cfg.MaxReadBytes)
	}
	s.unsolicited, s.lost = nil, 0
	s.mu.Unlock()
	return nil
}

// runInit runs the configured initial program. One that fails does not make the
// shell useless: it is logged.
func (s *session) runInit(ctx, startCtx context.Context) error {
	const enough = 2000
	out := screen.New(screen.Config{Lines: enough, Bytes: enough, MaxSequence: enough})
	run, err := s.startCommand(startCtx, terminals.CommandRequest{Text: s.cfg.Init, Sink: out.Write})
	if err != nil {
		return fmt.Errorf("%s: init: %w", s.cfg.Type, err)
	}
	res, err := run.Wait(startCtx)
	printed := func() string {
		s.feeding.Lock() // the sink has it otherwise
		defer s.leave()
		if text, _ := out.Text(screen.Position(0), enough); text != "" {
			return text
		}
		return "nothing"
	}
	switch {
	case err != nil:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("%s: init did not end within %d ms (timeoutMs); it printed: %s", s.cfg.Type, s.cfg.Timeout.Milliseconds(), printed())
	case res.State == terminals.ShellEnded:
		return fmt.Errorf("%s: init ended the shell (%s); it printed: %s", s.cfg.Type, describe(res.Status), printed())
	case res.State == terminals.Waiting:
		return fmt.Errorf("%s: init waits for input (%s), which nobody can give; it printed: %s", s.cfg.Type, res.NeedsInput.Program, printed())
	case res.State != terminals.Completed || res.NotStarted:
		return fmt.Errorf("%s: init left the shell unusable", s.cfg.Type)
	}
	s.feeding.Lock()
	s.startup, _ = out.Text(screen.Position(0), enough)
	if !s.command {
		// A person sees what it printed and the prompt after it, not how it was
		// handed to the shell.
		s.mu.Lock()
		prompt, _ := s.scr.Text(run.op.doneAt, s.cfg.MaxReadBytes)
		s.scr.Restart(s.startup + prompt)
		s.mu.Unlock()
	}
	s.leave()
	if res.ExitCode != nil && *res.ExitCode != 0 {
		s.log.Warn("init failed; the shell is used nonetheless", "type", s.cfg.Type, "exitCode", *res.ExitCode, "printed", printed())
	}
	return nil
}

// advice ends a start-up's error: the most frequent cause.
func (s *session) advice() string {
	if !s.markers {
		return ""
	}
	return fmt.Sprintf("; if %s is no %s, set shellPath to one", s.path, s.language)
}

// printed is the end of the start-up output, for an error.
func (s *session) printed() string {
	const enough = 2000
	s.mu.Lock()
	defer s.mu.Unlock()
	text, _ := s.scr.Text(screen.Position(0), enough)
	if text == "" {
		return "nothing"
	}
	return text
}

// rollBack ends what a failed start left.
func (s *session) rollBack(ctx context.Context, cause error) error {
	// The caller's context may be over; the roll-back is not its to cancel.
	if err := s.Close(context.WithoutCancel(ctx), "start rolled back"); err != nil {
		return &terminals.Error{Code: terminals.CleanupFailed, Message: "the start failed and could not be rolled back", Err: errors.Join(cause, err)}
	}
	return cause
}

// Close ends the process tree. See [terminals.Session].
func (s *session) Close(ctx context.Context, reason string) error {
	s.mu.Lock()
	s.closing.Store(true) // under mu: nothing is reserved from here on
	s.mu.Unlock()
	s.closeOnce.Lock()
	defer s.closeOnce.Unlock()
	s.log.Debug("closing", "reason", reason)
	if ch := s.dev.Channel(); ch != nil {
		ch.Close()
	}
	err := s.dev.Terminate(ctx, s.cfg.DisposeGrace)
	if err == nil {
		select {
		case <-s.readDone:
		case <-ctx.Done(): // a sink that blocks holds the reader
			return &terminals.Error{Code: terminals.CleanupFailed, Err: context.Cause(ctx),
				Message: "the session's processes have ended but its output is still being read; close it again"}
		}
	}
	s.feeding.Lock()
	if op := s.active(); op != nil {
		s.settleExit(op)
	}
	s.leave()
	if err == nil { // else something may use it still
		err = s.remove()
	}
	if err != nil {
		return &terminals.Error{Code: terminals.CleanupFailed, Message: "the session could not be closed; close it again", Err: err}
	}
	return nil
}

// readLoop is the session's one goroutine.
func (s *session) readLoop() {
	defer close(s.readDone)
	buf := make([]byte, readBuffer)
	for {
		n, err := s.dev.Read(buf)
		if n > 0 {
			s.feeding.Lock()
			s.feed(buf[:n])
			s.dev.Consumed()
			s.decide(true)
			s.leave()
		}
		if err != nil {
			if err != io.EOF {
				s.log.Warn("terminal read", "error", err)
			}
			break
		}
	}
	// The last byte was read. The program may still be about to end: a program
	// can close its terminal first.
	<-s.dev.Exited()
	s.feeding.Lock()
	defer s.leave()
	s.split.Flush(s.text)
	st := s.dev.ExitStatus()
	s.mu.Lock()
	s.scr.Flush()
	s.status = terminals.Status{Exited: true, ExitCode: st.Code, Signal: st.Signal}
	s.mu.Unlock()
	close(s.exited)
	if op := s.active(); op != nil {
		s.settleExit(op)
	}
}

func (s *session) active() *operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.op == nil || s.op.over { // over, but a signal of it is in flight
		return nil
	}
	return s.op
}

// feed takes one chunk apart. The caller holds feeding.
func (s *session) feed(p []byte) {
	s.fed += int64(len(p))
	if op := s.active(); op != nil {
		s.mu.Lock()
		op.lastOutput = time.Now()
		if s.answering != nil {
			s.answering.lastOutput = op.lastOutput
		}
		s.mu.Unlock()
		op.probes = 0
	}
	s.split.Write(p, s.text, s.mark)
	s.answer()
}

// text takes output that holds no marker.
func (s *session) text(p []byte) {
	s.mu.Lock()
	s.scr.Write(p)
	op := s.op
	if op == nil || op.over {
		op = nil
		s.keepUnsolicited(p)
	}
	s.mu.Unlock()
	if op != nil && op.kind == opCommand {
		op.write(s, p)
	}
}

// keepUnsolicited keeps the newest of what nobody asked for. The caller holds mu.
func (s *session) keepUnsolicited(p []byte) {
	if !s.command {
		return // an interactive session keeps it in its scrollback
	}
	if s.trimNewline {
		s.trimNewline = false
		if p[0] == '\n' {
			p = p[1:]
		}
	}
	s.unsolicited = append(s.unsolicited, p...)
	if len(s.unsolicited) > 2*maxUnsolicited { // not at every chunk: a copy costs
		s.trimUnsolicited()
	}
}

// trimUnsolicited drops the oldest of it. The caller holds mu.
func (s *session) trimUnsolicited() {
	if over := len(s.unsolicited) - maxUnsolicited; over > 0 {
		s.lost += int64(over)
		s.unsolicited = s.unsolicited[:copy(s.unsolicited, s.unsolicited[over:])]
	}
}

// mark takes one authentic marker.
func (s *session) mark(payload []byte) {
	m, ok := s.shell.Mark(payload)
	if !ok {
		return
	}
	op := s.active()
	if op == nil {
		return
	}
	if m.Kind == dialect.Prompt || m.Kind == dialect.Continuation || op.kind == opStart {
		s.mu.Lock()
		s.scr.Flush() // what a program left unfinished must not swallow the prompt
		op.promptEnd = s.scr.End()
		s.mu.Unlock()
	}
	if m.Kind == dialect.Done {
		s.mu.Lock()
		op.doneAt = s.scr.End()
		s.mu.Unlock()
	}
	op.mark(s, m)
}

// answer replies to what programs ask of their terminal: once for each query,
// and not while an earlier answer lies unread, which no program asked for in
// vain.
func (s *session) answer() {
	s.mu.Lock()
	queries := s.scr.Queries()
	s.mu.Unlock()
	if len(queries) == 0 {
		return
	}
	if n, err := s.dev.PendingInput(); err == nil && n > 0 {
		return
	}
	if m, err := s.dev.Modes(); err == nil && m.Echo && (m.Canonical || !s.launch.AnswerQueries) {
		// A program that reads an answer turns the echo off first, and the shell
		// that asks by itself at least the lines. Here the sequence is only text
		// that happens to be a query, a file's perhaps, and the echo of an answer
		// would become output.
		return
	}
	for _, q := range queries {
		reply := q.Reply()
		if q.Kind == screen.CursorPosition && s.launch.AnswerQueries {
			reply = []byte(cursorReply)
			s.findAsking()
		}
		if len(reply) == 0 {
			continue
		}
		if err := s.reply(reply); err != nil {
			return
		}
	}
}

// findAsking tells the shell's own question at the end of a command's output from
// the same of a program: until it is answered the shell is blocked in a read with
// a limit, which it reaches within microseconds of asking.
func (s *session) findAsking() {
	op := s.active()
	if op == nil || op.kind != opCommand || len(op.held) == op.asking {
		return
	}
	for range askingProbes {
		w, err := s.dev.ShellWait()
		if err != nil {
			return
		}
		if w.State == backend.WaitReading && w.Timed && !w.Channel {
			op.asking = len(op.held)
			return
		}
		runtime.Gosched()
	}
}

// askingProbes bounds the search for the shell's question, to less than a
// millisecond: a program that asks is not kept waiting.
const askingProbes = 32

// cursorReply is the constant answer to a shell that asks by itself: the cursor
// is at 1;1, where no shell adds a newline.
const cursorReply = "\x1b[1;1R"

// reply types an answer. A full input queue must not stop the reader.
func (s *session) reply(p []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.PollInterval)
	defer cancel()
	_, err := s.dev.Write(ctx, p)
	return err
}
