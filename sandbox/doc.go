// Package sandbox confines shells: it changes how a terminal's program is
// started so that the program, and everything that it starts, can change files
// only where its [Mode] allows it.
//
// A [Sandbox] stands for the settings of one process. [Sandbox.Wrap] turns the
// start of a shell into the start of a confined shell, through the first
// provider that works on this machine: bubblewrap or Landlock on Linux,
// sandbox-exec on macOS. A provider counts as working once it has confined a
// small program with the options that shells get. When none does, Wrap fails
// and says what was tried: there is no unconfined shell in a confined mode.
// What each provider cannot stop is in its [Description] and in docs/sandbox.md.
//
// A [Policy] holds the mode of one session, which is fixed while a terminal is
// open.
package sandbox
