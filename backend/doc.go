// Package backend is the contract between Parley and the store that it runs on.
//
// Applications never call it: they hold a parley.Broker. This module implements it on PostgreSQL,
// MySQL and MariaDB, SQLite and SQL Server, and in memory. It is public so that other modules can
// make a store a backend: they implement [Backend], and prove it with package conformance. The
// guide is docs/writing-a-backend.md. The worked example is internal/memstore, which keeps
// everything in memory; the suite tests itself with it.
//
// # Who does what
//
// Parley (the root package) decides. It knows which type a contract lets a side send, whether a
// body is valid, and what a failed attempt means. It chooses how long to wait and when to look
// again. A backend stores, locks and finds. It never retries, never decides policy, starts no
// goroutine but its Listener's, and logs nothing.
//
// # Parts
//
// A backend is a [Backend] and its transactions are [Tx]. Both are made of parts, each in a file:
//
//	part                       outside of transactions        in one
//	the catalog                                               [TxCatalog]
//	posts                                                     [TxPosts]
//	receiving, the work due    [Claims], [Maintenance]        [TxClaims]
//	conversations                                             [TxDialogs]
//	what operators do          [Reader]                       [TxOperators]
//	records of readers         [Workers]                      [TxWorkers]
//	application locks          [Locks], [Session]             [TxLocks]
//	tasks in phases            [Tasks]                        [TxTasks]
//	recurring jobs             [Recurring]                    [TxRecurring]
//	cancelling what is in hand [Cancels]                      [TxCancels]
//
// [Locker] is what a session and a transaction do with application locks, and [Execer] runs
// the application's own statements in a transaction.
//
// The last five parts may be missing. Embed [Unimplemented] and [UnimplementedTx]: then missing
// methods return errors.ErrUnsupported, and verbs that need them return it too. Maintenance,
// diagnosis and the conformance suite work without them. A backend has all of a part or nothing.
//
// # Capabilities
//
// A backend states in [Capabilities] what it can do beyond [Backend]. Parley asks once, in New. The
// answer must not change, and must be the same for all handles on a store. One flag says that
// handlers may run while the transaction of their claim is open. The other says that a second
// writer inside a transaction would wait for itself. Parley works without the rest:
//
//	Invalid             what is wrong with the store's options              broker.go (New)
//	Joiner              verbs in a transaction that the program began       broker.go (Join)
//	Listener            wake-ups from other processes                       internal/wake/peers.go
//	Watcher             a cheap question whether something is new           internal/wake/watch.go
//	Pool                how many connections transactions can have          internal/consumer/admission.go, worker.go
//	TransactionLimiter  how long the server lets a transaction be open      receive.go
//	Logging             where to log what no caller sees                    broker.go (New)
//	Migrator            migrations that wait, and report their steps        broker.go (Migrate), cmd/parley/migrate.go
//	Printer             the SQL of a migration                              cmd/parley/migrate.go
//	Granter             the SQL that grants a role its rights               cmd/parley/inspect.go
//	IdleClosed          how many connections a small idle pool has closed   internal/consumer/idle.go
//	Together            verbs of several callers in one transaction         together.go
//	Classify            what errors of the driver amount to                 internal/consumer/errors.go
//
// Parley asserts no other interface of a Backend or a Tx. So a wrapper that embeds one passes
// everything on. It states what it adds or takes away by defining the method Capabilities.
//
// # Calls
//
// The methods of a Backend may run concurrently, those of a Tx only one after the other (except for
// Rollback). A method that returns an error which its comment names has changed nothing, and the
// transaction stays usable, unless the error's comment says otherwise. After any other error,
// including that of a context, the caller rolls the transaction back.
//
// Each method may also return [ErrClosed], [ErrTxDone], [ErrNotMigrated], [ErrConnection],
// [ErrSerialization], [ErrDenied] and the error of its context, and a method that writes [ErrReadOnly]
// and [ErrNoSpace].
//
// A method waits for other transactions only where its comment says so. In addition, it may wait
// for another writer of the same object, such as a promotion of the same group.
//
// # Words
//
// A stream is a sequence of messages in order. It is one direction of a conversation, named by the
// handle of the sending endpoint. Or it is the posts of one key, or a single message of the broker
// (a timer, an error). A stream has one writer at a time: the transaction that holds its guard. A
// receiver holds a group: one receiver at a time, in any process, reads the streams whose home it
// is. A post without key is a stream and a group by itself.
//
// # The rules
//
// I1 One receiver in a group at a time, in any process, until it settles, rolls
// back, dies, or its lease ends.
//
// I2 A sender never waits for a receiver, however long it holds the group;
// claims, reads and settles never wait for an open sender. Only writers of the
// same stream wait for each other.
//
// I3 Once a sender has committed, an ordinary claim finds its message.
//
// I4 Within a stream the order of receipt is the order of sending, through
// rollback, retry, crash, batch, promotion, parking and Move.
//
// I5 Within one call locks are taken in the order group, guard, inserts. A call that meets a locked
// group or guard out of that order does not wait. It fails with [ErrGroupBusy] or [ErrStreamBusy],
// and the transaction stays usable.
//
// I6 What a handler writes and its acknowledgement commit together or not at all, even if the
// worker is stale. A settle under an old fence fails with [ErrFenced] and changes nothing. So does
// a settle that finds fewer messages than were delivered.
//
// # Connections
//
// No call that has a connection of the store's pool waits without a limit for another. A
// transaction has one connection from Begin to its end, and every other call has one while it
// lasts. A call that has one takes no second one. A call with a context that [IsInside] an open
// transaction waits for a bounded time: [Patiently] does that. A call that waits without a limit
// has no connection, so it blocks no other caller. Parley does the rest: it leaves two connections
// free beside those that handlers and deliveries hold.
//
// # Stability
//
// Before version 1.0 of the module a minor release may change this package: CHANGELOG.md says
// how, [Version] grows if a backend has to be changed, and [Register] refuses a backend
// written for another version. A new feature leaves Version as it is. It comes with a method
// in [Unimplemented] or [UnimplementedTx], a field whose zero value is the former behaviour,
// or a new interface. From 1.0 on a change that breaks backends is a new major version of the
// module.
//
// # Time
//
// Durations cross this interface, never points in time to compare with, because the store's clock decides. The few
// time.Time fields are for people to read. Recurring jobs are the exception: a due time is a place in the calendar,
// and the store compares it with its own clock.
package backend
