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

// FailCommit has the next commit fail with err, and nothing of its transaction happen. Nil is ErrSerialization, as of
// a transaction that has lost against another one. It is the next commit of a transaction that acknowledges, posts,
// sends, uses Tx.Once or runs SQL. The transaction is that of a handler, or of the application's own InTx.
//
// A fault of FailCommit, LoseCommit, FailSend or LoseLease that nothing has met by the end of the test is a failure.
func (k *Kit) FailCommit(err error) {
	if err == nil {
		err = fmt.Errorf("parleytest: the commit was to fail: %w", parley.ErrSerialization)
	}
	k.set(func(f *faults) { f.commit = &commitFault{err, false} })
}

// LoseCommit has the connection break during the next such commit. The program sees ErrConnection and cannot know
// whether the transaction has happened: happens says so.
func (k *Kit) LoseCommit(happens bool) {
	k.set(func(f *faults) { f.commit = &commitFault{frail.ErrBroken, happens} })
}

// FailSend has the next post or message on a conversation fail with err.
func (k *Kit) FailSend(err error) { k.set(func(f *faults) { f.send = err }) }

// LoseLease has the next receiver that holds by lease lose it at once, as a process does that was stopped for too long:
// Message.Tx and the acknowledgement fail with ErrFenced. The next worker of the kit holds by lease for that.
func (k *Kit) LoseLease() { k.set(func(f *faults) { f.lease = true }) }

// BreakConnections ends all open transactions of Kit.Broker, as the loss of their connections would: what they have
// done is undone, and they return ErrConnection.
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
