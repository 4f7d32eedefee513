package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "N09", Name: "one post in each period", Run: checkUniquePer},
		check{ID: "N09", Name: "of concurrent posts of a period exactly one is added", Run: checkUniquePerRace},
		check{ID: "N09", Name: "a handler posts its successor", Run: checkUniquePerSuccessor},
	)
}

// longPeriod is a period that does not end while a check runs.
func longPeriod() time.Duration {
	now := time.Now().UTC()
	for _, d := range []time.Duration{1000 * time.Hour, 1700 * time.Hour} {
		if now.Truncate(d) == now.Add(time.Hour).Truncate(d) {
			return d
		}
	}
	return 2900 * time.Hour
}

func checkUniquePer(e *env) {
	w := e.World()
	period := longPeriod()
	var is bool
	post := func(queue, body, value string, o ...parley.PostOption) parley.ID {
		return w.post(queue, body, append(o, parley.UniquePer(value, period), parley.Duplicate(&is))...)
	}
	again := func(when string, first parley.ID) {
		if id := post(w.SQ, "again", "v"); !is || id != first {
			e.Errorf("%s: another post of the period has the ID %s and is a duplicate: %t, want %s and true", when, id, is, first)
		}
	}
	first := post(w.SQ, "first", "v")
	if is {
		e.Errorf("the first post of a period is called a duplicate")
	}
	again("while it waits", first)
	for what, id := range map[string]parley.ID{
		"another value": post(w.SQ, "other", "V"), "another queue": post(w.CQ, "far", "v"),
		"another period": post(w.SQ, "next", "v", parley.After(period)),
	} {
		if id == first {
			e.Errorf("a post of %s has the ID of the first", what)
		}
	}
	if got := bodiesOf(w.Drain(w.SQ)); !slices.Equal(got, []string{"first", "other"}) {
		e.Errorf("received %q, want the first post of each value", got)
	}
	again("when it is done", first)

	// What is undone has not been posted.
	undo := func(end error, queue string, p parley.Payload) {
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			if _, err := tx.Post(e.Ctx, queue, p, parley.UniquePer("undone", period)); err != nil && end != nil {
				return err
			}
			return end
		})
		if !errors.Is(err, end) {
			e.Errorf("a transaction that posts ends with %v, want %v", err, end)
		}
	}
	undo(errUndo, w.SQ, parley.Payload{})
	undo(nil, w.SQ, parley.Payload{Type: e.Name("no such type")}) // the transaction commits without the post
	if post(w.SQ, "undone before", "undone"); is {
		e.Errorf("a post that was rolled back counts")
	}
	w.Tx(func(tx *parley.Tx) error {
		o := []parley.PostOption{parley.UniquePer("batch", period)}
		ids, err := tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{Options: o}, {Payload: parley.Payload{Body: []byte("plain")}}, {Options: o}})
		if err == nil && (ids[0] != ids[2] || ids[0] == ids[1]) {
			e.Errorf("a batch has the IDs %v, want two", ids)
		}
		return err
	})
	if got := len(w.Drain(w.SQ)); got != 3 {
		e.Errorf("%d posts were received at the end, want 3", got)
	}
}

func checkUniquePerRace(e *env) {
	w := e.World()
	brokers := []*parley.Broker{w.B, e.Broker(nil), e.Broker(nil)}
	period := longPeriod()
	for round := range 5 {
		var all sync.WaitGroup
		ids := make([]parley.ID, 6)
		for p := range ids {
			all.Go(func() {
				err := queRetry(e, brokers[p%len(brokers)], func(tx *parley.Tx) (err error) {
					ids[p], err = tx.Post(e.Ctx, w.SQ, parley.Payload{}, parley.UniquePer(fmt.Sprint(round), period))
					return err
				})
				if err != nil {
					e.Errorf("a post failed: %v", err)
				}
			})
		}
		all.Wait()
		if slices.ContainsFunc(ids, func(id parley.ID) bool { return id != ids[0] }) {
			e.Errorf("concurrent posts of one period have the IDs %v", ids)
		}
		if n := len(w.Drain(w.SQ)); n != 1 {
			e.Errorf("concurrent posts of one period have brought %d messages", n)
		}
	}
}

// checkUniquePerSuccessor has a handler post the message of the next period, at each of two attempts.
func checkUniquePerSuccessor(e *env) {
	period := longPeriod()
	for _, hold := range e.Holds() {
		w := e.another()
		var next []parley.ID
		w.post(w.SQ, "job", parley.UniquePer("job", period))
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
			tx, err := m.Tx(ctx)
			if err != nil {
				return err
			}
			id, err := tx.Post(ctx, w.SQ, parley.Payload{Body: m.Body}, parley.UniquePer("job", period), parley.After(period))
			if next = append(next, id); err == nil && m.Attempt == 1 {
				err = errPoison
			}
			return err
		})
		if !w.Soon(20*time.Second, func() bool { return w.depth(w.SQ) == 0 && w.queueStatus(w.SQ).Delayed == 1 }) {
			e.Errorf("the queue is not left with one delayed post: %+v", w.queueStatus(w.SQ))
		}
		r.Stop()
		if len(next) != 2 || next[0] != next[1] {
			e.Errorf("two attempts have posted the successors %v, want the same one twice", next)
		}
	}
}
