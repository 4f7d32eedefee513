package conformance

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "B15", Name: "a pool is not joined", Run: checkJoinPool},
		check{ID: "B16", Name: "verbs beside open rows", Run: checkRowsOpen},
	)
}

// unreachable is a database that takes no connections, and counts who asks for one.
type unreachable struct{ asked atomic.Int64 }

func (u *unreachable) Connect(context.Context) (driver.Conn, error) {
	u.asked.Add(1)
	return nil, errors.New("by the check: nothing is to be carried out on a pool")
}

func (u *unreachable) Driver() driver.Driver { return nil }

// checkJoinPool joins what has no transaction.
func checkJoinPool(e *env) {
	w := e.World()
	if e.Handle().Capabilities().Joiner == nil {
		return // nothing can be joined
	}
	var there unreachable
	pool := sql.OpenDB(&there)
	defer pool.Close()
	for what, on := range map[string]parley.Execer{"a *sql.DB": pool, "what embeds one": struct{ *sql.DB }{pool}} {
		_, err := w.B.Join(on).Post(e.Ctx, w.SQ, parley.Payload{Body: []byte(what)})
		if !errors.Is(err, parley.ErrNoTx) {
			e.Errorf("a post by way of %s: error %v, want ErrNoTx", what, err)
		}
	}
	if n := there.asked.Load(); n > 0 {
		e.Errorf("the pool was asked for %d connections", n)
	}
	if n := w.depth(w.SQ); n > 0 {
		e.Errorf("%d posts were stored without a transaction", n)
	}
}

// checkRowsOpen has verbs while the application reads rows in the transaction, where there is SQL.
func checkRowsOpen(e *env) {
	w := e.World()
	posted := 0
	post := func(tx *parley.Tx) error {
		begun := time.Now()
		_, err := tx.Post(context.WithoutCancel(e.Ctx), w.SQ, parley.Payload{})
		e.Within(5*time.Second, time.Since(begun), "a post beside open rows takes %v")
		return err
	}
	for _, closes := range []bool{true, false} {
		beside := 0
		err := w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
			if tx.SQL() == nil {
				return errUndo
			}
			rows, err := tx.SQL().QueryContext(context.WithoutCancel(e.Ctx), "SELECT 1 UNION ALL SELECT 2")
			if err != nil {
				return err
			}
			defer rows.Err() //nolint:errcheck // some rows are left open
			switch err := post(tx); {
			case err == nil:
				beside++
			case !errors.Is(err, parley.ErrRowsOpen):
				e.Errorf("a post beside open rows: error %v, want none or ErrRowsOpen", err)
			}
			if !closes {
				return nil
			}
			if err := rows.Close(); err != nil {
				return err
			}
			beside++
			return post(tx)
		})
		switch {
		case errors.Is(err, errUndo):
			return
		case err == nil:
			posted += beside
		case closes:
			e.Errorf("the transaction after the rows were closed: %v", err)
		}
		if n := w.depth(w.SQ); n != posted {
			e.Errorf("%d posts are stored, want %d", n, posted)
		}
	}
	w.post(w.SQ, "the next one")
	if n := w.depth(w.SQ); n != posted+1 {
		e.Errorf("after rows were left open %d posts are stored, want %d", n, posted+1)
	}
}
