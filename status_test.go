package parley_test

import (
	"context"
	"iter"
	"testing"

	"github.com/parleymq/parley"
)

// TestStatusesNameQueues: whatever is told of groups and conversations has the names of their queues.
func TestStatusesNameQueues(t *testing.T) {
	ctx := t.Context()
	b, cleanup := shop()
	defer cleanup()
	order(b, `{"item": 7}`)
	_, err := b.Post(ctx, "mail", parley.Payload{}, parley.Key("k"))
	must(err)
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "far"}}, Services: []parley.Service{{Name: "Alone", Queue: "far"}}}))
	must(b.InTx(ctx, func(tx *parley.Tx) error {
		c, err := tx.Begin(ctx, "Alone", "Nowhere", nil)
		must(err)
		must(c.Send(ctx, parley.DefaultType, nil))
		s, err := c.Status(ctx)
		must(err)
		if s.Queue != "far" {
			t.Errorf("a side that has just begun is on queue %q", s.Queue)
		}
		return nil
	}))
	admin := b.Admin()
	for _, queue := range []string{"mail", "billing"} {
		groups, err := admin.Groups(ctx, queue, parley.Place{}, 10)
		must(err)
		if len(groups) != 1 || groups[0].Queue != queue {
			t.Errorf("groups of %s: %+v", queue, groups)
		}
	}
	withheld, err := admin.Withheld(ctx, parley.ID{}, 10)
	must(err)
	if len(withheld) != 1 || withheld[0].From.Queue != "far" || withheld[0].From.Service != "Alone" {
		t.Errorf("withheld: %+v", withheld)
	}
	sides, err := admin.Conversations(ctx, parley.ConversationQuery{})
	must(err)
	found := map[string]string{}
	for _, s := range sides {
		found[s.Service] = s.Queue
	}
	if found["Alone"] != "far" || found["Billing"] != "billing" {
		t.Errorf("sides are on %v", found)
	}
	seen := ""
	d, err := b.Receive(ctx, "mail", &parley.ReceiveOptions{Choose: func(_ context.Context, groups iter.Seq[parley.GroupStatus]) (parley.ID, bool) {
		for g := range groups {
			seen = g.Queue
			return g.Group, true
		}
		return parley.ID{}, false
	}})
	must(err)
	must(d.Close())
	if seen != "mail" {
		t.Errorf("the chooser sees a group of %q", seen)
	}
}
