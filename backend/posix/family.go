//go:build linux || darwin

package posix

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// maxSeen bounds what is remembered of the dead of a session: the dead are
// forgotten when there are so many, or as many as were alive the last time.
const maxSeen = 1024

// family is everything that a terminal's program started: its descendants, the
// members of its session, what carries its mark, and what was seen to belong to
// it before.
type family struct {
	table  processTable
	mark   string // the variable that its members inherit
	limit  uint64 // the resource limit that they inherit, 0 for none
	self   int    // the host
	leader identity

	// launchers are the processes between the host and the leader. They end with
	// it and are no members, but what is orphaned below them is.
	launchers []identity

	mu    sync.Mutex
	seen  map[identity]bool
	alive int // of seen, when the dead were forgotten last
}

// remember notes processes that were seen to belong to the family. They stay
// members when they leave session and tree and clear their environment later.
func (f *family) remember(members ...process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = make(map[identity]bool)
	}
	for _, p := range members {
		f.seen[p.identity] = true
	}
	if len(f.seen) <= max(maxSeen, 2*f.alive) {
		return
	}
	for id := range f.seen {
		if p, err := f.table.lookup(id.pid); err != nil || p.identity != id || p.zombie {
			delete(f.seen, id)
		}
	}
	f.alive = len(f.seen)
}

// members returns the living members without the leader, parents before their
// children, and remembers them.
func (f *family) members() ([]process, error) {
	all, err := f.table.list()
	if err != nil {
		return nil, err
	}
	// The session is ours only as long as our leader leads it: its number may
	// be given away afterwards.
	leads := false
	for _, p := range all {
		leads = leads || p.identity == f.leader
	}
	children := make(map[int][]process)
	var roots []process
	f.mu.Lock()
	for _, p := range all {
		if p.pid <= 1 || p.pid == f.self {
			continue
		}
		if f.owns(p, leads) {
			roots = append(roots, p)
		}
		children[p.ppid] = append(children[p.ppid], p)
	}
	f.mu.Unlock()

	found := make(map[identity]bool)
	var members []process
	queue := slices.Clone(roots)
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if found[p.identity] {
			continue
		}
		found[p.identity] = true
		if !p.zombie && p.identity != f.leader && !slices.Contains(f.launchers, p.identity) {
			members = append(members, p)
		}
		queue = append(queue, children[p.pid]...)
	}
	slices.SortStableFunc(members, func(a, b process) int { return cmp.Compare(a.start, b.start) })
	f.remember(members...)
	return members, nil
}

// owns tells what shows of p itself: not whether its parent is a member. leads
// says that the leader's session is still the leader's. f.mu is held.
func (f *family) owns(p process, leads bool) bool {
	switch {
	case p.identity == f.leader, f.seen[p.identity], slices.Contains(f.launchers, p.identity):
		return true
	case p.start < f.leader.start:
		return false // it was there before
	case leads && p.sid == f.leader.pid:
		return true
	}
	return !p.zombie && p.ppid != kernelThreads && f.table.marked(p.identity, f.mark, f.limit)
}

// send gives each of members the signals in order and returns those that the
// host may not signal.
func (f *family) send(members []process, signals ...unix.Signal) (denied []process) {
	for _, p := range members {
		for _, sig := range signals {
			if err := f.table.signal(p.identity, sig); errors.Is(err, unix.EPERM) {
				denied = append(denied, p)
				break
			}
		}
	}
	return denied
}

func identities(members []process) []identity {
	ids := make([]identity, len(members))
	for i, p := range members {
		ids[i] = p.identity
	}
	return ids
}
