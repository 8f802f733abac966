// Package engine implements [terminals.Session] over any [backend.Driver] and
// any [dialect.Dialect]: the line session that every tool of the module stands
// on.
//
// One goroutine reads the terminal; everything else happens on its edges: a
// private marker, the end of a burst, the program's exit, a timer that is armed
// only while a send or a command is undecided. An idle session owns one blocked
// goroutine and no timer.
//
// A marker alone ends nothing. Whoever knows the shell's secret can print one,
// so the engine believes a marker only when the shell is seen blocked in its
// own prompt read: at the same place in its code (a [backend.Site]) where it was
// seen at the start, before any foreign code could run in it. Where the platform
// cannot prove that, the marker and the foreground process group decide, and the
// driver's capabilities say so.
package engine
