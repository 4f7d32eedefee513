package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// send sends one message in one statement.
func (p *pool) send(ctx context.Context, tx *sqlstore.Tx, version int64, m backend.Outgoing) (sent backend.Sent, done bool, err error) {
	q := p.hot.Send[0]
	if m.Retain {
		q = p.hot.Send[1]
	}
	args := []any{m.From, m.ID, m.Type, m.Body, m.Kind, version, sqlstore.NullText(m.Headers)}
	if t, ours := tx.Session().(*transaction); ours && !m.Last { // what seals the stream follows
		row, ran, err := t.rowByItself(ctx, tx, q, args)
		if err != nil || ran {
			if row != nil {
				sent = backend.Sent{Seq: row[0], Queue: row[1]}
			}
			return sent, row != nil, err
		}
	}
	done, err = tx.Row(ctx, []any{&sent.Seq, &sent.Queue}, q, args...)
	return sent, done, err
}

// sendTogether sends messages on different conversations in one statement, by itself if it can be.
func (p *pool) sendTogether(ctx context.Context, tx *sqlstore.Tx, version int64, list []backend.Outgoing) (sent []backend.Sent, done bool, err error) {
	t, ours := tx.Session().(*transaction)
	if !ours || slices.ContainsFunc(list, func(m backend.Outgoing) bool { return m.Last || m.Retain }) {
		return nil, false, backend.ErrStreamBusy
	}
	n := len(list)
	from, ids := make([]backend.ID, n), make([]backend.ID, n)
	types, headers, bodies, kinds := make([]string, n), make([]string, n), make([][]byte, n), make([]int64, n)
	for i, m := range list {
		from[i], ids[i], types[i], bodies[i], kinds[i], headers[i] = m.From, m.ID, m.Type, m.Body, int64(m.Kind), m.Headers
	}
	args := []any{uuids(from), uuids(ids), texts(types), byteas(bodies), ints(kinds), texts(headers), version}
	rows, ran, err := t.rowByItself(ctx, tx, p.hot.SendMany, args)
	if err == nil && !ran {
		err = tx.Rows(ctx, func(r *sql.Rows) error {
			var place, seq, queue int64
			err := r.Scan(&place, &seq, &queue)
			rows = append(rows, place, seq, queue)
			return err
		}, p.hot.SendMany, args...)
	}
	if err != nil || len(rows) == 0 {
		return nil, false, cmp.Or(err, backend.ErrStreamBusy)
	}
	sent = make([]backend.Sent, n)
	for row := range slices.Chunk(rows, 3) {
		sent[row[0]-1] = backend.Sent{Seq: row[1], Queue: row[2]}
	}
	return sent, true, nil
}

// streams locks guards and reads their streams.
func (p *pool) streams(ctx context.Context, tx *sqlstore.Tx, ids []backend.ID) (map[backend.ID]*sqlstore.Stream, error) {
	return tx.Streams(ctx, p.hot.SendState, uuids(ids))
}

// beginDialogs stores conversations with their messages in one statement.
func (p *pool) beginDialogs(ctx context.Context, tx *sqlstore.Tx, version int64, list []sqlstore.Begun) (bool, error) {
	n := len(list)
	handles, conversations, peers := make([]backend.ID, n), make([]backend.ID, n), make([]backend.ID, n)
	services, fars, contracts := make([]string, n), make([]string, n), make([]string, n)
	queues, ranks, farQueues, farRanks, numbers := make([]int64, n), make([]int, n), make([]int64, n), make([]int, n), make([]int, n)
	var to, ids []backend.ID
	var seqs, kinds []int64
	var types, headers []string
	var bodies [][]byte
	for i, b := range list {
		e := b.From
		handles[i], conversations[i], peers[i] = e.Handle, e.Conversation, e.FarHandle
		services[i], fars[i], contracts[i] = e.Service, e.FarService, e.Contract
		queues[i], ranks[i], numbers[i] = e.Queue, e.Priority, len(b.Messages)
		if b.To != nil {
			farQueues[i], farRanks[i] = b.To.Queue, b.To.Priority
		}
		for seq, m := range b.Messages {
			to, seqs, ids = append(to, m.From), append(seqs, int64(seq)), append(ids, m.ID)
			kinds, types = append(kinds, int64(m.Kind)), append(types, m.Type)
			bodies, headers = append(bodies, m.Body), append(headers, m.Headers)
		}
	}
	args := []any{version,
		uuids(handles), uuids(conversations), uuids(peers), texts(services), texts(fars), texts(contracts),
		ints(queues), ints(ranks), ints(farQueues), ints(farRanks), ints(numbers),
		uuids(to), ints(seqs), uuids(ids), ints(kinds), texts(types), byteas(bodies), texts(headers)}
	if t, ours := tx.Session().(*transaction); ours && sqlstore.BegunAlone(list) {
		row, ran, err := t.rowByItself(ctx, tx, p.hot.BeginDialogs, args)
		if err != nil || ran {
			return row != nil, err
		}
	}
	return tx.Row(ctx, []any{new(int)}, p.hot.BeginDialogs, args...)
}

// appendStreams is how many streams one statement appends to: it looks for each of them among all.
const appendStreams = 100

// append writes messages to streams whose guards are ours, in one statement unless they are many.
func (p *pool) append(ctx context.Context, tx *sqlstore.Tx, b *sqlstore.Batch) error {
	for _, part := range b.Parts(appendStreams) {
		if err := p.appendPart(ctx, tx, part); err != nil {
			return err
		}
	}
	return nil
}

func (p *pool) appendPart(ctx context.Context, tx *sqlstore.Tx, b sqlstore.Batch) error {
	var to, ids []backend.ID
	var seqs, kinds []int64
	var types, headers []string
	var bodies [][]byte
	for _, m := range b.Messages {
		to, seqs, ids = append(to, m.Stream.ID), append(seqs, m.Seq), append(ids, m.ID)
		kinds, types = append(kinds, m.Kind), append(types, m.Type)
		bodies, headers = append(bodies, m.Body), append(headers, m.Headers)
	}
	var streams, groups []backend.ID
	var next, queues, ranks []int64
	for _, s := range b.Streams {
		streams, groups = append(streams, s.ID), append(groups, s.Group)
		next, queues, ranks = append(next, s.Next), append(queues, s.Queue), append(ranks, int64(s.Priority))
	}
	_, err := tx.Exec(ctx, p.hot.Append,
		uuids(to), ints(seqs), uuids(ids), ints(kinds), texts(types), byteas(bodies), texts(headers),
		uuids(streams), ints(next), ints(queues), uuids(groups), ints(ranks))
	return err
}

// post adds posts without key in one statement.
func (p *pool) post(ctx context.Context, tx *sqlstore.Tx, version int64, posts []backend.Posting) (done bool, err error) {
	ids := make([]backend.ID, len(posts))
	queues, ranks := make([]int64, len(posts)), make([]int, len(posts))
	types, headers, bodies := make([]string, len(posts)), make([]string, len(posts)), make([][]byte, len(posts))
	for i, x := range posts {
		ids[i], queues[i], ranks[i], types[i], bodies[i], headers[i] = x.ID, x.Queue, x.Rank, x.Type, x.Body, x.Headers
	}
	each := slices.Compact(slices.Sorted(slices.Values(queues)))
	n, err := tx.Exec(ctx, p.hot.PostMany, uuids(ids), ints(queues), ints(ranks), texts(types), byteas(bodies), texts(headers), version, ints(each))
	return n > 0, err
}

// joinPosts moves delayed posts to their queues in one statement.
func (p *pool) joinPosts(ctx context.Context, tx *sqlstore.Tx, ids []backend.ID) (int64, error) {
	return tx.Exec(ctx, p.hot.JoinPosts, uuids(ids))
}

// postKeyed adds one post in one statement if its key is known, and in two if not.
func (p *pool) postKeyed(ctx context.Context, tx *sqlstore.Tx, version int64, x backend.Posting) (done bool, err error) {
	n, err := tx.Exec(ctx, p.hot.PostKeyed, x.Queue, x.Key, x.ID, x.Type, x.Body, x.Rank, version, sqlstore.NullText(x.Headers))
	if err != nil || n > 0 {
		return true, err
	}
	n, err = tx.Exec(ctx, p.hot.PostNewKey, x.Queue, x.Key, x.ID, x.Type, x.Body, x.Rank, version,
		backend.NewID(), sqlstore.NullText(x.Headers))
	return n > 0, err
}

// keyStreams locks the streams of keys in one statement, and in three if it has to make some.
func (p *pool) keyStreams(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key) (map[sqlstore.Key]*sqlstore.Stream, error) {
	streams, err := p.lockKeys(ctx, tx, keys)
	if err != nil || len(streams) == len(keys) {
		return streams, err
	}
	made, err := p.newKeys(ctx, tx, keys) // it passes over those that there are
	if err != nil {
		return nil, err
	}
	var others []sqlstore.Key
	for _, k := range keys {
		if id, ok := made[k]; ok {
			streams[k] = sqlstore.NewKeyStream(k, id)
		} else {
			others = append(others, k)
		}
	}
	if len(others) == 0 {
		return streams, nil
	}
	locked, err := p.lockKeys(ctx, tx, others)
	maps.Copy(streams, locked)
	return streams, err
}

// newKeys makes keys in one statement.
func (p *pool) newKeys(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key) (map[sqlstore.Key]backend.ID, error) {
	queues, names, ids := make([]int64, len(keys)), make([]string, len(keys)), make([]backend.ID, len(keys))
	for i, k := range keys {
		queues[i], names[i], ids[i] = k.Queue, k.Name, backend.NewID()
	}
	made := make(map[sqlstore.Key]backend.ID)
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		var k sqlstore.Key
		var id backend.ID
		err := rows.Scan(&k.Queue, &k.Name, sqlstore.ID(&id))
		made[k] = id
		return err
	}, p.hot.NewKeys, ints(queues), texts(names), uuids(ids))
	return made, err
}

// lockKeys locks the streams of keys if there are all of the keys, in one statement.
func (p *pool) lockKeys(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key) (map[sqlstore.Key]*sqlstore.Stream, error) {
	var queues []int64
	var names []string
	for _, k := range keys {
		queues, names = append(queues, k.Queue), append(names, k.Name)
	}
	streams := make(map[sqlstore.Key]*sqlstore.Stream)
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		var n int
		s := new(sqlstore.Stream)
		err := rows.Scan(&n, sqlstore.ID(&s.ID), sqlstore.ID(&s.Group), &s.Priority, &s.Next)
		s.Queue = keys[n-1].Queue
		streams[keys[n-1]] = s
		return err
	}, p.hot.KeyState, ints(queues), texts(names))
	return streams, err
}
