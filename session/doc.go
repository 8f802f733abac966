// Package session is the identity and the memory of one agent's session: a
// [Header] that says which session it is, a [Log] of what the model sent and
// got, and the [Persistence] that keeps logs. The packages session/jsonl and
// session/sqlite implement the last.
//
// These hold at all times:
//
//   - A log is only ever appended to. The order of events is their seq, which
//     counts from 0 without a gap but for events that could not be stored; time
//     is what the wall clock said and may go back.
//   - An event is handed to the operating system before [Log.Append] returns. A
//     process that is killed after that has lost nothing; a machine that loses
//     power may lose the last events.
//   - A session has one writer. Who claims it second fails with [ErrInUse]; the
//     claim ends with the process that holds it.
//   - Nothing exists before the first event: making a log, locating it and
//     closing it unused touch no disk.
//   - A log that cannot be written never fails what is logged. The failure is
//     said once, and so is its end.
//   - Values that were typed to a prompt for a secret are stored as [Redacted].
//
// docs/session-log.md describes the stored form for those who read it.
package session
