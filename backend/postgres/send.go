package postgres

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// send sends one message in one statement, more in two.
func (p *pool) send(ctx context.Context, tx *sqlstore.Tx, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if len(messages) == 1 {
		m := messages[0]
		q := p.hot.send
		if m.Retain {
			q = p.hot.sendRetain
		}
		sent := make([]backend.Sent, 1)
		found, err := tx.Row(ctx, []any{&sent[0].Seq, &sent[0].Queue}, q, m.From, m.ID, m.Type, m.Body, m.Kind, version)
		if err != nil || found {
			return sent, err
		}
		// It was refused, and the next statement says why. If the reason has
		// vanished meanwhile, the batch below sends it.
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
		b.add(s, m.ID, int64(m.Kind), m.Type, m.Body, "")
	}
	if err := b.append(ctx, tx, p); err != nil {
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

// streams locks guards in the order of ids and reads their streams.
func (p *pool) streams(ctx context.Context, tx *sqlstore.Tx, ids []backend.ID) (map[backend.ID]*sqlstore.Stream, error) {
	streams := make(map[backend.ID]*sqlstore.Stream, len(ids))
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		s := new(sqlstore.Stream)
		err := s.Scan(rows)
		streams[s.ID] = s
		return err
	}, p.hot.sendState, uuids(ids))
	return streams, err
}

// batch collects messages for streams whose guards are ours.
type batch struct {
	stream []backend.ID
	seq    []int64
	id     []backend.ID
	kind   []int64
	typ    []string
	body   [][]byte
	uniq   []string

	streams []*sqlstore.Stream
}

// add gives the stream a message and counts its numbers on.
func (b *batch) add(s *sqlstore.Stream, id backend.ID, kind int64, typ string, body []byte, uniq string) {
	if !slices.Contains(b.streams, s) {
		b.streams = append(b.streams, s)
	}
	b.stream = append(b.stream, s.ID)
	b.seq = append(b.seq, s.Next)
	b.id = append(b.id, id)
	b.kind = append(b.kind, kind)
	b.typ = append(b.typ, typ)
	b.body = append(b.body, body)
	b.uniq = append(b.uniq, uniq)
	s.Next++
}

// append writes what was collected in one statement.
func (b *batch) append(ctx context.Context, tx *sqlstore.Tx, p *pool) error {
	if len(b.id) == 0 {
		return nil
	}
	var ids, groups []backend.ID
	var next, queues, priorities []int64
	for _, s := range b.streams {
		ids = append(ids, s.ID)
		next = append(next, s.Next)
		queues = append(queues, s.Queue)
		groups = append(groups, s.Group)
		priorities = append(priorities, int64(s.Priority))
	}
	_, err := tx.Exec(ctx, p.hot.append,
		uuids(b.stream), ints(b.seq), uuids(b.id), ints(b.kind), texts(b.typ, nil), byteas(b.body),
		texts(b.uniq, func(i int) bool { return b.uniq[i] == "" }),
		uuids(ids), ints(next), ints(queues), uuids(groups), ints(priorities))
	return err
}

// post adds many posts: plain ones in one statement, those with keys in two, and
// the rest, which are rarer, one by one. A single one whose key is known is one
// statement.
func (p *pool) post(ctx context.Context, tx *sqlstore.Tx, version int64, posts []backend.Posting) ([]backend.Posted, error) {
	if x := posts[0]; len(posts) == 1 && x.Key != "" && x.Unique == "" && x.Delay <= 0 {
		var seq int64
		found, err := tx.Row(ctx, []any{&seq}, p.hot.postKeyed, x.Queue, x.Key, x.ID, x.Type, x.Body, x.Rank, version)
		if err != nil || found {
			return make([]backend.Posted, 1), err
		}
	}
	if err := tx.CheckQueues(ctx, version, posts); err != nil {
		return nil, err
	}
	posted := make([]backend.Posted, len(posts))
	var plain, keyed []backend.Posting
	for _, i := range sqlstore.PostOrder(posts) {
		switch x := posts[i]; {
		case x.Unique != "" || x.Delay > 0:
			// A key's order is that of the call: what has been collected for it
			// goes first.
			if err := p.postKeyed(ctx, tx, keyed); err != nil {
				return nil, err
			}
			keyed = nil
			done, err := tx.PostOne(ctx, x)
			if err != nil {
				return nil, err
			}
			posted[i] = done
		case x.Key != "":
			keyed = append(keyed, x)
		default:
			plain = append(plain, x)
		}
	}
	if err := p.postPlain(ctx, tx, plain); err != nil {
		return nil, err
	}
	return posted, p.postKeyed(ctx, tx, keyed)
}

func (p *pool) postPlain(ctx context.Context, tx *sqlstore.Tx, posts []backend.Posting) error {
	if len(posts) == 0 {
		return nil
	}
	ids := make([]backend.ID, len(posts))
	queues, ranks := make([]int64, len(posts)), make([]int, len(posts))
	types, bodies := make([]string, len(posts)), make([][]byte, len(posts))
	for i, x := range posts {
		ids[i], queues[i], ranks[i], types[i], bodies[i] = x.ID, x.Queue, x.Rank, x.Type, x.Body
	}
	_, err := tx.Exec(ctx, p.hot.postMany, uuids(ids), ints(queues), ints(ranks), texts(types, nil), byteas(bodies))
	return err
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
	var queues []int64
	var names []string
	order := make(map[key]int)
	for _, x := range posts {
		k := key{x.Queue, x.Key}
		if _, seen := order[k]; !seen {
			order[k] = len(names)
			queues, names = append(queues, x.Queue), append(names, x.Key)
		}
	}
	streams := make([]*sqlstore.Stream, len(names))
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		var n int
		s := new(sqlstore.Stream)
		err := rows.Scan(&n, sqlstore.ID(&s.ID), sqlstore.ID(&s.Group), &s.Priority, &s.Next)
		s.Queue = queues[n-1]
		streams[n-1] = s
		return err
	}, p.hot.keyState, ints(queues), texts(names, nil))
	if err != nil {
		return err
	}
	var b batch
	for _, x := range posts {
		i := order[key{x.Queue, x.Key}]
		if streams[i] == nil {
			// A key that is used for the first time.
			if streams[i], err = tx.KeyStream(ctx, x); err != nil {
				return err
			}
		}
		if !slices.Contains(b.streams, streams[i]) {
			streams[i].Priority = x.Rank // of the post that makes the marker
		}
		b.add(streams[i], x.ID, sqlstore.KindKeyed, x.Type, x.Body, "")
	}
	return b.append(ctx, tx, p)
}
