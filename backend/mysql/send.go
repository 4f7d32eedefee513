package mysql

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// batchBytes is how long the text of a statement with many rows becomes, about.
const batchBytes = 1 << 20

// send sends one message in three statements, more in four.
func (p *pool) send(ctx context.Context, tx *sqlstore.Tx, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if len(messages) == 1 {
		sent, err := p.sendOne(ctx, tx, version, messages[0])
		if err != nil || sent != nil {
			return sent, err
		}
		// It was refused, and the next statement says why. If the reason has
		// vanished meanwhile, the batch sends it.
	}
	froms := make([]backend.ID, len(messages))
	for i, m := range messages {
		froms[i] = m.From
	}
	streams, err := p.streams(ctx, tx, sqlstore.SortIDs(froms))
	if err != nil {
		return nil, err
	}
	if err := sqlstore.Refuse(version, messages, streams); err != nil {
		return nil, err
	}
	var b batch
	sent := make([]backend.Sent, len(messages))
	for i, m := range messages {
		s := streams[m.From]
		sent[i] = backend.Sent{Seq: s.Next, Queue: s.Queue}
		b.add(s, m.ID, int64(m.Kind), m.Type, m.Body)
	}
	if err := b.write(ctx, tx, p); err != nil {
		return nil, err
	}
	for i, m := range messages {
		if m.Retain {
			if err := tx.RetainSent(ctx, m, sent[i].Seq); err != nil {
				return nil, err
			}
		}
	}
	return sent, nil
}

// sendOne returns nothing if the message is refused; the guard is ours then.
func (p *pool) sendOne(ctx context.Context, tx *sqlstore.Tx, version int64, m backend.Outgoing) ([]backend.Sent, error) {
	n, err := tx.Exec(ctx, p.hot.advance, m.From)
	if err != nil || n == 0 {
		return nil, err
	}
	sent := backend.Sent{Seq: inserted(tx) - 1}
	n, err = tx.Exec(ctx, p.hot.insert, sent.Seq, m.ID, m.Kind, m.Type, m.Body, m.From, version)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		_, err = tx.Exec(ctx, tx.Q().StreamAdvance, sent.Seq, m.From)
		return nil, err
	}
	sent.Queue = inserted(tx)
	if _, err := tx.Exec(ctx, p.hot.place, m.From); err != nil {
		return nil, err
	}
	if m.Retain {
		if err := tx.RetainSent(ctx, m, sent.Seq); err != nil {
			return nil, err
		}
	}
	return []backend.Sent{sent}, nil
}

// streams locks guards in the order of their ids and reads their streams.
func (p *pool) streams(ctx context.Context, tx *sqlstore.Tx, list []backend.ID) (map[backend.ID]*sqlstore.Stream, error) {
	streams := make(map[backend.ID]*sqlstore.Stream, len(list))
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		s := new(sqlstore.Stream)
		err := s.Scan(rows)
		streams[s.ID] = s
		return err
	}, p.hot.states, ids(list))
	return streams, err
}

// batch collects messages for streams whose guards are ours.
type batch struct {
	rows    tuples
	streams []*sqlstore.Stream
	seen    map[*sqlstore.Stream]bool
}

// add gives the stream a message and counts its numbers on.
func (b *batch) add(s *sqlstore.Stream, id backend.ID, kind int64, typ string, body []byte) {
	if !b.seen[s] {
		if b.seen == nil {
			b.seen = make(map[*sqlstore.Stream]bool)
		}
		b.seen[s] = true
		b.streams = append(b.streams, s)
	}
	b.rows = append(b.rows, []any{s.ID, s.Next, id, kind, typ, body, nil, expression(now)})
	s.Next++
}

// write writes what was collected.
func (b *batch) write(ctx context.Context, tx *sqlstore.Tx, p *pool) error {
	if len(b.rows) == 0 {
		return nil
	}
	if err := insertRows(ctx, tx, p.hot.append, b.rows, 5); err != nil {
		return err
	}
	next, rank := choice{column: "stream_id"}, choice{column: "stream_id"}
	marks := make(tuples, len(b.streams))
	for i, s := range b.streams {
		next.when, next.then = append(next.when, s.ID), append(next.then, s.Next)
		rank.when, rank.then = append(rank.when, s.ID), append(rank.then, int64(s.Priority))
		// One microsecond apart, in the order of the call.
		marks[i] = []any{s.Queue, s.Group, s.ID, s.Priority, later(i)}
	}
	if _, err := tx.Exec(ctx, p.hot.next, next, rank, ids(next.when)); err != nil {
		return err
	}
	return insertRows(ctx, tx, p.hot.mark, marks, -1)
}

// insertRows inserts rows, as many in one statement as their bodies, which are in
// a column of each, let it.
func insertRows(ctx context.Context, tx *sqlstore.Tx, q *sqlstore.Stmt, rows tuples, body int) error {
	from, size := 0, 0
	for i, row := range rows {
		n := 200
		if body >= 0 {
			b, _ := row[body].([]byte)
			n += 2 * len(b)
		}
		if size > 0 && size+n > batchBytes {
			if _, err := tx.Exec(ctx, q, rows[from:i]); err != nil {
				return err
			}
			from, size = i, 0
		}
		size += n
	}
	_, err := tx.Exec(ctx, q, rows[from:])
	return err
}

// post adds many posts: plain ones in one statement, those with keys in five, and
// the rest, which are rarer, one by one.
func (p *pool) post(ctx context.Context, tx *sqlstore.Tx, version int64, posts []backend.Posting) ([]backend.Posted, error) {
	if err := tx.CheckQueues(ctx, version, posts); err != nil {
		return nil, err
	}
	posted := make([]backend.Posted, len(posts))
	var plain tuples
	var keyed []backend.Posting
	for _, i := range sqlstore.PostOrder(posts) {
		x := posts[i]
		switch {
		case x.Unique != "" || x.Delay > 0:
			// A key's order is that of the call: what has been collected for it
			// goes first.
			err := p.postKeyed(ctx, tx, keyed)
			if err != nil {
				return nil, err
			}
			keyed = nil
			if posted[i], err = tx.PostOne(ctx, x); err != nil {
				return nil, err
			}
		case x.Key != "":
			keyed = append(keyed, x)
		default:
			plain = append(plain, []any{x.ID, x.Queue, x.Rank, x.Type, x.Body, expression(now)})
		}
	}
	if len(plain) > 0 {
		if err := insertRows(ctx, tx, p.hot.postMany, plain, 4); err != nil {
			return nil, err
		}
	}
	return posted, p.postKeyed(ctx, tx, keyed)
}

// postKeyed adds posts that are sorted by key.
func (p *pool) postKeyed(ctx context.Context, tx *sqlstore.Tx, posts []backend.Posting) error {
	if len(posts) == 0 {
		return nil
	}
	type key struct {
		queue int64
		name  string
	}
	wanted := either{columns: []string{"queue_id", "name"}}
	for i, x := range posts {
		if i == 0 || x.Queue != posts[i-1].Queue || x.Key != posts[i-1].Key {
			wanted.rows = append(wanted.rows, []any{x.Queue, x.Key})
		}
	}
	found := make(map[key]backend.ID)
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		var k key
		var id backend.ID
		err := rows.Scan(&k.queue, &k.name, sqlstore.ID(&id))
		found[k] = id
		return err
	}, p.hot.keys, wanted)
	if err != nil {
		return err
	}
	// Keys that there are not come last: whoever makes one holds it until he
	// commits, and must not wait for guards then.
	var list []backend.ID
	for _, id := range found {
		list = append(list, id)
	}
	streams := make(map[backend.ID]*sqlstore.Stream)
	if len(list) > 0 {
		if streams, err = p.streams(ctx, tx, sqlstore.SortIDs(list)); err != nil {
			return err
		}
	}
	made := make(map[key]*sqlstore.Stream)
	var b batch
	for _, x := range posts {
		k := key{x.Queue, x.Key}
		s := made[k]
		if s == nil {
			s = streams[found[k]]
		}
		if s == nil { // a key that is used for the first time, or was swept a moment ago
			if s, err = tx.KeyStream(ctx, x); err != nil {
				return err
			}
			made[k] = s
		}
		if !slices.Contains(b.streams, s) {
			s.Priority = x.Rank // of the post that makes the marker
		}
		b.add(s, x.ID, sqlstore.KindKeyed, x.Type, x.Body)
	}
	return b.write(ctx, tx, p)
}
