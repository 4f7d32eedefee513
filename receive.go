package parley

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/consumer"
	"github.com/parleymq/parley/internal/wait"
)

// Hold says how a delivery keeps others out of its group.
type Hold int

// The ways to hold a group.
const (
	// HoldDefault is HoldTransaction if the store can hold so, the pool has connections
	// for it, and the server lets transactions live for a lease. Otherwise it is
	// HoldLease.
	HoldDefault Hold = iota
	// HoldTransaction keeps the claim's transaction open until the delivery is
	// settled: for handlers of up to about a second.
	HoldTransaction
	// HoldLease keeps no transaction and no connection while the handler runs: heartbeats extend a
	// lease on the group. It is for long work, and for stores with a single writer.
	HoldLease
)

// Release says when the messages of a delivery are gone.
type Release int

// The moments.
const (
	// AfterCommit removes messages with the acknowledgement: exactly once
	// together with what the handler writes in Delivery.Tx.
	AfterCommit Release = iota
	// BeforeWork removes them before the handler sees them, and holds no group:
	// at most once. A crash loses what was delivered.
	BeforeWork
)

// ReceiveOptions are the options of Receive and GetGroup. Nil means all the
// defaults: the next group, no waiting, at most 100 messages and 4 MiB.
type ReceiveOptions struct {
	// Wait is how long to wait when there is nothing to receive. Zero means not at all; below
	// zero means until the context ends.
	Wait time.Duration

	// Group narrows it to one group, Conversation to one conversation, by this
	// side's handle.
	Group        ID
	Conversation ID

	// Choose gets the free groups with messages, in the order in which they would be received, and
	// returns one of them. If it returns false, the first group is received. If another receiver
	// takes the chosen group first, Choose is called again without that group.
	Choose func(ctx context.Context, groups iter.Seq[GroupStatus]) (ID, bool)

	// MaxMessages and MaxBytes limit what is delivered at once. The first
	// message is delivered whatever its size.
	MaxMessages int
	MaxBytes    int

	// Hold, Lease and Release are only for Broker.Receive. A transaction that receives holds the
	// group itself and takes the messages at once. Lease is Options.Lease by default.
	Hold    Hold
	Lease   time.Duration
	Release Release
}

func (b *Broker) receiveOptions(o *ReceiveOptions) (ReceiveOptions, error) {
	var v ReceiveOptions
	if o != nil {
		v = *o
	}
	narrow := 0
	for _, set := range [...]bool{!v.Group.IsZero(), !v.Conversation.IsZero(), v.Choose != nil} {
		if set {
			narrow++
		}
	}
	why := ""
	switch {
	case narrow > 1:
		why = "Group, Conversation and Choose: want one of them"
	case v.MaxMessages < 0 || v.MaxBytes < 0:
		why = "MaxMessages and MaxBytes are not below zero"
	case v.Hold < HoldDefault || v.Hold > HoldLease || v.Release < AfterCommit || v.Release > BeforeWork:
		why = "Hold or Release is out of range"
	case v.Hold == HoldTransaction && !b.caps.HoldsInTransaction:
		why = "this store holds by lease only"
	case v.Lease < 0 || v.Lease > 0 && v.Lease < 50*time.Millisecond:
		why = "Lease: want at least 50 ms"
	}
	if why != "" {
		return v, &Error{Op: "receive", Err: ErrInvalidOption, Hint: why}
	}
	v.MaxMessages = cmp.Or(v.MaxMessages, 100)
	v.MaxBytes = cmp.Or(v.MaxBytes, 4<<20)
	v.Lease = cmp.Or(v.Lease, b.opt.Lease)
	if v.Hold == HoldDefault && !b.caps.HoldsInTransaction {
		v.Hold = HoldLease
	}
	return v, nil
}

// admit decides how a delivery is held. It reports whether the delivery has been
// counted among those that hold a connection.
func (b *Broker) admit(ctx context.Context, opt *ReceiveOptions) (counted bool, err error) {
	if opt.Release == BeforeWork || opt.Hold == HoldLease {
		return false, nil
	}
	limit, setting, err := b.transactionLimit(ctx)
	switch {
	case err != nil:
		return false, err
	case opt.Hold == HoldDefault && limit > 0 && limit < opt.Lease:
		opt.Hold = HoldLease // which heartbeats keep
		return false, nil
	case tooShort(limit):
		return false, limitError(limit, setting)
	case opt.Hold == HoldDefault:
		if counted = b.admitted.Enter(0); counted {
			opt.Hold = HoldTransaction
		} else {
			opt.Hold = HoldLease
		}
		return counted, nil
	case b.admitted.Enter(1):
		return true, nil
	}
	return false, fmt.Errorf("handlers and deliveries hold all connections that they may: %w", ErrPool)
}

// shortestLimit is the least that a server has to allow for holds in transactions.
const shortestLimit = 2 * consumer.SingleTime

// tooShort reports whether a limit is too short to hold in transactions.
func tooShort(limit time.Duration) bool { return limit > 0 && limit < shortestLimit }

func limitError(limit time.Duration, setting string) error {
	return fmt.Errorf("%s is %v, and a hold in a transaction wants at least %v: %w", setting, limit, shortestLimit, ErrTransactionLimit)
}

// transactionLimit is how long transactions are safe from the server, zero: for ever,
// and the setting that says so.
func (b *Broker) transactionLimit(ctx context.Context) (time.Duration, string, error) {
	if l := b.caps.TransactionLimiter; l != nil {
		return l.TransactionLimit(ctx)
	}
	return 0, "", nil
}

// Receive claims the next free group of a queue that has messages, and delivers messages of it. The
// caller holds the group until the delivery is settled: Ack acknowledges, every other way releases.
// Receive returns ErrNoMessage if there is nothing within the wait.
func (b *Broker) Receive(ctx context.Context, queue string, o *ReceiveOptions) (*Delivery, error) {
	d, err := b.receive(ctx, queue, o)
	return d, fail("receive", objQueue(queue), err)
}

func (b *Broker) receive(ctx context.Context, queue string, o *ReceiveOptions) (*Delivery, error) {
	opt, err := b.receiveOptions(o)
	if err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	var d *Delivery
	err = b.wait(ctx, queue, opt, func(r backend.ClaimRequest, v *catalogView) (c backend.Claim, err error) {
		d, c, err = b.claim(ctx, r, v, opt)
		return c, err
	})
	if err != nil {
		if ctx.Err() == nil && b.check() != nil {
			err = ErrClosed // whatever a try made of it that Close met on its way
		}
		return nil, err
	}
	return d, nil
}

// claim makes one try in a separate transaction.
func (b *Broker) claim(ctx context.Context, r backend.ClaimRequest, v *catalogView, opt ReceiveOptions) (*Delivery, backend.Claim, error) {
	if err := b.beginClaim(); err != nil {
		return nil, backend.Claim{}, err
	}
	defer b.endClaim()
	counted, err := b.admit(ctx, &opt)
	if err != nil {
		return nil, backend.Claim{}, err
	}
	defer func() {
		if counted { // not by a delivery
			b.admitted.Leave()
		}
	}()
	tx, err := b.begin(ctx)
	if err != nil {
		return nil, backend.Claim{}, err
	}
	keep := false
	defer func() {
		if !keep {
			tx.rollback(ctx)
		}
	}()
	r.Alone = true
	switch {
	case opt.Release == BeforeWork:
		q := v.queueByID[r.Queue]
		r.Consume, r.Retain, r.Keep = true, q.Retention, q.KeepProcessed
	case opt.Hold == HoldLease:
		r.Lease = opt.Lease
	}
	start := time.Now()
	if err := tx.receives(ctx, r); err != nil {
		return nil, backend.Claim{}, err
	}
	c, err := tx.be.Claim(ctx, r)
	if err != nil {
		return nil, c, err
	}
	consumer.LogDiscarded(b.log, c, r.Queue)
	if len(c.Holds) == 0 {
		if c.Discarded > 0 {
			return nil, c, tx.commit(ctx)
		}
		return nil, c, nil
	}
	d := newDelivery(b, c.Holds[0], v, opt)
	if opt.Release == AfterCommit && opt.Hold == HoldTransaction {
		tx.hold(d.Group)
		d.counted, counted = counted, false
		d.work(tx)
		keep = true
	} else if err := tx.commit(ctx); err != nil {
		return nil, c, err
	}
	if err := d.start(start); err != nil { // closed meanwhile
		d.abandon()
		return nil, c, err
	}
	keep = true
	return d, c, nil
}

// receives refuses a claim narrowed to a handle that cannot receive from the
// queue. A group that is not there is only one without messages.
func (tx *Tx) receives(ctx context.Context, r backend.ClaimRequest) error {
	if r.Handle.IsZero() {
		return nil
	}
	ep, err := tx.be.Endpoint(ctx, r.Handle)
	switch {
	case err != nil:
	case over(ep):
		err = ErrEnded
	case ep.Queue != r.Queue:
		err = ErrGroupElsewhere
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", objConv(r.Handle), err)
}

// Receive takes messages of one group out of a queue in this transaction, as the RECEIVE statement
// does. A commit removes them, a rollback puts them back, and until then the group is held. It may
// be called several times. ErrNoMessage if there is nothing within the wait.
func (tx *Tx) Receive(ctx context.Context, queue string, o *ReceiveOptions) ([]*Message, error) {
	h, err := tx.receive(ctx, queue, o, false)
	if err != nil {
		return nil, fail("receive", objQueue(queue), err)
	}
	return wrapMessages(h.Messages, queue, tx), nil
}

func (tx *Tx) txFor(context.Context, *Message) (*Tx, error) { return tx, nil }

// within implements receiver.
func (tx *Tx) within(ctx context.Context) context.Context { return tx.Context(ctx) }

// GetGroup takes the next group of a queue that has messages until the
// transaction ends, without receiving. ErrNoMessage if there is none within the
// wait.
func (tx *Tx) GetGroup(ctx context.Context, queue string, o *ReceiveOptions) (ID, error) {
	h, err := tx.receive(ctx, queue, o, true)
	if err != nil {
		return ID{}, fail("get group", objQueue(queue), err)
	}
	return h.Group, nil
}

func (tx *Tx) receive(ctx context.Context, queue string, o *ReceiveOptions, lockOnly bool) (*backend.Hold, error) {
	opt, err := tx.b.receiveOptions(o)
	if err != nil {
		return nil, err
	}
	if err := tx.ready(); err != nil {
		return nil, err
	}
	if tx.b.caps.SingleWriter {
		opt.Wait = 0 // no other transaction can write while this one is open
	}
	var hold *backend.Hold
	err = tx.b.waitIn(ctx, tx, queue, opt, func(r backend.ClaimRequest, v *catalogView) (backend.Claim, error) {
		q := v.queueByID[r.Queue]
		r.LockOnly, r.Consume = lockOnly, !lockOnly
		r.Retain, r.Keep = q.Retention, q.KeepProcessed
		r.Own = tx.held
		if err := tx.receives(ctx, r); err != nil {
			return backend.Claim{}, err
		}
		c, err := tx.be.Claim(ctx, r)
		if err == nil {
			consumer.LogDiscarded(tx.b.log, c, r.Queue)
			if len(c.Holds) > 0 {
				hold = c.Holds[0]
			}
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	tx.hold(hold.Group)
	return hold, nil
}

// wait repeats a claim until it finds something or the wait is over.
func (b *Broker) wait(ctx context.Context, queue string, opt ReceiveOptions, try func(backend.ClaimRequest, *catalogView) (backend.Claim, error)) error {
	return b.waitIn(ctx, nil, queue, opt, try)
}

func (b *Broker) waitIn(ctx context.Context, tx *Tx, queue string, opt ReceiveOptions, try func(backend.ClaimRequest, *catalogView) (backend.Claim, error)) error {
	var deadline <-chan time.Time
	if opt.Wait > 0 {
		t := time.NewTimer(opt.Wait)
		defer t.Stop()
		deadline = t.C
	}
	var passed map[ID]bool // groups that were chosen and turned out to be taken
	contended := time.Duration(0)
	for first := true; ; first = false {
		ticket := b.hub.Ticket()
		claim, queueID, err := b.tryClaim(ctx, tx, queue, opt, &passed, try)
		if err != nil || len(claim.Holds) > 0 {
			return err
		}
		if tx == nil && (first || b.opt.NoMaintenance) { // what is due now must not wait for the background work
			moved, err := b.jobs.due(ctx)
			if err != nil {
				return err
			}
			if moved {
				claim, queueID, err = b.tryClaim(ctx, tx, queue, opt, &passed, try)
				if err != nil || len(claim.Holds) > 0 {
					return err
				}
			}
		}
		if opt.Wait == 0 {
			return ErrNoMessage
		}
		pause := wait.Jitter(b.opt.Poll)
		if claim.Contended {
			contended = min(max(2*contended, 2*time.Millisecond), 250*time.Millisecond)
			pause = min(pause, wait.Jitter(contended))
		} else {
			contended = 0
		}
		switch ended := b.hub.Wait(ctx, ticket, []int64{queueID}, pause, deadline); {
		case ended:
			return ErrNoMessage
		case ctx.Err() != nil:
			return ctx.Err()
		case b.check() != nil:
			return ErrClosed
		}
	}
}

// tryClaim makes one round: the chooser's choice or the order's, with a fresh
// catalog if the cached one is out of date.
func (b *Broker) tryClaim(ctx context.Context, tx *Tx, queue string, opt ReceiveOptions, passed *map[ID]bool, try func(backend.ClaimRequest, *catalogView) (backend.Claim, error)) (claim backend.Claim, queueID int64, err error) {
	withCatalog := b.withCatalog
	if tx != nil {
		withCatalog = tx.withCatalog
	}
	err = withCatalog(ctx, func(v *catalogView) error {
		q, ok := v.queues[queue]
		if !ok {
			return ErrUnknownQueue
		}
		queueID = q.ID
		r := backend.ClaimRequest{
			Version: v.version, Queue: q.ID, Group: opt.Group, Handle: opt.Conversation,
			MaxGroups: 1, MaxMessages: opt.MaxMessages, MaxBytes: opt.MaxBytes, Owner: b.opt.Owner,
		}
		if opt.Choose == nil {
			claim, err = consumer.Walk(ctx, r, func(r backend.ClaimRequest) (backend.Claim, error) { return try(r, v) })
			return err
		}
		reads := ctx
		if tx != nil {
			reads = backend.ReadIn(ctx, tx.be)
		}
		for {
			group, ok, err := b.choose(ctx, reads, q, opt, *passed)
			if err != nil {
				return err
			}
			r.Group = ID{}
			if ok {
				r.Group = group
			}
			claim, err = consumer.Walk(ctx, r, func(r backend.ClaimRequest) (backend.Claim, error) { return try(r, v) })
			if err != nil || !ok || len(claim.Holds) > 0 {
				return err
			}
			if *passed == nil {
				*passed = make(map[ID]bool)
			}
			if (*passed)[group] { // the chooser insists
				*passed = nil
				claim.Contended = true
				return nil
			}
			(*passed)[group] = true
		}
	})
	return claim, queueID, err
}

// choose asks the caller's function, showing it pages of groups as it goes on. It reads them
// with a separate context.
func (b *Broker) choose(ctx, reads context.Context, queue Queue, opt ReceiveOptions, passed map[ID]bool) (ID, bool, error) {
	var failed error
	all := func(yield func(GroupStatus) bool) {
		const page = 100
		for after := (Place{}); ; {
			groups, err := b.be.Groups(reads, backend.GroupQuery{Queue: queue.ID, After: after, Limit: page, State: "ready"})
			if err != nil {
				failed = err
				return
			}
			if len(groups) == 0 {
				return
			}
			after = groups[len(groups)-1].Place
			for _, g := range groups {
				if !passed[g.Group] && !yield(groupStatus(g, queue.Name)) {
					return
				}
			}
		}
	}
	group, ok := opt.Choose(ctx, all)
	if failed != nil {
		return ID{}, false, failed
	}
	if ok && group.IsZero() {
		return ID{}, false, fmt.Errorf("the chooser returned no group: %w", ErrInvalidOption)
	}
	return group, ok, nil
}
