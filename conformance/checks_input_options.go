package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "B11", Name: "of a broker", Run: checkBrokerOptions},
		check{ID: "B11", Name: "of receiving", Run: checkReceiveOptions},
		check{ID: "B11", Name: "of conversations and posts", Run: checkOtherOptions},
		check{ID: "B11", Name: "of operators", Run: checkOperatorOptions},
	)
}

func checkBrokerOptions(e *env) {
	for name, o := range map[string]parley.Options{
		"Lease":      {Lease: 99 * time.Millisecond},
		"Lease ":     {Lease: -time.Second},
		"Poll":       {Poll: time.Microsecond},
		"Poll ":      {Poll: -time.Second},
		"GroupWait":  {GroupWait: -1},
		"KeepClosed": {KeepClosed: -1},
		"KeepOnce":   {KeepOnce: -1},
		"MaxBody":    {MaxBody: -1},
	} {
		b, err := parley.New(e.Ctx, e.Handle(), &o)
		if b != nil {
			b.Close()
		}
		dlgNames(e, fmt.Sprintf("new broker with %+v", o), err, parley.ErrInvalidOption, strings.TrimSpace(name))
	}
	_, err := parley.New(e.Ctx, nil, nil)
	e.Is(err, parley.ErrInvalidOption)
}

func checkReceiveOptions(e *env) {
	w := e.World()
	w.Dialog("0")
	id := parley.NewID()
	choose := func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return parley.ID{}, true }
	wrong := []parley.ReceiveOptions{
		{Group: id, Conversation: id}, {Group: id, Choose: choose}, {Conversation: id, Choose: choose}, {Choose: choose},
		{MaxMessages: -1}, {MaxBytes: -1}, {Hold: -1}, {Hold: parley.HoldLease + 1}, {Release: -1}, {Release: parley.BeforeWork + 1},
		{Lease: -1}, {Lease: time.Millisecond}, {Hold: parley.HoldLease, Lease: 49 * time.Millisecond},
	}
	if !e.HoldsInTransaction() {
		wrong = append(wrong, parley.ReceiveOptions{Hold: parley.HoldTransaction})
	}
	for _, o := range wrong {
		o.Wait = 5 * time.Second
		_, err := w.B.Receive(e.Ctx, w.SQ, &o)
		if !errors.Is(err, parley.ErrInvalidOption) {
			e.Errorf("receive with %+v: the error is %v, want %q", o, err, parley.ErrInvalidOption)
		}
		o.Wait = 0
		w.Tx(func(tx *parley.Tx) error {
			_, err := tx.Receive(e.Ctx, w.SQ, &o)
			if !errors.Is(err, parley.ErrInvalidOption) {
				e.Errorf("receive in a transaction with %+v: the error is %v, want %q", o, err, parley.ErrInvalidOption)
			}
			_, err = tx.GetGroup(e.Ctx, w.SQ, &o)
			if !errors.Is(err, parley.ErrInvalidOption) {
				e.Errorf("get a group with %+v: the error is %v, want %q", o, err, parley.ErrInvalidOption)
			}
			return nil
		})
	}
	for _, hold := range e.Holds() {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		for _, after := range []time.Duration{0, -time.Second} {
			e.Is(d.Defer(e.Ctx, after), parley.ErrInvalidOption)
		}
		e.Must(d.Rollback(e.Ctx)) // which shows that it was not settled before
	}
	dlgBodies(w, w.SQ, nil, "0")
}

func checkOtherOptions(e *env) {
	w := e.World(func(c *parley.Catalog) { c.Services[1].FarPromotion = 255 })
	h := w.Dialog("0")
	group := dlgStatus(w, h).Group
	big := strings.Repeat("x", 513)
	w.Tx(func(tx *parley.Tx) error {
		bad := func(what string, err error) {
			if !errors.Is(err, parley.ErrInvalidOption) {
				e.Errorf("%s: the error is %v, want %q", what, err, parley.ErrInvalidOption)
			}
		}
		for what, o := range map[string]parley.DialogOptions{
			"a lifetime below zero":  {Lifetime: -1},
			"both kinds of relation": {RelatedConversation: h, RelatedGroup: group},
		} {
			o.Contract = w.Contract
			_, err := tx.Begin(e.Ctx, w.Client, w.Server, &o)
			bad("begin with "+what, err)
		}
		for what, o := range map[string][]parley.PostOption{
			"no key":                  {parley.Key("")},
			"a key that is too long":  {parley.Key(big)},
			"a key that is no text":   {parley.Key("\xff")},
			"no unique value":         {parley.Unique("")},
			"a value too long":        {parley.Unique(big)},
			"a value that is no text": {parley.Unique("a\xc3")},
			"no value per hour":       {parley.UniquePer("", time.Hour)},
			"a period of no second":   {parley.UniquePer("a", time.Millisecond)},
			"a period and an ID":      {parley.UniquePer("a", time.Hour), parley.PostID(parley.NewID())},
			"a delay below zero":      {parley.After(-1)},
			"priority 0":              {parley.Priority(0)},
			"priority 11":             {parley.Priority(11)},
			"to raise no key":         {parley.Priority(9), parley.RaiseKey()},
			"to raise a key later":    {parley.Key("a"), parley.RaiseKey(), parley.After(time.Second)},
			"priority -1":             {parley.Priority(-1)},
			"a delay and a time":      {parley.After(time.Second), parley.At(time.Now().Add(time.Hour))},
			"one wrong among several": {parley.Key("a"), parley.Priority(0), parley.After(time.Second)},
		} {
			_, err := tx.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("never")}, o...)
			bad("post with "+what, err)
			_, err = tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{Payload: parley.Payload{Body: []byte("never")}}, {Options: o}})
			bad("post a batch with "+what, err)
		}
		for _, level := range []int{-1, 256} {
			bad(fmt.Sprintf("promote to level %d", level), tx.Promote(e.Ctx, group, parley.PromoteLevel(level)))
			bad(fmt.Sprintf("promote the peer to level %d", level), tx.Conversation(h).Promote(e.Ctx, parley.PromoteLevel(level)))
		}
		bad("set a timer below zero", tx.Conversation(h).SetTimer(e.Ctx, -1))
		return tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("1"))
	})
	var old *parley.Conversation
	w.Tx(func(tx *parley.Tx) error {
		old = tx.Conversation(h)
		return nil
	})
	w.Tx(func(tx *parley.Tx) error { // a conversation is bound to its transaction
		err := tx.SendTo(e.Ctx, []*parley.Conversation{tx.Conversation(h), old}, w.Ask, nil)
		dlgNames(e, "send on another transaction's conversation", err, parley.ErrInvalidOption, h.String())
		return nil
	})
	if list, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Group: group}); err != nil || len(list) != 1 {
		e.Errorf("the group has %d conversations (%v), want one", len(list), err)
	}
	dlgBodies(w, w.SQ, nil, "0", "1")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkOperatorOptions(e *env) {
	w := e.World()
	bad := func(what string, err error) {
		if !errors.Is(err, parley.ErrInvalidOption) {
			e.Errorf("%s: the error is %v, want %q", what, err, parley.ErrInvalidOption)
		}
	}
	for _, n := range []int{-1, 0} {
		_, err := w.B.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, n)
		bad(fmt.Sprintf("list %d groups", n), err)
		_, err = w.B.Admin().Withheld(e.Ctx, parley.ID{}, n)
		bad(fmt.Sprintf("list %d withheld streams", n), err)
		_, err = w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, n)
		bad(fmt.Sprintf("list %d dead letters", n), err)
	}
	_, err := w.B.Admin().Conversations(e.Ctx, parley.ConversationQuery{Limit: -1})
	bad("list -1 conversations", err)
	bad("promote until both", w.B.Promote(e.Ctx, parley.NewID(), parley.Sticky(), parley.UntilEmpty()))
	bad("promote to level 256", w.B.Promote(e.Ctx, parley.NewID(), parley.PromoteLevel(256)))
}
