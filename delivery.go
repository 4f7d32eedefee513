package parley

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/lease"
	"github.com/parleymq/parley/internal/wait"
)

// Delivery is a group that this receiver holds, with messages of it. Settle it once: Ack, or
// Rollback, Defer or Park; `defer d.Close()` releases what was not settled. Only one goroutine at a
// time may use it.
type Delivery struct {
	// Group is the group that is held; for a post without key, its ID.
	Group ID
	// Messages are what was delivered and not returned, in the order in which
	// they must be handled.
	Messages []*Message
	// Promoted reports whether the group came by a promotion, of this Level.
	Promoted bool
	Level    int

	// Of the goroutine that has the delivery, as are the fields above.
	tx      *Tx
	settled bool
	marked  bool // workPoint is set

	// Set before the delivery is handed out.
	b     *Broker
	hold  *backend.Hold
	token backend.Hold // hold without messages, for abandon: the receiver changes hold
	queue Queue
	opt   ReceiveOptions
	ctx   context.Context
	lost  context.CancelCauseFunc

	mu      sync.Mutex  // guards what follows, which heartbeats and Broker.Close share
	open    backend.Tx  // of tx
	counted bool        // the connection of open counts among those that are held
	beat    *time.Timer // sends the next heartbeat
	until   time.Time   // the lease, by this process's clock
	beatOn  bool
}

func newDelivery(b *Broker, h *backend.Hold, v *catalogView, opt ReceiveOptions) *Delivery {
	d := &Delivery{Group: h.Group, Promoted: h.Promoted, Level: h.Level, b: b, hold: h, queue: v.queueByID[h.Queue], opt: opt}
	d.Messages = wrapMessages(h.Messages, d.queue.Name, d)
	d.token = *h
	d.token.Messages = nil
	return d
}

// start registers the delivery and begins its heartbeat. claimed is a time
// before the lease began.
func (d *Delivery) start(claimed time.Time) error {
	d.ctx, d.lost = context.WithCancelCause(context.Background())
	d.ctx = backend.InsideWork(d.ctx, d.inside)
	if d.opt.Release == BeforeWork {
		d.settled = true
		d.lost(nil)
		return nil
	}
	d.b.mu.Lock()
	closed := d.b.closed
	if !closed {
		d.b.open[d] = struct{}{}
	}
	d.b.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if d.tx == nil {
		d.until = claimed.Add(d.opt.Lease)
		d.beatOn = true
		d.mu.Lock()
		d.beat = time.AfterFunc(d.opt.Lease/3, d.heartbeat)
		d.mu.Unlock()
	}
	return nil
}

// inside returns the transaction that is open.
func (d *Delivery) inside(context.Context) backend.Tx {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// heartbeat extends the lease. When it is lost, the delivery's context ends.
func (d *Delivery) heartbeat() {
	d.mu.Lock()
	until := d.until
	d.mu.Unlock()
	ctx, cancel := context.WithDeadline(context.Background(), until)
	err := lease.Beat([]lease.Holder[*backend.Hold]{heartbeat{d}}, func(holds []*backend.Hold) error {
		return d.b.be.Extend(ctx, holds, d.opt.Lease)
	})
	cancel()

	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.beatOn {
		return
	}
	again := d.opt.Lease / 3
	if err != nil { // the store did not answer: again soon, as long as the lease may last
		d.b.log.Warn("parley: a heartbeat failed", "group", d.Group.String(), "error", err)
		again = min(again, max(time.Until(d.until)/4, 10*time.Millisecond))
	}
	d.beat.Reset(again)
}

// heartbeat is what extends the lease of a delivery.
type heartbeat struct{ d *Delivery }

// Leased implements lease.Holder.
func (h heartbeat) Leased() []*backend.Hold {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if !h.d.beatOn {
		return nil
	}
	return []*backend.Hold{h.d.hold}
}

// Extended implements lease.Holder.
func (h heartbeat) Extended(sent time.Time) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.d.until = sent.Add(h.d.opt.Lease)
}

// Expired implements lease.Holder.
func (h heartbeat) Expired(now time.Time) bool {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return !now.Before(h.d.until)
}

// Lost implements lease.Holder.
func (h heartbeat) Lost() {
	h.d.stopHeartbeat()
	h.d.lost(fmt.Errorf("parley: the lease of group %s was lost: %w", h.d.Group, ErrFenced))
}

func (d *Delivery) stopHeartbeat() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beatOn = false
	if d.beat != nil {
		d.beat.Stop()
	}
}

// resumeHeartbeat is for a delivery whose transaction failed.
func (d *Delivery) resumeHeartbeat() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beatOn = true
	d.until = time.Now().Add(d.opt.Lease)
	d.beat.Reset(0)
}

// Context ends when the delivery is settled, or when its lease is lost, with
// the reason as its cause. After that the work of a handler is lost: what it
// does in Tx will not commit.
func (d *Delivery) Context() context.Context { return d.ctx }

// Tx returns the transaction in which the delivery is acknowledged: what is written in it commits
// with Ack or not at all. A delivery held by lease opens it at the first call, and returns
// ErrFenced if the lease was lost. On SQLite it holds the only write lock, so ask for it last.
func (d *Delivery) Tx(ctx context.Context) (*Tx, error) {
	if d.opt.Release == BeforeWork {
		return nil, fail("transaction of delivery", objGroup(d.Group), fmt.Errorf("it was released before the work: %w", ErrSettled))
	}
	if d.settled {
		return nil, fail("transaction of delivery", objGroup(d.Group), ErrSettled)
	}
	if d.tx == nil {
		tx, err := d.reclaim(ctx)
		if err != nil {
			return nil, fail("transaction of delivery", objGroup(d.Group), err)
		}
		d.work(tx)
	}
	if d.hold.Fence == 0 && !d.marked {
		// Locks taken after a savepoint may end with it. The group was locked
		// before this one, so Defer and Park can undo the work and keep it.
		if err := d.tx.be.Savepoint(ctx, workPoint); err != nil {
			return nil, fail("transaction of delivery", objGroup(d.Group), err)
		}
		d.marked = true
	}
	return d.tx, nil
}

func (d *Delivery) txFor(ctx context.Context, _ *Message) (*Tx, error) { return d.Tx(ctx) }

// within implements receiver.
func (d *Delivery) within(ctx context.Context) context.Context {
	return backend.InsideWork(ctx, d.inside)
}

// workPoint is the savepoint before the work in a transaction that holds the
// group itself.
const workPoint = "parley_work"

// reclaim takes the group by its fence in a new transaction, which keeps it
// without heartbeats.
func (d *Delivery) reclaim(ctx context.Context) (*Tx, error) {
	w, err := d.take(ctx, d.b.begin, d.hold)
	if err != nil {
		return nil, err
	}
	d.stopHeartbeat()
	w.tx.hold(d.Group)
	return w.tx, nil
}

func (d *Delivery) take(ctx context.Context, begin func(context.Context) (*Tx, error), hold *backend.Hold) (work, error) {
	return lease.Take(ctx, func(ctx context.Context) (work, error) {
		tx, err := begin(ctx)
		return work{tx}, err
	}, []*backend.Hold{hold})
}

// More delivers further messages of the group, at most n (zero: MaxMessages),
// and adds them to Messages. None is no error.
func (d *Delivery) More(ctx context.Context, n int) ([]*Message, error) {
	if n <= 0 {
		n = d.opt.MaxMessages
	}
	tx, err := d.Tx(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := tx.be.More(ctx, d.hold, n, d.opt.MaxBytes)
	if err != nil {
		return nil, fail("receive more", objGroup(d.Group), err)
	}
	more := wrapMessages(raw, d.queue.Name, d)
	d.Messages = append(d.Messages, more...)
	return more, nil
}

// Return puts all messages back, inside the open transaction, and keeps the group: More delivers
// them again. Writes in the transaction stay, unless it is rolled back to a savepoint.
func (d *Delivery) Return(ctx context.Context) error {
	if d.settled {
		return fail("return", objGroup(d.Group), ErrSettled)
	}
	d.Messages = nil
	d.hold.Messages = nil
	return nil
}

// Ack acknowledges Messages and commits everything done in Tx. After an error nothing has happened,
// unless the error is ErrConnection. Then the commit may or may not have happened, and messages may
// come again.
func (d *Delivery) Ack(ctx context.Context) error {
	o := backend.Outcome{Done: make([]*backend.Message, len(d.Messages)), Retain: d.queue.Retention, Keep: d.queue.KeepProcessed}
	for i, m := range d.Messages {
		o.Done[i] = m.raw
	}
	return d.settle(ctx, "acknowledge", o, true)
}

// Rollback undoes everything done in Tx and gives the group back with all its
// messages. It is no error after the delivery was settled.
func (d *Delivery) Rollback(ctx context.Context) error {
	if d.settled {
		return nil
	}
	if d.hold.Fence == 0 {
		d.over()
		d.tx.rollback(ctx)
		d.b.hub.Wake(d.queue.ID)
		return nil
	}
	ctx, cancel := wait.Cleanup(ctx) // as the rollback of a transaction
	defer cancel()
	return d.giveBack(ctx, "roll back", backend.Outcome{}, false)
}

// Close is Rollback for defer statements.
func (d *Delivery) Close() error {
	return d.Rollback(context.Background())
}

// Defer undoes everything done in Tx and hides the group for a time. Then the group comes behind those that are ready.
func (d *Delivery) Defer(ctx context.Context, after time.Duration) error {
	if after <= 0 {
		return fail("defer", objGroup(d.Group), fmt.Errorf("for %v: %w", after, ErrInvalidOption))
	}
	err := d.giveBack(ctx, "defer", backend.Outcome{Defer: after}, true)
	if err == nil {
		d.b.jobs.within(after)
	}
	return err
}

// Park undoes everything done in Tx and hides the group, in its order, until
// Admin.Unpark. The reason is shown to operators.
func (d *Delivery) Park(ctx context.Context, reason error) error {
	text := ""
	if reason != nil {
		text = backend.CleanText(guard.String(reason), guard.MaxReason)
	}
	if text == "" {
		text = "parked"
	}
	return d.giveBack(ctx, "park", backend.Outcome{Park: text}, true)
}

// abandon gives the group back while a handler may still be using the delivery: for Broker.Close,
// which another goroutine calls. An open transaction is ended first, because it holds the group.
// Then a lease is ended by its fence, as another process could do.
func (d *Delivery) abandon() {
	d.stopHeartbeat()
	d.lost(ErrClosed)
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	d.mu.Lock()
	open := d.open
	d.mu.Unlock()
	if open != nil {
		open.Rollback(ctx)
	}
	if d.token.Fence == 0 {
		return
	}
	w, err := d.take(ctx, d.b.beginAlways, &d.token)
	if err != nil {
		return // it ends by itself
	}
	defer w.Rollback(ctx)
	if _, err := w.Store().Settle(ctx, []backend.Outcome{{Hold: &d.token}}); err == nil {
		_ = w.Commit(ctx)
	}
}

// work makes tx the transaction of the delivery.
func (d *Delivery) work(tx *Tx) {
	d.tx = tx
	d.mu.Lock()
	defer d.mu.Unlock()
	if tx == nil {
		d.open = nil
		d.leave()
		return
	}
	d.open = tx.be
	if !d.counted {
		d.counted = true
		d.b.admitted.Count()
	}
}

// leave gives back the delivery's part of the connections. d.mu is held.
func (d *Delivery) leave() {
	if d.counted {
		d.counted = false
		d.b.admitted.Leave()
	}
}

// giveBack settles without acknowledging, and without what was done in Tx. The
// group stays held throughout: by the transaction's own start, or by fence.
func (d *Delivery) giveBack(ctx context.Context, op string, o backend.Outcome, stay bool) error {
	if d.settled {
		return fail(op, objGroup(d.Group), ErrSettled)
	}
	if d.tx != nil && d.hold.Fence > 0 {
		d.tx.rollback(ctx)
		d.work(nil)
	}
	if d.marked {
		if err := d.undo(ctx); err != nil {
			d.over()
			d.tx.rollback(ctx)
			return fail(op, objGroup(d.Group), err)
		}
	}
	return d.settle(ctx, op, o, stay)
}

// undo gives up the work done in the transaction that holds the group.
func (d *Delivery) undo(ctx context.Context) error {
	if err := d.tx.be.RollbackTo(ctx, workPoint); err != nil {
		return err
	}
	d.tx.held, d.tx.marks, d.tx.cat = []ID{d.Group}, nil, nil
	return nil
}

// settle carries out an outcome and commits. With stay, a delivery held by lease can be settled
// again after a failure in which the lease was not lost. Without stay, its lease runs out.
func (d *Delivery) settle(ctx context.Context, op string, o backend.Outcome, stay bool) error {
	if d.settled {
		return fail(op, objGroup(d.Group), ErrSettled)
	}
	if d.tx == nil {
		tx, err := d.reclaim(ctx)
		if err != nil {
			if stay && !errors.Is(err, ErrFenced) {
				d.resumeHeartbeat()
			} else {
				d.over()
			}
			return fail(op, objGroup(d.Group), err)
		}
		d.work(tx)
	}
	o.Hold = d.hold
	again, err := d.tx.be.Settle(ctx, []backend.Outcome{o})
	if err == nil {
		err = d.tx.commit(ctx)
	}
	if err != nil {
		d.tx.rollback(ctx)
		if d.hold.Fence > 0 && stay && !errors.Is(err, ErrFenced) && !errors.Is(err, ErrConnection) {
			d.work(nil) // still ours by lease: it can be done again
			d.resumeHeartbeat()
			return fail(op, objGroup(d.Group), err)
		}
		d.over()
		d.b.hub.Wake(d.queue.ID)
		return fail(op, objGroup(d.Group), err)
	}
	d.over()
	d.b.hub.Wake(d.queue.ID)
	if again {
		d.b.hub.WakeSoon(map[int64]bool{d.queue.ID: true})
	}
	return nil
}

// over marks the delivery as settled.
func (d *Delivery) over() {
	d.settled = true
	d.stopHeartbeat()
	d.mu.Lock()
	d.leave()
	d.mu.Unlock()
	d.lost(nil)
	d.b.mu.Lock()
	delete(d.b.open, d)
	d.b.mu.Unlock()
}
