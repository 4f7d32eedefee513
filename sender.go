package parley

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// SenderOptions are the options of a Sender, of which From, To and Contract are needed.
type SenderOptions struct {
	// From and To are the services, and Contract what they speak. Service.Recycles
	// of From declares it.
	From, To string
	Contract string

	// MaxAge is how long a dialog is used, by the database's clock. Zero means 1 h; it is at
	// least 10 ms.
	MaxAge time.Duration

	// MaxMessages is the number of messages after which a dialog is renewed even before MaxAge.
	// Default: no limit.
	MaxMessages int

	// Slots is how many dialogs are used at once by sends without key. Further
	// transactions share them, and wait for each other. Default 32.
	Slots int
}

// Sender sends one-way messages on reused dialogs, because a conversation for each message costs
// several times as much as the message. Each dialog is renewed from time to time, so that the
// failure of a dialog affects few messages. Parley then sends EndOfStream on it, the target ends,
// and Parley ends this side. Any process with an open Broker does that, also for the dialogs of
// killed processes.
//
// Each transaction has a dialog to itself, so that transactions do not wait for each other. With
// Key, all transactions that use the same key share one dialog, in every process.
//
// Parley itself serves these conversations, so the application gets no Error message in them. If
// its type does not allow a body, the call fails. Messages that cannot be delivered later are
// logged, and recorded as dead letters.
//
// A Sender is safe for use by many goroutines.
type Sender struct {
	pool  *dialogs
	keyed bool
	key   string
}

// NewSender makes a Sender, or returns what is wrong with the options. It reads the catalog, where From declares what it
// recycles.
func (b *Broker) NewSender(ctx context.Context, given *SenderOptions) (*Sender, error) {
	var o SenderOptions
	if given != nil {
		o = *given
	}
	obj := fmt.Sprintf("from %q to %q", o.From, o.To)
	o.MaxAge = cmp.Or(o.MaxAge, time.Hour)
	o.Slots = cmp.Or(o.Slots, 32)
	hint := ""
	switch {
	case o.MaxAge < 10*time.Millisecond:
		hint = "MaxAge: want at least 10 ms"
	case o.MaxMessages < 0:
		hint = "MaxMessages is not below zero"
	case o.Slots < 1:
		hint = "Slots: want at least 1"
	}
	if hint != "" {
		return nil, &Error{Op: "new sender", Object: obj, Err: ErrInvalidOption, Hint: hint}
	}
	if err := checkName("service", o.To); err != nil {
		return nil, err
	}
	p := &dialogs{b: b, opt: o, keys: make(map[string]ID)}
	err := b.check()
	if err == nil {
		err = b.withCatalog(ctx, func(v *catalogView) error {
			s, ok := v.services[o.From]
			if !ok {
				return fmt.Errorf("%q: %w", o.From, ErrUnknownService)
			}
			if _, ok := v.contracts[o.Contract]; !ok {
				return fmt.Errorf("%q: %w", o.Contract, ErrUnknownContract)
			}
			r, ok := recycles(s, o.Contract)
			if !ok {
				hint = fmt.Sprintf("declare contract %q in Service.Recycles of service %q", o.Contract, o.From)
				return ErrContradiction
			}
			p.ordered = r.Ordered
			return nil
		})
	}
	if hint != "" {
		return nil, &Error{Op: "new sender", Object: obj, Err: err, Hint: hint}
	}
	if err != nil {
		return nil, fail("new sender", obj, err)
	}
	return &Sender{pool: p}, nil
}

// recycles returns a service's declaration of a contract.
func recycles(s Service, contract string) (Recycle, bool) {
	for _, r := range s.Recycles {
		if r.Contract == contract {
			return r, true
		}
	}
	return Recycle{}, false
}

// Key returns a Sender that sends on the dialog of a key. Transactions with the same key wait for
// each other, in every process; those with different keys do not. Messages of one dialog keep their
// order. Recycle.Ordered keeps the order across renewals, too.
//
// To begin or find a dialog, a joined transaction must see what others have committed (READ
// COMMITTED). Otherwise, on MySQL and MariaDB, Send returns ErrIsolation and sends nothing.
//
// Transactions that use several keys should always use them in the same order, as with any lock.
func (s *Sender) Key(key string) *Sender {
	return &Sender{s.pool, true, key}
}

func (s *Sender) name() string {
	o := s.pool.opt
	if s.keyed {
		return fmt.Sprintf("from %q to %q by key %.100q", o.From, o.To, s.key)
	}
	return fmt.Sprintf("from %q to %q", o.From, o.To)
}

// Send sends a message in the transaction.
func (s *Sender) Send(ctx context.Context, tx *Tx, p Payload) error {
	return s.SendBatch(ctx, tx, []Payload{p})
}

// SendBatch sends all messages, in their order and on one dialog, or none.
func (s *Sender) SendBatch(ctx context.Context, tx *Tx, batch []Payload) error {
	if len(batch) == 0 {
		return nil
	}
	err := tx.ready()
	switch {
	case err != nil:
	case tx.b != s.pool.b:
		err = fmt.Errorf("the transaction is of another Broker: %w", ErrInvalidOption)
	case s.keyed && (len(s.key) > 1024 || !backend.IsText(s.key)):
		err = fmt.Errorf("key of %d bytes: want UTF-8 of at most 1024, without zero bytes: %w", len(s.key), ErrInvalidOption)
	default:
		if batch, err = s.shown(ctx, batch); err == nil {
			err = tx.dialogOf(s).send(ctx, batch)
		}
	}
	if err == nil {
		err = tx.told(ctx)
	}
	return fail("send", s.name(), err)
}

// Close renews the dialogs that were used without key now, instead of when they are too old. It is
// optional: without it, these dialogs stay for MaxAge at most. Open transactions continue.
func (s *Sender) Close(ctx context.Context) error {
	for _, handle := range s.pool.idle() {
		err := s.pool.b.InTx(ctx, func(tx *Tx) error { return tx.retire(ctx, handle) })
		if err != nil && !dead(err) {
			return fail("close sender", s.name(), err)
		}
	}
	return nil
}

// maxDialogs is how many dialogs one send tries.
const maxDialogs = 10

// send sends on its dialog, or on another one if that dialog is dead.
func (l *txDialog) send(ctx context.Context, batch []Payload) error {
	var last error
	for range maxDialogs {
		var c *Conversation
		fresh := false
		err := l.tx.b.patiently(ctx, func() (err error) {
			c, err = l.dialog(ctx)
			fresh = err == nil && c == nil
			if fresh {
				c, err = l.begin(ctx, batch)
			}
			return err
		})
		if err == nil && !fresh {
			err = l.sendOn(ctx, c, batch)
		}
		if err == nil {
			return l.renew(ctx, c)
		}
		if !dead(err) {
			return err
		}
		l.lost()
		last = err
	}
	l.tx.b.log.Error("parley: a sender found no dialog that takes its message", "event", "sender.failed",
		"from", l.pool.opt.From, "to", l.pool.opt.To, "contract", l.pool.opt.Contract, "dialogs", maxDialogs, "error", last)
	return fmt.Errorf("%w: %d were tried: %w", ErrSenderFailed, maxDialogs, last)
}

// dead reports whether an error says that a dialog is of no use any more.
func dead(err error) bool {
	for _, e := range [...]error{ErrSealed, ErrNoConversation, ErrEnded, ErrFarEnded, ErrConversationError, errContractRefused} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *txDialog) sendOn(ctx context.Context, c *Conversation, batch []Payload) error {
	c.recycled = true
	out := make([]Sending, len(batch))
	for i, p := range batch {
		out[i] = Sending{c, p}
	}
	return l.tx.send(ctx, out)
}

// renew sends EndOfStream on a dialog that has carried enough.
func (l *txDialog) renew(ctx context.Context, c *Conversation) error {
	most := int64(l.pool.opt.MaxMessages)
	if most == 0 || l.tx.seq+1 < most {
		return nil
	}
	l.use(ID{})
	if err := l.tx.retire(ctx, c.handle); !dead(err) {
		return err
	}
	return nil // it has ended, and needs no end
}

// dialog returns the dialog to try; nil: one has to be begun.
//
// For a key, a transaction that begins a dialog holds the guard of the previous dialog, and takes the group after that.
// So one transaction at a time begins a dialog. No transaction that holds the group waits for a guard, which would be
// the opposite order. Where the key has no dialog, the group alone decides.
func (l *txDialog) dialog(ctx context.Context) (*Conversation, error) {
	if !l.now.IsZero() || !l.keyed {
		return l.on(l.now), nil
	}
	if !l.tx.holds(l.group) {
		last, err := l.latest(ctx)
		if err != nil {
			return nil, err
		}
		if last != nil && (!l.met || usable(last)) {
			return l.goOn(ctx, last)
		}
		if err := l.tx.tryGroup(ctx, l.group); err != nil {
			if errors.Is(err, ErrUnknownGroup) {
				err = nil
			}
			return nil, err
		}
	}
	// What is there shows only after the lock (rule R-A). A sender that was refused
	// on it may have its guard and wait for us: then it is seen to be of no use.
	last, err := l.latest(ctx)
	if err != nil || last == nil || !usable(last) {
		return nil, err
	}
	return l.goOn(ctx, last)
}

// goOn goes on with a dialog that another transaction has begun. A transaction that
// holds the group does not wait for the guard. Nor does a transaction that may hold
// it, because it met the group while another one made it.
func (l *txDialog) goOn(ctx context.Context, ep *backend.Endpoint) (*Conversation, error) {
	if l.met || l.tx.holds(l.group) {
		if err := l.tx.be.TryStream(ctx, ep.Handle); err != nil && !errors.Is(err, ErrNoConversation) {
			return nil, err
		}
	}
	return l.on(ep.Handle), nil
}

func usable(ep *backend.Endpoint) bool {
	return !ep.Sealed && !ep.FarCleaned && sendable(ep) == nil
}

func (l *txDialog) on(handle ID) *Conversation {
	l.now = handle
	if handle.IsZero() {
		return nil
	}
	o := l.pool.opt
	c := l.tx.Conversation(handle)
	c.info = &convInfo{handle: handle, initiator: true, service: o.From, far: o.To, contract: o.Contract}
	return c
}

// latest returns the last dialog of the key, if it was not tried yet.
func (l *txDialog) latest(ctx context.Context) (last *backend.Endpoint, err error) {
	l.before, err = l.tx.be.Members(ctx, l.group)
	if n := len(l.before); n > 0 && !slices.Contains(l.tried, l.before[n-1].Handle) {
		last = l.before[n-1]
	}
	return last, err
}

// begin begins a dialog and sends on it; if that fails there is none.
func (l *txDialog) begin(ctx context.Context, batch []Payload) (c *Conversation, err error) {
	tx, o := l.tx, DialogOptions{Contract: l.pool.opt.Contract}
	handle := NewID()
	behind := ""
	if l.keyed {
		o.RelatedGroup, o.newGroup = l.group, !tx.holds(l.group)
		if n := len(l.before); n > 0 {
			// The order of handles is the order of the dialogs, whatever the clocks
			// of the processes say.
			handle = laterID(l.before[n-1].Handle)
		}
		if l.pool.ordered {
			first, err := tx.unfinished(ctx, l.before)
			if err != nil {
				return nil, err
			}
			if first != nil {
				behind = "the dialog before it is not finished: " + objConv(first.Handle)
			}
		}
	}
	held := len(tx.held)
	err = tx.whole(ctx, "parley_dialog", func() error {
		c, err = tx.beginAs(ctx, handle, l.pool.opt.From, l.pool.opt.To, &o)
		if err != nil {
			return err // ErrGroupBusy: another process has just made the group
		}
		if err := tx.be.SetTimer(ctx, handle, l.pool.opt.MaxAge); err != nil {
			return err
		}
		c.behind = behind
		return l.sendOn(ctx, c, batch)
	})
	if err != nil {
		tx.held = tx.held[:held]
		l.met = l.met || o.newGroup && errors.Is(err, ErrGroupBusy)
		return nil, err
	}
	tx.soon(l.pool.opt.MaxAge)
	l.use(handle)
	return c, nil
}

// unfinished returns the first dialog whose target may still have something to do, or nil. The
// dialogs are in the order in which they were begun.
func (tx *Tx) unfinished(ctx context.Context, list []*backend.Endpoint) (*backend.Endpoint, error) {
	for _, ep := range list {
		switch {
		case !ep.Initiator || ep.FarCleaned || ep.State == DisconnectedInbound || ep.State == StateClosed:
			continue
		case ep.State == Errored || ep.State == DisconnectedOutbound:
			// It has ended because of an error, or will: then the target counts.
			peer, err := tx.be.Endpoint(ctx, ep.FarHandle)
			if err != nil && !errors.Is(err, ErrNoConversation) {
				return nil, err
			}
			if err == nil && over(peer) {
				continue
			}
		}
		return ep, nil
	}
	return nil, nil
}

// retire sends EndOfStream, after which the target ends. Should it never do so,
// the timer tells an operator.
func (tx *Tx) retire(ctx context.Context, handle ID) error {
	c := tx.Conversation(handle)
	c.recycled = true
	if err := tx.send(ctx, []Sending{{c, Payload{Type: EndOfStream}}}); err != nil {
		return err
	}
	return tx.be.SetTimer(ctx, handle, remindEvery)
}

// remindEvery is how often the log names a dialog whose target does not end.
const remindEvery = time.Hour

// groupOf returns the group of a key's dialogs, which is the same in every process. It is a UUID of
// version 8, derived from the sender's options and the key.
func (o *SenderOptions) groupOf(key string) (id ID) {
	h := sha256.New()
	for _, s := range [...]string{"parley sender", o.From, o.To, o.Contract, key} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
