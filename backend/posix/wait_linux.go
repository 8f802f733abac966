package posix

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

const (
	// scanDuty keeps scans of the whole process table to half a percent of the
	// time: the next one waits two hundred times as long as the last one took.
	scanDuty = 200

	// orphanAge is how long a group is in the foreground before the process table
	// is searched for what left the tree. Short commands never pay for it. The
	// searches go on at doubled age each time, but at least every maxScanPause.
	orphanAge    = 100 * time.Millisecond
	maxScanPause = 2 * time.Second

	// maxInner bounds terminals within terminals.
	maxInner = 4

	// probeLimit and probePause bound the search for a child's blocked read in
	// the capability probe.
	probeLimit = time.Second
	probePause = time.Millisecond
)

// waitProbe finds out what blocks the processes of one terminal. It keeps the
// files of the started program open, so that asking costs a few system calls.
type waitProbe struct {
	dev *device
	pid int

	mu     sync.Mutex // of what ShellWait keeps
	closed bool
	fds    int // /proc/PID/fd
	tasks  int // /proc/PID/task
	thread threadFiles
	site   backend.Site // of the last proved wait
	name   string       // of the program then

	search   sync.Mutex // of what InputWait keeps; ShellWait never waits for it
	group    int        // the foreground group, and since when it is known
	since    time.Time
	orphans  []process // who may read for it outside of the tree
	scanned  time.Time
	scanCost time.Duration
	still    stillness
}

// threadFiles are the kept files of the one thread that reads.
type threadFiles struct {
	tid       int
	call, run int // syscall and schedstat
}

func (p *waitProbe) begin(d *device) {
	p.dev, p.pid = d, d.pid
	p.fds, p.tasks = -1, -1
	p.thread = threadFiles{tid: p.pid, call: -1, run: -1}
}

func (p *waitProbe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.thread.close()
	closeFD(&p.fds)
	closeFD(&p.tasks)
}

func (t *threadFiles) close() {
	closeFD(&t.call)
	closeFD(&t.run)
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
		*fd = -1
	}
}

func unprovable() error {
	return fmt.Errorf("posix: no system call table for linux/%s, so a blocked read cannot be proved, and a waiting program is only inferred from silence (inferred_idle): %w", runtime.GOARCH, backend.ErrUnsupported)
}

func (p *waitProbe) want() want {
	w := want{terminal: p.dev.term.id}
	if p.dev.channel != nil {
		w.channel = &p.dev.channel.id
	}
	return w
}

// ShellWait looks at the started program alone. See backend.Device.
func (d *device) ShellWait() (backend.Wait, error) {
	if nativeABI == nil {
		return backend.Wait{}, unprovable()
	}
	p := &d.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	w := backend.Wait{PID: p.pid}
	if p.closed || d.hasExited() {
		return w, nil
	}
	if err := p.open(); err != nil {
		return p.unreadable(w, err)
	}
	line, turns, err := p.thread.read()
	if err != nil {
		// The program may have become another one by exec, with other rights, or
		// the thread has ended.
		p.thread.close()
		p.thread.tid = p.pid
		if err = p.open(); err == nil {
			line, turns, err = p.thread.read()
		}
		if err != nil {
			return p.unreadable(w, err)
		}
	}
	w.Turns = turns
	// A stopped process still shows the call that it was stopped in.
	if d.stopped() {
		w.State = backend.WaitStopped
		return w, nil
	}
	f := p.confirm(p.subject(p.thread.tid), line)
	switch {
	case f.terminal, f.channel:
		p.proved(&w, line, f)
		return w, nil
	case f.unknown:
		return w, nil
	}
	w.State = backend.WaitBusy
	// The thread that read last is the one that reads next: while it runs, no
	// other one needs to be looked at, which is dear in a program of many threads.
	if (p.name == "" || line.blocked) && p.threads() > 1 {
		p.otherThreads(&w)
	}
	return w, nil
}

// rests tells whether nothing goes on in the started program: it has one thread,
// which is blocked in a read of the terminal without a limit.
func (d *device) rests() bool {
	w, err := d.ShellWait()
	if err != nil || w.State != backend.WaitReading || w.Timed || w.Channel {
		return false
	}
	p := &d.probe
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && p.threads() == 1
}

// subject is a thread of the started program, whose files are kept open.
func (p *waitProbe) subject(tid int) *subject {
	return &subject{source: &liveThread{pid: p.pid, tid: tid, dir: p.fds}}
}

func (p *waitProbe) unreadable(w backend.Wait, err error) (backend.Wait, error) {
	if errors.Is(err, unix.ENOENT) && !p.dev.hasExited() {
		if _, statErr := os.Stat(procPath(p.pid, "stat")); statErr == nil {
			return w, fmt.Errorf("posix: the kernel has no /proc/PID/syscall: %w", backend.ErrUnsupported)
		}
	}
	return w, nil // not allowed to see it, or it has just ended: unknown
}

func (p *waitProbe) open() (err error) {
	if p.thread.call < 0 {
		tid := p.thread.tid
		if p.thread.call, err = unix.Open(taskPath(p.pid, tid, "syscall"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			p.thread.call = -1
			return err
		}
		if p.thread.run, err = unix.Open(taskPath(p.pid, tid, "schedstat"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			p.thread.run = -1 // turns are unknown then
		}
	}
	if p.fds < 0 {
		if p.fds, err = unix.Open(procPath(p.pid, "fd"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			p.fds = -1
			return err
		}
	}
	if p.tasks < 0 {
		if p.tasks, err = unix.Open(procPath(p.pid, "task"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			p.tasks = -1
			return err
		}
	}
	return nil
}

// read returns the call and the turns. The turns are read first: a thread that
// runs in between then shows as waiting with old turns, never as waiting again
// when it was not.
func (t *threadFiles) read() (line syscallLine, turns uint64, err error) {
	var buf [256]byte
	if t.run >= 0 {
		if data, err := readFD(t.run, buf[:]); err == nil {
			turns = parseTurns(data)
		}
	}
	data, err := readFD(t.call, buf[:])
	if err != nil {
		return syscallLine{}, 0, err
	}
	line, err = parseSyscall(data)
	return line, turns, err
}

// confirm examines line and looks once more where the thread's memory decided.
func (p *waitProbe) confirm(s *subject, line syscallLine) found {
	if !line.blocked {
		return found{}
	}
	f := s.examine(line, p.want())
	if !f.memory || !f.terminal && !f.channel {
		return f
	}
	var buf [256]byte
	data, err := readFD(p.thread.call, buf[:])
	if err != nil {
		return found{unknown: true}
	}
	if again, err := parseSyscall(data); err != nil || again != line {
		return found{}
	}
	return f
}

func (p *waitProbe) proved(w *backend.Wait, line syscallLine, f found) {
	w.State = backend.WaitReading
	w.Channel = f.channel && !f.terminal
	w.Timed = f.timed || f.terminal && p.dev.timedRead()
	w.Site = siteOf(line)
	if w.Site != p.site || p.name == "" {
		p.site, p.name = w.Site, commOf(p.pid)
	}
	w.Program = p.name
}

func siteOf(line syscallLine) backend.Site {
	return backend.Site{uint64(line.nr), line.args[0], line.args[1], line.args[2]}
}

func commOf(pid int) string {
	var buf [64]byte
	data, err := readProc(procPath(pid, "comm"), buf[:])
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(data), "\n")
}

// timedRead tells whether a plain read of the terminal ends by itself. A
// program that asks the terminal for its cursor reads with such a limit.
func (d *device) timedRead() bool {
	tio, err := d.term.termios()
	return err == nil && tio.Lflag&unix.ICANON == 0 && tio.Cc[unix.VTIME] != 0
}

// threads counts the program's threads: their folder has a link for each.
func (p *waitProbe) threads() int {
	const own = 2 // . and ..
	var st unix.Stat_t
	if err := unix.Fstatat(p.tasks, "", &st, unix.AT_EMPTY_PATH); err != nil {
		return 0
	}
	return int(st.Nlink) - own
}

// otherThreads looks for the one that reads and keeps its files for the next
// time. Some shells read in a thread of their own.
func (p *waitProbe) otherThreads(w *backend.Wait) {
	known := p.thread
	for _, tid := range taskIDs(p.pid) {
		if tid == known.tid {
			continue
		}
		p.thread = threadFiles{tid: tid, call: -1, run: -1}
		if p.open() == nil {
			if line, turns, err := p.thread.read(); err == nil {
				if f := p.confirm(p.subject(tid), line); f.terminal || f.channel {
					known.close()
					w.Turns = turns
					p.proved(w, line, f)
					return
				}
			}
		}
		p.thread.close()
	}
	p.thread = known
}

func taskIDs(pid int) []int {
	dir, err := os.Open(procPath(pid, "task"))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	ids := make([]int, 0, len(names))
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// InputWait looks at everything that may read the terminal. See backend.Device.
func (d *device) InputWait() (backend.Wait, error) {
	if nativeABI == nil {
		return backend.Wait{}, unprovable()
	}
	pgid, err := d.term.foreground()
	if err != nil {
		return backend.Wait{}, err
	}
	if d.hasExited() {
		return backend.Wait{}, nil
	}
	p := &d.probe
	p.search.Lock()
	defer p.search.Unlock()
	if p.group == pgid && !p.scanDue(time.Now()) && p.still.lasts() {
		return backend.Wait{State: backend.WaitBusy}, nil
	}
	e := evidence{want: want{terminal: d.term.id, group: pgid}, probe: p}
	members, pids := p.tree(pgid)
	e.look(members)
	if e.reading == nil {
		orphans := p.scan(pgid, members)
		e.look(orphans)
		for _, q := range orphans {
			pids = append(pids, q.pid)
		}
	}
	w := e.conclude()
	if w.State != backend.WaitBusy || e.running {
		p.still = stillness{}
	} else {
		p.still.note(pids)
	}
	return w, nil
}

// readerAmong returns the first of members that is provably blocked reading the
// terminal, 0 when none is.
func (d *device) readerAmong(members []process) (pid int) {
	if nativeABI == nil {
		return 0
	}
	p := &d.probe
	p.search.Lock()
	defer p.search.Unlock()
	e := evidence{want: want{terminal: d.term.id, group: d.pid}, probe: p}
	if e.look(members); e.reading == nil {
		return 0
	}
	return e.reading.PID
}

// tree returns the members of a process group among the started program and its
// descendants, and the descendants of those members, except for background jobs:
// the system lets none of those read. pids are all that decided who they are.
func (p *waitProbe) tree(pgid int) (members []process, pids []int) {
	var seen []process
	type node struct {
		pid, parent int  // parent is 0 for a root
		inside      bool // below a member
	}
	var queue []node
	roots, parent := p.roots(pgid)
	for _, pid := range roots {
		queue = append(queue, node{pid: pid})
	}
	if parent != 0 {
		pids = append(pids, parent)
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		st, err := readStat(procPath(n.pid, "stat"))
		switch {
		case err != nil:
			if st, err = hiddenStat(n.pid); err != nil {
				continue
			}
		case n.parent == 0 && st.sid != p.pid, n.parent != 0 && st.ppid != n.parent:
			continue // its number has been given to a stranger, or its parent has ended
		default:
			seen = append(seen, st.process)
		}
		pids = append(pids, n.pid)
		member := st.pgid == pgid
		if n.inside && !member && st.tty == p.dev.term.id.rdev {
			continue
		}
		inside := n.inside || member
		if inside && !st.zombie {
			members = append(members, st.process)
		}
		for _, child := range childrenOf(n.pid) {
			queue = append(queue, node{child, n.pid, inside})
		}
	}
	p.dev.family.remember(seen...)
	return members, pids
}

// roots returns where to look for a group's members: at its leader and the
// leader's siblings, as shells make jobs, which have a parent then. Without the
// leader it is the whole tree.
func (p *waitProbe) roots(pgid int) (roots []int, parent int) {
	leader, err := readStat(procPath(pgid, "stat"))
	if err != nil || leader.pgid != pgid || leader.sid != p.pid {
		return []int{p.pid}, 0
	}
	if pgid == p.pid {
		return []int{pgid}, 0
	}
	above, err := readStat(procPath(leader.ppid, "stat"))
	if err != nil || above.sid != p.pid {
		return []int{pgid}, 0 // an orphan; its like are found by the scan
	}
	roots = []int{pgid}
	for _, pid := range childrenOf(leader.ppid) {
		if group, err := unix.Getpgid(pid); err == nil && group == pgid && pid != pgid {
			roots = append(roots, pid)
		}
	}
	return roots, leader.ppid
}

// stillness lets an answer stand while nobody moves. After a look that found
// nobody reading, the same is true until a thread of those that were looked at
// has run: only one that runs can begin to read, start a process or end.
type stillness struct {
	threads []string // the schedstat files of all of them
	account []byte   // what these said after the look
	holds   bool     // they had said the same before it
}

// note is called after a look at pids.
func (s *stillness) note(pids []int) {
	next := stillness{threads: threadsOf(pids)}
	var ok bool
	if next.account, ok = accountOf(next.threads); ok {
		next.holds = slices.Equal(next.threads, s.threads) && bytes.Equal(next.account, s.account)
	}
	*s = next
}

// threadsOf returns the schedstat files of the threads of processes.
func threadsOf(pids []int) (files []string) {
	for _, pid := range pids {
		for _, tid := range taskIDs(pid) {
			files = append(files, taskPath(pid, tid, "schedstat"))
		}
	}
	return files
}

// lasts tells whether no thread has run since the look.
func (s *stillness) lasts() bool {
	if !s.holds {
		return false
	}
	now, ok := accountOf(s.threads)
	return ok && bytes.Equal(now, s.account)
}

// accountOf returns what the scheduler has counted for threads: their time on a
// CPU in nanoseconds, and how often they were given one.
func accountOf(threads []string) (account []byte, ok bool) {
	var buf [128]byte
	for _, file := range threads {
		line, err := readProc(file, buf[:])
		if err != nil || bytes.HasPrefix(line, []byte("0 ")) { // the kernel may not count
			return nil, false
		}
		account = append(account, line...)
	}
	return account, len(threads) > 0
}

// hiddenStat is what can be told of a process whose folder in /proc is hidden
// (hidepid). It fails when there is no such process.
func hiddenStat(pid int) (procStat, error) {
	pgid, err := unix.Getpgid(pid)
	return procStat{process: process{identity: identity{pid: pid}, pgid: pgid}}, err
}

// childrenOf returns a process's children, from all of its threads. It is empty
// on kernels without the file; the scan finds them then.
func childrenOf(pid int) []int {
	tasks := []int{pid}
	var st unix.Stat_t
	if err := unix.Stat(procPath(pid, "task"), &st); err == nil && st.Nlink > 3 {
		tasks = taskIDs(pid)
	}
	var children []int
	for _, tid := range tasks {
		data, err := os.ReadFile(taskPath(pid, tid, "children"))
		if err != nil {
			continue
		}
		for word := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// scan returns who may read for the group outside of the tree. It reads the
// whole process table, so what it found is kept for a while.
func (p *waitProbe) scan(pgid int, known []process) []process {
	now := time.Now()
	if p.group != pgid {
		p.group, p.since, p.orphans = pgid, now, nil
	}
	if p.scanDue(now) {
		p.orphans = p.searchOrphans(pgid, known)
		p.scanned = time.Now()
		p.scanCost = p.scanned.Sub(now)
	}
	return p.orphans
}

func (p *waitProbe) scanDue(now time.Time) bool {
	pause := min(max(p.scanned.Sub(p.since), orphanAge), maxScanPause)
	last := p.scanned
	if last.Before(p.since) {
		last = p.since
	}
	return now.Sub(last) >= pause && now.Sub(p.scanned) >= scanDuty*p.scanCost
}

// searchOrphans returns what belongs to this terminal and is not known yet:
// members of the group whose parents have ended, with their descendants, and
// servers without a terminal of their own that hold this one (tmux).
func (p *waitProbe) searchOrphans(pgid int, known []process) []process {
	family := p.dev.family
	all, err := family.table.list()
	if err != nil {
		return nil
	}
	inside := make(map[int]bool)
	for _, q := range known {
		inside[q.pid] = true
	}
	serves := func(q process) bool {
		if q.tty != 0 || q.start < family.leader.start || q.pid == family.self || q.ppid == kernelThreads || !p.heldBy(q.pid) {
			return false
		}
		family.mu.Lock()
		defer family.mu.Unlock()
		return family.owns(q, true)
	}
	var orphans []process
	for grew, first := true, true; grew; first = false {
		grew = false
		for _, q := range all {
			if inside[q.pid] || q.pid == p.pid || q.zombie {
				continue
			}
			if q.pgid == pgid || inside[q.ppid] || first && serves(q) {
				inside[q.pid], grew = true, true
				orphans = append(orphans, q)
			}
		}
	}
	family.remember(orphans...)
	return orphans
}

// heldBy tells whether a process has this terminal open.
func (p *waitProbe) heldBy(pid int) (held bool) {
	eachFile(pid, func(_ string, st *unix.Stat_t) bool {
		held = fileIDOf(st) == p.dev.term.id
		return !held
	})
	return held
}

// eachFile calls f for the open files of a process until it returns false.
func eachFile(pid int, f func(number string, st *unix.Stat_t) bool) {
	dir, err := os.Open(procPath(pid, "fd"))
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(procPath(pid, "fd/"+name), &st) == nil && !f(name, &st) {
			return
		}
	}
}

// evidence gathers what the threads of several processes show.
type evidence struct {
	probe *waitProbe
	want  want
	depth int // of terminals within terminals

	reading *backend.Wait // the first proof
	hidden  *process      // a member of the group that may not be looked into
	unknown bool          // something waits in a way that cannot be seen
	seen    bool          // a member of the group was looked at
	awake   bool          // a member of the group does something of its own
	running bool          // a thread is in no call at all
	stopped *process      // a member of the group that is
}

func (e *evidence) look(members []process) {
	for _, q := range members {
		if e.reading != nil {
			return
		}
		e.process(q)
	}
}

func (e *evidence) process(q process) {
	member := q.pgid == e.want.group
	e.seen = e.seen || member
	if q.stopped {
		if member && e.stopped == nil {
			e.stopped = &q
		}
		return
	}
	tids := taskIDs(q.pid)
	if len(tids) == 0 {
		_, err := hiddenStat(q.pid)
		e.unknown = e.unknown || err == nil
		return
	}
	// Threads that wait for one another are woken by one that does something. If
	// all of them do, it is somebody else, or the kernel.
	futile := true
	for _, tid := range tids {
		wait, f, err := e.thread(q, tid)
		futile = futile && f.futex
		switch {
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			if member && e.hidden == nil {
				e.hidden = &q
			}
			e.unknown = true
			return
		case err != nil:
			// It has ended, or the system does not show what it waits for.
			_, statErr := readStat(taskPath(q.pid, tid, "stat"))
			e.unknown = e.unknown || statErr == nil
		case f.terminal:
			e.accept(q, wait, f)
			return
		default:
			e.unknown = e.unknown || f.unknown
			e.awake = e.awake || member && !f.children
		}
	}
	e.unknown = e.unknown || futile
}

// thread examines one thread in the order that makes the answer safe: turns,
// call, files and memory, the same call again, and not stopped.
func (e *evidence) thread(q process, tid int) (w backend.Wait, f found, err error) {
	live := &liveThread{pid: q.pid, tid: tid, dir: -1}
	files := threadFiles{tid: tid, call: -1, run: -1}
	defer files.close()
	if files.call, err = unix.Open(live.path("syscall"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		files.call = -1
		return w, f, err
	}
	if files.run, err = unix.Open(live.path("schedstat"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		files.run = -1
	}
	line, turns, err := files.read()
	if err != nil || !line.blocked {
		e.running = true
		return w, f, err
	}
	s := &subject{source: live}
	if f = s.examine(line, e.want); !f.terminal {
		return w, f, nil
	}
	again, _, err := files.read()
	if err != nil || again != line {
		return w, found{}, err
	}
	st, err := readStat(live.path("stat"))
	if err != nil || st.stopped {
		return w, found{}, err
	}
	// A background job may wait, but the system stops it when it reads. Who
	// belongs to another terminal, or none, may read.
	if st.tty == e.want.terminal.rdev && st.pgid != st.tpgid {
		return w, found{}, nil
	}
	name := st.name // by now: the row may be from before an exec
	if tid != q.pid {
		name = commOf(q.pid)
	}
	return backend.Wait{
		State:   backend.WaitReading,
		PID:     q.pid,
		Program: name,
		Timed:   f.timed || e.depth == 0 && e.probe.dev.timedRead(),
		Site:    siteOf(line),
		Turns:   turns,
	}, f, nil
}

// accept takes a proof, unless the reader only passes input on. Who drives
// terminals of its own (script, screen, tmux, expect) passes it on to one of
// them, and what counts is who reads that one. Of a connection to another
// machine (ssh) the far end cannot be seen.
func (e *evidence) accept(q process, w backend.Wait, f found) {
	o := outletsOf(q.pid)
	if !o.master {
		if f.network || o.socket && e.transparent() {
			e.unknown = true
		} else {
			e.reading = &w
		}
		return
	}
	var reading *backend.Wait
	busy, unknown := false, false
	below := e.probe.below(q.pid)
	for _, rdev := range o.inner {
		members, group := usersOf(rdev, below)
		if len(members) == 0 {
			continue
		}
		if e.depth == maxInner {
			unknown = true
			break
		}
		next := evidence{probe: e.probe, want: want{terminal: fileID{rdev: rdev}, rdevOnly: true, group: group}, depth: e.depth + 1}
		next.look(members)
		switch {
		case next.reading != nil:
			reading = next.reading
		case next.unknown:
			unknown = true
		default:
			busy = true
		}
	}
	switch {
	case reading != nil && !busy && !unknown:
		e.reading = reading
	case reading != nil || !busy || unknown:
		e.unknown = true // which of them gets the input cannot be told
	}
}

// transparent tells whether the terminal passes everything through unchanged in
// both directions, as programs set it that connect to a terminal elsewhere.
func (e *evidence) transparent() bool {
	if e.depth > 0 {
		return false // only the outermost terminal can be asked
	}
	m, err := e.probe.dev.term.modes()
	return err == nil && !m.Canonical && !m.Echo && !m.Signals && !m.OutputProc
}

// outlets are the files by which a program may pass on what it reads.
type outlets struct {
	master bool     // it drives a terminal
	inner  []uint64 // the devices of those
	socket bool
}

func outletsOf(pid int) (o outlets) {
	eachFile(pid, func(number string, st *unix.Stat_t) bool {
		o.socket = o.socket || st.Mode&unix.S_IFMT == unix.S_IFSOCK
		// A master keeps the number of the device that opened it.
		if uint64(st.Rdev) != ptmx {
			return true
		}
		o.master = true
		if data, err := os.ReadFile(procPath(pid, "fdinfo/"+number)); err == nil {
			if index, ok := parseTTYIndex(data); ok {
				o.inner = append(o.inner, ptsDevice(index))
			}
		}
		return true
	})
	return o
}

// ptsDevice is the device number of /dev/pts/N: 256 for each of eight majors.
func ptsDevice(index int) uint64 {
	const firstMajor, perMajor = 136, 256
	return unix.Mkdev(firstMajor+uint32(index/perMajor), uint32(index%perMajor))
}

func (p *waitProbe) below(pid int) []procStat {
	var all []procStat
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, child := range childrenOf(queue[0]) {
			if st, err := readStat(procPath(child, "stat")); err == nil && !st.zombie && st.ppid == queue[0] {
				all, queue = append(all, st), append(queue, child)
				p.dev.family.remember(st.process)
			}
		}
	}
	return all
}

// usersOf returns the foreground group of a terminal, and of below its members
// with their descendants.
func usersOf(rdev uint64, below []procStat) (members []process, group int) {
	for _, st := range below {
		if st.tty == rdev && st.tpgid > 1 {
			group = st.tpgid
		}
	}
	inside := make(map[int]bool)
	for _, st := range below { // parents come first
		if group != 0 && st.pgid == group || inside[st.ppid] {
			inside[st.pid] = true
			members = append(members, st.process)
		}
	}
	return members, group
}

// conclude turns the evidence into an answer.
func (e *evidence) conclude() backend.Wait {
	switch {
	case e.reading != nil:
		return *e.reading
	case e.hidden != nil && e.asksSecret():
		return backend.Wait{State: backend.WaitReading, PID: e.hidden.pid, Program: e.hidden.name, Turns: turnsOf(e.hidden.pid)}
	case e.unknown, !e.seen:
		return backend.Wait{}
	case e.stopped != nil && !e.awake:
		return backend.Wait{State: backend.WaitStopped, PID: e.stopped.pid, Program: e.stopped.name}
	}
	return backend.Wait{State: backend.WaitBusy}
}

// asksSecret recognizes a password prompt of a program that hides its calls
// (su, sudo, passwd, ssh-add): it sleeps in the foreground, and somebody has
// turned off the echo of a terminal that still works by lines. It proves
// nothing where the terminal was without echo from the start.
func (e *evidence) asksSecret() bool {
	d := e.probe.dev
	if !d.echo.Load() {
		return false
	}
	m, err := d.term.modes()
	if err != nil || !m.Canonical || m.Echo {
		return false
	}
	st, err := readStat(procPath(e.hidden.pid, "stat"))
	return err == nil && st.state == 'S' && st.start == e.hidden.start
}

func turnsOf(pid int) uint64 {
	var buf [128]byte
	data, err := readProc(procPath(pid, "schedstat"), buf[:])
	if err != nil {
		return 0
	}
	return parseTurns(data)
}

// probeExactRead finds out whether a child's blocked read can be seen here.
func probeExactRead() error {
	if nativeABI == nil {
		return unprovable()
	}
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("posix: probe: %w", err)
	}
	defer writeEnd.Close()
	var st unix.Stat_t
	conn, err := writeEnd.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { _ = unix.Fstat(int(fd), &st) })
	}
	if err != nil {
		_ = readEnd.Close()
		return fmt.Errorf("posix: probe: %w", err)
	}
	cmd := exec.Command(supervisorShell, "-c", "read answer")
	cmd.Stdin = readEnd
	err = cmd.Start()
	_ = readEnd.Close()
	if err != nil {
		return fmt.Errorf("posix: probe: %w", err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pipe := fileIDOf(&st)
	s := &subject{source: &liveThread{pid: cmd.Process.Pid, tid: cmd.Process.Pid, dir: -1}}
	for deadline := time.Now().Add(probeLimit); time.Now().Before(deadline); time.Sleep(probePause) {
		var buf [256]byte
		data, err := s.read("syscall", buf[:])
		if err != nil {
			return fmt.Errorf("posix: a child's system call cannot be read (%w): %s", err, whyHidden(err))
		}
		if line, err := parseSyscall(data); err == nil && line.blocked {
			if f := s.examine(line, want{terminal: fileID{dev: ^uint64(0)}, channel: &pipe}); f.channel {
				return nil
			}
		}
	}
	return errors.New("posix: a child that is blocked in a read does not show as such")
}

func whyHidden(err error) string {
	if errors.Is(err, syscall.ENOENT) {
		return "the kernel, or what stands in for it (gVisor), has no /proc/PID/syscall"
	}
	var buf [8]byte
	scope, _ := readProc("/proc/sys/kernel/yama/ptrace_scope", buf[:])
	return whyRefused(strings.TrimSpace(string(scope)))
}

// whyRefused explains a refusal; scope is Yama's, empty where it is not used.
func whyRefused(scope string) string {
	if scope == "2" || scope == "3" {
		return "kernel.yama.ptrace_scope is " + scope + "; 0 or 1 allows it"
	}
	return "a security module or the container's profile refuses access to other processes"
}
