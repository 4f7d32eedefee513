package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		check{ID: "B10", Name: "names", Run: checkHostileNames},
		check{ID: "B10", Name: "bodies", Run: checkHostileBodies},
		check{ID: "B10", Name: "hostile keys and other values", Run: checkHostileValues},
		check{ID: "B10", Name: "hostile names of application locks", Run: checkHostileLocks},
		check{ID: "B10", Name: "texts of errors, reasons and owners", Run: checkHostileTexts},
	)
}

// inpHostile are texts that a careless store takes for something else.
var inpHostile = []string{
	`'; DROP TABLE messages; --`, `"; SELECT 1; /*`, "`x`", `\`, `\'`, `\\x00`, `''''`, `%s %d %!`, `100%_`, `$1 ?1 :name @p1`, `{{.}} ${HOME} $(id)`,
	"\n", "\r\n\t", "\x01\x02\x1b[2J\x7f", "\u200b\u202e\ufeff", "🦊\U0010ffff", "\u2028\u0085", " lead and trail ", "NULL", "null", "0", "true", `<a b="c">&amp;</a>`, "][)(", "a,b;c|d", "E'\\n'", "N'x'", "0x00",
}

func checkHostileNames(e *env) {
	b := e.Broker(nil)
	other := e.Broker(&parley.Options{NoMaintenance: true})
	w := &world{env: e, B: b}
	var c parley.Catalog
	name := func(kind string, i int) string { return e.Name(kind) + inpHostile[i] }
	for i := range inpHostile {
		c.Types = append(c.Types, parley.MessageType{Name: name("t", i), Validation: parley.ValidationFunc, Validator: name("v", i)})
		c.Contracts = append(c.Contracts, parley.Contract{Name: name("k", i), Messages: []parley.ContractEntry{{Type: name("t", i), SentBy: parley.ByAny}}})
		c.Queues = append(c.Queues, parley.Queue{Name: name("q", i)})
		c.Services = append(c.Services, parley.Service{Name: name("s", i), Queue: name("q", i), Contracts: []string{name("k", i)}})
		c.Priorities = append(c.Priorities, parley.PriorityRule{Name: name("r", i), Contract: name("k", i), Local: name("s", i), Remote: name("s", i), Level: 9})
		b.RegisterValidator(name("v", i), func([]byte) error { return nil })
	}
	e.Must(b.Define(e.Ctx, c))
	for i, s := range inpHostile {
		h := func() (h parley.ID) {
			w.Tx(func(tx *parley.Tx) error {
				conv, err := tx.Begin(e.Ctx, name("s", i), name("s", i), &parley.DialogOptions{Contract: name("k", i)})
				if err != nil {
					return err
				}
				h = conv.Handle()
				return conv.Send(e.Ctx, name("t", i), []byte(s))
			})
			return h
		}()
		d, err := other.Receive(e.Ctx, name("q", i), nil)
		if err != nil {
			e.Fatalf("queue %q: %v", name("q", i), err)
		}
		if len(d.Messages) != 1 {
			e.Fatalf("queue %q: received %d messages, want one", name("q", i), len(d.Messages))
		}
		m := d.Messages[0]
		e.Must(d.Ack(e.Ctx))
		const received = "a message whose names and body have hostile text, as it is received"
		e.same(received, "body", string(m.Body), s)
		e.same(received, "type", m.Type, name("t", i))
		e.same(received, "contract", m.Contract, name("k", i))
		e.same(received, "service", m.Service, name("s", i))
		e.same(received, "far service", m.FarService, name("s", i))
		e.same(received+" (a priority rule has the same names)", "priority", m.Priority, 9)
		list, err := other.Admin().Conversations(e.Ctx, parley.ConversationQuery{Handle: h})
		e.Must(err)
		for _, side := range list {
			const listed = "a side whose names have hostile text, as Conversations lists it"
			e.same(listed, "service", side.Service, name("s", i))
			e.same(listed, "far service", side.FarService, name("s", i))
			e.same(listed, "contract", side.Contract, name("k", i))
		}
	}
	for _, i := range []int{0, 1, 3, 12} { // a definition that replaces another finds it by its name
		e.Must(b.Admin().DisableQueue(e.Ctx, name("q", i)))
		e.Must(b.Admin().EnableQueue(e.Ctx, name("q", i)))
	}
	now, err := other.Catalog(e.Ctx)
	e.Must(err)
	for i := range inpHostile {
		if !slices.Contains(now.Types, c.Types[i]) || !slices.Contains(now.Priorities, c.Priorities[i]) {
			e.Errorf("the catalog does not have the type %q or the rule %q as it was defined", c.Types[i].Name, c.Priorities[i].Name)
		}
	}

	// As the name of a service that is not there.
	ghost := e.Name("ghost'\"\\\n") + inpHostile[0]
	w.Tx(func(tx *parley.Tx) error {
		conv, err := tx.Begin(e.Ctx, name("s", 0), ghost, &parley.DialogOptions{Contract: name("k", 0)})
		if err != nil {
			return err
		}
		if err := conv.Send(e.Ctx, name("t", 0), []byte("x")); err != nil {
			return err
		}
		if ep, err := conv.Status(e.Ctx); err != nil || ep.FarService != ghost {
			e.Errorf("the far service is %+v (%v), want %q", ep, err, ghost)
		}
		return conv.EndWithError(e.Ctx, 1, "not needed")
	})
}

func checkHostileBodies(e *env) {
	w := e.World()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	bodies := append(slices.Clone(inpHostile), string(all), "\x00", "\x00\x00a", "\xff\xfe", "a\xc3", strings.Repeat("'", 5000))
	h := w.Dialog()
	e.Doing("bodies with SQL text, quotes and control characters are sent on a conversation, and received")
	for _, body := range bodies {
		w.Send(h, w.Ask, body)
	}
	dlgBodies(w, w.SQ, nil, bodies...)
	e.Doing("bodies with SQL text, quotes and control characters are posted, and received")
	for _, body := range bodies {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(body)})
		e.Must(err)
		dlgBodies(w, w.SQ, nil, body)
	}
	e.Doing(`Send has returned, and before the commit its caller overwrites "before" in its slice with "after!"`)
	body := []byte("before")
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, body); err != nil {
			return err
		}
		copy(body, "after!")
		return nil
	})
	dlgBodies(w, w.SQ, nil, "before")
}

func checkHostileValues(e *env) {
	w := e.World()
	for _, s := range inpHostile {
		_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(s)}, parley.Key(s), parley.Unique(s))
		if err != nil {
			e.Fatalf("post with key %q: %v", s, err)
		}
		if _, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Body: []byte("again")}, parley.Unique(s)); err != nil {
			e.Fatalf("post again with the unique value %q: %v", s, err)
		}
		m := dlgBodies(w, w.SQ, nil, s)[0]
		if m.Key != s {
			e.Errorf("the key %q came back as %q", s, m.Key)
		}
		key := e.Name("once") + s
		w.Tx(func(tx *parley.Tx) error {
			for _, want := range []bool{true, false} {
				if fresh, err := tx.Once(e.Ctx, key); err != nil || fresh != want {
					e.Errorf("once %q: new is %t (%v), want %t", key, fresh, err, want)
				}
			}
			return nil
		})
	}
	w.Tx(func(tx *parley.Tx) error {
		for _, bad := range append(slices.Clone(inpHostile), "a b", "A", "1a", "", "é", strings.Repeat("a", 61)) {
			if bad == "null" || bad == "true" {
				continue // words like any other
			}
			if err := tx.Savepoint(e.Ctx, bad); !errors.Is(err, parley.ErrInvalidName) {
				e.Errorf("savepoint %q: the error is %v, want %q", bad, err, parley.ErrInvalidName)
			}
		}
		for _, word := range []string{"select", "table", "to", "null", "user", "transaction", "_", strings.Repeat("a", 60)} {
			if err := errors.Join(tx.Savepoint(e.Ctx, word), tx.RollbackTo(e.Ctx, word), tx.Release(e.Ctx, word)); err != nil {
				return fmt.Errorf("savepoint %q: %w", word, err)
			}
		}
		return nil
	})
	dlgQuiet(w, w.SQ)
	// Zero bytes are refused or kept, never changed.
	const zero = "a\x00b"
	if _, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{}, parley.Key(zero), parley.Unique(zero)); err == nil {
		if m := dlgTake(w, w.SQ, 1, nil)[0]; m.Key != zero {
			e.Errorf("the key %q came back as %q", zero, m.Key)
		}
	} else if !errors.Is(err, parley.ErrInvalidOption) {
		e.Errorf("the key %q: the error is %v, want none or %q", zero, err, parley.ErrInvalidOption)
	}
}

func checkHostileLocks(e *env) {
	session := dlgSession(e, e.Handle(), "o'\"\\\n🦊")
	defer session.Close(e.Ctx)
	for _, s := range inpHostile {
		name := e.Name("lock") + s
		if _, err := session.Lock(e.Ctx, name, backend.LockX, 0); err != nil {
			e.Fatalf("lock %q: %v", name, err)
		}
		mode, err := session.HeldMode(e.Ctx, name)
		if err != nil || mode != backend.LockX {
			e.Errorf("lock %q is held as %s (%v), want %s", name, mode, err, backend.LockX)
		}
		e.Must(session.Unlock(e.Ctx, name))
	}
}

func checkHostileTexts(e *env) {
	w := e.World()
	owner := "own'er \"of\" \\ 🦊\n; --"
	b := e.Broker(&parley.Options{Owner: owner})
	for i, s := range inpHostile {
		if strings.ContainsAny(s, "\x01\uffff") || strings.TrimSpace(s) == "" {
			continue // not a text in XML, or not a text at all
		}
		h := w.Dialog("0")
		server := dlgPeer(w, h)
		dlgEndError(w, server, 1+i, s)
		ep := dlgStatus(w, h)
		if ep.Error == nil || ep.Error.Text != s || ep.Error.Code != 1+i {
			e.Errorf("the side is in error %+v, want %d %q", ep.Error, 1+i, s)
		}
		if m := dlgError(w, w.CQ, 1+i); m.Err().Text != s {
			e.Errorf("the Error says %q, want %q", m.Err().Text, s)
		}
		dlgEnd(w, h)
	}
	w.Drain(w.SQ)
	w.Dialog("0")
	for _, s := range inpHostile {
		d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: parley.HoldLease})
		e.Must(err)
		list, err := w.B.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Must(err)
		if len(list) != 1 || list[0].Owner != owner || list[0].State != "held" {
			e.Errorf("the group in hand is listed as %+v, want it held by %q", list, owner)
		}
		e.Must(d.Park(e.Ctx, errors.New("reason "+s)))
		list, err = w.B.Admin().Groups(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Must(err)
		if len(list) != 1 || list[0].Reason != "reason "+s || list[0].State != "parked" {
			e.Errorf("the parked group is listed as %+v, want the reason %q", list, "reason "+s)
		}
		e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
	}
	// A reason may quote a body, or say nothing.
	for _, s := range []string{"a\x00b", "a\xffb", ""} {
		for _, hold := range e.Holds() {
			d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: hold})
			e.Must(err)
			if err := d.Park(e.Ctx, errors.New(s)); err != nil {
				e.Fatalf("park with the reason %q: %v", s, err)
			}
			w.Nothing(w.SQ, nil)
			e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
		}
	}
	dlgBodies(w, w.SQ, nil, "0")
}
