package conformance

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/memstore"
	"github.com/parleymq/parley/internal/slow"
)

// broken is the backend in memory with mistakes that can be made from outside:
// what is set is called instead of its method.
type broken struct {
	*memstore.Handle
	with *mistake
}

// mistake is one of them. The transaction and the backend that are given to the
// functions work as they should.
type mistake struct {
	id   string // the sentence that it breaks
	says string

	groups      func(context.Context, backend.Backend, backend.GroupQuery) ([]backend.GroupStatus, error)
	deadLetters func([]backend.DeadStatus, error) ([]backend.DeadStatus, error)
	find        func(context.Context, backend.Backend, backend.ID) (backend.ID, error)
	promotions  func([]backend.PromotionStatus)
	overdue     func(map[backend.Job]time.Duration)
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
	control     func(ctx context.Context, tx backend.Tx, schedule string, c backend.TaskControl, task backend.ID) (int, []backend.ID, error)
	progress    func(ctx context.Context, be backend.Backend, schedule string) (backend.Progress, error)
	lock        func(backend.LockMode, time.Duration) (backend.LockMode, time.Duration) // what a session asks for instead
	unlock      func() error                                                            // what a transaction does instead of releasing a lock
	keep        func() error
	rollbackTo  func() error
	rollback    func(context.Context, backend.Tx) error
	commit      func(context.Context, backend.Tx) error
	putReader   func() ([]backend.Trace, error)
	sql         backend.Execer // of its transactions
	join        func(ctx context.Context, be backend.Backend) (backend.Tx, error)
}

type brokenTx struct {
	backend.Tx
	be   backend.Backend
	with *mistake
}

// mistakes break the sentences for which memstore.Faults has none.
var mistakes = []*mistake{
	{
		id: "A20", says: "a post beside an open transaction is refused though nothing would wait",
		post: func(ctx context.Context, tx backend.Tx, version int64, ps []backend.Posting) ([]backend.Posted, error) {
			for other := range backend.TokensFrom(ctx) {
				if other != tx.Token() {
					return nil, backend.ErrWouldDeadlock
				}
			}
			return tx.Post(ctx, version, ps)
		},
	},
	{
		id: "I7", says: "the commit of a lost transaction does nothing and reports success",
		commit: func(ctx context.Context, tx backend.Tx) error {
			err := tx.Commit(ctx)
			if errors.Is(err, backend.ErrTxDone) {
				return nil
			}
			return err
		},
	},
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
	{id: "B04", says: "types forget their validation", putCatalog: unvalidated},
	{id: "B12", says: "types forget their validation", putCatalog: unvalidated},
	{
		id: "B02", says: "there is a queue without a name",
		putCatalog: func(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
			c.Queues = append(slices.Clone(c.Queues), backend.Queue{})
			return tx.PutCatalog(ctx, c)
		},
	},
	{
		id: "B03", says: "a contract that is defined again is another contract",
		putCatalog: func(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
			c.Contracts = slices.Clone(c.Contracts)
			for i := range c.Contracts {
				c.Contracts[i].Messages = c.Contracts[i].Messages[:min(1, len(c.Contracts[i].Messages))]
			}
			return tx.PutCatalog(ctx, c)
		},
	},
	{
		id: "M03", says: "a service has only the contract that was given last",
		putCatalog: func(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
			c.Services = slices.Clone(c.Services)
			for i, s := range c.Services {
				c.Services[i].Contracts = s.Contracts[max(0, len(s.Contracts)-1):]
			}
			return tx.PutCatalog(ctx, c)
		},
	},
	{
		id: "E03", says: "an error's text is cut to 1000 bytes",
		endDialog: func(ctx context.Context, tx backend.Tx, end backend.End) (backend.Ended, error) {
			if end.Error != nil {
				end.Error = &backend.DialogError{Code: end.Error.Code, Text: end.Error.Text[:min(1000, len(end.Error.Text))]}
			}
			return tx.EndDialog(ctx, end)
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
		id: "D13", says: "a message of a service to itself comes back to the side that sent it",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			c, err := tx.Tx.Claim(ctx, r)
			for _, h := range c.Holds {
				for _, m := range h.Messages {
					if m.Service == m.FarService && !m.Handle.IsZero() {
						if e, err := tx.Endpoint(ctx, m.Handle); err == nil {
							m.Handle, m.Initiator = e.FarHandle, !e.Initiator
						}
					}
				}
			}
			return c, err
		},
	},
	{
		id: "C02", says: "the last message of a stream is not sent",
		send: func(ctx context.Context, tx backend.Tx, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
			if len(messages) == 1 && messages[0].Last {
				return []backend.Sent{{}}, nil
			}
			return tx.Send(ctx, version, messages)
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
					if peer, err := tx.Endpoint(ctx, mine.FarHandle); err == nil {
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
				if peer, err := tx.Endpoint(ctx, mine.FarHandle); err == nil {
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
			if len(r.Own) == 0 || !r.Consume {
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
		id: "P16", says: "every hundredth promotion is forgotten",
		promote: hundredth(),
	},
	{
		id: "P15", says: "keys cannot be promoted", promote: func(ctx context.Context, tx backend.Tx, p backend.Promotion) error {
			if p.Group.IsZero() {
				return backend.ErrNoGroup
			}
			return tx.Promote(ctx, p)
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
				c.Services[i].FarPromotion = 255
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
	{id: "E09", says: "dead letters are lost", deadLetters: noDeadLetters},
	{id: "V04", says: "dead letters have no sizes", deadLetters: noSizes},
	{id: "P19", says: "dead letters have lost their priority", deadLetters: allOrdinary},
	{
		id: "B01", says: "an unknown handle is reported by an error of the store",
		endpoint: func(ctx context.Context, tx backend.Tx, handle backend.ID) (*backend.Endpoint, error) {
			e, err := tx.Endpoint(ctx, handle)
			if errors.Is(err, backend.ErrNoConversation) {
				err = errors.New("no such row")
			}
			return e, err
		},
	},
	{
		id: "B05", says: "a settle under a lost lease reports success",
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
	{
		id: "Q02", says: "a claim is slow",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			time.Sleep(slow.By(600 * time.Millisecond)) // as the bound of its check
			return tx.Tx.Claim(ctx, r)
		},
	},
	{
		id: "Q05", says: "every second claim finds nothing",
		claim: func() func(context.Context, *brokenTx, backend.ClaimRequest) (backend.Claim, error) {
			var n atomic.Int64
			return func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
				if n.Add(1)%2 == 0 {
					return backend.Claim{}, nil
				}
				return tx.Tx.Claim(ctx, r)
			}
		}(),
	},
	{id: "Q06", says: "dead letters are lost", deadLetters: noDeadLetters},
	{
		id: "O09", says: "consumed messages stay",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			r.Consume = r.Consume && !r.Alone
			return tx.Tx.Claim(ctx, r)
		},
	},
	{id: "W01", says: "a rollback to a savepoint undoes nothing", rollbackTo: func() error { return nil }},
	{id: "W02", says: "a rollback commits", rollback: commitInstead},
	{id: "W03", says: "a hold is lost although it should be kept", keep: func() error { return nil }},
	{id: "W04", says: "a rollback to a savepoint undoes nothing", rollbackTo: func() error { return nil }},
	{
		id: "W05", says: "of messages that are acknowledged together only the first is removed",
		settle: func(ctx context.Context, tx backend.Tx, outcomes []backend.Outcome) (bool, error) {
			outcomes = slices.Clone(outcomes)
			for i := range outcomes {
				outcomes[i].Done = outcomes[i].Done[:min(1, len(outcomes[i].Done))]
			}
			return tx.Settle(ctx, outcomes)
		},
	},
	{
		id: "W06", says: "nothing is received from a queue while a queue defined earlier has messages",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			queues, err := tx.be.Queues(ctx, 0)
			for _, q := range queues {
				if q.ID < r.Queue && q.Depth > 0 {
					return backend.Claim{}, err
				}
			}
			return tx.Tx.Claim(ctx, r)
		},
	},
	{
		id: "W07", says: "a queue gives one message for four of a queue that was defined earlier",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			queues, err := tx.be.Queues(ctx, 0)
			for _, q := range queues {
				if q.ID < r.Queue && q.Depth%4 != 0 {
					return backend.Claim{}, err
				}
			}
			return tx.Tx.Claim(ctx, r)
		},
	},
	{
		id: "W08", says: "what is sent to a side that has ended is reported as sent",
		send: func(ctx context.Context, tx backend.Tx, version int64, out []backend.Outgoing) ([]backend.Sent, error) {
			sent, err := tx.Send(ctx, version, out)
			var refused *backend.Refused
			if !errors.As(err, &refused) {
				return sent, err
			}
			var rest []backend.Outgoing
			for i, o := range out {
				if refused.Refusals[i] != backend.RefusedFar {
					rest = append(rest, o)
				}
			}
			if len(rest) == 0 || len(rest) == len(out) {
				return nil, nil
			}
			return tx.Send(ctx, version, rest)
		},
	},
	crowded(),
	{
		id: "V01", says: "a message that is withheld is not found",
		find: func(ctx context.Context, be backend.Backend, message backend.ID) (backend.ID, error) {
			place, err := be.Find(ctx, message)
			if list, _ := be.Conversations(ctx, backend.ConversationQuery{Handle: place, Limit: 1}); len(list) > 0 && list[0].Withheld > 0 {
				return backend.ID{}, backend.ErrNotPending
			}
			return place, err
		},
	},
	{
		id: "V02", says: "promotions of groups that have ended look like others",
		promotions: func(list []backend.PromotionStatus) {
			for i := range list {
				list[i].Ended = false
			}
		},
	},
	{
		id: "V03", says: "deferred groups are never overdue",
		overdue: func(overdue map[backend.Job]time.Duration) { delete(overdue, backend.JobDeferred) },
	},
	{id: "X01", says: "the text of a failure is lost", settle: failing(func(o *backend.Outcome) { o.Failure.Error = "" })},
	{id: "X02", says: "a rollback to a savepoint undoes nothing", rollbackTo: func() error { return nil }},
	{id: "X03", says: "a failing group is not deferred", settle: failing(func(o *backend.Outcome) { o.Defer = 0 })},
	{
		id: "X04", says: "a queue cannot be disabled",
		putCatalog: func(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
			c.Queues = slices.Clone(c.Queues)
			for i := range c.Queues {
				c.Queues[i].Disabled = false
			}
			return tx.PutCatalog(ctx, c)
		},
	},
	{id: "X05", says: "attempts are not counted beyond the first", settle: failing(func(o *backend.Outcome) { o.Failure.Attempts = 1 })},
	{
		id: "X06", says: "the store parks a message that has failed five times",
		settle: failing(func(o *backend.Outcome) {
			if o.Failure.Attempts >= 5 {
				o.Park, o.Defer = "five times", 0
			}
		}),
	},
	{id: "X07", says: "a rollback commits", rollback: commitInstead},
	{
		id: "X13", says: "only the first line of an error is stored",
		settle: failing(func(o *backend.Outcome) { o.Failure.Error, _, _ = strings.Cut(o.Failure.Error, "\n") }),
	},
	{id: "X11", says: "no failure is charged", settle: failing(func(o *backend.Outcome) { o.Park = ""; o.Defer = time.Second })},
	{
		id: "X20", says: "the store does not classify a lost connection",
		putReader: func() ([]backend.Trace, error) { return nil, errors.New("conn closed") },
	},
	{id: "X12", says: "an error's text is cut to 1000 bytes", groups: cutReasons},
	{
		id: "X08", says: "the store does not know of receivers that died",
		putReader: func() ([]backend.Trace, error) { return nil, nil },
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			c, err := tx.Tx.Claim(ctx, r)
			for _, h := range c.Holds {
				for _, m := range h.Messages {
					m.Deaths = 0
				}
			}
			return c, err
		},
	},
	{id: "B06", says: "the store does not check whether a context is cancelled", uncancelled: true},
	{id: "B07", says: "a store that is not migrated claims to be migrated", check: func() error { return nil }},
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
		id: "L10", says: "intent modes exclude each other",
		lock: func(m backend.LockMode, wait time.Duration) (backend.LockMode, time.Duration) {
			if m == backend.LockIX {
				return backend.LockX, wait
			}
			return m, wait
		},
	},
	{
		id: "L02", says: "a request does not wait",
		lock: func(m backend.LockMode, _ time.Duration) (backend.LockMode, time.Duration) { return m, 0 },
	},
	{
		id: "L03", says: "a transaction's lock is released at its end only",
		unlock: func() error { return nil },
	},
	{
		id: "F11", says: "a plan is never over",
		progress: func(ctx context.Context, be backend.Backend, schedule string) (backend.Progress, error) {
			p, err := be.Progress(ctx, schedule)
			p.Over = false
			return p, err
		},
	},
	{
		id: "F14", says: "a plan that is deleted stays, without its waiting tasks",
		control: func(ctx context.Context, tx backend.Tx, schedule string, c backend.TaskControl, task backend.ID) (int, []backend.ID, error) {
			if c == backend.PlanDelete {
				c = backend.PlanCancel
			}
			return tx.Control(ctx, schedule, c, task)
		},
	},
	{
		id: "B13", says: "texts are cut at 500 bytes", groups: func(ctx context.Context, be backend.Backend, q backend.GroupQuery) ([]backend.GroupStatus, error) {
			list, err := be.Groups(ctx, q)
			for i, g := range list {
				list[i].Owner = g.Owner[:min(len(g.Owner), 500)]
			}
			return list, err
		},
	},
	{id: "B14", says: "a statement may end the transaction", sql: takesAll{}},
	{
		id: "B15", says: "a joined transaction is not checked",
		join: func(ctx context.Context, be backend.Backend) (backend.Tx, error) { return be.Begin(ctx) },
	},
	{
		id: "B16", says: "the driver's error beside open rows is passed on", sql: readsTwo{},
		post: func(ctx context.Context, tx backend.Tx, version int64, ps []backend.Posting) ([]backend.Posted, error) {
			if openRows.Load() > 0 {
				return nil, errors.New("busy buffer")
			}
			return tx.Post(ctx, version, ps)
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

// unvalidated stores a catalog whose types take every body.
func unvalidated(ctx context.Context, tx backend.Tx, c *backend.Catalog) (int64, error) {
	c.Types = slices.Clone(c.Types)
	for i := range c.Types {
		c.Types[i].Validation, c.Types[i].Validator = "", ""
	}
	return tx.PutCatalog(ctx, c)
}

// cutReasons lists groups with reasons that are cut inside of characters.
func cutReasons(ctx context.Context, be backend.Backend, q backend.GroupQuery) ([]backend.GroupStatus, error) {
	list, err := be.Groups(ctx, q)
	for i, g := range list {
		list[i].Reason = g.Reason[:min(len(g.Reason), 1000)]
	}
	return list, err
}

// failing changes the outcomes of holds with a message that failed.
func failing(change func(*backend.Outcome)) func(context.Context, backend.Tx, []backend.Outcome) (bool, error) {
	return func(ctx context.Context, tx backend.Tx, outcomes []backend.Outcome) (bool, error) {
		outcomes = slices.Clone(outcomes)
		for i := range outcomes {
			if f := outcomes[i].Failure; f != nil {
				copied := *f
				outcomes[i].Failure = &copied
				change(&outcomes[i])
			}
		}
		return tx.Settle(ctx, outcomes)
	}
}

// crowded is a store from which no more than four groups can be had at once.
func crowded() *mistake {
	var inHand atomic.Int64
	return &mistake{
		id: "Q01", says: "only four groups can be in hand at once",
		claim: func(ctx context.Context, tx *brokenTx, r backend.ClaimRequest) (backend.Claim, error) {
			if inHand.Load() >= 4 {
				return backend.Claim{Contended: true}, nil
			}
			c, err := tx.Tx.Claim(ctx, r)
			inHand.Add(int64(len(c.Holds)))
			return c, err
		},
		settle: func(ctx context.Context, tx backend.Tx, outcomes []backend.Outcome) (bool, error) {
			for _, o := range outcomes {
				if len(o.Done) > 0 { // else it is kept on by lease
					inHand.Add(-1)
				}
			}
			return tx.Settle(ctx, outcomes)
		},
	}
}

// hundredth forgets every hundredth promotion.
func hundredth() func(context.Context, backend.Tx, backend.Promotion) error {
	var n atomic.Int64
	return func(ctx context.Context, tx backend.Tx, p backend.Promotion) error {
		if n.Add(1)%100 == 0 {
			return nil
		}
		return tx.Promote(ctx, p)
	}
}

func commitInstead(ctx context.Context, tx backend.Tx) error { return tx.Commit(ctx) }

func noDeadLetters([]backend.DeadStatus, error) ([]backend.DeadStatus, error) { return nil, nil }

// noSizes forgets how large dead letters are.
func noSizes(list []backend.DeadStatus, err error) ([]backend.DeadStatus, error) {
	for i := range list {
		list[i].Bytes = 0
	}
	return list, err
}

func allOrdinary(list []backend.DeadStatus, err error) ([]backend.DeadStatus, error) {
	for i := range list {
		list[i].Message.Priority = 5
	}
	return list, err
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

// brokenStore is memoryStore with a mistake.
func brokenStore(m *mistake) Store {
	open := func(s *memstore.Store) func(context.Context) (backend.Backend, error) {
		return func(context.Context) (backend.Backend, error) { return &broken{s.Open(), m}, nil }
	}
	return Store{
		Lose: rolledBack,
		Open: open(memstore.NewStore(memstore.Options{})),
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return open(memstore.NewStore(memstore.Options{}))(ctx)
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

func (b *broken) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	return b.Handle.Maintain(b.with.context(ctx), job, limit)
}

func (b *broken) Groups(ctx context.Context, q backend.GroupQuery) ([]backend.GroupStatus, error) {
	if b.with.groups != nil {
		return b.with.groups(ctx, b.Handle, q)
	}
	return b.Handle.Groups(ctx, q)
}

func (b *broken) DeadLetters(ctx context.Context, q backend.DeadQuery) ([]backend.DeadStatus, error) {
	if b.with.deadLetters != nil {
		return b.with.deadLetters(b.Handle.DeadLetters(ctx, q))
	}
	return b.Handle.DeadLetters(ctx, q)
}

func (b *broken) Find(ctx context.Context, message backend.ID) (backend.ID, error) {
	if b.with.find != nil {
		return b.with.find(ctx, b.Handle, message)
	}
	return b.Handle.Find(ctx, message)
}

func (b *broken) Promotions(ctx context.Context, after backend.ID, limit int) ([]backend.PromotionStatus, error) {
	list, err := b.Handle.Promotions(ctx, after, limit)
	if b.with.promotions != nil {
		b.with.promotions(list)
	}
	return list, err
}

func (b *broken) Overdue(ctx context.Context) (map[backend.Job]time.Duration, error) {
	overdue, err := b.Handle.Overdue(ctx)
	if b.with.overdue != nil {
		b.with.overdue(overdue)
	}
	return overdue, err
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

func (tx *brokenTx) Keep(ctx context.Context, h *backend.Hold, lease time.Duration, owner string) error {
	if tx.with.keep != nil {
		return tx.with.keep()
	}
	return tx.Tx.Keep(ctx, h, lease, owner)
}

func (tx *brokenTx) RollbackTo(ctx context.Context, name string) error {
	if tx.with.rollbackTo != nil {
		return tx.with.rollbackTo()
	}
	return tx.Tx.RollbackTo(ctx, name)
}

func (tx *brokenTx) Rollback(ctx context.Context) error {
	if tx.with.rollback != nil {
		return tx.with.rollback(ctx, tx.Tx)
	}
	return tx.Tx.Rollback(ctx)
}

func (b *broken) PutReader(ctx context.Context, a backend.ReaderRecord) ([]backend.Trace, error) {
	traces, err := b.Handle.PutReader(ctx, a)
	if b.with.putReader != nil {
		return b.with.putReader()
	}
	return traces, err
}

func (tx *brokenTx) Commit(ctx context.Context) error {
	if tx.with.commit != nil {
		return tx.with.commit(ctx, tx.Tx)
	}
	return tx.Tx.Commit(tx.with.context(ctx))
}

func (tx *brokenTx) Control(ctx context.Context, schedule string, c backend.TaskControl, task backend.ID) (int, []backend.ID, error) {
	if tx.with.control != nil {
		return tx.with.control(ctx, tx.Tx, schedule, c, task)
	}
	return tx.Tx.Control(ctx, schedule, c, task)
}

func (b *broken) Progress(ctx context.Context, schedule string) (backend.Progress, error) {
	if b.with.progress != nil {
		return b.with.progress(ctx, b.Handle, schedule)
	}
	return b.Handle.Progress(ctx, schedule)
}

func (tx *brokenTx) Unlock(ctx context.Context, name string) error {
	if tx.with.unlock != nil {
		return tx.with.unlock()
	}
	return tx.Tx.Unlock(ctx, name)
}

func (b *broken) OpenSession(ctx context.Context, lease time.Duration, owner string) (backend.Session, error) {
	s, err := b.Handle.OpenSession(ctx, lease, owner)
	if err != nil || b.with.lock == nil {
		return s, err
	}
	return brokenSession{s, b.with}, nil
}

type brokenSession struct {
	backend.Session
	with *mistake
}

func (s brokenSession) Lock(ctx context.Context, name string, mode backend.LockMode, wait time.Duration) (backend.Grant, error) {
	mode, wait = s.with.lock(mode, wait)
	return s.Session.Lock(ctx, name, mode, wait)
}

func (s brokenSession) LockTest(ctx context.Context, name string, mode backend.LockMode) (bool, error) {
	mode, _ = s.with.lock(mode, 0)
	return s.Session.LockTest(ctx, name, mode)
}

// openRows counts the rows of readsTwo that are not closed.
var openRows atomic.Int64

// readsTwo has two rows for every query.
type readsTwo struct{ backend.Execer }

func (readsTwo) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return sql.OpenDB(twoRows{}).QueryContext(ctx, query, args...)
}

// twoRows is a driver, a connection and the rows that it reads, of which none comes.
type twoRows struct{ driver.Conn }

func (twoRows) Connect(context.Context) (driver.Conn, error) { return twoRows{}, nil }
func (twoRows) Driver() driver.Driver                        { return nil }
func (twoRows) Close() error                                 { return nil }

func (twoRows) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	openRows.Add(1)
	return noRows{}, nil
}

type noRows struct{}

func (noRows) Columns() []string         { return []string{"n"} }
func (noRows) Close() error              { openRows.Add(-1); return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

func (b *broken) Capabilities() backend.Capabilities {
	c := b.Handle.Capabilities()
	if b.with.join != nil {
		c.Joiner = joins{b}
	}
	return c
}

// joins joins everything.
type joins struct{ *broken }

func (j joins) Join(ctx context.Context, _ backend.Execer) (backend.Tx, error) {
	return j.with.join(ctx, j.broken)
}

// takesAll runs statements, as it says.
type takesAll struct{ backend.Execer }

func (takesAll) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return driver.ResultNoRows, nil
}

func (t *brokenTx) SQL() backend.Execer {
	if t.with.sql != nil {
		return t.with.sql
	}
	return t.Tx.SQL()
}
