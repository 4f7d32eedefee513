package backendtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/parleymq/parley/backend"
)

// table is the name of a table in the application's statements.
func (f *Fixture) table(name string) string {
	f.Helper()
	info, err := f.Backend.Info(f.Ctx)
	f.OK(err)
	name = info.Settings["prefix"] + name
	if schema := info.Settings["schema"]; schema != "" {
		name = schema + "." + name
	}
	return name
}

// testBegunLater: a conversation that a store may store later is there whatever comes next.
func testBegunLater(f *Fixture) {
	later := func(tx backend.Tx, d Dialog) {
		f.Helper()
		f.OK(tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true,
			Renew: func(context.Context) (int64, backend.Endpoint, error) { return f.Version, d.A, nil }}))
	}
	first := func(tx backend.Tx, d Dialog, bodies ...string) {
		f.Helper()
		_, err := tx.Accept(f.Ctx, f.Version, d.A.Handle, d.B)
		f.OK(err)
		var batch []backend.Outgoing
		for _, body := range bodies {
			batch = append(batch, Message(d.A.Handle, body))
		}
		sent, err := tx.Send(f.Ctx, f.Version, batch)
		f.OK(err)
		f.Equal("the queue of the target", sent[0].Queue, f.QB)
	}
	d := f.ends()
	f.Do(func(tx backend.Tx) error {
		later(tx, d)
		first(tx, d, "1", "2")
		later(tx, f.ends()) // nothing is sent on it
		return nil
	})
	f.Equal("its next number", f.endpoint(d.A.Handle).NextSeq, int64(2))
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2"})
	list, err := f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10})
	f.OK(err)
	f.Equal("sides", len(list), 3)

	// What a savepoint undoes, and what not.
	before, within, after := f.ends(), f.ends(), f.ends()
	f.Do(func(tx backend.Tx) error {
		later(tx, before)
		f.OK(tx.Savepoint(f.Ctx, "p"))
		first(tx, before, "undone")
		later(tx, within)
		first(tx, within, "undone")
		f.OK(tx.RollbackTo(f.Ctx, "p"))
		_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(before.A.Handle, "it has no target")})
		var refused *backend.Refused
		if !errors.As(err, &refused) || refused.Refusals[0] != backend.RefusedNoTarget {
			f.Errorf("error %v, want %v", err, backend.RefusedNoTarget)
		}
		first(tx, before, "3")
		later(tx, after)
		f.OK(tx.Savepoint(f.Ctx, "q"))
		first(tx, after, "4")
		return tx.Release(f.Ctx, "q")
	})
	f.Equal("drained", f.Drain(f.QB), []string{"3", "4"})
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, within.A.Handle); return err }), backend.ErrNoConversation)

	// Other verbs and the application's statements see it.
	table := f.table("endpoint")
	f.Do(func(tx backend.Tx) error {
		d := f.ends()
		later(tx, d)
		e, err := tx.Endpoint(f.Ctx, d.A.Handle)
		f.OK(err)
		f.Equal("state", e.State, backend.StartedOutbound)
		if tx.SQL() == nil {
			return nil
		}
		count := func() (n int) {
			f.OK(tx.SQL().QueryRowContext(f.Ctx, "SELECT count(*) FROM "+table).Scan(&n))
			return n
		}
		n := count()
		later(tx, f.ends())
		f.Equal("endpoints in the application's eyes", count(), n+1)
		return nil
	})
}

// testBegunByOldCatalog: a conversation that was begun by a catalog that has changed before it
// is stored is stored by the new one.
func testBegunByOldCatalog(f *Fixture) {
	for _, send := range []bool{false, true} {
		d := f.ends()
		old, renewed := f.Version, false
		tx := f.Begin()
		err := tx.BeginDialog(f.Ctx, old, backend.NewDialog{Endpoint: d.A, NewGroup: true,
			Renew: func(ctx context.Context) (int64, backend.Endpoint, error) {
				c, err := tx.Catalog(ctx, false)
				f.OK(err)
				e := d.A
				e.Priority, renewed = 7, true
				return c.Version, e, nil
			}})
		f.OK(err)
		if f.Backend.Capabilities().SingleWriter {
			// No other transaction can define something meanwhile.
			f.OK(tx.Commit(f.Ctx))
			return
		}
		f.Define(&backend.Catalog{Types: []backend.MessageType{{Name: fmt.Sprint("new", send)}}})
		if send {
			_, err := tx.Accept(f.Ctx, old, d.A.Handle, d.B)
			if errors.Is(err, backend.ErrStaleCatalog) {
				continue // it was stored at once
			}
			f.OK(err)
			_, err = tx.Send(f.Ctx, old, []backend.Outgoing{Message(d.A.Handle, "1")})
			var refused *backend.Refused
			if !errors.As(err, &refused) || refused.Refusals[0] != backend.RefusedStale {
				f.Errorf("error %v, want %v", err, backend.RefusedStale)
			}
		}
		f.OK(tx.Commit(f.Ctx))
		want := d.A.Priority
		if renewed { // else it was stored at once
			want = 7
		}
		f.Equal("priority", f.endpoint(d.A.Handle).Priority, want)
	}
}
