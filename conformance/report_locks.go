package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// LockProbe tells what a verb does beside a transaction that has done another one and is
// still open.
type LockProbe struct {
	First string `json:"first"` // what the open transaction has done
	Then  string `json:"then"`  // what the second one tries
	// Result is what came of that: "passes", with the bodies that a claim has returned,
	// "waits", or an error.
	Result string  `json:"result"`
	Took   float64 `json:"ms"`
}

// lockSite is what a pair of verbs works on: two conversations and a key, each with a message
// that waits. The verbs of the second transaction are on the first conversation too,
// where they do not say otherwise.
type lockSite struct {
	*invBelow
	one, two, key *invStream
}

// lockVerb is done in a transaction that the caller ends.
type lockVerb struct {
	name string
	run  func(ctx context.Context, s *lockSite, tx backend.Tx) (got string, err error)
}

var lockVerbs = []lockVerb{
	{"send on a conversation", func(ctx context.Context, s *lockSite, tx backend.Tx) (string, error) {
		return "", s.one.send(ctx, tx, "sent")
	}},
	{"send on another conversation", func(ctx context.Context, s *lockSite, tx backend.Tx) (string, error) {
		return "", s.two.send(ctx, tx, "sent")
	}},
	{"post with a key", func(ctx context.Context, s *lockSite, tx backend.Tx) (string, error) {
		return "", s.key.send(ctx, tx, "posted")
	}},
	{"post without a key", func(ctx context.Context, s *lockSite, tx backend.Tx) (string, error) {
		_, err := tx.Post(ctx, s.version, []backend.Posting{
			{ID: backend.NewID(), Queue: s.sq, Rank: 5, Type: s.Any, Body: []byte("posted alone")},
		})
		return "", err
	}},
	{"claim a group", func(ctx context.Context, s *lockSite, tx backend.Tx) (string, error) {
		_, got, err := s.claims(ctx, tx)
		return got, err
	}},
	{"claim and settle", func(ctx context.Context, s *lockSite, tx backend.Tx) (string, error) {
		holds, got, err := s.claims(ctx, tx)
		for _, h := range holds {
			if err == nil {
				_, err = tx.Settle(ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
			}
		}
		return got, err
	}},
	{"end a conversation", func(ctx context.Context, s *lockSite, tx backend.Tx) (string, error) {
		e, err := tx.Endpoint(ctx, s.one.handle)
		if err == nil {
			err = tx.LockGroup(ctx, e.Group)
		}
		if err == nil {
			_, err = tx.EndDialog(ctx, backend.End{Handle: s.one.handle, MessageID: backend.NewID()})
		}
		return "", err
	}},
	{"lock the catalog", func(ctx context.Context, _ *lockSite, tx backend.Tx) (string, error) {
		_, err := tx.Catalog(ctx, true)
		return "", err
	}},
}

// claims claims one group, in the transaction where the store can.
func (s *lockSite) claims(ctx context.Context, tx backend.Tx) ([]*backend.Hold, string, error) {
	r := s.request(backend.ClaimRequest{})
	if !s.HoldsInTransaction() {
		r.Lease = time.Minute
	}
	c, err := tx.Claim(ctx, r)
	if err != nil {
		return nil, "", err
	}
	got := "nothing"
	for _, h := range c.Holds {
		got = strings.Join((&invHeld{Hold: h}).bodies(), " ")
	}
	return c.Holds, got, nil
}

// leastPatience is how long a verb takes at least before a probe says that it waits.
var leastPatience = 500 * time.Millisecond

// lockProbes tries each pair of verbs. A verb that takes ten times as long as it does alone,
// and no less than leastPatience, waits.
func lockProbes(e *env) (list []LockProbe) {
	below := invUnder(invWorld(e))
	site := func(then func(s *lockSite)) {
		s := &lockSite{below, below.dialog(), below.dialog(), below.key(parley.NewID().String())}
		s.sent(s.one, "waits in one")
		s.sent(s.two, "waits in two")
		s.sent(s.key, "waits under the key")
		then(s)
		s.Drain(s.SQ)
		s.Drain(s.CQ)
	}
	for _, second := range lockVerbs {
		patience := time.Minute
		try := func(s *lockSite) LockProbe {
			ctx, cancel := context.WithTimeout(e.Ctx, patience)
			defer cancel()
			start := time.Now()
			got, err := inRolledBack(ctx, s, second)
			x := LockProbe{Then: second.name, Took: time.Since(start).Seconds() * 1000, Result: "passes"}
			switch {
			case err != nil && ctx.Err() != nil:
				x.Result = "waits"
			case err != nil:
				x.Result = err.Error()
			case got != "":
				x.Result += ": " + got
			}
			return x
		}
		site(func(s *lockSite) {
			x := try(s)
			x.First = "nothing"
			list = append(list, x)
			patience = max(leastPatience, 10*time.Duration(x.Took*float64(time.Millisecond)))
		})
		for _, first := range lockVerbs {
			site(func(s *lockSite) {
				tx := s.begin()
				defer tx.Rollback(context.WithoutCancel(e.Ctx))
				if _, err := first.run(e.Ctx, s, tx); err != nil {
					list = append(list, LockProbe{First: first.name, Then: second.name, Result: "the first: " + err.Error()})
					return
				}
				x := try(s)
				x.First = first.name
				list = append(list, x)
			})
		}
	}
	return list
}

// inRolledBack does something in a transaction that is rolled back, and does not wait for it
// longer than its context lasts.
func inRolledBack(ctx context.Context, s *lockSite, v lockVerb) (got string, err error) {
	tx, err := s.be.Begin(ctx)
	if err != nil {
		return "", err
	}
	got, err = v.run(ctx, s, tx)
	return got, errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
}
