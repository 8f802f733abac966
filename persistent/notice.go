package persistent

import (
	"fmt"
	"strings"
	"time"

	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/terminals/screen"
)

// The lines that stand around a command's output. Their wording is part of the
// tool's contract.
const (
	unsolicitedHeading = "[output since the last command]"
	outputHeading      = "[output of this command]"
	unknownExitCode    = "[exit code: unknown]"
)

func errorLine(err *Error) string { return "Error: " + screen.Text([]byte(err.Message)) }

func interruptedNotice(program string) string {
	return fmt.Sprintf("[interrupted %s, which was waiting for input]", screen.OneLine(program))
}

// stoppedNotice is of a command that went on after an answer.
func stoppedNotice(program string) string {
	return fmt.Sprintf("[interrupted %s, which was still running]", screen.OneLine(program))
}

func completedNotice(code *int) string {
	if code == nil {
		return "[the previous command completed: exit code unknown]"
	}
	return fmt.Sprintf("[the previous command completed: exit code %d]", *code)
}

func replacedNotice(cwd string) string {
	return fmt.Sprintf("[the shell did not come back; this command runs in a fresh shell in %s]", screen.OneLine(cwd))
}

func shellHadExitedNotice(status terminals.Status, cwd string) string {
	how := ""
	switch {
	case status.Signal != "":
		how = fmt.Sprintf(" (signal %s)", screen.OneLine(status.Signal))
	case status.ExitCode != nil:
		how = fmt.Sprintf(" (code %d)", *status.ExitCode)
	}
	return fmt.Sprintf("[the shell had exited since the last command%s; this command runs in a fresh shell in %s]", how, screen.OneLine(cwd))
}

func exitCodeNotice(code *int) string {
	switch {
	case code == nil: // what is not known is not success
		return unknownExitCode
	case *code == 0:
		return ""
	}
	return fmt.Sprintf("[exit code: %d]", *code)
}

func shellExitedNotice(status terminals.Status) string {
	switch {
	case status.Signal != "":
		return fmt.Sprintf("[shell killed by signal: %s]", screen.OneLine(status.Signal))
	case status.ExitCode != nil:
		return fmt.Sprintf("[shell exited: code %d]", *status.ExitCode)
	}
	return "[shell exited]"
}

func gapNotice(chars int64) string {
	return fmt.Sprintf("[... %d characters left out ...]", chars)
}

// clippedNotice names the file only when it holds the whole output.
func clippedNotice(c capture) string {
	if !c.clipped() {
		return ""
	}
	if c.spill.path == "" || c.spill.capped {
		return fmt.Sprintf("[output clipped: %d of %d characters shown]", c.shown, c.chars)
	}
	return fmt.Sprintf("[output clipped: %d of %d characters shown; full output: %s]", c.shown, c.chars, screen.OneLine(c.spill.path))
}

func lostNotice(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("[the beginning of the output was lost: %d bytes]", bytes)
}

func spillNotice(s spilled) string {
	switch {
	case s.err != nil:
		return fmt.Sprintf("[full output not saved: %s]", screen.OneLine(s.err.Error()))
	case s.capped:
		return fmt.Sprintf("[full output saved up to %d bytes: %s]", s.size, screen.OneLine(s.path))
	}
	return ""
}

func timeoutNotice(timeout time.Duration, kept bool) string {
	if kept {
		return fmt.Sprintf("[timed out after %d ms; the program was interrupted and the shell kept]", timeout.Milliseconds())
	}
	return fmt.Sprintf("[timed out after %d ms; the shell was reset]", timeout.Milliseconds())
}

func waitingNotice(needs *terminals.NeedsInput, terminalID string, terminalTools bool) string {
	who := fmt.Sprintf("%s (%s)", screen.OneLine(needs.Program), needs.Kind)
	if terminalTools {
		return fmt.Sprintf("[waiting for input: %s; answer with terminal_send to %s, or run another command, which interrupts it]", who, terminalID)
	}
	return fmt.Sprintf("[waiting for input: %s; the next command interrupts it]", who)
}

func freshShellNotice(cwd string) string {
	return fmt.Sprintf("[the next command starts a fresh shell in %s]", screen.OneLine(cwd))
}

// textBuilder puts parts below each other, each beginning on a line of its own.
type textBuilder struct{ strings.Builder }

func (b *textBuilder) add(part string) {
	if part == "" {
		return
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(part)
}

func nestedPrompt(level int) string { return fmt.Sprintf("nested prompt, level %d", level) }

func nestedNotice(level int) string {
	return fmt.Sprintf("[waiting for input: %s; the next command runs in it]", nestedPrompt(level))
}
