package mysql

import (
	"context"
	"database/sql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// inProgress reports whether a transaction is open on a connection: the server refuses to set the level
// of the next transaction while one is.
func (p *pool) inProgress(ctx context.Context, conn backend.Execer) (bool, error) {
	if p.vitess() {
		return probe(ctx, conn)
	}
	_, err := conn.ExecContext(ctx, setLevel)
	if number(err) == errInProgress {
		return true, nil
	}
	return false, err
}

// inTx is inProgress on a connection that is the application's. If no transaction is open there, the level is used
// up at once.
func (p *pool) inTx(ctx context.Context, conn backend.Execer) (bool, error) {
	open, err := p.inProgress(ctx, conn)
	if open || p.vitess() {
		return open, err
	}
	for _, text := range []string{"START TRANSACTION", "ROLLBACK"} {
		if err == nil {
			_, err = conn.ExecContext(context.WithoutCancel(ctx), text)
		}
	}
	return false, err
}

// join works in the user's transaction.
func (p *pool) join(ctx context.Context, tx backend.Execer) (sqlstore.Session, error) {
	if p.invalid != nil {
		return nil, p.invalid
	}
	j := &joined{p: p, tx: tx, server: new(server)}
	if s := p.server.Load(); s != nil {
		j.server = s
	}
	return j, nil
}

type joined struct {
	p      *pool
	tx     backend.Execer
	server *server
	lastID
	again bool // the last statement was to insert rows, of which one is there
}

// text returns what is sent for a statement. Nothing is known of this session; but
// what a server knows, and takes, all of its sessions do.
func (j *joined) text(q *sqlstore.Stmt, lock string, args []any) (string, []any, error) {
	text := q.Text + lock
	if j.server.snapshots {
		text = current(text)
	}
	return inline(text, args, j.server.packet)
}

// Exec implements sqlstore.Session.
func (j *joined) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (sql.Result, error) {
	text, args, err := j.text(q, "", args)
	if err != nil {
		return nil, err
	}
	res, err := j.server.sure(q, func() (sql.Result, error) { return j.tx.ExecContext(ctx, text, args...) })
	j.take(res)
	j.again = false
	if all := j.p.store.Q(); err == nil && (q == all.KeyInsert || q == all.UniqueInsert) {
		n, err := res.RowsAffected()
		j.again = err == nil && n == 0
	}
	j.again = j.again || q == j.p.hot.NewKeys
	return res, err
}

// Query implements sqlstore.Session. What the transaction may have read before is read
// with a lock where a sender depends on it. That is its own stream, whose guard it has,
// and a key or unique value that could not be inserted as it is there.
func (j *joined) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (*sql.Rows, error) {
	all := j.p.store.Q()
	lock := ""
	if q == all.StreamRead || j.again && (q == all.KeyRead || q == all.UniqueRead || q == j.p.hot.Keys) {
		lock = " LOCK IN SHARE MODE"
	}
	text, args, err := j.text(q, lock, args)
	if err != nil {
		return nil, err
	}
	j.again = false
	return j.tx.QueryContext(ctx, text, args...)
}
