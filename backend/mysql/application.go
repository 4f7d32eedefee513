package mysql

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// SQL implements sqlstore.Transaction.
func (t *transaction) SQL() backend.Execer {
	if err := t.enter(context.Background()); err != nil {
		return sqlstore.Failing(err)
	}
	return application{t}
}

// application runs the application's statements.
type application struct{ t *transaction }

// one refuses a text of several statements, which an application that builds texts of what its users write does not
// mean to send. The server tells: it prepares one statement only.
func (a application) one(ctx context.Context, query string) error {
	if !a.t.p.guards || !strings.Contains(strings.TrimRight(query, "; \t\r\n"), ";") {
		return nil
	}
	s, err := a.t.conn.PrepareContext(ctx, query)
	if err == nil {
		return s.Close()
	}
	const cannotPrepare = 1295 // ER_UNSUPPORTED_PS: it is one, such as the definition of a procedure
	if number(err) == cannotPrepare {
		return nil
	}
	a.t.saw(err)
	return err
}

// start is called before each of them.
func (a application) start(ctx context.Context, query string) error {
	may, err := sqlstore.CheckEnding(query)
	if err == nil {
		err = a.one(ctx, query)
	}
	if err != nil {
		return err
	}
	t := a.t
	t.mu.Lock()
	doubt := t.doubt
	t.mu.Unlock()
	if doubt {
		if err := t.check(ctx); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used, t.applied = true, !t.free
	t.ends = t.ends || may || changes.MatchString(query)
	return t.usable()
}

// changes matches statements that commit what came before them.
var changes = regexp.MustCompile(`(?i)^\s*(CREATE|ALTER|DROP|RENAME|TRUNCATE)\s`)

// fresh reports whether a statement changes the schema in a transaction in which
// nothing has been done yet. It commits nothing but itself then, and the
// transaction can begin once more.
func (a application) fresh(query string) bool {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.used && !t.free && t.usable() == nil && changes.MatchString(query)
}

func (a application) ExecContext(ctx context.Context, query string, args ...any) (res sql.Result, err error) {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if a.fresh(query) {
		if err := a.one(ctx, query); err != nil {
			return nil, err
		}
		res, err = a.t.conn.ExecContext(ctx, query, args...)
		return res, errors.Join(err, a.again(ctx, err))
	}
	if err := a.start(ctx, query); err != nil {
		return nil, err
	}
	if err := a.renew(ctx); err != nil {
		return nil, err
	}
	err = a.run(ctx, query, args, func(ctx context.Context, query string) (err error) {
		res, err = a.t.conn.ExecContext(ctx, query, args...)
		return err
	})
	return res, err
}

// again begins the transaction once more, after a statement that has committed it, or may have if it
// failed. If it does not begin, what follows would commit by itself, so it is lost.
func (a application) again(ctx context.Context, failed error) error {
	t := a.t
	if failed != nil {
		t.reset(ctx)
	}
	err := t.start(ctx)
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = sqlstore.Classified(backend.ErrSerialization, err)
	return t.lost
}

func (a application) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if err := a.start(ctx, query); err != nil {
		return nil, err
	}
	err = a.run(ctx, query, args, func(ctx context.Context, query string) (err error) {
		rows, err = a.t.conn.QueryContext(ctx, query, args...)
		return err
	})
	return rows, err
}

func (a application) QueryRowContext(ctx context.Context, query string, args ...any) (row *sql.Row) {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if err := a.start(ctx, query); err != nil {
		return sqlstore.FailedRow(ctx, err)
	}
	err := a.run(ctx, query, args, func(ctx context.Context, query string) error {
		row = a.t.conn.QueryRowContext(ctx, query, args...)
		return row.Err()
	})
	if err != nil {
		return sqlstore.FailedRow(ctx, err)
	}
	return row
}

// run carries out a statement, with the savepoint that is to come with it.
func (a application) run(ctx context.Context, query string, args []any, do func(ctx context.Context, query string) error) error {
	t := a.t
	ctx, done := t.reads.Context(ctx)
	defer done()
	point := t.takePoint()
	if point != "" && t.p.joinable(query, args) {
		return a.joined(ctx, point, query, do)
	}
	err := t.setPoint(ctx, point)
	if err != nil {
		return err
	}
	err = do(ctx, query)
	t.saw(err)
	return err
}

// joined carries out both in one trip.
func (a application) joined(ctx context.Context, point, query string, do func(ctx context.Context, query string) error) error {
	t := a.t
	err := t.p.orHangUp(t.s, func() { t.reads.Cut(ctx) }, func() error { return do(ctx, point+";\n"+query) })
	switch number(err) {
	case errSyntax: // of the query, or the driver has had it prepared
		if err := t.setPoint(ctx, point); err != nil {
			return err
		}
		if err = do(ctx, query); err == nil {
			t.p.prepares.Store(true)
		}
	case errNoSavepoint: // or the query calls a function that does not exist
		if err := t.check(ctx); err != nil {
			return err
		}
	case errInterruptedQuery, errStatementTime, errNotPrepared:
		if strings.HasPrefix(point, "RELEASE ") { // it may have been the first, and the savepoint of the handler before is there
			t.mu.Lock()
			defer t.mu.Unlock()
			t.lost = sqlstore.Classified(backend.ErrSerialization, err)
			return t.lost
		}
	}
	t.saw(err)
	return err
}

// What may keep a savepoint from being set: ER_QUERY_INTERRUPTED, ER_STATEMENT_TIMEOUT of MariaDB, and on Galera
// ER_UNKNOWN_COM_ERROR from a node that is not in the cluster.
const (
	errInterruptedQuery = 1317
	errStatementTime    = 1969
	errNotPrepared      = 1047
)

func (a application) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if err := a.start(ctx, query); err != nil {
		return nil, err
	}
	if err := a.t.setPoint(ctx, a.t.takePoint()); err != nil {
		return nil, err
	}
	a.t.mu.Lock()
	a.t.point.prepared = true
	a.t.mu.Unlock()
	return a.t.conn.PrepareContext(ctx, query)
}
