package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// messages is the transport over stdin and stdout. The library ends a
// connection at the first line that is no message; one bad line should cost a
// client no more than an error. So lines are checked first, and a bad one is
// answered here. ended is closed when stdin has ended.
func messages(in io.Reader, out io.Writer) (transport mcp.Transport, ended <-chan struct{}) {
	w := &messageWriter{out: out}
	r := &messageReader{lines: newLineReader(in), reject: w.reject, ended: make(chan struct{})}
	return &mcp.IOTransport{
		Reader:        io.NopCloser(r),
		Writer:        w,
		MaxLineLength: -1, // lines are bounded by the reader
	}, r.ended
}

// orderly is a transport that keeps calls in the order in which they came. The
// library handles each request on a goroutine of its own, so that two calls
// which a client sends without waiting could overtake each other on the way to
// their shell's queue. Here the message after a call is read once the call has
// its place, or its answer.
type orderly struct {
	mcp.Transport

	mu      sync.Mutex
	pending jsonrpc.ID    // the call that was read last
	placed  chan struct{} // closed when it has its place; nil without one
	open    map[jsonrpc.ID]bool
	idle    []chan struct{} // closed when no call is open
	closed  chan struct{}
}

func inOrder(transport mcp.Transport) *orderly {
	return &orderly{Transport: transport, open: map[jsonrpc.ID]bool{}, closed: make(chan struct{})}
}

// Connect implements mcp.Transport.
func (o *orderly) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := o.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &orderlyConnection{Connection: connection, orderly: o, closeOnce: sync.OnceFunc(func() { close(o.closed) })}, nil
}

// pass says that the call that was read last has its place.
func (o *orderly) pass() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.placed != nil {
		close(o.placed)
		o.placed = nil
	}
}

// answered returns a channel that is closed once every call that was read has
// its answer.
func (o *orderly) answered() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	done := make(chan struct{})
	if len(o.open) == 0 {
		close(done)
	} else {
		o.idle = append(o.idle, done)
	}
	return done
}

func (o *orderly) answer(id jsonrpc.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, id)
	if len(o.open) == 0 {
		for _, done := range o.idle {
			close(done)
		}
		o.idle = nil
	}
}

type orderlyConnection struct {
	mcp.Connection
	*orderly
	closeOnce func()
}

// Read implements mcp.Connection.
func (c *orderlyConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	c.mu.Lock()
	placed := c.placed
	c.mu.Unlock()
	if placed != nil {
		select {
		case <-placed:
		case <-c.closed:
		case <-ctx.Done():
		}
	}
	message, err := c.Connection.Read(ctx)
	if request, ok := message.(*jsonrpc.Request); ok && err == nil && request.IsCall() && request.Method == "tools/call" {
		c.mu.Lock()
		c.pending, c.placed = request.ID, make(chan struct{})
		c.open[request.ID] = true
		c.mu.Unlock()
	}
	return message, err
}

// Write implements mcp.Connection.
func (c *orderlyConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	if response, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		last := response.ID == c.pending
		c.mu.Unlock()
		if last { // refused before it got to a tool
			c.pass()
		}
		defer c.answer(response.ID)
	}
	return c.Connection.Write(ctx, message)
}

// Close implements mcp.Connection.
func (c *orderlyConnection) Close() error {
	c.closeOnce()
	return c.Connection.Close()
}

// messageReader is a stream of the good lines of its input.
type messageReader struct {
	lines  *lineReader
	reject func(id json.RawMessage, code int64, message string)
	rest   []byte // of the current line

	ended chan struct{}
	once  sync.Once
}

func (r *messageReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, _, err := r.lines.next()
		switch {
		case errors.Is(err, errLineTooLong):
			r.reject(nil, jsonrpc.CodeInvalidRequest, err.Error())
		case err != nil:
			r.once.Do(func() { close(r.ended) })
			return 0, err
		case r.good(line):
			r.rest = append(line, '\n')
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// good says that a line is a message, and answers one that is not.
func (r *messageReader) good(line []byte) bool {
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return false
	case !json.Valid(line):
		r.reject(nil, jsonrpc.CodeParseError, "the line is not valid JSON; send one message on each line")
		return false
	case line[0] == '[':
		r.reject(nil, jsonrpc.CodeInvalidRequest, "batches are not supported; send each message on a line of its own")
		return false
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		var request struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(line, &request) // what has no id gets none
		r.reject(request.ID, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the line is no JSON-RPC message: %s", err))
		return false
	}
	return true
}

// messageWriter writes whole lines for the library and for the reader.
type messageWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *messageWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// Close does nothing: stdout is the process's.
func (w *messageWriter) Close() error { return nil }

func (w *messageWriter) reject(id json.RawMessage, code int64, message string) {
	if id == nil {
		id = json.RawMessage("null")
	}
	type wireError struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	// A client that cannot be written to shows at the next answer.
	_ = writeJSON(w, struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   wireError       `json:"error"`
	}{"2.0", id, wireError{code, message}}, "")
}
