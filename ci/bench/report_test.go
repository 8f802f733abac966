package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuantileIsNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = time.Duration(i+1) * time.Millisecond
	}
	assert.Equal(t, stat{P50: 50, P99: 99, N: 100}, summarise(hundred))
	assert.Equal(t, stat{P50: 7, P99: 7, N: 1}, summarise([]time.Duration{7 * time.Millisecond}))
	assert.Equal(t, stat{}, summarise(nil))
}

func TestJudge(t *testing.T) {
	base := func(p50, p99 float64) *stat { return &stat{P50: p50, P99: p99, N: 1} }
	tests := []struct {
		name          string
		row           row
		full, inSmoke bool
	}{
		{"ratio_kept", row{Floor: base(1, 1), Ours: stat{P50: 3, P99: 10}, bound: bound{ratioP50: 3, ratioP99: 10}}, true, true},
		{"ratio_p50_broken", row{Floor: base(1, 1), Ours: stat{P50: 3.1, P99: 4}, bound: bound{ratioP50: 3, ratioP99: 10}}, false, true},
		{"ratio_p99_broken", row{Floor: base(1, 1), Ours: stat{P50: 1, P99: 10.1}, bound: bound{ratioP50: 3, ratioP99: 10}}, false, true},
		{"ratio_broken_for_smoke_too", row{Floor: base(1, 1), Ours: stat{P50: 6.1}, bound: bound{ratioP50: 3}}, false, false},
		{"above_floor_kept", row{Floor: base(20, 0), Ours: stat{P50: 120}, bound: bound{aboveFloor: 100}}, true, true},
		{"above_floor_broken", row{Floor: base(20, 0), Ours: stat{P50: 121}, bound: bound{aboveFloor: 100}}, false, true},
		{"absolute_p50_broken", row{Ours: stat{P50: 11, P99: 11}, bound: bound{p50: 10}}, false, true},
		{"absolute_p99_broken", row{Ours: stat{P50: 1, P99: 51}, bound: bound{p99: 50}}, false, true},
		{"absolute_max_broken", row{Ours: stat{P50: 65}, bound: bound{max: 64}}, false, true},
		{"unbounded", row{Floor: base(1, 1), Ours: stat{P50: 1000, P99: 1000}}, true, true},
		{"skipped", row{Skipped: linuxOnly, bound: bound{max: 1}}, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			full, short := tt.row, tt.row
			full.judge(false)
			short.judge(true)
			assert.Equal(t, tt.full, full.OK, "full")
			assert.Equal(t, tt.inSmoke, short.OK, "smoke")
		})
	}
}

func TestTable(t *testing.T) {
	broken := row{Shell: "bash", Work: "w", Unit: milliseconds, Floor: &stat{P50: 2, P99: 3}, Ours: stat{P50: 8.25, P99: 150.4}, bound: bound{ratioP50: 3}}
	broken.judge(false)
	rep := report{System: "linux/amd64", Go: "go1.26", CPUs: 2, CPU: "x", Rows: []row{broken}}
	var out bytes.Buffer
	require.NoError(t, rep.writeTable(&out))
	assert.Equal(t, `linux/amd64, go1.26, 2 CPUs (x)

| shell | work | unit | floor p50 | floor p99 | ours p50 | ours p99 | ratio p50 | ratio p99 | reach          | ok |
|-------|------|------|-----------|-----------|----------|----------|-----------|-----------|----------------|----|
| bash  | w    | ms   | 2         | 3         | 8.25     | 150      | 4.13      | 50.1      | p50 ≤ 3× floor | NO |
`, out.String())
	assert.Equal(t, []string{"bash: w (p50 ≤ 3× floor)"}, rep.failed())
}

func TestUnknownMeasurement(t *testing.T) {
	_, err := run(true, "no-such")
	require.ErrorContains(t, err, "known: true,start,flood")
}
