package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/internal/slow"
)

// rewritten returns a fixture on a fresh database, and a place for a function. While one is
// stored there, it rewrites each read with subqueries.
func rewritten(t *testing.T, server string) (*backendtest.Fixture, *atomic.Pointer[func(string) string]) {
	t.Helper()
	now := new(atomic.Pointer[func(string) string])
	db := rewriting(t, server, func(query string) string {
		text := settings.ReplaceAllString(query, "")
		if f := now.Load(); f != nil && strings.HasPrefix(text, "SELECT") && withoutSubqueries(text) != text {
			return (*f)(query)
		}
		return query
	})
	return backendtest.New(t, open(t, db, nil)), now
}

// settings matches what statements set for themselves alone.
var settings = regexp.MustCompile(`^\s*(/\*M! )?SET STATEMENT .*? FOR (\*/)?\s*`)

// withoutSubqueries puts NULL in the place of each subquery of a statement. A server that is
// told to end the statement after it has read a row answers like that. Each subquery that has
// not begun is NULL, and there is no error if the row was the last one.
func withoutSubqueries(text string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "(SELECT")
		if i < 0 {
			return b.String() + text
		}
		depth, end := 0, i
		for ; end < len(text); end++ {
			if text[end] == '(' {
				depth++
			} else if text[end] == ')' {
				if depth--; depth == 0 {
					break
				}
			}
		}
		if before := strings.TrimSpace(text[:i]); strings.HasSuffix(before, "FROM") || strings.HasSuffix(before, "JOIN") {
			b.WriteString(text[:end+1])
		} else {
			b.WriteString(text[:i] + "NULL")
		}
		text = text[end+1:]
	}
}

// interrupted lists the work that must not strand a message, whichever of its statements is
// interrupted. The function prepare returns the work, the queue, and what must be received there
// afterwards.
var interrupted = []struct {
	name    string
	prepare func(f *backendtest.Fixture) (work func() error, queue int64, want []string)
}{
	{"settle one of three", func(f *backendtest.Fixture) (func() error, int64, []string) {
		d := f.Open()
		f.Send(d.A.Handle, "1", "2", "3")
		r := f.Request(f.QB)
		r.MaxMessages = 1
		h := f.One(r)
		return settling(f, backend.Outcome{Hold: h, Done: h.Messages}), f.QB, []string{"2", "3"}
	}},
	{"defer a timer", func(f *backendtest.Fixture) (func() error, int64, []string) {
		d := f.Open()
		f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, time.Microsecond) })
		f.MaintainUntil(backend.JobTimers, 1)
		h := f.One(f.Request(f.QA))
		return settling(f, backend.Outcome{Hold: h, Defer: time.Microsecond}), f.QA, []string{"<DialogTimer>"}
	}},
	{"reopen", func(f *backendtest.Fixture) (func() error, int64, []string) {
		d := f.Open()
		f.Send(d.A.Handle, "1")
		h := f.One(f.Request(f.QB))
		f.OK(settling(f, backend.Outcome{Hold: h, Defer: time.Microsecond})())
		return maintaining(f, backend.JobDeferred), f.QB, []string{"1"}
	}},
	{"keep promotions", func(f *backendtest.Fixture) (func() error, int64, []string) {
		f.Post(backend.Posting{Body: []byte("early")})
		late := f.Post(backend.Posting{Body: []byte("late")})
		f.Do(func(tx backend.Tx) error {
			return tx.Promote(f.Ctx, backend.Promotion{Group: late, Level: 5, Sticky: true})
		})
		return maintaining(f, backend.JobGroups), f.QP, []string{"late", "early"}
	}},
	{"keep what waits for its target", func(f *backendtest.Fixture) (func() error, int64, []string) {
		d := f.Begun("1")
		f.End(backend.End{Handle: d.A.Handle})
		work := maintaining(f, backend.JobClosed)
		return func() error {
			if err := work(); err != nil {
				return err
			}
			return f.Try(func(tx backend.Tx) error {
				if _, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B); err != nil {
					return err
				}
				_, err := tx.Deliver(f.Ctx, d.A.Handle)
				return err
			})
		}, f.QB, []string{"1", "<EndDialog>"}
	}},
	{"read how far a plan is", func(f *backendtest.Fixture) (func() error, int64, []string) {
		ends := f.Tasks(1, 0)
		ends[0].Outcome = backend.TaskOutcome{State: backend.TaskDead, Error: "never"}
		f.FinishTasks(ends...)
		return func() error {
			p, err := f.Backend.Progress(f.Ctx, ends[0].Hold.Plan)
			if err == nil && !p.Halted {
				f.Errorf("a plan with a dead task is at %+v", p)
			}
			return err
		}, f.QP, nil
	}},
}

func maintaining(f *backendtest.Fixture, job backend.Job) func() error {
	return func() error {
		_, err := f.Backend.Maintain(f.Ctx, job, 100)
		return err
	}
}

func settling(f *backendtest.Fixture, o backend.Outcome) func() error {
	return func() error {
		return f.Try(func(tx backend.Tx) error {
			if err := tx.Reclaim(f.Ctx, []*backend.Hold{o.Hold}); err != nil {
				return err
			}
			_, err := tx.Settle(f.Ctx, []backend.Outcome{o})
			return err
		})
	}
}

// received repeats interrupted work if it failed with err, and returns what is received then.
func received(f *backendtest.Fixture, work func() error, err error, queue int64) []string {
	f.Helper()
	if err != nil {
		f.OK(work())
	}
	for range 3 {
		f.Maintain(backend.JobDeferred)
	}
	return f.Drain(queue)
}

// TestInterruptedReads: no message is stranded by a read that was interrupted without
// an error.
func TestInterruptedReads(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		f, rewrite := rewritten(t, server)
		for _, x := range interrupted {
			for at, done := 0, false; !done; at++ {
				work, queue, want := x.prepare(f)
				n := 0
				var which string
				blank := func(query string) string {
					if n++; n-1 != at {
						return query
					}
					which = query
					return withoutSubqueries(query)
				}
				rewrite.Store(&blank)
				err := work()
				rewrite.Store(nil)
				done = n <= at
				if got := received(f, work, err, queue); !slices.Equal(got, want) {
					t.Errorf("%s: received %q, want %q; the work ended with %v when this was interrupted:\n%s", x.name, got, want, err, which)
				}
			}
		}
	})
}

// TestStatementTimeout is the same with real time-outs of the server, in the place of the
// settings that keep a session's away.
func TestStatementTimeout(t *testing.T) {
	server := backendtest.Server(t, "mariadb", "PARLEY_TEST_MARIADB", "the URL of a database for tests")
	f, rewrite := rewritten(t, server)
	timed := func(query string) string {
		limit := fmt.Sprintf("max_statement_time = %f", float64(20+rand.IntN(200))/1e6)
		timed := strings.Replace(query, "max_statement_time = 0", limit, 1)
		if timed == query {
			t.Errorf("this statement has the session's time-out:\n%s", query)
		}
		return timed
	}
	failed, all := 0, 0
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end) && !t.Failed(); {
		for _, x := range interrupted {
			work, queue, want := x.prepare(f)
			rewrite.Store(&timed)
			err := work()
			rewrite.Store(nil)
			if all++; err != nil {
				failed++
			}
			if got := received(f, work, err, queue); !slices.Equal(got, want) {
				t.Errorf("%s: received %q, want %q, after %d runs and %d errors (%v)", x.name, got, want, all, failed, err)
				break
			}
		}
	}
	t.Logf("%d of %d were interrupted with an error", failed, all)
}

// TestInterruptedBetweenStatements: a server that is interrupted between two statements of a text leaves out the rest, and
// never sends the results that it has announced. A call does not wait for them, whether its context has ended or
// another session has killed the query.
func TestInterruptedBetweenStatements(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		t.Run("by its context", func(t *testing.T) {
			betweenStatements(t, server, time.Second, func(_ string, cancel func()) { cancel() })
		})
		t.Run("by others", func(t *testing.T) {
			other := connect(t, server, "", nil)
			betweenStatements(t, server, 5*time.Second, func(database string, _ func()) {
				rows, err := other.Query("SELECT id FROM information_schema.processlist WHERE db = ?", database)
				if err != nil {
					t.Error(err)
					return
				}
				defer rows.Close()
				for id := int64(0); rows.Next(); {
					if err := rows.Scan(&id); err != nil {
						t.Error(err)
					}
					other.Exec(fmt.Sprintf("KILL QUERY %d", id)) // there may be no such session any more
				}
			})
		})
	})
}

// betweenStatements interrupts claims in the middle of long texts, until one of them has got no answer for some time.
func betweenStatements(t *testing.T, server string, silence time.Duration, interrupt func(database string, cancel func())) {
	own, enough := database(t, server), errors.New("enough")
	var sent atomic.Pointer[func()]
	db := backendtest.Rewrite(connectorTo(t, server, own, several), func(query string) string {
		if f := sent.Load(); f != nil && strings.Contains(query, "START TRANSACTION;") {
			(*f)()
			return strings.Repeat("DO 0;", 200) + query
		}
		return query
	})
	t.Cleanup(func() { db.Close() })
	f := backendtest.New(t, open(t, db, nil))
	f.None(f.Request(f.QP)) // the store has found out by then what the connection takes
	f.Post(backend.Posting{Body: []byte("x")})

	interrupted, silent := 0, 0
	for end := time.Now().Add(10 * time.Second); silent == 0 && time.Now().Before(end); {
		ctx, cancel := context.WithCancel(f.Ctx)
		var done sync.WaitGroup
		soon := func() {
			done.Go(func() {
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
				interrupt(own, cancel)
			})
		}
		sent.Store(&soon)
		start, ended := time.Now(), make(chan error, 1)
		go func() {
			ended <- f.Try(func(tx backend.Tx) error {
				_, err := tx.Claim(ctx, f.Request(f.QP))
				if err != nil {
					return err
				}
				return enough
			})
		}()
		select {
		case err := <-ended:
			if err != enough {
				interrupted++
			}
		case <-time.After(slow.By(30 * time.Second)):
			t.Fatal("an interrupted claim does not end")
		}
		if time.Since(start) > silence {
			silent++
		}
		sent.Store(nil)
		done.Wait()
		cancel()
	}
	t.Logf("%d claims were interrupted, %d of them in silence", interrupted, silent)
	f.Equal("received", f.Drain(f.QP), []string{"x"})
}
