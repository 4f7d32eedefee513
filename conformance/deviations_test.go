package conformance

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/memstore"
)

// deviation is a correct store except for one mistake that authors of plugins easily make. It
// returns something wrong, ignores a request, or leaves something undone.
type deviation struct {
	id   string // the sentence that it breaks
	says string
	by   string // the check that must catch it; empty: any of the sentence

	capabilities func(*backend.Capabilities)
	stays        bool // Close does nothing
	volatile     bool // the last Close empties the store
	unlimited    bool // Maintain has no limit
	strays       bool // Maintain names another queue
	twice        bool // each change of the catalog is two
	buries       bool // what is gone can become a dead letter
	haltsAtOnce  bool // no task starts once one is dead
	haltedEarly  bool // a plan is shown as halted once a task is dead
	own          bool // traces of the worker's own readers
	sides        bool // a page of conversations has as many sides as it may have conversations
	first        bool // the first handle alone says what capabilities makes of them
	rollback     func(*devTx) error
	firstOnly    bool             // Extend ends at the first lease that is lost
	swallows     map[string]error // by method: what it returns no error for
	tx           func(backend.Tx) backend.Tx

	info          func(*backend.Info)
	conversations func(*backend.ConversationQuery)
	withheld      func(*backend.ID, *int)
	groups        func(*backend.GroupQuery)
	brief         func(*backend.GroupStatus)
	dead          func(*backend.DeadQuery)
	tasks         func(*backend.TaskQuery)
	waiting       func(*backend.Place, *int)
	unlisted      string // the state of messages that Waiting leaves out

	queue        func(*backend.QueueStatus)
	group        func(*backend.GroupStatus)
	conversation func(*backend.ConversationStatus)
	stream       func(*backend.WithheldStream)
	reader       func(*backend.ReaderStatus)
	letter       func(*backend.DeadStatus)
	retained     func(*backend.RetainedMessage)
	post         func(*backend.PostStatus)
	overdue      func(map[backend.Job]time.Duration)
	message      func(*backend.Message)
	ended        func(*backend.Ended)
	progress     func(*backend.Progress)
	queues       func([]backend.QueueStatus)
	listed       func(*backend.WaitingMessage)
}

var deviations = append(contractDeviations, []*deviation{
	{id: "RA", says: "a message that is gone becomes a dead letter", buries: true},
	{id: "A20", says: "a store with a single writer lets a caller wait for itself",
		by: "a group that another receiver leases is refused at once", capabilities: func(c *backend.Capabilities) {
			c.SingleWriter, c.HoldsInTransaction = true, false
		}},
	{id: "A20", says: "a store with a single writer says that a group is busy", by: "a group that another receiver leases is refused at once",
		capabilities: func(c *backend.Capabilities) { c.SingleWriter, c.HoldsInTransaction = true, false },
		tx:           func(tx backend.Tx) backend.Tx { return alwaysBusy{tx} }},
	{id: "B11", says: "a single handle says that it holds by lease", first: true,
		capabilities: func(c *backend.Capabilities) { c.HoldsInTransaction = false }},
	{id: "Q03", says: "a store that is asked for news returns nothing", by: "a commit of another process wakes a receiver",
		capabilities: func(c *backend.Capabilities) { c.Listener, c.Watcher = nil, nothingNew{} }},
	{id: "G07", says: "Close leaves transactions open", by: "closing a handle rolls back", stays: true},
	{id: "G07", says: "a rollback while a verb runs does nothing", by: "a transaction that waits is rolled back",
		rollback: func(tx *devTx) error {
			if tx.sending.Load() {
				return nil
			}
			return tx.Tx.Rollback(context.Background())
		}},
	{id: "X17", says: "closing the last handle removes the store", volatile: true},
	{id: "V04", says: "a job ignores its limit", unlimited: true},
	{id: "V04", says: "a job names a queue that got nothing", by: "a job names its queues", strays: true},
	{id: "V04", says: "conversations are listed from the first one on",
		conversations: func(q *backend.ConversationQuery) { q.After = backend.ID{} }},
	{id: "V04", says: "all withheld streams are listed", withheld: func(_ *backend.ID, limit *int) { *limit = 1000 }},
	{id: "V04", says: "withheld streams are listed from the first one on",
		withheld: func(after *backend.ID, _ *int) { *after = backend.ID{} }},
	{id: "V04", says: "groups are listed from the first one on",
		groups: func(q *backend.GroupQuery) { q.After = backend.Place{} }},
	{id: "V04", says: "a page begins with the last group of the page before",
		groups: func(q *backend.GroupQuery) { q.After.ID = backend.ID{} }},
	{id: "V04", says: "groups of all states are listed",
		groups: func(q *backend.GroupQuery) { q.State = "" }},
	{id: "V04", says: "a brief list leaves out why groups are parked", brief: func(g *backend.GroupStatus) { g.Reason = "" }},
	{id: "V04", says: "dead letters are listed from the newest one on",
		dead: func(q *backend.DeadQuery) { q.After = backend.Place{} }},
	{id: "V04", says: "dead letters always have their bodies",
		dead: func(q *backend.DeadQuery) { q.Bodies = true }},
	{id: "V04", says: "dead letters never have their bodies",
		dead: func(q *backend.DeadQuery) { q.Bodies = false }},
	{id: "V04", says: "tasks are listed from the first one on",
		tasks: func(q *backend.TaskQuery) { q.After = backend.ID{} }},
	{id: "V04", says: "tasks are listed whether they run or not",
		tasks: func(q *backend.TaskQuery) { q.Running = false }},
	{id: "M06", says: "a change of the catalog counts twice", twice: true},
	{id: "F06", says: "a dead task halts its own phase", haltsAtOnce: true},
	{id: "F06", says: "a plan is shown as halted while tasks of its phase start", by: "a plan halts at the end of the phase", haltedEarly: true},
	{id: "X15", says: "a message does not have its group",
		message: func(m *backend.Message) { m.Group = backend.ID{} }},
	{id: "X16", says: "a worker's own readers count as dead", own: true},
	{id: "E06", says: "an end does not say whose queue was told", ended: func(d *backend.Ended) { d.Queue = 0 }},
	{id: "E06", says: "an end does not say that the peer had ended",
		ended: func(d *backend.Ended) { d.FarEnded = false }},
	{id: "E06", says: "an end does not say that both sides have ended",
		ended: func(d *backend.Ended) { d.FarGone = false }},
	{id: "V05", says: "a store says nothing of itself", info: func(i *backend.Info) { *i = backend.Info{} }},
	{id: "V05", says: "the age of a queue is lost", queue: func(q *backend.QueueStatus) { q.Oldest = 0 }},
	{id: "V05", says: "the age of a group is lost", group: func(g *backend.GroupStatus) { g.Oldest = 0 }},
	{id: "V05", says: "the age of a group is that of its youngest message",
		group: func(g *backend.GroupStatus) { g.Oldest = 1 }},
	{id: "V05", says: "the priority of a group is lost", group: func(g *backend.GroupStatus) { g.Priority = 0 }},
	{id: "V05", says: "the end of a lease is not shown", group: func(g *backend.GroupStatus) { g.Until = 0 }},
	{id: "V05", says: "what waits for a side is not counted",
		conversation: func(c *backend.ConversationStatus) { c.Waiting = 0 }},
	{id: "V05", says: "a timer is not shown", conversation: func(c *backend.ConversationStatus) { c.Timer = 0 }},
	{id: "V05", says: "the age of a conversation is lost",
		conversation: func(c *backend.ConversationStatus) { c.Age = 0 }},
	{id: "V05", says: "the time since which a stream waits is lost", stream: func(w *backend.WithheldStream) { w.Waiting = 0 }},
	{id: "V05", says: "the end of a worker's record is lost", reader: func(r *backend.ReaderStatus) { r.Left = 0 }},
	{id: "V05", says: "the time at which a message was stored is lost",
		message: func(m *backend.Message) { m.Enqueued = time.Time{} }},
	{id: "V05", says: "the time at which the message of a dead letter was stored is lost",
		letter: func(d *backend.DeadStatus) { d.Message.Enqueued = time.Time{} }},
	{id: "V05", says: "the time at which a retained message was stored is lost",
		retained: func(r *backend.RetainedMessage) { r.Message.Enqueued = time.Time{} }},
	{id: "V05", says: "the age of a dead letter is lost", letter: func(d *backend.DeadStatus) { d.Age = 0 }},
	{id: "V05", says: "the time since which a group is parked is lost", group: func(g *backend.GroupStatus) { g.Since = 0 }},
	{id: "V05", says: "the time at which a delayed post is due is lost", post: func(p *backend.PostStatus) { p.Due = 0 }},
	{id: "V06", says: "waiting messages are listed from the first one on", by: "what waits is listed",
		waiting: func(after *backend.Place, _ *int) { *after = backend.Place{} }},
	{id: "V06", says: "a page of waiting messages has one too many", by: "what waits is listed",
		waiting: func(_ *backend.Place, limit *int) { *limit++ }},
	{id: "V06", says: "waiting messages have no headers", by: "what waits is listed",
		listed: func(m *backend.WaitingMessage) { m.Headers = "" }},
	{id: "V06", says: "waiting messages have no types", by: "what waits is listed",
		listed: func(m *backend.WaitingMessage) { m.Type = "" }},
	{id: "V06", says: "waiting messages have no groups", by: "what waits is listed",
		listed: func(m *backend.WaitingMessage) { m.Group = backend.ID{} }},
	{id: "V06", says: "delayed posts are not listed with what waits", by: "what waits is listed", unlisted: "delayed"},
	{id: "V06", says: "withheld messages are not listed with what waits", by: "what waits is listed", unlisted: "withheld"},
	{id: "V03", says: "what is due has been waiting for no time",
		overdue: func(due map[backend.Job]time.Duration) {
			for job := range due {
				due[job] = 0
			}
		}},
}...)

func (d *deviation) store() Store {
	s := memstore.NewStore(memstore.Options{})
	var open atomic.Int64
	return Store{Open: func(context.Context) (backend.Backend, error) {
		be := &devBackend{Backend: s.Open(), d: d, open: &open}
		be.right = open.Add(1) > 1 && d.first
		return be, nil
	}}
}

type devBackend struct {
	backend.Backend
	d      *deviation
	right  bool // of its capabilities
	open   *atomic.Int64
	closed atomic.Bool
}

type devTx struct {
	backend.Tx
	be      *devBackend
	sending atomic.Bool
}

// each changes what a list has, if there is a change.
func each[T any](list []T, change func(*T)) []T {
	for i := range list {
		if change != nil {
			change(&list[i])
		}
	}
	return list
}

func (b *devBackend) Capabilities() backend.Capabilities {
	c := b.Backend.Capabilities()
	if b.d.capabilities != nil && !b.right {
		b.d.capabilities(&c)
	}
	return c
}

func (b *devBackend) Close() error {
	switch {
	case b.d.stays:
		return nil
	case !b.closed.Swap(true) && b.open.Add(-1) == 0 && b.d.volatile:
		_ = b.Backend.Uninstall(context.Background())
	}
	return b.Backend.Close()
}

func (b *devBackend) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := b.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if b.d.tx != nil {
		return b.d.tx(tx), nil
	}
	if b.d.swallows != nil {
		tx = swallowing{tx, b.d.swallows}
	}
	return &devTx{Tx: tx, be: b}, nil
}

func (b *devBackend) Info(ctx context.Context) (backend.Info, error) {
	info, err := b.Backend.Info(ctx)
	if b.d.info != nil {
		b.d.info(&info)
	}
	return info, err
}

func (b *devBackend) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	if b.d.unlimited {
		limit = 1 << 20
	}
	done, err := b.Backend.Maintain(ctx, job, limit)
	if b.d.strays {
		for i := range done.Queues {
			done.Queues[i]++
		}
	}
	return done, err
}

func (b *devBackend) Conversations(
	ctx context.Context, q backend.ConversationQuery,
) ([]backend.ConversationStatus, error) {
	if b.d.conversations != nil {
		b.d.conversations(&q)
	}
	list, err := b.Backend.Conversations(ctx, q)
	if b.d.sides {
		list = list[:min(q.Limit, len(list))]
	}
	return each(list, b.d.conversation), err
}

func (b *devBackend) Queues(ctx context.Context, queue int64) ([]backend.QueueStatus, error) {
	list, err := b.Backend.Queues(ctx, queue)
	if b.d.queues != nil {
		b.d.queues(list)
	}
	return each(list, b.d.queue), err
}

func (b *devBackend) Groups(ctx context.Context, q backend.GroupQuery) ([]backend.GroupStatus, error) {
	if b.d.groups != nil {
		b.d.groups(&q)
	}
	list, err := b.Backend.Groups(ctx, q)
	if q.Brief {
		list = each(list, b.d.brief)
	}
	return each(list, b.d.group), err
}

func (b *devBackend) DeadLetters(ctx context.Context, q backend.DeadQuery) ([]backend.DeadStatus, error) {
	if b.d.dead != nil {
		b.d.dead(&q)
	}
	list, err := b.Backend.DeadLetters(ctx, q)
	return each(list, b.d.letter), err
}

func (b *devBackend) Retained(ctx context.Context, handle backend.ID) ([]backend.RetainedMessage, error) {
	list, err := b.Backend.Retained(ctx, handle)
	return each(list, b.d.retained), err
}

func (b *devBackend) PostStatus(ctx context.Context, queue int64, id backend.ID) (*backend.PostStatus, error) {
	post, err := b.Backend.PostStatus(ctx, queue, id)
	if b.d.post != nil && post != nil {
		b.d.post(post)
	}
	return post, err
}

func (b *devBackend) Overdue(ctx context.Context) (map[backend.Job]time.Duration, error) {
	due, err := b.Backend.Overdue(ctx)
	if b.d.overdue != nil {
		b.d.overdue(due)
	}
	return due, err
}

func (b *devBackend) Withheld(ctx context.Context, after backend.ID, limit int) ([]backend.WithheldStream, error) {
	if b.d.withheld != nil {
		b.d.withheld(&after, &limit)
	}
	list, err := b.Backend.Withheld(ctx, after, limit)
	return each(list, b.d.stream), err
}

func (b *devBackend) Waiting(ctx context.Context, after backend.Place, limit int) ([]backend.WaitingMessage, error) {
	if b.d.waiting != nil {
		b.d.waiting(&after, &limit)
	}
	list, err := b.Backend.Waiting(ctx, after, limit)
	if b.d.unlisted != "" {
		list = slices.DeleteFunc(list, func(m backend.WaitingMessage) bool { return m.State == b.d.unlisted })
	}
	return each(list, b.d.listed), err
}

func (b *devBackend) ReaderRecords(ctx context.Context) ([]backend.ReaderStatus, error) {
	list, err := b.Backend.ReaderRecords(ctx)
	return each(list, b.d.reader), err
}

func (b *devBackend) TaskLog(ctx context.Context, q backend.TaskQuery) ([]backend.TaskStatus, error) {
	if b.d.tasks != nil {
		b.d.tasks(&q)
	}
	return b.Backend.TaskLog(ctx, q)
}

func (b *devBackend) PutReader(ctx context.Context, r backend.ReaderRecord) ([]backend.Trace, error) {
	traces, err := b.Backend.PutReader(ctx, r)
	if !b.d.own || err != nil {
		return traces, err
	}
	list, err := b.Backend.ReaderRecords(ctx)
	for _, other := range list {
		for _, m := range other.InHand {
			if other.Worker == r.Worker && other.Reader != r.Reader && slices.Contains(r.InHand, m) {
				traces = append(traces, backend.Trace{Message: m, Reader: other.Reader, Worker: other.Worker})
			}
		}
	}
	return traces, err
}

func (b *devBackend) Progress(ctx context.Context, plan string) (backend.Progress, error) {
	p, err := b.Backend.Progress(ctx, plan)
	if b.d.progress != nil {
		b.d.progress(&p)
	}
	if b.d.haltedEarly && err == nil {
		plans, err := b.Backend.Plans(ctx, plan)
		p.Halted = p.Halted || len(plans) > 0 && plans[0].Counts[backend.TaskDead] > 0
		return p, err
	}
	return p, err
}

func (b *devBackend) Plans(ctx context.Context, name string) ([]backend.PlanStatus, error) {
	list, err := b.Backend.Plans(ctx, name)
	return list, swallow(b.d.swallows, "Plans", err)
}

func (b *devBackend) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	if !b.d.firstOnly {
		return b.Backend.Extend(ctx, holds, d)
	}
	for _, h := range holds {
		if err := b.Backend.Extend(ctx, []*backend.Hold{h}, d); err != nil {
			return err
		}
	}
	return nil
}

func (tx *devTx) Rollback(ctx context.Context) error {
	if tx.be.d.rollback != nil {
		return tx.be.d.rollback(tx)
	}
	return tx.Tx.Rollback(ctx)
}

func (tx *devTx) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	tx.sending.Store(true)
	defer tx.sending.Store(false)
	return tx.Tx.Send(ctx, version, messages)
}

func (tx *devTx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	c, err := tx.Tx.Claim(ctx, r)
	for _, h := range c.Holds {
		for _, m := range h.Messages {
			if tx.be.d.message != nil {
				tx.be.d.message(m)
			}
		}
	}
	return c, err
}

func (tx *devTx) Settle(ctx context.Context, outcomes []backend.Outcome) (bool, error) {
	again, err := tx.Tx.Settle(ctx, outcomes)
	if tx.be.d.buries && errors.Is(err, backend.ErrFenced) {
		outcomes = slices.Clone(outcomes)
		for i := range outcomes {
			outcomes[i].Dead = nil
		}
		return tx.Tx.Settle(ctx, outcomes)
	}
	return again, err
}

func (tx *devTx) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	done, err := tx.Tx.EndDialog(ctx, end)
	if tx.be.d.ended != nil {
		tx.be.d.ended(&done)
	}
	return done, err
}

func (tx *devTx) PutCatalog(ctx context.Context, change *backend.Catalog) (int64, error) {
	version, err := tx.Tx.PutCatalog(ctx, change)
	if err == nil && tx.be.d.twice {
		return tx.Tx.PutCatalog(ctx, new(backend.Catalog))
	}
	return version, err
}

func (tx *devTx) ClaimTasks(ctx context.Context, c backend.TaskClaim) ([]backend.TaskHold, error) {
	plans, err := tx.be.Plans(ctx, "")
	for _, p := range plans {
		if tx.be.d.haltsAtOnce && p.Counts[backend.TaskDead] > 0 {
			return nil, err
		}
	}
	return tx.Tx.ClaimTasks(ctx, c)
}

// alwaysBusy has no group that can be locked.
type alwaysBusy struct{ backend.Tx }

func (alwaysBusy) LockGroup(context.Context, backend.ID) error { return backend.ErrGroupBusy }

// nothingNew is a Watcher that never has news.
type nothingNew struct{}

func (nothingNew) Newest(context.Context, []int64) (map[int64]int64, error) { return nil, nil }
