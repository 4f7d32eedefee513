package conformance

import (
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "N06", Name: "processed posts are kept and not delivered again", Run: checkProcessed},
		Check{ID: "N06", Name: "processed posts go after the set time and not before", Run: checkProcessedGo},
	)
}

func checkProcessed(e *Env) {
	w := e.World(func(c *parley.Catalog) { c.Queues[1].KeepProcessed = time.Hour })
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		u := parley.Unique("value")
		var kept []parley.ID
		settle := map[string]func() []*parley.Message{
			"a receive in a transaction": func() (ms []*parley.Message) {
				w.Tx(func(tx *parley.Tx) (err error) {
					ms, err = tx.Receive(e.Ctx, w.SQ, nil)
					return err
				})
				return ms
			},
			"a receive that releases before the work": func() []*parley.Message {
				return w.Receive(w.SQ, &parley.ReceiveOptions{Release: parley.BeforeWork}).Messages
			},
		}
		for _, hold := range e.Holds() {
			settle["an acknowledgement, "+postHold(hold)] = func() []*parley.Message {
				d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
				e.Must(d.Ack(e.Ctx))
				return d.Messages
			}
		}
		for how, take := range settle {
			id := w.post(w.SQ, "body "+how, append(o, u)...)
			if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); err != nil || s.State != "pending" {
				e.Errorf("the status of a post that waits is %+v, %v", s, err)
			}
			if ms := take(); len(ms) != 1 || ms[0].ID != id {
				e.Fatalf("after %s: received %s, want the one post that is not processed", how, describe(ms))
			}
			s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
			if err != nil {
				e.Fatalf("after %s the status of a post that should be kept: %v", how, err)
			}
			if s.State != "processed" || string(s.Body) != "body "+how || s.ID != id || s.Type != parley.Default || s.Key != "" && o == nil || s.Key != "key" && o != nil {
				e.Errorf("after %s the status of a post that should be kept is %+v", how, s)
			}
			e.Is(postCancel(w, w.SQ, id), parley.ErrNotPending)
			w.Nothing(w.SQ, nil)
			kept = append(kept, id)
		}
		// Background work neither removes nor revives them.
		postTend(e, e.Handle())
		w.Nothing(w.SQ, nil)
		for _, id := range kept {
			if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); err != nil || s.State != "processed" {
				e.Errorf("after the background work the status of a kept post is %+v, %v", s, err)
			}
		}
	}
	// The other queue keeps none, and posts that failed are not processed.
	id := w.post(w.CQ, "not kept")
	postWant(w, w.CQ, "not kept")
	if s, err := w.B.PostStatus(e.Ctx, w.CQ, id); !errors.Is(err, parley.ErrNotPending) {
		e.Errorf("the status of a processed post of a queue that keeps none is %+v, %v, want %v", s, err, parley.ErrNotPending)
	}
	back := w.post(w.SQ, "given back")
	e.Must(w.Receive(w.SQ, nil).Rollback(e.Ctx))
	if s, err := w.B.PostStatus(e.Ctx, w.SQ, back); err != nil || s.State != "pending" {
		e.Errorf("the status of a post that was given back is %+v, %v", s, err)
	}
	postWant(w, w.SQ, "given back")
}

// postTend does all background work that is to be done now.
func postTend(e *Env, be backend.Backend) {
	for duty := range backend.Duty(backend.DutyCount) {
		postDuty(e, be, duty)
	}
}

func postDuty(e *Env, be backend.Backend, duty backend.Duty) {
	const limit = 100
	for range 1000 {
		n, _, err := be.Tend(e.Ctx, duty, limit)
		if errors.Is(err, backend.ErrSerialization) {
			continue
		}
		e.Must(err)
		if n < limit {
			return
		}
	}
}

func checkProcessedGo(e *Env) {
	const keep = 400 * time.Millisecond
	w := e.World(func(c *parley.Catalog) { c.Queues[1].KeepProcessed = keep })
	be := e.Handle()
	for _, o := range [][]parley.PostOption{nil, {parley.Key("key")}} {
		id := w.post(w.SQ, "kept", o...)
		before := time.Now()
		postWant(w, w.SQ, "kept")
		postDuty(e, be, backend.DutyProcessed)
		_, err := w.B.PostStatus(e.Ctx, w.SQ, id)
		if passed := time.Since(before); err != nil && passed < keep-tmrEarly {
			e.Errorf("a processed post that is kept for %v was gone %v after it: %v", keep, passed, err)
		}
		if !e.Soon(5*time.Second, func() bool {
			postDuty(e, be, backend.DutyProcessed)
			_, err := w.B.PostStatus(e.Ctx, w.SQ, id)
			return errors.Is(err, parley.ErrNotPending)
		}) {
			e.Errorf("a processed post that is kept for %v was still there 5 s later", keep)
		}
		if passed := time.Since(before); passed < keep-tmrEarly {
			e.Errorf("a processed post that is kept for %v was gone after %v", keep, passed)
		}
		w.Nothing(w.SQ, nil)
	}
}
