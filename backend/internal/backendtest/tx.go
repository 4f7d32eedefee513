package backendtest

import (
	"context"
	"errors"

	"github.com/parleymq/parley/backend"
)

func testSavepoint(f *Fixture) {
	d := f.Open()
	f.Do(func(tx backend.Tx) error {
		send := func(body string) error {
			_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, body)})
			return err
		}
		return errors.Join(
			send("1"),
			tx.Savepoint(f.Ctx, "p"),
			send("2"),
			tx.RollbackTo(f.Ctx, "p"),
			send("3"),
			tx.Release(f.Ctx, "p"),
		)
	})
	h := f.One(f.Request(f.QB))
	f.Equal("bodies", Bodies(h.Messages), []string{"1", "3"})
	f.Equal("seq", h.Messages[1].Seq, 1)
}

func testRollback(f *Fixture) {
	d := f.Open()
	f.Is(f.Try(func(tx backend.Tx) error {
		if _, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{Message(d.A.Handle, "1")}); err != nil {
			return err
		}
		if _, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: "k"})}); err != nil {
			return err
		}
		return context.Canceled
	}), context.Canceled)
	f.None(f.Request(f.QB))
	f.None(f.Request(f.QP))
	f.Equal("next", f.endpoint(d.A.Handle).NextSeq, 0)
	f.Send(d.A.Handle, "2")
	h := f.One(f.Request(f.QB))
	f.Equal("seq", h.Messages[0].Seq, 0)
}

func testDone(f *Fixture) {
	for _, end := range []func(backend.Tx) error{
		func(tx backend.Tx) error { return tx.Commit(f.Ctx) },
		func(tx backend.Tx) error { return tx.Rollback(f.Ctx) },
	} {
		tx := f.Begin()
		f.OK(end(tx))
		f.Is(tx.Commit(f.Ctx), backend.ErrTxDone)
		f.OK(tx.Rollback(f.Ctx))
		_, err := tx.Catalog(f.Ctx, false)
		f.Is(err, backend.ErrTxDone)
		_, err = tx.Claim(f.Ctx, f.Request(f.QA))
		f.Is(err, backend.ErrTxDone)
		f.Is(tx.Savepoint(f.Ctx, "p"), backend.ErrTxDone)
	}
}

func testContext(f *Fixture) {
	ctx, cancel := context.WithCancel(f.Ctx)
	tx, err := f.Backend.Begin(ctx)
	f.OK(err)
	cancel()
	if _, err := tx.Catalog(ctx, true); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
	// The transaction outlives the context that it was begun with.
	_, err = tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{})})
	f.OK(err)
	f.OK(tx.Commit(f.Ctx))
	f.Equal("posts", len(f.Drain(f.QP)), 1)
	if _, err := f.Backend.Begin(ctx); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
	if err := f.Backend.Check(ctx); !errors.Is(err, context.Canceled) {
		f.Errorf("error %v", err)
	}
}

// testEndings has statements of the application end a transaction of the store. A text that
// begins with such a statement is refused; if the statement comes later, nothing more is done
// after it.
func testEndings(f *Fixture) {
	post := func(tx backend.Tx, body string) error {
		_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{{ID: backend.NewID(), Queue: f.QP, Type: "m", Rank: 5, Body: []byte(body)}})
		return err
	}
	for _, text := range []string{"COMMIT", "; rollback", "/* x */ Commit", "END"} {
		tx := f.Begin()
		f.OK(post(tx, "undone"))
		_, err := tx.SQL().ExecContext(f.Ctx, text)
		f.Is(err, backend.ErrEndsTx)
		_, err = tx.SQL().QueryContext(f.Ctx, text)
		f.Is(err, backend.ErrEndsTx)
		f.Is(tx.SQL().QueryRowContext(f.Ctx, text).Scan(new(int)), backend.ErrEndsTx)
		_, err = tx.SQL().PrepareContext(f.Ctx, text)
		f.Is(err, backend.ErrEndsTx)
		f.OK(post(tx, "undone, too"))
		f.OK(tx.Rollback(f.Ctx))
	}
	f.Equal("posts", len(f.Drain(f.QP)), 0)

	for _, last := range []string{"COMMIT", "ROLLBACK"} {
		tx := f.Begin()
		f.OK(post(tx, "before"))
		if _, err := tx.SQL().ExecContext(f.Ctx, "SELECT 1; "+last); err != nil {
			f.OK(tx.Rollback(f.Ctx)) // several statements at once are not taken
			continue
		}
		f.Is(post(tx, "after "+last), backend.ErrTxDone)
		f.Is(tx.Commit(f.Ctx), backend.ErrTxDone)
		for _, body := range f.Drain(f.QP) {
			f.Equal("what is left of it", body, "before")
		}
	}
}
