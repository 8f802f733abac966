// Package conpty runs programs in pseudo consoles of Windows: it implements
// backend.Driver on the ConPTY interface of Windows 10 version 1809 and later.
//
// What always holds:
//
//   - A program and everything it starts is in a job object from its first
//     instruction on. The job ends with the last handle to it: nothing in it
//     outlives a killed host.
//   - A program's standard descriptors are the pseudo console's, or the pipes
//     that were asked for, whatever the host's own are. No other handle of the
//     host reaches it.
//   - Screen bytes are a console's rendering of what was written, never the
//     written bytes: lines are broken, tabs and blanks are rewritten. A program
//     whose output must be exact asks for backend.Spec.OutputPipe.
//   - Readers get io.EOF after the last byte, although a pseudo console's pipe
//     does not break when its program ends.
//   - "Waits for input" is said only when a program took a record out of the
//     console's input that was put there to see whether one does. That needs a
//     helper process ([Options.Helper]), because only a process of the same
//     console can do it. Without it the answer is unknown.
//
// On other systems New refuses and names the system. The parts that know no
// system call are built on Linux as well, for their tests.
package conpty
