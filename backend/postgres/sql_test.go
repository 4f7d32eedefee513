package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// TestPostFunction posts by SQL and by the API and compares what arrives.
func TestPostFunction(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	b := open(t, db, postgres.Options{Schema: name, Listen: server(t)})
	f := backendtest.New(t, b)
	post := `SELECT ` + name + `.parley_post($1, $2, $3, $4)`

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

	f.Post(backend.Posting{Body: []byte("api")})
	f.Post(backend.Posting{Key: "k", Body: []byte("api k1")})
	for _, args := range [][]any{
		{"qp", "m", []byte("sql"), nil},
		{"qp", "m", []byte("sql k2"), "k"},
		{"qp", nil, nil, "new"},
		{"qp", "m", []byte("sql l1"), "l"},
	} {
		var id string
		if err := db.QueryRow(post, args...).Scan(&id); err != nil {
			t.Fatal(err)
		}
		parsed, err := backend.ParseID(id)
		if err != nil || parsed[6]>>4 != 7 || parsed[8]>>6 != 2 {
			t.Errorf("id %s is no UUID of version 7, %v", id, err)
		}
		if s, err := b.PostStatus(t.Context(), f.QP, parsed); err != nil || s.State != "pending" {
			t.Errorf("status %+v, %v", s, err)
		}
	}
	f.Post(backend.Posting{Key: "k", Body: []byte("api k3")})
	f.Post(backend.Posting{Key: "l", Body: []byte("api l2")})
	for range 4 {
		select {
		case q := <-woken:
			f.Equal("woken for queue", q, f.QP)
		case <-time.After(5 * time.Second):
			t.Fatal("nobody was woken")
		}
	}
	r := f.Request(f.QP)
	r.MaxGroups = 10
	got := map[string]string{}
	for c := f.Claim(r); len(c.Holds) > 0; c = f.Claim(r) {
		for _, h := range c.Holds {
			m := h.Messages[0]
			key := m.Key
			if key == "" {
				key = string(m.Body)
			}
			got[key] = fmt.Sprint(m.Type, " ", m.Priority, " ", m.Handle.IsZero(), " ", backendtest.Bodies(h.Messages))
			f.Ack(h)
		}
	}
	f.Equal("posts", got, map[string]string{
		"api": "m 5 true [api]",
		"sql": "m 5 true [sql]",
		"k":   "m 5 true [api k1 sql k2 api k3]",
		"new": "DEFAULT 5 true []",
		"l":   "m 5 true [sql l1 api l2]",
	})

	state := func(err error) string {
		var e interface{ SQLState() string }
		if e, _ = err.(interface{ SQLState() string }); e == nil {
			return fmt.Sprint(err)
		}
		return e.SQLState()
	}
	_, err := db.Exec(post, "nowhere", "m", nil, nil)
	f.Equal("unknown queue", state(err), "PA001")
	f.Define(&backend.Catalog{Queues: []backend.Queue{{Name: "qp", Disabled: true}}})
	_, err = db.Exec(post, "qp", "m", nil, nil)
	f.Equal("disabled queue", state(err), "PA002")
}

// TestViews looks at everything there is to see.
func TestViews(t *testing.T) {
	db := connect(t, "postgres", server(t))
	name := schema(t, db)
	f := backendtest.New(t, open(t, db, postgres.Options{Schema: name}))
	backendtest.Views(f, func(query string) []string {
		t.Helper()
		rows, err := db.Query(backendtest.Qualify(query, name+"."))
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer rows.Close()
		var out []string
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				t.Fatal(err)
			}
			out = append(out, s)
		}
		return out
	})
}
