package parleytest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/frail"
)

// store is a backend as the kit sees it: it notes what transactions do, and fails when it is told to.
type store struct {
	*frail.Backend
	shared bool       // it is not the kit's to close
	turn   sync.Mutex // of maintenance: what another goroutine has in hand is moved when ours begins

	mu    sync.Mutex
	posts []*Sent // all that were posted, committed or not
	fault faults
}

// Close implements backend.Backend.
func (s *store) Close() error {
	if s.shared {
		return nil
	}
	return s.Backend.Close()
}

// Capabilities implements backend.Backend.
func (s *store) Capabilities() backend.Capabilities {
	c := s.Backend.Capabilities()
	if c.Joiner != nil {
		c.Joiner = joiner{s, c.Joiner}
	}
	if s.shared {
		c.Logging = nil // its log is that of the Broker to which it belongs
	}
	return c
}

// Maintain implements backend.Backend.
func (s *store) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.Backend.Maintain(ctx, job, limit)
}

// Begin implements backend.Backend.
func (s *store) Begin(ctx context.Context) (backend.Tx, error) {
	be, err := s.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &watched{Tx: be, s: s}, nil
}

type joiner struct {
	s *store
	backend.Joiner
}

// Join implements backend.Joiner.
func (j joiner) Join(ctx context.Context, user backend.Execer) (backend.Tx, error) {
	be, err := j.Joiner.Join(ctx, user)
	if err != nil {
		return nil, err
	}
	return &watched{Tx: be, s: j.s}, nil
}

// watched is a transaction that notes what is done in it.
type watched struct {
	backend.Tx
	s       *store
	works   bool            // it does more than to claim
	leased  []*backend.Hold // claimed by lease
	sent    []*Sent
	ended   []backend.ID
	marks   []mark
	run     *run // whose message it settles
	outcome []backend.Outcome
}

// mark is what had been done at a savepoint.
type mark struct {
	name        string
	sent, ended int
}

func (t *watched) Savepoint(ctx context.Context, name string) error {
	t.marks = append(t.marks, mark{name, len(t.sent), len(t.ended)})
	return t.Tx.Savepoint(ctx, name)
}

func (t *watched) RollbackTo(ctx context.Context, name string) error {
	m := t.mark(name, 1)
	t.sent, t.ended = t.sent[:m.sent], t.ended[:m.ended]
	return t.Tx.RollbackTo(ctx, name)
}

func (t *watched) Release(ctx context.Context, name string) error {
	t.mark(name, 0)
	return t.Tx.Release(ctx, name)
}

func (t *watched) Resave(ctx context.Context, name string) error {
	t.mark(name, 0)
	t.marks = append(t.marks, mark{name, len(t.sent), len(t.ended)})
	return t.Tx.Resave(ctx, name)
}

// mark finds the last savepoint of a name. Those after it are gone, and so is it unless one is to be kept.
func (t *watched) mark(name string, keep int) mark {
	for i, m := range slices.Backward(t.marks) {
		if m.name == name {
			t.marks = t.marks[:i+keep]
			return m
		}
	}
	return mark{name, len(t.sent), len(t.ended)}
}

func (t *watched) SQL() backend.Execer {
	t.works = true
	return t.Tx.SQL()
}

func (t *watched) Once(ctx context.Context, key string, keep time.Duration) (bool, error) {
	t.works = true
	return t.Tx.Once(ctx, key, keep)
}

func (t *watched) Post(ctx context.Context, version int64, posts []backend.Posting) ([]backend.Posted, error) {
	if err := meet(ctx, t.s, &t.s.fault.send); err != nil {
		return nil, err
	}
	t.works = true
	posted, err := t.Tx.Post(ctx, version, posts)
	if err != nil {
		return posted, err
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	for i, p := range posts {
		if !posted[i].Duplicate.IsZero() {
			continue
		}
		one := &Sent{Delay: p.Delay, Unique: p.Unique, queue: p.Queue, Message: &parley.Message{
			ID: p.ID, Type: p.Type, Body: bytes.Clone(p.Body), Headers: backend.DecodeHeaders(p.Headers), Key: p.Key, Priority: p.Rank, Attempt: 1,
		}}
		t.s.posts = append(t.s.posts, one)
		t.sent = append(t.sent, one)
	}
	return posted, nil
}

func (t *watched) Send(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	return t.send(ctx, messages, func() ([]backend.Sent, error) { return t.Tx.Send(ctx, version, messages) })
}

func (t *watched) Withhold(ctx context.Context, messages []backend.Outgoing, status string) ([]backend.Sent, error) {
	return t.send(ctx, messages, func() ([]backend.Sent, error) { return t.Tx.Withhold(ctx, messages, status) })
}

func (t *watched) send(
	ctx context.Context, messages []backend.Outgoing, do func() ([]backend.Sent, error),
) ([]backend.Sent, error) {
	if err := meet(ctx, t.s, &t.s.fault.send); err != nil {
		return nil, err
	}
	t.works = true
	went, err := do()
	if err != nil {
		return went, err
	}
	for i, m := range messages {
		from, _ := t.Tx.Endpoint(ctx, m.From)
		t.note(from, went[i].Queue, &parley.Message{ID: m.ID, Type: m.Type, Body: bytes.Clone(m.Body), Headers: backend.DecodeHeaders(m.Headers), Attempt: 1})
	}
	return went, nil
}

// note notes a message on a conversation, as its receiver will see it.
func (t *watched) note(from *backend.Endpoint, queue int64, m *parley.Message) {
	if from != nil {
		m.Conversation, m.ConversationID, m.Initiator = from.FarHandle, from.Conversation, !from.Initiator
		m.Service, m.FarService, m.Contract = from.FarService, from.Service, from.Contract
	}
	t.sent = append(t.sent, &Sent{Message: m, queue: queue})
}

func (t *watched) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	t.works = true
	from, _ := t.Tx.Endpoint(ctx, end.Handle) // it may be gone when both sides have ended
	over, err := t.Tx.EndDialog(ctx, end)
	if err != nil {
		return over, err
	}
	t.ended = append(t.ended, end.Handle)
	switch {
	case over.FarEnded || end.Kind == backend.EndCleanup:
	case end.Kind == backend.EndError:
		t.note(from, over.Queue, &parley.Message{ID: end.MessageID, Type: backend.TypeError, Body: end.Error.Body(), Attempt: 1})
	default:
		t.note(from, over.Queue, &parley.Message{ID: end.MessageID, Type: backend.TypeEndDialog, Attempt: 1})
	}
	return over, nil
}

// Claim gives a run of the kit's the message that it is for, and not more messages than it may have.
func (t *watched) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	run := runOf(ctx)
	if ctx.Value(handlerKey{}) != nil {
		run = nil // a handler's own
	}
	if run != nil && !run.group.IsZero() {
		r.Group = run.group
	}
	c, err := t.Tx.Claim(ctx, r)
	if err == nil && run != nil && !run.take(&c) {
		return backend.Claim{}, nil
	}
	if r.Lease > 0 {
		t.leased = c.Holds
	}
	return c, err
}

func (t *watched) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	err := t.Tx.Reclaim(ctx, holds)
	if errors.Is(err, backend.ErrFenced) {
		runOf(ctx).fenced(holds)
	}
	return err
}

func (t *watched) Settle(ctx context.Context, outcomes []backend.Outcome) (again bool, err error) {
	t.run, t.works, t.outcome = runOf(ctx), true, outcomes
	return t.Tx.Settle(ctx, outcomes)
}

func (t *watched) Commit(ctx context.Context) error {
	var fault *commitFault
	if t.works {
		fault = meet(ctx, t.s, &t.s.fault.commit)
	}
	if fault != nil && !fault.happens {
		if f, ok := t.Tx.(*frail.Tx); ok {
			f.End(fault.err)
		}
		t.run.settled(t, false)
		return fault.err
	}
	err := t.Tx.Commit(ctx)
	if err == nil && len(t.leased) > 0 && meet(ctx, t.s, &t.s.fault.lease) {
		if err := t.s.endLeases(ctx, t.leased); err != nil {
			return err // the claim has failed, as the test will find
		}
	}
	if fault != nil && err == nil {
		t.run.settled(t, true)
		return fault.err
	}
	t.run.settled(t, err == nil)
	return err
}

// queueName finds the name of a queue. It is empty if there is none.
func (k *Kit) queueName(id int64) string {
	k.t.Helper()
	queues, err := k.Broker.Admin().Queues(k.own)
	k.must("list the queues", err)
	for _, q := range queues {
		if q.ID == id {
			return q.Name
		}
	}
	return ""
}
