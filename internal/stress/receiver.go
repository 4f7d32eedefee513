package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

// receiver takes what there is and deals with it in one of many ways.
type receiver struct {
	w       *world
	rec     recorder
	rng     *rand.Rand
	who     string
	serial  *atomic.Int64
	queue   string
	effects *effectTable
	// memory keeps effects where there is no table for them.
	memory func(stream string, ticket int, token string)
	slow   time.Duration // how long a transaction may stay open now and then
	works  time.Duration // how long every handler takes; 0 is a few milliseconds
	// calm receivers acknowledge everything: those that drain at the end.
	calm bool
}

// delivery is one of them, with what its messages say.
type delivery struct {
	*parley.Delivery
	p       *process
	hold    hold
	byLease bool
	items   []item
	tickets []int
	again   bool     // the hold is that of an earlier delivery in the same transaction
	replies []string // tokens
}

// item is a message with what its body says; ends have no token.
type item struct {
	*parley.Message
	stream, token string
}

// turn receives once. It reports whether there was anything.
func (r *receiver) turn(p *process) bool {
	ctx := context.Background()
	if !r.calm && r.rng.IntN(12) == 0 {
		return r.verb(ctx, p)
	}
	o := r.options(p)
	asked := r.rec.since()
	got, err := p.Receive(ctx, r.queue, o)
	if errors.Is(err, parley.ErrNoMessage) {
		return false
	}
	if err != nil {
		complain(r.rec, p, r.who, err)
		return false
	}
	d := &delivery{Delivery: got, p: p, byLease: o.Hold == parley.HoldLease || !holds(p)}
	d.hold = hold{who: r.who, group: got.Group.String(), from: r.rec.since()}
	if d.byLease {
		d.hold.until = asked + o.Lease
	}
	err = r.handle(ctx, d)
	if err != nil {
		complain(r.rec, p, r.who, err)
		if d.hold.to == 0 {
			d.hold.to = r.rec.since()
		}
		d.hold.settled = false
		d.hold.undone = !d.byLease
		d.Close()
	}
	r.rec.held(d.hold)
	return true
}

func holds(p *process) bool {
	return p.Backend().Capabilities().HoldsInTransaction
}

func (r *receiver) options(p *process) *parley.ReceiveOptions {
	o := &parley.ReceiveOptions{
		Wait:        300 * time.Millisecond,
		MaxMessages: 1 + r.rng.IntN(4),
		Lease:       time.Duration(150+r.rng.IntN(500)) * time.Millisecond,
	}
	if r.calm {
		o.MaxMessages, o.Lease = 100, 5*time.Second
	}
	if r.rng.IntN(2) == 0 {
		o.Hold = parley.HoldLease
	}
	return o
}

// handle works on a delivery and settles it. An error means that it is still
// open, or over in a way that was not wanted.
func (r *receiver) handle(ctx context.Context, d *delivery) error {
	r.read(d, d.Messages)
	if !r.calm {
		r.labour(d)
	}
	fateful := r.rng.IntN(100)
	switch {
	case r.calm:
	case fateful < 8: // before anything was written
		return r.back(ctx, d)
	case fateful < 10:
		d.hold.to = r.rec.since()
		err := d.Park(ctx, errors.New("stress"))
		return r.settled(d, err, "parks")
	case fateful < 14:
		d.hold.to = r.rec.since()
		err := d.Defer(ctx, time.Duration(20+r.rng.IntN(400))*time.Millisecond)
		return r.settled(d, err, "deferrals")
	}
	if err := r.apply(ctx, d); err != nil {
		r.rec.ended(undone, d.replies)
		return err
	}
	if !r.calm && fateful < 23 { // with all that was written
		r.rec.ended(undone, d.replies)
		return r.back(ctx, d)
	}
	tickets := r.tickets(len(d.items))
	n := 0
	d.hold.to = r.rec.since()
	err := d.Ack(ctx)
	switch {
	case err == nil:
		r.rec.ended(committed, d.replies)
		for i, m := range d.items {
			if m.token == "" {
				continue
			}
			n++
			if tickets != nil {
				r.memory(m.stream, tickets[i], m.token)
			}
		}
		r.rec.acknowledged(n)
	case errors.Is(err, parley.ErrConnection):
		r.rec.ended(maybe, d.replies)
		r.rec.count("unknown", 1)
	default:
		r.rec.ended(undone, d.replies)
	}
	return r.settled(d, err, "")
}

// verb receives in a transaction as the RECEIVE statement does, up to two groups.
func (r *receiver) verb(ctx context.Context, p *process) bool {
	var got []*delivery
	var inside error
	proven := false
	err := p.InTx(ctx, func(tx *parley.Tx) error {
		inside = r.take(ctx, tx, &got)
		now := r.rec.since()
		for _, d := range got {
			d.hold.to = now
		}
		proven = inside == nil || alive(ctx, tx)
		return inside
	})
	proven = proven && (err == nil || errors.Is(err, errBack))
	var replies []string
	n := 0
	for _, d := range got {
		d.hold.undone = err != nil
		if d.hold.settled = proven; !d.again {
			r.rec.held(d.hold)
		}
		replies = append(replies, d.replies...)
		for i, m := range d.items {
			if m.token == "" || err != nil {
				continue
			}
			n++
			if d.tickets != nil {
				r.memory(m.stream, d.tickets[i], m.token)
			}
		}
	}
	switch {
	case err == nil:
		r.rec.ended(committed, replies)
		r.rec.acknowledged(n)
	case inside == nil && errors.Is(err, parley.ErrConnection):
		r.rec.ended(maybe, replies)
		r.rec.count("unknown", 1)
	default:
		r.rec.ended(undone, replies)
		if errors.Is(err, errBack) {
			r.rec.count("rollbacks", 1)
		} else {
			complain(r.rec, p, r.who, err)
		}
	}
	return len(got) > 0
}

func (r *receiver) take(ctx context.Context, tx *parley.Tx, got *[]*delivery) error {
	for range 1 + r.rng.IntN(2) {
		messages, err := tx.Receive(ctx, r.queue, &parley.ReceiveOptions{MaxMessages: 1 + r.rng.IntN(4)})
		if errors.Is(err, parley.ErrNoMessage) {
			break
		}
		if err != nil {
			return err
		}
		d := &delivery{hold: hold{who: r.who, group: messages[0].Group.String(), from: r.rec.since()}}
		r.read(d, messages)
		for _, before := range *got {
			if before.hold.group == d.hold.group {
				before.hold.streams = append(before.hold.streams, d.hold.streams...)
				slices.Sort(before.hold.streams)
				before.hold.streams = slices.Compact(before.hold.streams)
				d.again = true
			}
		}
		*got = append(*got, d)
		if err := r.write(ctx, tx, d); err != nil {
			return err
		}
		d.tickets = r.tickets(len(d.items))
	}
	if len(*got) == 0 {
		return nil
	}
	pause := time.Duration(r.rng.IntN(2000)) * time.Microsecond
	if r.rng.IntN(20) == 0 {
		pause = time.Duration(r.rng.Int64N(int64(r.slow)))
	}
	time.Sleep(pause)
	if r.rng.IntN(5) == 0 {
		return errBack
	}
	return nil
}

// tickets number effects before their commit, while the group is still held.
func (r *receiver) tickets(n int) (list []int) {
	if r.effects != nil {
		return nil
	}
	for range n {
		list = append(list, int(r.serial.Add(1)))
	}
	return list
}

// read notes what was delivered, and complains if it is not as it was sent.
func (r *receiver) read(d *delivery, messages []*parley.Message) {
	last := make(map[string]int64)
	d.items, d.hold.streams = nil, nil
	for _, m := range messages {
		one := item{Message: m, stream: m.Conversation.String()}
		switch m.Type {
		case parley.EndDialog, parley.DialogTimer:
		case parley.ErrorMessageType:
			r.rec.problem("errors", "%s: an error on conversation %s: %v", r.who, m.Conversation, m.Err())
		default:
			stream, token, err := parse(m.Body)
			if err != nil {
				r.rec.problem("errors", "%s: %v", r.who, err)
				continue
			}
			one.stream, one.token = stream, token
		}
		if !m.Conversation.IsZero() && m.Type != parley.ErrorMessageType && m.Type != parley.DialogTimer {
			c := m.Conversation.String()
			if before, ok := last[c]; ok && m.Seq != before+1 {
				r.rec.problem("errors", "%s: message %s %s of stream %s has number %d and follows number %d in one delivery", r.who, m.ID, one.token, one.stream, m.Seq, before)
			}
			last[c] = m.Seq
		}
		if one.token != "" && !slices.Contains(d.hold.streams, one.stream) {
			d.hold.streams = append(d.hold.streams, one.stream)
		}
		d.items = append(d.items, one)
	}
}

// labour takes its time, and sometimes more than it has.
func (r *receiver) labour(d *delivery) {
	pause := time.Duration(r.rng.IntN(4000)) * time.Microsecond
	if r.works > 0 {
		time.Sleep(r.works)
		return
	}
	switch r.rng.IntN(50) {
	case 0:
		pause = time.Duration(r.rng.Int64N(int64(2 * time.Second)))
	case 1, 2:
		if d.byLease { // the heartbeat stops, and the work goes on
			resume := d.p.handle.stall(d.Group)
			defer resume()
			r.rec.count("stalls", 1)
			pause = time.Duration(r.rng.Int64N(int64(1200 * time.Millisecond)))
		}
	}
	time.Sleep(pause)
}

// apply writes what belongs to the messages in the transaction that acknowledges
// them.
func (r *receiver) apply(ctx context.Context, d *delivery) error {
	tx, err := d.Tx(ctx)
	if err != nil {
		return err
	}
	if !r.calm {
		if err := r.variations(ctx, d, tx); err != nil {
			return err
		}
	}
	return r.write(ctx, tx, d)
}

func (r *receiver) write(ctx context.Context, tx *parley.Tx, d *delivery) error {
	for _, m := range d.items {
		if m.Type == parley.EndDialog {
			if err := m.End(ctx); err != nil {
				return err
			}
		}
		if m.token == "" {
			continue
		}
		fresh, err := tx.Once(ctx, m.token)
		if err != nil {
			return err
		}
		if !fresh {
			r.rec.problem("twice", "%s got %s of stream %s, which was acknowledged before (delivery %d)", r.who, m.token, m.stream, m.Attempt)
		}
		if r.effects != nil {
			if err := r.effects.insert(ctx, tx, m.stream, m.token); err != nil {
				return err
			}
		}
		if answered(m.stream, m.token) {
			if err := r.reply(ctx, d, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *receiver) reply(ctx context.Context, d *delivery, m item) error {
	token, stream := fmt.Sprintf("%s-%d", r.who, r.serial.Add(1)), answer+m.stream
	if err := m.Reply(ctx, r.w.Reply, content(stream, token, 0)); err != nil {
		return err
	}
	r.rec.writing(token, stream, r.who)
	d.replies = append(d.replies, token)
	return nil
}

// variations are things that must make no difference.
func (r *receiver) variations(ctx context.Context, d *delivery, tx *parley.Tx) error {
	switch r.rng.IntN(20) {
	case 0: // write and take it back
		if err := tx.Savepoint(ctx, "stress"); err != nil {
			return err
		}
		for _, m := range d.items {
			if m.token == "" {
				continue
			}
			if _, err := tx.Once(ctx, m.token); err != nil {
				return err
			}
		}
		if err := tx.RollbackTo(ctx, "stress"); err != nil {
			return err
		}
		return tx.Release(ctx, "stress")
	case 1: // put the messages back and take them again
		if err := d.Return(ctx); err != nil {
			return err
		}
		if _, err := d.More(ctx, 3); err != nil {
			return err
		}
		r.read(d, d.Messages)
	case 2:
		if _, err := d.More(ctx, 2); err != nil {
			return err
		}
		r.read(d, d.Messages)
	case 3: // a message that comes between the others
		for _, m := range d.items {
			if !m.Conversation.IsZero() && m.Type == r.w.Request && strings.HasPrefix(m.stream, fixed) {
				c, err := m.On(ctx)
				if err == nil {
					err = c.SetTimer(ctx, time.Duration(1+r.rng.IntN(300))*time.Millisecond)
				}
				return err
			}
		}
	case 4:
		time.Sleep(time.Duration(r.rng.IntN(10)) * time.Millisecond)
	}
	return nil
}

func (r *receiver) back(ctx context.Context, d *delivery) error {
	d.hold.to = r.rec.since()
	proven := d.byLease
	if !d.byLease {
		tx, err := d.Tx(ctx)
		proven = err == nil && alive(ctx, tx)
	}
	err := r.settled(d, d.Rollback(ctx), "rollbacks")
	d.hold.settled = d.hold.settled && proven
	d.hold.undone = !d.byLease
	return err
}

// alive proves, before a rollback, that a transaction has held its locks until
// now: a rollback succeeds also when the connection was cut long ago.
func alive(ctx context.Context, tx *parley.Tx) bool {
	return tx.Savepoint(ctx, "alive") == nil
}

func (r *receiver) settled(d *delivery, err error, name string) error {
	if err != nil {
		if errors.Is(err, parley.ErrFenced) && !d.byLease {
			r.rec.problem("fenced in transaction", "%s: %v (streams %s)", r.who, err, strings.Join(d.hold.streams, " "))
		}
		return err
	}
	d.hold.settled = true
	if name != "" {
		r.rec.count(name, 1)
	}
	return nil
}
