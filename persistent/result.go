package persistent

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"

	"github.com/shellstead/shellstead/terminals"
)

// Reason says why a command's call returned.
type Reason string

// The reasons.
const (
	Completed    Reason = "completed"
	TimedOut     Reason = "timeout"
	ShellExited  Reason = "shell_exited"
	WaitingInput Reason = "waiting_input"
	Cancelled    Reason = "cancelled"
	Failed       Reason = "error"
)

// Codes of [Error] besides those of package terminals.
const (
	CodeCancelled    = "CANCELLED"          // the caller's context or the owner ended
	CodeOpenFailed   = "OPEN_FAILED"        // no shell could be started; the next call tries again
	CodeEnvironment  = "ENVIRONMENT_FAILED" // the managed environment of the command could not be made
	CodeNotStarted   = "NOT_STARTED"        // the shell came back without having run the command
	CodeShellStopped = "SHELL_STOPPED"      // the shell itself was stopped
	CodeShellFailed  = "SHELL_FAILED"       // the terminal failed under the shell
)

// Result is what one command came to. Its JSON form is what `shellstead run
// --json` prints and what the tools return as structured content.
type Result struct {
	Command string `json:"command"`
	// Output is what the command printed, unaltered, as far as it is retained.
	// With [Middle] the two ends stand next to each other; Text shows the gap.
	// The JSON form has U+FFFD for bytes that are not UTF-8.
	Output   string  `json:"output"`
	ExitCode *int    `json:"exitCode"` // null when unknown; of the shell when the reason is shell_exited
	Signal   *string `json:"signal"`   // what killed the shell, or null
	Reason   Reason  `json:"reason"`
	Error    *Error  `json:"error"`
	Text     string  `json:"text"` // what a model reads
	// Notices is Text without the output, for a host that shows the output
	// itself as it comes.
	Notices string `json:"-"`
	// Unsolicited is what arrived between the previous command and this one.
	Unsolicited string                `json:"unsolicited"`
	Clipped     bool                  `json:"clipped"`
	LostPrefix  int64                 `json:"lostPrefix"` // bytes at the beginning that were not retained
	OutputFile  string                `json:"outputFile"` // the whole output (up to the spill's bound) when it was clipped
	NeedsInput  *terminals.NeedsInput `json:"needsInput"`
	Cwd         string                `json:"cwd"`        // the shell's directory, as last known
	DurationMs  int64                 `json:"durationMs"` // from the delivery to the shell, without the queue and the shell's start
	TerminalID  string                `json:"terminalId"`
	SessionID   *string               `json:"sessionId"` // the log session, null without one
}

//go:embed result.schema.json
var resultSchema []byte

// ResultSchema returns the JSON schema (draft 2020-12) of a [Result].
func ResultSchema() json.RawMessage { return bytes.Clone(resultSchema) }

// Err returns the failure of a call that ended with the reason error or
// cancelled, nil otherwise. errors.Is finds the cause in it: the context's own
// after a cancellation, a code of package terminals after a failed start.
func (r Result) Err() error {
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// Error is a failure in a result.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"` // says what to do next

	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is matches the code of package terminals that the error has, also where its
// cause has none.
func (e *Error) Is(target error) bool {
	code, ok := target.(terminals.Code)
	return ok && string(code) == e.Code
}

// newError keeps the code of a terminals.Error and falls back to code.
func newError(code string, cause error) *Error {
	if c := terminals.CodeOf(cause); c != "" {
		code = string(c)
	}
	return &Error{Code: code, Message: cause.Error(), cause: cause}
}

// Refused is the result of a command that was never given to a shell, for
// instance because its arguments could not be read.
func Refused(command string, cause error) Result {
	res := Result{Command: command}
	res.fail(newError(string(terminals.InvalidArgument), cause))
	res.Text = errorLine(res.Error)
	res.Notices = res.Text
	return res
}

func (r *Result) fail(err *Error) {
	r.Reason, r.Error = Failed, err
}

func (r *Result) cancel(cause error) {
	if cause == nil {
		cause = errors.New("the call was cancelled")
	}
	message := cause.Error()
	if errors.Is(cause, context.Canceled) {
		message = "the call was cancelled" // by somebody who gave no cause
	}
	r.Reason, r.Error = Cancelled, &Error{Code: CodeCancelled, Message: message, cause: cause}
}
