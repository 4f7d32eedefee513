package backend

import (
	"context"
	"iter"
)

type insideKey struct{}

// inside is a mark of a context; outer are the marks that the context had before.
type inside struct {
	current func(context.Context) Tx
	outer   *inside
}

// InsideTx marks a context as belonging to work inside an open transaction. A
// backend with a single writer can then refuse a second write transaction, for
// which the first would wait (ErrWouldDeadlock).
func InsideTx(ctx context.Context, tx Tx) context.Context {
	return InsideWork(ctx, func(context.Context) Tx { return tx })
}

// InsideWork is InsideTx for work that opens its transaction later, or several in turn. current
// returns the open transaction, or nil. Backends call it before they wait, from any goroutine and
// with the context of the verb that would wait. It may end a transaction that the work does not
// need at that moment.
func InsideWork(ctx context.Context, current func(waiting context.Context) Tx) context.Context {
	outer, _ := ctx.Value(insideKey{}).(*inside)
	return context.WithValue(ctx, insideKey{}, &inside{current, outer})
}

// IsInside reports whether ctx is marked. Unlike TokensFrom it asks nothing and ends
// nothing.
func IsInside(ctx context.Context) bool {
	_, ok := ctx.Value(insideKey{}).(*inside)
	return ok
}

// TokensFrom returns the tokens of the transactions that ctx is inside of, the innermost
// first, however they are wrapped.
func TokensFrom(ctx context.Context) iter.Seq[any] {
	return func(yield func(any) bool) {
		m, _ := ctx.Value(insideKey{}).(*inside)
		for ; m != nil; m = m.outer {
			if tx := m.current(ctx); tx != nil && !yield(tx.Token()) {
				return
			}
		}
	}
}

type aloneKey struct{}

// Alone marks the context of a Begin whose transaction is for one verb, which Commit follows at once if it
// succeeds. Where the verb is one statement the backend may carry it out without a transaction around it, and
// has committed when the verb returns.
func Alone(ctx context.Context) context.Context { return context.WithValue(ctx, aloneKey{}, true) }

// IsAlone reports whether ctx is marked.
func IsAlone(ctx context.Context) bool { return ctx.Value(aloneKey{}) != nil }

type noWaitKey struct{}

// NoWait marks the context of a Begin whose transaction must not wait for a lock of another transaction. It is for one
// call of Send, or of Post, with posts that all have a key or have none, and have no delay and no unique value. The call
// returns ErrStreamBusy if it would have to wait, or for any other reason for which single verbs may succeed. After an
// error the transaction is rolled back.
func NoWait(ctx context.Context) context.Context { return context.WithValue(ctx, noWaitKey{}, true) }

// IsNoWait reports whether ctx is marked.
func IsNoWait(ctx context.Context) bool { return ctx.Value(noWaitKey{}) != nil }

type readKey struct{}

// ReadIn marks a context for reads of a verb that is at work in a transaction. A store that
// would need another connection for them makes them in the transaction, because its pool may
// have no free connection.
func ReadIn(ctx context.Context, tx Tx) context.Context {
	return context.WithValue(InsideTx(ctx, tx), readKey{}, tx.Token())
}

// ReadsIn returns the token of the transaction in which reads with ctx may be made, nil if
// there is none.
func ReadsIn(ctx context.Context) any { return ctx.Value(readKey{}) }

type readOnlyKey struct{}

// ReadOnly marks the context of a Begin whose transaction only reads, so that the store may begin it on a replica.
func ReadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, readOnlyKey{}, true)
}

// IsReadOnly reports whether the context is one of ReadOnly.
func IsReadOnly(ctx context.Context) bool { return ctx.Value(readOnlyKey{}) != nil }
