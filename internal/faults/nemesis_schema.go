package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// changeCatalog defines a queue and a service that the programs do not know, and
// changes a priority of that service. Each change makes all of them read the catalog.
func (s *suite) changeCatalog(ctx context.Context) error {
	s.changes++
	name := fmt.Sprint("faults-further-", s.changes)
	c := parley.Catalog{
		Queues:     []parley.Queue{{Name: name}},
		Services:   []parley.Service{{Name: name, Queue: name}},
		Priorities: []parley.PriorityRule{{Name: "faults-further", Local: name, Level: 1 + s.changes%10}},
	}
	define := s.b.Define
	if s.changes%2 == 0 {
		define = s.b.Redefine
	}
	return s.again(ctx, func(ctx context.Context) error { return define(ctx, c) })
}

// switchOff disables a queue for a moment. What is sent to it is withheld meanwhile.
func (s *suite) switchOff(ctx context.Context) error {
	queue := []string{askQueue, answerQueue, diaryQueue, diaryQueue}[random.IntN(4)]
	err := s.again(ctx, func(ctx context.Context) error { return s.b.Admin().DisableQueue(ctx, queue) })
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(200+random.IntN(1500)) * time.Millisecond)
	return s.again(ctx, func(ctx context.Context) error { return s.b.Admin().EnableQueue(ctx, queue) })
}

// later is the step to the next schema. It locks one of the tables that are in use, as
// docs/deploying.md wants.
const later = `
ALTER TABLE parley_stream ADD %s later INTEGER NOT NULL DEFAULT 0;
UPDATE parley_meta SET schema_version = %d WHERE id = 1;
`

// migrate makes the next schema the first time. Later it finds nothing to do, as most
// programs do that migrate when they start. On Galera it changes a table each time: the server rolls
// back the transactions in its way.
func (s *suite) migrate(ctx context.Context) error {
	if s.own.galera() && s.migrated {
		return s.again(ctx, s.alter)
	}
	column := "COLUMN"
	if s.engine() == "sqlserver" { // without the word
		column = ""
	}
	return s.again(ctx, func(ctx context.Context) error {
		be, err := backend.Open(ctx, s.through)
		if err != nil {
			return err
		}
		defer be.Close()
		next, ok := be.(interface {
			Migrate(context.Context) error
			SetMigrations(func(known []string) []string) error
		})
		if !ok {
			return fmt.Errorf("%T has no other versions", be)
		}
		err = next.SetMigrations(func(known []string) []string {
			return append(slices.Clip(known), fmt.Sprintf(later, column, len(known)+1))
		})
		if err != nil {
			return err
		}
		err = next.Migrate(ctx)
		s.migrated = s.migrated || err == nil
		return err
	})
}

// alter changes a table that all use.
func (s *suite) alter(ctx context.Context) error {
	be, err := backend.Open(ctx, s.through)
	if err != nil {
		return err
	}
	defer be.Close()
	tx, err := be.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.SQL().ExecContext(ctx, "ALTER TABLE parley_stream ALTER COLUMN later SET DEFAULT 0"); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
