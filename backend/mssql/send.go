package mssql

import (
	"context"
	"database/sql"

	driver "github.com/microsoft/go-mssqldb"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// idRow is a row of the table type parley_ids.
type idRow struct {
	N   int32
	ID  []byte
	Num int64
}

// batchRow is a row of the table type parley_batch.
type batchRow struct {
	N        int32
	Stream   []byte
	Seq      int64
	ID       []byte
	Kind     int16
	Type     string
	Body     []byte
	Queue    int64
	Group    []byte
	Priority int16
}

// idRows numbers ids; num may be nil.
func idRows(ids []backend.ID, num []int64) []idRow {
	rows := make([]idRow, len(ids))
	for i := range ids {
		rows[i] = idRow{N: int32(i + 1), ID: ids[i][:]}
		if num != nil {
			rows[i].Num = num[i]
		}
	}
	return rows
}

func (s *server) idTable(rows []idRow) driver.TVP { return driver.TVP{TypeName: s.ids, Value: rows} }

func (s *server) batchTable(rows []batchRow) driver.TVP {
	return driver.TVP{TypeName: s.batch, Value: rows}
}

// send sends one message in one call if nobody is in the way, otherwise in two, as
// many as there are. What writes is not given a context that can end: cancelled, it
// would leave a part of itself in a transaction that goes on.
func (s *server) send(ctx context.Context, tx *sqlstore.Tx, version int64, messages []backend.Outgoing) ([]backend.Sent, error) {
	if len(messages) == 1 {
		m := messages[0]
		sent := make([]backend.Sent, 1)
		found, err := tx.Row(context.WithoutCancel(ctx), []any{&sent[0].Seq, &sent[0].Queue}, s.many.send,
			m.From, m.ID, m.Type, m.Body, m.Kind, version, m.Retain)
		if err != nil || found {
			return sent, err
		}
		// Somebody else is writing, or it is refused.
	}
	streams, err := s.streams(ctx, tx, messages)
	if err != nil {
		return nil, err
	}
	if err := sqlstore.Refuse(version, messages, streams); err != nil {
		return nil, err
	}
	sent := make([]backend.Sent, len(messages))
	rows := make([]batchRow, len(messages))
	for i, m := range messages {
		to := streams[m.From]
		sent[i] = backend.Sent{Seq: to.Next, Queue: to.Queue}
		rows[i] = appended(to, i, m.ID, int16(m.Kind), m.Type, m.Body)
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := tx.Exec(ctx, s.many.append, s.batchTable(rows)); err != nil {
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

// streams locks the guards of messages, in one order for all senders, and reads them.
func (s *server) streams(ctx context.Context, tx *sqlstore.Tx, messages []backend.Outgoing) (map[backend.ID]*sqlstore.Stream, error) {
	ids := make([]backend.ID, len(messages))
	for i, m := range messages {
		ids[i] = m.From
	}
	ids = sqlstore.SortIDs(ids)
	streams := make(map[backend.ID]*sqlstore.Stream, len(ids))
	err := tx.Rows(ctx, func(rows *sql.Rows) error {
		x := new(sqlstore.Stream)
		err := x.Scan(rows)
		streams[x.ID] = x
		return err
	}, s.many.guards, s.idTable(idRows(ids, nil)))
	return streams, err
}

// appended is the row of the i-th message of a call, which is the stream's next.
func appended(to *sqlstore.Stream, i int, id backend.ID, kind int16, typ string, body []byte) batchRow {
	row := batchRow{
		N: int32(i + 1), Stream: to.ID[:], Seq: to.Next, ID: id[:], Kind: kind, Type: typ, Body: body,
		Queue: to.Queue, Group: to.Group[:], Priority: int16(to.Priority),
	}
	to.Next++
	return row
}

// post adds many posts: plain ones in one statement, those of keys in one more, after
// each key has been looked up, and the rest, which are rarer, one by one.
func (s *server) post(ctx context.Context, tx *sqlstore.Tx, version int64, posts []backend.Posting) ([]backend.Posted, error) {
	if err := tx.CheckQueues(ctx, version, posts); err != nil {
		return nil, err
	}
	posted := make([]backend.Posted, len(posts))
	var plain, keyed []batchRow
	var to *sqlstore.Stream // of the last post with a key
	var last backend.Posting
	for _, i := range sqlstore.PostOrder(posts) {
		x := posts[i]
		switch {
		case x.Unique != "" || x.Delay > 0:
			// A key's order is that of the call: what has been collected goes first.
			if err := s.append(ctx, tx, keyed); err != nil {
				return nil, err
			}
			keyed, to = nil, nil
			done, err := tx.PostOne(ctx, x)
			if err != nil {
				return nil, err
			}
			posted[i] = done
		case x.Key != "":
			if to == nil || x.Queue != last.Queue || x.Key != last.Key {
				var err error
				if to, err = tx.KeyStream(ctx, x); err != nil {
					return nil, err
				}
				to.Priority = x.Rank // of the post that makes the marker
			}
			last = x
			keyed = append(keyed, appended(to, len(keyed), x.ID, sqlstore.KindKeyed, x.Type, x.Body))
		default:
			plain = append(plain, batchRow{
				N: int32(len(plain) + 1), ID: x.ID[:], Type: x.Type, Body: x.Body, Queue: x.Queue,
				Priority: int16(x.Rank), Stream: x.ID[:], Group: x.ID[:],
			})
		}
	}
	if err := s.append(ctx, tx, keyed); err != nil {
		return nil, err
	}
	if len(plain) == 0 {
		return posted, nil
	}
	_, err := tx.Exec(ctx, s.many.posts, s.batchTable(plain))
	return posted, err
}

func (s *server) append(ctx context.Context, tx *sqlstore.Tx, rows []batchRow) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.Exec(context.WithoutCancel(ctx), s.many.append, s.batchTable(rows))
	return err
}
