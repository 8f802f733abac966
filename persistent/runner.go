package persistent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/shellstead/shellstead/terminals"
)

// Runner runs commands in the shells of its owners. It is safe for concurrent
// use. It starts nothing by itself and needs no closing: the disposal of an
// owner or of the service ends the shells, calls in flight included.
type Runner struct {
	service *terminals.Service
	cfg     Config
	log     *slog.Logger

	mu     sync.Mutex
	owners map[*terminals.Owner]*ownerState
}

// Command is one command for an owner's shell.
type Command struct {
	Text string

	// Stream, when not nil, gets the exact output as it comes, from one
	// goroutine. The slice is valid during the call only. While it blocks the
	// program's output waits; the timeout and the context go on. No call of it
	// begins after Run has returned.
	Stream func([]byte)

	// Streamed says that Stream shows all of the output to whom it is for. What
	// the result retains of it is not told as clipped then, and not spilled.
	Streamed bool

	// Answer, when not nil, is asked for the input of a program that waits for
	// some, in Run's own goroutine, and may block: the timeout and the context go
	// on. Its answer is typed and the command goes on, until a program waits again.
	// False leaves the command waiting, as without Answer.
	Answer func(ctx context.Context, needs terminals.NeedsInput) (answer Answer, ok bool)

	// Timeout replaces the configured one when it is not zero.
	Timeout time.Duration

	// Placed, when not nil, is called once the command has its place among the
	// owner's: a later Run comes after it. It must not block. A command that
	// ends before it has a place never calls it.
	Placed func()
}

// Answer is what is typed for a program that waits for input.
type Answer struct {
	Text   string
	Submit bool // type the platform's Enter after it
}

// ownerState is what a Runner keeps for one owner. All but queue and spill
// belongs to the caller whose turn it is.
type ownerState struct {
	owner    *terminals.Owner
	queue    queue
	spill    spillFolder
	register sync.Once
	err      error // why there is no registration

	shell *shell // nil: the next command opens one

	// What the next result begins with, kept over calls whose command was never
	// given to a shell.
	notices     []string
	unsolicited tail
}

// shell is one live shell.
type shell struct {
	id      string
	session terminals.CommandSession
	cwd     string
	env     []string    // the managed environment that it has
	waiting *waitingRun // a program that was left waiting for input
}

type waitingRun struct {
	run   terminals.CommandRun
	out   *collector
	needs *terminals.NeedsInput

	interrupted bool // by a call that may have been cancelled since
}

// New returns a Runner that opens its shells through service. It fails when a
// setting is out of its range and names the key.
func New(service *terminals.Service, cfg Config) (*Runner, error) {
	if service == nil {
		return nil, errors.New("persistent: a terminal service is needed")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Runner{service: service, cfg: cfg, log: log, owners: map[*terminals.Owner]*ownerState{}}, nil
}

// Run runs cmd in owner's shell, after the owner's earlier calls, and starts
// the shell where there is none. Whatever happens is in the result; see
// [Result.Err] for the failures.
//
// When ctx or the owner ends before the command was given to the shell, nothing
// runs. Afterwards the program is interrupted, what it printed is kept, and the
// shell is reset unless it proves ready within a second. A program that waits
// for input ends the call but not the program: the next call interrupts it.
func (r *Runner) Run(ctx context.Context, owner *terminals.Owner, cmd Command) Result {
	if cmd.Timeout < 0 {
		return Refused(cmd.Text, fmt.Errorf("the timeout must be positive, got %d ms", cmd.Timeout.Milliseconds()))
	}
	c := &call{Runner: r, cmd: cmd, timeout: cmd.Timeout, result: Result{Command: cmd.Text}}
	if c.timeout == 0 {
		c.timeout = r.cfg.Timeout
	}
	ctx, leave, err := c.begin(ctx, owner)
	if err == nil {
		defer leave()
		if r.cfg.SessionID != nil {
			if id := r.cfg.SessionID(owner); id != "" {
				c.result.SessionID = &id
			}
		}
		err = c.deliver(ctx)
	}
	switch {
	case err == nil:
		c.await()
	case c.result.Reason == TimedOut: // while the command was being delivered
	case c.ownerEnded():
		c.cancelByOwner()
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		c.result.cancel(err)
	default:
		var failure *Error
		if !errors.As(err, &failure) {
			failure = newError(CodeShellFailed, err)
		}
		c.result.fail(failure)
	}
	c.render()
	return c.result
}

// Prestart starts owner's shell, if it has none, and lets it run one command
// that does nothing, so that the first real one finds everything loaded. It takes its
// turn like a call. A failure is not final: the first command tries again.
func (r *Runner) Prestart(ctx context.Context, owner *terminals.Owner) error {
	// A blank line is no command in any shell.
	c := &call{Runner: r, cmd: Command{Text: "\n"}, warmUp: true, timeout: r.cfg.Timeout}
	ctx, leave, err := c.begin(ctx, owner)
	if err != nil {
		return err
	}
	defer leave()
	if c.state.shell != nil {
		return nil
	}
	if err := c.deliver(ctx); err != nil {
		return err
	}
	c.await()
	// What the shell had to say at its start is news for the first command.
	c.state.notices = c.before
	c.state.keep(c.unsolicited, c.result.LostPrefix)
	c.state.keep([]byte(c.out.output()), 0)
	if c.result.Reason != Completed && c.result.Error == nil {
		return fmt.Errorf("persistent: the new shell did not run an empty command: %s", c.result.Reason)
	}
	return c.result.Err()
}

// stateOf returns the owner's state, made at its first call.
func (r *Runner) stateOf(owner *terminals.Owner) (*ownerState, error) {
	if owner == nil {
		return nil, &terminals.Error{Code: terminals.OwnerNotLive, Message: "a command needs an owner"}
	}
	r.mu.Lock()
	state := r.owners[owner]
	if state == nil {
		state = &ownerState{owner: owner}
		state.spill.parent = r.cfg.SpillDir
		state.unsolicited.limit = utf8.UTFMax * r.cfg.MaxOutputChars
		r.owners[owner] = state
	}
	r.mu.Unlock()

	state.register.Do(func() {
		_, state.err = owner.OnDispose(func(ctx context.Context) error { return r.forget(ctx, state) })
	})
	if state.err != nil {
		r.mu.Lock()
		delete(r.owners, owner)
		r.mu.Unlock()
	}
	return state, state.err
}

// forget drops the owner's state once its last call has ended.
func (r *Runner) forget(ctx context.Context, state *ownerState) error {
	r.mu.Lock()
	delete(r.owners, state.owner)
	r.mu.Unlock()

	if err := state.queue.enter(ctx); err != nil {
		return fmt.Errorf("persistent: a command has not ended: %w", err)
	}
	defer state.queue.leave()
	if r.cfg.KeepSpill {
		return nil
	}
	return state.spill.remove()
}

// keep adds output that no result has shown yet.
func (s *ownerState) keep(data []byte, lost int64) {
	s.unsolicited.dropped += lost
	s.unsolicited.add(data)
}

// takeUnsolicited returns the newest max characters of what was kept, and how
// many bytes came before them.
func (s *ownerState) takeUnsolicited(max int) (data []byte, lost int64) {
	kept := &s.unsolicited
	at := lastChars(kept.buf, int64(max))
	data, lost = kept.buf[at:], kept.dropped+int64(at)
	kept.buf, kept.dropped = nil, 0
	return data, lost
}

// cwd is where the owner's fresh shells start.
func (s *ownerState) cwd() string {
	if dir := s.owner.Cwd(); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return "the working directory"
	}
	return dir
}
