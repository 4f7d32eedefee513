package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"time"

	"github.com/parleymq/parley/backend"
)

// The kinds of streams, in the order in which those of one endpoint are
// received. The first three are backend.Kind's.
const (
	streamTimer  = int64(backend.KindTimer)
	streamError  = int64(backend.KindError)
	streamDialog = int64(backend.KindUser)
	streamKey    = 3
)

// KindKeyed is the kind of messages that are posts with a key. It tells them
// apart in an index, since they can be looked for by id.
const KindKeyed = 4

// The kinds of rows in the table closing, and of timers.
const (
	ClosingEnd     = 0
	closingError   = 1
	closingCleanup = 2

	timerDialog   = 0
	timerLifetime = 1
)

// sameVersion returns ErrStaleCatalog if the catalog has another version.
func (t *Tx) sameVersion(ctx context.Context, version int64) error {
	var now int64
	if _, err := t.Row(ctx, []any{&now}, t.s.q.CatalogVersion); err != nil {
		return err
	}
	if now != version {
		return backend.ErrStaleCatalog
	}
	return nil
}

// putEndpoint stores one side of a conversation.
func (t *Tx) putEndpoint(ctx context.Context, e backend.Endpoint) error {
	var life any
	if e.Lifetime > 0 {
		life = e.Lifetime
	}
	_, err := t.Exec(ctx, t.s.q.EndpointInsert, e.Handle, e.Conversation, e.FarHandle, e.Initiator,
		e.Service, e.FarService, e.Contract, e.Queue, e.Group, e.Priority, life)
	if err == nil && e.Lifetime > 0 {
		_, err = t.Exec(ctx, t.s.q.TimerPut, e.Handle, timerLifetime, e.Lifetime, e.Queue)
	}
	return err
}

// Accept implements backend.Tx.
func (t *Tx) Accept(ctx context.Context, version int64, from backend.ID, target backend.Endpoint) (bool, error) {
	if err := t.usable(ctx); err != nil {
		return false, err
	}
	if t.acceptLater(version, from, target) {
		return true, nil
	}
	if err := t.storeBegun(ctx); err != nil {
		return false, err
	}
	if err := t.sameVersion(ctx, version); err != nil {
		return false, err
	}
	if _, err := t.TryLock(ctx, t.s.q.GuardLock, from); err != nil {
		return false, err
	}
	s, err := t.stream(ctx, from)
	if err != nil {
		return false, err
	}
	if s == nil {
		return false, backend.ErrNoConversation
	}
	if s.Queue != 0 {
		return false, nil
	}
	target.Group = target.Handle
	if _, err := t.Exec(ctx, t.s.q.GroupInsert, target.Group, target.Queue, target.Service, ""); err != nil {
		return false, err
	}
	if err := t.putEndpoint(ctx, target); err != nil {
		return false, err
	}
	_, err = t.Exec(ctx, t.s.q.StreamHome, target.Group, target.Queue, target.Handle, target.Priority, from)
	return err == nil, err
}

// Endpoint implements backend.Tx.
func (t *Tx) Endpoint(ctx context.Context, handle backend.ID) (*backend.Endpoint, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	var e *backend.Endpoint
	err := t.look(ctx, func(r run) (err error) {
		e, err = r.endpoint(ctx, handle)
		return err
	})
	if err == nil && e == nil {
		err = backend.ErrNoConversation
	}
	return e, err
}

// endpoint reads one side of a conversation, nil if there is none.
func (r run) endpoint(ctx context.Context, handle backend.ID) (*backend.Endpoint, error) {
	e, _, err := r.endpointAndState(ctx, handle)
	return e, err
}

// endpointAndState is endpoint with what the state was concluded from.
func (r run) endpointAndState(ctx context.Context, handle backend.ID) (*backend.Endpoint, endpointState, error) {
	list, states, err := r.endpoints(ctx, r.s.q.EndpointRead, handle)
	if err != nil || len(list) == 0 {
		return nil, endpointState{}, err
	}
	return list[0], states[0], nil
}

// Members implements backend.Tx.
func (t *Tx) Members(ctx context.Context, group backend.ID) ([]*backend.Endpoint, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	list, _, err := t.endpoints(ctx, t.s.q.EndpointsOfGroup, group)
	return list, err
}

// endpoints reads sides of conversations with what their states were concluded
// from.
func (r run) endpoints(ctx context.Context, q *Stmt, args ...any) (list []*backend.Endpoint, states []endpointState, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var row endpointRow
		if err := row.scan(rows); err != nil {
			return err
		}
		last := len(list) - 1
		if last < 0 || list[last].Handle != row.Handle {
			list, states = append(list, &row.Endpoint), append(states, endpointState{})
			last++
		}
		states[last].add(&row, list[last])
		return nil
	}, q, args...)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range list {
		states[i].conclude(e)
	}
	return list, states, nil
}

// endpointRow is a row of EndpointRead: the endpoint itself and one thing that
// has been recorded of its other side.
type endpointRow struct {
	backend.Endpoint
	until, closed sql.NullInt64
	recorded      backend.ID // orders what has been recorded
	kind, code    sql.NullInt64
	byPeer        bool
	text          string
	now           int64
}

func (x *endpointRow) scan(rows *sql.Rows) error {
	var ended bool // the stream, as closed says too
	return rows.Scan(ID(&x.Handle), ID(&x.Conversation), ID(&x.FarHandle), Bool(&x.Initiator), &x.Service, &x.FarService, &x.Contract,
		&x.Queue, ID(&x.Group), &x.Priority, &x.until, &x.closed, Int(&x.NextSeq), closing(&ended, &x.Sealed),
		ID(&x.recorded), &x.kind, Bool(&x.byPeer), &x.code, Text(&x.text), &x.now)
}

// endpointState collects what the state of an endpoint follows from.
type endpointState struct {
	ended     bool
	peerEnded bool       // by END, with or without an error
	errored   backend.ID // of the first error
}

// add takes one row of an endpoint into account.
func (st *endpointState) add(x *endpointRow, e *backend.Endpoint) {
	st.ended = x.closed.Valid
	if x.until.Valid { // what is over is not unlimited
		e.Lifetime = max(span(x.now, x.until.Int64), time.Microsecond)
	}
	if !x.kind.Valid {
		return
	}
	switch x.kind.Int64 {
	case ClosingEnd:
		st.peerEnded = true
	case closingError:
		if e.Error == nil || bytes.Compare(x.recorded[:], st.errored[:]) < 0 {
			st.errored = x.recorded
			e.Error = &backend.DialogError{Code: int(x.code.Int64), Text: x.text}
		}
		st.peerEnded = st.peerEnded || x.byPeer
	case closingCleanup:
		e.FarCleaned = true
	}
}

// conclude sets the state. An error counts from its arrival on, also when the
// other side has ended without one before.
func (st *endpointState) conclude(e *backend.Endpoint) {
	switch {
	case st.ended && (st.peerEnded || e.FarCleaned):
		e.State = backend.Closed
	case st.ended:
		e.State = backend.DisconnectedOutbound
	case e.Error != nil:
		e.State = backend.Errored
	case st.peerEnded:
		e.State = backend.DisconnectedInbound
	case e.Initiator && e.NextSeq == 0:
		e.State = backend.StartedOutbound
	default:
		e.State = backend.Conversing
	}
}

// Notice implements backend.Tx.
func (t *Tx) Notice(ctx context.Context, n backend.Notice) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	h, err := t.home(ctx, n.To)
	switch {
	case err != nil:
		return err
	case h == nil:
		return backend.ErrNoConversation
	case h.ended:
		return nil
	}
	return t.tell(ctx, h, n)
}

// notice is Notice for a maintenance job. It reports whether the endpoint was there to be told.
func (t *Tx) notice(ctx context.Context, n backend.Notice) (told bool, err error) {
	h, err := t.home(ctx, n.To)
	if err != nil || h == nil || h.ended {
		return false, err
	}
	return true, t.tell(ctx, h, n)
}

func (t *Tx) tell(ctx context.Context, h *home, n backend.Notice) error {
	m := note{id: backend.NewID(), kind: n.Kind}
	if n.Kind == backend.KindError {
		m.body = n.Error.Body()
		_, err := t.Exec(ctx, t.s.q.ClosingInsert, n.To, m.id, closingError, false, n.Error.Code, n.Error.Text)
		if err != nil {
			return err
		}
	}
	return t.putNote(ctx, Stream{Group: h.group, Queue: h.queue, Endpoint: n.To, Priority: h.priority}, m)
}

// note is a message that is a stream by itself.
type note struct {
	id   backend.ID
	kind backend.Kind
	body []byte
}

// putNote gives the endpoint that is home's a stream with one message.
func (t *Tx) putNote(ctx context.Context, home Stream, m note) error {
	home.ID, home.Kind, home.Next, home.Closed = m.id, int64(m.kind), 1, true
	if err := t.putStream(ctx, home); err != nil {
		return err
	}
	if _, err := t.Exec(ctx, t.s.q.MessageInsert, m.id, 0, m.id, m.kind, m.kind.Type(), m.body, nil, nil); err != nil {
		return err
	}
	return t.mark(ctx, home)
}

// home is where an endpoint receives.
type home struct {
	group    backend.ID
	queue    int64
	priority int
	peer     backend.ID
	service  string
	ended    bool
	enabled  bool
}

// home returns nil if there is no such endpoint.
func (r run) home(ctx context.Context, handle backend.ID) (*home, error) {
	var h home
	var closed sql.NullInt64
	found, err := r.Row(ctx, []any{ID(&h.group), &h.queue, &h.priority, ID(&h.peer), &h.service, &closed, Bool(&h.enabled)},
		r.s.q.EndpointHome, handle)
	if err != nil || !found {
		return nil, err
	}
	h.ended = closed.Valid
	return &h, nil
}

// SetTimer implements backend.Tx.
func (t *Tx) SetTimer(ctx context.Context, handle backend.ID, after time.Duration) error {
	if err := t.ready(ctx); err != nil {
		return err
	}
	h, err := t.home(ctx, handle)
	switch {
	case err != nil:
		return err
	case h == nil:
		return backend.ErrNoConversation
	case h.ended:
		return backend.ErrEnded
	case after <= 0:
		_, err = t.Exec(ctx, t.s.q.TimerDelete, handle, timerDialog)
	default:
		_, err = t.Exec(ctx, t.s.q.TimerPut, handle, timerDialog, after, h.queue)
	}
	return err
}

// Once implements backend.Tx.
func (t *Tx) Once(ctx context.Context, key string, keep time.Duration) (bool, error) {
	if err := t.ready(ctx); err != nil {
		return false, err
	}
	n, err := t.Exec(ctx, t.s.q.OnceInsert, key, keep)
	return n > 0, err
}
