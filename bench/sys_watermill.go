package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
)

// watermillQueue is watermill-sql on database/sql. Its subscriber hands over one
// message after another and acknowledges a batch by moving its offset.
type watermillQueue struct {
	db     *sql.DB
	how    watermillHow
	insert string
}

// watermillHow are its settings. Zero: its own.
type watermillHow struct {
	mysql bool
	size  int           // SubscribeBatchSize
	poll  time.Duration // PollInterval
}

const topic = "bench"

func (h watermillHow) schema() wsql.SchemaAdapter {
	if h.mysql {
		return wsql.DefaultMySQLSchema{SubscribeBatchSize: h.size, GeneratePayloadType: blobPayload}
	}
	return wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: h.size, GeneratePayloadType: byteaPayload}
}

func byteaPayload(string) string { return "BYTEA" }
func blobPayload(string) string  { return "BLOB" }

func (h watermillHow) offsets() wsql.OffsetsAdapter {
	if h.mysql {
		return wsql.DefaultMySQLOffsetsAdapter{}
	}
	return wsql.DefaultPostgreSQLOffsetsAdapter{}
}

// open opens a pool. On MySQL statements are prepared: when the driver writes parameters
// into their text, it marks the metadata as binary, which the type JSON refuses. MariaDB's
// JSON is a text.
func (h watermillHow) open(ctx context.Context, dsn string) (*sql.DB, error) {
	if !h.mysql {
		return sql.Open("postgres", dsn)
	}
	db, err := sql.Open("mysql", driverDSN(dsn, true))
	if err != nil {
		return nil, err
	}
	var version string
	if err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil || strings.Contains(version, "MariaDB") {
		return db, err
	}
	db.Close()
	return sql.Open("mysql", driverDSN(dsn, false))
}

func watermillWith(how watermillHow) func(context.Context, string) (queue, error) {
	return func(ctx context.Context, dsn string) (queue, error) {
		insert := insertRow
		if how.mysql {
			insert = insertRowMySQL
		}
		db, err := how.open(ctx, dsn)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(40)
		db.SetMaxIdleConns(40)
		q := &watermillQueue{db: db, how: how, insert: insert}
		if _, err := db.ExecContext(ctx, createRow); err != nil {
			return nil, err
		}
		sub, err := q.subscriber()
		if err == nil {
			err = sub.SubscribeInitialize(topic)
		}
		if err != nil {
			db.Close()
			return nil, err
		}
		return q, nil
	}
}

func (q *watermillQueue) subscriber() (*wsql.Subscriber, error) {
	return wsql.NewSubscriber(wsql.BeginnerFromStdSQL(q.db), wsql.SubscriberConfig{
		SchemaAdapter: q.how.schema(), OffsetsAdapter: q.how.offsets(), InitializeSchema: true, PollInterval: q.how.poll,
	}, watermill.NopLogger{})
}

func (q *watermillQueue) close() { q.db.Close() }

func (q *watermillQueue) publish(ctx context.Context, messages ...*message.Message) error {
	return q.publishWith(ctx, func(*sql.Tx) error { return nil }, messages...)
}

func (q *watermillQueue) sendOwn(ctx context.Context, body []byte) error {
	return q.publishWith(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, insertRow, string(body[:12]), "ordered")
		return err
	}, message.NewMessage(watermill.NewUUID(), body))
}

// publishWith publishes after what the program itself does in the transaction.
func (q *watermillQueue) publishWith(ctx context.Context, own func(*sql.Tx) error, messages ...*message.Message) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := own(tx); err != nil {
		return err
	}
	p, err := wsql.NewPublisher(wsql.TxFromStdSQL(tx), wsql.PublisherConfig{SchemaAdapter: q.how.schema()}, watermill.NopLogger{})
	if err == nil {
		err = p.Publish(topic, messages...)
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (q *watermillQueue) send(ctx context.Context, body []byte) error {
	return q.publish(ctx, message.NewMessage(watermill.NewUUID(), body))
}

func (q *watermillQueue) batch(ctx context.Context, bodies [][]byte) error {
	out := make([]*message.Message, len(bodies))
	for i, b := range bodies {
		out[i] = message.NewMessage(watermill.NewUUID(), b)
	}
	return q.publish(ctx, out...)
}

// batchOf: a topic is in order as a whole.
func (q *watermillQueue) batchOf(ctx context.Context, _ string, bodies [][]byte) error {
	return q.batch(ctx, bodies)
}

func (q *watermillQueue) work(ctx context.Context, j job) (func(), error) {
	sub, err := q.subscriber()
	if err != nil {
		return nil, err
	}
	messages, err := sub.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range messages {
			if j.row {
				tx, ok := wsql.TxFromContext(m.Context())
				if !ok {
					fmt.Println("watermill: no transaction in the message's context")
					return
				}
				if _, err := tx.ExecContext(m.Context(), q.insert, string(m.Payload[:12]), "done"); err != nil {
					if m.Context().Err() == nil {
						fmt.Println("watermill:", err)
					}
					m.Nack()
					continue
				}
			}
			j.handled(m.Payload)
			m.Ack()
		}
	}()
	return func() { sub.Close(); <-done }, nil
}
