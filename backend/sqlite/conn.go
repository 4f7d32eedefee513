package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// pool is the database and the store's connections to it.
type pool struct {
	options Options
	many    many
	invalid error           // what is wrong with the options
	store   *sqlstore.Store // that it belongs to
	user    *sql.DB         // that New was given

	mu          sync.Mutex // guards what follows until opened
	opened      atomic.Bool
	closed      bool
	path        string
	params      url.Values
	synchronous string
	identity    identity
	read        *sql.DB // a pool of readers
	write       *sql.DB // of one connection

	readers sync.Map // of *sqlstore.Stmt: *sql.Stmt on read

	turn turn
	conn *sql.Conn // the connection of write; belongs to the writer
	stmt map[*sqlstore.Stmt]*sql.Stmt
	text map[string]*sql.Stmt // what users run again and again
}

// connect opens a pool. Tests count what goes through it.
var connect = func(name string) (*sql.DB, error) { return sql.Open("sqlite", name) }

// open opens the connections when they are first needed.
func (p *pool) open(ctx context.Context) error {
	if p.opened.Load() {
		return nil
	}
	if p.invalid != nil {
		return p.invalid
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return backend.ErrClosed
	}
	if p.opened.Load() {
		return nil
	}
	p.synchronous = strings.ToUpper(p.options.Synchronous)
	if p.user != nil {
		if err := p.learn(ctx); err != nil {
			return err
		}
	}
	if p.synchronous == "" {
		p.synchronous = "NORMAL"
	}
	write, err := connect(p.name("_txlock=immediate"))
	if err != nil {
		return err
	}
	write.SetMaxOpenConns(1)
	if err := p.look(ctx, write); err != nil {
		write.Close()
		return err
	}
	read, err := connect(p.name("_pragma=query_only(1)"))
	if err != nil {
		write.Close()
		return err
	}
	read.SetMaxOpenConns(8)
	read.SetMaxIdleConns(8)
	p.write, p.read = write, read
	p.opened.Store(true)
	return nil
}

// look looks at the file for the first time. A file without the schema may be another
// program's, or no database at all. It is left as it is until Migrate is called.
func (p *pool) look(ctx context.Context, db *sql.DB) error {
	var one int
	err := db.QueryRowContext(ctx, p.store.Q().SchemaExists.Text).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	case err == nil:
		err = p.wal(ctx, db)
	}
	p.identify()
	return err
}

// takeOver makes the file Parley's, before there is a schema in it.
func (p *pool) takeOver(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return err
	}
	var mode string
	if err := p.read.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err == nil && mode == "wal" {
		return nil // as after the first time, also while a transaction of the caller's is open
	}
	if err := p.turn.take(ctx); err != nil {
		return err
	}
	defer p.turn.leave()
	conn, err := p.connect(ctx)
	if err != nil {
		return err
	}
	return p.wal(ctx, conn)
}

// learn asks the user's handle for the file and for the settings that the work
// of handlers depends on.
func (p *pool) learn(ctx context.Context) error {
	conn, err := p.user.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var seq int
	var name string
	if err := conn.QueryRowContext(ctx, "PRAGMA database_list").Scan(&seq, &name, &p.path); err != nil {
		return err
	}
	if err := p.ours(ctx, conn); err != nil {
		return err
	}
	if p.path == "" {
		return errors.New(`parley: sqlite: a database in memory cannot be shared with the application's handle: use a file, or sqlite.Open("sqlite::memory:")`)
	}
	p.params = url.Values{}
	var level, keys int
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return err
	}
	if p.synchronous == "" && level < 4 {
		p.synchronous = [...]string{"OFF", "NORMAL", "FULL", "EXTRA"}[level]
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA foreign_keys").Scan(&keys); err != nil {
		return err
	}
	if keys == 1 {
		p.params.Add("_pragma", "foreign_keys(1)")
	}
	return nil
}

// copyOf tells one copy of SQLite from another one in the same process.
const copyOf = "SELECT sqlite_source_id() || ' ' || group_concat(compile_options) FROM pragma_compile_options"

// ours refuses a handle of another copy of SQLite than that of our connections, such as a copy linked by cgo. POSIX
// gives a process one lock on a file. When one copy closes a connection, it releases the locks of the other copy,
// and the file is damaged (https://www.sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the
// same application").
func (p *pool) ours(ctx context.Context, conn *sql.Conn) error {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer db.Close()
	var ours, users string
	if err := db.QueryRowContext(ctx, copyOf).Scan(&ours); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, copyOf).Scan(&users); err != nil {
		return err
	}
	if ours != users {
		return fmt.Errorf("parley: sqlite: the program's handle, of %T, has another copy of SQLite than Parley, and two copies "+
			"damage a file that both open: open it with modernc.org/sqlite", p.user.Driver())
	}
	return nil
}

// memory counts databases in memory, to tell them apart.
var memory atomic.Int64

// name is the driver's name for the database.
func (p *pool) name(more string) string {
	escape := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")
	params := url.Values{}
	for k, v := range p.params {
		params[k] = v
	}
	params.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", p.options.BusyTimeout.Milliseconds()))
	params.Add("_pragma", fmt.Sprintf("synchronous(%s)", p.synchronous))
	path := "file:" + escape.Replace(p.path)
	if p.path == ":memory:" {
		p.path = fmt.Sprintf("/parley-%d", memory.Add(1))
		p.params.Set("vfs", "memdb") // shared by the connections of this process
		params.Set("vfs", "memdb")
		path = "file:" + p.path
	}
	return path + "?" + params.Encode() + "&" + more
}

// wal puts the database into WAL mode. The mode stays with the file. Switching
// needs the file for oneself, and SQLite does not wait for that.
func (p *pool) wal(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) error {
	deadline := time.Now().Add(p.options.BusyTimeout)
	for {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode)
		if err == nil && mode != "wal" && mode != "memory" {
			err = db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		}
		if err == nil || classify(err) != backend.ErrSerialization || time.Now().After(deadline) {
			if classify(err) == backend.ErrReadOnly {
				err = nil // it can still be read
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if !p.opened.Swap(false) {
		return nil
	}
	p.turn.taken <- struct{}{} // transactions have been rolled back
	defer func() { <-p.turn.taken }()
	p.drop()
	p.readers.Range(func(_, v any) bool { v.(*sql.Stmt).Close(); return true })
	return errors.Join(p.read.Close(), p.write.Close())
}

// drop closes the writer's connection; the next writer opens another.
func (p *pool) drop() {
	for _, s := range p.stmt {
		s.Close()
	}
	p.stmt = nil
	p.dropTexts()
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}

// dropTexts closes the users' statements.
func (p *pool) dropTexts() {
	for _, s := range p.text {
		s.Close()
	}
	p.text = make(map[string]*sql.Stmt)
}

// connect returns the writer's connection. It is the writer's turn.
func (p *pool) connect(ctx context.Context) (*sql.Conn, error) {
	if p.conn == nil {
		conn, err := p.write.Conn(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		p.conn, p.stmt, p.text = conn, map[*sqlstore.Stmt]*sql.Stmt{}, map[string]*sql.Stmt{}
	}
	return p.conn, nil
}

// prepared returns a statement on the writer's connection.
func (p *pool) prepared(q *sqlstore.Stmt) (*sql.Stmt, error) {
	if s := p.stmt[q]; s != nil {
		return s, nil
	}
	s, err := p.conn.PrepareContext(context.Background(), q.Text)
	if err != nil {
		return nil, err
	}
	p.stmt[q] = s
	return s, nil
}

// maxTexts is how many statements of users stay prepared.
const maxTexts = 100

// preparedText returns a user's statement on the writer's connection: to parse and
// plan a small one takes longer than to run it.
func (p *pool) preparedText(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := p.text[query]; s != nil {
		return s, nil
	}
	s, err := p.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if len(p.text) >= maxTexts {
		p.dropTexts()
	}
	p.text[query] = s
	return s, nil
}

// The statements that begin and end transactions are prepared like others.
var (
	beginStmt    = &sqlstore.Stmt{Name: "begin", Text: "BEGIN IMMEDIATE"}
	commitStmt   = &sqlstore.Stmt{Name: "commit", Text: "COMMIT"}
	rollbackStmt = &sqlstore.Stmt{Name: "rollback", Text: "ROLLBACK"}
)

// run runs one of these on the writer's connection.
func (p *pool) run(ctx context.Context, q *sqlstore.Stmt) error {
	s, err := p.prepared(q)
	if err == nil {
		_, err = s.ExecContext(ctx)
	}
	return err
}

// inTx reports whether a transaction is open on a connection. There is no other way to ask than
// to begin one, which SQLite refuses inside of another with the code of a wrong statement. BEGIN
// takes no lock.
func (p *pool) inTx(ctx context.Context, conn backend.Execer) (bool, error) {
	_, err := conn.ExecContext(ctx, "BEGIN")
	var e *driver.Error
	if errors.As(err, &e) && e.Code() == lib.SQLITE_ERROR {
		return true, nil
	}
	if err == nil {
		_, err = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return false, err
}

// join works in the user's transaction, on the user's connection.
func (p *pool) join(ctx context.Context, tx backend.Execer) (sqlstore.Session, error) {
	if p.invalid != nil {
		return nil, p.invalid
	}
	return sqlstore.Plain{Execer: tx}, nil
}

// reader returns a session that reads what is committed.
func (p *pool) reader(ctx context.Context) (sqlstore.Session, func(), error) {
	if err := p.open(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.same(); err != nil {
		return nil, nil, err
	}
	return readers{p}, func() {}, nil
}

// readers is a session that reads on any of the readers' connections.
type readers struct{ p *pool }

func (r readers) prepared(ctx context.Context, q *sqlstore.Stmt) (*sql.Stmt, error) {
	if s, ok := r.p.readers.Load(q); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := r.p.read.PrepareContext(ctx, q.Text)
	if err != nil {
		return nil, err
	}
	if old, dup := r.p.readers.LoadOrStore(q, s); dup {
		s.Close()
		return old.(*sql.Stmt), nil
	}
	return s, nil
}

func (r readers) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (sql.Result, error) {
	return nil, errors.New("parley: sqlite: a reader does not write")
}

func (r readers) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (*sql.Rows, error) {
	s, err := r.prepared(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// lastTime is the last instant that clock returned.
var lastTime atomic.Int64

// clock is the process's, in microseconds; no two of its instants are the same.
func clock() int64 { return after(&lastTime, time.Now) }

// after is the time, later than the last one.
func after(lastTime *atomic.Int64, now func() time.Time) int64 {
	for {
		last := lastTime.Load()
		t := max(last+1, now().UnixMicro())
		if lastTime.CompareAndSwap(last, t) {
			return t
		}
	}
}
