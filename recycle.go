package parley

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/consumer"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// recycling returns the contracts that have to get EndOfStream since services
// declare Senders on them, or why they cannot.
func recycling(all *catalogView, services []Service) (change []Contract, err error) {
	for _, s := range services {
		if len(s.Recycles) == 0 {
			continue
		}
		wrong := func(why string) error { return contradiction("service", s.Name, why) }
		if len(s.Contracts) > 0 {
			return nil, wrong("it recycles its dialogs, and so is no target of others")
		}
		for i, r := range s.Recycles {
			k, ok := all.contracts[r.Contract]
			switch {
			case !ok:
				return nil, wrong(fmt.Sprintf("contract %q is not defined", r.Contract))
			case k.Name == DefaultType:
				return nil, wrong("the contract DEFAULT cannot change; define one to recycle dialogs on")
			case slices.ContainsFunc(s.Recycles[:i], func(o Recycle) bool { return o.Contract == r.Contract }):
				return nil, wrong(fmt.Sprintf("contract %q stands in Recycles twice", r.Contract))
			}
			for _, e := range k.Messages {
				if e.SentBy != ByInitiator {
					return nil, wrong(fmt.Sprintf("on contract %q the target may send %q, which no program would receive", k.Name, e.Type))
				}
			}
			if !ends(k) && !slices.ContainsFunc(change, func(o Contract) bool { return o.Name == k.Name }) {
				k.Messages = append(slices.Clone(k.Messages), ContractEntry{Type: EndOfStream, SentBy: ByInitiator})
				change = append(change, k)
			}
		}
	}
	// Parley receives from the queue of such a service.
	for _, s := range all.services {
		for _, o := range all.services {
			if len(s.Recycles) > 0 && o.Queue == s.Queue && o.Name != s.Name {
				return nil, contradiction("service", s.Name, fmt.Sprintf("it recycles its dialogs and needs a queue of its own, but service %q is on queue %q too", o.Name, o.Queue))
			}
		}
	}
	return change, nil
}

// ends reports whether a contract has EndOfStream.
func ends(k Contract) bool {
	return slices.ContainsFunc(k.Messages, func(e ContractEntry) bool { return e.Type == EndOfStream })
}

// recycler serves the queues of services that recycle their dialogs: it
// retires dialogs that are too old and ends those that their target has ended.
// Every process with an open Broker does so, with the dialogs of all of them.
type recycler struct {
	b    *Broker
	poke chan struct{}
}

// recycleLook is how often a process looks for services that others have
// declared.
const recycleLook = 10 * time.Second

func (r *recycler) start() {
	if !r.b.opt.NoMaintenance {
		r.b.Go(r.run)
	}
}

// kick has the catalog looked at.
func (r *recycler) kick() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// run serves each queue by a separate goroutine, since one of them may wait
// for a sender.
func (r *recycler) run(ctx context.Context) {
	served := make(map[string]bool)
	pause := time.Second // the program will define or read the catalog soon
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.poke:
		case <-time.After(wait.Jitter(pause)):
			// What is wrong shows wherever the store is needed.
			_, _ = r.b.reload(ctx)
		}
		pause = recycleLook
		v := r.b.catalog.Load()
		if v == nil {
			continue
		}
		for _, s := range v.services {
			if len(s.Recycles) > 0 && !served[s.Queue] {
				served[s.Queue] = true
				r.b.Go(func(ctx context.Context) { r.serve(ctx, s.Queue) })
			}
		}
	}
}

// serve takes one message of a queue after another.
func (r *recycler) serve(ctx context.Context, queue string) {
	for ctx.Err() == nil {
		err := r.next(ctx, queue)
		switch {
		case err == nil || ctx.Err() != nil:
			continue
		case r.b.jobs.denied("recycling of "+queue, err):
			_ = wait.Sleep(ctx, wait.Jitter(deniedEvery))
			continue
		case !consumer.Gone(err) && !IsRetryable(err) && !errors.Is(err, ErrQueueDisabled):
			r.b.log.Warn("parley: serving the dialogs of a sender failed", "event", "recycle.failed", "queue", queue, "error", err)
		}
		pause := time.Second
		if IsRetryable(err) {
			pause = 10 * time.Millisecond
		}
		_ = wait.Sleep(ctx, wait.Jitter(pause))
	}
}

// next waits for a message of the queue and handles it. Claim, work and acknowledgement are one
// transaction on every store. With a single writer, a lease would block senders of the group.
func (r *recycler) next(ctx context.Context, queue string) error {
	opt, err := r.b.receiveOptions(&ReceiveOptions{Wait: -1, MaxMessages: 1})
	if err != nil {
		return err
	}
	return r.b.wait(ctx, queue, opt, func(q backend.ClaimRequest, v *catalogView) (backend.Claim, error) {
		q.Alone = true
		t, c, err := r.claim(ctx, q)
		if t == nil {
			return c, err
		}
		t.v = v
		defer t.tx.rollback(ctx)
		if t.m.Kind != backend.KindTimer {
			return c, t.work(ctx)
		}
		t.tx.rollback(ctx)
		return c, r.timer(ctx, v, q, t.m)
	})
}

// claimedMessage is a message that the recycler has claimed, with the hold of its group.
type claimedMessage struct {
	b    *Broker
	v    *catalogView
	tx   *Tx
	hold *backend.Hold
	m    *backend.Message
	logs []func()
}

func (r *recycler) claim(ctx context.Context, q backend.ClaimRequest) (*claimedMessage, backend.Claim, error) {
	tx, err := r.b.begin(ctx)
	if err != nil {
		return nil, backend.Claim{}, err
	}
	c, err := tx.be.Claim(ctx, q)
	if err == nil && len(c.Holds) > 0 {
		tx.hold(c.Holds[0].Group)
		return &claimedMessage{b: r.b, tx: tx, hold: c.Holds[0], m: c.Holds[0].Messages[0]}, c, nil
	}
	if err == nil && c.Discarded > 0 {
		err = tx.commit(ctx)
	}
	tx.rollback(ctx)
	return nil, c, err
}

// workFor is how long a dialog that is too old waits for its sender, before others get
// their turn.
const workFor = 2 * time.Second

// timer retires a dialog that is too old, and then takes the message that said
// so. It waits for senders, so it does that without the group, for which they
// may wait.
func (r *recycler) timer(ctx context.Context, v *catalogView, q backend.ClaimRequest, m *backend.Message) error {
	late, err := r.retire(ctx, m.Handle)
	busy := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	if err != nil && !busy && !dead(err) {
		return err
	}
	q.Group, q.Handle = ID{}, m.Handle
	t, _, err := r.claim(ctx, q)
	if t == nil {
		return err
	}
	defer t.tx.rollback(ctx)
	t.v = v
	switch {
	case t.m.ID != m.ID: // another process was faster
		return nil
	case busy:
		return t.later(ctx, time.Second)
	case late:
		t.log(t.b.log.Warn, "the target of a dialog that is over has not ended yet", "event", "recycle.late")
	}
	return t.work(ctx)
}

// retire retires a dialog unless that has happened. late says that it has, so
// long ago that the timer reminds of it.
func (r *recycler) retire(ctx context.Context, handle ID) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, workFor)
	defer cancel()
	sides, err := r.b.be.Conversations(ctx, ConversationQuery{Handle: handle, Limit: 2})
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(sides, func(s backend.ConversationStatus) bool { return s.Handle == handle })
	if i < 0 || sides[i].FarCleaned || sendable(&sides[i].Endpoint) != nil {
		return false, nil // the receiver of the group sees to it
	}
	late = sides[i].Sealed
	if late && sides[i].Timer > 0 {
		return false, nil // this message is of before
	}
	return late, r.b.InTx(ctx, func(tx *Tx) error {
		if late {
			return tx.be.SetTimer(ctx, handle, remindEvery)
		}
		return tx.retire(ctx, handle)
	})
}

// work handles the message and commits.
func (t *claimedMessage) work(ctx context.Context) error {
	settled := backend.Outcome{Hold: t.hold, Done: t.hold.Messages, Retain: t.v.queueByID[t.hold.Queue].Retention}
	freed := false // something may have waited for this
	err := func() error {
		if t.m.Kind == backend.KindUser {
			settled.Done, settled.Park = nil, fmt.Sprintf("a message of type %q came to the queue of a sender", t.m.Type)
			return nil
		}
		// A sender that was refused may have the guard and wait for the group.
		if err := t.tx.be.TryStream(ctx, t.m.Handle); err != nil {
			return err
		}
		c := t.tx.Conversation(t.m.Handle)
		ep, err := c.endpoint(ctx)
		if err != nil {
			return err
		}
		switch {
		case t.m.Kind == backend.KindEnd:
			err = t.bury(ctx, "the target had ended")
		case t.m.Kind == backend.KindError:
			err = t.failed(ctx, ep)
		case ep.FarCleaned: // no other side is there to end, or to tell
			err = t.bury(ctx, "the target was cleaned up")
		default:
			return nil // a timer
		}
		freed = true
		if err != nil {
			return err
		}
		return c.End(ctx)
	}()
	if errors.Is(err, backend.ErrStreamBusy) {
		return t.later(ctx, 50*time.Millisecond)
	}
	if err == nil {
		_, err = t.tx.be.Settle(ctx, []backend.Outcome{settled})
	}
	if err == nil {
		err = t.tx.commit(ctx)
	}
	if err != nil {
		return err
	}
	for _, f := range t.logs {
		f()
	}
	if freed {
		t.handOver(ctx)
	}
	return nil
}

// later gives the group back for a time, in which others get their turn.
func (t *claimedMessage) later(ctx context.Context, d time.Duration) error {
	if _, err := t.tx.be.Settle(ctx, []backend.Outcome{{Hold: t.hold, Defer: d}}); err != nil {
		return err
	}
	t.tx.soon(d)
	return t.tx.commit(ctx)
}

// log logs once the work has been committed.
func (t *claimedMessage) log(f func(msg string, args ...any), msg string, args ...any) {
	m := t.m
	args = append(args, "conversation", m.Conversation.String(), "from", m.Service, "to", m.FarService, "contract", m.Contract)
	t.logs = append(t.logs, func() { f("parley: "+msg, args...) })
}

// failed sees to what a dialog in error has not delivered: it is sent again if
// the error need not happen on another dialog.
func (t *claimedMessage) failed(ctx context.Context, ep *backend.Endpoint) error {
	why, err := backend.ParseDialogError(t.m.Body)
	if err != nil {
		return err
	}
	args := []any{"event", "recycle.error", "code", why.Code, "text", why.Text}
	if recoverable(why.Code) {
		n, err := t.resend(ctx, ep)
		if err != nil {
			return err
		}
		args = append(args, "resent", n)
	} else if err := t.bury(ctx, why.Error()); err != nil {
		return err
	}
	t.log(t.b.log.Error, "a dialog of a sender failed", args...)
	return nil
}

// recoverable tells errors that say nothing against the messages from breaches
// of the contract.
func recoverable(code int) bool {
	switch code {
	case CodeLifetime, CodeRemoteClosed, CodeRestored, CodeKeyChanged:
		return true
	}
	return false
}

// resend moves what a dialog has not delivered to another one, which is begun
// for it and retired at once. Its handle comes right after that of the first, so
// that it has its place in the order of the key's dialogs.
func (t *claimedMessage) resend(ctx context.Context, ep *backend.Endpoint) (n int, err error) {
	tx := t.tx
	handle := nextID(ep.Handle)
	err = tx.whole(ctx, "parley_resend", func() error {
		next, err := tx.beginAs(ctx, handle, ep.Service, ep.FarService, &DialogOptions{Contract: ep.Contract, RelatedGroup: ep.Group})
		if err != nil {
			return err
		}
		if n, err = tx.be.Resend(ctx, ep.Handle, next.handle, "sent again after an error"); err != nil {
			return err
		}
		if n == 0 {
			return errNothing
		}
		return tx.retire(ctx, next.handle)
	})
	if errors.Is(err, errNothing) {
		err = nil
	}
	return n, err
}

var errNothing = errors.New("there is nothing to send again")

// bury records what a dialog has not delivered and never will.
func (t *claimedMessage) bury(ctx context.Context, reason string) error {
	n, err := t.tx.be.Discard(ctx, t.m.Handle, backend.CleanText(reason, guard.MaxReason))
	if n > 0 {
		t.log(t.b.log.Error, "messages of a sender were not delivered and are dead letters now", "event", "recycle.lost", "messages", n, "reason", reason)
	}
	return err
}

// handOver delivers what waited for a dialog of the same group to be finished.
func (t *claimedMessage) handOver(ctx context.Context) {
	b, m := t.b, t.m
	if rc, ok := recycles(t.v.services[m.Service], m.Contract); !ok || !rc.Ordered {
		b.jobs.deliverSoon()
		return
	}
	err := func() error {
		tx, err := b.begin(ctx)
		if err != nil {
			return err
		}
		defer tx.rollback(ctx)
		list, err := tx.be.Members(ctx, m.Group)
		if err != nil {
			return err
		}
		next, err := tx.unfinished(ctx, list)
		if err != nil || next == nil || next.Handle == m.Handle {
			return err
		}
		tx.rollback(ctx)
		svc, ok := t.v.services[next.FarService]
		if !ok || t.v.queues[svc.Queue].Disabled {
			return nil
		}
		_, err = b.jobs.deliver(ctx, t.v, backend.WithheldStream{From: *next}, svc)
		return err
	}()
	if err != nil { // the job will
		b.jobs.deliverSoon()
	}
}

// deliverSoon has withheld messages looked at now.
func (c *maintenance) deliverSoon() {
	c.mu.Lock()
	c.held, c.heldSoon = time.Time{}, time.Time{}
	c.mu.Unlock()
	c.poked()
}

// waits reports whether withheld messages have to wait for a dialog that was
// begun before theirs, by the same service and with the same key.
func (tx *Tx) waits(ctx context.Context, v *catalogView, ep *backend.Endpoint) (bool, error) {
	rc, ok := recycles(v.services[ep.Service], ep.Contract)
	if !ok || !rc.Ordered {
		return false, nil
	}
	list, err := tx.be.Members(ctx, ep.Group)
	if err != nil {
		return false, err
	}
	first, err := tx.unfinished(ctx, list)
	return first != nil && string(first.Handle[:]) < string(ep.Handle[:]), err
}
