// Package terminals is the registry of live terminals: who owns which session,
// what may be done to it, and that nothing is left behind. It also holds the
// vocabulary that tools, engines and backends share: [Backend], [Session],
// [Send], [CommandSession] and [Error].
//
// These hold at all times:
//
//   - A session belongs to one [Owner] for its whole life. Owners are objects
//     and are compared by identity; knowing a name or an id gives no right.
//   - An id is minted before a backend runs and is never used again, also when
//     the open fails.
//   - A session is visible only after its set-up succeeded, and only if its
//     caller, its owner and the service still wanted it at that moment.
//     Otherwise it is closed before Open returns.
//   - Every open that passed its checks settles before its owner's disposal
//     does, so a disposed owner has nothing left that could still appear.
//   - A failure to clean up is never dropped. It is the result of a close or of
//     a disposal, and while it was not reported it counts as activity.
//   - A session stays registered until a close of it has succeeded or the
//     service is disposed. At most one close of it runs at a time.
//   - Contexts given to Close, DisposeOwner and Dispose bound how long that
//     caller waits. The work goes on without it.
//   - No lock is held while a backend, a session or a caller's function runs.
//     These may call the service, except to wait for what waits for them.
//
// The package knows no operating system, no shell and no tool. It starts
// nothing by itself and has no goroutine while nothing opens or closes.
package terminals
