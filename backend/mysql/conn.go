package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// pool is the database and how to run statements on it.
type pool struct {
	prefix      string
	invalid     error   // what is wrong with the options
	db          *sql.DB // Open's, if there is side
	side        *sql.DB // for ending statements; nil: they are ended on db
	store       *sqlstore.Store
	hot         hot
	newKeyTurns keyInsertLimiter
	keys        keyCache
	single      atomic.Bool // connections take one statement in a text
	guards      bool        // they take several, but not from the application
	several     atomic.Bool // they have taken several
	prepares    atomic.Bool // the driver has statements with arguments prepared

	mu    sync.Mutex
	known map[any]*session // by the driver's connections

	server atomic.Pointer[server]   // nil until a session has been looked at
	has    atomic.Pointer[[]string] // variables, of those that a session is asked for, that the server has

	plain sync.Map // of queues where the last claim found posts only
	flow  sync.Map // of queues where the last claim found streams only
}

// session is what is known of a connection.
type session struct {
	id        int64 // CONNECTION_ID()
	committed bool  // its transactions are READ COMMITTED by themselves
	packet    int   // max_allowed_packet
	snapshots bool  // innodb_snapshot_isolation is ON
	refused   error
}

// text returns what is sent for a statement.
func (s *session) text(q *sqlstore.Stmt, args []any) (string, []any, error) {
	text := q.Text
	if s.snapshots {
		text = current(text)
	}
	return inline(text, args, s.packet)
}

// committed makes connections whose transactions are READ COMMITTED, which spares
// them a round trip each. The variable's name differs between servers, so it
// cannot be set by the driver.
type committed struct{ driver.Connector }

// Connect implements driver.Connector.
func (c committed) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	x, ok := conn.(driver.ExecerContext)
	if !ok {
		return conn, nil
	}
	if _, err := x.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// attempts is how many connections that the server has closed meanwhile are
// passed over. Nothing has been done on them, so nothing can have happened.
const attempts = 4

// conn returns a connection of the pool and what is known of it.
func (p *pool) conn(ctx context.Context) (*sql.Conn, *session, error) {
	if p.invalid != nil {
		return nil, nil, p.invalid
	}
	for n := 1; ; n++ {
		c, err := p.db.Conn(ctx)
		if err != nil {
			if number(err) == 0 {
				err = sqlstore.Unreached(ctx, err)
			}
			return nil, nil, err
		}
		s, err := p.session(ctx, c)
		if err == nil {
			err = s.refused
		}
		if err == nil {
			return c, s, nil
		}
		c.Close()
		if n == attempts || !p.lost(err) {
			return nil, nil, err
		}
	}
}

// lost reports whether a connection was found to be gone.
func (p *pool) lost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || p.classify(err) == backend.ErrConnection
}

// session inspects a connection when it is first used. The result is stored under the driver's
// connection, which keeps that in memory; so from time to time all closed connections are forgotten
// together.
func (p *pool) session(ctx context.Context, c *sql.Conn) (*session, error) {
	var key any
	if err := c.Raw(func(dc any) error { key = dc; return nil }); err != nil {
		return nil, err
	}
	p.mu.Lock()
	s := p.known[key]
	p.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := p.newSession(ctx, c)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if len(p.known) > 2*p.db.Stats().OpenConnections+16 {
		clear(p.known)
	}
	p.known[key] = s
	p.mu.Unlock()
	return s, nil
}

func (p *pool) close() error {
	if p.side == nil {
		return nil
	}
	return errors.Join(p.side.Close(), p.db.Close())
}

// query is guarded for a query. An interrupted query has not happened.
func (p *pool) query(ctx context.Context, s *session, run func(context.Context) (*sql.Rows, error)) (rows *sql.Rows, err error) {
	err = p.guarded(ctx, s, func(ctx context.Context) error {
		var err error
		rows, err = run(ctx)
		return err
	})
	if errors.Is(err, errInterrupted) {
		err = ctx.Err()
	}
	if err != nil && rows != nil {
		rows.Close()
		rows = nil
	}
	return rows, err
}

// change is guarded for a change. An interrupted change may have happened.
func (p *pool) change(ctx context.Context, s *session, run func(context.Context) (sql.Result, error)) (res sql.Result, err error) {
	var failed error
	err = p.guarded(ctx, s, func(ctx context.Context) error {
		res, failed = run(ctx)
		return failed
	})
	if !errors.Is(err, errInterrupted) {
		return res, err
	}
	if failed == nil {
		if n, err := res.RowsAffected(); err == nil && n > 0 {
			return res, nil
		}
	}
	return nil, ctx.Err()
}

// reader returns a session that reads what is committed.
func (p *pool) reader(ctx context.Context) (sqlstore.Session, func(), error) {
	c, s, err := p.conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	return direct{p, c, s}, func() { c.Close() }, nil
}

// direct runs statements outside of transactions.
type direct struct {
	p    *pool
	conn *sql.Conn
	s    *session
}

// Exec implements sqlstore.Session.
func (d direct) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (sql.Result, error) {
	return nil, errors.New("parley: mysql: a reader does not write")
}

// Query implements sqlstore.Session.
func (d direct) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (rows *sql.Rows, err error) {
	text, args, err := d.s.text(q, args)
	if err != nil {
		return nil, err
	}
	return d.p.query(ctx, d.s, func(ctx context.Context) (*sql.Rows, error) {
		return d.conn.QueryContext(ctx, text, args...)
	})
}
