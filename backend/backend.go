package backend

import (
	"context"
	"database/sql"
	"time"
)

// Backend is a store that keeps conversations. Many goroutines may call its methods concurrently.
// Every method except Close uses a separate short transaction where it needs one.
type Backend interface {
	// Info describes the store for people: no behaviour depends on it. It works
	// on a store that is not migrated.
	Info(ctx context.Context) (Info, error)

	// Migrate creates or updates the schema. Many processes may call it at once.
	// It is a no-op when there is nothing to do. If the store is ahead of the
	// program by more than one version, it fails with ErrNewerSchema and changes
	// nothing.
	Migrate(ctx context.Context) error

	// Check returns nil if this program can use the schema: it has the program's version, or the
	// next one and everything that the program uses. Otherwise it returns ErrNotMigrated,
	// ErrNewerSchema or ErrUnknownSchema. A handle's first use, Tx.Catalog, Tx.Reclaim and Maintain
	// make the same comparison. Before a migration removes anything that older programs use, it
	// makes their catalog stale.
	Check(ctx context.Context) error

	// Uninstall removes everything that Migrate made, messages included.
	Uninstall(ctx context.Context) error

	// Capabilities says what else the backend can do.
	Capabilities() Capabilities

	// Begin starts a transaction at the level that the store's statements are written for. The
	// transaction outlives ctx: each of its calls has a separate context, and Commit or Rollback
	// ends it. A handle's first Begin makes Check's comparison. A store with a single writer may
	// postpone the wait for its turn, and ErrWouldDeadlock, to the first verb that writes.
	Begin(ctx context.Context) (Tx, error)

	// Close releases what the backend opened itself; a *sql.DB that was passed to it stays open. It
	// is idempotent, and may run beside other calls, which then return ErrClosed or ErrTxDone. It
	// rolls back open transactions and ends sessions; leases and committed data stay.
	Close() error

	Claims
	Maintenance
	Reader
	Workers
	Locks
	Tasks
	Recurring
	Cancels
}

// Tx is a transaction. It is used by one goroutine at a time, but for Rollback. Everything
// done in it becomes visible with Commit and vanishes with Rollback; it sees its own
// changes. After Commit or Rollback every call but Rollback returns ErrTxDone.
//
// A verb that returns one of the errors of its comment has changed nothing. A store keeps
// nothing of what it is given, Body above all, after a call has returned, and what it
// returns is the caller's.
type Tx interface {
	TxCatalog
	TxPosts
	TxClaims
	TxDialogs
	TxOperators
	TxWorkers
	TxLocks
	TxTasks
	TxRecurring
	TxCancels

	// Once records key, at least for a time, and reports whether it was new. It waits for a
	// transaction that has recorded the same key, until that ends.
	Once(ctx context.Context, key string, keep time.Duration) (bool, error)

	// Savepoint, RollbackTo and Release work as in SQL: a name may be used again, and the latest one counts. An unknown
	// name is an error. Locks acquired after a savepoint may or may not survive RollbackTo; those acquired before it
	// do.
	Savepoint(ctx context.Context, name string) error
	RollbackTo(ctx context.Context, name string) error
	Release(ctx context.Context, name string) error

	// Resave is Release and Savepoint in one, for stores that can do both in less time than one
	// after the other. It may return errors.ErrUnsupported, and Parley then calls those.
	Resave(ctx context.Context, name string) error

	// SQL runs statements of the user's in the transaction; nil if the store
	// has no SQL.
	SQL() Execer

	// Token identifies the transaction to its backend, which finds it in contexts by [TokensFrom].
	// A wrapper of a Tx passes on the token of that Tx.
	Token() any

	// NotifyAtCommit makes the store tell listeners about the queues once the transaction commits.
	// Parley calls it in joined transactions, whose commit it does not see, and again after a
	// rollback to a savepoint, which may undo it. A store that cannot do that returns nil.
	NotifyAtCommit(ctx context.Context, queues []int64) error

	Commit(ctx context.Context) error
	// Rollback is idempotent, returns nil after Commit, and works even if ctx has ended. It may be
	// called while a verb of the transaction runs, as Close does, and may wait for that verb to
	// return. It undoes that verb, too.
	Rollback(ctx context.Context) error
}

// Execer is the part of *sql.Tx that runs statements. Wrappers of other
// libraries have it as well.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}
