package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/terminals"
)

// answerer gives a program that waits for input what it is to read.
type answerer interface {
	answer(ctx context.Context, needs terminals.NeedsInput) (persistent.Answer, bool)
}

// scripted are the texts of --answer, in turn.
type scripted []string

func (s *scripted) answer(context.Context, terminals.NeedsInput) (persistent.Answer, bool) {
	if len(*s) == 0 {
		return persistent.Answer{}, false
	}
	text := (*s)[0]
	*s = (*s)[1:]
	return persistent.Answer{Text: text, Submit: true}, true
}

// endOfInput is what a person types at the end of input.
const endOfInput = "\x04"

// person answers at the terminal that run was started on.
type person struct {
	terminal *os.File
	echo     echoFilter
}

type typed struct {
	data []byte
	err  error
}

// newPerson returns nil where nobody can type.
func newPerson(in io.Reader) *person {
	terminal, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return nil
	}
	return &person{terminal: terminal}
}

// personConfirm is the waitConfirmMs of a person's run: what is typed before a
// question is known as one shows on the screen, also where it is a secret. A
// program that only pauses at its terminal costs nothing here.
const personConfirm = 30

// answer reads one line; unseen where a secret is asked for; one key where the
// program reads keys. The program's own terminal echoes a line again, which is
// left out of what is shown.
func (p *person) answer(ctx context.Context, needs terminals.NeedsInput) (persistent.Answer, bool) {
	fd := int(p.terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return persistent.Answer{}, false
	}
	var read func() ([]byte, error)
	switch needs.Kind {
	case terminals.KeyInput:
		read = func() ([]byte, error) {
			if _, err := term.MakeRaw(fd); err != nil {
				return nil, err
			}
			return p.read()
		}
	case terminals.SecretInput:
		read = func() ([]byte, error) {
			secret, err := term.ReadPassword(fd)
			return append(secret, '\n'), err
		}
	default:
		read = p.read
	}
	result := make(chan typed, 1)
	go func() {
		data, err := read()
		result <- typed{data, err}
	}()
	var got typed
	select {
	case got = <-result:
	case <-ctx.Done(): // the read ends with the process
	}
	_ = term.Restore(fd, before)
	switch {
	case ctx.Err() != nil, got.err != nil && got.err != io.EOF:
		return persistent.Answer{}, false
	case needs.Kind == terminals.KeyInput:
		return persistent.Answer{Text: string(got.data)}, true
	}
	line, whole := bytes.CutSuffix(got.data, []byte("\n"))
	if needs.Kind != terminals.SecretInput {
		p.echo.expect(line, whole)
	}
	if !whole { // Ctrl-D ends what was typed without a line's end
		return persistent.Answer{Text: string(line) + endOfInput}, true
	}
	return persistent.Answer{Text: string(line), Submit: true}, true
}

// maxTyped bounds one read of the terminal, which gives a line at most.
const maxTyped = 8 << 10

func (p *person) read() ([]byte, error) {
	buf := make([]byte, maxTyped)
	n, err := p.terminal.Read(buf)
	return buf[:n], err
}

// echoFilter takes the echo of an answer out of the output that follows it:
// exactly that, at its very beginning, and otherwise nothing.
type echoFilter struct {
	mu   sync.Mutex
	want []byte
	held []byte // of it, what has come
}

func (f *echoFilter) expect(line []byte, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want, f.held = append([]byte(nil), line...), nil
	if whole {
		f.want = append(f.want, '\n')
	}
}

// filter returns what of p is to be shown.
func (f *echoFilter) filter(p []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.want) == 0 {
		return p
	}
	all := append(f.held, p...)
	n := 0
	for n < len(all) && n < len(f.want) && all[n] == f.want[n] {
		n++
	}
	switch {
	case n == len(f.want):
		f.want, f.held = nil, nil
		return all[n:]
	case n == len(all):
		f.held = all
		return nil
	}
	f.want, f.held = nil, nil
	return all
}

// rest returns what was held back for an echo that did not come whole.
func (f *echoFilter) rest() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.held
	f.want, f.held = nil, nil
	return held
}
