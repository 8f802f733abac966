// Package tasks runs work in the background for the owners of terminals, and
// has the tools with which a model looks after it.
//
//   - A task belongs to one [terminals.Owner]. To anybody else it does not
//     exist.
//   - Its work has begun, and holds what it needs, before its id is minted; work
//     that could not begin uses no id.
//   - It ends once, as completed, killed or failed, and its owner is told once.
//   - An owner's disposal ends its tasks and forgets them.
//
// What the work is, is the caller's business: see [Work].
package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

// MaxFinished is how many finished tasks are kept for each owner. A model that
// has not looked at one after that many others will not; each may hold a
// viewport of output.
const MaxFinished = 32

// maxWords bounds a label, a detail and an id in a message: each is a part of
// one line.
const maxWords = 200

// ErrKilled is the cause with which [Runtime.Kill] cancels work.
var ErrKilled = errors.New("the task was killed")

// Work is what a task does. Its methods may be called from any goroutine.
type Work interface {
	// Done is closed when the work has ended.
	Done() <-chan struct{}
	// Output returns what came since the last call and whether its beginning
	// was dropped. It is bounded, and it does not block.
	Output() (text string, truncated bool)
	// Cancel asks the work to end, with cause as the error of its outcome. It
	// returns false when the work had ended.
	Cancel(cause error) bool
	// Outcome is valid after Done.
	Outcome() Outcome
}

// Outcome is how work ended.
type Outcome struct {
	Err    error    // nil: completed; ErrKilled: killed; else failed
	Detail string   // a few words for the status; empty: the error of failed work, else none
	Notes  []string // lines about the end that stand below the output
	Result any      // the same as structured content, an object; nil for none
}

// Status is the state of a task.
type Status string

// The states.
const (
	Running   Status = "running"
	Stopping  Status = "stopping" // it was asked to end
	Completed Status = "completed"
	Killed    Status = "killed" // it ended after it was asked to
	Failed    Status = "failed"
)

// Info describes a task.
type Info struct {
	TaskID string `json:"taskId"`
	Kind   string `json:"kind"`
	Label  string `json:"label"`
	Status Status `json:"status"`
	Detail string `json:"detail,omitempty"` // of the end
}

// status renders the status line's content.
func (i Info) status() string { return status(i.Status, i.Detail) }

func status(s Status, detail string) string {
	if detail == "" {
		return string(s)
	}
	return string(s) + ", " + detail
}

// words makes a text that somebody chose a part of one line.
func words(text string) string { return tool.OneLine(tool.Cut(text, maxWords, tool.KeepHead)) }

// Notice tells an owner that a task has ended.
type Notice struct {
	TaskID string `json:"taskId"`
	Status Status `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Text is the notice for a model.
func (n Notice) Text() string {
	return fmt.Sprintf("background task %s finished [status: %s]; read its output with %s", n.TaskID, status(n.Status, n.Detail), OutputTool)
}

// Config adapts a [Runtime]. The zero value is usable.
type Config struct {
	// MaxResultBytes bounds the text of each result of the tools; 64 or more.
	// Zero: 262144.
	MaxResultBytes int

	// Notify is called once for each task that ends while its owner is live,
	// after its end is visible, from a goroutine of the task. It may block. Nil:
	// nobody is told.
	Notify func(*terminals.Owner, Notice)

	// Logger gets every notice. Nil discards them.
	Logger *slog.Logger
}

// Runtime holds the tasks of all owners. It is safe for concurrent use, and has
// a goroutine for each task that runs and none besides.
type Runtime struct {
	max    int
	notify func(*terminals.Owner, Notice)
	log    *slog.Logger

	mu     sync.Mutex
	last   map[string]int // number of the last task of a kind
	owners map[*terminals.Owner]*ledger
}

// ledger is what one owner has. Its fields are guarded by Runtime.mu.
type ledger struct {
	tasks    []*task // in the order in which they began
	finished []*task // those that have ended, in that order
	disposed bool
}

// task is one task.
type task struct {
	id, kind, label string
	done            chan struct{} // closed when it has ended

	mu      sync.Mutex
	work    Work // nil when it has ended: it may hold a whole terminal
	status  Status
	outcome Outcome
	rest    string // what came to the end and nobody has read
	restCut bool
}

// New returns a runtime without tasks. It fails with
// [terminals.InvalidArgument].
func New(cfg Config) (*Runtime, error) {
	max, err := tool.ResultBytes(cfg.MaxResultBytes)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		max:    max,
		notify: cfg.Notify,
		log:    cfg.Logger,
		last:   map[string]int{},
		owners: map[*terminals.Owner]*ledger{},
	}
	if r.notify == nil {
		r.notify = func(*terminals.Owner, Notice) {}
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// Request describes a task to start.
type Request struct {
	Kind  string // the first part of the id
	Label string // what a list shows; control characters are taken out

	// Begin starts the work. ctx ends with the owner, not with the call that
	// starts the task.
	Begin func(ctx context.Context) (Work, error)
}

// Start begins work for owner and returns the task's id, "<kind>-<n>". It fails
// with [terminals.OwnerNotLive] and with the error of Begin; there is no task
// then.
func (r *Runtime) Start(owner *terminals.Owner, req Request) (id string, err error) {
	if owner == nil {
		return "", errOwnerNotLive()
	}
	l, err := r.ledger(owner)
	if err != nil {
		return "", err
	}
	work, err := req.Begin(owner.Context())
	if err != nil {
		return "", err
	}
	t := &task{kind: req.Kind, label: words(req.Label), done: make(chan struct{}), work: work, status: Running}
	r.mu.Lock()
	if l.disposed { // while the work began
		r.mu.Unlock()
		work.Cancel(errOwnerNotLive())
		return "", errOwnerNotLive()
	}
	r.last[t.kind]++
	t.id = t.kind + "-" + strconv.Itoa(r.last[t.kind])
	l.tasks = append(l.tasks, t)
	r.mu.Unlock()
	go r.follow(owner, l, t, work)
	return t.id, nil
}

// ledger returns what owner has, and has it forgotten with the owner.
func (r *Runtime) ledger(owner *terminals.Owner) (*ledger, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.owners[owner]; l != nil {
		return l, nil
	}
	if _, err := owner.OnDispose(func(ctx context.Context) error { return r.dispose(ctx, owner) }); err != nil {
		return nil, err
	}
	l := &ledger{}
	r.owners[owner] = l
	return l, nil
}

// follow waits for a task's end.
func (r *Runtime) follow(owner *terminals.Owner, l *ledger, t *task, work Work) {
	<-work.Done()
	info := t.end(work)
	r.mu.Lock()
	l.finished = append(l.finished, t)
	if len(l.finished) > MaxFinished {
		oldest := l.finished[0]
		l.finished = slices.Delete(l.finished, 0, 1)
		l.tasks = slices.DeleteFunc(l.tasks, func(other *task) bool { return other == oldest })
	}
	r.mu.Unlock()
	close(t.done)
	r.log.Info("background task finished", "task", t.id, "status", info.Status, "detail", info.Detail)
	if owner.Live() {
		r.notify(owner, Notice{TaskID: t.id, Status: info.Status, Detail: info.Detail})
	}
}

// end takes over what is left of the work that has ended.
func (t *task) end(work Work) Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcome = work.Outcome()
	t.rest, t.restCut = work.Output()
	t.work = nil
	switch err := t.outcome.Err; {
	case err == nil:
		t.status = Completed
	case errors.Is(err, ErrKilled):
		t.status = Killed
	default:
		t.status = Failed
		if t.outcome.Detail == "" {
			t.outcome.Detail = err.Error()
		}
	}
	t.outcome.Detail = words(t.outcome.Detail)
	return t.infoLocked()
}

func (t *task) info() Info {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.infoLocked()
}

func (t *task) infoLocked() Info {
	return Info{TaskID: t.id, Kind: t.kind, Label: t.label, Status: t.status, Detail: t.outcome.Detail}
}

// Output is what [Runtime.Output] returns.
type Output struct {
	Info
	Text      string   // what came since the last call
	Truncated bool     // its beginning was dropped
	Notes     []string // of a task that has ended: [Outcome.Notes]
	Result    any      // and [Outcome.Result]
}

// Output returns what owner's task has printed since the last call. With wait
// above zero it waits that long for the task to end; the end of ctx ends the
// wait, with its cause as the error, and leaves the task and its output alone.
// An unknown id, and one of another owner, fail with
// [terminals.InvalidArgument].
func (r *Runtime) Output(ctx context.Context, owner *terminals.Owner, id string, wait time.Duration) (Output, error) {
	t, err := r.task(owner, id)
	if err != nil {
		return Output{}, err
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-t.done:
		case <-timer.C:
		case <-ctx.Done():
			return Output{}, context.Cause(ctx)
		}
	}
	return t.output(), nil
}

func (t *task) output() Output {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := Output{Info: t.infoLocked(), Notes: t.outcome.Notes, Result: t.outcome.Result}
	if t.work != nil {
		out.Text, out.Truncated = t.work.Output()
		return out
	}
	out.Text, out.Truncated = t.rest, t.restCut
	t.rest, t.restCut = "", false
	return out
}

// Kill asks owner's task to end. It does not wait for that; requested is false
// when the task had ended already. It fails like [Runtime.Output].
func (r *Runtime) Kill(owner *terminals.Owner, id string) (info Info, requested bool, err error) {
	t, err := r.task(owner, id)
	if err != nil {
		return Info{}, false, err
	}
	info, requested = t.cancel(ErrKilled)
	if !requested {
		<-t.done // it is about to be
		info = t.info()
	}
	return info, requested, nil
}

// cancel asks the work to end; requested is false when it had ended.
func (t *task) cancel(cause error) (info Info, requested bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.work == nil || !t.work.Cancel(cause) {
		return Info{}, false
	}
	t.status = Stopping
	return t.infoLocked(), true
}

// List returns owner's tasks in the order in which they began: those that run
// and the last [MaxFinished] that have ended.
func (r *Runtime) List(owner *terminals.Owner) []Info {
	r.mu.Lock()
	var tasks []*task
	if l := r.owners[owner]; l != nil {
		tasks = slices.Clone(l.tasks)
	}
	r.mu.Unlock()
	infos := make([]Info, len(tasks))
	for i, t := range tasks {
		infos[i] = t.info()
	}
	return infos
}

// task returns owner's task.
func (r *Runtime) task(owner *terminals.Owner, id string) (*task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.owners[owner]; l != nil {
		for _, t := range l.tasks {
			if t.id == id {
				return t, nil
			}
		}
	}
	return nil, &terminals.Error{
		Code:    terminals.InvalidArgument,
		Message: fmt.Sprintf("there is no background task %q; %s shows yours", words(id), ListTool),
	}
}

// dispose ends and forgets what owner has.
func (r *Runtime) dispose(ctx context.Context, owner *terminals.Owner) error {
	r.mu.Lock()
	l := r.owners[owner]
	l.disposed = true
	delete(r.owners, owner)
	tasks := l.tasks
	r.mu.Unlock()
	for _, t := range tasks {
		t.cancel(context.Cause(owner.Context()))
	}
	var errs []error
	for _, t := range tasks {
		select {
		case <-t.done:
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("background task %s did not end: %w", t.id, context.Cause(ctx)))
		}
	}
	return errors.Join(errs...)
}

func errOwnerNotLive() *terminals.Error {
	return &terminals.Error{Code: terminals.OwnerNotLive, Message: "the owner of the task is not live; start tasks for a live one"}
}
