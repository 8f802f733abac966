// Package persistent gives every owner one live shell and runs whole commands
// in it, one after another. It knows no shell and no operating system: a
// terminals.CommandSession runs the command, and this package decides what the
// answer is.
//
// What holds, whatever a command does:
//
//   - Calls of one owner are served in the order in which they came; owners do
//     not wait for each other. A caller that gives up leaves the queue at once.
//   - A call always ends: by the command's own end, by its timeout, by its
//     context, or because a program waits for input. After a timeout or a
//     cancellation the answer comes within a fixed, short grace.
//   - What was printed is never lost silently. The result holds it, a file
//     holds what does not fit the result, and what neither holds is counted.
//     Output between two commands belongs to the next result.
//   - A shell that cannot be trusted to be at its prompt is closed, and the
//     next command gets a fresh one and says so.
package persistent
