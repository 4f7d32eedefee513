// Package workertest has tests of workers whose handlers write to the application's tables. They
// cover what only a real engine does: deadlocks, killed connections, and commits that fail.
package workertest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

// Engine is what the tests have to know of one.
type Engine struct {
	// Open opens a pool on an empty database. What it returns besides opens
	// a migrated store on the pool, any number of times.
	Open func(t *testing.T) (*sql.DB, func() backend.Backend)
	// Kept is how many connections of the pool the store keeps for itself.
	Kept int
	// Kill is a statement that ends the connection on which it runs.
	Kill string
	// Deferred is the clause by which a unique constraint is checked at the commit. It is
	// empty if the engine has no such clause.
	Deferred string
}

// Run runs all tests.
func Run(t *testing.T, e Engine) {
	for name, test := range map[string]func(*shop){
		"deadlock":     (*shop).deadlock,
		"connection":   (*shop).connection,
		"commit":       (*shop).commit,
		"pool":         (*shop).pool,
		"nothing left": (*shop).leaks,
		"all at work":  (*shop).together,
		"ignored":      (*shop).ignored,
		"refused":      (*shop).refused,
	} {
		t.Run(name, func(t *testing.T) {
			for _, hold := range []parley.Hold{parley.HoldTransaction, parley.HoldLease} {
				s := &shop{T: t, Engine: e, ctx: t.Context(), hold: hold}
				s.start()
				test(s)
			}
		})
	}
}

// shop is a store beside tables of the application's.
type shop struct {
	*testing.T
	Engine
	ctx  context.Context
	hold parley.Hold
	db   *sql.DB
	open func() backend.Backend
	b    *parley.Broker

	mu    sync.Mutex
	tries map[string]int
	most  map[string]int // attempts that a message was told of
}

func (s *shop) start() {
	s.tries, s.most = make(map[string]int), make(map[string]int)
	s.db, s.open = s.Open(s.T)
	s.db.SetMaxOpenConns(12 + s.Kept)
	s.broker(nil)
	s.must(s.b.Define(s.ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	s.exec("CREATE TABLE effect (body VARCHAR(20) NOT NULL)")
	s.exec("CREATE TABLE account (id INT NOT NULL PRIMARY KEY, balance INT NOT NULL)")
	s.exec("INSERT INTO account (id, balance) VALUES (1, 0), (2, 0)")
}

// broker opens one on the pool.
func (s *shop) broker(o *parley.Options) {
	s.Helper()
	b, err := parley.New(s.ctx, s.open(), o)
	s.must(err)
	s.Cleanup(func() { b.Close() })
	s.b = b
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) exec(q string) {
	s.Helper()
	_, err := s.db.ExecContext(s.ctx, q)
	s.must(err)
}

func (s *shop) post(bodies ...string) {
	s.Helper()
	batch := make([]parley.Posting, len(bodies))
	for i, body := range bodies {
		batch[i] = parley.Posting{Payload: parley.Payload{Body: []byte(body)}, Options: []parley.PostOption{parley.Key(body)}}
	}
	s.must(s.b.InTx(s.ctx, func(tx *parley.Tx) error {
		_, err := tx.PostBatch(s.ctx, "q", batch)
		return err
	}))
}

// work runs a worker until all bodies have had their effect, and looks whether
// each has had it once.
func (s *shop) work(o parley.WorkerOptions, bodies []string, f func(ctx context.Context, tx parley.Execer, m *parley.Message, try int) error) {
	s.Helper()
	o.Hold = s.hold
	o.Backoff = func(int) time.Duration { return time.Millisecond }
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	over := make(chan error, 1)
	w := sure.Of(s.b.NewWorker("q", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		s.mu.Lock()
		s.tries[string(m.Body)]++
		try := s.tries[string(m.Body)]
		s.most[string(m.Body)] = max(s.most[string(m.Body)], m.Attempt)
		s.mu.Unlock()
		tx, err := m.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.SQL().ExecContext(ctx, fmt.Sprintf("INSERT INTO effect (body) VALUES ('%s')", m.Body)); err != nil {
			return err
		}
		return f(ctx, tx.SQL(), m, try)
	}), &o))
	go func() { over <- w.Run(ctx) }()
	count := func(q string) (n int) {
		s.Helper()
		s.must(s.db.QueryRowContext(s.ctx, q).Scan(&n))
		return n
	}
	slow.Eventually(s, 30*time.Second, fmt.Sprintf("%d messages have their effects", len(bodies)), func() (any, bool) {
		n := count("SELECT COUNT(*) FROM effect")
		return n, n >= len(bodies)
	})
	stop()
	s.must(<-over)
	if all, each := count("SELECT COUNT(*) FROM effect"), count("SELECT COUNT(DISTINCT body) FROM effect"); all != len(bodies) || each != len(bodies) {
		s.Errorf("%d effects of %d messages were committed, want %d of as many", all, each, len(bodies))
	}
	q, err := s.b.Admin().Queues(s.ctx, "q")
	s.must(err)
	if q[0].Depth+q[0].Parked+q[0].Deferred > 0 {
		s.Errorf("left in the queue: %+v", q[0])
	}
}

// uncharged fails the test if a message that did nothing wrong was told of a
// failed attempt.
func (s *shop) uncharged() {
	s.Helper()
	for body, n := range s.most {
		if n > 1 && !strings.HasPrefix(body, "guilty") {
			s.Errorf("message %s was charged: it was told of attempt %d", body, n)
		}
	}
}

func numbered(format string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(format, i))
	}
	return list
}

// deadlock: two groups that write to the same rows in opposite order. The engine aborts one of
// them, and nothing else of its batch. It counts no attempt, and succeeds when it is retried. On
// PostgreSQL the retry may lose in the same way. It can lock its first row again before the
// transaction that waits for the row wakes up.
func (s *shop) deadlock() {
	var met [2]chan struct{}
	for i := range met {
		met[i] = make(chan struct{})
	}
	bodies := append(numbered("before %d", 10), "forth")
	s.post(bodies...)
	go func() {
		select {
		case <-met[0]:
			s.post(append([]string{"back"}, numbered("after %d", 10)...)...)
		case <-s.ctx.Done():
		}
	}()
	bodies = append(append(bodies, "back"), numbered("after %d", 10)...)
	deadlocks := 0
	s.work(parley.WorkerOptions{MaxReaders: 2, BatchTime: time.Second}, bodies, func(ctx context.Context, tx parley.Execer, m *parley.Message, try int) error {
		which := strings.Index("forth back", string(m.Body))
		if which < 0 {
			return nil
		}
		which = min(which, 1)
		var err error
		for i, row := range [2]int{1 + which, 2 - which} {
			if i == 1 && try == 1 {
				close(met[which])
				select {
				case <-met[1-which]:
				case <-time.After(10 * time.Second):
					s.Error("the two did not meet")
				}
			}
			if _, err = tx.ExecContext(ctx, fmt.Sprintf("UPDATE account SET balance = balance + 1 WHERE id = %d", row)); err != nil {
				s.mu.Lock()
				deadlocks++
				s.mu.Unlock()
				break
			}
		}
		return err
	})
	if tries := s.tries["forth"] + s.tries["back"]; deadlocks == 0 || tries != deadlocks+2 {
		s.Errorf("%d deadlocks and %d tries, want a deadlock, and another try after each", deadlocks, tries)
	}
	s.uncharged()
	var low, high int
	s.must(s.db.QueryRowContext(s.ctx, "SELECT MIN(balance), MAX(balance) FROM account").Scan(&low, &high))
	if low != 2 || high != 2 {
		s.Errorf("balances from %d to %d, want 2", low, high)
	}
}

// connection: handlers whose connection is killed under them.
func (s *shop) connection() {
	bodies := append(numbered("before %02d", 20), append(numbered("guilty %d", 3), numbered("after %02d", 20)...)...)
	s.post(bodies...)
	s.work(parley.WorkerOptions{MaxReaders: 1, BatchTime: time.Second}, bodies, func(ctx context.Context, tx parley.Execer, m *parley.Message, try int) error {
		if !strings.HasPrefix(string(m.Body), "guilty") || try > 2 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, s.Kill); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = 0")
		return err
	})
	s.uncharged()
}

// commit: a commit that fails is charged to the message whose work it was.
func (s *shop) commit() {
	if s.Deferred == "" {
		s.Skip("the engine looks at constraints at once")
	}
	s.exec("CREATE TABLE name (name VARCHAR(20), CONSTRAINT one UNIQUE (name) " + s.Deferred + ")")
	s.exec("INSERT INTO name VALUES ('taken')")
	bodies := append(numbered("before %02d", 20), append(numbered("guilty %d", 3), numbered("after %02d", 20)...)...)
	s.post(bodies...)
	s.work(parley.WorkerOptions{MaxReaders: 1, MaxAttempts: 10, BatchTime: time.Second}, bodies, func(ctx context.Context, tx parley.Execer, m *parley.Message, try int) error {
		if !strings.HasPrefix(string(m.Body), "guilty") || try > 3 {
			return nil
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO name VALUES ('taken')") // the commit finds out
		return err
	})
	s.uncharged()
	for _, body := range numbered("guilty %d", 3) {
		if s.most[body] < 2 {
			s.Errorf("%s was not charged", body)
		}
	}
}

// pool: a pool that is too small is an error at the start.
func (s *shop) pool() {
	s.db.SetMaxOpenConns(4 + s.Kept)
	w := sure.Of(s.b.NewWorker("q", parley.HandlerFunc(func(context.Context, *parley.Message) error { return nil }),
		&parley.WorkerOptions{MaxReaders: 3, Hold: s.hold}))
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	err := w.Drain(ctx)
	if s.hold == parley.HoldLease {
		s.must(err) // readers have no separate connections
		return
	}
	if !errors.Is(err, parley.ErrPool) || !strings.Contains(err.Error(), "4 connections") || !strings.Contains(err.Error(), "need 5") {
		s.Errorf("a pool of 4 for 3 readers: %v", err)
	}
	w.SetMaxReaders(2)
	s.must(w.Drain(ctx))
}

// together: handlers that were quick become slow. All readers are still at work as soon as there is
// enough for them, although no reader polls.
func (s *shop) together() {
	const readers = 6
	s.broker(&parley.Options{Poll: time.Hour})
	for _, release := range []parley.Release{parley.AfterCommit, parley.BeforeWork} {
		ctx, stop := context.WithTimeout(s.ctx, 30*time.Second)
		defer stop()
		quick := make(chan struct{}, 120)
		wait := func(n int, c chan struct{}) {
			for range n {
				select {
				case <-c:
				case <-ctx.Done():
				}
			}
		}
		first, all := make(chan struct{}), make(chan struct{})
		var mu sync.Mutex
		inHand := make(map[parley.ID]bool)
		w := sure.Of(s.b.NewWorker("q", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
			if strings.HasPrefix(string(m.Body), "quick") {
				quick <- struct{}{}
				return nil
			}
			mu.Lock()
			inHand[m.ID] = true
			switch len(inHand) {
			case 1:
				close(first)
			case readers:
				close(all)
			}
			mu.Unlock()
			select {
			case <-all:
			case <-ctx.Done():
			}
			return nil
		}), &parley.WorkerOptions{MaxReaders: readers, Hold: s.hold, Release: release}))
		over := make(chan error, 1)
		go func() { over <- w.Run(ctx) }()
		s.post(numbered("quick %02d", 60)...)
		for _, body := range numbered("quick %02d", 60) {
			s.post(body)
		}
		wait(120, quick)
		slow := numbered("slow %d", readers)
		s.post(slow[0])
		wait(1, first)
		for _, body := range numbered("quick %02d", 5) {
			s.post(body)
			wait(1, quick)
		}
		s.post(slow[1:]...)
		select {
		case <-all:
		case <-ctx.Done():
			mu.Lock()
			s.Errorf("release %v: %d of %d slow messages are in hand", release, len(inHand), readers)
			mu.Unlock()
		}
		stop()
		s.must(<-over)
	}
}

// leaks: a worker returns all that it has used, however it ends. A label tells its goroutines
// from those of other tests: a new goroutine inherits it.
func (s *shop) leaks() {
	s.b.Close()
	for i := range 3 {
		label := fmt.Sprint(s.Name(), s.hold, i)
		s.db.SetMaxIdleConns(12)
		pprof.Do(s.ctx, pprof.Labels("leaks", label), func(ctx context.Context) {
			s.runAndEnd(ctx, i)
		})
		s.db.SetMaxIdleConns(0) // connections have goroutines too
		slow.Eventually(s, 20*time.Second, "no connection is in use, and no goroutine is left", func() (any, bool) {
			left, used := goroutines(label), s.db.Stats().InUse
			return fmt.Sprintf("%d connections in use, and\n%s", used, strings.Join(left, "\n\n")), len(left) == 0 && used == 0
		})
	}
}

// goroutines returns the stacks of the goroutines that have a label.
func goroutines(label string) []string {
	var all strings.Builder
	pprof.Lookup("goroutine").WriteTo(&all, 1)
	stacks := strings.Split(all.String(), "\n\n")
	return slices.DeleteFunc(stacks, func(stack string) bool { return !strings.Contains(stack, strconv.Quote(label)) })
}

// runAndEnd has a worker handle messages and ends it in one of three ways.
func (s *shop) runAndEnd(ctx context.Context, way int) {
	s.broker(nil)
	s.post(numbered("a %d", 20)...)
	begun := make(chan struct{}, 100)
	w := sure.Of(s.b.NewWorker("q", parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		begun <- struct{}{}
		if way == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		_, err := m.Tx(ctx)
		return err
	}), &parley.WorkerOptions{Hold: s.hold, MaxReaders: 4, Grace: 10 * time.Millisecond}))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan error, 1)
	switch way {
	case 0:
		s.must(w.Drain(ctx))
	case 1: // told to stop while handlers are at work
		go func() { over <- w.Run(ctx) }()
		<-begun
		stop()
		s.must(<-over)
	case 2: // the broker is closed under it
		go func() { over <- w.Run(ctx) }()
		<-begun
	}
	s.must(s.b.Close())
	if way == 2 {
		<-over
	}
}
