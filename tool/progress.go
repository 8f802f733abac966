package tool

import (
	"sync"
	"time"
	"unicode/utf8"

	"github.com/shellstead/shellstead/terminals/screen"
)

const (
	// ProgressInterval is the shortest time between two reports: a person reads
	// no faster, and each one is a message to a client.
	ProgressInterval = 250 * time.Millisecond

	// ProgressBytes bounds the raw output that one report is made of. The result
	// has the rest.
	ProgressBytes = 2048
)

// Progress turns a stream of output into reports for [Call.Progress]: the end
// of what is new, as text, at most every [ProgressInterval]. Output never waits
// for a report.
type Progress struct {
	report func(text string)

	turn chan struct{} // holds a token during report

	mu      sync.Mutex
	recent  []byte
	timer   *time.Timer // nil: nothing new
	stopped bool
}

// NewProgress returns a Progress that calls report from one goroutine at a time.
func NewProgress(report func(text string)) *Progress {
	return &Progress{report: report, turn: make(chan struct{}, 1)}
}

// Write takes what was printed. It does not keep data.
func (p *Progress) Write(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	if excess := len(data) - ProgressBytes; excess > 0 {
		data = data[excess:]
	}
	if excess := len(p.recent) + len(data) - ProgressBytes; excess > 0 {
		p.recent = append(p.recent[:0], p.recent[excess:]...)
	}
	p.recent = append(p.recent, data...)
	if p.timer == nil {
		p.timer = time.AfterFunc(ProgressInterval, p.flush)
	}
}

func (p *Progress) flush() {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return
	}
	recent := p.recent
	p.recent, p.timer = nil, nil
	p.mu.Unlock()

	for len(recent) > 0 && !utf8.RuneStart(recent[0]) { // the rest of a character
		recent = recent[1:]
	}
	if text := screen.Text(recent); text != "" {
		p.report(text)
	}
}

// Stop ends the reports. When it returns none is under way.
func (p *Progress) Stop() {
	p.mu.Lock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.turn <- struct{}{}
	<-p.turn
}
