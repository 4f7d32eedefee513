package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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

// interrupt ends the statement that a session is at. It reports whether that
// could be done. vtgate knows connections by other numbers than MySQL, and mostly forbids KILL.
func (p *pool) interrupt(id int64) bool {
	if p.vitess() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	db := p.side
	if db == nil {
		db = p.db
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id))
	return err == nil
}

// guarded runs one of our statements whose context may end. With that context the driver would
// close the connection. The server would continue to wait for a lock and keep all other locks of
// the transaction. So guarded tells the server to end the statement, and the transaction survives.
//
// A server that is told so between two statements of one text leaves the rest of them out, and never
// sends the results that it has announced (MySQL 9.7.4, MariaDB 11.8.9). Then the connection is closed.
func (p *pool) guarded(ctx context.Context, s *session, work func(context.Context) error) error {
	if ctx.Done() == nil {
		return work(ctx)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended, over := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		for _, wait := range answerWaits {
			if !p.interrupt(s.id) {
				break
			}
			select {
			case <-ended:
				return
			case <-time.After(wait):
			}
		}
		cancel()
	})
	err := work(own)
	close(ended)
	if !stop() {
		<-over // else the interrupt could meet the next statement
		return errors.Join(errInterrupted, err)
	}
	return err
}

// answerWaits are how long an interrupted statement may take to end before it is interrupted again, or its connection
// is closed. An interrupt that comes before the server has read the statement does nothing.
var answerWaits = [...]time.Duration{100 * time.Millisecond, time.Second}

// errInterrupted: the statement was told to end, and may have ended in the middle.
// A locking read that skips what is locked has been seen to end without an error
// then, as if it had found nothing.
var errInterrupted = errors.New("interrupted")

// query is guarded for a query. An interrupted query has not happened.
func (p *pool) query(ctx context.Context, s *session, run func(context.Context) (*sql.Rows, error)) (rows *sql.Rows, err error) {
	err = p.guarded(ctx, s, func(ctx context.Context) error {
		var err error
		rows, err = run(ctx)
		return err
	})
	if errors.Is(err, errInterrupted) {
		if rows != nil {
			rows.Close()
		}
		return nil, ctx.Err()
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
