package backend

import (
	"context"
	"log/slog"
	"time"
)

// Capabilities are what a backend can do beyond what every backend does. The zero value is a
// backend that can do nothing more: it has many writers, deliveries are held by lease, receivers
// poll. I2 and I5 apply to many writers, whether or not they hold groups in transactions.
//
// Parley discovers none of them by a type assertion. So a type that embeds a Backend has all its
// capabilities. It removes or adds one by defining the method Capabilities.
type Capabilities struct {
	// HoldsInTransaction: a claim without a lease may stay open while the handler runs, without
	// blocking all others.
	HoldsInTransaction bool
	// SingleWriter: while a transaction that has written is open, all other writers wait.
	// It cannot be combined with HoldsInTransaction.
	SingleWriter bool

	// Invalid is what is wrong with the options with which the store was made, if anything. New of package parley
	// returns it.
	Invalid error

	// A field is nil if the store cannot do that.
	Joiner             Joiner
	Listener           Listener
	Watcher            Watcher
	Pool               Pool
	TransactionLimiter TransactionLimiter
	Logging            Logging
	Migrator           Migrator
	Printer            Printer
	Granter            Granter
	Together           *Together

	// Classify wraps a driver's error, returned by one of the application's statements, in the
	// matching error of this package. Parley calls it with the errors of handlers. So a lost
	// conflict with another transaction, or a full store, is not charged to the message.
	Classify func(error) error

	// IdleClosed returns how many connections the pool has closed so far only because it keeps few
	// idle ones.
	IdleClosed func() int64
}

// Together says that the store can begin transactions with [NoWait]. Parley has a few verbs by themselves at work at
// once. Further ones wait for one of them to end, and are carried out together in such a transaction. Sends, and begins
// of conversations with their first message, always are.
type Together struct {
	Room       int  // how many are at work before others wait
	KeyedPosts bool // are carried out together
	Posts      bool // without a key are, too
}

// Joiner is implemented by backends that can work in a transaction that the
// user began and will end.
type Joiner interface {
	// Join wraps the user's transaction. Commit and Rollback of the result only mark it as done.
	// ErrIsolation if nothing can be done at its level, and ErrNoTx if it is no open transaction.
	Join(ctx context.Context, tx Execer) (Tx, error)
}

// Pool is implemented by backends whose transactions each take a connection of
// a pool.
//
// No call that has a connection waits without a limit for another. So with a context that
// [IsInside] an open transaction, Begin and all reads fail in bounded time, with ErrNotBegun. If
// the pool has one connection in all, the error is ErrWouldDeadlock. Before they fail they ask
// [TokensFrom] for open transactions, which may end one. [Patiently] does all of that.
type Pool interface {
	// MaxConns is how many connections transactions and calls can have at once; zero means no
	// limit. It is less while the backend keeps connections for itself, for its listener or for
	// sessions.
	MaxConns() int
}

// TransactionLimiter is implemented by backends whose server ends transactions that
// are open, or without a statement, for too long.
type TransactionLimiter interface {
	// TransactionLimit returns how long a transaction is safe from that, by the settings of the
	// store's sessions, and the name of the setting. Zero means no limit.
	TransactionLimit(ctx context.Context) (limit time.Duration, setting string, err error)
}

// Listener is implemented by backends that can tell a process about messages
// that another one sent. Without it Parley polls.
type Listener interface {
	// Listen calls wake for each queue that may have new messages, with 0 for all of them, until
	// ctx ends. As soon as it listens, at first and again after an interruption, it calls wake(0),
	// because it may have missed something. It returns errors.ErrUnsupported if this backend has no
	// means to listen, and otherwise only when ctx ends. wake does not block.
	Listen(ctx context.Context, wake func(queue int64)) error

	// Notify tells other processes' listeners about the queues. Parley calls it
	// after its own commits, at most some hundred times a second. It returns
	// errors.ErrUnsupported when listeners find out by themselves.
	Notify(ctx context.Context, queues []int64) error
}

// Watcher is implemented by backends without a Listener that can cheaply tell whether something
// is new. Parley asks while receivers wait.
type Watcher interface {
	// Newest returns a number for each queue with entries in its ready order. The number grows when
	// an entry joins; it may be the time of the newest message. It may grow for other reasons as
	// well, and fall when something leaves.
	Newest(ctx context.Context, queues []int64) (map[int64]int64, error)
}

// Logging is implemented by backends that tell operators what no caller sees.
type Logging interface {
	// LogTo says where to, before the backend's first use.
	LogTo(*slog.Logger)
}
