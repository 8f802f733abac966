package posix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const tail = " 1 71 70 34816 71 4194304 140 0 0 0 0 0 0 0 20 0 1 0 158246 2797568 452 18446744073709551615\n"
	tests := []struct {
		name, stat string
		program    string
		state      byte
		zombie     bool
		stopped    bool
	}{
		{"plain", "71 (cat) S" + tail, "cat", 'S', false, false},
		{"zombie", "71 (sh) Z" + tail, "sh", 'Z', true, false},
		{"dead", "71 (sh) X" + tail, "sh", 'X', true, false},
		{"stopped", "71 (vi) T" + tail, "vi", 'T', false, true},
		{"traced", "71 (vi) t" + tail, "vi", 't', false, true},
		// Case: A29b, reference 3.3 #75
		{"name like a stat", "71 (weird) R 1 (x) S" + tail, "weird) R 1 (x", 'S', false, false},
		{"name of two lines", "71 (a\nb)) S" + tail, "a\nb)", 'S', false, false},
		{"empty name", "71 () S" + tail, "", 'S', false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.stat))
			require.NoError(t, err)
			assert.Equal(t, procStat{
				process: process{
					identity: identity{71, 158246},
					ppid:     1, pgid: 71, sid: 70, tty: 34816,
					name: tt.program, zombie: tt.zombie, stopped: tt.stopped,
				},
				state: tt.state,
				tpgid: 71,
			}, got)
		})
	}
	for _, bad := range []string{"", "71", "71 (cat", "71 cat) S", "(cat) S 1", "x (cat) S" + tail, "71 (cat) S 1 2 3", "71 (cat) S a b c d e"} {
		_, err := parseStat([]byte(bad))
		assert.Error(t, err, "%q", bad)
	}
	negative, err := parseStat([]byte("9 (d) S 1 9 9 0 -1 4194304 140 0 0 0 0 0 0 0 20 0 1 0 5 0"))
	require.NoError(t, err)
	assert.Equal(t, -1, negative.tpgid, "platform A13: no foreground group")
}

// The three shapes of the file.
//
// Case: A1
func TestParseSyscall(t *testing.T) {
	got, err := parseSyscall([]byte("0 0x0 0x7f6f1c2d4000 0x20000 0x22 0xffffffff 0x0 0x7ffd08cb4a88 0x7f6f1c3ad1ae\n"))
	require.NoError(t, err)
	assert.Equal(t, syscallLine{
		blocked: true,
		args:    [6]uint64{0, 0x7f6f1c2d4000, 0x20000, 0x22, 0xffffffff, 0},
		pc:      0x7f6f1c3ad1ae,
	}, got)

	got, err = parseSyscall([]byte("270 0x1 0x7ffd08cb4a88 0x0 0xffffffffffffffff 0x0 0x7ffd 0x7ffd08cb4a00 0x7f6f1c3ad1ae"))
	require.NoError(t, err)
	assert.Equal(t, 270, got.nr)
	assert.Equal(t, ^uint64(0), got.args[3])

	for _, idle := range []string{"running\n", "-1 0x7ffd08cb4a88 0x7f6f1c3ad1ae\n"} {
		got, err := parseSyscall([]byte(idle))
		require.NoError(t, err)
		assert.False(t, got.blocked, idle)
	}
	for _, bad := range []string{"", "x", "0", "0 0x0", "0 0x0 0x1 0x2 0x3 0x4 0x5 0x6", "0 0x0 0x1 0x2 0x3 0x4 0x5 0x6 7", "0 0x0 0x1 0x2 0x3 0x4 0x5 0x6 0xg"} {
		_, err := parseSyscall([]byte(bad))
		assert.Error(t, err, "%q", bad)
	}
}

// A node REPL, whose terminal is not descriptor 0.
//
// Case: A6
func TestParseEpoll(t *testing.T) {
	const info = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1054\n" +
		"tfd:       17 events:       19 data:               11  pos:0 ino:3 sdev:1a\n" +
		"tfd:       12 events:        4 data:                c  pos:0 ino:2b1 sdev:e\n"
	targets := parseEpoll([]byte(info))
	assert.Equal(t, []epollTarget{{17, 0x19, 3, 0x1a}, {12, 4, 0x2b1, 0xe}}, targets)
	assert.True(t, targets[0].is(fileID{dev: unix.Mkdev(0, 26), ino: 3}))
	assert.False(t, targets[0].is(fileID{dev: unix.Mkdev(0, 27), ino: 3}))
	assert.True(t, epollTarget{ino: 5, sdev: 8<<20 | 1}.is(fileID{dev: unix.Mkdev(8, 1), ino: 5}))
	assert.Empty(t, parseEpoll(nil))
}

func TestParseSmallFiles(t *testing.T) {
	index, ok := parseTTYIndex([]byte("pos:\t0\nflags:\t02\ntty-index:\t12\n"))
	assert.True(t, ok)
	assert.Equal(t, 12, index)
	_, ok = parseTTYIndex([]byte("pos:\t0\n"))
	assert.False(t, ok)
	assert.Equal(t, unix.Mkdev(136, 255), ptsDevice(255))
	assert.Equal(t, unix.Mkdev(137, 0), ptsDevice(256))

	assert.Equal(t, uint64(0x1003), parseIgnored([]byte("Name:\tx\nSigIgn:\t0000000000001003\nSigCgt:\tff\n")))
	assert.Zero(t, parseIgnored([]byte("Name:\tx\n")))

	assert.Equal(t, uint64(17), parseTurns([]byte("12345 678 17\n")))
	assert.Zero(t, parseTurns([]byte("0 0")))
}
