package backendtest

import (
	"time"

	"github.com/parleymq/parley/backend"
)

func testDefer(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Post(backend.Posting{Queue: f.QB, Body: []byte("post")})
	for range 2 {
		f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QB)), Defer: 50 * time.Millisecond})
	}
	c := f.None(f.Request(f.QB))
	f.Equal("contended", c.Contended, false)
	f.Send(d.A.Handle, "2")
	f.None(f.Request(f.QB))
	groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, Limit: 10})
	f.OK(err)
	f.Equal("groups", len(groups), 2)
	for _, g := range groups {
		f.Equal("state", g.State, "deferred")
	}
	f.MaintainUntil(backend.JobDeferred, 2)
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "post"})
}

func testPark(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	post := f.Post(backend.Posting{Queue: f.QB, Body: []byte("post")})
	for range 2 {
		f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QB)), Park: "bad"})
	}
	f.Send(d.A.Handle, "2") // makes a marker
	f.None(f.Request(f.QB))
	n, _ := f.Maintain(backend.JobMarkers)
	f.Equal("markers taken out", n, 1)
	c := f.None(f.Request(f.QB))
	f.Equal("contended", c.Contended, false)
	q := f.queue(f.QB)
	f.Equal("parked", q.Parked, 2)
	groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, Limit: 10})
	f.OK(err)
	f.Equal("groups", []any{len(groups), groups[0].State, groups[0].Reason, groups[0].Messages}, []any{2, "parked", "bad", 2})
	f.Do(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, d.B.Group) })
	f.Do(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, post) })
	f.Is(f.Try(func(tx backend.Tx) error { return tx.Unpark(f.Ctx, backend.NewID()) }), backend.ErrNoGroup)
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "post"})
}

func (f *Fixture) queue(id int64) backend.QueueStatus {
	f.Helper()
	list, err := f.Backend.Queues(f.Ctx, 0)
	f.OK(err)
	for _, q := range list {
		if q.ID == id {
			return q
		}
	}
	f.Fatalf("no queue %d in %+v", id, list)
	return backend.QueueStatus{}
}

func testFailure(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Post(backend.Posting{Queue: f.QB})
	f.Post(backend.Posting{Queue: f.QB, Key: "k"})
	for range 3 {
		h := f.One(f.Request(f.QB))
		f.Settle(backend.Outcome{Hold: h, Defer: time.Millisecond, Failure: &backend.Failure{Message: h.Messages[0], Attempts: 2, Deaths: 1, Error: "oops"}})
	}
	f.MaintainUntil(backend.JobDeferred, 3)
	for range 3 {
		h := f.One(f.Request(f.QB))
		m := h.Messages[0]
		f.Equal("failure", []any{m.Attempts, m.Deaths, m.LastError}, []any{2, 1, "oops"})
		f.Ack(h)
	}
}

func testDead(f *Fixture) {
	d := f.Open()
	f.Post(backend.Posting{Queue: f.QB, Body: []byte("post")})
	f.Post(backend.Posting{Queue: f.QB, Key: "k", Unique: "u", Body: []byte("keyed")})
	f.Send(d.A.Handle, "1", "2")
	for range 3 {
		h := f.One(f.Request(f.QB))
		f.Settle(backend.Outcome{Hold: h, Dead: []backend.DeadLetter{{Message: h.Messages[0], Reason: "rotten"}}})
	}
	f.Equal("drained", f.Drain(f.QB), []string{"2"})
	dead, err := f.Backend.DeadLetters(f.Ctx, backend.DeadQuery{Queue: f.QB, Limit: 10, Bodies: true})
	f.OK(err)
	f.Equal("dead", len(dead), 3)
	if len(dead) == 3 {
		f.Equal("newest", []any{string(dead[0].Message.Body), dead[0].Message.Handle, dead[0].Message.Service}, []any{"1", d.B.Handle, "B"})
		f.Equal("next", []any{string(dead[1].Message.Body), dead[1].Message.Key, dead[1].Reason, dead[1].Queue}, []any{"keyed", "k", "rotten", f.QB})
	}
	none, err := f.Backend.DeadLetters(f.Ctx, backend.DeadQuery{Queue: f.QA, Limit: 10, Bodies: true})
	f.OK(err)
	f.Equal("dead elsewhere", len(none), 0)
}
