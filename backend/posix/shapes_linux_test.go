package posix

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Shapes of what a terminal leaves behind that a plain shell does not make by
// itself.
//
// Case: A28, A29
func TestTerminateEveryShape(t *testing.T) {
	t.Parallel()
	const say = `echo $$ >>"$F"; `
	const asleep = `sh -c '` + say + `exec sleep 300'`
	tests := []struct {
		name    string
		needs   []string
		command string
		count   int
	}{
		{"disown -h", nil, asleep + " & disown -h", 1},
		{"suspended by its terminal", nil, `sh -c '` + say + `kill -TSTP $$; sleep 300'`, 1},
		{"stopped, session of its own", []string{"setsid"}, `(setsid sh -c '` + say + `kill -STOP $$' &)`, 1},
		{"stopped, ignores everything", nil, `(trap '' HUP TERM CONT INT; sh -c '` + say + `kill -STOP $$; sleep 300' &)`, 1},
		{"stopped by its reading", nil, `sh -c '` + say + `exec cat' &`, 1},
		{"nohup in a session of its own, orphan", []string{"setsid", "nohup"}, `(nohup setsid sh -c '` + say + `exec sleep 300' >/dev/null 2>&1 &)`, 1},
		{"stopped in a session of its own under a trap", []string{"setsid"}, `(trap '' HUP TERM; setsid sh -c '` + say + `kill -STOP $$' &)`, 1},
		{"coprocess", nil, `coproc ` + asleep, 1},
		{"process substitution", nil, `exec 7> >(` + asleep + `)`, 1},
		{"pipeline of the background", nil, asleep + " | " + asleep + " &", 2},
		{"first thread has ended", []string{"python3"}, `python3 -c "
import ctypes, os, signal, threading, time
for s in (1, 15): signal.signal(s, signal.SIG_IGN)
threading.Thread(target=time.sleep, args=(300,)).start()
open(os.environ['F'], 'a').write('%d\n' % os.getpid())
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)" &`, 1},
		{"reaper of its own", []string{"python3"}, `python3 -c "
import ctypes, os, subprocess, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.call(['sh', '-c', '(env -i setsid sh -c \'echo \$\$ >>\"\$0\"; exec sleep 300\' \"\$F\" &)'])
open(os.environ['F'], 'a').write('%d\n' % os.getpid())
time.sleep(300)" &`, 2},
		{"traced", []string{"strace"}, `strace -f -o /dev/null ` + asleep, 1},
		{"stopped in a debugger", []string{"gdb"}, `gdb -q -nx -batch -ex 'catch syscall nanosleep' -ex 'catch syscall clock_nanosleep' -ex run -ex 'shell sleep 300' --args ` + asleep, 1},
		{"terminal within", []string{"script"}, `script -qc "` + `sh -c 'echo \$\$ >>\"\$F\"; exec sleep 300'` + `" /dev/null`, 1},
		{"daemon in a terminal within", []string{"script", "setsid"}, `script -qc "` + `(setsid sh -c 'echo \$\$ >>\"\$F\"; exec sleep 300' &) ; sleep 300` + `" /dev/null`, 1},
		{"tmux server", []string{"tmux"}, `tmux -S "$F.s" -f /dev/null new -d "` + `sh -c 'echo \$\$ >>\"\$F\"; exec sleep 300'"`, 1},
		{"screen server", []string{"screen"}, `mkdir -m 700 "$F.d"; SCREENDIR="$F.d" screen -dm -c /dev/null sh -c 'echo $$ >>"$F"; exec sleep 300'`, 1},
		{"namespaces of its own", []string{"bwrap"}, `bwrap --bind / / --dev /dev sh -c '` + say + `exec setsid sleep 300'`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			requires(t, tt.needs...)
			file := filepath.Join(place(t), "pids")
			spec := bashSpec()
			spec.Env = append(spec.Env, "F="+file, "TERM=xterm", "TMUX=", "STY=")
			s := open(t, spec)
			s.readsShell(t)
			s.types(t, tt.command+"\n")
			pids := numbers(t, file, tt.count)
			began := time.Now()
			require.NoError(t, s.Terminate(context.Background(), 200*time.Millisecond), "%s", s)
			t.Logf("ended in %v", time.Since(began))
			for _, pid := range append(pids, s.PID()) {
				assert.True(t, gone(pid), "%d outlived its terminal", pid)
			}
		})
	}
}

// Processes in a namespace of ids call themselves by other numbers; they end
// with the first one of them, and none is left.
func TestTerminateNamespaceOfIDs(t *testing.T) {
	t.Parallel()
	requires(t, "bwrap")
	s := open(t, shSpec("bwrap --bind / / --dev /dev --proc /proc --unshare-pid sh -c '(trap \"\" HUP TERM; setsid env -i sleep 300 </dev/null >/dev/null 2>&1 &); echo rea\"\"dy; exec sleep 300'; exit"))
	s.shows(t, "ready")
	var inside []process
	eventually(t, func() bool {
		members, err := s.family.members()
		require.NoError(t, err)
		inside = inside[:0]
		for _, p := range members {
			if p.name == "sleep" {
				inside = append(inside, p)
			}
		}
		return len(inside) == 2
	}, "both")
	require.NoError(t, s.Terminate(context.Background(), 200*time.Millisecond))
	for _, p := range inside {
		assert.True(t, gone(p.pid))
	}
}
