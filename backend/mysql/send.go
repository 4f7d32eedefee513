package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// batchBytes is how long the text of a statement with many rows becomes, about.
const batchBytes = 1 << 20

// send sends one message in three statements. If the message is refused, the guard is still ours.
// In a joined transaction the statements for several messages send it. At REPEATABLE READ the
// second statement would lock every row that it reads, including the queue and the catalog's
// version. Every End and Define would wait.
func (p *pool) send(ctx context.Context, tx *sqlstore.Tx, version int64, m backend.Outgoing) (sent backend.Sent, done bool, err error) {
	if tx.Joined() {
		return sent, false, nil
	}
	n, sent, err := p.sendOn(ctx, tx, version, m)
	switch {
	case err != nil || n < 0:
		return sent, false, err
	case n == 0:
		_, err = tx.Exec(ctx, tx.Q().StreamAdvance, sent.Seq, m.From)
		return sent, false, err
	case m.Retain:
		err = tx.RetainSent(ctx, m, sent.Seq)
	}
	return sent, true, err
}

// sendOn returns how many messages it has sent, which is below zero if the stream takes none.
func (p *pool) sendOn(ctx context.Context, tx *sqlstore.Tx, version int64, m backend.Outgoing) (n int64, sent backend.Sent, err error) {
	insert := func(seq, version any) []any {
		return []any{seq, m.ID, m.Kind, m.Type, m.Body, sqlstore.NullText(m.Headers), m.From, version}
	}
	if t, ours := tx.Session().(*transaction); ours {
		done, ok, err := t.beginWith(ctx, tx, call{p.hot.Advance, []any{m.From}}, call{p.hot.Insert, insert(advanced(version))},
			call{p.hot.PlaceSent, []any{m.From}})
		switch {
		case err != nil:
			return 0, sent, err
		case ok && done[0].rows == 0:
			return -1, sent, nil
		case ok:
			return done[1].rows, backend.Sent{Seq: done[0].id - 1, Queue: done[1].id}, nil
		}
	}
	n, err = tx.Exec(ctx, p.hot.Advance, m.From)
	if err != nil || n == 0 {
		return -1, sent, err
	}
	sent.Seq = inserted(tx) - 1
	n, err = tx.Exec(ctx, p.hot.Insert, insert(sent.Seq, version)...)
	if err == nil && n == 1 {
		sent.Queue = inserted(tx)
		_, err = tx.Exec(ctx, p.hot.Place, m.From)
	}
	return n, sent, err
}

// advanced are the number and the catalog's version for the statement after Advance or AdvanceKey. If that has found no
// stream, no catalog has the version, although the stream may be there by then.
func advanced(version int64) (seq, of expression) {
	return expression("LAST_INSERT_ID() - 1"), expression(fmt.Sprintf("IF(LAST_INSERT_ID() > 0, %d, -1)", version))
}

// beginDialogs stores conversations with their messages in five statements.
func (p *pool) beginDialogs(ctx context.Context, tx *sqlstore.Tx, version int64, list []sqlstore.Begun) (bool, error) {
	var groups, endpoints, streams, messages, marks tuples
	side := func(e, far backend.Endpoint, there bool, next int) {
		if e.Queue != 0 {
			groups = append(groups, []any{e.Handle, e.Queue, e.Service, ""})
			initiator := 0
			if e.Initiator {
				initiator = 1
			}
			endpoints = append(endpoints, []any{e.Handle, e.Conversation, e.FarHandle, initiator, e.Service, e.FarService,
				e.Contract, e.Queue, e.Handle, e.Priority, expression(now)})
		}
		stream := []any{e.Handle, dialogStream, nil, nil, nil, e.Priority, next, 0, 0, expression(now)}
		if there {
			stream = []any{e.Handle, dialogStream, far.Handle, far.Queue, far.Handle, far.Priority, next, 0, 0, expression(now)}
		}
		streams = append(streams, stream)
	}
	for i, b := range list {
		to := backend.Endpoint{Handle: b.From.FarHandle}
		if b.To != nil {
			to = *b.To
		}
		side(b.From, to, b.To != nil, len(b.Messages))
		side(to, b.From, true, 0)
		for seq, m := range b.Messages {
			messages = append(messages, []any{m.From, seq, m.ID, int64(m.Kind), m.Type, m.Body, sqlstore.NullText(m.Headers), expression(now)})
		}
		if len(b.Messages) > 0 {
			marks = append(marks, []any{to.Queue, to.Handle, b.From.Handle, to.Priority, later(i)})
		}
	}
	if t, ours := tx.Session().(*transaction); ours && (len(list) == 1 || tx.NoWait()) && sqlstore.BegunAlone(list) {
		queues, on := targets(list)
		done, ok, err := t.beginWith(ctx, tx, call{p.hot.BeginGroups, []any{newGroups(groups), version, queues, on}},
			call{p.hot.NewEndpoints, []any{endpoints}}, call{p.hot.NewDialogs, []any{streams}}, call{p.hot.Append, []any{messages}},
			call{p.hot.Mark, []any{marks}})
		switch {
		case err != nil:
			return false, err
		case ok && done[0].rows == 0: // the catalog is another, and the rest refers to groups that are not there
			return false, t.again(ctx)
		case ok:
			return true, nil
		}
	}
	begun, ok, err := p.mayBegin(ctx, tx, version, list, groups)
	if err != nil || !ok {
		return false, err
	}
	groups = groups[begun:]
	for _, x := range []struct {
		q    *sqlstore.Stmt
		rows tuples
		body int
	}{
		{p.hot.NewGroups, groups, -1}, {p.hot.NewEndpoints, endpoints, -1}, {p.hot.NewDialogs, streams, -1},
		{p.hot.Append, messages, 5}, {p.hot.Mark, marks, -1},
	} {
		if len(x.rows) == 0 {
			continue
		}
		if err := insertRows(ctx, tx, x.q, x.rows, x.body); err != nil {
			return false, err
		}
	}
	return true, nil
}

// newGroups are the rows of groups as a table.
func newGroups(groups tuples) table {
	return table{columns: []string{"group_id", "queue_id", "service", "name"}, rows: groups}
}

// firstGroups is how many groups are stored by the statement that looks at the catalog.
const firstGroups = 100

// mayBegin reports whether the catalog has the version, and the queues of targets that have
// messages are enabled. It stores the first groups with it, if it can, and returns how many.
func (p *pool) mayBegin(ctx context.Context, tx *sqlstore.Tx, version int64, list []sqlstore.Begun, groups tuples) (begun int, ok bool, err error) {
	queues, most := targets(list)
	if !tx.Joined() {
		begun = min(len(groups), firstGroups)
		n, err := tx.Exec(ctx, p.hot.BeginGroups, newGroups(groups[:begun]), version, queues, most)
		return begun, n > 0, err
	}
	var is int64
	on := 0
	_, err = tx.Row(ctx, []any{&is, sqlstore.Witness(&on)}, p.hot.BeginState, queues)
	return 0, is == version && on == most, err
}

// targets are the queues to which conversations send, and how many these are.
func targets(list []sqlstore.Begun) (queues either, n int) {
	queues.columns = []string{"q.queue_id"}
	seen := map[int64]bool{}
	for _, b := range list {
		if len(b.Messages) > 0 && !seen[b.To.Queue] {
			seen[b.To.Queue] = true
			queues.rows = append(queues.rows, []any{b.To.Queue})
		}
	}
	if len(seen) == 0 {
		queues.rows = [][]any{{-1}} // no queue has it
	}
	return queues, len(seen)
}

// dialogStream is the kind of the stream of a conversation's side.
const dialogStream = 2

// streams locks guards and reads their streams.
func (p *pool) streams(ctx context.Context, tx *sqlstore.Tx, list []backend.ID) (map[backend.ID]*sqlstore.Stream, error) {
	q := p.hot.States[0]
	if tx.NoWait() {
		q = p.hot.States[1]
	}
	streams := make(map[backend.ID]*sqlstore.Stream)
	err := rowsAll(ctx, tx, func(rows *sql.Rows) error {
		s := new(sqlstore.Stream)
		err := s.Scan(rows)
		streams[s.ID] = s
		return err
	}, q, list)
	return streams, err
}

// nextStreams is how many streams one statement advances: it looks for each of them among all.
const nextStreams = 100

// append writes messages to streams whose guards are ours, in three statements unless they are many.
func (p *pool) append(ctx context.Context, tx *sqlstore.Tx, b *sqlstore.Batch) error {
	rows := make(tuples, len(b.Messages))
	for i, m := range b.Messages {
		rows[i] = []any{m.Stream.ID, m.Seq, m.ID, m.Kind, m.Type, m.Body, sqlstore.NullText(m.Headers), expression(now)}
	}
	marks := make(tuples, len(b.Streams))
	for i, s := range b.Streams {
		// One microsecond apart, in the order of the call.
		marks[i] = []any{s.Queue, s.Group, s.ID, s.Priority, later(i)}
	}
	if t, ours := tx.Session().(*transaction); ours && tx.NoWait() && len(b.Streams) <= nextStreams {
		done, err := t.goOnWith(ctx, tx, call{p.hot.Append, []any{rows}}, call{p.hot.Next, nextOf(b.Streams)}, call{p.hot.Mark, []any{marks}})
		if done != nil && err == nil && done[1].rows == 0 { // see server.sure
			err = sqlstore.Classified(backend.ErrSerialization, errors.New("the numbers of streams have not changed"))
		}
		if done != nil || err != nil {
			return err
		}
	}
	if err := insertRows(ctx, tx, p.hot.Append, rows, 5); err != nil {
		return err
	}
	for some := range slices.Chunk(b.Streams, nextStreams) {
		if _, err := tx.Exec(ctx, p.hot.Next, nextOf(some)...); err != nil {
			return err
		}
	}
	return insertRows(ctx, tx, p.hot.Mark, marks, -1)
}

// nextOf are the arguments of Next.
func nextOf(streams []*sqlstore.Stream) []any {
	next, rank := choice{column: "stream_id"}, choice{column: "stream_id"}
	for _, s := range streams {
		next.when, next.then = append(next.when, s.ID), append(next.then, any(s.Next))
		rank.when, rank.then = append(rank.when, s.ID), append(rank.then, int64(s.Priority))
	}
	return []any{next, rank, ids(next.when)}
}

// insertRows inserts rows, as many in one statement as the size of their bodies and headers allows.
// The parameter body is the index of the body, which the headers follow; below zero means that
// there is none.
func insertRows(ctx context.Context, tx *sqlstore.Tx, q *sqlstore.Stmt, rows tuples, body int) error {
	from, size := 0, 0
	for i, row := range rows {
		n := 200
		if body >= 0 {
			b, _ := row[body].([]byte)
			headers, _ := row[body+1].(string)
			n += 2 * (len(b) + len(headers))
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

// post adds posts without key in one statement.
func (p *pool) post(ctx context.Context, tx *sqlstore.Tx, version int64, posts []backend.Posting) (done bool, err error) {
	if version != 0 { // an INSERT of values that looked at the queue as well would lock its row
		return false, nil
	}
	rows := make(tuples, len(posts))
	for i, x := range posts {
		rows[i] = []any{x.ID, x.Queue, x.Rank, x.Type, x.Body, sqlstore.NullText(x.Headers), expression(now)}
	}
	err = insertRows(ctx, tx, p.hot.PostMany, rows, 4)
	return err == nil, err
}

// postKeyed adds a post with a key that has been used before in three statements. If something refuses it, the guard
// is ours and the number is as it was. It is not for a transaction of the application's, as send says.
func (p *pool) postKeyed(ctx context.Context, tx *sqlstore.Tx, version int64, x backend.Posting) (done bool, err error) {
	if tx.Joined() {
		return false, nil
	}
	n, seq, err := p.addToKey(ctx, tx, version, x)
	switch {
	case err != nil || n == 1:
	case seq < 0:
		return p.postNewKey(ctx, tx, version, x)
	default:
		var found map[sqlstore.Key]backend.ID
		k := sqlstore.Key{Queue: x.Queue, Name: x.Key}
		if found, err = p.findKeys(ctx, tx, []sqlstore.Key{k}); err == nil {
			_, err = tx.Exec(ctx, tx.Q().StreamAdvance, seq, found[k])
		}
	}
	return n == 1 && err == nil, err
}

// addToKey adds a post to a key and returns how many it has added, and its number. The number is below zero if the
// key is new.
func (p *pool) addToKey(ctx context.Context, tx *sqlstore.Tx, version int64, x backend.Posting) (n, seq int64, err error) {
	insert := func(seq, version any) []any {
		return []any{seq, x.ID, sqlstore.KindKeyed, x.Type, x.Body, sqlstore.NullText(x.Headers), x.Queue, x.Key, version}
	}
	advance, place := []any{x.Rank, x.Queue, x.Key}, []any{x.Queue, x.Key}
	if t, ours := tx.Session().(*transaction); ours {
		done, ok, err := t.beginWith(ctx, tx, call{p.hot.AdvanceKey, advance}, call{p.hot.InsertKeyed, insert(advanced(version))}, call{p.hot.PlaceKey, place})
		switch {
		case err != nil:
			return 0, 0, err
		case ok && done[0].rows == 0:
			return 0, -1, nil
		case ok:
			return done[1].rows, done[0].id - 1, nil
		}
	}
	n, err = tx.Exec(ctx, p.hot.AdvanceKey, advance...)
	if err != nil || n == 0 {
		return 0, -1, err
	}
	seq = inserted(tx) - 1
	n, err = tx.Exec(ctx, p.hot.InsertKeyed, insert(seq, version)...)
	if err == nil && n == 1 {
		_, err = tx.Exec(ctx, p.hot.PlaceKey, place...)
	}
	return n, seq, err
}

// postNewKey adds a post with a key that is new. It does nothing if another transaction has just made it.
func (p *pool) postNewKey(ctx context.Context, tx *sqlstore.Tx, version int64, x backend.Posting) (done bool, err error) {
	if err := tx.CheckQueue(ctx, version, x.Queue); err != nil {
		return false, err
	}
	id := backend.NewID()
	n, err := p.insertKeys(ctx, tx, []sqlstore.Key{{Queue: x.Queue, Name: x.Key}}, tuples{{x.Queue, x.Key, id}})
	if err != nil || n == 0 {
		return false, err
	}
	for _, s := range []struct {
		q   *sqlstore.Stmt
		row []any
	}{
		{p.hot.NewGroups, []any{id, x.Queue, "", x.Key}},
		{p.hot.NewStreams, []any{id, keyStream, id, x.Queue, x.Rank, 1, 0, 0, expression(now)}},
		{p.hot.Append, []any{id, 0, x.ID, sqlstore.KindKeyed, x.Type, x.Body, sqlstore.NullText(x.Headers), expression(now)}},
		{p.hot.Mark, []any{x.Queue, id, id, x.Rank, expression(now)}},
	} {
		if _, err := tx.Exec(ctx, s.q, tuples{s.row}); err != nil {
			return false, err
		}
	}
	return true, nil
}

// joinPosts moves delayed posts to their queues in three statements.
func (p *pool) joinPosts(ctx context.Context, tx *sqlstore.Tx, list []backend.ID) (int64, error) {
	locked, err := tx.IDs(ctx, p.hot.JoinLock, ids(list))
	if err != nil || len(locked) == 0 {
		return 0, err
	}
	n, err := tx.Exec(ctx, p.hot.JoinPosts, tableOf("post_id", locked))
	if err == nil {
		_, err = tx.Exec(ctx, p.hot.JoinDelete, tableOf("post_id", locked))
	}
	return n, err
}

// keyStreams locks the streams of keys, in two statements, after it has made those keys that
// are new. A transaction that waits for a key in another's hands has no guard yet. With a
// guard it waits for guards alone: a savepoint would give no lock back.
func (p *pool) keyStreams(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key) (map[sqlstore.Key]*sqlstore.Stream, error) {
	if tx.NoWait() {
		return p.freeStreams(ctx, tx, keys)
	}
	found, err := p.findKeys(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	return p.lockStreams(ctx, tx, keys, found)
}

// freeStreams is keyStreams for a transaction that waits for no lock.
func (p *pool) freeStreams(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key) (map[sqlstore.Key]*sqlstore.Stream, error) {
	found, others := p.keys.split(keys)
	if len(others) > 0 {
		more, err := p.findKeys(ctx, tx, others)
		if err != nil {
			return nil, err
		}
		p.keys.put(more)
		maps.Copy(found, more)
	}
	streams, err := p.lockStreams(ctx, tx, keys, found)
	if err == nil && len(streams) < len(keys) {
		p.keys.forget(keys)
	}
	return streams, err
}

// lockStreams locks the streams of the keys that were found, and makes the others.
func (p *pool) lockStreams(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key, found map[sqlstore.Key]backend.ID) (map[sqlstore.Key]*sqlstore.Stream, error) {
	streams := make(map[sqlstore.Key]*sqlstore.Stream)
	var fresh []sqlstore.Key
	for _, k := range keys {
		if found[k].IsZero() {
			fresh = append(fresh, k)
		}
	}
	if len(fresh) > 0 {
		made, others, err := p.newKeys(ctx, tx, fresh)
		if err != nil {
			return nil, err
		}
		for k, id := range made {
			streams[k] = sqlstore.NewKeyStream(k, id)
		}
		maps.Copy(found, others)
	}
	of := make(map[backend.ID]sqlstore.Key)
	for k, id := range found {
		of[id] = k
	}
	if len(of) == 0 {
		return streams, nil
	}
	locked, err := p.streams(ctx, tx, sqlstore.SortIDs(slices.Collect(maps.Keys(of))))
	for id, s := range locked {
		streams[of[id]] = s
	}
	return streams, err
}

// findKeys returns the ids of the keys that exist.
func (p *pool) findKeys(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key) (map[sqlstore.Key]backend.ID, error) {
	found := make(map[sqlstore.Key]backend.ID)
	scan := func(rows *sql.Rows) error {
		var k sqlstore.Key
		var id backend.ID
		err := rows.Scan(&k.Queue, &k.Name, sqlstore.ID(&id))
		found[k] = id
		return err
	}
	for some := range slices.Chunk(keys, most) {
		wanted := either{columns: []string{"queue_id", "name"}}
		for _, k := range some {
			wanted.rows = append(wanted.rows, []any{k.Queue, k.Name})
		}
		if err := tx.Rows(ctx, scan, p.hot.Keys, wanted); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// newKeys makes keys in three statements. Those that another transaction has made meanwhile
// it returns too, for which it needs a fourth.
func (p *pool) newKeys(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key) (made, others map[sqlstore.Key]backend.ID, err error) {
	made = make(map[sqlstore.Key]backend.ID)
	rows := make(tuples, len(keys))
	for i, k := range keys {
		made[k] = backend.NewID()
		rows[i] = []any{k.Queue, k.Name, made[k]}
	}
	n, err := p.insertKeys(ctx, tx, keys, rows)
	if err != nil {
		return nil, nil, err
	}
	if n < int64(len(keys)) {
		if others, err = p.findKeys(ctx, tx, keys); err != nil {
			return nil, nil, err
		}
		maps.DeleteFunc(made, func(k sqlstore.Key, id backend.ID) bool { return others[k] != id })
		maps.DeleteFunc(others, func(k sqlstore.Key, id backend.ID) bool { return made[k] == id })
	}
	if len(made) == 0 {
		return nil, others, nil
	}
	var groups, streams tuples
	for _, k := range keys {
		if id, ok := made[k]; ok {
			groups = append(groups, []any{id, k.Queue, "", k.Name})
			streams = append(streams, []any{id, keyStream, id, k.Queue, 0, 0, 0, 0, expression(now)})
		}
	}
	if _, err := tx.Exec(ctx, p.hot.NewGroups, groups); err != nil {
		return nil, nil, err
	}
	_, err = tx.Exec(ctx, p.hot.NewStreams, streams)
	return made, others, err
}

// newKeys is how many new keys one statement inserts: the server takes longer for each of a long UNION.
const newKeys = 100

// insertKeys returns how many of the keys were new.
func (p *pool) insertKeys(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key, rows tuples) (inserted int64, err error) {
	for len(keys) > 0 {
		n := min(len(keys), newKeys)
		made, err := p.insertSome(ctx, tx, keys[:n], rows[:n])
		if err != nil {
			return inserted, err
		}
		inserted += made
		keys, rows = keys[n:], rows[n:]
	}
	return inserted, nil
}

// insertSome inserts keys together if no other transaction has one of them. Otherwise it inserts
// them one by one, in their order, so that it waits for each of them without a lock on the next.
func (p *pool) insertSome(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key, rows tuples) (inserted int64, err error) {
	if tx.Joined() {
		if len(keys) == 1 { // with several, who wants one of them would wait in turn for another
			defer p.newKeyTurns.enter(ctx, keys[0])()
		}
		return tx.Exec(ctx, p.hot.NewKeys, rows)
	}
	if len(keys) > 1 || tx.NoWait() {
		if n, done, err := p.insertFree(ctx, tx, keys, rows); done || err != nil {
			return n, err
		}
	}
	if tx.NoWait() {
		return 0, backend.ErrStreamBusy
	}
	for i, k := range keys {
		n, err := p.insertOne(ctx, tx, k, rows[i])
		if err != nil {
			return inserted, err
		}
		inserted += n
	}
	return inserted, nil
}

func (p *pool) insertOne(ctx context.Context, tx *sqlstore.Tx, k sqlstore.Key, row []any) (int64, error) {
	defer p.newKeyTurns.enter(ctx, k)()
	return tx.Exec(ctx, p.hot.NewKey, row[0], row[1], row[2], k.Queue, k.Name)
}

// insertFree inserts keys unless another transaction has one of them, which it finds out without waiting.
func (p *pool) insertFree(ctx context.Context, tx *sqlstore.Tx, keys []sqlstore.Key, rows tuples) (inserted int64, done bool, err error) {
	if s := p.server.Load(); s == nil || s.endsLate || s.vitess { // vtgate does not say what its errors end
		return 0, false, nil
	}
	leave, ok := p.newKeyTurns.enterAll(keys)
	if !ok {
		return 0, false, nil
	}
	defer leave()
	there := either{columns: []string{"x.queue_id", "x.name"}}
	for _, k := range keys {
		there.rows = append(there.rows, []any{k.Queue, k.Name})
	}
	inserted, err = tx.Exec(ctx, p.hot.NewKeysFree, table{columns: []string{"queue_id", "name", "stream_id"}, rows: rows}, there)
	if wouldWait(err) {
		return 0, false, nil
	}
	return inserted, true, err
}

// keyStream is the kind of a key's stream.
const keyStream = 3
