package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/parleymq/parley/backend"
)

// Source is a stream of a group and who receives from it.
type Source struct {
	ID     backend.ID
	Kind   int64
	Group  backend.ID
	Handle backend.ID
	Ended  bool // the endpoint

	moved    bool // the endpoint is in another group
	priority int
	since    int64 // the time of its oldest message
	common   backend.Message
}

// receivedBy sets by which endpoint the stream is received, from the group of that and whether it has ended.
func (s *Source) receivedBy(home backend.ID, ended bool) {
	if !s.Handle.IsZero() {
		s.Ended, s.moved = home.IsZero() || ended, home != s.Group
	}
}

// read reads messages of a group that is locked, in the order in which they are
// received, beyond those that the hold has had. Messages for endpoints that have
// ended are removed and counted.
func (t *Tx) read(ctx context.Context, p pick, h *backend.Hold, handle backend.ID, limit int, bytes *budget) (messages []*backend.Message, discarded int, err error) {
	g := p.group
	sources, err := t.sources(ctx, p)
	if err != nil {
		return nil, 0, err
	}
	private := heldOf(h)
	var astray []Source
	full := false
	for _, s := range sources {
		switch {
		case s.Ended || s.moved:
			astray = append(astray, s)
			continue
		case full || len(messages) >= limit || !handle.IsZero() && s.Handle != handle:
			continue
		}
		add := func(m *firstMessage) error {
			if !bytes.take(len(m.Body) + len(m.Headers)) {
				full = true
				return errEnough
			}
			m.Stream, m.Handle, m.Group, m.Priority, m.Enqueued = s.ID, s.Handle, g.id, s.priority, time.UnixMicro(m.since)
			m.Conversation, m.Initiator, m.Service, m.FarService, m.Contract = s.common.Conversation, s.common.Initiator,
				s.common.Service, s.common.FarService, s.common.Contract
			AddMessage(h, &m.Message, g.name, m.uniq)
			messages = append(messages, &m.Message)
			return nil
		}
		if p.read {
			for i := range p.messages {
				if add(&p.messages[i]) != nil {
					break
				}
			}
			continue
		}
		after, seen := private.last[s.ID]
		if !seen {
			after = -1
		}
		err := t.Rows(ctx, func(rows *sql.Rows) error {
			m := new(firstMessage)
			if err := rows.Scan(m.columns()...); err != nil {
				return err
			}
			return add(m)
		}, t.s.q.MessageRead, s.ID, after, limit-len(messages))
		if err != nil {
			return nil, 0, err
		}
	}
	discarded, err = t.ClearAstray(ctx, astray)
	return messages, discarded, err
}

// sources are the streams of a group that is ours, in the order in which they are received.
func (t *Tx) sources(ctx context.Context, p pick) (sources []Source, err error) {
	if p.source != nil {
		return []Source{*p.source}, nil
	}
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		s := Source{Group: p.group.id}
		var home backend.ID
		var closed, since sql.NullInt64
		f := &s.common
		err := rows.Scan(ID(&s.ID), &s.Kind, &s.priority, ID(&s.Handle), ID(&home), ID(&f.Conversation),
			Bool(&f.Initiator), Text(&f.Service), Text(&f.FarService), Text(&f.Contract), &closed, &since)
		if s.since = since.Int64; !since.Valid {
			s.since = math.MaxInt64 // it has none, and makes no conversation older
		}
		s.receivedBy(home, closed.Valid)
		sources = append(sources, s)
		return err
	}, t.s.q.GroupStreams, p.group.id)
	SortByTurn(sources, func(s Source) Turn { return Turn{s.priority, s.since, s.Handle, s.Kind, s.ID} })
	return sources, err
}

// firstMessage is a message as it stands in its stream.
type firstMessage struct {
	backend.Message
	since int64
	uniq  string
}

func (m *firstMessage) columns() []any {
	return []any{Int(&m.Seq), ID(&m.ID), Int(&m.Kind), Text(&m.Type), Body(&m.Body), Text(&m.Headers), Int(&m.since), Text(&m.uniq),
		Int(&m.Attempts), Int(&m.Deaths), Text(&m.LastError), Attempts(&m.Errors)}
}

// readFirst reads messages of groups that have one stream in the order, together, until they are as long as the claim may
// be. The rest is read group by group. Those that came with the walk are short.
func (t *Tx) readFirst(ctx context.Context, r backend.ClaimRequest, picks []pick) error {
	var streams []backend.ID
	of := make(map[backend.ID]*pick)
	for i := range picks {
		if p := &picks[i]; p.source != nil && !p.read && !p.source.Ended && !p.source.moved {
			streams, of[p.source.ID] = append(streams, p.source.ID), p
		}
	}
	if r.LockOnly || len(streams) == 0 {
		return nil
	}
	size := 0
	return t.Rows(ctx, func(rows *sql.Rows) error {
		var stream backend.ID
		var m firstMessage
		if err := rows.Scan(append([]any{ID(&stream)}, m.columns()...)...); err != nil {
			return err
		}
		p := of[stream]
		if n := len(p.messages); n > 0 && p.messages[n-1].Seq >= m.Seq {
			return errDisorder
		}
		if size > r.MaxBytes {
			return errEnough
		}
		size += len(m.Body) + len(m.Headers)
		p.messages, p.read = append(p.messages, m), true
		return nil
	}, t.s.q.FirstMessages, t.s.d.List(streams), r.MaxMessages)
}

var errDisorder = errors.New("parley: the store returned messages out of order")

// ErrUnusual: a statement for the usual case has found another one.
var ErrUnusual = errors.New("parley: the claim needs another statement")

// ReadHolds makes holds of groups that are locked out of the rows of one
// statement, and sees to the streams that cannot be received. The statement
// returns, in the order of the groups and, in each, that of its messages:
//
//   - the group: its number in groups, from 1, its key, its fence and lease from before the claim,
//     and the level, version and stickiness of its promotion;
//   - the state of the stream (0; 1 if its endpoint has ended, 2 if that is in
//     another group; such streams come without messages; 3 if this is not what
//     the statement is for, so that nothing is taken) and its id;
//   - the message: seq, id, kind, type, body, headers, since and unique value, and its
//     attempts, deaths, last error and errors;
//   - with the first message of a stream: priority, endpoint, conversation,
//     initiator, service, far service and contract; and the stream's kind.
//
// A group without messages is one row with a NULL seq. Of a group's messages only
// as many are taken as were asked for.
func (t *Tx) ReadHolds(ctx context.Context, r backend.ClaimRequest, groups []backend.ID, q *Stmt, args ...any) (c backend.Claim, err error) {
	var astray []Source
	var orphans []*backend.Hold // whose lease ran out
	var hold *backend.Hold
	var last int64 // number of the group of the last row
	var common backend.Message
	err = t.Rows(ctx, func(rows *sql.Rows) error {
		var n, fence, lease int64
		var level, version sql.NullInt64
		var lasts Lasting
		var initiator bool
		var name string
		var state, seq, kind, priority, streamKind sql.NullInt64
		var since int64
		var uniq string
		m := new(backend.Message)
		var f backend.Message
		err := rows.Scan(&n, &fence, &lease, &level, &version, Int(&lasts), &name, &state, ID(&m.Stream), &seq,
			ID(&m.ID), &kind, Text(&m.Type), Body(&m.Body), Text(&m.Headers), Int(&since), Text(&uniq),
			Int(&m.Attempts), Int(&m.Deaths), Text(&m.LastError), Attempts(&m.Errors),
			&priority, ID(&f.Handle), ID(&f.Conversation), Bool(&initiator),
			Text(&f.Service), Text(&f.FarService), Text(&f.Contract), &streamKind)
		if err != nil {
			return err
		}
		group := groups[n-1]
		switch state.Int64 {
		case 1, 2:
			astray = append(astray, Source{ID: m.Stream, Kind: streamKind.Int64, Group: group, Handle: f.Handle, Ended: state.Int64 == 1})
			return nil
		case 3:
			return ErrUnusual
		}
		if !seq.Valid && !r.LockOnly {
			return nil // the group has nothing (any more)
		}
		if hold == nil || n != last {
			if n < last {
				return errDisorder
			}
			last = n
			hold = NewHold(r, group, version.Int64, lasts)
			hold.Promoted, hold.Level = version.Valid, int(level.Int64)
			if r.Lease > 0 {
				hold.Fence = fence + 1
			}
			c.Holds = append(c.Holds, hold)
			if lease != 0 {
				orphans = append(orphans, hold)
			}
		}
		if !seq.Valid || len(hold.Messages) == r.MaxMessages {
			return nil
		}
		if k := len(hold.Messages); k > 0 && hold.Messages[k-1].Stream == m.Stream && hold.Messages[k-1].Seq >= seq.Int64 {
			return errDisorder
		}
		if priority.Valid { // the first message of its stream
			f.Priority, f.Initiator, f.Group = int(priority.Int64), initiator, group
			common = f
		}
		m.Seq, m.Kind, m.Enqueued = seq.Int64, backend.Kind(kind.Int64), time.UnixMicro(since)
		m.Handle, m.Conversation, m.Initiator = common.Handle, common.Conversation, common.Initiator
		m.Service, m.FarService, m.Contract = common.Service, common.FarService, common.Contract
		m.Priority, m.Group = common.Priority, common.Group
		AddMessage(hold, m, name, uniq)
		return nil
	}, q, args...)
	if err != nil {
		return c, err
	}
	for _, h := range orphans {
		if err := t.Suspect(ctx, h); err != nil {
			return c, err
		}
	}
	c.Discarded, err = t.ClearAstray(ctx, astray)
	return c, err
}

// ClearAstray sees to the streams of a group that cannot be received in it. Messages
// for an endpoint that has ended are removed and counted. A notice that was written
// while its endpoint moved follows it.
func (t *Tx) ClearAstray(ctx context.Context, sources []Source) (discarded int, err error) {
	for _, s := range sources {
		if !s.Ended {
			if err := t.follow(ctx, s); err != nil {
				return discarded, err
			}
			continue
		}
		keys, err := t.dropMessages(ctx, s.ID)
		if err != nil {
			return discarded, err
		}
		discarded += len(keys)
		if s.Kind != streamDialog {
			err = t.dropNote(ctx, s.Group, s.ID)
		} else if len(keys) > 0 {
			t.touch(s.ID)
		}
		if err != nil {
			return discarded, err
		}
	}
	return discarded, nil
}

// follow moves a stream of one message to the group where its endpoint is now.
// No other verb locks its guard. The stream of a dialog is Move's.
func (t *Tx) follow(ctx context.Context, s Source) error {
	if s.Kind == streamDialog {
		return nil
	}
	h, err := t.home(ctx, s.Handle)
	if err != nil || h == nil {
		return err
	}
	if _, err := t.Exec(ctx, t.s.q.StreamMove, h.group, s.ID); err != nil {
		return err
	}
	_, err = t.Exec(ctx, t.s.q.MarkerMove, h.group, s.Group, s.ID)
	return err
}

// NewHold makes a hold of a group. A version other than zero is that of the
// promotion that it came by.
func NewHold(r backend.ClaimRequest, group backend.ID, version int64, lasts Lasting) *backend.Hold {
	return &backend.Hold{
		Queue: r.Queue, Group: group,
		Private: &held{handle: r.Handle, version: version, lasts: lasts, last: map[backend.ID]int64{}},
	}
}

// AddMessage adds a message to a hold. Those of keys tell by their kind that
// they are; name is the key's.
func AddMessage(h *backend.Hold, m *backend.Message, name, uniq string) {
	p := heldOf(h)
	if m.Kind == KindKeyed {
		m.Kind, m.Key = backend.KindUser, name
	}
	if uniq != "" {
		if p.uniq == nil {
			p.uniq = map[backend.ID]string{}
		}
		p.uniq[m.ID] = uniq
	}
	p.last[m.Stream] = m.Seq
	h.Messages = append(h.Messages, m)
}

// More implements backend.Tx.
func (t *Tx) More(ctx context.Context, h *backend.Hold, maxMessages, maxBytes int) ([]*backend.Message, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if heldOf(h).post {
		return nil, nil
	}
	g, err := t.group(ctx, h.Group)
	if err != nil || g == nil {
		return nil, err
	}
	heldOf(h).since(h.Messages)
	messages, _, err := t.read(ctx, pick{id: g.id, group: g}, h, heldOf(h).handle, maxMessages, &budget{left: maxBytes})
	return messages, err
}
