package conformance

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance/internal/reference"
)

// broken is the reference backend with mistakes that can be made from outside:
// what is set is called instead of its method.
type broken struct {
	*reference.Handle
	with *mistake
}

// mistake is one of them. The transaction and the backend that are given to the
// functions work as they should.
type mistake struct {
	id   string // the sentence that it breaks
	says string

	groups      func(context.Context, backend.Backend, backend.GroupQuery) ([]backend.GroupStatus, error)
	deadLetters func() ([]backend.DeadStatus, error)
	check       func() error
	uncancelled bool

	putCatalog  func(context.Context, backend.Tx, *backend.Catalog) (int64, error)
	beginDialog func(context.Context, backend.Tx, int64, backend.NewDialog) error
	accept      func(ctx context.Context, tx backend.Tx, version int64, from backend.ID, target backend.Endpoint) (bool, error)
	endpoint    func(context.Context, backend.Tx, backend.ID) (*backend.Endpoint, error)
	send        func(context.Context, backend.Tx, int64, []backend.Outgoing) ([]backend.Sent, error)
	notice      func(context.Context, backend.Tx, backend.Notice) error
	post        func(context.Context, backend.Tx, int64, []backend.Posting) ([]backend.Posted, error)
	claim       func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error)
	reclaim     func(context.Context, backend.Tx, []*backend.Hold) error
	settle      func(context.Context, backend.Tx, []backend.Outcome) (bool, error)
	endDialog   func(context.Context, backend.Tx, backend.End) (backend.Ended, error)
	promote     func(context.Context, backend.Tx, backend.Promotion) error
}

type brokenTx struct {
	backend.Tx
	be   backend.Backend
	with *mistake
}

// mistakes break the sentences for which reference.Faults has none.
var mistakes = []*mistake{
	{
		id: "D02", says: "a conversation is conversing from the start",
		endpoint: func(ctx context.Context, tx backend.Tx, handle backend.ID) (*backend.Endpoint, error) {
			e, err := tx.Endpoint(ctx, handle)
			if err == nil && e.State == backend.StartedOutbound {
				e.State = backend.Conversing
			}
			return e, err
		},
	},
	{
		id: "D05", says: "the broker's own errors are lost",
		notice: func(ctx context.Context, tx backend.Tx, n backend.Notice) error {
			if n.Kind == backend.KindError {
				return nil
			}
			return tx.Notice(ctx, n)
		},
	},
	{
		id: "D06", says: "contracts forget who may send",
		putCatalog: func(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
			c.Contracts = slices.Clone(c.Contracts)
			for i := range c.Contracts {
				c.Contracts[i].Messages = slices.Clone(c.Contracts[i].Messages)
				for j := range c.Contracts[i].Messages {
					c.Contracts[i].Messages[j].SentBy = backend.ByAny
				}
			}
			return tx.PutCatalog(ctx, c)
		},
	},
	{
		id: "D07", says: "the next number of an endpoint is not known",
		endpoint: func(ctx context.Context, tx backend.Tx, handle backend.ID) (*backend.Endpoint, error) {
			e, err := tx.Endpoint(ctx, handle)
			if err == nil {
				e.NextSeq = 0
			}
			return e, err
		},
	},
	{
		id: "D09", says: "a related conversation gets a group of its own",
		beginDialog: func(ctx context.Context, tx backend.Tx, version int64, d backend.NewDialog) error {
			d.Group, d.NewGroup = d.Handle, true
			return tx.BeginDialog(ctx, version, d)
		},
	},
	{
		id: "D13", says: "what a service sends to itself comes back to the side that sent it",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			c, err := tx.Tx.Claim(ctx, r)
			for _, h := range c.Holds {
				for _, m := range h.Messages {
					if m.Service == m.Far && !m.Handle.IsZero() {
						if e, err := tx.Endpoint(ctx, m.Handle); err == nil {
							m.Handle, m.Initiator = e.Peer, !e.Initiator
						}
					}
				}
			}
			return c, err
		},
	},
	{
		id: "O02", says: "a lease is over at once",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			r.Lease = min(r.Lease, 1)
			return tx.Tx.Claim(ctx, r)
		},
	},
	{
		id: "G03", says: "a receiver takes the other side's group as well",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			c, err := tx.Tx.Claim(ctx, r)
			for _, h := range c.Holds {
				for _, m := range h.Messages {
					mine, err := tx.Endpoint(ctx, m.Handle)
					if err != nil {
						continue
					}
					if peer, err := tx.Endpoint(ctx, mine.Peer); err == nil {
						_ = tx.LockGroup(ctx, peer.Group)
					}
				}
			}
			return c, err
		},
	},
	{
		id: "G04", says: "a sender needs the group to which it sends",
		send: func(ctx context.Context, tx backend.Tx, version int64, ms []backend.Outgoing) ([]backend.Sent, error) {
			for _, m := range ms {
				mine, err := tx.Endpoint(ctx, m.From)
				if err != nil {
					continue
				}
				if peer, err := tx.Endpoint(ctx, mine.Peer); err == nil {
					if err := tx.LockGroup(ctx, peer.Group); err != nil {
						return nil, err
					}
				}
			}
			return tx.Send(ctx, version, ms)
		},
	},
	{
		id: "G05", says: "GetGroup does not keep the group",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			if !r.LockOnly {
				return tx.Tx.Claim(ctx, r)
			}
			return tx.elsewhere(ctx, r, backend.Tx.Rollback)
		},
	},
	{
		id: "G06", says: "the second group of a transaction is free at once",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			if len(r.Held) == 0 || !r.Consume {
				return tx.Tx.Claim(ctx, r)
			}
			return tx.elsewhere(ctx, r, backend.Tx.Commit)
		},
	},
	{
		id: "P01", says: "rules forget the remote service",
		putCatalog: func(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
			c.Priorities = slices.Clone(c.Priorities)
			for i := range c.Priorities {
				c.Priorities[i].Remote = ""
			}
			return tx.PutCatalog(ctx, c)
		},
	},
	{
		id: "P03", says: "the target has the initiator's priority",
		accept: func(ctx context.Context, tx backend.Tx, version int64, from backend.ID, target backend.Endpoint) (bool, error) {
			if e, err := tx.Endpoint(ctx, from); err == nil {
				target.Priority = e.Priority
			}
			return tx.Accept(ctx, version, from, target)
		},
	},
	{id: "P06", says: "promotions do not count", promote: noPromotion},
	{id: "P07", says: "promotions by the peer do not count", promote: noPromotion},
	{
		id: "P11", says: "an unknown group can be promoted",
		promote: func(ctx context.Context, tx backend.Tx, p backend.Promotion) error {
			if err := tx.Promote(ctx, p); !errors.Is(err, backend.ErrNoGroup) {
				return err
			}
			return nil
		},
	},
	{
		id: "P12", says: "the waiting groups are shown last first",
		groups: func(ctx context.Context, be backend.Backend, q backend.GroupQuery) ([]backend.GroupStatus, error) {
			list, err := be.Groups(ctx, q)
			slices.Reverse(list)
			return list, err
		},
	},
	{
		id: "P13", says: "every service lets its peers promote",
		putCatalog: func(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
			c.Services = slices.Clone(c.Services)
			for i := range c.Services {
				c.Services[i].PeerPromotion = 255
			}
			return tx.PutCatalog(ctx, c)
		},
	},
	{
		id: "E02", says: "the text of an error is lost",
		endDialog: func(ctx context.Context, tx backend.Tx, end backend.End) (backend.Ended, error) {
			if end.Error != nil {
				end.Error = &backend.DialogError{Code: end.Error.Code, Text: "an error"}
			}
			return tx.EndDialog(ctx, end)
		},
	},
	{
		id: "E08", says: "a cleanup tells the peer",
		endDialog: func(ctx context.Context, tx backend.Tx, end backend.End) (backend.Ended, error) {
			if end.Kind == backend.EndCleanup {
				end.Kind = backend.EndPlain
			}
			return tx.EndDialog(ctx, end)
		},
	},
	{id: "E09", says: "dead letters are lost", deadLetters: func() ([]backend.DeadStatus, error) { return nil, nil }},
	{
		id: "B01", says: "an unknown handle is told by an error of the store's own",
		endpoint: func(ctx context.Context, tx backend.Tx, handle backend.ID) (*backend.Endpoint, error) {
			e, err := tx.Endpoint(ctx, handle)
			if errors.Is(err, backend.ErrNoConversation) {
				err = errors.New("no such row")
			}
			return e, err
		},
	},
	{
		id: "B05", says: "a settle under a lost lease says that all is well",
		reclaim: func(ctx context.Context, tx backend.Tx, holds []*backend.Hold) error {
			if err := tx.Reclaim(ctx, holds); !errors.Is(err, backend.ErrFenced) {
				return err
			}
			return nil
		},
		settle: func(ctx context.Context, tx backend.Tx, o []backend.Outcome) (bool, error) {
			again, err := tx.Settle(ctx, o)
			if errors.Is(err, backend.ErrFenced) {
				err = nil
			}
			return again, err
		},
	},
	{id: "B06", says: "nobody looks whether a context is cancelled", uncancelled: true},
	{id: "B07", says: "a store that is not migrated passes for one that is", check: func() error { return nil }},
	{
		id: "B08", says: "a disabled queue is an empty one",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			c, err := tx.Tx.Claim(ctx, r)
			if errors.Is(err, backend.ErrQueueDisabled) {
				err = nil
			}
			return c, err
		},
	},
	{
		id: "B10", says: "quotes in bodies are doubled",
		send: func(ctx context.Context, tx backend.Tx, version int64, ms []backend.Outgoing) ([]backend.Sent, error) {
			ms = slices.Clone(ms)
			for i := range ms {
				ms[i].Body = bytes.ReplaceAll(ms[i].Body, []byte("'"), []byte("''"))
			}
			return tx.Send(ctx, version, ms)
		},
		post: func(ctx context.Context, tx backend.Tx, version int64, ps []backend.Posting) ([]backend.Posted, error) {
			ps = slices.Clone(ps)
			for i := range ps {
				ps[i].Body = bytes.ReplaceAll(ps[i].Body, []byte("'"), []byte("''"))
			}
			return tx.Post(ctx, version, ps)
		},
	},
}

func noPromotion(context.Context, backend.Tx, backend.Promotion) error { return nil }

// elsewhere claims in another transaction, which ends at once.
func (tx *brokenTx) elsewhere(ctx context.Context, r backend.ClaimRequest, end func(backend.Tx, context.Context) error) (backend.Claim, error) {
	other, err := tx.be.Begin(ctx)
	if err != nil {
		return backend.Claim{}, err
	}
	c, err := other.Claim(ctx, r)
	return c, errors.Join(err, end(other, ctx))
}

// brokenStore is referenceStore with a mistake.
func brokenStore(m *mistake) Store {
	open := func(s *reference.Store) func(context.Context) (backend.Backend, error) {
		return func(context.Context) (backend.Backend, error) { return &broken{s.Open(), m}, nil }
	}
	return Store{
		Open: open(reference.NewStore(reference.Options{})),
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return open(reference.NewStore(reference.Options{}))(ctx)
		},
	}
}

// context is the context that the store looks at.
func (m *mistake) context(ctx context.Context) context.Context {
	if m.uncancelled {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (b *broken) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := b.Handle.Begin(b.with.context(ctx))
	if err != nil {
		return nil, err
	}
	return &brokenTx{Tx: tx, be: b.Handle, with: b.with}, nil
}

func (b *broken) Check(ctx context.Context) error {
	if b.with.check != nil {
		return b.with.check()
	}
	return b.Handle.Check(ctx)
}

func (b *broken) Tend(ctx context.Context, duty backend.Duty, limit int) (int, time.Duration, error) {
	return b.Handle.Tend(b.with.context(ctx), duty, limit)
}

func (b *broken) Groups(ctx context.Context, q backend.GroupQuery) ([]backend.GroupStatus, error) {
	if b.with.groups != nil {
		return b.with.groups(ctx, b.Handle, q)
	}
	return b.Handle.Groups(ctx, q)
}

func (b *broken) DeadLetters(ctx context.Context, queue int64, limit int) ([]backend.DeadStatus, error) {
	if b.with.deadLetters != nil {
		return b.with.deadLetters()
	}
	return b.Handle.DeadLetters(ctx, queue, limit)
}

func (tx *brokenTx) PutCatalog(ctx context.Context, c *backend.Catalog) (int64, error) {
	if tx.with.putCatalog != nil {
		return tx.with.putCatalog(ctx, tx.Tx, c)
	}
	return tx.Tx.PutCatalog(ctx, c)
}

func (tx *brokenTx) BeginDialog(ctx context.Context, version int64, d backend.NewDialog) error {
	if tx.with.beginDialog != nil {
		return tx.with.beginDialog(ctx, tx.Tx, version, d)
	}
	return tx.Tx.BeginDialog(ctx, version, d)
}

func (tx *brokenTx) Accept(ctx context.Context, version int64, from backend.ID, target backend.Endpoint) (bool, error) {
	if tx.with.accept != nil {
		return tx.with.accept(ctx, tx.Tx, version, from, target)
	}
	return tx.Tx.Accept(ctx, version, from, target)
}

func (tx *brokenTx) Endpoint(ctx context.Context, handle backend.ID) (*backend.Endpoint, error) {
	if tx.with.endpoint != nil {
		return tx.with.endpoint(ctx, tx.Tx, handle)
	}
	return tx.Tx.Endpoint(ctx, handle)
}

func (tx *brokenTx) Send(ctx context.Context, version int64, ms []backend.Outgoing) ([]backend.Sent, error) {
	if tx.with.send != nil {
		return tx.with.send(ctx, tx.Tx, version, ms)
	}
	return tx.Tx.Send(tx.with.context(ctx), version, ms)
}

func (tx *brokenTx) Notice(ctx context.Context, n backend.Notice) error {
	if tx.with.notice != nil {
		return tx.with.notice(ctx, tx.Tx, n)
	}
	return tx.Tx.Notice(ctx, n)
}

func (tx *brokenTx) Post(ctx context.Context, version int64, ps []backend.Posting) ([]backend.Posted, error) {
	if tx.with.post != nil {
		return tx.with.post(ctx, tx.Tx, version, ps)
	}
	return tx.Tx.Post(tx.with.context(ctx), version, ps)
}

func (tx *brokenTx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	if tx.with.claim != nil {
		return tx.with.claim(ctx, tx, r)
	}
	return tx.Tx.Claim(tx.with.context(ctx), r)
}

func (tx *brokenTx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	if tx.with.reclaim != nil {
		return tx.with.reclaim(ctx, tx.Tx, holds)
	}
	return tx.Tx.Reclaim(ctx, holds)
}

func (tx *brokenTx) Settle(ctx context.Context, o []backend.Outcome) (bool, error) {
	if tx.with.settle != nil {
		return tx.with.settle(ctx, tx.Tx, o)
	}
	return tx.Tx.Settle(ctx, o)
}

func (tx *brokenTx) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	if tx.with.endDialog != nil {
		return tx.with.endDialog(ctx, tx.Tx, end)
	}
	return tx.Tx.EndDialog(ctx, end)
}

func (tx *brokenTx) Promote(ctx context.Context, p backend.Promotion) error {
	if tx.with.promote != nil {
		return tx.with.promote(ctx, tx.Tx, p)
	}
	return tx.Tx.Promote(ctx, p)
}

func (tx *brokenTx) Commit(ctx context.Context) error { return tx.Tx.Commit(tx.with.context(ctx)) }
