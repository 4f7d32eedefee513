package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// marshal writes rows as JSON, in which ids are in hexadecimal and those that are zero are null.
func marshal(list [][]any) (string, error) {
	for _, row := range list {
		for i, v := range row {
			if id, ok := v.(backend.ID); !ok {
				continue
			} else if row[i] = hex.EncodeToString(id[:]); id.IsZero() {
				row[i] = nil
			}
		}
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// exec runs a statement for many rows.
func exec(ctx context.Context, tx *sqlstore.Tx, q *sqlstore.Stmt, list [][]any, more ...any) (int64, error) {
	text, err := marshal(list)
	if err != nil {
		return 0, err
	}
	return tx.Exec(ctx, q, append([]any{text}, more...)...)
}

// send sends one message in three statements.
func (m *many) send(ctx context.Context, tx *sqlstore.Tx, version int64, o backend.Outgoing) (sent backend.Sent, done bool, err error) {
	var group backend.ID
	var priority int
	done, err = tx.Row(ctx, []any{&sent.Seq, &sent.Queue, sqlstore.ID(&group), &priority}, m.Advance, o.From, version)
	if err != nil || !done {
		return sent, false, err
	}
	q := tx.Q()
	_, err = tx.Exec(ctx, q.MessageInsert, o.From, sent.Seq, o.ID, o.Kind, o.Type, o.Body, sqlstore.NullText(o.Headers), nil)
	if err == nil {
		_, err = tx.Exec(ctx, q.MarkerInsert, sent.Queue, group, o.From, priority)
	}
	if err == nil && o.Retain {
		err = tx.RetainSent(ctx, o, sent.Seq)
	}
	return sent, true, err
}

// postKeyed adds a post with a key in three statements, or in six if the key is new.
func (m *many) postKeyed(ctx context.Context, tx *sqlstore.Tx, version int64, p backend.Posting) (done bool, err error) {
	var stream, group backend.ID
	var seq int64
	done, err = tx.Row(ctx, []any{sqlstore.ID(&stream), &seq, sqlstore.ID(&group)}, m.AdvanceKey, p.Queue, p.Key, p.Rank, version)
	q := tx.Q()
	if err == nil && !done {
		stream = backend.NewID()
		n, err := tx.Exec(ctx, m.NewKey, p.Queue, p.Key, stream, version)
		if err != nil || n == 0 {
			return false, err
		}
		group = stream
		if _, err := tx.Exec(ctx, q.GroupInsert, group, p.Queue, "", p.Key); err != nil {
			return false, err
		}
		const key, next = 3, 1 // the kind of its stream, and the number behind that of the post
		if _, err := tx.Exec(ctx, q.StreamInsert, stream, key, group, p.Queue, nil, p.Rank, next, false); err != nil {
			return false, err
		}
	}
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, q.MessageInsert, stream, seq, p.ID, sqlstore.KindKeyed, p.Type, p.Body, sqlstore.NullText(p.Headers), nil)
	if err == nil {
		_, err = tx.Exec(ctx, q.MarkerInsert, p.Queue, group, stream, p.Rank)
	}
	return true, err
}

// beginDialogs stores conversations in four statements, and one for each message.
func (m *many) beginDialogs(ctx context.Context, tx *sqlstore.Tx, version int64, list []sqlstore.Begun) (bool, error) {
	var groups, endpoints, streams, marks [][]any
	queues := []int64{}
	seen := make(map[int64]bool)
	side := func(e, far backend.Endpoint, next int) {
		if e.Queue != 0 {
			groups = append(groups, []any{e.Handle, e.Queue, e.Service})
			endpoints = append(endpoints, []any{e.Handle, e.Conversation, e.FarHandle, e.Initiator, e.Service, e.FarService, e.Contract,
				e.Queue, e.Priority})
		}
		stream := []any{e.Handle, nil, nil, e.Priority, next}
		if far.Queue != 0 {
			stream = []any{e.Handle, far.Handle, far.Queue, far.Priority, next}
		}
		streams = append(streams, stream)
	}
	for _, b := range list {
		to := backend.Endpoint{Handle: b.From.FarHandle}
		if b.To != nil {
			to = *b.To
		}
		side(b.From, to, len(b.Messages))
		side(to, b.From, 0)
		if len(b.Messages) == 0 {
			continue
		}
		marks = append(marks, []any{to.Queue, to.Handle, b.From.Handle, to.Priority})
		if !seen[to.Queue] {
			seen[to.Queue] = true
			queues = append(queues, to.Queue)
		}
	}
	wanted, err := json.Marshal(queues)
	if err != nil {
		return false, err
	}
	if n, err := exec(ctx, tx, m.BeginGroups, groups, version, string(wanted), len(queues)); err != nil || n == 0 {
		return false, err
	}
	for _, x := range []struct {
		q    *sqlstore.Stmt
		rows [][]any
	}{{m.NewEndpoints, endpoints}, {m.NewDialogs, streams}, {m.Mark, marks}} {
		if len(x.rows) == 0 {
			continue
		}
		if _, err := exec(ctx, tx, x.q, x.rows); err != nil {
			return false, err
		}
	}
	for _, b := range list {
		for seq, o := range b.Messages {
			_, err := tx.Exec(ctx, tx.Q().MessageInsert, o.From, seq, o.ID, o.Kind, o.Type, o.Body, sqlstore.NullText(o.Headers), nil)
			if err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// endSides writes the ends of sides in four statements, and one for the markers that are not there.
func (m *many) endSides(ctx context.Context, tx *sqlstore.Tx, list []sqlstore.SideEnd) error {
	var closings, messages [][]any
	var sides []backend.ID
	for _, x := range list {
		closings = append(closings, []any{x.Far, x.Message, sqlstore.ClosingEnd})
		messages = append(messages, []any{x.Handle, x.Seq, x.Message, int64(backend.KindEnd), backend.TypeEndDialog})
		sides = append(sides, x.Handle)
		if !x.Stands {
			if _, err := tx.Exec(ctx, tx.Q().MarkerInsert, x.Queue, x.Group, x.Handle, x.Priority); err != nil {
				return err
			}
		}
	}
	_, err := exec(ctx, tx, m.Closings, closings)
	if err == nil {
		_, err = exec(ctx, tx, m.Ends, messages)
	}
	for _, q := range []*sqlstore.Stmt{m.CloseStreams, m.CloseEndpoints} {
		if err == nil {
			_, err = tx.Exec(ctx, q, ids(sides))
		}
	}
	return err
}

// removeQuiet removes what is left of conversations.
func (m *many) removeQuiet(ctx context.Context, tx *sqlstore.Tx, r *sqlstore.Remainder) error {
	var messages, markers [][]any
	for _, u := range r.Messages {
		messages = append(messages, []any{u.Stream, u.Seq})
	}
	for _, k := range r.Markers {
		markers = append(markers, []any{k[0], k[1]})
	}
	if len(messages) > 0 {
		if _, err := exec(ctx, tx, m.Remove, messages); err != nil {
			return err
		}
	}
	if _, err := exec(ctx, tx, m.MarkersDelete, markers); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, m.StreamsOf, ids(r.Streams)); err != nil {
		return err
	}
	for _, q := range []*sqlstore.Stmt{m.ClosingsOf, m.EndpointsOf} {
		if _, err := tx.Exec(ctx, q, ids(r.Handles)); err != nil {
			return err
		}
	}
	return nil
}

// drop removes messages in one statement.
func (m *many) drop(ctx context.Context, tx *sqlstore.Tx, streams []backend.ID, seqs []int64) (int64, error) {
	keys := make([][]any, len(streams))
	for i, id := range streams {
		keys[i] = []any{id, seqs[i]}
	}
	return exec(ctx, tx, m.Remove, keys)
}

// finish puts the ready order right. There is no sender in flight.
func (m *many) finish(ctx context.Context, tx *sqlstore.Tx, streams []backend.ID) (again bool, err error) {
	n, err := tx.Exec(ctx, m.DropMarkers, ids(streams))
	if err == nil && n < int64(len(streams)) {
		_, err = tx.Exec(ctx, m.Restand, ids(streams))
	}
	return false, err
}
