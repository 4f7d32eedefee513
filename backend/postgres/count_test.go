package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// TestStatements holds the number of statements that the common operations take,
// without BEGIN and COMMIT, which are one trip each.
func TestStatements(t *testing.T) {
	connector, err := pq.NewConnector(server(t))
	if err != nil {
		t.Fatal(err)
	}
	db, count := backendtest.Count(connector)
	db.SetMaxOpenConns(2)
	t.Cleanup(func() { db.Close() })
	f := backendtest.New(t, open(t, db, postgres.Options{}))
	d := f.Open()

	// measure counts the statements of the last of three runs: by then they are
	// prepared.
	measure := func(name string, want int, before func(), work func(backend.Tx) error) {
		t.Helper()
		for range 3 {
			if before != nil {
				before()
			}
			count.Take()
			f.Do(work)
		}
		var got []string
		for _, s := range count.Take() {
			if s != "BEGIN" && s != "COMMIT" {
				got = append(got, s)
			}
		}
		if len(got) != want {
			t.Errorf("%s: %d statements, want %d:\n%s", name, len(got), want, strings.Join(got, "\n--\n"))
		}
	}
	send := func(n int) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			var batch []backend.Outgoing
			for i := range n {
				batch = append(batch, backendtest.Message(d.A.Handle, fmt.Sprint(i)))
			}
			_, err := tx.Send(f.Ctx, f.Version, batch)
			return err
		}
	}
	post := func(n int, p backend.Posting) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			var batch []backend.Posting
			for i := range n {
				x := p
				if x.Key != "" {
					x.Key = fmt.Sprint(p.Key, i%10)
				}
				batch = append(batch, f.Posting(x))
			}
			_, err := tx.Post(f.Ctx, f.Version, batch)
			return err
		}
	}
	measure("send one", 1, nil, send(1))
	measure("send a hundred", 2, nil, send(100))
	measure("post one", 1, nil, post(1, backend.Posting{}))
	measure("post a hundred", 2, nil, post(100, backend.Posting{}))
	f.Drain(f.QP)
	f.Do(post(10, backend.Posting{Key: "k"}))
	measure("post a hundred with ten keys", 3, nil, post(100, backend.Posting{Key: "k"}))
	f.Drain(f.QP)
	f.Drain(f.QB)

	var claim backend.Claim
	claiming := func(queue int64, groups int, lease time.Duration) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			r := f.Request(queue)
			r.Lease, r.MaxGroups, r.Alone = lease, groups, true // as Broker.Receive claims
			c, err := tx.Claim(f.Ctx, r)
			if len(c.Holds) == 0 {
				t.Error("nothing was claimed")
			}
			claim = c
			return err
		}
	}
	settle := func(tx backend.Tx) error {
		var all []backend.Outcome
		for _, h := range claim.Holds {
			all = append(all, backend.Outcome{Hold: h, Done: h.Messages})
		}
		_, err := tx.Settle(f.Ctx, all)
		return err
	}
	both := func(work func(backend.Tx) error) func(backend.Tx) error {
		return func(tx backend.Tx) error {
			if err := work(tx); err != nil {
				return err
			}
			return settle(tx)
		}
	}
	sendTen := func() { f.Do(send(10)) }
	postTen := func() { f.Do(post(10, backend.Posting{})) }
	keyedTen := func() { f.Do(post(10, backend.Posting{Key: "k"})) }
	measure("claim and settle a group, in one transaction", 4, sendTen, both(claiming(f.QB, 1, 0)))
	measure("claim and settle ten keys, in one transaction", 4, keyedTen, both(claiming(f.QP, 10, 0)))
	measure("claim and settle ten posts, in one transaction", 2, postTen, both(claiming(f.QP, 10, 0)))
	f.Drain(f.QB)
	// What is held by lease is not free for the next run, which has another key.
	n := 0
	measure("claim a key by lease", 2, func() {
		n++
		f.Post(backend.Posting{Key: fmt.Sprint("lease", n)})
	}, claiming(f.QP, 1, time.Minute))
	measure("claim ten posts by lease", 2, postTen, claiming(f.QP, 10, time.Minute))
	measure("settle ten posts held by lease", 2, func() {
		postTen()
		f.Do(claiming(f.QP, 10, time.Minute))
	}, func(tx backend.Tx) error {
		if err := tx.Reclaim(f.Ctx, claim.Holds); err != nil {
			return err
		}
		return settle(tx)
	})
	measure("claim nothing", 2, nil, func(tx backend.Tx) error {
		r := f.Request(f.QA)
		r.Alone = true
		_, err := tx.Claim(f.Ctx, r)
		return err
	})
}
