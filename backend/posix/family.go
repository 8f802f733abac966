//go:build linux || darwin

package posix

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// maxSeen bounds what is remembered of a session; above it the dead are
// forgotten.
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

	mu   sync.Mutex
	seen map[identity]bool
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
	if len(f.seen) <= maxSeen {
		return
	}
	for id := range f.seen {
		if p, err := f.table.lookup(id.pid); err != nil || p.identity != id || p.zombie {
			delete(f.seen, id)
		}
	}
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
		switch {
		case p.pid <= 1 || p.pid == f.self:
			continue
		case p.identity == f.leader, f.seen[p.identity]:
			roots = append(roots, p)
		case p.start < f.leader.start:
			continue // it was there before
		case leads && p.sid == f.leader.pid:
			roots = append(roots, p)
		case !p.zombie && p.ppid != kernelThreads && f.table.marked(p.identity, f.mark, f.limit):
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
		if !p.zombie && p.identity != f.leader {
			members = append(members, p)
		}
		queue = append(queue, children[p.pid]...)
	}
	slices.SortStableFunc(members, func(a, b process) int { return cmp.Compare(a.start, b.start) })
	f.remember(members...)
	return members, nil
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
