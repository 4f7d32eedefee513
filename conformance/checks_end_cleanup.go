package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func checkLossRecorded(e *env) {
	w := e.World()
	late := e.Name("late")
	var h, id parley.ID
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, late, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		h = c.Handle()
		if id, err = c.ID(e.Ctx); err != nil {
			return err
		}
		if err := c.Send(e.Ctx, w.Ask, []byte("lost 0")); err != nil {
			return err
		}
		if err := c.Send(e.Ctx, w.Any, []byte("lost 1")); err != nil {
			return err
		}
		return c.End(e.Ctx) // fire and forget
	})
	// The service comes, and does not take the contract: the target refuses.
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: late, Queue: w.SQ}}}))

	var dead []parley.DeadStatus
	find := func() bool {
		dead = nil
		list, err := w.B.Admin().DeadLetters(e.Ctx, "", parley.Place{}, backend.CountLimit)
		e.Must(err)
		for _, d := range list {
			if d.Message.ConversationID == id && ofUser(d.Message) {
				dead = append(dead, d)
			}
		}
		return len(dead) >= 2
	}
	if !e.Soon(5*time.Second, func() bool {
		w.Nothing(w.SQ, nil)
		w.Nothing(w.CQ, nil)
		return find()
	}) {
		e.Fatalf("dead letters: %+v, want the two messages of conversation %s", dead, id)
	}
	for i, d := range dead { // newest first
		n := int64(1 - i)
		if string(d.Message.Body) != fmt.Sprintf("lost %d", n) || d.Message.Seq != n || !strings.Contains(d.Reason, w.Contract) || !strings.Contains(d.Reason, late) {
			e.Errorf("dead letter %d is message %d %q with the reason %q, want message %d and a reason that names service and contract", i, d.Message.Seq, d.Message.Body, d.Reason, n)
		}
		if want := [...]string{w.Ask, w.Any}[n]; d.Message.Type != want {
			e.Errorf("dead letter %d is of type %q, want %q", i, d.Message.Type, want)
		}
	}
	if held := dlgWithheld(w, h); held != nil {
		e.Errorf("still withheld: %+v", held)
	}
	dlgGone(w, h)
	dlgQuiet(w, w.SQ, w.CQ)
	if find(); len(dead) != 2 {
		e.Errorf("%d dead letters, want 2", len(dead))
	}
}

// checkCleanupDrops looks for the messages themselves: a side that is gone is in no list, whether
// its messages are gone or not.
func checkCleanupDrops(e *env) {
	s := invUnder(e.idle())
	for _, to := range []string{s.Server, e.Name("late")} {
		var h parley.ID
		s.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, s.Client, to, &parley.DialogOptions{Contract: s.Contract})
			if err != nil {
				return err
			}
			h = c.Handle()
			return c.Send(e.Ctx, s.Any, []byte("hello")) // which is withheld as well if there is no target
		})
		messages := []backend.Outgoing{{Type: s.Any}, {Type: s.Any}}
		s.withhold(h, messages...)
		find := func(want parley.ID, refused error) {
			for _, m := range messages {
				if at, err := s.B.Backend().Find(e.Ctx, m.ID); at != want || !errors.Is(err, refused) {
					e.Errorf("a message to %s that was withheld is found at %v, %v; want %v, %v", to, at, err, want, refused)
				}
			}
		}
		find(h, nil)
		s.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).Cleanup(e.Ctx) })
		find(parley.ID{}, parley.ErrNotPending)
	}
}

func checkRemovedLater(e *env) {
	const keep = 700 * time.Millisecond
	w := e.WorldOn(e.Broker(&parley.Options{KeepClosed: keep}))
	var all []parley.ID
	start := time.Now()
	for _, initiator := range []bool{true, false} {
		client := w.Dialog("0")
		server := dlgPeer(w, client)
		if initiator {
			dlgEnd(w, client, server)
		} else {
			dlgEnd(w, server, client)
		}
		all = append(all, client, server)
	}
	be := e.Handle()
	_, err := be.Maintain(e.Ctx, backend.JobClosed, 100) // which is too early
	e.Must(err)
	for _, h := range all {
		list, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
		e.Must(err)
		ep := dlgStatus(w, h)
		if time.Since(start) > keep {
			e.Logf("this machine is too slow to see closed conversations before they are removed")
			break
		}
		if len(list) != 2 || list[0].State != parley.StateClosed || list[1].State != parley.StateClosed || ep == nil || ep.State != parley.StateClosed {
			e.Fatalf("the conversation that both sides have ended is listed as %+v, and side %s as %+v; want both sides %s", list, h, ep, parley.StateClosed)
		}
		for name, verb := range map[string]func(c *parley.Conversation) error{
			"send": func(c *parley.Conversation) error { return c.Send(e.Ctx, w.Any, nil) },
			"end":  func(c *parley.Conversation) error { return c.End(e.Ctx) },
		} {
			err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error { return verb(tx.Conversation(h)) })
			if !errors.Is(err, parley.ErrEnded) && time.Since(start) < keep {
				e.Errorf("%s on a closed side: the error is %v, want %q", name, err, parley.ErrEnded)
			}
		}
	}
	dlgGone(w, all...)
	if early := time.Since(start); early < keep {
		e.Errorf("the conversations were removed after %v, want them kept for %v", early, keep)
	}
	dlgQuiet(w, w.CQ, w.SQ)
}
