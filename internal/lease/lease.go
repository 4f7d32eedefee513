// Package lease has what batches of a worker, deliveries and running tasks have in common. They extend their leases,
// and take what they hold into a transaction.
package lease

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
)

// Tx is a transaction of what holds.
type Tx interface {
	Store() backend.Tx
	Rollback(ctx context.Context)
}

// Take begins a transaction that has groups which are held by lease, or returns ErrFenced if one of them is lost.
func Take[T Tx](ctx context.Context, begin func(context.Context) (T, error), holds []*backend.Hold) (T, error) {
	tx, err := begin(ctx)
	if err != nil {
		return tx, err
	}
	if err := tx.Store().Reclaim(ctx, holds); err != nil {
		tx.Rollback(ctx)
		return *new(T), err
	}
	return tx, nil
}

// Holder has something in hand by lease: groups, or a task. Its methods are called by heartbeats.
type Holder[H any] interface {
	// Leased returns what lives by heartbeats at present.
	Leased() []H
	// Extended is told that a heartbeat that was sent at that time has extended it.
	Extended(sent time.Time)
	// Expired reports whether it has run out, as far as can be known here.
	Expired(now time.Time) bool
	// Lost is told that it is another's, or that it has run out.
	Lost()
}

// Beat is one heartbeat. All that is held is extended by one call of extend. If something of it is lost, each holder is asked
// for by itself, and those that have lost theirs are told. So are those whose leases have run out while the store does
// not answer, which is the error that Beat returns.
func Beat[H any](holders []Holder[H], extend func([]H) error) error {
	var all []H
	var which []Holder[H]
	for _, h := range holders {
		if held := h.Leased(); len(held) > 0 {
			all, which = append(all, held...), append(which, h)
		}
	}
	if len(all) == 0 {
		return nil
	}
	sent := time.Now()
	err := extend(all)
	if err != nil && !errors.Is(err, backend.ErrFenced) {
		for _, h := range which {
			drop(h)
		}
		return err
	}
	for _, h := range which {
		if err == nil {
			h.Extended(sent)
			continue
		}
		held := h.Leased()
		if len(held) == 0 { // it is over by now
			continue
		}
		switch e := extend(held); {
		case e == nil:
			h.Extended(sent)
		case errors.Is(e, backend.ErrFenced):
			h.Lost()
		default:
			drop(h)
		}
	}
	return nil
}

func drop[H any](h Holder[H]) {
	if h.Expired(time.Now()) {
		h.Lost()
	}
}
