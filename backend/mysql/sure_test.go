package mysql_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/internal/slow"
)

var changes = regexp.MustCompile(`^(UPDATE|DELETE FROM) parley_\w+ .*?\bWHERE `)

// TestChangesOfNothing: MariaDB may end an UPDATE or a DELETE without an error that has changed nothing. Here all of them do,
// each time at first and once more.
func TestChangesOfNothing(t *testing.T) {
	var mu sync.Mutex
	left := make(map[string]int) // how often in turn
	var on atomic.Bool
	count := 0
	db := rewriting(t, backendtest.Server(t, "mariadb", "PARLEY_TEST_MARIADB", "the URL of a database for tests"), func(query string) string {
		text := strings.Join(strings.Fields(settings.ReplaceAllString(query, "")), " ")
		if !on.Load() || !changes.MatchString(text) || strings.Contains(text, "LAST_INSERT_ID") || strings.Contains(text, "parley_worker") {
			return query
		}
		mu.Lock()
		defer mu.Unlock()
		if left[query] = (left[query] + 1) % 3; left[query] == 0 {
			return query
		}
		count++
		return strings.Replace(query, "WHERE ", "WHERE 1 = 0 AND ", 1)
	})
	f := backendtest.New(t, open(t, db, nil))
	on.Store(true)
	for _, p := range []backend.Posting{{Body: []byte("post")}, {Body: []byte("key"), Key: "k"}} {
		f.Post(p)
		for _, o := range []backend.Outcome{
			{},
			{Defer: time.Millisecond, Failure: &backend.Failure{Attempts: 1, Error: "oops"}},
			{Park: "bad", Failure: &backend.Failure{Attempts: 2, Error: "oops"}},
		} {
			r := f.Request(f.QP)
			r.Lease = time.Minute
			o.Hold = f.One(r)
			if o.Failure != nil {
				o.Failure.Message = o.Hold.Messages[0]
			}
			f.Settle(o)
			if o.Defer > 0 {
				f.None(r)
				f.MaintainUntil(backend.JobDeferred, 1)
			}
		}
		f.None(f.Request(f.QP))
		groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QP, Limit: 10})
		f.OK(err)
		f.Do(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, groups[0].Group) })
		h := f.One(f.Request(f.QP))
		f.Equal("received, at the attempt", []any{string(h.Messages[0].Body), h.Messages[0].Attempts}, []any{string(p.Body), 2})
		f.Ack(h)
		f.None(f.Request(f.QP))
	}
	d := f.Open()
	f.Send(d.A.Handle, "hello")
	f.Equal("received", f.Drain(f.QB), []string{"hello"})
	f.End(backend.End{Handle: d.B.Handle})
	f.End(backend.End{Handle: d.A.Handle})
	f.None(f.Request(f.QB))
	f.Do(func(tx backend.Tx) error { return fire(f, tx, "job") })
	f.Do(func(tx backend.Tx) error { return fire(f, tx, "job") })
	f.Equal("the job has fired", fired(f, "job"), int64(2))
	if count < 10 {
		t.Errorf("only %d statements were left out", count)
	}
}

// fire counts in the row of a recurring job.
func fire(f *backendtest.Fixture, tx backend.Tx, name string) error {
	j, err := tx.LockRecurring(f.Ctx, name)
	if err != nil {
		return err
	}
	j.Fired++
	return tx.SetRecurring(f.Ctx, *j)
}

func fired(f *backendtest.Fixture, name string) (n int64) {
	jobs, err := f.Backend.RecurringJobs(f.Ctx)
	f.OK(err)
	for _, j := range jobs {
		if j.Name == name {
			n = j.Fired
		}
	}
	return n
}

// TestKilledChanges: what a transaction has changed when it commits is changed, although KILL QUERY meets its statements. The
// kills come in threes, and a kill meets one execution at most, so the fourth one changes what those before it did not.
func TestKilledChanges(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		own := database(t, server)
		db := backendtest.Rewrite(connectorTo(t, server, own, several), func(query string) string { return query })
		t.Cleanup(func() { db.Close() })
		f, other := backendtest.New(t, open(t, db, nil)), connect(t, server, "", nil)
		name := func(i int) string { return fmt.Sprint("job ", i) }
		var committed [4]atomic.Int64
		for i := range committed {
			f.Do(func(tx backend.Tx) error { return fire(f, tx, name(i)) })
			committed[i].Add(1)
		}
		end := time.Now().Add(4 * time.Second)
		var all sync.WaitGroup
		for i := range committed {
			all.Go(func() {
				for time.Now().Before(end) {
					if f.Try(func(tx backend.Tx) error { return fire(f, tx, name(i)) }) == nil {
						committed[i].Add(1)
					}
				}
			})
		}
		for time.Now().Before(end) {
			rows, err := other.Query("SELECT id FROM information_schema.processlist WHERE db = ?", own)
			f.OK(err)
			for id := int64(0); rows.Next(); {
				f.OK(rows.Scan(&id))
				for range 3 {
					other.Exec(fmt.Sprintf("KILL QUERY %d", id)) // there may be no such session any more
				}
			}
			f.OK(rows.Close())
			time.Sleep(10 * time.Millisecond) // or one statement would meet many of them
		}
		all.Wait()
		for i := range committed {
			f.Equal(name(i)+" has fired", fired(f, name(i)), committed[i].Load())
		}
		t.Logf("committed: %d, within %v", committed[0].Load(), slow.By(4*time.Second))
	})
}
