package screen

import (
	"bytes"
	"strconv"
)

// QueryKind is what a program asks of its terminal.
type QueryKind int

// The kinds of query.
const (
	CursorPosition      QueryKind = iota + 1 // ESC [ 6 n
	DeviceStatus                             // ESC [ 5 n
	PrimaryAttributes                        // ESC [ c
	SecondaryAttributes                      // ESC [ > c
	ForegroundColor                          // OSC 10 ; ?
	BackgroundColor                          // OSC 11 ; ?
	CursorColor                              // OSC 12 ; ?
	TermcapString                            // DCS + q (XTGETTCAP)
	KittyKeyboard                            // ESC [ ? u
	TerminalVersion                          // ESC [ > q (XTVERSION)
	ModeReport                               // ESC [ Ps $ p, ESC [ ? Ps $ p (DECRQM)
)

// Query is one question of a program to its terminal.
type Query struct {
	Kind QueryKind

	// Mode is the mode that a ModeReport asks for, Private whether it is one of
	// the DEC private modes.
	Mode    int
	Private bool
}

// Reply returns what a terminal without a visible screen can honestly say: that
// it is a plain VT102 in good order, with the cursor at 1;1, and that it does
// not know the mode asked for. Nil means that silence is the honest answer, as
// it is of a terminal without the feature: there are no colours to report and
// no keyboard or capability protocol to offer.
func (q Query) Reply() []byte {
	switch q.Kind {
	case CursorPosition:
		return []byte("\x1b[1;1R")
	case DeviceStatus:
		return []byte("\x1b[0n")
	case PrimaryAttributes:
		return []byte("\x1b[?6c")
	case SecondaryAttributes:
		return []byte("\x1b[>0;0;0c")
	case TermcapString:
		return []byte("\x1bP0+r\x1b\\")
	case ModeReport:
		reply := []byte("\x1b[")
		if q.Private {
			reply = append(reply, '?')
		}
		reply = strconv.AppendInt(reply, int64(q.Mode), 10)
		return append(reply, ";0$y"...)
	}
	return nil
}

// maxQueries is how many queries wait to be taken. Who prints more without
// reading an answer prints a file.
const maxQueries = 16

// Queries takes the queries seen since the last call, the first 16 of them.
func (s *Screen) Queries() []Query {
	q := s.queries
	s.queries = nil
	return q
}

func (s *Screen) ask(q Query) {
	if len(s.queries) < maxQueries {
		s.queries = append(s.queries, q)
	}
}

// query notes a CSI sequence that asks for something.
func (s *Screen) query(args []byte, final byte) {
	switch string(args) + string(final) {
	case "6n":
		s.resolveReturn()
		s.line.home = s.ring.end
		s.ask(Query{Kind: CursorPosition})
	case "5n":
		s.ask(Query{Kind: DeviceStatus})
	case "c", "0c":
		s.ask(Query{Kind: PrimaryAttributes})
	case ">c", ">0c":
		s.ask(Query{Kind: SecondaryAttributes})
	case "?u":
		s.ask(Query{Kind: KittyKeyboard})
	case ">q", ">0q":
		s.ask(Query{Kind: TerminalVersion})
	default:
		mode, isRequest := bytes.CutSuffix(args, []byte{'$'})
		mode, private := bytes.CutPrefix(mode, []byte{'?'})
		if n, ok := number(mode); ok && isRequest && final == 'p' {
			s.ask(Query{Kind: ModeReport, Mode: n, Private: private})
		}
	}
}
