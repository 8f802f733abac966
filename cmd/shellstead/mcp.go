package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/tasks"
	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

// instructions are what a client may tell its model about the server.
const instructions = "Shells of this server live on between calls: working directory, variables and background jobs stay as the last call left them. " +
	"Each connection has its own shells; they end with it."

// progressInterval is the longest silence of a running call towards a client
// that asked for progress. Clients give a silent call up after a minute or less.
const progressInterval = 5 * time.Second

// lastAnswers is how long a client that is leaving is given to read what is
// written already.
const lastAnswers = 2 * time.Second

func newMCP(a *app) *cobra.Command {
	var list, cwd string
	var o sessionOptions
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the tools to a model by the Model Context Protocol on stdio",
		Long: "Serve the tools by the Model Context Protocol on stdin and stdout. The connection\n" +
			"has shells of its own, which end when stdin is closed, and a session whose\n" +
			"log is kept in DSH_HOME unless --log or --session says otherwise.",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return a.mcp(list, cwd, o)
		},
	}
	a.configFlags(cmd)
	toolsFlag(cmd, &list, platformTool())
	cmd.Flags().StringVar(&cwd, "cwd", "", "start shells in the folder `DIR`")
	o.flags(cmd)
	return cmd
}

func (a *app) mcp(list, dir string, o sessionOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	cfg, err := a.load(o.setting()...)
	if err != nil {
		return err
	}
	cwd, err := workingDir(dir)
	if err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	h, err := newHost(cfg, log, false)
	if err != nil {
		return err
	}
	notices := newNotices()
	m, err := h.mount(list, notices.taskEnded)
	if err != nil {
		return err
	}
	ctx, stop := catchSignals(context.Background())
	defer stop()
	defer h.dispose()
	agent, err := h.newAgent(ctx, "mcp", cwd, o, true)
	if err != nil {
		return err
	}
	defer agent.close() // after the last answers
	for _, c := range m.commands {
		c.prestart(agent.owner, true, log)
	}
	transport, ended := messages(a.in, a.out)
	if err := h.serve(ctx, agent, m.tools, notices, transport, ended); err != nil {
		return err
	}
	var signal interruption
	if errors.As(context.Cause(ctx), &signal) {
		return &exitError{code: signal.code()}
	}
	return nil
}

// serve answers one connection until its input, the connection or ctx ends.
func (h *host) serve(ctx context.Context, agent *agent, tools []tool.Tool, notices *notices, transport mcp.Transport, input <-chan struct{}) error {
	server := mcp.NewServer(
		&mcp.Implementation{Name: "shellstead", Title: "Live shells", Version: moduleVersion()},
		&mcp.ServerOptions{
			Instructions: instructions,
			Logger:       h.log,
			// The list never changes; the answer does not offer to say so.
			//lint:ignore SA1019 clients of today are told of a task's end by log messages
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Logging: &mcp.LoggingCapabilities{}},
		})
	ordered := inOrder(transport)
	for _, t := range tools {
		server.AddTool(describeTool(t.Spec()), handler(t, agent, ordered.pass))
	}
	// Calls end by their own cancellation and with the owner, so that a signal
	// does not cut off their answers.
	connection, err := server.Connect(context.WithoutCancel(ctx), ordered, &mcp.ServerSessionOptions{
		// The end of a task is told to a client that has asked for nothing, too.
		State: &mcp.ServerSessionState{LogLevel: noticeLevel},
	})
	if err != nil {
		return err
	}
	notices.to(connection)
	ended := make(chan error, 1)
	go func() { ended <- connection.Wait() }()
	select {
	case err := <-ended:
		h.log.Info("the connection ended", "error", err)
		return nil
	case <-input:
	case <-ctx.Done():
	}
	// The shells end first: a client that no longer reads must not keep them.
	h.dispose()
	patience, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	if ctx.Err() != nil {
		select {
		case <-ordered.answered():
		case <-patience.Done():
		}
		go func() { _ = connection.Close() }()
	}
	select {
	case <-ended:
	case <-patience.Done():
		h.log.Warn("the client does not read; its last answers are lost")
	}
	return nil
}

// noticeLevel is the level of the messages about background tasks.
const noticeLevel = "info"

// notices are the messages that a connection's client gets besides answers.
type notices struct {
	session   *mcp.ServerSession
	connected chan struct{}
}

func newNotices() *notices { return &notices{connected: make(chan struct{})} }

// to says where they go.
func (n *notices) to(session *mcp.ServerSession) {
	n.session = session
	close(n.connected)
}

// taskEnded tells the client that a background task has ended. A client that is
// gone needs no notice; the runtime logs each.
func (n *notices) taskEnded(owner *terminals.Owner, notice tasks.Notice) {
	<-n.connected // nothing ran before
	//lint:ignore SA1019 clients of today are told of a task's end by log messages
	_ = n.session.Log(owner.Context(), &mcp.LoggingMessageParams{
		Level:  noticeLevel,
		Logger: "shellstead",
		Data: struct {
			tasks.Notice
			Message string `json:"message"`
		}{notice, notice.Text()},
	})
}

func describeTool(spec tool.Spec) *mcp.Tool {
	described := &mcp.Tool{
		Name:        spec.Name,
		Title:       spec.Title,
		Description: spec.Description,
		InputSchema: spec.InputSchema,
		Annotations: &mcp.ToolAnnotations{
			Title:           spec.Title,
			ReadOnlyHint:    spec.ReadOnly,
			DestructiveHint: &spec.Destructive,
			OpenWorldHint:   &spec.OpenWorld,
		},
	}
	if spec.OutputSchema != nil { // a nil of another type is not nil
		described.OutputSchema = spec.OutputSchema
	}
	return described
}

// handler serves the calls of one tool. placed is called once for each.
func handler(t tool.Tool, agent *agent, placed func()) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		once := sync.OnceFunc(placed)
		defer once() // a call that was refused holds nobody up
		call := tool.Call{Arguments: req.Params.Arguments, Placed: once}
		if token := req.Params.GetProgressToken(); token != nil {
			p := startProgress(func(n float64, text string) {
				// A client that is gone needs no progress.
				_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: text})
			})
			defer p.stop()
			call.Progress = p.report
		}
		res := agent.call(ctx, t, call)
		content, err := contentOf(res)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{Content: content, StructuredContent: res.Structured, IsError: res.IsError}, nil
	}
}

// contentOf is a result's text, or the blocks that a hook has put in its place.
func contentOf(res tool.Result) ([]mcp.Content, error) {
	if res.Content == nil {
		return []mcp.Content{&mcp.TextContent{Text: res.Text}}, nil
	}
	var wire mcp.CallToolResult
	if err := json.Unmarshal(slices.Concat([]byte(`{"content":`), res.Content, []byte("}")), &wire); err != nil {
		return nil, fmt.Errorf("a hook's content is none of this protocol: %w", err)
	}
	return wire.Content, nil
}

// progress numbers a call's reports and adds one where a call is silent.
type progress struct {
	send    func(n float64, text string)
	started time.Time
	done    chan struct{}
	ended   chan struct{}

	mu    sync.Mutex
	n     float64
	quiet *time.Timer
}

func startProgress(send func(n float64, text string)) *progress {
	p := &progress{
		send:    send,
		started: time.Now(),
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
		quiet:   time.NewTimer(progressInterval),
	}
	go func() {
		defer close(p.ended)
		for {
			select {
			case <-p.quiet.C:
				p.report(fmt.Sprintf("running for %d s", int(time.Since(p.started).Seconds())))
			case <-p.done:
				return
			}
		}
	}()
	return p
}

func (p *progress) report(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet.Reset(progressInterval)
	p.n++
	p.send(p.n, text)
}

// stop ends the reports. When it returns none is under way.
func (p *progress) stop() {
	close(p.done)
	<-p.ended
	p.quiet.Stop()
}
