// Package posix runs programs on pseudo terminals of Linux and macOS: it
// implements backend.Driver on github.com/creack/pty.
//
// What always holds:
//
//   - The host's end of a terminal is non-blocking and in Go's poller, so that
//     every read and write can be ended by a deadline or by closing it.
//   - A process is named by its id together with its start time. No signal is
//     sent to an id alone, so a recycled id is never hit, and never to process 1
//     or to the host.
//   - The started program stays unreaped until Terminate has ended. Until then
//     its id, its group and its session cannot be given to anybody else.
//   - "Waits for input" is said only of a thread that the kernel shows blocked
//     in a system call that reads this very terminal. What cannot be seen is
//     unknown.
//   - Nothing outlives the host: a small supervisor process notices its death
//     and ends what the host left open.
//
// On other systems New refuses and names the system.
package posix
