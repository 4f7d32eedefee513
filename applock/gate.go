package applock

import (
	"context"
	"errors"
	"fmt"
)

// Enter passes the gate between two phases. It returns when all that entered for the phase previous
// have left. Any number may be in the phase current at the same time. It takes the lock of current
// in mode Shared and calls free. Then it waits for the lock of previous in mode IntentExclusive,
// which workers in previous hold in mode Shared.
//
// This lock coupling turns messages that come in order on one conversation into phases. The
// function free must release the delivery, which keeps the next message from being received. Enter
// calls it only when it holds this phase's lock. So the receiver of the next phase's message finds
// all locks of this phase. An earlier release lets phases overlap. free may be nil if there is
// nothing to release.
//
// The gate knows only the workers inside. It does not wait for a phase that no worker has entered:
// because its messages come on another conversation, were lost, or its workers died. Nor does it
// wait for a phase whose work failed. A waiting session occupies a worker. A phases.Plan has none
// of these limits.
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
