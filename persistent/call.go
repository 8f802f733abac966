package persistent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shellstead/shellstead/shellenv"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/screen"
)

// How long a program or a shell is waited for that is no longer wanted. Each
// bounds a call from above; what is co-operative ends within milliseconds.
const (
	// A program that was left waiting for input is interrupted before the next
	// command. Most end at once; 300 ms lets one clean up.
	interruptWait = 300 * time.Millisecond
	// One that ignores the interrupt is asked by the signals that programs less
	// often ignore. It ends at once, or not at all.
	terminateWait = time.Second
	// Once nobody waits for input any more the shell is on its way back, which takes
	// it seconds only where the machine is overloaded: a reset would lose what it
	// holds.
	returnWait = 10 * time.Second
	// A cancelled caller no longer reads the answer, but the next one waits.
	cancelGrace = time.Second
	// onTimeout "interrupt" values the shell more than the time.
	timeoutGrace = 2 * time.Second
	// A closing shell is waited for so that a result seldom comes while its
	// programs still run. One that takes longer is closed in the background: a
	// timeout bounds the call, and the next command does not need the old shell.
	closeWait = 150 * time.Millisecond
)

var errTimedOut = errors.New("persistent: the command timed out")

// call is one command on its way through a shell.
type call struct {
	*Runner
	cmd     Command
	warmUp  bool // the shell runs a program of its own
	timeout time.Duration
	state   *ownerState

	// While the command runs.
	started time.Time
	shell   *shell
	run     terminals.CommandRun
	ctx     context.Context // ends with errTimedOut when the time is up
	release context.CancelFunc
	sink    *collector
	pump    *pump
	unsent  *Answer // its program stopped waiting before it could be typed

	// For the text of the result.
	result      Result
	before      []string
	unsolicited []byte
	out         capture
	exit        string // what is said of the command's or the shell's end
	timedOut    string
	wait        string
	fresh       bool // the next command gets a fresh shell
}

// begin waits for the call's turn. The context it returns ends with the owner's
// disposal too.
func (c *call) begin(ctx context.Context, owner *terminals.Owner) (bound context.Context, leave func(), err error) {
	state, err := c.stateOf(owner)
	if err != nil {
		return ctx, nil, err
	}
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(owner.Context(), func() { cancel(context.Cause(owner.Context())) })
	placed := c.cmd.Placed
	if placed == nil {
		placed = func() {}
	}
	if err := state.queue.line(bound, placed); err != nil {
		stop()
		cancel(nil)
		return bound, nil, err
	}
	c.state = state
	return bound, func() {
		stop()
		cancel(nil)
		state.queue.leave()
	}, nil
}

// ownerEnded says that the disposal of the call's owner takes the shell away,
// which can show before the call's context has ended.
func (c *call) ownerEnded() bool {
	return c.state != nil && !c.state.owner.Live()
}

// cancelByOwner settles a call whose owner ended first.
func (c *call) cancelByOwner() {
	ended := c.state.owner.Context()
	<-ended.Done() // a disposal that has begun ends it at once
	c.result.cancel(context.Cause(ended))
}

// deliver gives the command to a live shell.
func (c *call) deliver(ctx context.Context) error {
	if err := c.endPrevious(ctx); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		if err := c.ensureShell(ctx); err != nil {
			return err
		}
		err := c.start(ctx)
		if err == nil {
			return nil
		}
		// The shell may have ended a moment ago, or somebody closes it.
		if !isGone(err) {
			return err
		}
		if attempt > 0 {
			c.resetForNext("it ended at once")
			return err
		}
		c.replaceExited()
	}
}

// endPrevious settles a command that was left waiting for input: it says how the
// command ended that was answered since, and interrupts one that did not end. A
// shell that has ended is dropped.
func (c *call) endPrevious(ctx context.Context) error {
	sh := c.state.shell
	if sh == nil {
		return nil
	}
	if w := sh.waiting; w != nil {
		ready, err := c.settleWaiting(ctx, sh, w)
		if err != nil {
			return err
		}
		c.state.keep(w.out.takeLate())
		sh.waiting = nil
		if !ready {
			c.state.notices = append(c.state.notices, replacedNotice(c.state.cwd()))
			c.state.keep(sh.session.Unsolicited())
			c.reset("a program did not end for the next command")
			return nil
		}
	}
	if isClosed(sh.session.Exited()) {
		c.replaceExited()
	}
	return nil
}

// settleWaiting reports whether the shell is back at its prompt, or has ended.
// The error is ctx's cause; the command then still counts as waiting.
func (c *call) settleWaiting(ctx context.Context, sh *shell, w *waitingRun) (ready bool, err error) {
	if isClosed(w.run.Settled()) && !w.interrupted {
		final, err := finalResult(ctx, w.run)
		if err == nil && final.State == terminals.Completed {
			sh.see(final)
			if !final.Reported {
				c.state.notices = append(c.state.notices, completedNotice(final.ExitCode))
			}
		}
		return true, nil
	}
	ready, notice := true, interruptedNotice(w.needs.Program)
	if !isClosed(w.run.Settled()) {
		w.interrupted = true
		var final terminals.CommandResult
		if final, ready, err = c.endWaiting(ctx, sh, w); err != nil {
			return false, err
		}
		if needs := final.NeedsInput; needs != nil { // another one, after an answer
			notice = interruptedNotice(needs.Program)
		} else if final.Interrupted {
			notice = stoppedNotice(w.needs.Program)
		}
	}
	c.state.notices = append(c.state.notices, notice)
	return ready, nil
}

// endWaiting ends a program that waits for input and reports whether the shell
// is back at its prompt. The error is ctx's cause; the program then still
// counts as waiting.
func (c *call) endWaiting(ctx context.Context, sh *shell, w *waitingRun) (final terminals.CommandResult, ready bool, err error) {
	shellReads := w.needs.PID == sh.session.PID()
	wait := interruptWait
	if shellReads {
		wait += terminateWait // the signals would hit the shell
	}
	step, cancel := context.WithTimeout(ctx, wait)
	err = w.run.Interrupt(step)
	cancel()
	switch {
	case err == nil:
		final, err = finalResult(ctx, w.run)
	case !shellReads && ctx.Err() == nil:
		final, err = c.terminate(ctx, sh, w.run)
	}
	if err != nil && ctx.Err() == nil && !w.run.Waits() {
		step, cancel := context.WithTimeout(ctx, returnWait)
		final, err = finalResult(step, w.run)
		cancel()
	}
	if err != nil && ctx.Err() != nil {
		return final, false, context.Cause(ctx)
	}
	return final, err == nil && final.State == terminals.Completed, nil
}

// terminate signals a program that the interrupt did not end, and returns what
// its command then comes to.
func (c *call) terminate(ctx context.Context, sh *shell, run terminals.CommandRun) (terminals.CommandResult, error) {
	step, cancel := context.WithTimeout(ctx, terminateWait)
	defer cancel()
	for _, sig := range []terminals.Signal{terminals.SIGHUP, terminals.SIGTERM} {
		if _, err := sh.session.Signal(step, sig); err != nil {
			c.log.Debug("a waiting program was not signalled", "terminal", sh.id, "signal", sig, "error", err)
		}
	}
	return finalResult(step, run)
}

// replaceExited drops a shell that has ended between two commands.
func (c *call) replaceExited() {
	session := c.state.shell.session
	c.state.notices = append(c.state.notices, shellHadExitedNotice(session.Status(), c.state.cwd()))
	c.state.keep(session.Unsolicited())
	c.reset("the shell had ended")
}

// ensureShell opens the owner's shell where there is none.
func (c *call) ensureShell(ctx context.Context) error {
	if c.state.shell != nil {
		return nil
	}
	owner := c.state.owner
	sh := &shell{cwd: c.state.cwd()}
	req := terminals.OpenRequest{Type: c.cfg.BackendType, Cwd: owner.Cwd(), Mode: terminals.Command}
	if resolve := c.cfg.Resolve; resolve != nil {
		req.Env = func(id string) (env []string, err error) {
			sh.env, err = resolve(ctx, owner, id, sh.cwd)
			return sh.env, err
		}
	}
	info, err := c.service.Open(ctx, owner, req)
	if err != nil {
		return c.openError(ctx, err)
	}
	session, err := c.service.Session(owner, info.SessionID)
	if err != nil {
		return c.openError(ctx, err)
	}
	sh.id = info.SessionID
	var ok bool
	if sh.session, ok = session.(terminals.CommandSession); !ok {
		c.close(sh.id, "it takes no commands")
		return &terminals.Error{
			Code:    terminals.Unsupported,
			Message: fmt.Sprintf("backendType %q has no command mode; name the type of a shell", c.cfg.BackendType),
		}
	}
	if info.Startup != "" {
		c.log.Debug("the shell printed something at its start", "terminal", sh.id, "text", info.Startup)
	}
	c.state.shell = sh
	return nil
}

// openError leaves a cancellation's own cause alone.
func (c *call) openError(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return newError(CodeOpenFailed, err)
}

// start hands the command to the live shell. After an error nothing runs.
func (c *call) start(ctx context.Context) error {
	sh := c.state.shell
	env, err := c.environment(ctx)
	if err != nil {
		return err
	}
	c.state.keep(sh.session.Unsolicited())

	var files *spill
	if c.cfg.Spill && !c.cmd.Streamed {
		files = &spill{create: c.state.spill.create, limit: c.cfg.SpillMaxBytes}
	}
	sink, pump := newCollector(c.cfg.MaxOutputChars, c.cfg.Clip, files), newPump(c.cmd.Stream)
	c.sink, c.pump = sink, pump
	c.started = time.Now()
	c.ctx, c.release = context.WithTimeoutCause(ctx, c.timeout, errTimedOut)

	// A session may watch the context for as long as the program runs, and one
	// that is left waiting outlives this call.
	startCtx, cancel := context.WithCancelCause(context.WithoutCancel(c.ctx))
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	set, unset := shellenv.Diff(sh.env, env)
	run, err := sh.session.StartCommand(startCtx, terminals.CommandRequest{
		Text:   c.cmd.Text,
		Env:    set,
		Unset:  unset,
		WarmUp: c.warmUp,
		Sink: func(p []byte) {
			sink.write(p)
			pump.send(p)
		},
		WaitConfirm: c.cfg.WaitConfirm,
	})
	stop()
	if err != nil {
		cancel(nil)
		return c.notStarted(ctx, err)
	}
	sh.env = env
	c.shell, c.run = sh, run
	c.result.TerminalID = sh.id
	c.before, c.state.notices = c.state.notices, nil
	c.unsolicited, c.result.LostPrefix = c.state.takeUnsolicited(c.cfg.MaxOutputChars)
	return nil
}

// environment is the managed environment that the command is to have.
func (c *call) environment(ctx context.Context) ([]string, error) {
	if c.cfg.Resolve == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	env, err := c.cfg.Resolve(ctx, c.state.owner, c.state.shell.id, c.state.shell.cwd)
	if err != nil {
		return nil, newError(CodeEnvironment, err)
	}
	return env, nil
}

// notStarted settles a call whose command the session did not take.
func (c *call) notStarted(ctx context.Context, err error) error {
	c.release()
	c.pump.stop()
	c.out = c.sink.finish()
	switch {
	case ctx.Err() != nil, isGone(err):
	case errors.Is(err, errTimedOut):
		// A shell that takes no command in that time is no good.
		c.result.Reason = TimedOut
		c.result.TerminalID, c.result.Cwd = c.state.shell.id, c.state.shell.cwd
		c.result.DurationMs = time.Since(c.started).Milliseconds()
		c.timedOut = timeoutNotice(c.timeout, false)
		c.resetForNext("it took no command in time")
	case errors.Is(err, terminals.InvalidArgument), errors.Is(err, terminals.SendActive):
		// The command is at fault, or somebody who types into this terminal.
	default:
		c.resetForNext("it took no command")
	}
	return err
}

// isGone says that a session has ended or is about to.
func isGone(err error) bool {
	return errors.Is(err, terminals.SessionExited) || errors.Is(err, terminals.SessionClosing)
}

// await waits for what the command comes to and settles the call.
func (c *call) await() {
	defer c.release()
	final, err := c.run.Wait(c.ctx)
	for err == nil && final.State == terminals.Waiting && final.NeedsInput != nil && c.cmd.Answer != nil {
		var answered bool
		if final, answered, err = c.answer(final); !answered {
			break
		}
	}
	switch {
	case err == nil && final.State == terminals.ShellEnded && c.ownerEnded():
		c.cancelByOwner()
		c.resetForNext("its owner is disposed")
	case err == nil:
		c.report(final)
	case errors.Is(context.Cause(c.ctx), errTimedOut):
		c.pump.hurry()
		c.timeUp()
	case c.ctx.Err() != nil:
		c.pump.hurry()
		c.result.cancel(context.Cause(c.ctx))
		if _, ready := c.interrupt(cancelGrace); !ready {
			// A caller that has cancelled may not look at this result.
			c.state.notices = append(c.state.notices, replacedNotice(c.state.cwd()))
			c.resetForNext("its caller was cancelled")
		}
	default:
		c.pump.hurry()
		c.result.fail(newError(CodeShellFailed, err))
		c.resetForNext("its terminal failed")
	}
	c.pump.stop()
	c.out = c.sink.finish()
	c.result.DurationMs = time.Since(c.started).Milliseconds()
	c.result.Cwd = c.shell.cwd
}

// answer has the caller answer a waiting program, and returns what the command
// then comes to. It is false when nothing was answered.
func (c *call) answer(waiting terminals.CommandResult) (final terminals.CommandResult, answered bool, err error) {
	if c.unsent == nil {
		answer, ok := c.cmd.Answer(c.ctx, *waiting.NeedsInput)
		if err := context.Cause(c.ctx); err != nil {
			return waiting, false, err
		}
		if !ok {
			return waiting, false, nil
		}
		c.unsent = &answer
	}
	send, err := c.shell.session.StartSend(c.ctx, terminals.SendRequest{Text: c.unsent.Text, Submit: c.unsent.Submit, ForCommand: true})
	switch {
	case errors.Is(err, terminals.SendActive), isGone(err): // it does not wait now
		final, err = c.run.Wait(c.ctx)
		return final, true, err
	case err != nil:
		c.log.Warn("the answer could not be typed", "terminal", c.shell.id, "error", err.Error())
		return waiting, false, nil
	}
	c.unsent = nil
	<-send.Done()
	if sent, err := send.Result(); err == nil && sent.NeedsInput != nil {
		waiting.NeedsInput = sent.NeedsInput
		return waiting, true, nil
	}
	final, err = c.run.Wait(c.ctx)
	return final, true, err
}

// report settles a call whose command came to something by itself.
func (c *call) report(final terminals.CommandResult) {
	c.see(final)
	switch {
	case final.State == terminals.Completed && final.NotStarted:
		c.result.fail(&Error{
			Code:    CodeNotStarted,
			Message: "the shell came back without running the command; something in it skips commands, for instance a DEBUG trap with extended debugging",
		})
		c.resetForNext("it does not run commands")
	case final.State == terminals.Completed:
		c.result.Reason, c.result.ExitCode = Completed, final.ExitCode
		c.exit = exitCodeNotice(final.ExitCode)
		if final.Level > 0 {
			// The command opened a prompt of its own, a debugger's for instance:
			// it goes on when that prompt is left.
			c.result.Reason = WaitingInput
			c.result.NeedsInput = &terminals.NeedsInput{
				Kind: terminals.LineInput, Program: nestedPrompt(final.Level), PID: c.shell.session.PID(),
			}
			c.wait = nestedNotice(final.Level)
		}
	case final.State == terminals.Waiting:
		needs := final.NeedsInput
		if needs == nil {
			needs = &terminals.NeedsInput{Kind: terminals.LineInput, Program: "the program"}
		}
		c.result.Reason, c.result.NeedsInput = WaitingInput, needs
		c.wait = waitingNotice(needs, c.shell.id, c.cfg.TerminalTools)
		c.shell.waiting = &waitingRun{run: c.run, out: c.sink, needs: needs}
	case final.State == terminals.ShellEnded:
		c.result.Reason, c.result.ExitCode = ShellExited, final.Status.ExitCode
		if name := final.Status.Signal; name != "" {
			c.result.Signal = &name
		}
		c.exit = shellExitedNotice(final.Status)
		c.resetForNext("it has ended")
	default: // ShellStuck
		c.result.fail(&Error{
			Code:    CodeShellStopped,
			Message: "the command stopped the shell itself, which cannot go on",
		})
		c.resetForNext("it is stopped")
	}
}

// timeUp settles a call whose command has used up its time.
func (c *call) timeUp() {
	c.result.Reason = TimedOut
	kept := false
	if c.cfg.OnTimeout == Interrupt {
		_, kept = c.interrupt(timeoutGrace)
	}
	c.timedOut = timeoutNotice(c.timeout, kept)
	if !kept {
		c.resetForNext("its command timed out")
	}
}

// see takes what a result of the run tells besides its outcome.
func (c *call) see(final terminals.CommandResult) {
	c.shell.see(final)
	c.unsolicited = append(c.unsolicited, final.Before...)
}

// interrupt stops the command and reports whether the shell is then provably at
// its prompt.
func (c *call) interrupt(grace time.Duration) (final terminals.CommandResult, ready bool) {
	// The call's own context has ended; this must happen nonetheless.
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := c.run.Interrupt(ctx); err != nil {
		return final, false
	}
	final, err := finalResult(ctx, c.run)
	if err != nil || final.State != terminals.Completed {
		return final, false
	}
	c.see(final)
	return final, true
}

// finalResult returns what a run comes to in the end.
func finalResult(ctx context.Context, run terminals.CommandRun) (terminals.CommandResult, error) {
	for {
		final, err := run.Wait(ctx)
		// A wait for input that came just before the end may be reported first.
		if err != nil || final.State != terminals.Waiting {
			return final, err
		}
	}
}

func (s *shell) see(final terminals.CommandResult) {
	if final.Cwd != "" {
		s.cwd = final.Cwd
	}
}

// resetForNext gives the shell up, so that the next command gets a fresh one.
func (c *call) resetForNext(reason string) {
	c.fresh = !c.ownerEnded()
	c.reset(reason)
}

// reset gives the shell up.
func (c *call) reset(reason string) {
	sh := c.state.shell
	c.state.shell = nil
	c.close(sh.id, reason)
}

// close ends a shell and waits for it a moment; the rest happens in the
// background. The service keeps a shell that does not end, and the disposal of
// its owner tries again and reports it.
func (c *call) close(id, reason string) {
	owner := c.state.owner
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := c.service.Close(context.Background(), owner, id, reason)
		// A disposal closes it, and reports what does not end.
		if err != nil && !errors.Is(err, terminals.NoSession) && !errors.Is(err, terminals.ServiceDisposing) {
			c.log.Warn("a shell did not end", "terminal", id, "reason", reason, "error", err)
		}
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// render writes the text of the result and the fields that describe its output.
func (c *call) render() {
	res := &c.result
	res.Output = c.out.output()
	res.Unsolicited = string(c.unsolicited)
	res.Clipped = c.out.clipped()
	res.OutputFile = c.out.spill.path

	var b, notices textBuilder
	note := func(part string) {
		b.add(part)
		notices.add(part)
	}
	if res.Error != nil {
		note(errorLine(res.Error))
	}
	for _, notice := range c.before {
		note(notice)
	}
	if text := screen.Text(c.unsolicited); text != "" {
		note(unsolicitedHeading)
		note(text)
		b.add(outputHeading)
	}
	b.add(c.out.text())
	note(c.exit)
	if code := res.ExitCode; res.Reason == Completed && code != nil && *code != 0 && c.cfg.Explain != nil {
		note(screen.Text([]byte(c.cfg.Explain(c.state.owner, *res))))
	}
	if !c.cmd.Streamed {
		note(clippedNotice(c.out))
	}
	note(lostNotice(res.LostPrefix))
	note(spillNotice(c.out.spill))
	note(c.timedOut)
	note(c.wait)
	if c.fresh {
		note(freshShellNotice(c.state.cwd()))
	}
	res.Text, res.Notices = b.String(), notices.String()
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
