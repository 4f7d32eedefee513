package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// begin returns a transaction that takes its turn when it first does anything.
func (p *pool) begin(ctx context.Context) (sqlstore.Transaction, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return &transaction{p: p, born: ctx}, nil
}

// transaction is the writing transaction. Its statements are short and run with contexts that
// cannot end. "If the interrupted SQL operation is an INSERT, UPDATE, or DELETE that is inside an
// explicit transaction, then the entire transaction will be rolled back automatically"
// (sqlite3_interrupt).
type transaction struct {
	p     *pool
	born  context.Context // that it was begun with, for what it is inside of
	state atomic.Int32
	mu    sync.Mutex // held by each statement, while its rows are read as well, and by the end, which may come from Close
	// watched are contexts of the user's statements, which can be interrupted.
	watched  []context.Context
	reads    sqlstore.Reads
	suspect  bool // SQLite may have rolled back by itself: also after an error of the user's, by OR ROLLBACK or RAISE
	prepared bool // statements of the user's run unseen
	ending   bool // or a statement of the user's may have ended it
}

const (
	waiting = iota
	begun
	over
)

// Begun reports whether the transaction has taken its turn.
func (t *transaction) Begun() bool { return t.state.Load() != waiting }

var errRolledBack = errors.New("SQLite rolled the transaction back after an error or because its context ended")

// enter is start for a statement, which leaves by unlocking t.mu. What would be
// carried out behind the end of the transaction would be one by itself.
func (t *transaction) enter(ctx context.Context) error {
	if err := t.start(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	err := sql.ErrTxDone
	if t.state.Load() != over { // else another writer has the connection
		err = t.check()
	}
	if err != nil {
		t.mu.Unlock()
	}
	return err
}

// check returns an error if SQLite has rolled back by itself. To go on would
// make each statement a separate transaction.
func (t *transaction) check() error {
	for _, ctx := range t.watched {
		t.suspect = t.suspect || ctx.Err() != nil
	}
	if !t.suspect && !t.prepared {
		return nil
	}
	// There is no other way to ask than to try.
	if _, err := t.p.conn.ExecContext(context.Background(), "BEGIN"); err != nil {
		t.suspect, t.ending, t.watched = false, false, nil
		return nil
	}
	t.p.conn.ExecContext(context.Background(), "ROLLBACK")
	if t.ending {
		return sqlstore.ErrEnded
	}
	return sqlstore.Classified(backend.ErrSerialization, errRolledBack)
}

// Exec implements sqlstore.Session.
func (t *transaction) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (sql.Result, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	s, err := t.p.prepared(q)
	if err != nil {
		return nil, err
	}
	res, err := s.ExecContext(context.Background(), args...)
	t.suspect = t.suspect || err != nil && endsTransaction(err)
	return res, err
}

// Query implements sqlstore.Session.
func (t *transaction) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (*sql.Rows, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	s, err := t.p.prepared(q)
	var rows *sql.Rows
	if err == nil {
		rows, err = s.QueryContext(context.Background(), args...)
		t.suspect = t.suspect || err != nil && endsTransaction(err)
	}
	if err != nil {
		t.mu.Unlock()
	}
	return rows, err
}

// Point implements sqlstore.Pointing.
func (t *transaction) Point(ctx context.Context, text string) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	defer t.mu.Unlock()
	s, err := t.p.preparedText(context.Background(), text)
	if err != nil {
		return err
	}
	_, err = s.ExecContext(context.Background())
	t.suspect = t.suspect || err != nil && endsTransaction(err)
	return err
}

// Rest implements sqlstore.Resting. Closing a statement whose rows are being read would free memory
// that the driver uses.
func (t *transaction) Rest() { t.mu.Unlock() }

// Commit implements sqlstore.Transaction.
func (t *transaction) Commit(ctx context.Context) error {
	if t.state.Load() == begun {
		if err := t.check(); err != nil {
			t.Rollback(ctx)
			return err
		}
	}
	return t.end(commitStmt)
}

// Rollback implements sqlstore.Transaction.
func (t *transaction) Rollback(context.Context) error {
	t.reads.Close() // a statement of the user's that is under way would be waited for
	return t.end(rollbackStmt)
}

func (t *transaction) end(how *sqlstore.Stmt) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Swap(over) != begun {
		return nil
	}
	err := t.p.run(context.Background(), how)
	if err == nil && how == commitStmt {
		err = t.p.same() // else what was committed is in a file that has no name
	} else if err != nil {
		// Whatever went wrong, the next writer must not find this transaction.
		if again := t.p.run(context.Background(), rollbackStmt); how == rollbackStmt && again != nil {
			err = nil // SQLite had rolled back by itself
		}
	}
	t.reads.Close() // the next writer has the same connection
	t.release(err)
	return err
}

// SQL implements sqlstore.Transaction.
func (t *transaction) SQL() backend.Execer { return userSQL{t} }

// userSQL runs the user's statements, with the user's contexts.
type userSQL struct{ t *transaction }

// enter is that of the transaction.
func (u userSQL) enter(ctx context.Context, query string) error {
	may, err := sqlstore.CheckEnding(query)
	if err != nil {
		return err
	}
	if err := u.t.enter(ctx); err != nil {
		return u.t.p.store.Classify(err)
	}
	u.t.suspect, u.t.ending = u.t.suspect || may, u.t.ending || may
	if ctx.Done() != nil {
		for _, c := range u.t.watched {
			if c == ctx {
				return nil
			}
		}
		u.t.watched = append(u.t.watched, ctx)
	}
	return nil
}

func (u userSQL) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := u.enter(ctx, query); err != nil {
		return nil, err
	}
	defer u.t.mu.Unlock()
	s, err := u.t.p.preparedText(ctx, query)
	if err != nil {
		return nil, err
	}
	ctx, done := u.t.reads.Context(ctx)
	defer done()
	res, err := s.ExecContext(ctx, args...)
	u.t.suspect = u.t.suspect || err != nil
	return res, err
}

func (u userSQL) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := u.enter(ctx, query); err != nil {
		return nil, err
	}
	defer u.t.mu.Unlock()
	ctx, done := u.t.reads.Context(ctx)
	defer done()
	rows, err := u.t.p.conn.QueryContext(ctx, query, args...)
	u.t.suspect = u.t.suspect || err != nil
	return rows, err
}

func (u userSQL) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := u.enter(ctx, query); err != nil {
		return sqlstore.FailedRow(ctx, err)
	}
	defer u.t.mu.Unlock()
	ctx, done := u.t.reads.Context(ctx)
	defer done()
	row := u.t.p.conn.QueryRowContext(ctx, query, args...)
	u.t.suspect = u.t.suspect || row.Err() != nil
	return row
}

func (u userSQL) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := u.enter(ctx, query); err != nil {
		return nil, err
	}
	defer u.t.mu.Unlock()
	u.t.prepared = true
	return u.t.p.conn.PrepareContext(ctx, query)
}
