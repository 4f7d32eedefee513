package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/parleymq/parley"
)

const (
	postQueue = "faults"
	hotRows   = 8
)

// catalog is what the programs work with.
var catalog = parley.Catalog{
	Types: []parley.MessageType{{Name: requestType, Validation: parley.ValidationJSON},
		{Name: replyType, Validation: parley.ValidationJSON}, {Name: entryType, Validation: parley.ValidationJSON}, {Name: tickType}},
	Contracts: []parley.Contract{
		{Name: talk, Messages: []parley.ContractEntry{
			{Type: requestType, SentBy: parley.ByInitiator}, {Type: replyType, SentBy: parley.ByTarget}}},
		{Name: entries, Messages: []parley.ContractEntry{{Type: entryType, SentBy: parley.ByInitiator}}},
	},
	Queues: []parley.Queue{{Name: postQueue}, {Name: rankedQueue}, {Name: askQueue}, {Name: answerQueue},
		{Name: diaryQueue}, {Name: writerQueue}},
	Services: []parley.Service{
		{Name: asker, Queue: askQueue},
		{Name: answerer, Queue: answerQueue, Contracts: []string{talk}},
		{Name: diary, Queue: diaryQueue, Contracts: []string{entries}},
		{Name: writer, Queue: writerQueue, Recycles: []parley.Recycle{{Contract: entries, Ordered: true}}},
	},
}

// places are the columns that number the rows of the user's tables, by engine.
var places = map[string]string{
	"sqlite":    "place INTEGER PRIMARY KEY AUTOINCREMENT",
	"postgres":  "place BIGSERIAL PRIMARY KEY",
	"mysql":     "place BIGINT AUTO_INCREMENT PRIMARY KEY",
	"sqlserver": "place BIGINT IDENTITY PRIMARY KEY",
}

// define defines the catalog and makes the user's tables.
func define(ctx context.Context, b *parley.Broker, engine string) error {
	if err := b.Define(ctx, catalog); err != nil {
		return err
	}
	statements := []string{
		"CREATE TABLE faults_effect (" + places[engine] + ", stream VARCHAR(120), seq INT, attempt VARCHAR(40), hot INT)",
		"CREATE TABLE faults_lock (" + places[engine] + ", name VARCHAR(40), fence BIGINT, attempt VARCHAR(40))",
		"CREATE TABLE faults_hot (id INT PRIMARY KEY, n INT)",
	}
	for i := range hotRows {
		statements = append(statements, fmt.Sprintf("INSERT INTO faults_hot VALUES (%d, 0)", i))
	}
	for _, text := range statements {
		err := b.InTx(ctx, func(tx *parley.Tx) error { _, err := tx.SQL().ExecContext(ctx, text); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// lastEffect returns the place of the last effect.
func lastEffect(ctx context.Context, b *parley.Broker) (n int64, err error) {
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		return tx.SQL().QueryRowContext(ctx, "SELECT COALESCE(MAX(place), 0) FROM faults_effect").Scan(&n)
	})
	return n, err
}

// readRows reads the user's tables.
func readRows(ctx context.Context, b *parley.Broker) (r rows, err error) {
	r.hot = make(map[int]int)
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		err := each(ctx, tx, "SELECT stream, seq, attempt, hot FROM faults_effect ORDER BY place", func(s *sql.Rows) error {
			var e effect
			err := s.Scan(&e.Stream, &e.Seq, &e.Attempt, &e.Hot)
			r.effects = append(r.effects, e)
			return err
		})
		if err != nil {
			return err
		}
		err = each(ctx, tx, "SELECT name, fence, attempt FROM faults_lock ORDER BY place", func(s *sql.Rows) error {
			var e lockEffect
			err := s.Scan(&e.Lock, &e.Fence, &e.Attempt)
			r.locks = append(r.locks, e)
			return err
		})
		if err != nil {
			return err
		}
		return each(ctx, tx, "SELECT id, n FROM faults_hot", func(s *sql.Rows) error {
			var id, n int
			err := s.Scan(&id, &n)
			r.hot[id] = n
			return err
		})
	})
	return r, err
}

func each(ctx context.Context, tx *parley.Tx, query string, f func(*sql.Rows) error) error {
	list, err := tx.SQL().QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		if err := f(list); err != nil {
			return err
		}
	}
	return list.Err()
}
