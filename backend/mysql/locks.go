package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// pool is the database and how to run statements on it.
type pool struct {
	prefix  string
	invalid error   // what is wrong with the options
	db      *sql.DB // Open's, if there is side
	side    *sql.DB // for ending statements; nil: they are ended on db
	store   *sqlstore.Store
	hot     hot
	keygate keygate

	mu    sync.Mutex
	known map[any]*session // by the driver's connections

	server atomic.Pointer[server] // nil until a session has been looked at

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
		if n == attempts || !lost(err) {
			return nil, nil, err
		}
	}
}

// lost reports whether a connection was found to be gone.
func lost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || classify(err) == backend.ErrConnection
}

// session looks at a connection when it is first used. What is known is kept by
// the driver's connection, which is held on to by that; those that are gone are
// forgotten all together, now and then.
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
	v, err := variables(ctx, c, "pseudo_thread_id", "autocommit", "sql_mode", "max_allowed_packet", "transaction_isolation", "tx_isolation",
		"innodb_snapshot_isolation", "wsrep_on")
	if err != nil {
		return nil, err
	}
	s = &session{committed: v["transaction_isolation"] == "READ-COMMITTED" || v["tx_isolation"] == "READ-COMMITTED"}
	s.id, _ = strconv.ParseInt(v["pseudo_thread_id"], 10, 64)
	s.packet, _ = strconv.Atoi(v["max_allowed_packet"])
	p.server.Store(serverOf(v))
	if s.snapshots = v["innodb_snapshot_isolation"] == "ON"; s.snapshots && p.side != nil { // Open's own session
		if _, err := c.ExecContext(ctx, "SET SESSION innodb_snapshot_isolation = OFF"); err != nil {
			return nil, err
		}
		s.snapshots = false
	}
	switch {
	case s.id == 0:
		s.refused = errors.New("parley: mysql: the server does not tell the connection's id")
	case v["autocommit"] != "ON":
		s.refused = errors.New("parley: mysql: autocommit is off in sessions of this handle: take it out of the data source name or init_connect")
	}
	for mode := range strings.SplitSeq(v["sql_mode"], ",") {
		if mode == "EMPTY_STRING_IS_NULL" || mode == "PAD_CHAR_TO_FULL_LENGTH" {
			s.refused = fmt.Errorf("parley: mysql: sql_mode of sessions of this handle has %s, which changes the meaning of values: take it out", mode)
		}
	}
	p.mu.Lock()
	if len(p.known) > 2*p.db.Stats().OpenConnections+16 {
		clear(p.known)
	}
	p.known[key] = s
	p.mu.Unlock()
	return s, nil
}

// variables returns those of a session's variables that the server has.
func variables(ctx context.Context, c *sql.Conn, names ...string) (map[string]string, error) {
	rows, err := c.QueryContext(ctx, "SHOW VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "', '")+"')")
	v := make(map[string]string, len(names))
	return v, sqlstore.Settings(v, rows, err)
}

func (p *pool) close() error {
	if p.side == nil {
		return nil
	}
	return errors.Join(p.side.Close(), p.db.Close())
}

// interrupt ends the statement that a session is at. It reports whether that
// could be done.
func (p *pool) interrupt(id int64) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	db := p.side
	if db == nil {
		db = p.db
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id))
	return err == nil
}

// guarded runs a statement of ours whose context may end. To hand that context
// to the driver would have it close the connection, while the server goes on
// waiting for a lock, with all others that the transaction has. So the server
// is told to end the statement, and the transaction is still there.
func (p *pool) guarded(ctx context.Context, s *session, work func(context.Context) error) error {
	if ctx.Done() == nil {
		return work(ctx)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		if !p.interrupt(s.id) {
			cancel()
		}
	})
	err := work(own)
	if !stop() {
		<-over // lest it should meet the next statement
		return errors.Join(errInterrupted, err)
	}
	return err
}

// errInterrupted: the statement was told to end, and may have ended in the middle.
// A locking read that skips what is locked has been seen to end without an error
// then, as if it had found nothing.
var errInterrupted = errors.New("interrupted")

// query is guarded for a query. One that was interrupted has not happened.
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

// change is guarded for a change. One that was interrupted may have happened.
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

// begin starts a transaction.
func (p *pool) begin(ctx context.Context) (sqlstore.Transaction, error) {
	for n := 1; ; n++ {
		c, s, err := p.conn(ctx)
		if err != nil {
			return nil, err
		}
		t := &transaction{p: p, conn: c, s: s}
		if err = t.start(ctx); err == nil {
			return t, nil
		}
		t.discard()
		if n == attempts || !lost(err) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// transaction is a transaction of ours, on a connection that it has to itself.
type transaction struct {
	p    *pool
	conn *sql.Conn
	s    *session
	lastID

	// ending keeps the end, which may come from Close, apart from statements: one
	// that fell behind it would be carried out by itself.
	ending sync.RWMutex

	mu      sync.Mutex // guards what follows
	over    bool
	lost    error  // what ended the transaction on the server
	used    bool   // something has been done in it
	applied bool   // the application has had statements since the last of ours
	ends    bool   // one of them may have ended the transaction
	after   string // gives back, when it has ended, what kept other migrations away
	free    bool   // what is done in it commits by itself
	turn    string // keeps other migrations away for longer, on a cluster
}

// start starts it, in one trip if the session's level is the right one.
func (t *transaction) start(ctx context.Context) error {
	if !t.s.committed {
		if _, err := t.conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
			return err
		}
	}
	_, err := t.conn.ExecContext(ctx, "START TRANSACTION")
	return err
}

// lastID is the LAST_INSERT_ID of the last statement.
type lastID struct{ n int64 }

func (l *lastID) take(res sql.Result) {
	if res != nil {
		l.n, _ = res.LastInsertId()
	}
}

var errDeadlock = errors.New("the server has ended the transaction, because of a deadlock")

// check returns an error unless the transaction is there for a statement of ours.
// Whether it is, after statements of the application's, is found out by one that
// is refused (ER_CANT_CHANGE_TX_CHARACTERISTICS) "while a transaction is in
// progress".
func (t *transaction) check(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = true
	if err := t.usable(); err != nil || !t.applied {
		return err
	}
	_, err := t.conn.ExecContext(context.WithoutCancel(ctx), "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
	switch {
	case number(err) == 1568:
		t.applied, t.ends = false, false
		return nil
	case err != nil:
		return err
	case t.ends:
		t.lost = sqlstore.ErrEnded
	default:
		t.lost = sqlstore.Classified(backend.ErrSerialization, errDeadlock)
	}
	return t.lost
}

// usable returns an error if the transaction is known to be over.
func (t *transaction) usable() error {
	if t.over {
		return sql.ErrTxDone
	}
	return t.lost
}

// saw takes notice of what an error did to the transaction.
func (t *transaction) saw(err error) {
	if err != nil && endsTransaction(err) {
		t.mu.Lock()
		t.lost = sqlstore.Classified(backend.ErrSerialization, err)
		t.mu.Unlock()
	}
}

// Exec implements sqlstore.Session.
func (t *transaction) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (res sql.Result, err error) {
	t.ending.RLock()
	defer t.ending.RUnlock()
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	text, args, err := t.s.text(q, args)
	if err != nil {
		return nil, err
	}
	res, err = t.p.change(ctx, t.s, func(ctx context.Context) (sql.Result, error) {
		res, err := t.conn.ExecContext(ctx, text, args...)
		t.saw(err)
		return res, err
	})
	t.take(res)
	return res, err
}

// Query implements sqlstore.Session.
func (t *transaction) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (rows *sql.Rows, err error) {
	t.ending.RLock()
	defer t.ending.RUnlock()
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	text, args, err := t.s.text(q, args)
	if err != nil {
		return nil, err
	}
	rows, err = t.p.query(ctx, t.s, func(ctx context.Context) (*sql.Rows, error) {
		rows, err := t.conn.QueryContext(ctx, text, args...)
		t.saw(err)
		return rows, err
	})
	return rows, err
}

// Commit implements sqlstore.Transaction.
func (t *transaction) Commit(ctx context.Context) error {
	t.ending.RLock()
	err := t.check(ctx)
	t.ending.RUnlock()
	if err != nil {
		t.Rollback(ctx)
		return err
	}
	return t.end(ctx, "COMMIT")
}

// Rollback implements sqlstore.Transaction.
func (t *transaction) Rollback(ctx context.Context) error {
	err := t.end(ctx, "ROLLBACK")
	if lost(err) {
		return nil // it is gone with its connection
	}
	return err
}

func (t *transaction) end(ctx context.Context, how string) error {
	t.ending.Lock()
	defer t.ending.Unlock()
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return nil
	}
	t.over = true
	after := t.after
	t.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // half-way through nobody would know what became of it
	_, err := t.conn.ExecContext(ctx, how)
	if err != nil {
		t.discard()
		return err
	}
	if after != "" {
		if _, err := t.conn.ExecContext(ctx, after); err != nil {
			t.discard() // a named lock ends with it, a turn by itself
			return nil
		}
	}
	t.conn.Close()
	return nil
}

// discard closes the connection for good, with whatever is open on it.
func (t *transaction) discard() { sqlstore.Discard(t.conn) }

// SQL implements sqlstore.Transaction.
func (t *transaction) SQL() backend.Execer { return application{t} }

// application runs the application's statements.
type application struct{ t *transaction }

// start is called before each of them.
func (a application) start(query string) error {
	may, err := sqlstore.CheckEnding(query)
	if err != nil {
		return err
	}
	t := a.t
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

func (a application) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if a.fresh(query) {
		res, err := a.t.conn.ExecContext(ctx, query, args...)
		if err == nil {
			err = a.t.start(ctx)
		}
		return res, err
	}
	if err := a.start(query); err != nil {
		return nil, err
	}
	if err := a.renew(ctx); err != nil {
		return nil, err
	}
	res, err := a.t.conn.ExecContext(ctx, query, args...)
	a.t.saw(err)
	return res, err
}

func (a application) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if err := a.start(query); err != nil {
		return nil, err
	}
	rows, err := a.t.conn.QueryContext(ctx, query, args...)
	a.t.saw(err)
	return rows, err
}

func (a application) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if err := a.start(query); err != nil {
		return sqlstore.FailedRow(ctx, err)
	}
	return a.t.conn.QueryRowContext(ctx, query, args...)
}

func (a application) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	a.t.ending.RLock()
	defer a.t.ending.RUnlock()
	if err := a.start(query); err != nil {
		return nil, err
	}
	return a.t.conn.PrepareContext(ctx, query)
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

// inserted is the LAST_INSERT_ID of the last statement of a transaction.
func inserted(tx *sqlstore.Tx) int64 {
	switch s := tx.Session().(type) {
	case *transaction:
		return s.n
	case *joined:
		return s.n
	}
	return 0
}
