package backendtest

import (
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

func testReader(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	f.Post(backend.Posting{Queue: f.QB, Rank: 9, Body: []byte("post")})
	f.Post(backend.Posting{Queue: f.QB, Key: "k", Rank: 1})
	f.Post(backend.Posting{Queue: f.QB, Delay: time.Hour})
	f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, time.Hour) })
	f.Do(func(tx backend.Tx) error {
		return tx.Promote(f.Ctx, backend.Promotion{Group: d.B.Group, Level: 7, Sticky: true})
	})
	q := f.queue(f.QB)
	f.Equal("queue", []any{q.Name, q.Depth, q.Delayed, q.Leased, q.Oldest > 0}, []any{"qb", 4, 1, 0, true})
	var first backend.Place
	page := func(after backend.Place, limit int, state string) (s []string) {
		groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, After: after, Limit: limit, State: state})
		f.OK(err)
		for _, g := range groups {
			if first == (backend.Place{}) {
				first = g.Place
			}
			s = append(s, fmt.Sprint([]any{g.Service, g.Key, g.Post, g.Promoted, g.Level, g.Sticky, g.Priority, g.Messages, g.State}))
		}
		return s
	}
	all := []string{"[B  false true 7 true 5 2 ready]", "[  true false 0 false 9 1 ready]", "[ k false false 0 false 1 1 ready]"}
	f.Equal("groups", page(backend.Place{}, 10, ""), all)
	f.Equal("a page", page(first, 1, ""), all[1:2])
	h := f.One(f.Request(f.QB))
	f.Equal("waiting", page(backend.Place{}, 10, "ready"), all[1:])
	groups, err := f.Backend.Groups(f.Ctx, backend.GroupQuery{Queue: f.QB, Limit: 1})
	f.OK(err)
	f.Equal("held groups", len(page(backend.Place{}, 10, "held")), 1)
	f.Equal("held", []any{groups[0].State, groups[0].Owner, groups[0].Until > 0}, []any{"held", "test", true})
	f.Equal("leased", f.queue(f.QB).Leased, 1)
	f.Settle(backend.Outcome{Hold: h})

	list, err := f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10})
	f.OK(err)
	f.Equal("conversations", len(list), 2)
	if len(list) == 2 {
		f.Equal("initiator", []any{list[0].Handle, list[0].NextSeq, list[0].Waiting, list[0].Timer > 0}, []any{d.A.Handle, 2, 0, true})
		f.Equal("target", []any{list[1].Handle, list[1].Waiting, list[1].Timer}, []any{d.B.Handle, 2, time.Duration(0)})
	}
	for _, x := range []backend.ConversationQuery{{Limit: 10, Handle: d.B.Handle}, {Limit: 1}} {
		list, err = f.Backend.Conversations(f.Ctx, x)
		f.OK(err)
		f.Equal("both sides", len(list), 2)
	}
	list, err = f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10, Group: d.A.Group})
	f.OK(err)
	f.Equal("of a group", len(list), 1)
	list, err = f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10, After: d.A.Conversation})
	f.OK(err)
	f.Equal("after the last", len(list), 0)
}
