package memstore

import (
	"bytes"
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// failure is what is known of a message that could not be handled. Only such
// messages have one.
type failure struct {
	attempts int
	deaths   int
	err      string
	errors   []backend.FailedAttempt
}

type deadLetter struct {
	queue   int64
	message backend.Message
	reason  string
	at      time.Time
}

// Settle implements [backend.Tx].
func (tx *Tx) Settle(ctx context.Context, outcomes []backend.Outcome) (again bool, err error) {
	if err := tx.enter(ctx); err != nil {
		return false, err
	}
	defer tx.leave()
	before := len(tx.log)
	touched := make(map[backend.ID]bool)
	for _, o := range outcomes {
		if err := tx.settle(o, touched); err != nil {
			tx.undo(before) // all of it or nothing
			return false, err
		}
	}
	return tx.finish(touched), nil
}

// settle carries out one outcome.
func (tx *Tx) settle(o backend.Outcome, touched map[backend.ID]bool) error {
	s, hold := tx.store, o.Hold
	if err := tx.own(hold); err != nil {
		return err
	}
	for _, m := range hold.Messages {
		touched[m.Stream] = true
	}
	for _, m := range o.Done {
		touched[m.Stream] = true
		if !s.acknowledge(tx, hold, m, o.Retain, o.Keep) {
			return backend.ErrFenced
		}
	}
	for _, d := range o.Dead {
		touched[d.Message.Stream] = true
		if !s.acknowledge(tx, hold, d.Message, o.Retain, 0) {
			return backend.ErrFenced
		}
		s.bury(tx, hold.Queue, *d.Message, d.Reason)
	}
	keep := time.Duration(0)
	if s.fault == FaultCancelledKept {
		keep = time.Hour
	}
	for _, m := range o.Cancelled {
		touched[m.Stream] = true
		if !s.acknowledge(tx, hold, m, false, keep) {
			return backend.ErrFenced
		}
	}
	if f := o.Failure; f != nil {
		s.fail(tx, *f)
	}

	if g, ok := s.groups.get(tx, hold.Group); ok {
		g.lease = nil
		switch {
		case o.Park != "" && s.fault != FaultParkForgotten:
			g.parked, g.reason, g.since = true, o.Park, s.now()
		case o.Defer > 0:
			g.deferred, g.since, g.reason = s.now().Add(o.Defer), s.now(), ""
			if o.Failure != nil {
				g.reason = o.Failure.Error
			}
		}
		s.groups.put(tx, hold.Group, g)
	}
	tx.release(hold.Group)
	if s.fault == FaultSettleFrees {
		tx.unlock(groupLock(hold.Group))
	}
	return nil
}

// fail notes what is known of a message that stays.
func (s *Store) fail(tx *Tx, f backend.Failure) {
	kept := backend.KeepAttempts(f.Errors, s.now())
	if s.fault == FaultErrorsForgotten {
		kept = kept[max(len(kept)-1, 0):]
	}
	if s.fault == FaultErrorsUndated {
		kept = f.Errors
	}
	s.failures.put(tx, f.Message.ID, failure{f.Attempts, f.Deaths, f.Error, kept})
}

// acknowledge removes a message that was delivered and reports whether it was
// there. If it was not, another receiver has had it, and whatever this transaction
// did for it must not be committed (rules R-A and I6). A message that went
// because this transaction has ended the conversation was there.
func (s *Store) acknowledge(tx *Tx, hold *backend.Hold, m *backend.Message, retain bool, keep time.Duration) bool {
	key := numbered{m.Stream, m.Seq}
	row, ok := s.messages.get(tx, key)
	if ok && row.ID != m.ID { // another message of a stream that was made again
		return false
	}
	if !ok && s.messages.removedBy(tx, key) {
		return true
	}
	if s.fault == FaultRetainedReturns && retain {
		return true
	}
	if !ok || !s.messages.delete(tx, key) {
		return s.fault == FaultUncounted
	}
	s.failures.delete(tx, m.ID)
	if retain && !m.Handle.IsZero() {
		s.serial++
		s.retained.put(tx, numbered{m.Handle, s.serial}, backend.RetainedMessage{Message: *m})
	}
	if p, ok := s.posts.get(tx, m.ID); ok {
		s.gone(tx, p, keep)
	}
	if !m.Handle.IsZero() && s.notices.has(tx, pair{m.Handle, m.Stream}) {
		s.notices.delete(tx, pair{m.Handle, m.Stream})
		s.removeStream(tx, m.Stream)
	}
	if claimed, ok := hold.Private.(private); ok {
		s.served(tx, hold.Group, claimed.promotion)
	}
	return true
}

// bury records a dead letter.
func (s *Store) bury(tx *Tx, queue int64, m backend.Message, reason string) {
	s.serial++
	m.Body = bytes.Clone(m.Body)
	m.Errors = backend.KeepAttempts(m.Errors, s.now())
	if s.fault == FaultErrorsBuried {
		m.Errors = nil
	}
	if s.fault == FaultHeadersBuried {
		m.Headers = ""
	}
	if s.fault == FaultBodiesBuried {
		m.Body = bytes.ToUpper(m.Body)
	}
	s.dead.put(tx, s.serial, deadLetter{queue, m, reason, s.now()})
}

// finish corrects the ready order of streams from which messages were taken. An empty stream leaves
// it, and the others move to the place of their oldest message.
//
// Rule R-B: the guard first, then a new look. A sender that has not committed
// may have seen the marker and relied on it; whether there is one, only its
// guard can tell. It is tried and not waited for: then the marker stays as it
// is, and the caller looks again soon.
func (tx *Tx) finish(touched map[backend.ID]bool) (again bool) {
	s := tx.store
	for _, id := range sorted(touched) {
		if s.fault == FaultFinishUnguarded {
			s.remark(tx, id)
			continue
		}
		if !tx.tryLock(guardLock(id)) {
			again = true
			continue
		}
		s.remark(tx, id)
	}
	return again
}

// RemoveDead implements [backend.Tx].
func (tx *Tx) RemoveDead(ctx context.Context, message backend.ID) (bool, error) {
	if err := tx.enter(ctx); err != nil {
		return false, err
	}
	defer tx.leave()
	for _, key := range tx.store.dead.keys(tx) {
		if d, _ := tx.store.dead.get(tx, key); d.message.ID == message {
			return tx.store.dead.delete(tx, key), nil
		}
	}
	return false, nil
}
