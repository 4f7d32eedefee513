package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
)

// lockModes are the modes by their names in histories.
var lockModes = map[string]applock.Mode{"IS": applock.IntentShared, "S": applock.Shared, "U": applock.Update,
	"IX": applock.IntentExclusive, "X": applock.Exclusive}

// lockWait is how long a lock is waited for.
const lockWait = 100 * time.Millisecond

// lock takes one of a few locks for a moment, by a session or by a transaction, and
// writes under its fence.
func (s *sender) lock(ctx context.Context) error {
	e := event{Stream: fmt.Sprint("lock/", random.IntN(4)), Attempt: s.serialName()}
	for e.Name = range lockModes { // the order of a map is random enough
		break
	}
	hold := s.lockBySession
	if random.IntN(2) == 0 {
		hold = s.lockByTransaction
	}
	return unless(hold(ctx, e), parley.ErrLockTimeout, parley.ErrLockDeadlock, parley.ErrFenced, parley.ErrNotLocked)
}

func (s *sender) lockByTransaction(ctx context.Context, e event) error {
	err := s.b.InTx(ctx, func(tx *parley.Tx) error {
		g, err := applock.In(tx).Lock(ctx, e.Stream, lockModes[e.Name], lockWait)
		if err != nil {
			return err
		}
		s.note(locked, e)
		err = writeFenced(ctx, tx, lockEffect{e.Stream, g.Fence, e.Attempt})
		s.note(unlocking, e)
		return err
	})
	if err == nil {
		s.note(unlocked, e)
	}
	return err
}

func (s *sender) lockBySession(ctx context.Context, e event) (err error) {
	if s.session == nil || s.session.Context().Err() != nil {
		if s.session, err = applock.Open(ctx, s.b, nil); err != nil {
			return err
		}
	}
	g, err := s.session.Lock(ctx, e.Stream, lockModes[e.Name], lockWait)
	if err != nil {
		return err
	}
	s.note(locked, e)
	err = s.b.InTx(ctx, func(tx *parley.Tx) error {
		return writeFenced(ctx, tx, lockEffect{e.Stream, g.Fence, e.Attempt})
	})
	time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
	s.note(unlocking, e)
	released := s.session.Unlock(ctx, e.Stream)
	if released == nil {
		s.note(unlocked, e)
	} else {
		s.session.Close() // whatever it has
		s.session = nil
	}
	return errors.Join(err, released)
}

func (p *program) note(k kind, e event) {
	e.Kind = k
	p.rec.write(e)
}

// writeFenced writes what a lock protects.
func writeFenced(ctx context.Context, tx *parley.Tx, e lockEffect) error {
	if err := applock.In(tx).Fence(ctx, e.Lock, e.Fence); err != nil {
		return err
	}
	_, err := tx.SQL().ExecContext(ctx, fmt.Sprintf(
		"INSERT INTO faults_lock (name, fence, attempt) VALUES ('%s', %d, '%s')", e.Lock, e.Fence, e.Attempt))
	return err
}
