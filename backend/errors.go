package backend

import "errors"

// The errors that a backend returns. Each may be wrapped; callers use errors.Is. Any other error is
// passed to the user unchanged, and so are errors of a context. After any of these errors the
// transaction is still usable, unless the error's comment says otherwise.
var (
	// ErrInvalidName: the name is empty, too long, not UTF-8, or reserved.
	ErrInvalidName = errors.New("invalid name")

	// ErrClosed: the backend was closed.
	ErrClosed = errors.New("the broker is closed")

	// ErrTxDone: the transaction has been committed or rolled back.
	ErrTxDone = errors.New("the transaction is over")

	// ErrRowsOpen: the application has not closed the rows of a query in the transaction. It
	// comes from engines that do one thing at a time on a connection.
	ErrRowsOpen = errors.New("rows of a query are open: close them first")

	// ErrNoTx: Join was given a pool, or a connection without an open transaction.
	ErrNoTx = errors.New("the value to join has no open transaction")

	// ErrTxSettings: the application has changed a setting of the transaction, such as
	// search_path, and the store does not find its tables in it. The transaction must be rolled back.
	ErrTxSettings = errors.New("a setting that the application has changed in the transaction keeps the store from its tables")

	// ErrEndsTx: a statement of the application would end the store's transaction. It was not
	// executed.
	ErrEndsTx = errors.New("the statement would end the transaction, which is the store's to end")

	// ErrNotMigrated: the store has no Parley schema, or an older one than the
	// program needs.
	ErrNotMigrated = errors.New("the database is not migrated: run Broker.Migrate or `parley migrate`")

	// ErrNewerSchema: the store's schema is newer than the program by more than one
	// version, or is about to be.
	ErrNewerSchema = errors.New("the database was migrated by a newer version of Parley: update this program")

	// ErrUnknownSchema: the store's schema has a version that no program creates.
	ErrUnknownSchema = errors.New("no version of Parley makes such a schema: restore the table meta")

	// ErrMigrationWaits: a migration step waited too long for older programs, which it would break,
	// to settle what they have in hand. The earlier steps stay.
	ErrMigrationWaits = errors.New("older programs still have work in hand: stop them, or wait, and migrate again")

	// ErrOlderPrograms: programs of an older version, which would lose the new data, may still use
	// the store. Stop them, and confirm that by MigrateOptions.Finish.
	ErrOlderPrograms = errors.New("older programs that would lose it may still use the database:" +
		" stop them and run `parley migrate --finish`")

	// ErrReadOnly: the store refuses writes (a standby, a read-only file).
	ErrReadOnly = errors.New("the database is read-only")

	// ErrDenied: the database does not let the program's role do this. On some engines
	// the transaction must be rolled back.
	ErrDenied = errors.New("the database does not allow the program's role to do this")

	// ErrNoSpace: the store has no room for the data, for example because its disk is full. The
	// transaction must be rolled back.
	ErrNoSpace = errors.New("the database has no space left")

	// ErrReplaced: the store's file was deleted or replaced while it was in use. A commit that
	// returns this error is lost with the old file.
	ErrReplaced = errors.New("the database's file was deleted or replaced while it was in use")

	// ErrNotBegun: the transaction could not begin, because no connection was available, so nothing
	// has happened. The error is ErrConnection or ErrPool as well, or both.
	ErrNotBegun = errors.New("the transaction could not be begun")

	// ErrPool: the pool of connections is too small: none was free in time, or the server
	// takes no more.
	ErrPool = errors.New("the pool of connections is too small")

	// ErrConnection: the connection was lost. Whether a commit happened is
	// unknown if Commit returned it, or a verb with a separate transaction;
	// the transaction is over.
	ErrConnection = errors.New("the connection to the database was lost")

	// ErrSerialization: the store gave up on the transaction because of another one
	// (deadlock, serialization failure, lock wait). Or the transaction took too much
	// (time, locks, memory). It must be rolled back and may be run again from its start.
	ErrSerialization = errors.New("the transaction conflicted with another one: roll back and run it again")

	// ErrIsolation: the isolation level of a joined transaction cannot do this.
	ErrIsolation = errors.New("this cannot be done at the transaction's isolation level")

	// ErrWouldDeadlock: the call would wait for its own caller. SQLite returns it for a write
	// outside the open write transaction that is requested from within it.
	ErrWouldDeadlock = errors.New("this would wait for a transaction that waits for it")

	// ErrStaleCatalog: the catalog changed since the version in the request.
	ErrStaleCatalog = errors.New("the catalog has changed")

	// ErrQueueDisabled: the queue's status is off.
	ErrQueueDisabled = errors.New("the queue is disabled")

	// ErrNoConversation: no endpoint has this handle (any more).
	ErrNoConversation = errors.New("no such conversation")

	// ErrEnded: this side has ended the conversation.
	ErrEnded = errors.New("the conversation was ended by this side")

	// ErrNoGroup: no such group.
	ErrNoGroup = errors.New("no such conversation group")

	// ErrGroupBusy: another receiver holds the group.
	ErrGroupBusy = errors.New("the conversation group is held by another receiver")

	// ErrStreamBusy: a sender holds the guard of the stream.
	ErrStreamBusy = errors.New("a sender is writing to the conversation")

	// ErrGroupElsewhere: the group belongs to another service or queue.
	ErrGroupElsewhere = errors.New("the conversation group belongs to another service or queue")

	// ErrFenced: the hold is no longer ours, or another receiver has taken
	// what it delivered. Nothing was changed; the transaction must be rolled back.
	ErrFenced = errors.New("the messages are no longer held by this receiver")

	// ErrNotPending: the post is not waiting: settled, cancelled, in a
	// receiver's hands, or never there.
	ErrNotPending = errors.New("the post is not pending")

	// ErrCancelled: a request asked the receiver to stop. It is the cause of the end of its context.
	ErrCancelled = errors.New("it was cancelled")

	// ErrTooLarge: the body is larger than the store takes.
	ErrTooLarge = errors.New("the message body is too large")

	// ErrLockTimeout: the application lock was not free in time.
	ErrLockTimeout = errors.New("the application lock was not granted in time")

	// ErrLockDeadlock: waiting for the application lock would close a cycle of waiters; this waiter
	// was chosen as the victim. Its transaction stays usable.
	ErrLockDeadlock = errors.New("waiting for the application lock would deadlock")

	// ErrNotLocked: the application lock is not held by this owner.
	ErrNotLocked = errors.New("the application lock is not held")

	// ErrPhaseClosed: a task was submitted for a phase that is over.
	ErrPhaseClosed = errors.New("the phase is closed: a task of a later phase has started")

	// ErrNoPlan: no such plan, or it was deleted.
	ErrNoPlan = errors.New("no such plan")
)
