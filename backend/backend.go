package backend

import (
	"context"
	"database/sql"
	"time"
)

// Backend is a store that keeps conversations. Its methods may be called from
// many goroutines at once. Every method but Close takes its own short
// transaction where it needs one.
type Backend interface {
	// Info describes the store for people: no behaviour depends on it. It works
	// on a store that is not migrated.
	Info(ctx context.Context) (Info, error)

	// Migrate creates or updates the schema. It is safe when many processes
	// call it at once, does nothing when there is nothing to do, and fails with
	// ErrNewerSchema, changing nothing, when the store is ahead of the program by
	// more than one version.
	Migrate(ctx context.Context) error

	// Check returns nil when the schema is the one that this program needs, or the
	// next one, which takes away nothing that this program uses; else ErrNotMigrated,
	// ErrNewerSchema or ErrUnknownSchema. The same comparison is made at a handle's
	// first use, by Tx.Catalog, Tx.Reclaim and Tend. A migration that is about to take
	// away what older programs use first makes their catalog stale.
	Check(ctx context.Context) error

	// Uninstall removes everything that Migrate made, messages included.
	Uninstall(ctx context.Context) error

	// Begin starts a transaction at the level that the store's statements are
	// written for. The transaction outlives the cancelling of ctx: each of its
	// calls has a context of its own, and Commit or Rollback ends it.
	Begin(ctx context.Context) (Tx, error)

	// Extend prolongs the leases of the holds to d from now: the heartbeat. It
	// returns ErrFenced if any of them is lost; the others are extended.
	Extend(ctx context.Context, holds []*Hold, d time.Duration) error

	// Tend does one background duty, at most about limit items of it, in short
	// transactions of its own, skipping what is locked. It returns how many
	// items it moved and in how long the next item is due (zero: none known), or
	// in how long to go on with a walk through all there is. Many processes call
	// it at once.
	Tend(ctx context.Context, duty Duty, limit int) (moved int, next time.Duration, err error)

	Reader
	Workers
	Locks
	Tasks

	// Close releases what the backend opened itself; a *sql.DB that was handed
	// to it stays open. It is idempotent. Transactions still open are rolled
	// back.
	Close() error
}

// Tx is a transaction. It is used by one goroutine at a time. Everything done
// in it becomes visible with Commit and vanishes with Rollback; it sees its own
// changes. After Commit or Rollback every call but Rollback returns ErrTxDone.
type Tx interface {
	// Catalog reads the catalog. With lock, others that define wait until this
	// transaction ends, and the history is read as well. It fails with
	// ErrNewerSchema if the schema has left this program behind.
	Catalog(ctx context.Context, lock bool) (*Catalog, error)

	// PutCatalog stores the objects in change, replacing those of the same
	// name, removes those in change.Removed, adds to the history, and returns the
	// new version. New queues get their ID.
	PutCatalog(ctx context.Context, change *Catalog) (version int64, err error)

	// BeginDialog stores a new conversation's initiator side: the endpoint, its
	// group if NewGroup is set, and the streams of both directions, the
	// outgoing one without a home. It returns ErrGroupBusy if the new group
	// came into being meanwhile. An existing group must be held (LockGroup);
	// ErrGroupElsewhere if it is of another queue or service. ErrStaleCatalog if the catalog has another version than the one given,
	// since the priority was chosen by it.
	BeginDialog(ctx context.Context, version int64, d NewDialog) error

	// Accept stores the target side of the conversation that from began, in a
	// new group whose id is the target's handle, and makes the target's group
	// the home of from's stream. It waits for other senders on from. It
	// returns false, changing nothing, when there is a target already.
	// ErrStaleCatalog as in BeginDialog.
	Accept(ctx context.Context, version int64, from ID, target Endpoint) (bool, error)

	// Endpoint returns one side of a conversation, ErrNoConversation if there
	// is none.
	Endpoint(ctx context.Context, handle ID) (*Endpoint, error)

	// Members returns the sides of conversations that are in a group, by handle,
	// as this transaction sees them. After LockGroup that is all there are.
	Members(ctx context.Context, group ID) ([]*Endpoint, error)

	// TryStream takes the stream on which an endpoint sends until the transaction
	// ends, without waiting: ErrStreamBusy if another one has it. It is for those
	// who hold a group, for which a sender may be waiting.
	TryStream(ctx context.Context, handle ID) error

	// Send appends messages to their streams and returns their numbers. Within
	// one call a stream's messages keep their order. It is all or nothing: if
	// any message is refused, nothing is sent and the error is a *Refused.
	Send(ctx context.Context, version int64, messages []Outgoing) ([]Sent, error)

	// Withhold appends messages to the streams of senders whose target cannot
	// take them, with a text that says why. Once a stream has messages there,
	// Send refuses further ones (RefusedHeld) until Deliver has moved them.
	Withhold(ctx context.Context, messages []Outgoing, status string) ([]Sent, error)

	// Deliver moves what Withhold kept for the stream of from to its target, in
	// order, and returns how many messages moved. It returns ErrStreamBusy when
	// a sender is writing, ErrQueueDisabled when the target's queue is off.
	Deliver(ctx context.Context, from ID) (int, error)

	// Discard removes what Withhold kept for the stream of from and records
	// each message as dead with the reason. ErrStreamBusy as in Deliver.
	Discard(ctx context.Context, from ID, reason string) (int, error)

	// Resend moves what Withhold kept for the stream of from, without EndOfStream,
	// to the end of what is withheld for that of to, with a new status, and
	// returns how many messages moved. It waits for other senders on both.
	Resend(ctx context.Context, from, to ID, status string) (int, error)

	// Notice gives an endpoint a message that the broker made: a stream of its
	// own, so that it waits for nobody. A notice of KindError also puts the
	// endpoint in error. On an endpoint that has ended it does nothing.
	Notice(ctx context.Context, n Notice) error

	// Post adds posts. One that is unique and finds its like pending is not
	// added; its result names the one that waits. ErrStaleCatalog and
	// ErrQueueDisabled refuse the whole call.
	Post(ctx context.Context, version int64, posts []Posting) ([]Posted, error)

	// Cancel removes a post that waits, or ErrNotPending; with ErrGroupBusy besides
	// where somebody has it locked, which may be a duty, for a moment.
	Cancel(ctx context.Context, queue int64, id ID) error

	// Claim finds groups with messages, locks them, and then, in a new look at
	// the store, reads their messages (rule R-A). See ClaimRequest. Nothing to
	// claim is no error.
	Claim(ctx context.Context, r ClaimRequest) (Claim, error)

	// More reads messages of a held group beyond those in hold.Messages, in each
	// stream, and adds them there. What the caller took out of hold.Messages is
	// read again.
	More(ctx context.Context, hold *Hold, maxMessages int, maxBytes int) ([]*Message, error)

	// Reclaim takes the groups of leased holds in this transaction, by their
	// fences, until it ends. ErrFenced if any of them is lost, ErrNewerSchema if the
	// schema has left this program behind.
	Reclaim(ctx context.Context, holds []*Hold) error

	// Settle carries out what became of deliveries, and then puts the ready
	// order right for the streams that it touched. Leases of the holds end with
	// the transaction. It is the last call before Commit: guards are locked in
	// it, and a sender that needs one waits for the commit. again is true when
	// the order of some stream could not be put right because a sender is
	// writing to it: look again soon. Messages that EndDialog removed in this
	// transaction count as there: a handler may end the conversation and then
	// acknowledge.
	Settle(ctx context.Context, outcomes []Outcome) (again bool, err error)

	// Keep has a group that this transaction holds, or has just settled, stay the
	// receiver's after the commit, by a lease of that length: it sets the hold's
	// fence. It may follow Settle.
	Keep(ctx context.Context, hold *Hold, lease time.Duration, owner string) error

	// PutDown empties the record of a reader (Backend.Attend), with the commit.
	PutDown(ctx context.Context, reader ID) error

	// Exhume removes a dead letter and reports whether there was one.
	Exhume(ctx context.Context, message ID) (bool, error)

	// Resave releases a savepoint and sets it anew, keeping what was done.
	Resave(ctx context.Context, name string) error

	// LockGroup takes a group until the transaction ends, without waiting:
	// ErrGroupBusy if another receiver holds it, in a transaction or by lease;
	// ErrNoGroup if there is no such group. A group that this transaction holds
	// already is granted. A backend for which waiting inside a transaction is
	// futile returns an error that is ErrWouldDeadlock instead of ErrGroupBusy.
	LockGroup(ctx context.Context, group ID) error

	// EndDialog ends one side of a conversation, whose group must be held. It
	// waits at most for senders on that side. ErrEnded if it ended before.
	EndDialog(ctx context.Context, end End) (Ended, error)

	// Move makes another group of the same queue the home of the endpoint. Both
	// groups must be held. With NewGroup the group is made. ErrStreamBusy when
	// the peer is writing: nothing has changed, give the groups back and try
	// again. ErrGroupElsewhere if the group is of another queue or service.
	Move(ctx context.Context, handle, group ID, newGroup bool) error

	// SetTimer makes a DialogTimer message due on the endpoint in after,
	// replacing an earlier one; zero removes it.
	SetTimer(ctx context.Context, handle ID, after time.Duration) error

	// Promote puts a group, or a post without key, before all that are not
	// promoted. A second promotion replaces the first. ErrNoGroup if there is
	// no such group. It waits for no sender and no receiver.
	Promote(ctx context.Context, p Promotion) error

	// Demote removes a promotion; none is no error.
	Demote(ctx context.Context, group ID) error

	// Unpark makes a parked or deferred group ready again. ErrGroupBusy if it
	// is held, ErrNoGroup if there is none. It keeps senders of at most a hundred of
	// the group's streams waiting until the transaction ends, and none of a stream
	// without messages: DutyDeferred puts the other streams into the ready order, as
	// many at a time.
	Unpark(ctx context.Context, group ID) error

	// Once records key, at least for a time, and reports whether it was new.
	Once(ctx context.Context, key string, keep time.Duration) (bool, error)

	// Savepoint, RollbackTo and Release work as in SQL. Locks taken after a
	// savepoint may or may not survive RollbackTo.
	Savepoint(ctx context.Context, name string) error
	RollbackTo(ctx context.Context, name string) error
	Release(ctx context.Context, name string) error

	// SQL runs statements of the user's in the transaction; nil if the store
	// has no SQL.
	SQL() Execer

	TxLocks
	TxTasks

	Commit(ctx context.Context) error
	// Rollback is idempotent and returns nil after Commit.
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

// Joiner is implemented by backends that can work in a transaction that the
// user began and will end.
type Joiner interface {
	// Join wraps the user's transaction. Commit and Rollback of the result only
	// mark it as done. ErrIsolation if nothing can be done at its level.
	Join(ctx context.Context, tx Execer) (Tx, error)
}

// TransactionHolder is implemented by backends where a claim without a lease
// may stay open while the handler runs, without stopping everybody else.
type TransactionHolder interface {
	HoldsInTransaction()
}

// Pool is implemented by backends whose transactions each take a connection of
// a pool.
//
// Nothing waits without a limit for a connection while it has one: Begin, and whatever
// reads, with a context that [IsInside] an open transaction fails in bounded time, with
// ErrNotBegun, or with ErrWouldDeadlock where there is one connection in all. Before
// that it asks [TxsFrom] what is open, which may end it. [Patiently] does all of that.
type Pool interface {
	// MaxConns is how many connections there can be at once for transactions and
	// calls; zero: no limit. It is less while the backend keeps connections for
	// itself, to listen on or for sessions.
	MaxConns() int
}

// TransactionLimiter is implemented by backends whose server ends transactions that
// are open, or without a statement, for too long.
type TransactionLimiter interface {
	// TransactionLimit is how long a transaction is safe from that, by the settings
	// of the store's sessions, and the name of the setting; zero: for ever.
	TransactionLimit(ctx context.Context) (limit time.Duration, setting string, err error)
}

// Listener is implemented by backends that can tell a process about messages
// that another one sent. Without it Parley polls.
type Listener interface {
	// Listen calls wake for each queue that may have new messages, with 0 for
	// all of them, until ctx ends. After trouble it listens again and then
	// calls wake(0), since it may have missed something. It returns
	// errors.ErrUnsupported when this backend has been given nothing to listen
	// with, and otherwise only when ctx ends. wake does not block.
	Listen(ctx context.Context, wake func(queue int64)) error

	// Notify tells other processes' listeners about the queues. Parley calls it
	// after its own commits, at most some hundred times a second. It returns
	// errors.ErrUnsupported when listeners find out by themselves.
	Notify(ctx context.Context, queues []int64) error
}

// CommitNotifier is implemented by the Tx of backends whose store can notify at
// commit; it is used for joined transactions, whose commit Parley does not see. A
// rollback to a savepoint may undo it: Parley asks again then.
type CommitNotifier interface {
	NotifyAtCommit(ctx context.Context, queues []int64) error
}

// Duty is a kind of background work.
type Duty int

// The duties.
const (
	DutyDelayed   Duty = iota // delayed posts that are due join their queue
	DutyTimers                // conversation timers that are due become messages
	DutyLifetimes             // conversations beyond their lifetime get an error on both sides
	DutyDeferred              // deferred groups that are due, and those marked for another look, become ready
	DutyMarkers               // blocked groups leave the ready order; left-over entries are removed
	DutyClosed                // conversations that both sides ended are removed
	DutyGroups                // groups and keys that nothing refers to are removed, with their promotions
	DutyWorkers               // records of workers that died long ago are removed
	DutyProcessed             // processed posts beyond the time for which they are kept are removed
	DutyOnce                  // keys of Once beyond that time are removed
	DutyCount     int  = iota
)

// duties says of each duty how it is called and how often it is done though nothing is
// known to be due.
var duties = [DutyCount]struct {
	name   string
	period time.Duration
}{
	DutyDelayed:   {"delayed", time.Second},
	DutyTimers:    {"timers", time.Second},
	DutyLifetimes: {"lifetimes", time.Second},
	DutyDeferred:  {"deferred", time.Second},
	DutyMarkers:   {"markers", 5 * time.Second},
	DutyClosed:    {"closed", 10 * time.Second},
	DutyGroups:    {"groups", time.Minute},
	DutyWorkers:   {"workers", time.Minute},
	DutyProcessed: {"processed", time.Minute},
	DutyOnce:      {"once", time.Minute},
}

func (d Duty) String() string { return duties[d].name }

// Period is how often the duty is done at least.
func (d Duty) Period() time.Duration { return duties[d].period }
