package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// measureWarm: the first command of an owner whose shell was started ahead.
func measureWarm(b *bench, sh *shell) ([]row, error) {
	s, err := newStack(sh, b.dir, 0, 0)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var times []time.Duration
	for range b.pick(10, 3) {
		o, err := s.newOwner()
		if err != nil {
			return nil, err
		}
		if err := s.runner.Prestart(context.Background(), o); err != nil {
			return nil, err
		}
		first, err := s.timed(o, sh.nothing)
		if err != nil {
			return nil, err
		}
		times = append(times, first)
		if err := s.service.DisposeOwner(context.Background(), o); err != nil {
			return nil, err
		}
	}
	return []row{{Work: "first command in a shell that was started ahead", Unit: milliseconds, Ours: summarise(times), bound: bound{p50: 10}}}, nil
}

// measureNativeFlood: what a native program prints is the terminal's business,
// so the floor is the same program in bash, through the module too.
func measureNativeFlood(b *bench, sh *shell) ([]row, error) {
	var sides []func() (time.Duration, error)
	for _, sh := range []*shell{bashShell, sh} {
		s, err := newStack(sh, b.dir, 0, 0)
		if err != nil {
			return nil, err
		}
		defer s.close()
		o, err := s.owner()
		if err != nil {
			return nil, err
		}
		sides = append(sides, func() (time.Duration, error) { return s.long(o, "seq 1000000", seqBytes) })
	}
	floorTimes, oursTimes, err := pair(b.pick(15, 4), 1, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	return []row{timeRow("`seq 1000000`, spilled (floor: the same in bash)", floorTimes, oursTimes, bound{ratioP50: 1.5})}, nil
}

// seqBytes is the size of what seq 1000000 prints.
const seqBytes = 6888896

// long times one command whose output does not fit the result, and wants all of
// it in the file.
func (s *stack) long(o *terminals.Owner, text string, size int64) (time.Duration, error) {
	begin := time.Now()
	res, err := s.run(o, text)
	took := time.Since(begin)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(res.OutputFile)
	if err == nil && info.Size() != size {
		err = fmt.Errorf("ours: the spill file has %d bytes instead of %d", info.Size(), size)
	}
	return took, errors.Join(err, os.Remove(res.OutputFile))
}

// measureString: one string of 10 MB.
func measureString(b *bench, sh *shell) ([]row, error) {
	f, s, o, done, err := b.both(sh)
	if err != nil {
		return nil, err
	}
	defer done()
	const command, size = "'x' * 10000000", 10000001
	floorTimes, oursTimes, err := pair(b.pick(15, 4), 1,
		func() (time.Duration, error) {
			begin := time.Now()
			n, err := f.run(command)
			if err == nil && n < size {
				err = fmt.Errorf("floor: %d bytes instead of %d", n, size)
			}
			return time.Since(begin), err
		},
		func() (time.Duration, error) { return s.long(o, command, size) })
	if err != nil {
		return nil, err
	}
	return []row{timeRow("one string of 10 MB, spilled", floorTimes, oursTimes, bound{ratioP50: 1.3})}, nil
}

// measureHereString: a command text of 1 MiB.
func measureHereString(b *bench, sh *shell) ([]row, error) {
	f, s, o, done, err := b.both(sh)
	if err != nil {
		return nil, err
	}
	defer done()
	line := strings.Repeat("x", 1023) + "\n"
	body := strings.Repeat(line, 1024)
	text := "$t = @'\n" + body + "'@; if ($t.Length -ne " + fmt.Sprint(len(body)-1) + ") { exit 1 }"
	floorTimes, oursTimes, err := pair(b.pick(20, 4), 1,
		func() (time.Duration, error) { return timed(f, text) },
		func() (time.Duration, error) { return s.timed(o, text) })
	if err != nil {
		return nil, err
	}
	return []row{timeRow("1 MiB command text", floorTimes, oursTimes, bound{ratioP50: 1.3})}, nil
}

// measureInterrupt: from a caller's cancellation until its call has returned,
// with a shell that is ready for the next command.
func measureInterrupt(b *bench, sh *shell) ([]row, error) {
	s, err := newStack(sh, b.dir, 0, 0)
	if err != nil {
		return nil, err
	}
	defer s.close()
	o, err := s.owner()
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for range b.pick(30, 6) {
		ctx, cancel := context.WithCancel(context.Background())
		var begin time.Time
		stop := sync.OnceFunc(func() { begin = time.Now(); cancel() })
		res := s.runner.Run(ctx, o, persistent.Command{Text: "'started'; while ($true) {}", Stream: func([]byte) { stop() }})
		times = append(times, time.Since(begin))
		if res.Reason != persistent.Cancelled {
			return nil, fmt.Errorf("ours: an endless loop came back as %s: %.200q", res.Reason, res.Text)
		}
		after, err := s.run(o, sh.nothing)
		if err != nil {
			return nil, err
		}
		if after.TerminalID != res.TerminalID {
			return nil, errors.New("ours: the interrupt cost the shell")
		}
	}
	return []row{{Work: "interrupt of `while ($true) {}` to ready", Unit: milliseconds, Ours: summarise(times), bound: bound{p50: 60}}}, nil
}

// measurePwshClose: closing, which leaves no file of the shell's in the folder
// for temporary files.
func measurePwshClose(b *bench, sh *shell) ([]row, error) {
	temp := filepath.Join(b.dir, "temp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		return nil, err
	}
	before := os.Getenv("TMPDIR")
	if err := os.Setenv("TMPDIR", temp); err != nil {
		return nil, err
	}
	defer os.Setenv("TMPDIR", before)
	times, err := closing(b, sh, 0, sh.nothing, b.pick(10, 3))
	if err != nil {
		return nil, err
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		return nil, fmt.Errorf("ours: closing left %v behind: %w", left, err)
	}
	return []row{{Work: "close, nothing left", Unit: milliseconds, Ours: summarise(times), bound: bound{p99: 200}}}, nil
}
