package mssql

import (
	"context"

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

// batchRow is a row of the table type parley_payloads.
type batchRow struct {
	N        int32
	Stream   []byte
	Seq      int64
	ID       []byte
	Kind     int16
	Type     string
	Body     []byte
	Headers  string // "" for none
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

func (p *pool) idTable(rows []idRow) driver.TVP { return driver.TVP{TypeName: p.ids, Value: rows} }

func (p *pool) batchTable(rows []batchRow) driver.TVP {
	return driver.TVP{TypeName: p.batch, Value: rows}
}

// send sends one message in one call if no other transaction is in the way and nothing refuses it.
// The writing statement gets no context that can end: if it was cancelled, a part of it would
// remain in a transaction that goes on.
func (p *pool) send(ctx context.Context, tx *sqlstore.Tx, version int64, m backend.Outgoing) (sent backend.Sent, done bool, err error) {
	done, err = tx.Row(context.WithoutCancel(ctx), []any{&sent.Seq, &sent.Queue}, p.many.Send,
		m.From, m.ID, m.Type, m.Body, m.Kind, version, m.Retain, m.Headers)
	return sent, done, err
}

// streams locks guards and reads their streams.
func (p *pool) streams(ctx context.Context, tx *sqlstore.Tx, ids []backend.ID) (map[backend.ID]*sqlstore.Stream, error) {
	return tx.Streams(ctx, p.many.Guards, p.idTable(idRows(ids, nil)))
}

// append writes messages to streams whose guards are ours, in one statement.
func (p *pool) append(ctx context.Context, tx *sqlstore.Tx, b *sqlstore.Batch) error {
	rows := make([]batchRow, len(b.Messages))
	for i, m := range b.Messages {
		rows[i] = batchRow{
			N: int32(i + 1), Stream: m.Stream.ID[:], Seq: m.Seq, ID: m.ID[:], Kind: int16(m.Kind), Type: m.Type, Body: m.Body,
			Headers: m.Headers,
			Queue:   m.Stream.Queue, Group: m.Stream.Group[:], Priority: int16(m.Stream.Priority),
		}
	}
	_, err := tx.Exec(context.WithoutCancel(ctx), p.many.Append, p.batchTable(rows))
	return err
}

// post adds posts without key in one statement.
func (p *pool) post(ctx context.Context, tx *sqlstore.Tx, version int64, posts []backend.Posting) (done bool, err error) {
	if version != 0 {
		return false, nil
	}
	rows := make([]batchRow, len(posts))
	for i, x := range posts {
		rows[i] = batchRow{
			N: int32(i + 1), ID: x.ID[:], Type: x.Type, Body: x.Body, Headers: x.Headers, Queue: x.Queue,
			Priority: int16(x.Rank), Stream: x.ID[:], Group: x.ID[:],
		}
	}
	_, err = tx.Exec(ctx, p.many.Posts, p.batchTable(rows))
	return err == nil, err
}
