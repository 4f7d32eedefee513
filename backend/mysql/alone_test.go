package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
)

func TestAlone(t *testing.T) { alone(t, false, backendtest.Alone) }

// TestAloneSends sends as connections of New do, and as those of Open.
func TestAloneSends(t *testing.T) {
	for _, several := range []bool{false, true} {
		t.Run(fmt.Sprintf("several statements in a text %t", several), func(t *testing.T) { alone(t, several, backendtest.AloneSends) })
	}
}

func alone(t *testing.T, several bool, verb func(*testing.T, string, func(*testing.T, string) backend.Backend, func(*testing.T, string) func())) {
	each(t, func(t *testing.T, server string) {
		own := database(t, server)
		direct := connect(t, server, own, nil)
		verb(t, server, func(t *testing.T, through string) backend.Backend {
			db := connect(t, through, own, func(c *driver.Config) { c.Logger, c.MultiStatements = &driver.NopLogger{}, several })
			return open(t, db, nil)
		}, func(t *testing.T, table string) func() {
			conn, err := direct.Conn(t.Context())
			if err == nil {
				_, err = conn.ExecContext(t.Context(), "LOCK TABLES "+table+" READ")
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return func() {
				if _, err := conn.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// TestTwoTrips posts with a key by Broker.Post, and sends by Broker.Send, in two round trips each, while connections break
// and callers give up.
func TestTwoTrips(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		own := database(t, server)
		direct := connect(t, server, own, nil)
		p, through := backendtest.Through(t, server)
		db := connect(t, through, own, func(c *driver.Config) { c.Logger, c.MultiStatements = &driver.NopLogger{}, true })
		b, err := parley.New(t.Context(), open(t, db, nil), &parley.Options{NoMaintenance: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}, {Name: "own"}}, Services: []parley.Service{
			{Name: "Sender", Queue: "own"}, {Name: "Receiver", Queue: "q", Contracts: []string{parley.DefaultContract}}}}))
		var handle parley.ID
		must(b.InTx(t.Context(), func(tx *parley.Tx) error {
			c, err := tx.Begin(t.Context(), "Sender", "Receiver", nil)
			if err == nil {
				handle = c.Handle()
			}
			return err
		}))
		for name, verb := range map[string]func(ctx context.Context, body string) error{
			"post": func(ctx context.Context, body string) error {
				_, err := b.Post(ctx, "q", parley.Payload{Body: []byte(body)}, parley.Key("k"))
				return err
			},
			"send": func(ctx context.Context, body string) error {
				return b.Send(ctx, handle, parley.Payload{Type: parley.DefaultType, Body: []byte(body)})
			},
		} {
			must(verb(t.Context(), "first"))
			for _, answered := range []bool{false, true} {
				body := fmt.Sprintf("lost %t", answered)
				must(verb(t.Context(), "before"))
				p.CutAt(answered, body, fmt.Sprintf("%x", body))
				if err := verb(t.Context(), body); !errors.Is(err, parley.ErrConnection) {
					t.Errorf("%s: cut, answered %t: %v, want ErrConnection", name, answered, err)
				}
			}
			tx, err := direct.Begin()
			must(err)
			defer tx.Rollback()
			_, err = tx.Exec("UPDATE parley_stream SET touched = touched + 1")
			must(err)
			brief, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := verb(brief, "given up"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: given up while it waited for the guard: %v", name, err)
			}
			must(tx.Rollback())
			must(verb(t.Context(), "last"))

			d, err := b.Receive(t.Context(), "q", nil)
			must(err)
			var got []string
			for i, m := range d.Messages {
				if got = append(got, string(m.Body)); m.Seq != int64(i) {
					t.Errorf("%s: message %d has number %d", name, i, m.Seq)
				}
			}
			if want := []string{"first", "before", "before", "last"}; !slices.Equal(got, want) {
				t.Errorf("%s: stored are %q, want %q", name, got, want)
			}
			must(d.Ack(t.Context()))
		}
	})
}

// TestOneStatement: connections of Open take several statements in a text, but not from the application.
func TestOneStatement(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		own := database(t, server)
		direct := connect(t, server, own, nil)
		if _, err := direct.Exec("CREATE TABLE pets (name VARCHAR(99))"); err != nil {
			t.Fatal(err)
		}
		for _, several := range []bool{false, true} {
			b, err := mysql.Open(t.Context(), fmt.Sprintf("%s?multiStatements=%t", in(t, server, own), several), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			for text, is := range map[string]struct{ one bool }{
				"INSERT INTO pets VALUES ('a;b');":                                                {true},
				"INSERT INTO pets VALUES ('a') -- one;":                                           {true},
				"INSERT INTO pets VALUES ('a'); DELETE FROM pets":                                 {false},
				"CREATE PROCEDURE parade() BEGIN DELETE FROM pets; DELETE FROM pets; END":         {true},
				"SELECT name FROM pets WHERE name = '' OR '' = ''; DROP TABLE pets; SELECT '' ''": {false},
			} {
				if _, err := direct.Exec("DROP PROCEDURE IF EXISTS parade"); err != nil {
					t.Fatal(err)
				}
				tx, err := b.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_, err = tx.SQL().ExecContext(t.Context(), text)
				if want := is.one || several; (err == nil) != want {
					t.Errorf("multiStatements=%t: %q: %v", several, text, err)
				}
				tx.Rollback(t.Context())
				if _, err := direct.Exec("CREATE TABLE IF NOT EXISTS pets (name VARCHAR(99))"); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
