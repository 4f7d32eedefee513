package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// TestPostFunction posts by SQL and by the API and compares what arrives.
func TestPostFunction(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	b := open(t, db, postgres.Options{Schema: name, Listen: server(t)})
	f := backendtest.New(t, b)

	woken := make(chan int64, 100)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.Listen(ctx, func(queue int64) { woken <- queue })
	}()
	defer func() { cancel(); <-stopped }()
	if q := <-woken; q != 0 {
		t.Errorf("woken for %d when listening began", q)
	}

	post := func(queue string, typ sql.NullString, body []byte, key sql.NullString) (id string, err error) {
		err = db.QueryRow(`SELECT `+name+`.parley_post($1, $2, $3, $4)`, queue, typ, body, key).Scan(&id)
		return id, err
	}
	state := func(err error) string {
		var e interface{ SQLState() string }
		if e, _ = err.(interface{ SQLState() string }); e == nil {
			return fmt.Sprint(err)
		}
		return e.SQLState()
	}
	backendtest.PlainPosts(f, post, state, "PA001", "PA002")
	for range 8 {
		select {
		case q := <-woken:
			f.Equal("woken for queue", q, f.QP)
		case <-time.After(5 * time.Second):
			t.Fatal("the listener was not woken")
		}
	}
	g := backendtest.New(t, b)
	backendtest.PlainHeaders(g, func(headers sql.NullString, key string) error {
		_, err := db.Exec(`SELECT `+name+`.parley_post($1, $2, $3, $4, $5)`, "qp", "m", nil, key, headers)
		return err
	}, func(oldest int) {
		_, err := db.Exec(fmt.Sprintf(`UPDATE %s.parley_meta SET oldest_program = %d`, name, oldest))
		g.OK(err)
	}, state, "PA006", "PA007")
}

// TestViews looks at everything there is to see.
func TestViews(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	f := backendtest.New(t, open(t, db, postgres.Options{Schema: name}))
	backendtest.Views(f, func(query string) []string {
		t.Helper()
		return backendtest.Texts(t, db, backendtest.Qualify(query, name+"."))
	})
}
