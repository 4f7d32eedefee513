package backendtest

import (
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

func testCatalog(f *Fixture) {
	f.Define(&backend.Catalog{
		Types:      []backend.MessageType{{Name: "m", Validation: backend.ValidationJSON}, {Name: "M"}},
		Queues:     []backend.Queue{{Name: "qa", Retention: true, KeepProcessed: time.Hour}, {Name: "QA"}},
		Priorities: []backend.PriorityRule{{Name: "p", Contract: "c", Level: 9}},
	})
	tx := f.Begin()
	c, err := tx.Catalog(f.Ctx, false)
	f.OK(err)
	f.Equal("types", c.Types, []backend.MessageType{{Name: "M"}, {Name: "m", Validation: backend.ValidationJSON}})
	f.Equal("priorities", c.Priorities, []backend.PriorityRule{{Name: "p", Contract: "c", Level: 9}})
	f.Equal("services", len(c.Services), 2)
	f.Equal("contracts", len(c.Contracts), 1)
	f.Equal("queues", len(c.Queues), 4)
	i := slices.IndexFunc(c.Queues, func(q backend.Queue) bool { return q.Name == "qa" })
	f.Equal("queue", c.Queues[i], backend.Queue{Name: "qa", ID: f.QA, Retention: true, KeepProcessed: time.Hour})

	err = f.Try(func(tx backend.Tx) error {
		return tx.BeginDialog(f.Ctx, f.Version-1, backend.NewDialog{Endpoint: f.ends().A, NewGroup: true})
	})
	f.Is(err, backend.ErrStaleCatalog)
}

func testMigrate(f *Fixture) {
	info, err := f.Backend.Info(f.Ctx)
	f.OK(err)
	if info.Engine == "" || info.Version == "" {
		f.Errorf("info %+v", info)
	}
	f.OK(f.Backend.Check(f.Ctx))
	f.OK(f.Backend.Migrate(f.Ctx))
	f.OK(f.Backend.Uninstall(f.Ctx))
	f.Is(f.Backend.Check(f.Ctx), backend.ErrNotMigrated)
	f.Is(f.Try(func(tx backend.Tx) error {
		_, err := tx.Catalog(f.Ctx, false)
		return err
	}), backend.ErrNotMigrated)
	f.OK(f.Backend.Uninstall(f.Ctx))
	f.OK(f.Backend.Migrate(f.Ctx))
	f.OK(f.Backend.Check(f.Ctx))
	if p := f.Backend.Capabilities().Printer; p == nil || !strings.Contains(p.MigrationSQL(0), "CREATE TABLE") {
		f.Error("there is no SQL to print")
	}
}
