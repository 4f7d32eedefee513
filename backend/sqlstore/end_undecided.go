package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Most ends in a handler can only turn out in one way, and no other transaction can change that: the group is ours, and
// a message for the side is in hand. Either the handler has just sent on the conversation, so that its guard is ours
// and the other side gets another message. Or the other side has ended, as the message in hand says, and the
// conversation goes. Such ends take no statement until the transaction settles. Then they are decided together, with
// those of a worker's whole batch.

// LateEnd is the end of a side that is still to be decided.
type LateEnd struct {
	backend.End
	Far   backend.ID // the other side
	Heard bool       // that has ended, else the guard of this side is ours

	remains *bool
}

// endUndecided leaves the end of a side to be decided later, if that can be.
func (t *Tx) endUndecided(end backend.End) (done backend.Ended, later bool) {
	if t.s.d.EndMany == nil || t.unseen() || end.Kind != backend.EndPlain || end.Keep > 0 || t.closed[end.Handle] {
		return done, false
	}
	x := LateEnd{End: end, Far: t.farOf(end.Handle), remains: new(bool)}
	far, hears := t.hears(end.Handle)
	queue, sent := t.sent[end.Handle]
	switch {
	case !far.IsZero():
		x.Heard, done.FarEnded, done.FarGone = true, true, true
	case sent && !hears && !x.Far.IsZero():
		done.Queue = queue
	default:
		return done, false
	}
	done.Later = x.remains
	t.undecided = append(t.undecided, x)
	return done, true
}

// farOf returns the other side of a conversation of which the transaction has a message in hand.
func (t *Tx) farOf(handle backend.ID) (far backend.ID) {
	for _, h := range t.holds {
		for _, m := range h.Messages {
			if m.Handle == handle && (m.Kind == backend.KindUser || m.Kind == backend.KindEnd) {
				far = m.Stream
			}
		}
	}
	return far
}

// mostLateEnds is how many are decided by one statement.
const mostLateEnds = 100

// decideEnds decides the ends that are to be.
func (t *Tx) decideEnds(ctx context.Context) error {
	list := t.undecided
	t.undecided = nil
	for some := range slices.Chunk(list, mostLateEnds) {
		rest, err := t.s.d.EndMany(ctx, t, some)
		if err != nil {
			return t.half(err)
		}
		for _, x := range rest {
			done, err := t.endNow(ctx, x.End)
			if err != nil {
				return t.half(err)
			}
			*x.remains = done.Remains
		}
	}
	return nil
}

// writeAllEnds decides and writes all ends.
func (t *Tx) writeAllEnds(ctx context.Context) error {
	if err := t.decideEnds(ctx); err != nil {
		return err
	}
	return t.writeEnds(ctx, nil)
}

// EndMany decides ends and removes the conversations that go. It returns those that are not ordinary. Lock takes the
// guards of streams without waiting, and returns those that it got.
func (t *Tx) EndMany(ctx context.Context, list []LateEnd, lock func(context.Context, []backend.ID) ([]backend.ID, error)) (rest []LateEnd, err error) {
	var guards []backend.ID
	handles := make([]backend.ID, len(list))
	for i, x := range list {
		if handles[i] = x.Handle; x.Heard {
			guards = append(guards, x.Handle, x.Far)
		}
	}
	if len(guards) > 0 {
		if guards, err = lock(ctx, SortIDs(guards)); err != nil {
			return nil, err
		}
	}
	sides, err := t.sides(ctx, handles, true)
	if err != nil {
		return nil, err
	}
	var gone []*side
	for _, x := range list {
		e := sides[x.Handle]
		switch {
		case e == nil || e.ended:
			rest = append(rest, x)
		case !x.Heard && !e.farEnded && !e.errored && !e.farCleaned && t.endLater(e, x.End):
		case x.Heard && e.farEnded && slices.Contains(guards, x.Handle) && slices.Contains(guards, x.Far) && t.quiet(e):
			gone = append(gone, e)
		default:
			rest = append(rest, x)
		}
	}
	_, err = t.removeQuiet(ctx, gone)
	return rest, err
}

// Ended takes note of an end that EndMany has carried out, and of the messages that were removed with it.
func (t *Tx) Ended(x LateEnd, unread []Unread) {
	t.noteUnread(x.Handle, unread)
	if x.Heard {
		t.vanish(x.Handle, x.Far)
	}
}

// sides reads sides of conversations by their handles. With far it looks at what the other sides receive.
func (t *Tx) sides(ctx context.Context, handles []backend.ID, far bool) (map[backend.ID]*side, error) {
	found := make(map[backend.ID]*side, len(handles))
	err := t.Rows(ctx, func(rows *sql.Rows) error {
		r := new(sideRow)
		if err := rows.Scan(append(r.columns(), r.more()...)...); err != nil {
			return err
		}
		e := found[r.handle]
		if e == nil {
			e = r.side(r.handle)
			e.farQuiet = far && r.far == 1
			e.receives = &received{group: e.group}
			found[r.handle] = e
		}
		e.receives.add(&r.received)
		e.told(r)
		return nil
	}, t.s.q.EndUnread, far, t.s.d.List(handles))
	return found, err
}
