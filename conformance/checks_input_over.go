package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "B07", Name: "not migrated", Run: checkNotMigrated},
		check{ID: "B07", Name: "many migrate at once", Run: checkMigrateTogether},
		check{ID: "B09", Name: "a transaction", Run: checkTxDone},
		check{ID: "B09", Name: "a delivery", Run: checkSettled},
		check{ID: "B09", Name: "a broker", Run: checkClosed},
		check{ID: "B09", Name: "a broker that is closed at work", Run: checkClosedAtWork},
	)
}

// inpFresh opens a broker on a store of its own that is not migrated.
func inpFresh(e *env) *parley.Broker {
	if e.r.store.Fresh == nil {
		e.Skipf("the suite was given no way to make a fresh store")
	}
	be, err := e.r.store.Fresh(e.Ctx)
	e.Must(err)
	b, err := newBroker(e.Ctx, be, nil)
	e.Must(err)
	e.Cleanup(func() {
		// Brokers of the check may be doing maintenance, which an uninstall can lose
		// against.
		var err error
		for range 20 {
			if err = be.Uninstall(context.WithoutCancel(e.Ctx)); !errors.Is(err, parley.ErrSerialization) {
				break
			}
		}
		if err != nil && !errors.Is(err, parley.ErrNotMigrated) {
			e.Errorf("uninstall: %v", err)
		}
		b.Close()
	})
	return b
}

// inpNowhere is a World with names and no definitions.
func inpNowhere(e *env, b *parley.Broker) *world {
	return &world{
		env: e, B: b,
		Client: e.Name("client"), Server: e.Name("server"), CQ: e.Name("cq"), SQ: e.Name("sq"),
		Contract: e.Name("contract"), Ask: e.Name("ask"), Tell: e.Name("tell"), Any: e.Name("any"),
	}
}

func checkNotMigrated(e *env) {
	b := inpFresh(e)
	refused := func() {
		for _, v := range inpBrokerVerbs(inpNowhere(e, b), parley.NewID()) {
			dlgNames(e, v.name, v.do(e.Ctx, b), parley.ErrNotMigrated, "migrate")
		}
		if err := b.Backend().Check(e.Ctx); !errors.Is(err, parley.ErrNotMigrated) {
			e.Errorf("Check says %v, want %q", err, parley.ErrNotMigrated)
		}
		_, err := b.Info(e.Ctx)
		e.Must(err)
	}
	refused()
	e.Must(b.Migrate(e.Ctx))
	e.Must(b.Backend().Check(e.Ctx))
	w := e.WorldOn(b)
	h := w.Dialog("0")
	before, err := b.Catalog(e.Ctx)
	e.Must(err)

	e.Must(b.Migrate(e.Ctx))
	after, err := b.Catalog(e.Ctx)
	e.Must(err)
	if after.Version != before.Version || len(after.Queues) != len(before.Queues) {
		e.Errorf("the second migration made version %d with %d queues of version %d with %d", after.Version, len(after.Queues), before.Version, len(before.Queues))
	}
	dlgState(w, h, parley.Conversing)
	dlgBodies(w, w.SQ, nil, "0")

	// A migrated database may be taken back, and used again.
	err = b.Backend().Uninstall(e.Ctx)
	for parley.IsRetryable(err) { // the broker's maintenance was in its way
		err = b.Backend().Uninstall(e.Ctx)
	}
	e.Must(err)
	if err := b.Backend().Check(e.Ctx); !errors.Is(err, parley.ErrNotMigrated) {
		e.Errorf("Check says %v after Uninstall, want %q", err, parley.ErrNotMigrated)
	}
	refused()
	e.Must(b.Migrate(e.Ctx))
	empty, err := b.Catalog(e.Ctx)
	e.Must(err)
	if len(empty.Queues)+len(empty.Services)+len(empty.Types) > 0 {
		e.Errorf("after Uninstall and Migrate the catalog has %d queues, %d services and %d types", len(empty.Queues), len(empty.Services), len(empty.Types))
	}
	list, err := b.Admin().Conversations(e.Ctx, parley.ConversationQuery{})
	e.Must(err)
	if len(list) > 0 {
		e.Errorf("after Uninstall and Migrate there are conversations: %+v", list)
	}
}

func checkMigrateTogether(e *env) {
	b := inpFresh(e)
	together := func() {
		dlgEach(20, func(int) {
			if err := b.Migrate(e.Ctx); err != nil {
				e.Errorf("one of twenty migrations: %v", err)
			}
		})
	}
	together()
	w := e.WorldOn(b)
	w.Dialog("0")
	together()
	dlgBodies(w, w.SQ, nil, "0")
}

func checkTxDone(e *env) {
	w := e.World(func(c *parley.Catalog) { c.Services[1].FarPromotion = 255 })
	h := w.Dialog("0")
	w.Send(dlgPeer(w, h), w.Tell, "to the client")
	for how, result := range map[string]error{"committed": nil, "rolled back": errUndo} {
		var over *parley.Tx
		var conv *parley.Conversation
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			over, conv = tx, tx.Conversation(h)
			return errors.Join(tx.Savepoint(e.Ctx, "outer"), result)
		})
		e.Is(err, result)
		for _, v := range inpTxVerbs(w) {
			if err := v.do(e.Ctx, over, h); !errors.Is(err, parley.ErrTxDone) {
				e.Errorf("%s in a transaction that was %s: the error is %v, want %q", v.name, how, err, parley.ErrTxDone)
			}
		}
		if err := conv.Send(e.Ctx, w.Ask, nil); !errors.Is(err, parley.ErrTxDone) {
			e.Errorf("Send on a conversation of a transaction that was %s: the error is %v, want %q", how, err, parley.ErrTxDone)
		}
	}
	dlgBodies(w, w.SQ, nil, "0")
	dlgBodies(w, w.CQ, nil, "to the client")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkSettled(e *env) {
	w := e.World()
	working, settling := inpDeliveryVerbs(w)
	var h parley.ID
	for _, hold := range e.Holds() {
		for _, first := range settling {
			h = w.Dialog("0")
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			m := d.Messages[0]
			e.Must(first.do(e.Ctx, d, m))
			for _, v := range append(working, settling...) {
				err := v.do(e.Ctx, d, m)
				if v.name == "Rollback" { // so that `defer d.Close()` is always right
					e.Must(err)
				} else if !errors.Is(err, parley.ErrSettled) {
					e.Errorf("%s after %s: the error is %v, want %q", v.name, first.name, err, parley.ErrSettled)
				}
			}
			e.Is(d.Return(e.Ctx), parley.ErrSettled)
			e.Must(d.Close())
			select {
			case <-d.Context().Done():
			default:
				e.Errorf("the delivery's context goes on after %s", first.name)
			}
			switch first.name {
			case "Ack":
			case "Rollback":
				dlgBodies(w, w.SQ, nil, "0")
			default:
				w.Nothing(w.SQ, nil)
				e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
				dlgBodies(w, w.SQ, nil, "0")
			}
			w.Nothing(w.SQ, nil)
			dlgState(w, h, parley.Conversing)
		}
	}
	// What was released before the work cannot be settled at all.
	w.Send(h, w.Ask, "1")
	d := w.Receive(w.SQ, &parley.ReceiveOptions{Release: parley.BeforeWork})
	for _, v := range append(working, settling...) {
		err := v.do(e.Ctx, d, d.Messages[0])
		if v.name == "Rollback" {
			e.Must(err)
		} else if !errors.Is(err, parley.ErrSettled) {
			e.Errorf("%s on a delivery that was released before the work: the error is %v, want %q", v.name, err, parley.ErrSettled)
		}
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkClosed(e *env) {
	w := e.World()
	h := w.Dialog("0")
	b := e.Broker(nil)
	_, err := b.Catalog(e.Ctx) // so that nothing has to be read any more
	e.Must(err)
	e.Must(b.Close())
	for _, v := range inpBrokerVerbs(w, h) {
		if err := v.do(e.Ctx, b); !errors.Is(err, parley.ErrClosed) {
			e.Errorf("%s of a closed broker: the error is %v, want %q", v.name, err, parley.ErrClosed)
		}
	}
	e.Is(b.Migrate(e.Ctx), parley.ErrClosed)
	_, err = b.Info(e.Ctx)
	e.Is(err, parley.ErrClosed)
	e.Is(b.Join(nil).Conversation(h).Send(e.Ctx, w.Ask, nil), parley.ErrClosed)
	e.Must(b.Close()) // again is no error

	be := e.Handle() // and so its backend
	over, err := be.Begin(e.Ctx)
	e.Must(err)
	e.Must(over.Commit(e.Ctx))
	for verb, do := range map[string]func() error{
		"Catalog":   func() error { _, err := over.Catalog(e.Ctx, false); return err },
		"Once":      func() error { _, err := over.Once(e.Ctx, e.Name("once"), time.Minute); return err },
		"Savepoint": func() error { return over.Savepoint(e.Ctx, "late") },
		"Commit":    func() error { return over.Commit(e.Ctx) },
	} {
		if err := do(); !errors.Is(err, parley.ErrTxDone) {
			e.Errorf("%s in a transaction of the backend's that has ended: the error is %v, want %q",
				verb, err, parley.ErrTxDone)
		}
	}
	e.Must(over.Rollback(e.Ctx)) // is no error after the end
	e.Must(be.Close())
	e.Must(be.Close())
	_, err = be.Begin(e.Ctx)
	e.Is(err, parley.ErrClosed)
	_, err = be.Queues(e.Ctx, 0)
	e.Is(err, parley.ErrClosed)
	dlgBodies(w, w.SQ, nil, "0") // another one goes on
}

func checkClosedAtWork(e *env) {
	w := e.World()
	for _, hold := range e.Holds() {
		b := e.Broker(&parley.Options{Poll: time.Minute})
		w.Dialog("in hand")
		d, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Hold: hold})
		e.Must(err)
		m := d.Messages[0]
		wait := dlgGo(e, "a receiver that waits", func() error {
			_, err := b.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: -1, Hold: hold})
			return err
		})
		time.Sleep(30 * time.Millisecond) // it waits by now; if not, it is refused at once
		e.Must(b.Close())
		if err := wait(); !errors.Is(err, parley.ErrClosed) {
			e.Errorf("a receiver that waits: the error is %v, want %q", err, parley.ErrClosed)
		}
		if err := d.Ack(e.Ctx); !errors.Is(err, parley.ErrSettled) && !errors.Is(err, parley.ErrClosed) && !errors.Is(err, parley.ErrTxDone) {
			e.Errorf("Ack after Close: the error is %v, want %q", err, parley.ErrClosed)
		}
		if err := m.Reply(e.Ctx, w.Tell, nil); err == nil {
			e.Errorf("Reply after Close works")
		}
		dlgBodies(w, w.SQ, nil, "in hand") // given back, well before the lease would have ended
	}

	// A transaction that is open comes to nothing.
	b := e.Broker(nil)
	h := w.Dialog("0")
	err := b.InTx(e.Ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("never")); err != nil {
			return err
		}
		e.Must(dlgGo(e, "close with a transaction open", b.Close)())
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("never")); err == nil {
			e.Errorf("Send works in a transaction of a closed broker")
		}
		return nil
	})
	if !errors.Is(err, parley.ErrClosed) && !errors.Is(err, parley.ErrTxDone) {
		e.Errorf("commit after Close: the error is %v, want %q", err, parley.ErrTxDone)
	}
	w.Send(h, w.Ask, "1")
	dlgBodies(w, w.SQ, nil, "0", "1")
	dlgQuiet(w, w.SQ, w.CQ)
}
