package terminals

import "errors"

// Code classifies an [Error]. Two errors match with errors.Is when their codes
// are equal, so a code can be tested without knowing the message:
//
//	errors.Is(err, terminals.NoSession)
type Code string

// The codes.
const (
	DuplicateBackend Code = "DUPLICATE_BACKEND"
	DuplicateName    Code = "DUPLICATE_NAME"
	ForeignSession   Code = "FOREIGN_SESSION"
	NoBackend        Code = "NO_BACKEND"
	NoSession        Code = "NO_SESSION"
	OwnerNotLive     Code = "OWNER_NOT_LIVE"
	SendActive       Code = "SEND_ACTIVE"
	ServiceDisposing Code = "SERVICE_DISPOSING"
	SessionClosing   Code = "SESSION_CLOSING"
	SessionExited    Code = "SESSION_EXITED"
	InvalidArgument  Code = "INVALID_ARGUMENT"
	Unsupported      Code = "UNSUPPORTED"
	CleanupFailed    Code = "CLEANUP_FAILED"
)

// Error makes a code usable as the target of errors.Is.
func (c Code) Error() string { return string(c) }

// Error is the typed error of this package and of the sessions behind it.
type Error struct {
	Code    Code
	Message string // one sentence that says what to do next; no code in it
	Err     error  // the cause, when there is one
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches a Code and an Error of the same code.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Code:
		return e.Code == t
	case *Error:
		return e.Code == t.Code
	}
	return false
}

// CodeOf returns the code of the first Error in err's tree, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
