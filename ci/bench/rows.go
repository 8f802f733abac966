package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// children are the modes in which the program starts itself.
var children = map[string]func([]string) error{
	"floor-start":  floorStart,
	"child-memory": childMemory,
	"child-idle":   childIdle,
}

const linuxOnly = "Linux only"

// pair measures both sides in alternating blocks.
func pair(total, block int, floorSide, oursSide func() (time.Duration, error)) (floorTimes, oursTimes []time.Duration, err error) {
	for done := 0; done < total; done += block {
		for range min(block, total-done) {
			d, err := floorSide()
			if err != nil {
				return nil, nil, err
			}
			floorTimes = append(floorTimes, d)
		}
		for range min(block, total-done) {
			d, err := oursSide()
			if err != nil {
				return nil, nil, err
			}
			oursTimes = append(oursTimes, d)
		}
	}
	return floorTimes, oursTimes, nil
}

// both starts a floor and a stack with one live shell each.
func (b *bench) both(sh *shell) (floor, *stack, *terminals.Owner, func(), error) {
	f, err := sh.startFloor(b.dir)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	s, err := newStack(sh, b.dir, 0, 0)
	if err != nil {
		f.close()
		return nil, nil, nil, nil, err
	}
	o, err := s.owner()
	if err != nil {
		f.close()
		return nil, nil, nil, nil, errors.Join(err, s.close())
	}
	return f, s, o, func() { f.close(); _ = s.close() }, nil
}

func timeRow(work string, floorTimes, oursTimes []time.Duration, limits bound) row {
	base := summarise(floorTimes)
	return row{Work: work, Unit: milliseconds, Floor: &base, Ours: summarise(oursTimes), bound: limits}
}

// measureNothing: one round trip in a live shell.
func measureNothing(b *bench, sh *shell) ([]row, error) {
	f, s, o, done, err := b.both(sh)
	if err != nil {
		return nil, err
	}
	defer done()
	limits, total, warm := bound{ratioP50: 3, ratioP99: 10}, b.pick(1000, 200), 0
	if sh == pwshShell {
		// Its own part is larger, and it compiles what it runs often.
		limits, total, warm = bound{ratioP50: 1.3, ratioP99: 2}, b.pick(600, 150), 200
	}
	sides := []func() (time.Duration, error){
		func() (time.Duration, error) { return timed(f, sh.nothing) },
		func() (time.Duration, error) { return s.timed(o, sh.nothing) },
	}
	for range warm {
		for _, side := range sides {
			if _, err := side(); err != nil {
				return nil, err
			}
		}
	}
	floorTimes, oursTimes, err := pair(total, 50, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	return []row{timeRow("`"+sh.nothing+"` in a live shell", floorTimes, oursTimes, limits)}, nil
}

// program builds the program and returns its file.
func (b *bench) program() (string, error) {
	program := filepath.Join(b.dir, "shellstead")
	build := exec.Command("go", "build", "-o", program, "github.com/shellstead/shellstead/cmd/shellstead")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}

// measureStart: a whole process until its first answer, and until its end.
func measureStart(b *bench, sh *shell) ([]row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := b.program()
	if err != nil {
		return nil, err
	}
	var floorEnd, oursEnd, otherEnd []time.Duration
	answer := func(ends *[]time.Duration, args ...string) (time.Duration, error) {
		cmd := exec.Command(args[0], args[1:]...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			return 0, err
		}
		begin := time.Now()
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		first := time.Since(begin)
		if err != nil || line != "ready\n" {
			return 0, fmt.Errorf("%v answered %q: %w", args, line, err)
		}
		err = cmd.Wait()
		*ends = append(*ends, time.Since(begin))
		return first, err
	}
	limits, total, block := bound{ratioP50: 3}, b.pick(60, 10), 5
	if sh == pwshShell {
		limits, total, block = bound{ratioP50: 1.1}, b.pick(10, 3), 1
	}
	floorTimes, oursTimes, err := pair(total, block,
		func() (time.Duration, error) { return answer(&floorEnd, self, "floor-start", sh.name) },
		func() (time.Duration, error) {
			// The floor confines nothing either.
			return answer(&oursEnd, program, "run", "--sandbox", "danger-full-access", "--dialect", sh.name, "echo ready")
		})
	if err != nil {
		return nil, err
	}
	floorAgain, confinedTimes, err := pair(b.pick(total/2, total), block,
		func() (time.Duration, error) { return answer(&otherEnd, self, "floor-start", sh.name) },
		func() (time.Duration, error) {
			return answer(&otherEnd, program, "run", "--dialect", sh.name, "echo ready")
		})
	if err != nil {
		return nil, err
	}
	return []row{
		timeRow("process start to first answer", floorTimes, oursTimes, limits),
		timeRow("the same in the default sandbox mode, probe included", floorAgain, confinedTimes, bound{}),
		timeRow("process start to its end, everything closed", floorEnd, oursEnd, bound{}),
	}, nil
}

// measureFlood: a million lines, the whole output in the spill file and hashed.
func measureFlood(b *bench, sh *shell) ([]row, error) {
	f, s, o, done, err := b.both(sh)
	if err != nil {
		return nil, err
	}
	defer done()
	const command = "seq 1000000"
	var want bytes.Buffer
	for i := 1; i <= 1000000; i++ {
		want.WriteString(strconv.Itoa(i))
		want.WriteByte('\n')
	}
	wantSum := sha256.Sum256(want.Bytes())
	floorTimes, oursTimes, err := pair(b.pick(20, 4), 1,
		func() (time.Duration, error) {
			begin := time.Now()
			n, err := f.run(command)
			took := time.Since(begin)
			if err == nil && n < want.Len() {
				err = fmt.Errorf("floor: %d bytes instead of %d", n, want.Len())
			}
			return took, err
		},
		func() (time.Duration, error) {
			begin := time.Now()
			res, err := s.run(o, command)
			if err != nil {
				return 0, err
			}
			sum, err := hashFile(res.OutputFile)
			took := time.Since(begin)
			if err == nil && !bytes.Equal(sum, wantSum[:]) {
				err = errors.New("ours: the spill file does not hold what seq prints")
			}
			return took, errors.Join(err, os.Remove(res.OutputFile))
		})
	if err != nil {
		return nil, err
	}
	return []row{timeRow("`seq 1000000`, spilled and hashed", floorTimes, oursTimes, bound{ratioP50: 1.5})}, nil
}

func hashFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return sum.Sum(nil), err
}

// measureMemory: growth of the resident set while much output passes.
func measureMemory(b *bench, _ *shell) ([]row, error) {
	seconds := b.pick(5, 2)
	rows := []row{
		{Work: "one 50 MB line: resident growth", Unit: mebibytes, bound: bound{max: 32}},
		{Work: fmt.Sprintf("`yes` for %d s, then timeout: resident growth", seconds), Unit: mebibytes, bound: bound{max: 32}},
	}
	for i, args := range [][]string{{"line"}, {"yes", strconv.Itoa(seconds)}} {
		if runtime.GOOS != "linux" {
			rows[i].Skipped = linuxOnly
			continue
		}
		var grown float64
		if err := startSelf(&grown, "child-memory", args...); err != nil {
			return nil, err
		}
		rows[i].Ours = single(grown)
	}
	return rows, nil
}

// startSelf runs the program in one of its children's modes and decodes what
// it prints.
func startSelf(answer any, mode string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{mode}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s %v: %w", mode, args, err)
	}
	return json.Unmarshal(out, answer)
}

// childMemory prints by how many MiB the resident set grew at its peak.
func childMemory(args []string) error {
	dir, err := os.MkdirTemp("", "shellstead-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var timeout time.Duration
	command := `head -c 50000000 /dev/zero | tr '\0' x`
	reason := persistent.Completed
	if args[0] == "yes" {
		seconds, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		command, timeout, reason = "yes", time.Duration(seconds)*time.Second, persistent.TimedOut
	}
	s, err := newStack(bashShell, dir, 0, timeout)
	if err != nil {
		return err
	}
	o, err := s.owner()
	if err != nil {
		return err
	}
	if err := forgetPeak(); err != nil {
		return err
	}
	before, err := statusField("/proc/self/status", "VmRSS")
	if err != nil {
		return err
	}
	res := s.runner.Run(context.Background(), o, persistent.Command{Text: command})
	peak, err := statusField("/proc/self/status", "VmHWM")
	if err != nil {
		return err
	}
	if res.Reason != reason || !res.Clipped {
		return fmt.Errorf("%s came back as %s: %.200q", command, res.Reason, res.Text)
	}
	if err := s.close(); err != nil {
		return err
	}
	fmt.Println(float64(peak-before) / 1024)
	return nil
}

// measureScript: a command text of 1 MiB, a here-document of every byte but
// NUL, against cat of the same bytes.
func measureScript(b *bench, sh *shell) ([]row, error) {
	f, s, o, done, err := b.both(sh)
	if err != nil {
		return nil, err
	}
	defer done()
	body := make([]byte, 0, 1<<20)
	for len(body) < 1<<20-64 {
		for c := 1; c < 256; c++ {
			body = append(body, byte(c))
		}
		body = append(body, '\n')
	}
	file := filepath.Join(b.dir, "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return nil, err
	}
	text := "cat <<'END-OF-BODY'\n" + string(body) + "END-OF-BODY\n"
	wantSum := sha256.Sum256(body)
	floorTimes, oursTimes, err := pair(b.pick(20, 4), 1,
		func() (time.Duration, error) { return timed(f, "cat "+file) },
		func() (time.Duration, error) {
			begin := time.Now()
			res, err := s.run(o, text)
			took := time.Since(begin)
			if err != nil {
				return 0, err
			}
			sum, err := hashFile(res.OutputFile)
			if err == nil && !bytes.Equal(sum, wantSum[:]) {
				err = errors.New("ours: the here-document came back changed")
			}
			return took, errors.Join(err, os.Remove(res.OutputFile))
		})
	if err != nil {
		return nil, err
	}
	return []row{timeRow("1 MiB command text", floorTimes, oursTimes, bound{aboveFloor: 100})}, nil
}

// measureCrowd: the round trip again while many other processes sleep. The
// floor of this row is ours without them.
func measureCrowd(b *bench, sh *shell) ([]row, error) {
	const crowdSize = 1500
	s, err := newStack(sh, b.dir, 0, 0)
	if err != nil {
		return nil, err
	}
	defer s.close()
	o, err := s.owner()
	if err != nil {
		return nil, err
	}
	sample := func(into *[]time.Duration) error {
		for range b.pick(500, 150) {
			d, err := s.timed(o, "true")
			if err != nil {
				return err
			}
			*into = append(*into, d)
		}
		return nil
	}
	var alone, crowded []time.Duration
	for range 2 {
		if err := sample(&alone); err != nil {
			return nil, err
		}
		disperse, err := gather(crowdSize)
		if err != nil {
			return nil, err
		}
		err = sample(&crowded)
		if err := errors.Join(err, disperse()); err != nil {
			return nil, err
		}
	}
	return []row{timeRow(fmt.Sprintf("`true` while %d processes sleep (floor: without them)", crowdSize),
		alone, crowded, bound{ratioP50: 1.2})}, nil
}

// gather starts n sleeping processes and returns how to end them.
func gather(n int) (disperse func() error, err error) {
	cmd := exec.Command("sh", "-c", `i=0; while [ $i -lt "$1" ]; do sleep 3600 >/dev/null & echo $!; i=$((i+1)); done; wait`, "sh", strconv.Itoa(n))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var sleepers []*os.Process
	disperse = func() error {
		for _, p := range sleepers {
			_ = p.Kill()
		}
		return cmd.Wait()
	}
	lines := bufio.NewScanner(out)
	for len(sleepers) < n && lines.Scan() {
		pid, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			break
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			break
		}
		sleepers = append(sleepers, p)
	}
	if len(sleepers) < n {
		err := fmt.Errorf("only %d of %d sleeping processes could be started", len(sleepers), n)
		return nil, errors.Join(err, disperse())
	}
	return disperse, nil
}

// closing opens n shells, lets each run prepare, and times their ends.
func closing(b *bench, sh *shell, grace time.Duration, prepare string, n int) ([]time.Duration, error) {
	s, err := newStack(sh, b.dir, grace, 0)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var times []time.Duration
	for range n {
		o, err := s.owner()
		if err != nil {
			return nil, err
		}
		res, err := s.run(o, prepare)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		if _, err := s.service.Close(context.Background(), o, res.TerminalID, "bench"); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begin))
		if err := s.service.DisposeOwner(context.Background(), o); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// measureClose: closing a shell that goes when it is asked to, and one that
// does not.
func measureClose(b *bench, sh *shell) ([]row, error) {
	willing, err := closing(b, sh, 0, sh.nothing, b.pick(50, 10))
	if err != nil {
		return nil, err
	}
	stubborn, err := closing(b, sh, 300*time.Millisecond, "trap '' HUP TERM", b.pick(10, 2))
	if err != nil {
		return nil, err
	}
	return []row{
		{Work: "close, co-operative shell", Unit: milliseconds, Ours: summarise(willing), bound: bound{p99: 50}},
		{Work: "close, shell that ignores SIGHUP and SIGTERM, `disposeGraceMs: 300`", Unit: milliseconds, Ours: summarise(stubborn), bound: bound{p99: 800}},
	}, nil
}

// idleResult is what one child saw.
type idleResult struct {
	Switches      int64   `json:"switches"`
	HeapPerShell  float64 `json:"heapPerShell"`  // KiB
	StackPerShell float64 `json:"stackPerShell"` // KiB
}

// switchAllowance is how many context switches more than an empty process 50
// idle sessions may have: the Go runtime's own background threads wake up a few
// times in any process, and a timer in every session would show as hundreds.
const switchAllowance = 20

// measureIdle: context switches and heap of sessions that do nothing.
func measureIdle(b *bench, sh *shell) ([]row, error) {
	sessions := 50
	if sh == pwshShell {
		sessions = 3 // it takes 100 MB for each
	}
	seconds := b.pick(10, 3)
	rows := []row{
		{Work: fmt.Sprintf("%d idle sessions for %d s: context switches (floor: no session)", sessions, seconds), Unit: count, bound: bound{aboveFloor: switchAllowance}},
		{Work: "heap of one idle session", Unit: kibibytes, bound: bound{max: 64}},
		{Work: "goroutine stacks of one idle session", Unit: kibibytes},
	}
	if runtime.GOOS != "linux" {
		for i := range rows {
			rows[i].Skipped = linuxOnly
		}
		return rows, nil
	}
	var none, many []float64
	var heap, stack []float64
	for range b.pick(3, 1) {
		var empty, full idleResult
		if err := startSelf(&empty, "child-idle", sh.name, "0", strconv.Itoa(seconds)); err != nil {
			return nil, err
		}
		if err := startSelf(&full, "child-idle", sh.name, strconv.Itoa(sessions), strconv.Itoa(seconds)); err != nil {
			return nil, err
		}
		none = append(none, float64(empty.Switches))
		many = append(many, float64(full.Switches))
		heap = append(heap, full.HeapPerShell)
		stack = append(stack, full.StackPerShell)
	}
	base := spread(none)
	rows[0].Floor, rows[0].Ours = &base, spread(many)
	rows[1].Ours, rows[2].Ours = spread(heap), spread(stack)
	if sh != bashShell {
		rows = rows[:1] // the memory is this process's, and knows no shell
	}
	return rows, nil
}

func spread(values []float64) stat {
	slices.Sort(values)
	return stat{P50: round(quantile(values, 0.5)), P99: round(quantile(values, 0.99)), N: len(values)}
}

// childIdle opens args[1] sessions of the shell args[0] and watches the process
// for args[2] seconds.
func childIdle(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	seconds, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	s, err := newStack(shells[args[0]], "", 0, 0)
	if err != nil {
		return err
	}
	// The first session of a process pays for what all share.
	shared, err := s.owner()
	if err != nil {
		return err
	}
	if err := s.service.DisposeOwner(context.Background(), shared); err != nil {
		return err
	}
	heapBefore, stackBefore := memoryInUse()
	for range n {
		if _, err := s.owner(); err != nil {
			return err
		}
	}
	var res idleResult
	if n > 0 {
		heap, stack := memoryInUse()
		res.HeapPerShell = (heap - heapBefore) / float64(n)
		res.StackPerShell = (stack - stackBefore) / float64(n)
	}
	// The runtime needs a moment to come to rest after the collections.
	time.Sleep(time.Second)
	first, err := contextSwitches()
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(seconds) * time.Second)
	second, err := contextSwitches()
	if err != nil {
		return err
	}
	res.Switches = second - first
	if err := s.close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

// memoryInUse returns the live heap and the stacks in KiB.
func memoryInUse() (heap, stack float64) {
	var m runtime.MemStats
	for range 3 { // finalizers and shrinking stacks take more than one
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1024, float64(m.StackInuse) / 1024
}
