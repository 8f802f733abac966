//go:build linux || darwin

package posix

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	supervisorShell = "/bin/sh"

	// supervisorWrite bounds a message to the supervisor. It reads all the time,
	// so only a stopped one lets a pipe fill up.
	supervisorWrite = time.Second
)

// supervisor is the one process that outlives the host, for the moment that it
// takes to clean up. It is a small shell script and not a second instance of
// the host's program, so a program that embeds this package has it without code
// in its main function.
//
// It reads from a pipe what there is to clean up. The host alone holds the
// other end, so end-of-file is the host's death. It runs while a terminal is
// open; the next start replaces one that has died.
type supervisor struct {
	mu      sync.Mutex
	leases  map[string]*lease // by mark
	current *guardian         // nil when none runs
	pending bool              // one is being started
}

// guardian is one running supervisor process.
type guardian struct {
	proc *os.Process
	pipe *os.File
}

// lease is what the supervisor knows of one terminal.
type lease struct {
	owner  *supervisor
	log    *slog.Logger
	mark   string
	remove []string
	leader identity
	limit  uint64
}

// host is the supervisor of this process.
var host = &supervisor{leases: make(map[string]*lease)}

func (d *Driver) supervisor() *registrar { return &registrar{host, d.log} }

// registrar registers terminals for one driver.
type registrar struct {
	owner *supervisor
	log   *slog.Logger
}

// register announces a terminal before its program starts.
func (r *registrar) register(mark string, remove []string) *lease {
	l := &lease{owner: r.owner, log: r.log, mark: mark, remove: slices.Clone(remove)}
	s := r.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[mark] = l
	s.tell(l.announcement()...)
	return l
}

func (l *lease) announcement() []string {
	lines := []string{"add " + l.mark}
	for _, folder := range l.remove {
		lines = append(lines, "dir "+l.mark+" "+folder)
	}
	if l.leader.pid != 0 {
		lines = append(lines, l.running()...)
	}
	return lines
}

func (l *lease) running() []string {
	return []string{
		fmt.Sprintf("run %s %d %s", l.mark, l.leader.pid, startName(l.leader)),
		fmt.Sprintf("lim %s %d", l.mark, l.limit),
	}
}

// started announces the terminal's program. It starts the supervisor when none
// runs, beside the program and not before it.
func (l *lease) started(leader identity, limit uint64) {
	s := l.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	l.leader, l.limit = leader, limit
	s.tell(l.running()...)
	if s.current == nil && !s.pending {
		s.pending = true
		go s.launch(l.log)
	}
}

// release withdraws the terminal. With the last one the supervisor ends.
func (l *lease) release() {
	s := l.owner
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[l.mark] != l {
		return
	}
	delete(s.leases, l.mark)
	s.tell("del " + l.mark)
	s.endIfIdle()
}

func (s *supervisor) endIfIdle() {
	if len(s.leases) == 0 && s.current != nil {
		_ = s.current.pipe.Close() // it has nothing left to clean up
		s.current = nil
	}
}

// tell sends lines to the running supervisor. One that does not take them is
// given up; it must be dead before its pipe is closed, else it would take that
// for the host's death and end living terminals.
func (s *supervisor) tell(lines ...string) {
	if s.current == nil {
		return
	}
	_ = s.current.pipe.SetWriteDeadline(time.Now().Add(supervisorWrite))
	for _, line := range lines {
		if _, err := s.current.pipe.WriteString(line + "\n"); err != nil {
			s.abandon(s.current)
			return
		}
	}
}

func (s *supervisor) abandon(g *guardian) {
	_ = g.proc.Kill()
	_, _ = g.proc.Wait()
	_ = g.pipe.Close()
	if s.current == g {
		s.current = nil
	}
}

func (s *supervisor) launch(log *slog.Logger) {
	g, err := startGuardian()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = false
	if err != nil {
		log.Warn("posix: no supervisor: programs may outlive a killed host", "error", err)
		return
	}
	s.current = g
	for _, l := range s.leases {
		s.tell(l.announcement()...)
	}
	s.endIfIdle()
	go func() {
		_, _ = g.proc.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current == g {
			s.current = nil
			_ = g.pipe.Close()
		}
	}()
}

func startGuardian() (*guardian, error) {
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer readEnd.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = writeEnd.Close()
		return nil, err
	}
	defer null.Close()

	files := []*os.File{readEnd, null, null}
	for _, fd := range inheritable() {
		for fd >= len(files) {
			files = append(files, nil)
		}
	}
	proc, err := os.StartProcess(supervisorShell, []string{"shellstead-supervisor", "-c", supervisorScript}, &os.ProcAttr{
		Dir:   "/", // it keeps no file system busy
		Env:   supervisorEnv(os.Environ()),
		Files: files,
		// A session of its own: what ends the host's group or terminal must not
		// end it.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = writeEnd.Close()
		return nil, err
	}
	return &guardian{proc: proc, pipe: writeEnd}, nil
}

// supervisorEnv holds nothing of the host's but the marks of terminals that the
// host itself runs in, so that their teardown finds this process too.
func supervisorEnv(env []string) []string {
	kept := []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C"}
	for _, entry := range env {
		if strings.HasPrefix(entry, markPrefix) {
			kept = append(kept, entry)
		}
	}
	return kept
}
