package backendtest

import (
	"github.com/parleymq/parley/backend"
)

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
