package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// pool is the database and how to run statements on it.
type pool struct {
	log     *slog.Logger // nil: there is no log
	cramped sync.Once    // it has been logged that there is no connection to listen on

	options Options // with the prefix that it has come to
	invalid error   // what is wrong with them
	db      *sql.DB
	owned   bool
	listen  string // data source name of the listener
	pings   pings  // of the listener
	libpq   bool   // the driver is lib/pq
	keeps   bool   // the driver prepares statements by itself, and keeps them with a connection
	store   *sqlstore.Store
	hot     hot

	known  known       // connections for posts by themselves
	strict atomic.Bool // such a post has lost a conflict, as its session is above READ COMMITTED

	commits commits // of joined transactions

	probing sync.Mutex
	probed  atomic.Bool
	pooled  atomic.Bool // a transaction pooler is in between

	wakes atomic.Pointer[string] // the channel of notifications, once it is known

	mixed sync.Map // of queues where streams and posts got into each other's way
	kinds sync.Map // of queues: kind, what there has been in them

	deep    lately // of queues where the head of the order was all taken
	unusual lately // of queues where ReadUsual has found something else

	shortcuts sqlstore.Shortcuts

	fixedStmts sync.Map // of fixedKey: *sqlstore.Stmt
	fixedCount atomic.Int64

	prepared  sync.Map   // of *sqlstore.Stmt: *sql.Stmt, or nil if it cannot be
	mu        sync.Mutex // guards wanted
	wanted    []*sqlstore.Stmt
	preparing sync.Mutex
}

// probe finds out, once, whether connections are sessions of their server. Behind a pooler that
// assigns servers by transaction nothing may be left in a session, least of all prepared
// statements. The method holds two connections of the pool, and asks each several times for its
// server's process. A pinned connection whose process changes, or is that of the other, is not a
// session.
func (p *pool) probe(ctx context.Context) error {
	if p.probed.Load() {
		return nil
	}
	if p.invalid != nil {
		return p.invalid
	}
	p.probing.Lock()
	defer p.probing.Unlock()
	if p.probed.Load() {
		return nil
	}
	if _, err := p.channel(ctx); err != nil {
		return err
	}
	switch p.options.Pooler {
	case PoolerAlways:
		p.pooled.Store(true)
	case PoolerNever:
	default:
		moved, err := p.moves(ctx)
		if err != nil {
			return unreached(ctx, err)
		}
		p.pooled.Store(moved)
	}
	if p.options.Locks == LocksNative && p.pooled.Load() {
		return errPooledLocks
	}
	p.probed.Store(true)
	return nil
}

// moves reports whether a pinned connection moves from server to server.
func (p *pool) moves(ctx context.Context) (bool, error) {
	if p.db.Stats().MaxOpenConnections == 1 {
		// There is no second connection to move it; a pooler, if there is one,
		// has no reason to. The user can say more by Options.Pooler.
		return false, nil
	}
	first, err := p.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer first.Close()
	// Others may have all the connections there are, and keep them.
	waiting, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	second, err := p.db.Conn(waiting)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return false, nil
		}
		return false, err
	}
	defer second.Close()
	pid := func(c *sql.Conn) (n int, err error) {
		err = c.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&n)
		return n, err
	}
	// Each question is a separate transaction. If one connection kept its server while the other
	// waits for a second one, many stores that start at once would wait for each other. A pooler
	// either assigns the server that was returned last, which is then that of the other connection.
	// Or servers take turns, so that the second connection gets another one the second time.
	var a, b int
	for range probes {
		for _, x := range []struct {
			conn       *sql.Conn
			was, other *int
		}{{first, &a, &b}, {second, &b, &a}, {second, &b, &a}} {
			n, err := pid(x.conn)
			if err != nil {
				return false, err
			}
			if n == *x.other || *x.was != 0 && n != *x.was {
				return true, nil
			}
			*x.was = n
		}
	}
	return false, nil
}

// probes is how often two connections are asked for their servers.
const probes = 4

// statement returns the prepared form of q, nil if it has none yet. Statements are not prepared
// inside transactions, because that would take a second connection from a pool that may have only
// one. They run unprepared the first time, and are prepared before a later transaction begins.
func (p *pool) statement(q *sqlstore.Stmt) *sql.Stmt {
	if p.pooled.Load() || p.keeps {
		return nil
	}
	v, ok := p.prepared.Load(q)
	if ok {
		s, _ := v.(*sql.Stmt)
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wanted {
		if w == q {
			return nil
		}
	}
	p.wanted = append(p.wanted, q)
	return nil
}

// prepare prepares what was asked for since the last time.
func (p *pool) prepare(ctx context.Context) {
	p.mu.Lock()
	idle := len(p.wanted) == 0
	p.mu.Unlock()
	if idle || p.pooled.Load() || !p.preparing.TryLock() {
		return
	}
	defer p.preparing.Unlock()
	p.mu.Lock()
	wanted := p.wanted
	p.wanted = nil
	p.mu.Unlock()
	for _, q := range wanted {
		s, err := p.db.PrepareContext(ctx, q.Text)
		if err != nil {
			return // not migrated yet, or the context's end: asked for again
		}
		p.prepared.Store(q, s)
	}
}

// forget drops the prepared statements, after it has shown that sessions are not
// ours after all.
func (p *pool) forget() {
	p.pooled.Store(true)
	p.prepared.Range(func(k, v any) bool {
		p.prepared.Delete(k)
		if s, ok := v.(*sql.Stmt); ok {
			go s.Close() // it may wait for connections that are in use
		}
		return true
	})
}

// closeWait is how long to wait for statements to be closed on connections in use.
const closeWait = time.Second

func (p *pool) close() error {
	p.commits.end()
	// A statement that was prepared on the connection on which another store of this
	// handle listens now is not closed before that store is.
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.prepared.Range(func(k, v any) bool {
			p.prepared.Delete(k)
			if s, ok := v.(*sql.Stmt); ok {
				s.Close()
			}
			return true
		})
	}()
	select {
	case <-closed:
	case <-time.After(closeWait):
	}
	if p.owned {
		return p.db.Close()
	}
	return nil
}

func (p *pool) check(err error) {
	if err != nil && lostSession(err) {
		p.forget()
	}
}

// reader returns a session that reads what is committed. Behind a pooler that takes a transaction,
// because a statement with parameters is two messages. Inside another transaction it takes one,
// too, in order to wait for a connection once and not at each statement.
func (p *pool) reader(ctx context.Context) (sqlstore.Session, func(), error) {
	if err := p.probe(ctx); err != nil {
		return nil, nil, err
	}
	if !p.pooled.Load() && !backend.IsInside(ctx) {
		p.prepare(ctx)
		d := &direct{p: p}
		return d, d.release, nil
	}
	t, err := p.beginWhole(ctx, reading)
	if err != nil {
		return nil, nil, err
	}
	return t, func() { t.Rollback(ctx) }, nil
}

// direct runs statements outside transactions until one of them needs a transaction. All later ones
// run in that transaction: a second connection beside the first could wait for others that do the
// same.
type direct struct {
	p  *pool
	tx *transaction
}

func (d *direct) release() {
	if d.tx != nil {
		d.tx.Rollback(context.Background())
	}
}

// plain runs a statement without compilation (jit). The planner takes a statement that may
// read ten thousand rows for costly enough to compile, which takes up to a second. Nor is a
// table read whole instead of an index: the statement runs for each of many queues.
func (d *direct) plain(ctx context.Context, q *sqlstore.Stmt, args []any) (*sql.Rows, error) {
	if d.tx == nil {
		tx, cancel, err := d.p.beginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return nil, err
		}
		d.tx = &transaction{p: d.p, tx: tx, cancel: cancel}
		if _, err := tx.ExecContext(ctx, "SET LOCAL jit = off; SET LOCAL enable_seqscan = off"); err != nil {
			return nil, err
		}
	}
	return d.tx.Query(ctx, q, args)
}

func (d *direct) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, err error) {
	if d.tx != nil {
		return d.tx.Exec(ctx, q, args)
	}
	if s := d.p.statement(q); s != nil {
		res, err = s.ExecContext(ctx, args...)
	} else {
		text, args := d.p.unprepared(q, args)
		res, err = d.p.db.ExecContext(ctx, text, args...)
	}
	d.p.check(err)
	return res, err
}

func (d *direct) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (rows *sql.Rows, err error) {
	if all := d.p.store.Q(); d.tx != nil || q == all.QueueStatus || q == all.ListReady || q == all.ListReadyAfter {
		return d.plain(ctx, q, args)
	}
	if s := d.p.statement(q); s != nil {
		rows, err = s.QueryContext(ctx, args...)
	} else {
		text, args := d.p.unprepared(q, args)
		rows, err = d.p.db.QueryContext(ctx, text, args...)
	}
	d.p.check(err)
	return rows, err
}

// inTx reports whether a transaction is open on a connection. Only inside a transaction is a
// savepoint allowed, and not inside the implicit transaction of a text of several statements.
func (p *pool) inTx(ctx context.Context, conn backend.Execer) (bool, error) {
	_, err := conn.ExecContext(ctx, "SAVEPOINT parley_there; RELEASE SAVEPOINT parley_there")
	if sqlState(err) == "25P01" { // no_active_sql_transaction
		return false, nil
	}
	return err == nil, err
}

// join works in the user's transaction. It does not probe: the probe takes connections, and transactions of the
// application may have all that there are.
func (p *pool) join(_ context.Context, tx backend.Execer) (sqlstore.Session, error) {
	if p.invalid != nil {
		return nil, p.invalid
	}
	return &joined{p: p, tx: tx, own: p.begunHere(tx)}, nil
}

type joined struct {
	p      *pool
	tx     backend.Execer
	number string // of the transaction, if it is known

	own *sql.Tx // tx, if it is of the store's own pool
}

// later is a transaction of which nothing is known before its commit: pgxstore.InBatch.
type later interface {
	Later(ctx context.Context, text string, args []any) error
}

// Exec implements sqlstore.Session.
func (j *joined) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (sql.Result, error) {
	if l, ok := j.tx.(later); ok {
		switch q {
		case j.p.store.Q().PostOne:
			return driver.RowsAffected(1), l.Later(ctx, j.p.hot.PostLater.Text, args)
		case j.p.hot.Notify:
			return driver.RowsAffected(1), l.Later(ctx, q.Text, args)
		}
	}
	if q == j.p.store.Q().PostOne {
		return j.post(ctx, args)
	}
	res, err := executed(ctx, j, q, args, (*sql.Stmt).ExecContext, j.tx.ExecContext)
	return res, j.p.strayed(err)
}

// post posts, and takes note of the transaction's number.
func (j *joined) post(ctx context.Context, args []any) (sql.Result, error) {
	rows, err := j.Query(ctx, j.p.hot.PostJoined, args)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		if err := rows.Scan(&j.number); err != nil {
			return nil, err
		}
	}
	return driver.RowsAffected(n), j.p.strayed(rows.Err())
}

// Query implements sqlstore.Session.
func (j *joined) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (*sql.Rows, error) {
	rows, err := executed(ctx, j, q, args, (*sql.Stmt).QueryContext, j.tx.QueryContext)
	return rows, j.p.strayed(err)
}

// executed carries out a statement, prepared if the program has begun its transaction on the pool of the store: then
// the connections have most of our statements planned. pgx keeps statements prepared by itself.
func executed[T any](ctx context.Context, j *joined, q *sqlstore.Stmt, args []any,
	prepared func(*sql.Stmt, context.Context, ...any) (T, error), plain func(context.Context, string, ...any) (T, error)) (T, error) {
	if j.own != nil {
		if s := j.p.statement(q); s != nil {
			return prepared(j.own.StmtContext(ctx, s), ctx, args...)
		}
	}
	text, args := j.p.unprepared(q, args)
	return plain(ctx, text, args...)
}

// begunHere returns tx if it is a transaction of the store's own pool, and nil otherwise. The package database/sql does
// not tell, other than by an error that has no type; so this looks at the field, and takes a pool that it
// cannot find for another one.
func (p *pool) begunHere(tx backend.Execer) *sql.Tx {
	t, ok := tx.(*sql.Tx)
	if !ok || t == nil || !p.libpq {
		return nil
	}
	if db := reflect.ValueOf(t).Elem().FieldByName("db"); db.Kind() != reflect.Pointer || db.Pointer() != reflect.ValueOf(p.db).Pointer() {
		return nil
	}
	return t
}
