// Package testclock is the clock of a store under test. It reaches a store in the context in which that is opened, so
// that no option of a backend has to offer it. A store whose times are the process's takes it; others leave it.
package testclock

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock is the system's clock, ahead by what a test says.
type Clock struct {
	ahead atomic.Int64
	taken atomic.Bool

	// Last is the last instant that a store of the clock has used, for stores that use none twice.
	Last atomic.Int64
}

// Now is the time by the clock.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Forward sets the clock to a time. It does not go back.
func (c *Clock) Forward(to time.Time) {
	c.ahead.Store(max(c.ahead.Load(), int64(time.Until(to))))
}

// Taken reports whether a store goes by the clock.
func (c *Clock) Taken() bool { return c.taken.Load() }

type key struct{}

// With returns a context in which stores are opened with the clock.
func With(ctx context.Context, c *Clock) context.Context { return context.WithValue(ctx, key{}, c) }

// Take returns the clock for a store that is opened in ctx and will go by it, or nil.
func Take(ctx context.Context) *Clock {
	c, _ := ctx.Value(key{}).(*Clock)
	if c != nil {
		c.taken.Store(true)
	}
	return c
}
