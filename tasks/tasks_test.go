package tasks_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "run go test ./tasks -run Golden -update if this is meant")
}

// job is work that a test prints for and ends. It ends by itself when it is
// cancelled, unless it is stubborn.
type job struct {
	stubborn bool

	mu      sync.Mutex
	unread  string
	cut     bool
	cause   error // of the cancellation
	outcome tasks.Outcome
	done    chan struct{}
}

func newJob() *job { return &job{done: make(chan struct{})} }

func (j *job) Done() <-chan struct{} { return j.done }

func (j *job) Output() (string, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	text, cut := j.unread, j.cut
	j.unread, j.cut = "", false
	return text, cut
}

func (j *job) Cancel(cause error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.done:
		return false
	default:
	}
	j.cause = cause
	if !j.stubborn {
		j.endLocked(tasks.Outcome{Err: cause})
	}
	return true
}

func (j *job) Outcome() tasks.Outcome {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.outcome
}

func (j *job) print(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unread += text
}

func (j *job) end(o tasks.Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.endLocked(o)
}

func (j *job) endLocked(o tasks.Outcome) {
	j.outcome = o
	close(j.done)
}

// fixture is a runtime with one owner.
type fixture struct {
	*tasks.Runtime
	t       *testing.T
	service *terminals.Service
	owner   *terminals.Owner
	log     bytes.Buffer

	mu      sync.Mutex
	notices []tasks.Notice
}

func newFixture(t *testing.T, cfg tasks.Config) *fixture {
	t.Helper()
	f := &fixture{t: t, service: terminals.NewService(terminals.Options{CloseTimeout: 5 * time.Second})}
	if cfg.Notify == nil {
		cfg.Notify = func(owner *terminals.Owner, n tasks.Notice) {
			f.mu.Lock()
			defer f.mu.Unlock()
			assert.Same(t, f.owner, owner)
			f.notices = append(f.notices, n)
		}
	}
	cfg.Logger = slog.New(slog.NewTextHandler(&f.log, nil))
	var err error
	f.Runtime, err = tasks.New(cfg)
	require.NoError(t, err)
	f.owner = f.newOwner("agent")
	return f
}

func (f *fixture) newOwner(name string) *terminals.Owner {
	f.t.Helper()
	o, err := f.service.NewOwner(terminals.OwnerOptions{Name: name})
	require.NoError(f.t, err)
	return o
}

// start starts j as a task of kind "job".
func (f *fixture) start(j *job) string {
	f.t.Helper()
	id, err := f.Start(f.owner, tasks.Request{Kind: "job", Label: "make all", Begin: begin(j)})
	require.NoError(f.t, err)
	return id
}

func begin(j *job) func(context.Context) (tasks.Work, error) {
	return func(context.Context) (tasks.Work, error) { return j, nil }
}

func (f *fixture) output(id string, wait time.Duration) tasks.Output {
	f.t.Helper()
	out, err := f.Output(f.t.Context(), f.owner, id, wait)
	require.NoError(f.t, err)
	return out
}

func ids(infos []tasks.Info) (ids []string) {
	for _, i := range infos {
		ids = append(ids, i.TaskID)
	}
	return ids
}

func TestTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		id := f.start(j)
		assert.Equal(t, "job-1", id)
		running := tasks.Info{TaskID: id, Kind: "job", Label: "make all", Status: tasks.Running}
		assert.Equal(t, tasks.Output{Info: running}, f.output(id, 0))
		j.print("one\n")
		j.print("two\n")
		assert.Equal(t, "one\ntwo\n", f.output(id, 0).Text)
		assert.Equal(t, "", f.output(id, 0).Text, "what came since the last call")
		j.print("three\n")
		assert.Equal(t, []tasks.Info{running}, f.List(f.owner))
		j.end(tasks.Outcome{Detail: "it is\ndone", Notes: []string{"[note]"}, Result: 5})
		synctest.Wait()

		ended := running
		ended.Status, ended.Detail = tasks.Completed, "it is done"
		want := tasks.Output{Info: ended, Text: "three\n", Notes: []string{"[note]"}, Result: 5}
		assert.Equal(t, want, f.output(id, time.Hour), "an end is not waited for")
		want.Text = ""
		assert.Equal(t, want, f.output(id, 0))
		assert.Equal(t, []tasks.Info{ended}, f.List(f.owner))
		_, requested, err := f.Kill(f.owner, id)
		require.NoError(t, err)
		assert.False(t, requested)
		assert.Equal(t, []tasks.Notice{{TaskID: id, Status: tasks.Completed, Detail: "it is done"}}, f.notices)
		assert.Equal(t, "background task job-1 finished [status: completed, it is done]; read its output with task_output", f.notices[0].Text())
		assert.Contains(t, f.log.String(), `task=job-1 status=completed detail="it is done"`)
		assert.NotContains(t, f.log.String(), "make all", "a label may be a secret that was typed")
	})
}

func TestTaskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		id := f.start(j)
		j.end(tasks.Outcome{Err: errors.New(strings.Repeat("the device is gone\n", 1000))})
		synctest.Wait()
		out := f.output(id, 0)
		assert.Equal(t, tasks.Failed, out.Status)
		assert.True(t, strings.HasPrefix(out.Detail, "the device is gone the device"), out.Detail)
		assert.LessOrEqual(t, len(f.notices[0].Text()), 300, "a notice is short")
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		id := f.start(j)
		j.print("one\n")
		began := time.Now()
		out := f.output(id, 3*time.Second)
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Equal(t, tasks.Running, out.Status, "a wait that is over says nothing about the task")
		assert.Equal(t, "one\n", out.Text)

		time.AfterFunc(time.Second, func() { j.print("two\n"); j.end(tasks.Outcome{}) })
		out = f.output(id, time.Hour)
		assert.Equal(t, 4*time.Second, time.Since(began))
		assert.Equal(t, tasks.Completed, out.Status)
		assert.Equal(t, "two\n", out.Text)
	})
}

// The end of a wait leaves the task and its output alone.
func TestCancelledWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		id := f.start(j)
		j.print("one\n")
		stop := errors.New("the user pressed stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		_, err := f.Output(ctx, f.owner, id, time.Hour)
		assert.Same(t, stop, err)
		out := f.output(id, 0)
		assert.Equal(t, tasks.Running, out.Status)
		assert.Equal(t, "one\n", out.Text)
		assert.NoError(t, j.cause)
		j.end(tasks.Outcome{})
	})
}

func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		j.stubborn = true
		id := f.start(j)
		for range 2 { // the second one asks again
			info, requested, err := f.Kill(f.owner, id)
			require.NoError(t, err)
			assert.True(t, requested)
			assert.Equal(t, tasks.Stopping, info.Status)
		}
		assert.Equal(t, tasks.Stopping, f.output(id, time.Second).Status)
		assert.Same(t, tasks.ErrKilled, j.cause)
		assert.Empty(t, f.notices)
		j.end(tasks.Outcome{Err: fmt.Errorf("ended: %w", j.cause)})
		synctest.Wait()
		assert.Equal(t, tasks.Output{Info: tasks.Info{TaskID: id, Kind: "job", Label: "make all", Status: tasks.Killed}}, f.output(id, 0))
		assert.Equal(t, []tasks.Notice{{TaskID: id, Status: tasks.Killed}}, f.notices)
	})
}

// Reference 3.3 #87: work that cannot begin leaves no task and uses no id.
func TestStartFails(t *testing.T) {
	f := newFixture(t, tasks.Config{})
	busy := errors.New("the session is busy")
	_, err := f.Start(f.owner, tasks.Request{Kind: "job", Begin: func(context.Context) (tasks.Work, error) { return nil, busy }})
	assert.Same(t, busy, err)
	assert.Empty(t, f.List(f.owner))
	j := newJob()
	assert.Equal(t, "job-1", f.start(j))
	j.end(tasks.Outcome{})
}

func TestIDs(t *testing.T) {
	f := newFixture(t, tasks.Config{Notify: func(*terminals.Owner, tasks.Notice) {}})
	other := f.newOwner("other")
	for _, start := range []struct {
		owner *terminals.Owner
		kind  string
		want  string
	}{{f.owner, "job", "job-1"}, {other, "job", "job-2"}, {f.owner, "chore", "chore-1"}, {f.owner, "job", "job-3"}} {
		j := newJob()
		id, err := f.Start(start.owner, tasks.Request{Kind: start.kind, Begin: begin(j)})
		require.NoError(t, err)
		assert.Equal(t, start.want, id)
		j.end(tasks.Outcome{})
	}
	assert.Equal(t, []string{"job-1", "chore-1", "job-3"}, ids(f.List(f.owner)))
}

func TestForeignTask(t *testing.T) {
	f := newFixture(t, tasks.Config{})
	j := newJob()
	id := f.start(j)
	j.print("mine\n")
	for name, stranger := range map[string]*terminals.Owner{"another owner": f.newOwner("agent"), "no owner": nil} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Output(t.Context(), stranger, id, 0)
			assert.ErrorIs(t, err, terminals.InvalidArgument)
			assert.EqualError(t, err, `there is no background task "job-1"; task_list shows yours`, "as for an unknown one")
			_, _, err = f.Kill(stranger, id)
			assert.ErrorIs(t, err, terminals.InvalidArgument)
			assert.Empty(t, f.List(stranger))
		})
	}
	assert.Equal(t, "mine\n", f.output(id, 0).Text)
	j.end(tasks.Outcome{})
}

func TestOldTasksAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		long := newJob()
		first := f.start(long)
		for range tasks.MaxFinished + 5 {
			j := newJob()
			f.start(j)
			j.end(tasks.Outcome{})
			synctest.Wait()
		}
		list := ids(f.List(f.owner))
		assert.Len(t, list, tasks.MaxFinished+1)
		assert.Equal(t, []string{first, "job-7"}, list[:2], "the ones that ended first go")
		long.end(tasks.Outcome{})
		synctest.Wait()
		assert.Equal(t, first, ids(f.List(f.owner))[0], "the one that ended last stays")
		assert.Len(t, f.List(f.owner), tasks.MaxFinished)
		_, err := f.Output(t.Context(), f.owner, "job-2", 0)
		assert.ErrorIs(t, err, terminals.InvalidArgument)
	})
}

func TestDisposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		running, ended := newJob(), newJob()
		id := f.start(running)
		f.start(ended)
		ended.end(tasks.Outcome{})
		synctest.Wait()
		var began context.Context
		_, err := f.Start(f.owner, tasks.Request{Kind: "job", Begin: func(ctx context.Context) (tasks.Work, error) {
			began = ctx
			return nil, errors.New("busy")
		}})
		require.Error(t, err)
		require.NoError(t, began.Err())
		waiting := make(chan tasks.Output, 1)
		go func() { waiting <- f.output(id, time.Hour) }()
		synctest.Wait()

		require.NoError(t, f.service.DisposeOwner(t.Context(), f.owner))

		assert.ErrorIs(t, running.cause, terminals.OwnerNotLive)
		assert.Equal(t, tasks.Failed, (<-waiting).Status)
		assert.ErrorIs(t, context.Cause(began), terminals.OwnerNotLive, "the work's context ends with the owner")
		assert.Empty(t, f.List(f.owner))
		_, err = f.Output(t.Context(), f.owner, id, 0)
		assert.ErrorIs(t, err, terminals.InvalidArgument)
		assert.Len(t, f.notices, 1, "nobody is left to be told")
		_, err = f.Start(f.owner, tasks.Request{Kind: "job", Begin: begin(newJob())})
		assert.ErrorIs(t, err, terminals.OwnerNotLive)
		_, err = f.Start(nil, tasks.Request{Kind: "job", Begin: begin(newJob())})
		assert.ErrorIs(t, err, terminals.OwnerNotLive)
	})
}

// Work that began while its owner was being disposed does not stay behind.
func TestDisposalDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		_, err := f.Start(f.owner, tasks.Request{Kind: "job", Begin: func(context.Context) (tasks.Work, error) {
			require.NoError(t, f.service.DisposeOwner(t.Context(), f.owner))
			return j, nil
		}})
		assert.ErrorIs(t, err, terminals.OwnerNotLive)
		assert.ErrorIs(t, j.cause, terminals.OwnerNotLive)
	})
}

// A disposal does not wait for ever, and says what is left.
func TestDisposalOfStubbornWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, tasks.Config{})
		j := newJob()
		j.stubborn = true
		f.start(j)
		err := f.service.DisposeOwner(t.Context(), f.owner)
		assert.ErrorContains(t, err, "background task job-1 did not end: terminals: closing took longer than 5s")
		j.end(tasks.Outcome{})
	})
}

// A client that takes its time with a notice holds up nobody.
func TestSlowNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		f := newFixture(t, tasks.Config{Notify: func(*terminals.Owner, tasks.Notice) { <-read }})
		j := newJob()
		id := f.start(j)
		j.end(tasks.Outcome{})
		assert.Equal(t, tasks.Completed, f.output(id, time.Hour).Status)
		require.NoError(t, f.service.DisposeOwner(t.Context(), f.owner))
		close(read)
	})
}

func TestConfig(t *testing.T) {
	_, err := tasks.New(tasks.Config{MaxResultBytes: 63})
	assert.ErrorIs(t, err, terminals.InvalidArgument)
	assert.ErrorContains(t, err, "maxResultBytes")
}
