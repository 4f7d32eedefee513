package parley

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/crowd"
)

// State is the state of one side of a conversation.
type State = backend.State

// The states of a conversation's side.
const (
	StartedOutbound      = backend.StartedOutbound
	Conversing           = backend.Conversing
	DisconnectedInbound  = backend.DisconnectedInbound
	DisconnectedOutbound = backend.DisconnectedOutbound
	Errored              = backend.Errored
	StateClosed          = backend.Closed
)

// Codes of the errors that the broker itself makes.
const (
	CodeLifetime         = backend.CodeLifetime
	CodeRemoteClosed     = backend.CodeRemoteClosed
	CodeContractRefused  = backend.CodeContractRefused
	CodeValidationFailed = backend.CodeValidationFailed
	CodeRestored         = backend.CodeRestored
	CodeKeyChanged       = backend.CodeKeyChanged
)

// DialogOptions are the options of Begin. Nil means all the defaults.
type DialogOptions struct {
	// Contract says what may be sent. Default: the contract DEFAULT, which
	// carries the type DEFAULT both ways.
	Contract string

	// RelatedConversation is the handle of a conversation of the same service
	// whose group the new one joins.
	RelatedConversation ID

	// RelatedGroup is the group that the new conversation joins; it is made if
	// there is none. Default: a separate group.
	RelatedGroup ID

	// Lifetime ends the whole conversation with an error on both sides.
	// Default: unlimited.
	Lifetime time.Duration

	newGroup bool // RelatedGroup must not be there
}

// Begin begins a conversation from a service of this database with a service
// that need not exist yet. The other side comes into being with the first
// message.
func (tx *Tx) Begin(ctx context.Context, from, to string, o *DialogOptions) (*Conversation, error) {
	if o == nil {
		o = &DialogOptions{}
	}
	return tx.beginAs(ctx, NewID(), from, to, o)
}

// BeginDialog begins a conversation and sends its first message, in a separate transaction, as Post posts one. It returns
// the handle of this side, also after ErrConnection, when the conversation may be there.
func (b *Broker) BeginDialog(ctx context.Context, from, to string, o *DialogOptions, first Payload) (handle ID, err error) {
	if o == nil {
		o = &DialogOptions{}
	}
	obj := fmt.Sprintf("from %q to %q", from, to)
	if err := b.shownOne(ctx, from, to, &first); err != nil {
		return ID{}, fail("begin dialog", obj, err)
	}
	handle = NewID()
	v := &verb{Posting: Posting{Payload: first},
		on: func(ctx context.Context, tx *Tx) (*Conversation, error) { return tx.beginAs(ctx, handle, from, to, o) }}
	if o.RelatedConversation.IsZero() && o.RelatedGroup.IsZero() && o.Lifetime == 0 {
		err = b.crowded(ctx, &crowd.Member[*verb]{Kind: begins, Verb: v})
	} else {
		err = b.verb(ctx, v)
	}
	if err != nil && !errors.Is(err, ErrConnection) {
		return ID{}, fail("begin dialog", obj, err)
	}
	return handle, fail("begin dialog", obj, err)
}

// beginAs begins a conversation with the given handle.
func (tx *Tx) beginAs(ctx context.Context, handle ID, from, to string, o *DialogOptions) (*Conversation, error) {
	obj := fmt.Sprintf("from %q to %q", from, to)
	if err := checkDialog(to, o); err != nil {
		return nil, fail("begin dialog", obj, err)
	}
	ep := backend.Endpoint{
		Handle: handle, Conversation: NewID(), FarHandle: NewID(), Initiator: true,
		Service: from, FarService: to, Contract: cmp.Or(o.Contract, DefaultContract),
		Lifetime: o.Lifetime, State: StartedOutbound,
	}
	looked := false // in the newest catalog
	err := tx.withCatalog(ctx, func(v *catalogView) error {
		if err := tx.b.place(&ep, v, &looked); err != nil {
			return err
		}
		fresh, err := tx.groupOf(ctx, &ep, o)
		if err != nil {
			return err
		}
		return tx.be.BeginDialog(ctx, v.version, backend.NewDialog{Endpoint: ep, NewGroup: fresh,
			Renew: func(ctx context.Context) (int64, backend.Endpoint, error) { return tx.renew(ctx, ep) }})
	})
	if err != nil {
		return nil, fail("begin dialog", obj, err)
	}
	tx.hold(ep.Group)
	if o.Lifetime > 0 {
		tx.soon(o.Lifetime)
	}
	f := infoOf(&ep)
	tx.b.convs.put(f)
	return &Conversation{tx: tx, handle: ep.Handle, group: ep.Group, info: f, fresh: &ep}, nil
}

// place gives a new conversation its queue and priority by a catalog.
func (b *Broker) place(ep *backend.Endpoint, v *catalogView, looked *bool) error {
	svc, ok := v.services[ep.Service]
	if !ok {
		return fmt.Errorf("%q: %w", ep.Service, ErrUnknownService)
	}
	if _, ok := v.contracts[ep.Contract]; !ok {
		return fmt.Errorf("%q: %w", ep.Contract, ErrUnknownContract)
	}
	if _, ok := v.services[ep.FarService]; !ok {
		if err := b.unknownTarget(ep.FarService, looked); err != nil {
			return err
		}
	}
	ep.Queue, ep.Priority = v.queues[svc.Queue].ID, v.priority(ep.Contract, ep.Service, ep.FarService)
	return nil
}

// renew places a conversation that is not stored yet by the newest catalog.
func (tx *Tx) renew(ctx context.Context, ep backend.Endpoint) (int64, backend.Endpoint, error) {
	v, err := tx.reload(ctx)
	if err != nil {
		return 0, ep, err
	}
	looked := true
	err = tx.b.place(&ep, v, &looked)
	return v.version, ep, err
}

// unknownTarget is for a target service that is not defined. The name may be a mistake, or
// defined later: messages are withheld until then, and the log says so once.
func (b *Broker) unknownTarget(name string, looked *bool) error {
	if b.opt.StrictServices {
		return fmt.Errorf("%q: %w", name, ErrUnknownService)
	}
	if *looked {
		b.log.Warn("parley: messages to a service that is not defined are withheld", "event", "service.unknown", "service", name)
		return nil
	}
	if _, known := b.unknown.LoadOrStore(name, true); !known {
		*looked = true
		return backend.ErrStaleCatalog
	}
	return nil
}

func checkDialog(to string, o *DialogOptions) error {
	if err := checkName("service", to); err != nil {
		return err
	}
	if o.Lifetime < 0 {
		return fmt.Errorf("lifetime %v: %w", o.Lifetime, ErrInvalidOption)
	}
	if !o.RelatedConversation.IsZero() && !o.RelatedGroup.IsZero() {
		return fmt.Errorf("both RelatedConversation and RelatedGroup: %w", ErrInvalidOption)
	}
	return nil
}

// groupOf finds and takes the group of a new conversation, and reports whether
// it has to be made.
func (tx *Tx) groupOf(ctx context.Context, ep *backend.Endpoint, o *DialogOptions) (fresh bool, err error) {
	switch {
	case !o.RelatedConversation.IsZero():
		related, err := tx.be.Endpoint(ctx, o.RelatedConversation)
		if err != nil {
			return false, fmt.Errorf("related %s: %w", objConv(o.RelatedConversation), err)
		}
		if over(related) {
			return false, fmt.Errorf("related %s: %w", objConv(o.RelatedConversation), ErrEnded)
		}
		if related.Service != ep.Service {
			return false, fmt.Errorf("related %s is of service %q: %w", objConv(o.RelatedConversation), related.Service, ErrGroupElsewhere)
		}
		ep.Group = related.Group
	case !o.RelatedGroup.IsZero():
		ep.Group = o.RelatedGroup
		if o.newGroup {
			return true, nil
		}
	default:
		ep.Group = ep.Handle
		return true, nil
	}
	err = tx.lockGroup(ctx, ep.Group)
	if errors.Is(err, ErrUnknownGroup) && !o.RelatedGroup.IsZero() {
		return true, nil
	}
	return false, err
}

// soon sees to it that the background work looks when something falls due.
func (tx *Tx) soon(d time.Duration) {
	if tx.joined {
		tx.b.jobs.within(d)
		return
	}
	if tx.sooner == 0 || d < tx.sooner {
		tx.sooner = d
	}
}

// convInfo are what never changes about one side of a conversation.
type convInfo struct {
	handle       ID
	conversation ID
	initiator    bool
	service      string
	far          string
	contract     string
}

func infoOf(e *backend.Endpoint) *convInfo {
	return &convInfo{e.Handle, e.Conversation, e.Initiator, e.Service, e.FarService, e.Contract}
}

// convCache remembers what never changes about conversations, so that sending
// costs no look-up.
type convCache struct {
	mu sync.Mutex
	m  map[ID]*convInfo
}

func (c *convCache) get(handle ID) *convInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[handle]
}

func (c *convCache) put(f *convInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[ID]*convInfo)
	}
	remember(c.m, f.handle, f)
}

const maxConvs = 20000

// remember puts something into a map, which forgets another at random when it is full.
func remember[K comparable, V any](m map[K]V, key K, v V) {
	if _, known := m[key]; !known && len(m) >= maxConvs {
		for k := range m { // the order of a map's keys is random enough
			delete(m, k)
			break
		}
	}
	m[key] = v
}

// Conversation is one side of a conversation, in a transaction.
type Conversation struct {
	tx     *Tx
	handle ID
	group  ID                // in which it was received or begun; zero: not known
	info   *convInfo         // nil until needed
	fresh  *backend.Endpoint // begun in this transaction and nothing sent: it has no target

	recycled bool   // a Sender's, which gets the errors
	behind   string // what it has to wait for before its messages are delivered
}

// Conversation returns the side that has the handle. Nothing is looked up until
// a verb needs it.
func (tx *Tx) Conversation(handle ID) *Conversation {
	return &Conversation{tx: tx, handle: handle}
}

// Handle returns this side's own handle.
func (c *Conversation) Handle() ID { return c.handle }

// Status reads this side's state and everything else that is stored about it.
func (c *Conversation) Status(ctx context.Context) (*Endpoint, error) {
	ep, err := c.endpoint(ctx)
	var e Endpoint
	if err == nil {
		err = c.tx.withCatalog(ctx, func(v *catalogView) error {
			e, err = v.endpoint(*ep)
			return err
		})
	}
	if err != nil {
		return nil, fail("status", objConv(c.handle), err)
	}
	return &e, nil
}

// ID returns the id that both sides share.
func (c *Conversation) ID(ctx context.Context) (ID, error) {
	f, err := c.known(ctx)
	if err != nil {
		return ID{}, fail("id", objConv(c.handle), err)
	}
	return f.conversation, nil
}

// Group returns the group of this side.
func (c *Conversation) Group(ctx context.Context) (ID, error) {
	ep, err := c.endpoint(ctx)
	if err != nil {
		return ID{}, fail("group", objConv(c.handle), err)
	}
	return ep.Group, nil
}

func (c *Conversation) endpoint(ctx context.Context) (*backend.Endpoint, error) {
	if err := c.tx.ready(); err != nil {
		return nil, err
	}
	ep, err := c.tx.be.Endpoint(ctx, c.handle)
	if err == nil {
		c.info = infoOf(ep)
		c.tx.b.convs.put(c.info)
	}
	return ep, err
}

// known returns what never changes, from memory where it can.
func (c *Conversation) known(ctx context.Context) (*convInfo, error) {
	if c.info == nil {
		c.info = c.tx.b.convs.get(c.handle)
	}
	if c.info == nil {
		if _, err := c.endpoint(ctx); err != nil {
			return nil, err
		}
	}
	return c.info, nil
}

// End ends this side. Its unread messages are removed; the other side receives
// EndDialog after everything that this side sent, and ends then. The
// conversation is gone when both sides have ended.
//
// Let the side that was asked end first: a side that ends right after sending does not learn the
// outcome of its message.
func (c *Conversation) End(ctx context.Context) error {
	return c.end(ctx, backend.End{Kind: backend.EndPlain})
}

// EndWithError ends this side and tells the other with a code above zero and a
// text, received before anything else. What this side sent and could not yet be
// delivered is dropped.
func (c *Conversation) EndWithError(ctx context.Context, code int, text string) error {
	if code <= 0 || strings.TrimSpace(text) == "" || !backend.IsText(text) || len([]rune(text)) > 3000 {
		return fail("end with error", objConv(c.handle), fmt.Errorf("code %d, text of %d bytes: %w", code, len(text), ErrInvalidErrorCode))
	}
	return c.end(ctx, backend.End{Kind: backend.EndError, Error: &DialogError{Code: code, Text: text}})
}

// Cleanup removes this side without telling the other, which finds out when it
// sends. It is for administrators and never part of a protocol.
func (c *Conversation) Cleanup(ctx context.Context) error {
	return c.end(ctx, backend.End{Kind: backend.EndCleanup})
}

func (c *Conversation) end(ctx context.Context, end backend.End) error {
	op := [...]string{"end", "end with error", "cleanup"}[end.Kind]
	return fail(op, objConv(c.handle), c.endAs(ctx, end))
}

func (c *Conversation) endAs(ctx context.Context, end backend.End) error {
	if err := c.tx.ready(); err != nil {
		return err
	}
	// A transaction that holds the group in which it met the conversation holds the one to
	// which it has moved it, too.
	if !c.tx.holds(c.group) {
		ep, err := c.open(ctx)
		if err != nil {
			return err
		}
		if err := c.tx.lockGroup(ctx, ep.Group); err != nil {
			return err
		}
	}
	end.Handle, end.MessageID, end.Keep = c.handle, NewID(), c.tx.b.opt.KeepClosed
	ended, err := c.tx.be.EndDialog(ctx, end)
	if err != nil {
		return err
	}
	c.tx.ended = append(c.tx.ended, c.handle)
	if c.tx.remains = c.tx.remains || ended.Remains; c.tx.remains && c.tx.joined {
		c.tx.b.jobs.closedSoon()
	}
	if ended.Later != nil {
		c.tx.undecided = append(c.tx.undecided, ended.Later)
	}
	if ended.Queue != 0 {
		c.tx.touch(ended.Queue)
		err = c.tx.told(ctx)
	}
	if ended.FarEnded && end.Error != nil {
		c.tx.b.log.Warn("parley: a conversation was ended with an error, but its other side had ended and does not receive it",
			"conversation", c.info.conversation, "code", end.Error.Code, "service", c.info.service, "far", c.info.far)
	}
	return err
}

// open is endpoint for a side that must not have ended.
func (c *Conversation) open(ctx context.Context) (*backend.Endpoint, error) {
	ep, err := c.endpoint(ctx)
	if err == nil && over(ep) {
		err = ErrEnded
	}
	return ep, err
}

// over reports whether a side has ended.
func over(ep *backend.Endpoint) bool {
	return ep.State == DisconnectedOutbound || ep.State == StateClosed
}

// SetTimer puts one DialogTimer message on this side's queue after d. It replaces an earlier timer;
// zero removes the timer.
func (c *Conversation) SetTimer(ctx context.Context, d time.Duration) error {
	const op = "set timer"
	ep, err := c.endpoint(ctx)
	switch {
	case err != nil:
	case d < 0:
		err = fmt.Errorf("%v: %w", d, ErrInvalidOption)
	case over(ep):
		err = ErrEnded
	case ep.Lifetime > 0 && d > ep.Lifetime:
		err = fmt.Errorf("in %v, with %v left: %w", d, ep.Lifetime, ErrBeyondLifetime)
	default:
		err = c.tx.be.SetTimer(ctx, c.handle, d)
		if err == nil && d > 0 {
			c.tx.soon(d)
		}
	}
	return fail(op, objConv(c.handle), err)
}

// Move makes this side part of another group of the same service and queue; the
// group is made if there is none. Both groups are held until the transaction
// ends.
func (c *Conversation) Move(ctx context.Context, group ID) error {
	const op = "move"
	if group.IsZero() {
		return fail(op, objConv(c.handle), fmt.Errorf("to no group: %w", ErrUnknownGroup))
	}
	// A failed try is undone to here, so that the groups are free between tries.
	const point = "parley_move"
	err := c.tx.b.patiently(ctx, func() error {
		ep, err := c.open(ctx)
		if err != nil {
			return err
		}
		if ep.Group == group {
			return c.tx.tryGroup(ctx, group)
		}
		err = c.tx.whole(ctx, point, func() error { return c.move(ctx, ep.Group, group) })
		if err == nil {
			c.tx.hold(ep.Group)
			c.tx.hold(group)
			c.tx.touch(ep.Queue)
		}
		return err
	})
	if err == nil {
		err = c.tx.told(ctx)
	}
	return fail(op, fmt.Sprintf("%s to %s", objConv(c.handle), objGroup(group)), err)
}

// move takes both groups in the order of their ids, so that opposite moves do
// not wait for each other, and moves.
func (c *Conversation) move(ctx context.Context, from, to ID) error {
	first, second := from, to
	if strings.Compare(string(to[:]), string(from[:])) < 0 {
		first, second = to, from
	}
	fresh := false
	for _, g := range [...]ID{first, second} {
		if c.tx.holds(g) {
			continue
		}
		err := c.tx.be.LockGroup(ctx, g)
		if errors.Is(err, ErrUnknownGroup) && g == to {
			fresh = true
			continue
		}
		if err != nil {
			return err
		}
	}
	return c.tx.be.Move(ctx, c.handle, to, fresh)
}
