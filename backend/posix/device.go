//go:build linux || darwin

package posix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/terminals"
)

// device is one terminal with the tree of processes behind it.
type device struct {
	driver  *Driver
	term    *terminal
	channel *channel // nil when there is none
	lease   *lease   // the supervisor's promise to clean up
	family  *family  // the processes that belong here

	lead time.Duration // Spec.InterruptLead

	proc   *os.Process // the host's child: the started program, or its launcher
	pid    int         // of the started program
	exited chan struct{}
	status backend.ExitStatus // valid once exited is closed

	echo    atomic.Bool   // the engine last asked for echo
	writing chan struct{} // a lock that a context can end the wait for
	hand    hand
	reading drain
	probe   waitProbe

	closing  sync.Mutex
	run      *teardown // the Terminate that is going on
	closed   bool      // Terminate has succeeded
	isClosed chan struct{}
}

var _ backend.Device = (*device)(nil)

func newDevice(d *Driver, spec backend.Spec, term *terminal, chn *channel, mark string, l *lease) *device {
	dev := &device{
		driver:   d,
		lead:     spec.InterruptLead,
		term:     term,
		channel:  chn,
		lease:    l,
		family:   &family{table: systemTable(), mark: mark, self: os.Getpid()},
		exited:   make(chan struct{}),
		writing:  make(chan struct{}, 1),
		isClosed: make(chan struct{}),
	}
	dev.echo.Store(spec.Modes.Echo)
	return dev
}

// begin takes over a program that has just been started, as the child proc or
// below it.
func (d *device) begin(proc *os.Process, exit *exitWatch, pid int) {
	d.proc, d.pid = proc, pid
	leader := identity{pid: pid}
	// The program cannot have been reaped yet, so this is its own start time.
	if p, err := d.family.table.lookup(pid); err == nil {
		leader = p.identity
	}
	d.family.leader = leader
	d.family.launchers = d.family.between(leader, proc.Pid)
	d.family.limit = brand(pid)
	end := watchEnd(leader, d.launched())
	d.lease.started(leader, d.family.limit)
	d.probe.begin(d)
	go func() {
		d.status = end.refine(exit.wait(proc))
		close(d.exited)
		d.reading.programEnded(d.term.master)
	}()
}

func (d *device) PID() int                       { return d.pid }
func (d *device) Exited() <-chan struct{}        { return d.exited }
func (d *device) ExitStatus() backend.ExitStatus { return d.status }

func (d *device) hasExited() bool {
	select {
	case <-d.exited:
		return true
	default:
		return false
	}
}

func (d *device) Channel() io.WriteCloser {
	if d.channel == nil || d.channel.oneShot() {
		return nil
	}
	return d.channel
}

func (d *device) Resize(cols, rows int) error {
	if cols < 1 || cols > maxSide || rows < 1 || rows > maxSide {
		return invalid("the window size %d by %d is out of range; give 1 to %d for each side", cols, rows, maxSide)
	}
	return d.term.resize(cols, rows)
}

func (d *device) Foreground() (backend.Foreground, error) {
	pgid, err := d.term.foreground()
	if err != nil {
		return backend.Foreground{}, err
	}
	// The program leads its session, so its group has its own number.
	return backend.Foreground{PGID: pgid, Shell: pgid == d.pid}, nil
}

func (d *device) Modes() (backend.Modes, error) { return d.term.modes() }

func (d *device) SetModes(m backend.Modes) error {
	if err := d.term.setModes(m); err != nil {
		return err
	}
	d.echo.Store(m.Echo)
	return nil
}

func (d *device) FlushInput() error {
	if d.hasExited() {
		return nil // nobody is left to read it
	}
	return d.term.flushInput()
}

func (d *device) PendingInput() (int, error) {
	if d.hasExited() {
		return 0, nil
	}
	return d.term.pendingInput()
}

func (d *device) PendingOutput() (int, error) {
	n, err := d.term.pendingOutput()
	// In this order: what left the terminal before the count is in hand.
	return n + int(d.hand.holds.Load()), err
}

func (d *device) Consumed() { d.hand.holds.Store(0) }

func (d *device) Cwd() (string, error) { return workingDir(d.pid) }

// signalNames are the signals that Signal delivers.
var signalNames = []string{"SIGINT", "SIGTERM", "SIGKILL", "SIGTSTP", "SIGHUP"}

var signalNumbers = map[string]syscall.Signal{
	"SIGINT":  unix.SIGINT,
	"SIGTERM": unix.SIGTERM,
	"SIGKILL": unix.SIGKILL,
	"SIGTSTP": unix.SIGTSTP,
	"SIGHUP":  unix.SIGHUP,
}

func (d *device) Signal(ctx context.Context, name string) (int, error) {
	return d.signal(ctx, name, true)
}

func (d *device) SignalProgram(ctx context.Context, name string) (int, error) {
	return d.signal(ctx, name, false)
}

// signal delivers a signal, to the started program too when that is the foreground
// and shellToo says so.
func (d *device) signal(ctx context.Context, name string, shellToo bool) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	sig, ok := signalNumbers[name]
	if !ok {
		return 0, &terminals.Error{
			Code:    terminals.Unsupported,
			Message: fmt.Sprintf("signal %q is not supported here; use one of %v", name, signalNames),
			Err:     backend.ErrUnsupported,
		}
	}
	pgid, err := d.term.foreground()
	if err != nil {
		return 0, err
	}
	if shellToo && sig == unix.SIGKILL && pgid == d.pid {
		return 0, invalid("SIGKILL is refused while the shell itself is in the foreground; close the session instead")
	}
	if shellToo && sig == unix.SIGINT {
		return d.Interrupt(ctx, false)
	}
	if pgid == d.pid {
		if d.signalReader(sig) {
			return pgid, nil
		}
		if !shellToo {
			return 0, invalid("%s is refused while the shell itself is in the foreground and no program in it waits for input; interrupt it with SIGINT, or close the session", name)
		}
	}
	if err := unix.Kill(-pgid, sig); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return 0, fmt.Errorf("posix: the foreground process group %d has just ended", pgid)
		}
		return 0, fmt.Errorf("posix: %s to process group %d: %w", name, pgid, err)
	}
	return pgid, nil
}

// signalReader gives sig to the program that reads the terminal, where it shares
// the group of a shell without job control, and to the programs between the two:
// the signal is meant for it, and most would end the shell. It is false when there
// is no such program.
func (d *device) signalReader(sig unix.Signal) bool {
	others, err := d.shareGroup()
	if err != nil {
		return false
	}
	var chain []process
	for pid := d.readerAmong(others); pid != 0 && pid != d.pid; {
		p, err := d.family.table.lookup(pid)
		if err != nil || p.pgid != d.pid {
			break
		}
		chain = append(chain, p)
		pid = p.ppid
	}
	slices.Reverse(chain) // else a parent would go on with its next program
	d.family.send(chain, sig)
	return len(chain) > 0
}

func (d *device) Interrupt(ctx context.Context, programToo bool) (int, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	pgid, err := d.term.foreground()
	if err != nil {
		return 0, err
	}
	if pgid == d.pid && d.lead > 0 {
		return d.interruptProgramFirst(ctx)
	}
	if !programToo || pgid == d.pid {
		return d.interruptGroup(pgid, true)
	}
	if err := d.family.table.signal(d.family.leader, unix.SIGINT); err != nil {
		return 0, err
	}
	// The program may take the terminal back at once: the signal is for the
	// group that was there.
	return d.interruptGroup(pgid, false)
}

// interruptProgramFirst interrupts the started program, in the foreground, and then
// those who share its group, who would else end before it has acted on it.
func (d *device) interruptProgramFirst(ctx context.Context) (int, error) {
	if err := d.family.table.signal(d.family.leader, unix.SIGINT); err != nil {
		return 0, err
	}
	if others, err := d.shareGroup(); err != nil || len(others) == 0 {
		return d.pid, err
	}
	lead := time.NewTimer(d.lead)
	defer lead.Stop()
	select {
	case <-lead.C:
	case <-d.exited:
		return d.pid, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	others, err := d.shareGroup()
	if err != nil {
		return 0, err
	}
	if denied := d.family.send(others, unix.SIGINT); len(denied) > 0 {
		return d.interruptGroup(d.pid, true)
	}
	return d.pid, nil
}

// shareGroup returns who is in the started program's group besides it.
func (d *device) shareGroup() ([]process, error) {
	all, err := d.family.table.list()
	if err != nil {
		return nil, fmt.Errorf("posix: scan the process tree: %w", err)
	}
	return slices.DeleteFunc(all, func(p process) bool { return p.pgid != d.pid || p.pid == d.pid || p.zombie }), nil
}

// interruptGroup interrupts the foreground group pgid. A program in raw mode
// reads ^C as a key, and behind 4 KiB of unread input the key is not even seen.
// The terminal's own request works in both cases, and on programs that the host
// may not signal, but it goes to whoever is in the foreground by then.
func (d *device) interruptGroup(pgid int, byTerminal bool) (int, error) {
	terminal := func() error {
		return d.term.control("interrupt", func(fd int) error { return terminalSignal(fd, unix.SIGINT) })
	}
	if byTerminal && terminal() == nil {
		return pgid, nil
	}
	err := unix.Kill(-pgid, unix.SIGINT)
	if errors.Is(err, unix.EPERM) && !byTerminal {
		err = terminal()
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return 0, fmt.Errorf("posix: SIGINT to process group %d: %w", pgid, err)
	}
	return pgid, nil
}

// past is a deadline that ends every wait at once, noDeadline one that ends none.
var past, noDeadline = time.Unix(1, 0), time.Time{}
