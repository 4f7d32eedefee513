package parley_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/backend/mssql"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/phases"
)

// TestConstructors: what is made with options is made without them, or refuses wrong ones at once.
func TestConstructors(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	audited(b)
	h := parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil })
	sender := func(o *parley.SenderOptions) error { _, err := b.NewSender(ctx, o); return err }
	worker := func(queue string, h parley.Handler, o *parley.WorkerOptions) error {
		_, err := b.NewWorker(queue, h, o)
		return err
	}
	pool := func(h phases.Handlers, o *phases.PoolOptions) error { _, err := phases.NewPool(b, h, o); return err }
	plan := func(o *phases.Options) error { _, err := phases.Open(ctx, b, "plan", o); return err }
	session := func(o *applock.Options) error {
		s, err := applock.Open(ctx, b, o)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	site := func(o *console.Options) error { _, err := console.New(b, o); return err }
	broker := func(o *parley.Options) error {
		b, err := parley.Open(ctx, "memory:", o)
		if err == nil {
			err = b.Close()
		}
		return err
	}
	store := func(be parley.Backend) error {
		b, err := parley.New(ctx, be, nil)
		if err == nil {
			err = b.Close()
		}
		return err
	}
	nowhere := func(driver, dsn string) *sql.DB { // which is never connected
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	pg, my := nowhere("postgres", "postgres://nowhere"), nowhere("mysql", "tcp(nowhere)/x")
	ms, lite := nowhere("sqlserver", "sqlserver://nowhere"), nowhere("sqlite", ":memory:")
	handlers := phases.Handlers{"t": func(context.Context, *phases.Running) error { return nil }}
	for what, got := range map[string]struct{ err, want error }{
		"broker":                       {broker(nil), nil},
		"broker, lease":                {broker(&parley.Options{Lease: 1}), parley.ErrInvalidOption},
		"postgres, prefix":             {store(postgres.New(pg, &postgres.Options{Prefix: "a-b"})), parley.ErrInvalidOption},
		"postgres, schema":             {store(postgres.New(pg, &postgres.Options{Schema: "a b"})), parley.ErrInvalidOption},
		"mysql, prefix":                {store(mysql.New(my, &mysql.Options{Prefix: "a-b"})), parley.ErrInvalidOption},
		"mssql, prefix":                {store(mssql.New(ms, &mssql.Options{Prefix: "a-b"})), parley.ErrInvalidOption},
		"sqlite, prefix":               {store(sqlite.New(lite, &sqlite.Options{Prefix: "a-b"})), parley.ErrInvalidOption},
		"sqlite, synchronous":          {store(sqlite.New(lite, &sqlite.Options{Synchronous: "often"})), parley.ErrInvalidOption},
		"worker":                       {worker("mail", h, nil), nil},
		"worker, readers":              {worker("mail", h, &parley.WorkerOptions{MaxReaders: -1}), parley.ErrInvalidOption},
		"worker, handler":              {worker("mail", nil, nil), parley.ErrInvalidOption},
		"worker, name":                 {worker("", h, nil), parley.ErrInvalidName},
		"worker, name of another":      {worker("mail", h, &parley.WorkerOptions{Also: []string{"a\x00b"}}), parley.ErrInvalidName},
		"worker, queue to come":        {worker("later", h, nil), nil},
		"sender":                       {sender(&parley.SenderOptions{From: "Audited", To: "AuditLog", Contract: "Audit"}), nil},
		"sender, nothing":              {sender(nil), parley.ErrInvalidName},
		"sender, age":                  {sender(&parley.SenderOptions{From: "Audited", To: "AuditLog", Contract: "Audit", MaxAge: 1}), parley.ErrInvalidOption},
		"pool":                         {pool(handlers, nil), nil},
		"pool, workers":                {pool(handlers, &phases.PoolOptions{Workers: -1}), parley.ErrInvalidOption},
		"plan":                         {plan(nil), nil},
		"session of application locks": {session(nil), nil},
		"plan, attempts":               {plan(&phases.Options{MaxAttempts: -1}), parley.ErrInvalidOption},
		"session, lease":               {session(&applock.Options{Lease: 1}), parley.ErrInvalidOption},
		"console":                      {site(nil), nil},
		"console, limit":               {site(&console.Options{Limit: -1}), parley.ErrInvalidOption},
	} {
		if !errors.Is(got.err, got.want) {
			t.Errorf("%s: %v, want %v", what, got.err, got.want)
		}
	}
}
