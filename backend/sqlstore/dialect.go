package sqlstore

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// Dialect is how one engine does it.
type Dialect struct {
	// Texts are the engine's own statements. Where it has none of a name, the portable one
	// of the folder sql is used. They name tables with the prefix parley_.
	Texts Texts
	// Own is a pointer to a struct with the engine's further statements. A field of type *Stmt is
	// the statement of that name in Texts. An array has one for each value of the statement's axis;
	// Axes says what the values put into the text.
	Own  any
	Axes map[string][]*strings.Replacer
	// Lock is the clause at the end of a statement that locks rows. It is empty if Token has the
	// locks, or if the engine needs none.
	Lock string
	// Token writes what stands for {verb arg} in a statement; see defaultToken for what there
	// is. It may be nil.
	Token func(verb, arg string) (text string, ok bool)
	// Adapt puts a statement into the words that the engine's optimizer understands. It may
	// be nil.
	Adapt func(sql string, portable bool) string

	// Prefix replaces parley_ in the names of tables and whatever else is made.
	// Schema, if any, ends with a dot and stands before it in statements. Both
	// have been validated.
	Prefix string
	Schema string

	named map[object]bool // indexes that statements name

	// Together is that of Capabilities.
	Together *backend.Together

	// Invalid is what is wrong with the options. The store says so in its Capabilities.
	Invalid error

	// Placeholder writes the n-th parameter, counted from 1, of statements that
	// use a bare question mark.
	Placeholder func(n int) string

	// Now is the engine's clock as an expression: microseconds since 1970 as a
	// BIGINT. It replaces :now. If it is empty, :now becomes one more parameter,
	// after the others, and gets the time from Clock.
	Now   string
	Clock func() int64

	// ID converts an id to what the engine's driver takes.
	ID func(backend.ID) any

	// Begin starts a transaction at the level that the statements need.
	Begin func(ctx context.Context) (Transaction, error)

	// Read returns a session for reading committed data, and what gives it back.
	Read func(ctx context.Context) (Session, func(), error)

	// Join returns a session in the user's transaction.
	Join func(ctx context.Context, tx backend.Execer) (Session, error)

	// InTx reports whether a transaction is open on a connection of the user's, and leaves it
	// as it is. It may be nil if Join looks itself.
	InTx func(ctx context.Context, conn backend.Execer) (bool, error)

	// Wrap gives transactions what the engine adds to them. It may be nil.
	Wrap func(*Tx) backend.Tx

	// Classify wraps an error of the engine in the sentinel of package backend
	// that fits, if there is one.
	Classify func(error) error

	// Migrations are the schema's files in order: the n-th brings the schema to
	// version n, counted from 1, and records that itself.
	Migrations []string
	// Qualify says that the schema's files name things with the Schema before them.
	// Otherwise they are run where names are looked up in it.
	Qualify bool
	// RemoveFirst and RemoveLast drop what those files make besides tables and
	// views: what depends on these, and what these depend on.
	RemoveFirst, RemoveLast string

	// Script runs one of these in the transaction that it is given. If it is nil,
	// the engine takes several statements at once.
	Script func(ctx context.Context, tx backend.Execer, script string) error

	// Hasten limits how long statements of the transaction wait for a lock, until undo is called.
	// After that time a statement fails with ErrSerialization. Nil if there is a limit anyway.
	Hasten func(ctx context.Context, tx backend.Execer) (undo func(), err error)

	// Online runs a file outside of transactions, statement by statement, if no other process has
	// done so in the meantime. Rebuild rebuilds an index. Both fail with ErrSerialization while
	// another process works on it. Nil if the engine does not need them.
	Online  func(ctx context.Context, script string, still func(context.Context) (bool, error)) error
	Rebuild func(ctx context.Context, index string) error
	// Drain waits for the end of all transactions that began before the call and have sent or
	// claimed something. Nil if a migration's transaction does so.
	Drain func(ctx context.Context) error

	// PrintFirst precedes the printed schema. PrintAlone is the form of a statement that uses what
	// was just created. Both are empty if the engine does not need them.
	PrintFirst, PrintAlone string

	// Exclude makes processes that migrate take turns, in the transaction.
	Exclude func(ctx context.Context, tx backend.Execer) error

	// Info describes the store.
	Info func(ctx context.Context) (backend.Info, error)

	// Timeouts returns the settings by which the server ends transactions that are
	// open, or idle, at most that long; nil where it ends none.
	Timeouts func(ctx context.Context) (map[string]time.Duration, error)

	// Lacks returns what of a table the role may not do, where SchemaTables cannot
	// tell.
	Lacks func(ctx context.Context, sess Session, table string) ([]string, error)

	// Grants writes the rights of roles; nil where the engine has no roles.
	Grants *Grants

	// DB is the pool, whose idle connections are closed after ErrReadOnly; nil where
	// the next one could not lead to another server.
	DB *sql.DB
	// MaxConns is how many connections the pool may open, 0 if there is no limit. It is
	// nil where there is no pool.
	MaxConns func() int

	// Close releases what the engine's package opened.
	Close func() error

	// SetPoint, BackToPoint and ReleasePoint write what sets a savepoint, rolls
	// back to it and forgets it; nil where that is as in the standard. Without a
	// text there is nothing to do.
	SetPoint, BackToPoint, ReleasePoint func(name string) string
	// OnlyInTx reports whether a read outside of transactions gets a transaction
	// that is rolled back; nil where that is never so.
	OnlyInTx func() bool

	// Several says that a text without parameters may have several statements.
	Several bool
	// Replaces says that a savepoint takes the place of one of the same name, which
	// need not be released then.
	Replaces bool

	// Unread is how long a server may take to read a statement. A driver that asks it once to cancel one does so after that
	// time. Zero: the engine sees to it that a context ends statements.
	Unread time.Duration

	// Futile says that waiting inside a transaction for another is futile, as
	// there is only one at a time.
	Futile bool

	// OpenLine returns a session's separate connection, which has the engine's
	// locks. When it ends, others know that the session's owner is gone.
	// TxNative returns the engine's locks of a transaction. If both are nil,
	// application locks are rows only.
	OpenLine func(ctx context.Context, session backend.ID) (Line, error)
	TxNative func(t *Tx) NativeLocks

	// The operations that an engine may do better than row by row. A nil field
	// leaves it to this package.

	// SendOne sends a message, and does nothing, but perhaps lock its guard, if
	// something refuses it.
	SendOne func(ctx context.Context, tx *Tx, version int64, m backend.Outgoing) (sent backend.Sent, done bool, err error)
	// SendTogether sends messages on different conversations in a transaction that waits for no lock. Without it that is
	// done by Guards and Append, or, where there is no Guards, by SendOne.
	SendTogether func(ctx context.Context, tx *Tx, version int64, messages []backend.Outgoing) (sent []backend.Sent, done bool, err error)
	// BeginDialogs stores conversations with their messages. It returns false, having
	// changed nothing, if the catalog has another version, or the queue of a target that has
	// messages is disabled.
	BeginDialogs func(ctx context.Context, tx *Tx, version int64, list []Begun) (ok bool, err error)
	// Guards locks streams, in their order, and reads them. It leaves out those that
	// do not exist.
	Guards func(ctx context.Context, tx *Tx, streams []backend.ID) (map[backend.ID]*Stream, error)
	// Append writes messages, the next numbers and ranks of their streams, and the
	// entries of these in the ready order.
	Append func(ctx context.Context, tx *Tx, b *Batch) error
	// PostPlain adds posts without key, delay or unique value: all or none. If version is not 0, it adds none if the
	// catalog is another one or a queue is off, or if it cannot tell; 0 says that this has been looked at. Without
	// PostPlain all posts are added one by one.
	PostPlain func(ctx context.Context, tx *Tx, version int64, posts []backend.Posting) (done bool, err error)
	// JoinPosts moves delayed posts without key to their queues, without those that another
	// transaction has locked, and returns how many it has moved. Without it they are moved one by one.
	JoinPosts func(ctx context.Context, tx *Tx, ids []backend.ID) (moved int64, err error)
	// PostValues says that a joined transaction may be at a level at which INSERT … SELECT locks
	// what it reads until the end. There, even a single post is inserted as values, by PostPlain,
	// after a separate read of what it depends on.
	PostValues bool
	// PostKeyed adds a post with a key, and does nothing if something refuses it.
	PostKeyed func(ctx context.Context, tx *Tx, version int64, p backend.Posting) (done bool, err error)
	// KeyStreams makes those of the keys that are new, in their order, and then locks the
	// streams of the others. So a transaction that waits for a key has no guard yet. While
	// it waits for a guard, it waits for no key. The streams of new keys get their ranks when
	// something is appended to them.
	KeyStreams func(ctx context.Context, tx *Tx, keys []Key) (map[Key]*Stream, error)

	ClaimBatch  func(ctx context.Context, tx *Tx, r backend.ClaimRequest) (backend.Claim, error)
	SettleBatch func(ctx context.Context, tx *Tx, settled *Settlement) error
	Finish      func(ctx context.Context, tx *Tx, streams []backend.ID) (again bool, err error)
	// EndFirst ends a side of a conversation in the ordinary case: the other side has not
	// ended, and hears of it by a message. It returns the other side's queue and what was removed for
	// this one, or zero if it has changed nothing, but perhaps locked the guard.
	EndFirst func(ctx context.Context, tx *Tx, end backend.End) (queue int64, unread []Unread, err error)
	// EndGuards takes the guard of a side, and, without waiting, that of the other side.
	EndGuards func(ctx context.Context, tx *Tx, handle, far backend.ID) (farLocked bool, err error)
	// DropUnread removes what a side has not read, and the streams that were made for one message.
	DropUnread func(ctx context.Context, tx *Tx, group, handle backend.ID) ([]Unread, error)
	// RemoveSides removes both sides of a conversation, whose guards are ours, unless messages
	// are there.
	RemoveSides func(ctx context.Context, tx *Tx, handle, far backend.ID) (removed bool, err error)
	// EndSides writes the ends of sides: that these sides have ended, and that the last message of the stream
	// tells the other sides. Without EndSides each end is written at once.
	EndSides func(ctx context.Context, tx *Tx, list []SideEnd) error
	// EndMany decides ends in the ordinary case, and returns those that it has left as they were. Without it each is
	// decided at once.
	EndMany func(ctx context.Context, tx *Tx, list []LateEnd) (rest []LateEnd, err error)
	// List writes a list of ids for EndUnread, which reads several sides.
	List func(ids []backend.ID) any
	// RemoveQuiet removes what is left of conversations that both sides have ended, whose
	// guards are ours.
	RemoveQuiet func(ctx context.Context, tx *Tx, r *Remainder) error
	// Drop removes messages by their keys and returns how many there were.
	Drop func(ctx context.Context, tx *Tx, streams []backend.ID, seqs []int64) (n int64, err error)
	// Restore takes the guards of streams that it can have without waiting, and puts
	// those that have messages to the place of the first, but not before returned. It
	// says how many guards it had.
	Restore func(ctx context.Context, tx *Tx, group backend.ID, streams []backend.ID, returned int64) (had int, err error)
	Extend  func(ctx context.Context, tx *Tx, holds []*backend.Hold, d time.Duration) (lost int, err error)
	// SubmitBatch adds tasks with the numbers from first on.
	SubmitBatch func(ctx context.Context, tx *Tx, schedule backend.ID, first int64, caller string, tasks []backend.NewTask) error
	// StartTasks starts tasks that were never claimed, and returns how many there
	// were. It is for engines where TasksStart would wait for tasks beside them.
	StartTasks func(ctx context.Context, tx *Tx, c backend.TaskClaim, tasks []backend.ID) (n int64, err error)
	// FinishTasks returns those that were lost.
	FinishTasks func(ctx context.Context, tx *Tx, ends []backend.TaskEnd) (lost []backend.ID, err error)
	// RemovePosts returns how many of the posts there were.
	RemovePosts func(ctx context.Context, tx *Tx, ids []backend.ID) (n int64, err error)
	// Reclaim is for several holds, and for one if there are no statements
	// GroupReclaim and PostReclaim.
	Reclaim func(ctx context.Context, tx *Tx, holds []*backend.Hold) (had []backend.ID, err error)
	// HeldPosts and ReleasePosts are for engines where one transaction writes at a time:
	// to reclaim posts it need only look. HeldPosts returns how many are still held by
	// their fences. ReleasePosts ends the leases of those that the transaction leaves.
	HeldPosts    func(ctx context.Context, tx *Tx, posts []*backend.Hold) (n int64, err error)
	ReleasePosts func(ctx context.Context, tx *Tx, posts []*backend.Hold) error
}

// Session runs statements.
type Session interface {
	Exec(ctx context.Context, q *Stmt, args []any) (sql.Result, error)
	Query(ctx context.Context, q *Stmt, args []any) (*sql.Rows, error)
}

// Transaction is a session whose end is in our hands.
type Transaction interface {
	Session
	SQL() backend.Execer
	// Commit ends the transaction whatever it returns.
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Resting is implemented by sessions that have to know when the rows of a query
// have been closed.
type Resting interface{ Rest() }

// Pointing is implemented by transactions that set, leave and return to savepoints in a way of
// their own. On SQLite that context never ends. A statement there can succeed and still be reported
// as cancelled, so it would be unknown whether the savepoint still exists.
type Pointing interface {
	Point(ctx context.Context, text string) error
}

// lazy is implemented by transactions that begin at their first statement.
type lazy interface {
	Begun() bool
}

// Plain runs statements as they are, in a transaction that is not ours.
type Plain struct{ backend.Execer }

// Exec implements Session.
func (p Plain) Exec(ctx context.Context, q *Stmt, args []any) (sql.Result, error) {
	return p.ExecContext(ctx, q.Text, args...)
}

// Query implements Session.
func (p Plain) Query(ctx context.Context, q *Stmt, args []any) (*sql.Rows, error) {
	return p.QueryContext(ctx, q.Text, args...)
}
