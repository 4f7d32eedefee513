package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

// counted is a store whose statements are counted.
func counted(t *testing.T) (*backendtest.Fixture, *backendtest.Counter) {
	connector, err := pq.NewConnector(server(t))
	if err != nil {
		t.Fatal(err)
	}
	db, count := backendtest.Count(connector)
	db.SetMaxOpenConns(2)
	t.Cleanup(func() { db.Close() })
	return backendtest.New(t, open(t, db, postgres.Options{})), count
}

func TestStatements(t *testing.T) {
	f, count := counted(t)
	backendtest.Statements(f, count, []string{"BEGIN", "COMMIT"}, map[string]int{
		"send one":                     1,
		"send a hundred":               2,
		"post one":                     1,
		"post a hundred":               1,
		"post one with a key":          1,
		"post a hundred with ten keys": 3,
		"post one with a new key":      2,
		"post a hundred with new keys": 4,
		"claim and settle a group, in one transaction":   4,
		"claim and settle ten keys, in one transaction":  4,
		"claim and settle ten posts, in one transaction": 2,
		"claim a key by lease":                           2,
		"claim ten posts by lease":                       2,
		"settle ten posts held by lease":                 2,
		"settle a key and a post that failed":            7,
		"end a hundred tasks":                            1,
		"claim nothing":                                  1,
		"a hundred delayed posts become due":             12,
		"claim nothing where posts have been":            1,
		"cancel a hundred posts":                         4,
		"cancel a hundred delayed posts":                 104,
		"list a hundred keys and posts":                  8, // with settings for one of them
	})
}

// TestKinds: in a queue with one kind of item, a claim finds it by one statement. It takes more
// only when another kind has come, or the last item is gone.
func TestKinds(t *testing.T) {
	f, count := counted(t)
	key := func(body string) func() {
		return func() { f.Post(backend.Posting{Key: body, Body: []byte(body)}) }
	}
	post := func(body string) func() {
		return func() { f.Post(backend.Posting{Body: []byte(body)}) }
	}
	for i, step := range []struct {
		before   []func()
		body     string // that is claimed, which takes a statement more; empty: nothing
		searches int
		says     string
	}{
		{nil, "", 1, "nothing is known, and there is nothing"},
		{[]func(){key("a")}, "a", 1, "streams are looked for first"},
		{[]func(){post("b")}, "b", 2, "then posts"},
		{[]func(){post("c")}, "c", 1, "there have been posts"},
		{nil, "", 1, "there were posts"},
		{[]func(){key("d"), post("e")}, "d", 2, "not posts alone"},
		{[]func(){key("f")}, "e", 1, "both"},
		{nil, "f", 1, "both have been"},
		{[]func(){key("g")}, "g", 1, "streams alone again"},
		{[]func(){key("h"), key("i"), func() {
			groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QP, Limit: 2, State: "ready"})
			f.OK(err)
			f.Do(func(tx backend.Tx) error {
				return tx.Promote(f.Ctx, backend.Promotion{Group: groups[1].Group, Level: 1})
			})
		}}, "i", 2, "promotions are not streams alone"},
		{nil, "h", 1, "there was a promotion"},
		{[]func(){key("j")}, "j", 1, "streams alone again"},
		{nil, "", 1, "there were streams"},
		{[]func(){post("k")}, "k", 2, "not streams alone"},
		{[]func(){post("l")}, "l", 1, "posts alone again"},
	} {
		for _, before := range step.before {
			before()
		}
		count.Take()
		r := f.Request(f.QP)
		r.Alone = true
		c := f.Claim(r)
		got, want := -3, step.searches // less the frame and what reads or leases
		got += len(count.Take())
		if step.body == "" {
			got++
		}
		if got != want {
			t.Errorf("%d, %s: %d searches, want %d", i, step.says, got, want)
		}
		body := ""
		for _, h := range c.Holds {
			body += strings.Join(backendtest.Bodies(h.Messages), ",")
			f.Ack(h)
		}
		if body != step.body {
			t.Errorf("%d, %s: claimed %q, want %q", i, step.says, body, step.body)
		}
	}
}

// TestReadUsual: a claim reads what it has locked by the statement for the usual case. If that has found something else,
// it takes one more, and the next claim of the queue within a second takes the other at once.
func TestReadUsual(t *testing.T) {
	f, count := counted(t)
	claim := func(bytes int) (statements int) {
		f.Post(backend.Posting{Key: "a", Body: []byte("one")})
		f.Post(backend.Posting{Key: "a", Body: []byte("two")})
		count.Take()
		var got []string
		f.Do(func(tx backend.Tx) error {
			r := f.Request(f.QP)
			r.Alone, r.Lease, r.MaxBytes = true, 0, bytes
			c, err := tx.Claim(f.Ctx, r)
			if err != nil {
				return err
			}
			statements = len(count.Take())
			got = backendtest.Bodies(c.Holds[0].Messages)
			_, err = tx.Settle(f.Ctx, []backend.Outcome{{Hold: c.Holds[0], Done: c.Holds[0].Messages}})
			return err
		})
		want := "one,two"
		if bytes < 6 {
			want = "one"
		}
		f.Equal("messages", strings.Join(got, ","), want)
		f.Drain(f.QP)
		return statements
	}
	claim(100)
	usual := claim(100)
	begun := time.Now()
	f.Equal("statements beyond those of a usual claim", claim(4)-usual, 1)
	if n := claim(4) - usual; time.Since(begun) < time.Second {
		f.Equal("the same a moment later", n, 0)
	}
}

// TestDialogStatements holds the number of statements of new dialogs.
func TestDialogStatements(t *testing.T) {
	connector, err := pq.NewConnector(server(t))
	if err != nil {
		t.Fatal(err)
	}
	db, count := backendtest.Count(connector)
	t.Cleanup(func() { db.Close() })
	backendtest.Dialogs(t, open(t, db, postgres.Options{}), count, []string{"BEGIN", "COMMIT"}, map[string]int{
		"begin and send":                                     1,
		"receive, reply and end":                             7,
		"receive the reply and end":                          5,
		"receive, reply and end, in one transaction":         7,
		"receive the reply and end, in one transaction":      5,
		"a post by itself, with BEGIN and COMMIT":            1,
		"a post by itself with a key, with BEGIN and COMMIT": 1,
		"a send by itself, with BEGIN and COMMIT":            1,
		"a begin by itself, with BEGIN and COMMIT":           1,
		"what a reader has in hand, with BEGIN and COMMIT":   1,
		"begin and send on twenty dialogs":                   3,
		"a worker's batch of requests":                       8,
		"a worker's batch of replies and ends":               5,
	})
}
