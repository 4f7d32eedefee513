package backend

import (
	"context"
	"fmt"
	"time"
)

// A caller inside an open transaction has a connection that others may be waiting
// for. If all of them waited for a second one without a limit, none would get it.
const (
	// briefWait is how long such a caller waits before it is asked what it has open.
	// Asking may end a transaction that only earlier work has needed. The wait covers
	// the statement that begins a transaction: a shorter one would cut it off where
	// the server is far away.
	briefWait = 500 * time.Millisecond

	// longWait is how long it waits if a transaction is open anyway.
	longWait = 5 * time.Second
)

// Patiently acquires a connection of a pool as [Pool] demands. A caller without a connection waits
// without limit, a caller inside an open transaction for a bounded time. The parameter conns is the
// limit of the pool; zero means unknown.
func Patiently[T any](ctx context.Context, conns int, acquire func(context.Context) (T, error)) (T, error) {
	if !IsInside(ctx) {
		return acquire(ctx)
	}
	x, expired, err := within(ctx, briefWait, acquire)
	if !expired {
		return x, err
	}
	open := false
	for range TokensFrom(ctx) {
		open = true
	}
	if !open {
		return acquire(ctx)
	}
	if conns == 1 {
		return x, fmt.Errorf("the pool has a single connection, which the open transaction has: %w", ErrWouldDeadlock)
	}
	x, expired, err = within(ctx, longWait, acquire)
	switch {
	case expired && err == context.DeadlineExceeded: // of the pool's wait: a driver wraps it, or has another one
		err = fmt.Errorf("%w: beside the connection of the open transaction, none of the pool was free within %v: %w",
			ErrNotBegun, longWait, ErrPool)
	case expired: // a pool behind the pool is exhausted, or the server is out of reach
		err = fmt.Errorf("%w: beside the connection of the open transaction, none could be opened within %v (%v): %w, or %w",
			ErrNotBegun, longWait, err, ErrPool, ErrConnection)
	}
	return x, err
}

// within acquires for a bounded time, and reports whether that has expired.
func within[T any](ctx context.Context, d time.Duration, acquire func(context.Context) (T, error)) (x T, expired bool, err error) {
	begun := time.Now()
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	x, err = acquire(bounded)
	// A driver may look at the deadline itself, and be earlier than the context.
	return x, err != nil && ctx.Err() == nil && time.Since(begun) >= d, err
}
