package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/internal/sure"
)

// The default pool of database/sql has no limit, and keeps two connections;
// programs set it, as the documentation of every library here advises.
const parleyPool = 32

// parleyQueue is Parley as a program uses it.
type parleyQueue struct {
	b      *parley.Broker
	db     *sql.DB // for rows of the user's
	dsn    string
	how    parleyHow
	insert string

	mu      sync.Mutex
	dialogs []parley.ID
}

// parleyHow is what differs between the systems called parley.
type parleyHow struct {
	pgx       bool
	isolation parley.Isolation
	key       bool // posts with a key
	dialog    bool // messages on conversations
	inTx      bool // posts by InTx
	joined    bool // posts in a transaction of the program's own
	options   parley.Options
	worker    parley.WorkerOptions
}

// keys is how many keys the posts of a sender have.
const keys = 1000

func parleyWith(how parleyHow) func(context.Context, string) (queue, error) {
	return func(ctx context.Context, dsn string) (queue, error) { return openParley(ctx, dsn, how) }
}

func openParley(ctx context.Context, dsn string, how parleyHow) (*parleyQueue, error) {
	q := &parleyQueue{how: how, insert: insertRow, dsn: dsn}
	var err error
	switch {
	case strings.HasPrefix(dsn, "postgres"):
		if how.pgx {
			q.db, err = sql.Open("pgx", dsn)
		} else {
			q.db, err = sql.Open("postgres", libpq(dsn))
		}
		if err != nil {
			return nil, err
		}
		q.db.SetMaxOpenConns(parleyPool)
		q.db.SetMaxIdleConns(parleyPool)
		if q.b, err = parley.New(ctx, postgres.New(q.db, &postgres.Options{Listen: dsn}), &how.options); err != nil {
			return nil, err
		}
		_, err = q.db.ExecContext(ctx, createRow)
	case strings.HasPrefix(dsn, "mysql"):
		q.insert = insertRowMySQL
		if how.worker.MaxBatch > 0 { // the settings for drains
			dsn = interpolating(dsn)
		}
		if q.b, err = parley.Open(ctx, dsn, &how.options); err != nil {
			return nil, err
		}
		err = execute(ctx, "mysql", driverDSN(q.dsn, true), createRow)
	default:
		if q.b, err = parley.Open(ctx, "sqlite:"+dsn, &how.options); err != nil {
			return nil, err
		}
		err = execute(ctx, "sqlite", sqliteDSN(dsn), createRow)
	}
	if err == nil {
		err = q.prepare(ctx)
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

var _ = stdlib.GetDefaultDriver // registers "pgx"

// execute runs a statement on a separate connection.
func execute(ctx context.Context, driver, dsn, statement string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func (q *parleyQueue) prepare(ctx context.Context) error {
	if err := q.b.Migrate(ctx); err != nil {
		return err
	}
	return q.b.Define(ctx, parley.Catalog{
		Types:     []parley.MessageType{{Name: "Job"}, {Name: "Answer"}},
		Contracts: []parley.Contract{{Name: "Jobs", Messages: []parley.ContractEntry{{Type: "Job", SentBy: parley.ByInitiator}, {Type: "Answer", SentBy: parley.ByTarget}}}},
		Queues:    []parley.Queue{{Name: "jobs"}, {Name: "answers"}},
		Services:  []parley.Service{{Name: "Client", Queue: "answers"}, {Name: "Server", Queue: "jobs", Contracts: []string{"Jobs"}}},
	})
}

func (q *parleyQueue) close() {
	q.b.Close()
	if q.db != nil {
		q.db.Close()
	}
}

func payload(body []byte) parley.Payload { return parley.Payload{Type: "Job", Body: body} }

func (q *parleyQueue) sendOwn(ctx context.Context, body []byte) error {
	return q.b.InTx(ctx, func(tx *parley.Tx) error {
		if _, err := tx.SQL().ExecContext(ctx, q.insert, string(body[:12]), "ordered"); err != nil {
			return err
		}
		_, err := tx.Post(ctx, "jobs", payload(body))
		return err
	})
}

func (q *parleyQueue) send(ctx context.Context, body []byte) error {
	var handle parley.ID
	if q.how.dialog {
		h, back, err := q.dialog(ctx)
		if err != nil {
			return err
		}
		defer back() // not before the commit: the next one would wait for it
		handle = h
	}
	if q.how.dialog {
		return q.b.Send(ctx, handle, payload(body))
	}
	post := func(tx *parley.Tx) error {
		_, err := tx.Post(ctx, "jobs", payload(body))
		return err
	}
	if q.how.inTx {
		return q.b.InTx(ctx, post)
	}
	if q.how.joined {
		tx, err := q.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := post(q.b.Join(tx)); err != nil {
			return err
		}
		return tx.Commit()
	}
	var o []parley.PostOption
	if q.how.key {
		o = append(o, parley.Key(fmt.Sprint("key-", numberOf(body)%keys)))
	}
	_, err := q.b.Post(ctx, "jobs", payload(body), o...)
	return err
}

// dialog lends a conversation that no other sender has, as programs that send at
// once from many places keep some.
func (q *parleyQueue) dialog(ctx context.Context) (parley.ID, func(), error) {
	q.mu.Lock()
	if n := len(q.dialogs); n > 0 {
		h := q.dialogs[n-1]
		q.dialogs = q.dialogs[:n-1]
		q.mu.Unlock()
		return h, func() { q.giveBack(h) }, nil
	}
	q.mu.Unlock()
	var h parley.ID
	err := q.b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Client", "Server", &parley.DialogOptions{Contract: "Jobs"})
		if err == nil {
			h = c.Handle()
		}
		return err
	})
	return h, func() { q.giveBack(h) }, err
}

func (q *parleyQueue) giveBack(h parley.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dialogs = append(q.dialogs, h)
}

func (q *parleyQueue) batch(ctx context.Context, bodies [][]byte) error {
	posts := make([]parley.Posting, len(bodies))
	for i, b := range bodies {
		posts[i].Payload = payload(b)
		if q.how.key {
			posts[i].Options = []parley.PostOption{parley.Key(fmt.Sprint("key-", numberOf(b)%keys))}
		}
	}
	_, err := q.b.PostBatch(ctx, "jobs", posts)
	return err
}

func (q *parleyQueue) batchOf(ctx context.Context, key string, bodies [][]byte) error {
	posts := make([]parley.Posting, len(bodies))
	for i, b := range bodies {
		posts[i] = parley.Posting{Payload: payload(b), Options: []parley.PostOption{parley.Key(key)}}
	}
	return q.b.InTx(ctx, func(tx *parley.Tx) error {
		_, err := tx.PostBatch(ctx, "jobs", posts)
		return err
	})
}

func (q *parleyQueue) work(ctx context.Context, j job) (func(), error) {
	mux := parley.NewMux()
	mux.HandleFunc("Job", func(ctx context.Context, m *parley.Message) error {
		if j.row {
			tx, err := m.Tx(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.SQL().ExecContext(ctx, q.insert, m.ID.String(), "done"); err != nil {
				return err
			}
		}
		j.handled(m.Body)
		return nil
	})
	return q.run(ctx, mux, "jobs", j.readers)
}

func (q *parleyQueue) run(ctx context.Context, h parley.Handler, queue string, readers int) (func(), error) {
	o := q.how.worker
	o.Isolation = q.how.isolation
	o.MaxReaders = readers
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- sure.Of(q.b.NewWorker(queue, h, &o)).Run(ctx) }()
	select {
	case err := <-done:
		cancel()
		return nil, fmt.Errorf("the worker ended: %w", err)
	default:
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Printf("parley: worker: %v\n", err)
		}
	}, nil
}
