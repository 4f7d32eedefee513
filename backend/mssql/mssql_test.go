package mssql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mssql"
)

// address returns the name of the server for tests.
func address(t testing.TB) string {
	t.Helper()
	return backendtest.Server(t, "mssql", "PARLEY_TEST_MSSQL", "the sqlserver:// URL of a SQL Server for tests")
}

// prefix returns a prefix for the tables of one test.
func prefix(testing.TB) string { return backendtest.Name() + "_" }

// connect opens a pool as an application would.
func connect(t testing.TB) *sql.DB {
	t.Helper()
	return backendtest.Connect(t, "sqlserver", address(t))
}

// open returns a migrated store under a separate prefix.
func open(t testing.TB, db *sql.DB, o mssql.Options) *mssql.Store {
	t.Helper()
	if o.Prefix == "" {
		o.Prefix = prefix(t)
	}
	b := mssql.New(db, &o)
	t.Cleanup(func() {
		defer b.Close()
		if err := b.Uninstall(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := b.Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBackend(t *testing.T) {
	db := connect(t)
	backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t, db, mssql.Options{}) })
}

// TestSchema makes a store in a separate schema.
func TestSchema(t *testing.T) {
	db := connect(t)
	name := strings.TrimSuffix(prefix(t), "_")
	t.Cleanup(func() { db.Exec("DROP SCHEMA IF EXISTS " + name) })
	b := open(t, db, mssql.Options{Schema: name, Prefix: "app_"})
	f := backendtest.New(t, b)
	f.Post(backend.Posting{Body: []byte("1")})
	f.Equal("drained", f.Drain(f.QP), []string{"1"})
	var n int
	f.OK(db.QueryRow("SELECT count(*) FROM " + name + ".app_queues").Scan(&n))
	f.Equal("queues", n, 3)
}

// TestJoin works in a transaction of the application's.
func TestJoin(t *testing.T) {
	db := connect(t)
	f := backendtest.New(t, open(t, db, mssql.Options{}))
	joiner := f.Backend.Capabilities().Joiner
	join := func(tx backend.Execer) error {
		_, err := joiner.Join(f.Ctx, tx)
		return err
	}
	for level, want := range map[sql.IsolationLevel]error{
		sql.LevelDefault:         nil,
		sql.LevelReadCommitted:   nil,
		sql.LevelRepeatableRead:  nil,
		sql.LevelReadUncommitted: backend.ErrIsolation,
		sql.LevelSerializable:    backend.ErrIsolation,
		sql.LevelSnapshot:        backend.ErrIsolation,
	} {
		tx, err := db.BeginTx(f.Ctx, &sql.TxOptions{Isolation: level})
		if err != nil {
			t.Errorf("%v: %v", level, err)
			continue
		}
		if err := join(tx); !errors.Is(err, want) {
			t.Errorf("%v: joined with %v, want %v", level, err, want)
		}
		tx.Rollback()
	}
	conn, err := db.Conn(f.Ctx)
	f.OK(err)
	defer conn.Close()
	for _, none := range []backend.Execer{db, conn} {
		if err := join(none); !errors.Is(err, backend.ErrNoTx) {
			t.Errorf("join %T: %v, want ErrNoTx", none, err)
		}
	}
	tx, err := db.BeginTx(f.Ctx, nil)
	f.OK(err)
	defer tx.Rollback()
	joined, err := joiner.Join(f.Ctx, tx)
	f.OK(err)
	_, err = joined.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("joined")})})
	f.OK(err)
	f.None(f.Request(f.QP))
	f.OK(tx.Commit())
	f.Equal("drained", f.Drain(f.QP), []string{"joined"})
}

// TestPostProcedure posts by SQL and by the API and compares what arrives.
func TestPostProcedure(t *testing.T) {
	db := connect(t)
	p := prefix(t)
	f := backendtest.New(t, open(t, db, mssql.Options{Prefix: p}))
	post := func(queue string, typ sql.NullString, body []byte, key sql.NullString) (id string, err error) {
		err = db.QueryRowContext(f.Ctx, `
			DECLARE @id char(36);
			EXEC `+p+`post_message @queue = @p1, @type = @p2, @body = @p3, @key = @p4, @id = @id OUTPUT;
			SELECT @id`, queue, typ, body, key).Scan(&id)
		return id, err
	}
	state := func(err error) string { return fmt.Sprint(number(err)) }
	backendtest.PlainPosts(f, post, state, "51001", "51002")
}

// number returns the number of a server's error.
func number(err error) int32 {
	var e interface {
		error
		SQLErrorNumber() int32
	}
	if errors.As(err, &e) {
		return e.SQLErrorNumber()
	}
	return 0
}

// TestViews reads every view with something in it.
func TestViews(t *testing.T) {
	db := connect(t)
	p := prefix(t)
	f := backendtest.New(t, open(t, db, mssql.Options{Prefix: p}))
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	f.Post(backend.Posting{Key: "k", Body: []byte("3")})
	f.Post(backend.Posting{Delay: time.Hour, Body: []byte("4")})
	h := f.One(f.Request(f.QB))
	f.Settle(backend.Outcome{Hold: h, Dead: []backend.DeadLetter{{Message: h.Messages[0], Reason: "bad"}}, Park: "why"})
	read := func(query string, want ...any) {
		t.Helper()
		got := make([]any, len(want))
		dest := make([]any, len(want))
		for i := range got {
			dest[i] = &got[i]
		}
		if err := db.QueryRow(strings.ReplaceAll(query, "parley_", p)).Scan(dest...); err != nil {
			t.Errorf("%s: %v", query, err)
			return
		}
		for i := range got {
			if b, ok := got[i].([]byte); ok {
				got[i] = string(b)
			}
			if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
				t.Errorf("%s: got %v, want %v", query, got[i], want[i])
			}
		}
	}
	read("SELECT ready, delayed, parked FROM parley_queues WHERE queue = N'qp'", 1, 1, 0)
	read("SELECT parked FROM parley_queues WHERE queue = N'qb'", 1)
	read("SELECT group_id, state, reason FROM parley_groups WHERE queue = N'qb'", d.B.Group, "parked", "why")
	read("SELECT handle, body, state, seq FROM parley_messages WHERE queue = N'qb'", d.B.Handle, "2", "pending", 1)
	read("SELECT [key], body, state FROM parley_messages WHERE queue = N'qp' AND state = 'pending'", "k", "3", "pending")
	read("SELECT count(*) FROM parley_messages WHERE state = 'delayed' AND due > DATEADD(minute, 59, SYSUTCDATETIME())", 1)
	read("SELECT state, send_sequence, far_service FROM parley_conversations WHERE handle = '"+d.A.Handle.String()+"'", "CO", 2, "B")
	read("SELECT handle, body, reason FROM parley_dead", d.B.Handle, "1", "bad")
}

// TestListen wakes for what another handle has committed.
func TestListen(t *testing.T) {
	db := connect(t)
	p := prefix(t)
	f := backendtest.New(t, open(t, db, mssql.Options{Prefix: p}))
	ctx, cancel := context.WithCancel(f.Ctx)
	defer cancel()
	b := mssql.New(db, &mssql.Options{Prefix: p})
	woken := make(chan int64, 1)
	done := make(chan error, 1)
	go func() {
		done <- b.Listen(ctx, func(q int64) {
			select {
			case woken <- q:
			default:
			}
		})
	}()
	<-woken // at the beginning, whatever there is
	f.Post(backend.Posting{Body: []byte("1")})
	select {
	case <-woken:
	case <-time.After(5 * time.Second):
		t.Error("not woken")
	}
	cancel()
	f.Is(<-done, context.Canceled)
}
