//go:build linux || darwin

package posix

import (
	"time"

	"golang.org/x/sys/unix"
)

// launched tells whether a launcher stands between the host and the program.
func (d *device) launched() bool { return d.pid != d.proc.Pid }

// between returns the parents of leader up to the process top.
func (f *family) between(leader identity, top int) (parents []identity) {
	const most = 8
	for pid := leader.pid; pid != top && len(parents) < most; {
		p, err := f.table.lookup(pid)
		if err != nil || p.ppid <= 1 {
			return parents
		}
		parent, err := f.table.lookup(p.ppid)
		if err != nil {
			return parents
		}
		parents = append(parents, parent.identity)
		pid = parent.pid
	}
	return parents
}

// endLaunchers ends what is left between the host and the leader. The first
// process of a process namespace takes all others of it along.
func (f *family) endLaunchers(limit time.Duration) {
	for _, id := range f.launchers {
		_ = f.table.signal(id, unix.SIGKILL)
	}
	f.table.await(f.launchers, time.Now().Add(limit))
}
