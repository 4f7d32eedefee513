package backend

import (
	"context"
	"log/slog"
	"time"
)

// Capabilities are what a backend can do beyond what each one does. The zero value is a backend
// that can do nothing more: it has many writers, deliveries are held by lease, receivers poll.
// I2 and I5 hold for many writers, whether or not they hold in transactions.
//
// Nothing is found out by a type assertion. So a type that embeds a Backend has all capabilities
// of that, and takes one away, or adds one, by its own method Capabilities.
type Capabilities struct {
	// HoldsInTransaction: a claim without a lease may stay open while the handler runs,
	// without stopping everybody else.
	HoldsInTransaction bool
	// SingleWriter: while a transaction that has written is open, all other writers wait.
	// It cannot be combined with HoldsInTransaction.
	SingleWriter bool

	// What a store cannot do is nil.
	Joiner             Joiner
	Listener           Listener
	Watcher            Watcher
	Pool               Pool
	TransactionLimiter TransactionLimiter
	Logging            Logging
	Migrator           Migrator
	Printer            Printer
	Granter            Granter

	// Classify wraps an error of the driver's, which a statement of the application's has
	// returned, in that of this package which it amounts to. Parley asks it of the errors of
	// handlers: a lost race against another transaction, or a full store, is not charged to
	// the message.
	Classify func(error) error

	// IdleClosed returns how many connections the pool has closed so far only because it
	// keeps few that are idle.
	IdleClosed func() int64
}

// Joiner is implemented by backends that can work in a transaction that the
// user began and will end.
type Joiner interface {
	// Join wraps the user's transaction. Commit and Rollback of the result only
	// mark it as done. ErrIsolation if nothing can be done at its level, and ErrNoTx for
	// what is no open transaction.
	Join(ctx context.Context, tx Execer) (Tx, error)
}

// Pool is implemented by backends whose transactions each take a connection of
// a pool.
//
// Nothing waits without a limit for a connection while it has one: Begin, and whatever
// reads, with a context that [IsInside] an open transaction fails in bounded time, with
// ErrNotBegun, or with ErrWouldDeadlock where there is one connection in all. Before
// that it asks [TokensFrom] what is open, which may end it. [Patiently] does all of that.
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
	// all of them, until ctx ends. As soon as it listens, at first and again after
	// trouble, it calls wake(0), since it may have missed something. It returns
	// errors.ErrUnsupported when this backend has been given nothing to listen
	// with, and otherwise only when ctx ends. wake does not block.
	Listen(ctx context.Context, wake func(queue int64)) error

	// Notify tells other processes' listeners about the queues. Parley calls it
	// after its own commits, at most some hundred times a second. It returns
	// errors.ErrUnsupported when listeners find out by themselves.
	Notify(ctx context.Context, queues []int64) error
}

// Watcher is implemented by backends without a Listener that can cheaply tell whether something
// is new. Parley asks while receivers wait.
type Watcher interface {
	// Newest returns a number for each queue with entries in its ready order. The number grows
	// when an entry joins; it may be the time of the newest message. It may grow for other
	// reasons as well, and become less when something leaves.
	Newest(ctx context.Context, queues []int64) (map[int64]int64, error)
}

// Logging is implemented by backends that tell operators what no caller sees.
type Logging interface {
	// LogTo says where to, before the backend's first use.
	LogTo(*slog.Logger)
}
