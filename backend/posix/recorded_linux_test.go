package posix

import (
	"encoding/binary"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shellstead/shellstead/backend"
)

// record is what /proc says of a thread on a system that this one is not.
type record struct {
	text  map[string]string // files of the thread's folder
	files map[int]unix.Stat_t
	links map[int]string
	bytes map[uint64][]byte // its memory
	deny  error             // of everything but stat, as Yama and other users' programs show
}

func (r *record) readAll(name string) ([]byte, error) {
	text, ok := r.text[name]
	switch {
	case r.deny != nil && name != "stat":
		return nil, r.deny
	case !ok:
		return nil, unix.ENOENT
	}
	return []byte(text), nil
}

func (r *record) read(name string, buf []byte) ([]byte, error) {
	data, err := r.readAll(name)
	return buf[:copy(buf, data)], err
}

func (r *record) stat(fd int, st *unix.Stat_t) error {
	found, ok := r.files[fd]
	switch {
	case r.deny != nil:
		return r.deny
	case !ok:
		return unix.ENOENT
	}
	*st = found
	return nil
}

func (r *record) link(fd int) (string, error) {
	if r.deny != nil {
		return "", r.deny
	}
	return r.links[fd], nil
}

func (r *record) protocol(int) string { return "" }

func (r *record) memory(address uint64, into []byte) error {
	data, ok := r.bytes[address]
	switch {
	case r.deny != nil:
		return r.deny
	case !ok || len(data) < len(into):
		return unix.EFAULT
	}
	copy(into, data)
	return nil
}

const epollInfo = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1054\ntfd:       17 events:       19 data:               11  pos:0 ino:3 sdev:1a\n"

// little returns words of the given size as memory has them.
func little(size int, words ...uint64) []byte {
	var data []byte
	for _, word := range words {
		data = append(data, binary.LittleEndian.AppendUint64(nil, word)[:size]...)
	}
	return data
}

// elf is the start of a program's file.
func elf(class byte, machine uint16) string {
	header := make([]byte, 20)
	copy(header, "\x7fELF")
	header[4] = class
	binary.NativeEndian.PutUint16(header[18:], machine)
	return string(header)
}

// What blocked threads look like on other architectures, in 32-bit programs,
// and where a system refuses to show them.
//
// Case: A1, A2, A3, A4, A5, A6
func TestExamineRecords(t *testing.T) {
	slave := unix.Stat_t{Dev: unix.Mkdev(0, 26), Ino: 3, Rdev: unix.Mkdev(136, 0), Mode: unix.S_IFCHR}
	alias := unix.Stat_t{Dev: unix.Mkdev(0, 5), Ino: 12, Rdev: unix.Mkdev(5, 0), Mode: unix.S_IFCHR}
	wanted := want{terminal: fileIDOf(&slave), group: 71}
	reading := found{terminal: true}
	fromMemory := found{terminal: true, memory: true}
	const (
		rest4 = " 0x0 0x0 0x0 0x0"
		intel = 3
		arm   = 40
	)
	line64 := func(s string) string { return s + " 0xffffd3cb4a88 0xffff9c3ad1ae" }
	line32 := func(s string) string { return s + " 0xff8b4a88 0xf7f3a1ae" }
	exe := func(class byte, machine uint16) map[string]string {
		return map[string]string{"exe": elf(class, machine)}
	}
	files := map[int]unix.Stat_t{0: slave, 3: alias, 5: {Mode: unix.S_IFIFO, Ino: 9}}
	pollfds := map[uint64][]byte{
		0x8000: append(little(4, 5, 1), little(4, 0, 1)...),          // a pipe and the terminal
		0x9000: append(little(4, 5, 1), little(4, 0, 4)...),          // the terminal for output
		0xa000: little(8, 1),                                         // fd_set {0}
		0xb000: little(8, 0x20),                                      // fd_set {5}
		0xc000: little(4, 1, 0xa000, 0, 0, 0),                        // old select
		0xd000: append(little(4, 0xffffffff, 1), little(4, 0, 1)...), // one that is left out
	}
	tests := []struct {
		name   string
		native string // GOARCH
		call   string
		record record
		want   found
	}{
		{"arm64 read", "arm64", line64("63 0x0 0x7f00 0x400 0x0 0x0 0x0"), record{}, reading},
		{"arm64 readv", "arm64", line64("65 0x0 0x7f00 0x1 0x0 0x0 0x0"), record{}, reading},
		{"arm64 read of /dev/tty", "arm64", line64("63 0x3 0x7f00 0x400 0x0 0x0 0x0"), record{text: map[string]string{"stat": "71 (x) S 1 71 70 34816 71 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0"}}, reading},
		{"arm64 read of another devpts's /dev/tty", "arm64", line64("63 0x3 0x7f00 0x400 0x0 0x0 0x0"), record{text: map[string]string{"stat": "71 (x) S 1 71 70 34816 9 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0"}}, found{}},
		{"arm64 read of a pipe", "arm64", line64("63 0x5 0x7f00 0x400 0x0 0x0 0x0"), record{}, found{}},
		{"arm64 ppoll", "arm64", line64("73 0x8000 0x2 0x0 0x0 0x0 0x0"), record{}, fromMemory},
		{"arm64 ppoll with a limit", "arm64", line64("73 0xd000 0x2 0xffffd000 0x0 0x0 0x0"), record{}, found{terminal: true, memory: true, timed: true}},
		{"arm64 ppoll for output", "arm64", line64("73 0x9000 0x2 0x0 0x0 0x0 0x0"), record{}, found{memory: true}},
		{"arm64 pselect6", "arm64", line64("72 0x1 0xa000 0x0 0x0 0x0 0x0"), record{}, fromMemory},
		{"arm64 epoll_pwait", "arm64", line64("22 0xe 0x7f00 0x400 0xffffffff 0x0 0x8"), record{text: map[string]string{"fdinfo/14": epollInfo}}, reading},
		{"arm64 epoll_pwait2", "arm64", line64("441 0xe 0x7f00 0x400 0x0 0x0 0x8"), record{text: map[string]string{"fdinfo/14": epollInfo}}, reading},
		{"arm64 nanosleep after a stop", "arm64", line64("128 0xffffd000 0x0 0x0 0x0 0x0 0x0"), record{text: map[string]string{"wchan": "hrtimer_nanosleep"}}, found{unknown: true}},
		{"arm64 number of amd64's read", "arm64", line64("0 0x0 0x7f00 0x400 0x0 0x0 0x0"), record{}, found{}},
		{"arm64 wait4", "arm64", line64("260 0xffffffff 0x7f00 0x0 0x0 0x0 0x0"), record{}, found{children: true}},
		{"arm64 futex", "arm64", line64("98 0x7f00 0x80 0x0 0x0 0x0 0x0"), record{}, found{futex: true}},
		{"riscv64 read", "riscv64", line64("63 0x0 0x7f00 0x400 0x0 0x0 0x0"), record{}, reading},
		{"loong64 ppoll", "loong64", line64("73 0x8000 0x2 0x0 0x0 0x0 0x0"), record{}, fromMemory},

		{"arm on arm64 read", "arm64", line32("3 0x0 0xff00 0x400" + " 0x0 0x0 0x0"), record{text: exe(1, arm)}, reading},
		{"arm on arm64 newselect", "arm64", line32("142 0x1 0xa000" + rest4), record{text: exe(1, arm)}, fromMemory},
		{"arm on arm64 ppoll_time64", "arm64", line32("414 0x8000 0x2" + rest4), record{text: exe(1, arm)}, fromMemory},
		{"arm on arm64 epoll_wait", "arm64", line32("252 0xe 0xff00 0x400 0xffffffff 0x0 0x0"), record{text: map[string]string{"exe": elf(1, arm), "fdinfo/14": epollInfo}}, reading},
		{"arm on arm64 sleep after a stop", "arm64", line32("0 0x0 0x0" + rest4), record{text: exe(1, arm)}, found{unknown: true}},
		{"ILP32 on arm64", "arm64", line32("63 0x0 0xff00" + rest4), record{text: exe(1, 183)}, found{unknown: true}},

		{"i386 on amd64 read", "amd64", line32("3 0x0 0xff00 0x400 0x0 0x0 0x0"), record{text: exe(1, intel)}, reading},
		{"i386 on amd64 old select", "amd64", line32("82 0xc000 0x0" + rest4), record{text: exe(1, intel)}, fromMemory},
		{"i386 on amd64 newselect", "amd64", line32("142 0x1 0xa000" + rest4), record{text: exe(1, intel)}, fromMemory},
		{"i386 on amd64 pselect6_time64", "amd64", line32("413 0x6 0xb000" + rest4), record{text: exe(1, intel)}, found{memory: true}},
		{"i386 on amd64 poll", "amd64", line32("168 0x8000 0x2 0xffffffff 0x0 0x0 0x0"), record{text: exe(1, intel)}, fromMemory},
		{"i386 on amd64 poll after a stop", "amd64", line32("0 0x8000 0x2 0x3e8 0x0 0x0 0x0"), record{text: map[string]string{"exe": elf(1, intel), "wchan": "poll_schedule_timeout.constprop.0"}}, found{terminal: true, memory: true, timed: true}},
		{"i386 on amd64 number of amd64's read", "amd64", line32("0 0x0 0xff00" + rest4), record{text: exe(1, intel)}, found{unknown: true}},
		{"amd64 close, i386's read", "amd64", line64("3 0x0 0xff00" + rest4), record{}, found{}},
		{"amd64 program at a low address", "amd64", line32("0 0x0 0xff00" + rest4), record{text: exe(2, 62)}, reading},
		{"amd64 program at a low address, hidden", "amd64", line32("0 0x0 0xff00" + rest4), record{}, found{unknown: true}},
		{"x32", "amd64", line32("1073741824 0x0 0xff00" + rest4), record{text: exe(1, 62)}, found{unknown: true}},
		{"386 host", "386", line32("3 0x0 0xff00" + rest4), record{}, reading},
		{"arm host", "arm", line32("168 0x8000 0x2 0xffffffff 0x0 0x0 0x0"), record{}, fromMemory},

		{"running", "amd64", "running", record{}, found{}},
		{"page fault", "amd64", "-1 0x7ffd08cb4a88 0x7f6f1c3ad1ae", record{}, found{}},
		{"kernel thread", "amd64", "0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0", record{}, found{}},
		{"worker of a ring", "arm64", "63 0x0 0x7f00 0x400 0x0 0x0 0x0 0x0 0x0", record{}, found{}},
		{"files refused", "amd64", "0 0x0 0x7f00 0x400 0x0 0x0 0x0 0x7ffd 0x7f6f1c3ad1ae", record{deny: unix.EACCES}, found{unknown: true}},
		{"memory refused", "amd64", "7 0x8000 0x2 0xffffffff 0x0 0x0 0x0 0x7ffd 0x7f6f1c3ad1ae", record{deny: unix.EPERM}, found{unknown: true}},
		{"memory gone", "amd64", "7 0x1000 0x2 0xffffffff 0x0 0x0 0x0 0x7ffd 0x7f6f1c3ad1ae", record{}, found{unknown: true}},
		{"set refused", "amd64", "232 0xe 0x7f00 0x400 0xffffffff 0x0 0x0 0x7ffd 0x7f6f1c3ad1ae", record{deny: unix.EACCES}, found{unknown: true}},
		{"kernel function refused", "amd64", "219 0x8000 0x2 0xffffffff 0x0 0x0 0x0 0x7ffd 0x7f6f1c3ad1ae", record{text: map[string]string{"wchan": "0"}}, found{unknown: true}},
	}
	native := nativeABI
	defer func() { nativeABI = native }()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nativeABI = abiOf(tt.native)
			line, err := parseSyscall([]byte(tt.call + "\n"))
			require.NoError(t, err)
			r := tt.record
			r.files, r.bytes = files, pollfds
			var got found
			if line.blocked {
				got = (&subject{source: &r}).examine(line, wanted)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// A new kernel, and a program, may choose what a set's file is called.
func TestExamineRing(t *testing.T) {
	r := &record{
		files: map[int]unix.Stat_t{4: {Ino: 1054, Dev: 14}, 6: {Ino: 1054, Dev: 14}},
		links: map[int]string{4: "anon_inode:[eventfd]", 6: "anon_inode:[io_uring]"},
		bytes: map[uint64][]byte{0x8000: little(4, 4, 1), 0x9000: little(4, 6, 1)},
	}
	s := &subject{source: r}
	assert.Equal(t, found{memory: true}, s.onPoll(0x8000, 1, false, want{}))
	assert.Equal(t, found{memory: true, unknown: true}, s.onPoll(0x9000, 1, false, want{}))
}

// The numbers are those of golang.org/x/sys/unix, call by call.
func TestCallNumbers(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Skipf("the go command does not find golang.org/x/sys: %v", err)
	}
	kinds := map[callKind][]string{
		callRead:    {"READ", "READV", "PREADV2", "SPLICE"},
		callSelect:  {"SELECT", "_NEWSELECT", "PSELECT6", "PSELECT6_TIME64"},
		callPoll:    {"POLL"},
		callPpoll:   {"PPOLL", "PPOLL_TIME64"},
		callEpoll:   {"EPOLL_WAIT", "EPOLL_PWAIT"},
		callEpoll2:  {"EPOLL_PWAIT2"},
		callWait:    {"WAIT4", "WAITPID", "WAITID"},
		callRing:    {"IO_URING_ENTER"},
		callFutex:   {"FUTEX", "FUTEX_TIME64", "FUTEX_WAITV", "FUTEX_WAIT"},
		callRestart: {"RESTART_SYSCALL"},
	}
	for _, arch := range []string{"amd64", "arm64", "riscv64", "loong64", "386", "arm"} {
		numbers := callNumbers(t, filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+arch+".go"))
		want := make(map[int]callKind)
		for kind, names := range kinds {
			for _, name := range names {
				if nr, ok := numbers["SYS_"+name]; ok {
					want[nr] = kind
				}
			}
		}
		if arch == "386" {
			want[numbers["SYS_SELECT"]] = callOldSelect
		}
		assert.Equal(t, want, abiOf(arch).calls, arch)
	}
}

// callNumbers reads the constants of a file.
func callNumbers(t *testing.T, path string) map[string]int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	numbers := make(map[string]int)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && len(spec.Values) == 1 {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				numbers[spec.Names[0].Name], _ = strconv.Atoi(literal.Value)
			}
		}
		return true
	})
	return numbers
}

// Where no table covers the processor nothing is proved, and it is said so.
func TestOtherArchitecturesProveNothing(t *testing.T) {
	covered := []string{"386", "amd64", "arm", "arm64", "loong64", "riscv64"}
	out, err := exec.Command("go", "tool", "dist", "list").Output()
	if err != nil {
		t.Skipf("the go command does not list its systems: %v", err)
	}
	for pair := range strings.FieldsSeq(string(out)) {
		if arch, ok := strings.CutPrefix(pair, "linux/"); ok {
			assert.Equal(t, slices.Contains(covered, arch), abiOf(arch) != nil, arch)
		}
	}

	s := open(t, shSpec("cat; exit"))
	s.waits(t, backend.WaitReading)
	native := nativeABI
	defer func() { nativeABI = native }()
	nativeABI = abiOf("s390x")
	for _, wait := range []func() (backend.Wait, error){s.ShellWait, s.InputWait} {
		w, err := wait()
		require.ErrorIs(t, err, backend.ErrUnsupported)
		assert.Equal(t, backend.Wait{}, w)
	}
	c := probeCapabilities()
	assert.False(t, c.ExactRead)
	assert.Contains(t, c.ExactReadWhy, "no system call table")
}

// What the scopes of Yama allow, as the capability table says it.
//
// Case: A2b
func TestWhyRefused(t *testing.T) {
	for scope, why := range map[string]string{
		"":  "a security module",
		"0": "a security module",
		"1": "a security module", // the host is the ancestor of what it starts
		"2": "kernel.yama.ptrace_scope is 2; 0 or 1 allows it",
		"3": "kernel.yama.ptrace_scope is 3; 0 or 1 allows it",
	} {
		assert.Contains(t, whyRefused(scope), why, scope)
	}
	assert.Contains(t, whyHidden(unix.ENOENT), "gVisor")
}
