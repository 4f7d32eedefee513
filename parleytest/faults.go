package parleytest

import (
	"context"
	"fmt"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/frail"
)

// faults are what is to go wrong next. The mutex of the store guards them.
type faults struct {
	commit *commitFault
	send   error
	lease  bool
}

type commitFault struct {
	err     error
	happens bool
}

// ownKey marks the context of what the kit does itself.
type ownKey struct{}

// FailCommit makes the next commit fail with err, and undoes its transaction. Nil means ErrSerialization, as of a
// transaction that lost a conflict with another one. It is the next commit of a transaction that acknowledges, posts,
// sends, uses Tx.Once or runs SQL. The transaction is that of a handler, or of the application's own InTx.
//
// If a fault of FailCommit, LoseCommit, FailSend or LoseLease has not occurred by the end of the test, the test
// fails.
func (k *Kit) FailCommit(err error) {
	if err == nil {
		err = fmt.Errorf("parleytest: the commit was to fail: %w", parley.ErrSerialization)
	}
	k.set(func(f *faults) { f.commit = &commitFault{err, false} })
}

// LoseCommit breaks the connection during the next such commit. The program gets ErrConnection and cannot know
// whether the transaction has happened; happens decides that.
func (k *Kit) LoseCommit(happens bool) {
	k.set(func(f *faults) { f.commit = &commitFault{frail.ErrBroken, happens} })
}

// FailSend makes the next post or message on a conversation fail with err.
func (k *Kit) FailSend(err error) { k.set(func(f *faults) { f.send = err }) }

// LoseLease makes the next receiver that holds by lease lose it at once, like a process that was stopped for too long.
// Message.Tx and the acknowledgement then fail with ErrFenced. For that, the next worker of the kit holds by lease.
func (k *Kit) LoseLease() { k.set(func(f *faults) { f.lease = true }) }

// BreakConnections ends all open transactions of Kit.Broker, like the loss of their connections: their work is
// undone, and they return ErrConnection.
func (k *Kit) BreakConnections() { k.store.Cut(frail.ErrBroken) }

func (k *Kit) set(change func(*faults)) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	change(&k.store.fault)
}

// unused says which faults nothing has met.
func (s *store) unused() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.fault.commit; c != nil {
		list = append(list, fmt.Sprintf("the commit that was to fail: %v", c.err))
	}
	if s.fault.send != nil {
		list = append(list, fmt.Sprintf("the send that was to fail: %v", s.fault.send))
	}
	if s.fault.lease {
		list = append(list, "the lease that was to be lost")
	}
	return list
}

// meet takes a fault, which is gone then. What the kit does itself meets none.
func meet[T any](ctx context.Context, s *store, fault *T) (f T) {
	if ctx.Value(ownKey{}) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		f, *fault = *fault, f
	}
	return f
}

func (s *store) losesLease() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault.lease
}

// endLeases gives back what a claim has just taken by lease, so that its receiver has lost it.
func (s *store) endLeases(ctx context.Context, holds []*backend.Hold) error {
	tx, err := s.Backend.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	for _, h := range holds {
		mine := *h // what the store changes in it is not the receiver's
		if err = tx.Reclaim(ctx, []*backend.Hold{&mine}); err == nil {
			_, err = tx.Settle(ctx, []backend.Outcome{{Hold: &mine}})
		}
		if err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}
