package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

// How a dialog for a request goes on after the reply.
const (
	keptOpen   = iota // for the next request
	clientEnds        // and the server hears of it
	serverEnds        // with the reply, which the client hears of together with it
)

// talking measures requests and their replies, in a closed loop: each of 16
// clients has one request under way.
func talking(after int) func(context.Context, *measurement) (sample, error) {
	return func(ctx context.Context, m *measurement) (sample, error) {
		q, err := openParley(ctx, m.dsn, parleyHow{})
		if err != nil {
			return sample{}, err
		}
		defer q.close()
		var waiting sync.Map // handle -> chan struct{}
		server, client := talkers(after, &waiting)
		for queue, h := range map[string]parley.Handler{"jobs": server, "answers": client} {
			stop, err := q.run(ctx, h, queue, 5)
			if err != nil {
				return sample{}, err
			}
			defer stop()
		}
		const clients = 16
		var trips atomic.Int64
		ask := func(handle parley.ID) (parley.ID, error) {
			answer := make(chan struct{}, 1)
			var err error
			if handle.IsZero() {
				handle, err = q.b.BeginDialog(ctx, "Client", "Server", &parley.DialogOptions{Contract: "Jobs"}, parley.Payload{Type: "Job", Body: body(0)})
				if early, is := waiting.LoadOrStore(handle, answer); is { // the answer was faster
					answer = early.(chan struct{})
				}
			} else {
				waiting.Store(handle, answer)
				err = q.b.Send(ctx, handle, parley.Payload{Type: "Job", Body: body(0)})
			}
			if err != nil {
				return handle, err
			}
			defer waiting.Delete(handle)
			select {
			case <-answer:
				trips.Add(1)
				return handle, nil
			case <-time.After(20 * time.Second):
				return handle, errors.New("no answer within 20 s")
			case <-ctx.Done():
				return handle, ctx.Err()
			}
		}
		var start time.Time
		var once sync.Once
		ready := make(chan struct{})
		var up atomic.Int64
		err = inParallel(clients, clients, func(int) error {
			handle, err := ask(parley.ID{})
			if up.Add(1) == clients || err != nil {
				once.Do(func() { m.begin(); start = time.Now(); trips.Store(0); close(ready) })
			}
			<-ready
			for err == nil && time.Since(start) < 2*m.window {
				if after != keptOpen {
					handle = parley.ID{}
				}
				handle, err = ask(handle)
			}
			return err
		})
		return sample{value: float64(trips.Load()) / time.Since(start).Seconds(), n: int(trips.Load())}, err
	}
}

// talkers are the handlers of a server that answers, and of a client that tells what is waiting of it.
func talkers(after int, waiting *sync.Map) (server, client *parley.Mux) {
	server, client = parley.NewMux(), parley.NewMux()
	server.HandleFunc("Job", func(ctx context.Context, m *parley.Message) error {
		if err := m.Reply(ctx, "Answer", m.Body); err != nil || after != serverEnds {
			return err
		}
		return m.End(ctx)
	})
	client.HandleFunc("Answer", func(ctx context.Context, m *parley.Message) error {
		if after == clientEnds {
			if err := m.End(ctx); err != nil {
				return err
			}
		}
		c, _ := waiting.LoadOrStore(m.Conversation, make(chan struct{}, 1)) // its client may not know the handle yet
		select {
		case c.(chan struct{}) <- struct{}{}:
		default: // it came again
		}
		return nil
	})
	return server, client
}

// promoting promotes conversations while workers are busy with what waits.
func promoting(ctx context.Context, m *measurement) (sample, error) {
	q, err := openParley(ctx, m.dsn, parleyHow{})
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	seen := make(chan time.Time, 1)
	mux := parley.NewMux()
	mux.HandleFunc("Job", func(ctx context.Context, m *parley.Message) error {
		if m.Conversation.IsZero() {
			time.Sleep(time.Millisecond)
			return nil
		}
		seen <- time.Now()
		return nil
	})
	stop, err := q.run(ctx, mux, "jobs", 10)
	if err != nil {
		return sample{}, err
	}
	defer stop()
	var took []float64
	for range m.size(15, 50) {
		var peer parley.ID
		err := q.b.InTx(ctx, func(tx *parley.Tx) error {
			c, err := tx.Begin(ctx, "Client", "Server", &parley.DialogOptions{Contract: "Jobs"})
			if err == nil {
				err = c.Send(ctx, "Job", body(0))
			}
			if err != nil {
				return err
			}
			s, err := c.Status(ctx)
			if err == nil {
				peer = s.FarHandle // the target's group, as long as no transaction moves the dialog
			}
			return err
		})
		if err != nil {
			return sample{}, err
		}
		time.Sleep(30 * time.Millisecond)
		start := time.Now()
		if err := q.b.Promote(ctx, peer); err != nil {
			return sample{}, fmt.Errorf("promote: %w", err)
		}
		select {
		case t := <-seen:
			took = append(took, t.Sub(start).Seconds()*1000)
		case <-time.After(30 * time.Second):
			return sample{}, errors.New("the promoted group was not received within 30 s")
		}
	}
	return sample{value: percentile(took, 0.5), p99: percentile(took, 0.99)}, nil
}

// groupsLoad puts one message into each of n groups.
func groupsLoad(n int) func(*measurement) loader {
	return func(*measurement) loader {
		return loader{n: n, name: "groups", how: func(ctx context.Context, q queue, n int) error {
			return loadGroups(ctx, q.(*parleyQueue), n, n)
		}}
	}
}

// millionLoad puts 100,000 messages into 10,000 groups, and 900,000 posts that
// are groups of their own beside them.
func millionLoad(*measurement) loader {
	return loader{n: 1_000_000, name: "million", how: func(ctx context.Context, q queue, n int) error {
		if err := loadGroups(ctx, q.(*parleyQueue), n/10, n/100); err != nil {
			return err
		}
		return loadCopies(ctx, q.(*parleyQueue), n-n/10)
	}}
}

// loadCopies posts n thousands of messages without key, in the order of their times, as
// new ones are. All but the first thousand are copies that the database makes of these,
// where it is quick at that.
func loadCopies(ctx context.Context, q *parleyQueue, n int) error {
	const made = 1000
	if strings.HasPrefix(q.dsn, "mysql") {
		return loadPlain(ctx, q, n)
	}
	if err := loadPlain(ctx, q, made); err != nil {
		return err
	}
	if strings.HasPrefix(q.dsn, "postgres") {
		_, err := q.db.ExecContext(ctx, `
			INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
			SELECT (lpad(to_hex(n), 8, '0') || substr(p.post_id::text, 9))::uuid,
			       p.queue_id, p.priority, p.since + 1000 * n, p.type, p.body
			  FROM generate_series(1, $1::int) n CROSS JOIN parley_post p
			 WHERE p.queue_id > 0 -- others are there for the planner
			 ORDER BY n, p.post_id`, n/made-1)
		return err
	}
	return execute(ctx, "sqlite", sqliteDSN(q.dsn), fmt.Sprintf(`
		WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < %d),
		     p AS MATERIALIZED (SELECT * FROM parley_post ORDER BY post_id)
		INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
		SELECT CAST(unhex(printf('%%08x', x.n)) || substr(p.post_id, 5) AS BLOB),
		       p.queue_id, p.priority, p.since + 1000 * x.n, p.type, p.body
		  FROM x CROSS JOIN p`, n/made-1))
}

func loadGroups(ctx context.Context, q *parleyQueue, n, groups int) error {
	const size = 1000
	return inParallel(2, (n+size-1)/size, func(i int) error {
		posts := make([]parley.Posting, min(size, n-i*size))
		for k := range posts {
			at := i*size + k
			posts[k] = parley.Posting{Payload: payload(body(at)), Options: []parley.PostOption{parley.Key(fmt.Sprint("g", at%groups))}}
		}
		return q.b.InTx(ctx, func(tx *parley.Tx) error {
			_, err := tx.PostBatch(ctx, "jobs", posts)
			return err
		})
	})
}

func hotLoad(n int) func(*measurement) loader {
	return func(*measurement) loader {
		return loader{n: n, name: "hot", how: func(ctx context.Context, q queue, n int) error {
			for i := 0; i < n; i += 1000 {
				if err := q.(keyed).batchOf(ctx, "hot", bodies(i, 1000)); err != nil {
					return err
				}
			}
			return nil
		}}
	}
}

// claiming receives and acknowledges one message at a time.
func claiming(ctx context.Context, m *measurement) (sample, error) {
	q, err := openParley(ctx, m.dsn, parleyHow{})
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	rate, n, err := claimFor(ctx, q, max(m.window, 700*time.Millisecond), m.begin)
	return sample{value: rate, n: n}, err
}

func claimFor(ctx context.Context, q *parleyQueue, window time.Duration, begin func()) (float64, int, error) {
	one := func() (bool, error) {
		d, err := q.b.Receive(ctx, "jobs", &parley.ReceiveOptions{MaxMessages: 1})
		if errors.Is(err, parley.ErrNoMessage) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, d.Ack(ctx)
	}
	// PostgreSQL plans a statement again for its first executions, and pages of a copy
	// are read for the first time.
	for n, start := 0, time.Now(); n < 10 || n < 100 && time.Since(start) < 300*time.Millisecond; n++ {
		if _, err := one(); err != nil {
			return 0, 0, err
		}
	}
	begin()
	n, start := 0, time.Now()
	for time.Since(start) < window {
		ok, err := one()
		if err != nil {
			return 0, n, err
		}
		if !ok {
			break
		}
		n++
	}
	if n == 0 {
		return 0, 0, errors.New("nothing to receive")
	}
	return float64(n) / time.Since(start).Seconds(), n, nil
}

// claimingBehind does it while another process holds the first 1,000 groups.
func claimingBehind(ctx context.Context, m *measurement) (sample, error) {
	holder, err := openParley(ctx, m.dsn, parleyHow{options: parley.Options{Lease: 10 * time.Minute}})
	if err != nil {
		return sample{}, err
	}
	defer holder.close()
	err = inParallel(8, 1000, func(int) error {
		// A receiver that meets the others at the head of the order looks again.
		_, err := holder.b.Receive(ctx, "jobs", &parley.ReceiveOptions{MaxMessages: 1, Hold: parley.HoldLease, Wait: 10 * time.Second})
		return err
	})
	if err != nil {
		return sample{}, err
	}
	return claiming(ctx, m)
}

// underSnapshot compares the last ten seconds of a minute in which another
// session's snapshot keeps the engine from cleaning up with the ten before it.
func underSnapshot(ctx context.Context, m *measurement) (sample, error) {
	q, err := openParley(ctx, m.dsn, parleyHow{key: true})
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	sender, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for i := 0; sender.Err() == nil; i += 100 {
			q.batch(sender, bodies(i, 100))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if _, _, err := claimFor(ctx, q, 5*time.Second, m.begin); err != nil {
		return sample{}, err
	}
	before, _, err := claimFor(ctx, q, 10*time.Second, m.begin)
	if err != nil {
		return sample{}, err
	}
	tx, err := q.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return sample{}, err
	}
	defer tx.Rollback()
	var one int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM bench_row`).Scan(&one); err != nil {
		return sample{}, err
	}
	if _, _, err := claimFor(ctx, q, 50*time.Second, m.begin); err != nil {
		return sample{}, err
	}
	after, n, err := claimFor(ctx, q, 10*time.Second, m.begin)
	return sample{value: after / before, n: n}, err
}
