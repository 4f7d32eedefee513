package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/sure"
)

func init() {
	add(check{ID: "X19", Name: "handlers that change bodies", Run: checkChangedBodies})
}

// checkChangedBodies has a handler change each body before it fails, buries it or is done.
func checkChangedBodies(e *env) {
	for _, hold := range e.Holds() {
		w := e.another(func(c *parley.Catalog) {
			c.Queues[0].Retention, c.Queues[1].Retention, c.Queues[1].KeepProcessed = true, true, time.Hour
		})
		w.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err == nil {
				err = c.Send(e.Ctx, w.Ask, []byte("kept"))
			}
			return err
		})
		post := w.headedPost(nil, "processed")
		w.posts([]string{"key"}, "buried")
		w.posts(nil, "buried", "failed")
		var side parley.ID
		attempts := make(map[string]int)
		wk := sure.Of(w.B.NewWorker(w.SQ, parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
			body := string(m.Body)
			clear(m.Body)
			attempts[body]++
			switch {
			case body == "kept":
				side = m.Conversation
			case body == "buried":
				return parley.DeadLetter(errPoison)
			case body == "failed" && attempts[body] == 1:
				return errors.New("not yet")
			}
			return nil
		}), &parley.WorkerOptions{Hold: hold, MaxReaders: 1, Backoff: func(int) time.Duration { return 0 }}))
		e.Soon(30*time.Second, func() bool { e.Must(wk.Drain(e.Ctx)); return attempts["failed"] == 2 })
		if len(attempts) != 4 || attempts["failed"] != 2 {
			e.Errorf("handlers got these bodies, with counts: %v; want 4 bodies, and the failed one twice", attempts)
		}
		dead, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, backend.CountLimit)
		e.Must(err)
		for _, d := range dead {
			w.sameBody("a dead letter", d.Message.Body, "buried")
		}
		if len(dead) != 2 {
			e.Errorf("there are %d dead letters, want 2", len(dead))
		}
		copies, err := w.B.Admin().Retained(e.Ctx, side)
		e.Must(err)
		for _, c := range copies {
			w.sameBody("a retained copy", c.Message.Body, "kept")
		}
		if len(copies) != 1 {
			e.Errorf("there are %d retained copies, want 1", len(copies))
		}
		status, err := w.B.PostStatus(e.Ctx, w.SQ, post)
		e.Must(err)
		w.sameBody("a post that was processed", status.Body, "processed")
	}
}

func (w *world) sameBody(what string, got []byte, want string) {
	if string(got) != want {
		w.Errorf("%s has the body %q, want %q", what, got, want)
	}
}
