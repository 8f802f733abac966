package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/shellstead/shellstead/persistent"
	"github.com/shellstead/shellstead/tool"
)

// request is one line of commands, or what is wrong with it.
type request struct {
	command string
	err     error
}

// lines answers the commands on stdin, one line each, until it ends.
func (r *commandRun) lines() {
	requests := make(chan request)
	go func() {
		defer close(requests)
		readRequests(r.in, func(req request) bool {
			select {
			case requests <- req:
				return true
			case <-r.ctx.Done():
				return false
			}
		})
	}()
	for {
		select {
		case <-r.ctx.Done():
			return
		case req, ok := <-requests:
			if !ok {
				return
			}
			var res persistent.Result
			if req.err != nil {
				res = persistent.Refused("", req.err)
				r.print(res)
			} else {
				res = r.answer(persistent.Command{Text: req.command})
			}
			if r.ctx.Err() == nil {
				r.code = exitCode(res)
			}
		}
	}
}

// readRequests hands every line to yield, until yield returns false.
func readRequests(in io.Reader, yield func(request) bool) {
	lines := newLineReader(in)
	for number := 1; ; number++ {
		line, ended, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.Is(err, errLineTooLong):
			err = fmt.Errorf("line %d: %w; send the command in parts or as a file", number, err)
			if !yield(request{err: err}) {
				return
			}
		case err != nil:
			yield(request{err: fmt.Errorf("stdin cannot be read: %w", cause(err))})
			return
		default:
			command, err := parseRequest(line)
			if err != nil && !ended {
				err = fmt.Errorf("%w (stdin ended in the middle of the line)", err)
			}
			if err != nil {
				err = fmt.Errorf("line %d: %w", number, err)
			}
			if !yield(request{command: command, err: err}) {
				return
			}
		}
	}
}

// parseRequest reads {"command": "..."}. Other fields are left alone.
func parseRequest(line []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := tool.Decode(line, &fields); err != nil {
		return "", err
	}
	raw, ok := fields["command"] // a map, because a struct's field matches in any case
	if !ok {
		return "", errors.New(`want an object with a string "command", as in {"command": "echo hello"}`)
	}
	var command *string
	if err := json.Unmarshal(raw, &command); err != nil || command == nil {
		return "", fmt.Errorf(`"command" must be a string, got %s`, raw[:min(len(raw), 40)])
	}
	if strings.TrimSpace(*command) == "" {
		return "", errors.New(`"command" is empty; give the text of a command`)
	}
	return *command, nil
}
