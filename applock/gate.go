package applock

import (
	"context"
	"errors"
	"fmt"
)

// Enter passes the gate between two phases. It returns when all who entered for the
// phase previous have left. Any number may be in the phase current together. It takes
// the lock of current in mode Shared and calls free. Then it waits for the lock of
// previous in mode IntentExclusive, which workers in previous hold in mode Shared.
//
// This makes phases of messages that come in order on one conversation, by coupling.
// free must release what keeps the next message from being received: the delivery. It
// is called only when this phase's own lock is held. So the receiver of the next
// phase's message finds all locks of this phase. Letting go earlier lets phases
// overlap. free may be nil when there is nothing to let go of.
//
// The gate knows only who is inside. A phase that no worker has entered is passed: its
// messages come by another conversation, were lost, or its workers died. So is a phase
// whose work failed. A session that waits occupies a worker. A phases.Plan has none of
// these limits.
func (s *Session) Enter(ctx context.Context, gate string, previous, current int, free func(context.Context) error) (*Pass, error) {
	p := &Pass{s: s}
	fail := func(err error) (*Pass, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		return nil, errors.Join(err, p.Leave(ctx))
	}
	if err := p.take(ctx, gateLock(gate, current), Shared); err != nil {
		return fail(err)
	}
	if free != nil {
		if err := free(ctx); err != nil {
			return fail(err)
		}
	}
	if err := p.take(ctx, gateLock(gate, previous), IntentExclusive); err != nil {
		return fail(err)
	}
	return p, nil
}

func gateLock(gate string, phase int) string { return fmt.Sprintf("%s - %d", gate, phase) }

// Pass is the stay in a phase.
type Pass struct {
	s     *Session
	locks []string
}

func (p *Pass) take(ctx context.Context, name string, mode Mode) error {
	_, err := p.s.Lock(ctx, name, mode, -1)
	if err == nil {
		p.locks = append(p.locks, name)
	}
	return err
}

// Leave ends the stay; the next phase may begin when all have left. It is
// idempotent.
func (p *Pass) Leave(ctx context.Context) (err error) {
	for len(p.locks) > 0 {
		last := len(p.locks) - 1
		err = errors.Join(err, p.s.Unlock(ctx, p.locks[last]))
		p.locks = p.locks[:last]
	}
	return err
}
