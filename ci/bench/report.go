package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Units of a row.
const (
	milliseconds = "ms"
	mebibytes    = "MiB"
	kibibytes    = "KiB"
	count        = "count"
	percent      = "%"
)

// stat summarises the samples of one side.
type stat struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	N   int     `json:"n"`
}

// row is one line of the report. Floor is nil where the bound is absolute.
type row struct {
	Shell string `json:"shell"`
	Work  string `json:"work"`
	Unit  string `json:"unit"`
	Floor *stat  `json:"floor"`
	Ours  stat   `json:"ours"`
	// The ratios of ours to the floor, 0 without a floor.
	RatioP50 float64 `json:"ratioP50"`
	RatioP99 float64 `json:"ratioP99"`
	Reach    string  `json:"reach"` // the bound in words
	OK       bool    `json:"ok"`
	Skipped  string  `json:"skipped,omitempty"` // why it was not measured

	bound bound
}

// bound is what a row has to keep. Zero fields bound nothing.
type bound struct {
	ratioP50, ratioP99 float64 // ours / floor
	aboveFloor         float64 // ours p50 - floor p50
	p50, p99           float64 // ours
	max                float64 // ours; for rows with one value
}

func (b bound) String() string {
	var parts []string
	add := func(value float64, format string) {
		if value != 0 {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add(b.ratioP50, "p50 ≤ %g× floor")
	add(b.ratioP99, "p99 ≤ %g× floor")
	add(b.aboveFloor, "p50 ≤ floor + %g")
	add(b.p50, "p50 ≤ %g")
	add(b.p99, "p99 ≤ %g")
	add(b.max, "≤ %g")
	if parts == nil {
		return "–"
	}
	return strings.Join(parts, ", ")
}

// judge computes the ratios and decides whether the bound holds.
func (r *row) judge(smoke bool) {
	r.Reach = r.bound.String()
	if r.Skipped != "" {
		r.OK = true
		return
	}
	slack := 1.0
	if smoke {
		slack = smokeSlack
	}
	within := func(value, limit float64) bool { return limit == 0 || value <= limit*slack }
	r.OK = within(r.Ours.P50, r.bound.p50) && within(r.Ours.P99, r.bound.p99) && within(r.Ours.P50, r.bound.max)
	if r.Floor == nil {
		return
	}
	r.RatioP50 = ratio(r.Ours.P50, r.Floor.P50)
	r.RatioP99 = ratio(r.Ours.P99, r.Floor.P99)
	r.OK = r.OK && within(r.RatioP50, r.bound.ratioP50) && within(r.RatioP99, r.bound.ratioP99) &&
		within(r.Ours.P50-r.Floor.P50, r.bound.aboveFloor)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(a/b*100) / 100
}

// summarise takes the samples in milliseconds.
func summarise(samples []time.Duration) stat {
	ms := make([]float64, len(samples))
	for i, d := range samples {
		ms[i] = float64(d) / float64(time.Millisecond)
	}
	slices.Sort(ms)
	return stat{P50: round(quantile(ms, 0.50)), P99: round(quantile(ms, 0.99)), N: len(ms)}
}

// quantile is the nearest-rank quantile of sorted values.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(rank, 0)]
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// single is the stat of one value.
func single(v float64) stat { return stat{P50: round(v), P99: round(v), N: 1} }

// report is everything that one run found.
type report struct {
	System string `json:"system"`
	Go     string `json:"go"`
	CPUs   int    `json:"cpus"`
	CPU    string `json:"cpu"`
	Smoke  bool   `json:"smoke"`
	Rows   []row  `json:"rows"`
}

func newReport(smoke bool) report {
	return report{
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Go:     runtime.Version(),
		CPUs:   runtime.NumCPU(),
		CPU:    cpuModel(),
		Smoke:  smoke,
	}
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func (r report) failed() []string {
	var failed []string
	for _, row := range r.Rows {
		if !row.OK {
			failed = append(failed, row.Shell+": "+row.Work+" ("+row.Reach+")")
		}
	}
	return failed
}

// writeTable prints a Markdown table, which reads well on a terminal too.
func (r report) writeTable(w io.Writer) error {
	cells := [][]string{{"shell", "work", "unit", "floor p50", "floor p99", "ours p50", "ours p99", "ratio p50", "ratio p99", "reach", "ok"}}
	for _, row := range r.Rows {
		line := []string{row.Shell, row.Work, row.Unit, "", "", "", "", "", "", row.Reach, "yes"}
		if row.Floor != nil {
			line[3], line[4] = number(row.Floor.P50), number(row.Floor.P99)
			line[7], line[8] = number(row.RatioP50), number(row.RatioP99)
		}
		line[5], line[6] = number(row.Ours.P50), number(row.Ours.P99)
		if row.Skipped != "" {
			line = []string{row.Shell, row.Work, row.Unit, "", "", "", "", "", "", row.Reach, row.Skipped}
		} else if !row.OK {
			line[10] = "NO"
		}
		cells = append(cells, line)
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	if _, err := fmt.Fprintf(w, "%s, %s, %d CPUs (%s)\n\n", r.System, r.Go, r.CPUs, r.CPU); err != nil {
		return err
	}
	for i, line := range cells {
		for c, cell := range line {
			line[c] = cell + strings.Repeat(" ", widths[c]-len([]rune(cell)))
		}
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | ")); err != nil {
			return err
		}
		if i == 0 {
			rules := make([]string, len(widths))
			for c, width := range widths {
				rules[c] = strings.Repeat("-", width)
			}
			if _, err := fmt.Fprintf(w, "|-%s-|\n", strings.Join(rules, "-|-")); err != nil {
				return err
			}
		}
	}
	return nil
}

func number(v float64) string {
	switch {
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
