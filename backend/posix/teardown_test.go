//go:build linux || darwin

package posix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// gone tells whether a process has ended; a zombie has.
func gone(pid int) bool {
	p, err := systemTable().lookup(pid)
	return err != nil || p.zombie
}

// numbers waits for a file of as many process ids, one a line.
func numbers(t testing.TB, path string, count int) []int {
	t.Helper()
	var pids []int
	eventually(t, func() bool {
		data, _ := os.ReadFile(path)
		pids = nil
		for line := range strings.Lines(string(data)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && strings.HasSuffix(line, "\n") {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= count
	}, "%d process ids in %s", count, path)
	return pids
}

// What outlives a plain hang-up.
//
// Case: T41, A28, reference 3.3 #72
func TestTerminateWholeTree(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, command string
		count         int
	}{
		{"plain", `sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" &`, 1},
		{"foreground", `sh -c 'echo $$ >>"$0"; exec sleep 300' "$F"`, 1},
		{"nohup", `nohup sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" >/dev/null 2>&1 &`, 1},
		{"disowned", `sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" & disown -a`, 1},
		{"double fork", `(sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" &)`, 1},
		{"own session", `setsid sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" &`, 1},
		{"daemon", `(setsid sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" </dev/null >/dev/null 2>&1 &)`, 1},
		{"no environment", `env -i sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" &`, 1},
		// Case: A29
		// All that was known of it is left behind at once, but for
		// the resource limit.
		{"no environment, session or terminal, orphan", `(env -i setsid sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" </dev/null >/dev/null 2>&1 &)`, 1},
		{"no environment, orphan", `(env -i sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" &)`, 1},
		{"stopped", `sh -c 'echo $$ >>"$0"; kill -STOP $$' "$F" &`, 1},
		{"ignores the hang-up", `(trap '' HUP; echo $BASHPID >>"$F"; exec sleep 300) &`, 1},
		{"ignores everything", `(trap '' HUP TERM INT; echo $BASHPID >>"$F"; while :; do sleep 0.05; done) &`, 1},
		{"tree that ignores everything", `(trap '' HUP TERM; sh -c 'echo $$ >>"$0"; (sh -c "echo \$\$ >>\"\$0\"; sleep 300" "$0" &); while :; do sleep 0.05; done' "$F"; :) &`, 2},
		{"several", `for i in 1 2 3 4 5 6 7 8; do sh -c 'echo $$ >>"$0"; exec sleep 300' "$F" & done`, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pids")
			spec := bashSpec()
			spec.Env = append(spec.Env, "F="+file)
			s := open(t, spec)
			s.readsShell(t)
			s.types(t, tt.command+"\n")
			pids := numbers(t, file, tt.count)
			require.NoError(t, s.Terminate(context.Background(), 200*time.Millisecond))
			for _, pid := range append(pids, s.PID()) {
				assert.True(t, gone(pid), "%d outlived its terminal", pid)
			}
			assert.True(t, s.hasExited())
		})
	}
}

// Programs that are started while the shell dies.
//
// Case: reference 3.3 #72
func TestTerminateSweeps(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pids")
	s := open(t, specOf("bash", "-c", `trap '' TERM; trap 'trap "" HUP; sh -c "echo \$\$ >>\"\$0\"; exec sleep 300" "$0" & wait' HUP; echo rea""dy; while :; do sleep 0.01; done`, file))
	s.shows(t, "ready")
	require.NoError(t, s.Terminate(context.Background(), time.Second))
	for _, pid := range numbers(t, file, 1) {
		assert.True(t, gone(pid))
	}
}

// A shell whose foreground program is ended first must not go on with its
// script.
func TestTerminateRunsNothingMore(t *testing.T) {
	for name, spec := range map[string]func(...string) backend.Spec{
		"interactive": func(...string) backend.Spec { return bashSpec() },
		"script":      func(args ...string) backend.Spec { return specOf("bash", append([]string{"-c"}, args...)...) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "more")
			script := "echo rea''dy; sleep 300; echo >" + file
			s := open(t, spec(script))
			if name == "interactive" {
				s.readsShell(t)
				s.types(t, script+"\n")
			}
			s.shows(t, "ready")
			eventually(t, func() bool {
				all, err := s.family.members()
				return err == nil && slices.ContainsFunc(all, func(p process) bool { return p.name == "sleep" })
			}, "sleep")
			require.NoError(t, s.Terminate(context.Background(), 2*time.Second))
			assert.NoFileExists(t, file)
		})
	}
}

// A shell and a tree that ignore everything are ended within two graces.
func TestTerminateStubbornShell(t *testing.T) {
	t.Parallel()
	s := open(t, specOf("bash", "-c", `trap '' HUP TERM; (while :; do sleep 0.05; done) & echo rea""dy; while :; do sleep 0.05; done`))
	s.shows(t, "ready")
	const grace = 300 * time.Millisecond
	began := time.Now()
	require.NoError(t, s.Terminate(context.Background(), grace))
	assert.GreaterOrEqual(t, time.Since(began), grace, "it was asked first")
	assert.Less(t, time.Since(began), 5*time.Second)
	t.Logf("ended after %v", time.Since(began))
	assert.Equal(t, "SIGKILL", s.ExitStatus().Signal)
}

// A shell that is still at its prompt after several hang-ups is not waited for;
// one that does something about them is.
func TestTerminateShellThatSurvivesHangUps(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells what a shell waits for")
	}
	for name, tt := range map[string]struct {
		trap         string
		early, saves bool
	}{
		"ignores them":    {`trap '' HUP TERM`, true, false},
		"has a trap":      {`trap '' TERM; trap 'echo >"$F"' HUP`, true, true},
		"has a slow trap": {`trap '' TERM; trap 'sleep 0.3; sleep 0.3; echo >"$F"' HUP`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "saved")
			// readline takes a hang-up for the end of the input, trap or not.
			spec := specOf("bash", "--noprofile", "--norc", "--noediting", "-i")
			spec.Env = append(spec.Env, "F="+file)
			s := open(t, spec)
			s.readsShell(t)
			s.types(t, tt.trap+"; echo rea''dy\n")
			s.shows(t, "ready")
			s.readsShell(t)
			const grace = 3 * time.Second
			began := time.Now()
			require.NoError(t, s.Terminate(context.Background(), grace))
			t.Logf("ended after %v", time.Since(began))
			if tt.early {
				assert.Less(t, time.Since(began), grace)
			}
			assert.Equal(t, "SIGKILL", s.ExitStatus().Signal)
			if tt.saves {
				assert.FileExists(t, file)
			}
		})
	}
}

func TestTerminateForkStorm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	s := open(t, specOf("bash", "-c", `trap '' HUP TERM
storm() { trap '' HUP TERM; echo $BASHPID >>"$0"; while :; do (sleep 0.2 &); sleep 0.01; done; }
for i in 1 2 3 4 5 6; do storm & done; wait`, file))
	numbers(t, file, 6)
	require.NoError(t, s.Terminate(context.Background(), 100*time.Millisecond))
	left, err := s.family.members()
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestTerminateAfterExit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	s := open(t, specOf("bash", "-c", `(trap '' HUP; env -i sh -c 'echo $$ >>"$0"; exec sleep 300' "$0" </dev/null >/dev/null 2>&1 &); exit 5`, file))
	pid := numbers(t, file, 1)[0]
	assert.Equal(t, code(5), s.ends(t).Code)
	require.NoError(t, s.Terminate(context.Background(), 200*time.Millisecond))
	assert.True(t, gone(pid), "a member of the session whose leader has ended")
	_, err := systemTable().lookup(s.PID())
	assert.ErrorIs(t, err, errGone, "the leader is reaped")
}

// bash only notes a hang-up that comes while it starts, and then waits for
// input; a terminal that is given up while it opens must not cost the grace.
func TestTerminateWhileStarting(t *testing.T) {
	began := time.Now()
	for range 5 {
		require.NoError(t, open(t, bashSpec()).Terminate(context.Background(), patience))
	}
	assert.Less(t, time.Since(began), patience)
}

func TestTerminateConcurrently(t *testing.T) {
	s := open(t, bashSpec())
	s.readsShell(t)
	var calls sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		calls.Go(func() { errs[i] = s.Terminate(context.Background(), time.Second) })
	}
	calls.Wait()
	for _, err := range errs {
		assert.NoError(t, err)
	}
	assert.NoError(t, s.Terminate(context.Background(), time.Second), "after a success further calls succeed")
}

// The context bounds the caller's wait; the teardown goes on.
func TestTerminateCancelled(t *testing.T) {
	s := open(t, specOf("bash", "-c", `trap '' HUP TERM; echo rea""dy; while :; do sleep 0.05; done`))
	s.shows(t, "ready")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Terminate(ctx, 100*time.Millisecond), context.Canceled)
	s.ends(t)
	<-s.eof
}

// A program that runs in another's terminal carries both marks, so the outer
// teardown finds what the inner one left.
func TestNestedMarks(t *testing.T) {
	spec := shSpec(`env | grep -c ^` + markPrefix + `; echo done`)
	spec.Env = append(spec.Env, newMark()+"=1")
	s := open(t, spec)
	s.ends(t)
	s.shows(t, "done")
	assert.Contains(t, s.output(), "2\r\n")
}

func TestOpenAndCloseSoak(t *testing.T) {
	d := newDriver(t)
	cycle := func() int {
		spec := withChannel(bashSpec())
		dev, err := d.Start(context.Background(), spec)
		require.NoError(t, err)
		s := &screen{device: dev.(*device), eof: make(chan struct{})}
		go s.collect()
		_, _ = s.ShellWait()
		require.NoError(t, s.Terminate(context.Background(), time.Second))
		<-s.eof
		return s.PID()
	}
	cycle()
	settled := func() (int, bool) {
		host.mu.Lock()
		defer host.mu.Unlock()
		return len(host.leases), host.current == nil && !host.pending
	}
	eventually(t, func() bool { _, idle := settled(); return idle }, "the supervisor to end")
	files, routines := openFiles(t), goroutines()
	for range samples(1000) {
		pid := cycle()
		_, err := systemTable().lookup(pid)
		require.ErrorIs(t, err, errGone)
	}
	eventually(t, func() bool { n, idle := settled(); return n == 0 && idle }, "the supervisor to end")
	eventually(t, func() bool { return openFiles(t) <= files }, "%d open files, have %d", files, openFiles(t))
	eventually(t, func() bool { return goroutines() <= routines }, "%d goroutines", routines)
	eventually(t, func() bool {
		all, err := systemTable().list()
		require.NoError(t, err)
		return !slices.ContainsFunc(all, func(p process) bool { return p.ppid == os.Getpid() })
	}, "no children, zombies included")
}

// fakeTable is a process table that recycles ids and refuses signals on demand.
type fakeTable struct {
	rows    map[int]process
	marks   map[identity]bool
	immune  map[int]error       // what a signal to a process returns
	onEnd   map[int]func()      // what happens when one ends
	dies    map[int]unix.Signal // the signal that ends it; SIGTERM by default
	sent    map[identity][]unix.Signal
	refused []identity // signals to what is not there any more
}

func newFakeTable(rows ...process) *fakeTable {
	f := &fakeTable{rows: map[int]process{}, marks: map[identity]bool{}, immune: map[int]error{}, onEnd: map[int]func(){}, dies: map[int]unix.Signal{}, sent: map[identity][]unix.Signal{}}
	for _, p := range rows {
		f.rows[p.pid] = p
	}
	return f
}

func (f *fakeTable) list() ([]process, error) {
	var all []process
	for _, p := range f.rows {
		all = append(all, p)
	}
	return all, nil
}

func (f *fakeTable) lookup(pid int) (process, error) {
	p, ok := f.rows[pid]
	if !ok {
		return process{}, errGone
	}
	return p, nil
}

func (f *fakeTable) marked(id identity, _ string, _ uint64) bool { return f.marks[id] }

func (f *fakeTable) signal(id identity, sig unix.Signal) error {
	if f.rows[id.pid].identity != id {
		f.refused = append(f.refused, id)
		return errGone
	}
	if err := f.immune[id.pid]; err != nil {
		return err
	}
	f.sent[id] = append(f.sent[id], sig)
	fatal := f.dies[id.pid]
	if fatal == 0 {
		fatal = unix.SIGTERM
	}
	if sig == fatal {
		delete(f.rows, id.pid)
		if then := f.onEnd[id.pid]; then != nil {
			then()
		}
	}
	return nil
}

func (f *fakeTable) await([]identity, time.Time) {}

func fakeFamily(table *fakeTable) *family {
	return &family{table: table, mark: "MARK", self: 77, leader: identity{100, 50}}
}

func row(pid int, start uint64, ppid, sid int) process {
	return process{identity: identity{pid, start}, ppid: ppid, sid: sid, name: fmt.Sprint("p", pid)}
}

func names(members []process) []string {
	var all []string
	for _, p := range members {
		all = append(all, p.name)
	}
	return all
}

func TestFamilyMembers(t *testing.T) {
	zombie := row(105, 61, 100, 100)
	zombie.zombie = true
	table := newFakeTable(
		row(1, 0, 0, 1), row(77, 10, 1, 70), row(100, 50, 77, 100),
		row(101, 60, 100, 100), // a child
		row(102, 62, 101, 102), // a grandchild in a session of its own
		row(103, 63, 1, 100),   // an orphan of the session
		row(104, 64, 1, 104),   // a daemon with the mark
		zombie,
		row(106, 65, 1, 106), // a stranger
		row(107, 40, 1, 100), // older than the leader: the number of its session is a coincidence
		row(108, 41, 1, 108), // older, with a mark
		row(109, 66, 104, 109),
	)
	table.marks[identity{104, 64}] = true
	table.marks[identity{108, 41}] = true
	f := fakeFamily(table)
	members, err := f.members()
	require.NoError(t, err)
	assert.Equal(t, []string{"p101", "p102", "p103", "p104", "p109"}, names(members), "parents first")

	// Once the leader's number is somebody else's, so is the session's; what was
	// seen before stays, unless its own number was recycled.
	table.rows[100] = row(100, 70, 1, 100)
	table.rows[110] = row(110, 71, 1, 100)
	table.rows[102] = row(102, 72, 1, 102)
	members, err = f.members()
	require.NoError(t, err)
	assert.Equal(t, []string{"p101", "p103", "p104", "p109"}, names(members))
}

// The number of a process that has ended is given to another one while the
// teardown is under way.
//
// Case: reference 3.3 #73
func TestRecycledProcessIsNeverSignalled(t *testing.T) {
	table := newFakeTable(row(100, 50, 77, 100), row(101, 60, 100, 100), row(102, 61, 100, 100))
	stranger := row(102, 99, 1, 5)
	table.onEnd[101] = func() { table.rows[102] = stranger }
	left, err := fakeFamily(table).end(time.Second, true)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Equal(t, stranger, table.rows[102])
	assert.Empty(t, table.sent[stranger.identity])
	assert.Contains(t, table.refused, identity{102, 61}, "the old one was meant")
}

func TestEndEscalates(t *testing.T) {
	table := newFakeTable(row(100, 50, 77, 100), row(101, 60, 100, 100))
	table.dies[101] = unix.SIGKILL
	left, err := fakeFamily(table).end(0, true)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.Equal(t, []unix.Signal{unix.SIGHUP, unix.SIGTERM, unix.SIGCONT, unix.SIGSTOP, unix.SIGKILL}, table.sent[identity{101, 60}])
}

// What the host may not signal is reported, and only a later attempt asks again.
// A scan may take longer than the limit; what it found is killed nonetheless.
func TestKillAfterASlowScan(t *testing.T) {
	table := newFakeTable(row(100, 50, 77, 100), row(101, 60, 100, 100))
	table.dies[101] = unix.SIGKILL
	left, err := fakeFamily(table).kill(0)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestEndReportsTheImmune(t *testing.T) {
	table := newFakeTable(row(100, 50, 77, 100), row(101, 60, 100, 100), row(102, 61, 100, 100))
	table.immune[102] = unix.EPERM
	f := fakeFamily(table)
	for _, last := range []bool{false, true} {
		left, err := f.end(0, last)
		require.NoError(t, err)
		assert.Equal(t, []string{"p102"}, names(left))
	}
	delete(table.immune, 102)
	left, err := f.end(0, true)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// Survivors are named, the device stays usable, and a retry ends the rest.
func TestTerminateIsRetried(t *testing.T) {
	s := open(t, bashSpec())
	s.readsShell(t)
	s.family.table = &stubborn{processTable: s.family.table, extra: row(4242, 1<<60, s.PID(), 4242), alive: true}
	err := s.Terminate(context.Background(), 10*time.Millisecond)
	var survivors *backend.SurvivorsError
	require.ErrorAs(t, err, &survivors)
	assert.Equal(t, []backend.Process{{PID: 4242, Program: "p4242"}}, survivors.Processes)
	require.ErrorContains(t, err, "4242 (p4242)")
	assert.Equal(t, 1, leases(), "the supervisor still knows of it")

	s.family.table.(*stubborn).end()
	require.NoError(t, s.Terminate(context.Background(), 10*time.Millisecond))
	assert.Zero(t, leases())
}

// stubborn is the system's table with one process more, which no signal ends.
type stubborn struct {
	processTable
	extra process
	mu    sync.Mutex
	alive bool
}

func (s *stubborn) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = false
}

func (s *stubborn) list() ([]process, error) {
	all, err := s.processTable.list()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive {
		all = append(all, s.extra)
	}
	return all, err
}

func (s *stubborn) signal(id identity, sig unix.Signal) error {
	if id == s.extra.identity {
		return nil
	}
	return s.processTable.signal(id, sig)
}

func (s *stubborn) await(ids []identity, until time.Time) {
	if slices.Contains(ids, s.extra.identity) {
		time.Sleep(time.Until(until))
		return
	}
	s.processTable.await(ids, until)
}

func TestSignalRefusesSpecialProcesses(t *testing.T) {
	for _, pid := range []int{-5, 0, 1, os.Getpid()} {
		require.Error(t, systemTable().signal(identity{pid: pid}, unix.SIGCONT))
	}
	self, err := systemTable().lookup(os.Getpid())
	require.NoError(t, err)
	assert.False(t, self.zombie)
	wrong := identity{os.Getppid(), 1}
	require.ErrorIs(t, systemTable().signal(wrong, unix.SIGCONT), errGone, "the start time tells")
}

func TestSeenIsBounded(t *testing.T) {
	f := fakeFamily(newFakeTable(row(100, 50, 77, 100), row(5, 60, 100, 100)))
	f.remember(row(5, 60, 100, 100))
	for i := range 3 * maxSeen {
		f.remember(row(1000+i, 60, 100, 100))
	}
	assert.LessOrEqual(t, len(f.seen), maxSeen+1)
	assert.True(t, f.seen[identity{5, 60}])
}
