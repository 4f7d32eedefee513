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

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// file is the database and the store's connections to it.
type file struct {
	options Options
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
func (f *file) open(ctx context.Context) error {
	if f.opened.Load() {
		return nil
	}
	if f.invalid != nil {
		return f.invalid
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return backend.ErrClosed
	}
	if f.opened.Load() {
		return nil
	}
	f.synchronous = strings.ToUpper(f.options.Synchronous)
	if f.user != nil {
		if err := f.learn(ctx); err != nil {
			return err
		}
	}
	if f.synchronous == "" {
		f.synchronous = "NORMAL"
	}
	write, err := connect(f.name("_txlock=immediate"))
	if err != nil {
		return err
	}
	write.SetMaxOpenConns(1)
	if err := f.look(ctx, write); err != nil {
		write.Close()
		return err
	}
	read, err := connect(f.name("_pragma=query_only(1)"))
	if err != nil {
		write.Close()
		return err
	}
	read.SetMaxOpenConns(8)
	read.SetMaxIdleConns(8)
	f.write, f.read = write, read
	f.opened.Store(true)
	return nil
}

// look looks at the file for the first time. One that has no schema may be another
// program's, or no database's at all, and is left as it is until Migrate is called.
func (f *file) look(ctx context.Context, db *sql.DB) error {
	var one int
	err := db.QueryRowContext(ctx, f.store.Q().SchemaExists.Text).Scan(&one)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	case err == nil:
		err = f.wal(ctx, db)
	}
	f.identify()
	return err
}

// takeOver makes the file Parley's, before there is a schema in it.
func (f *file) takeOver(ctx context.Context) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	var mode string
	if err := f.read.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err == nil && mode == "wal" {
		return nil // as after the first time, also while a transaction of the caller's is open
	}
	if err := f.turn.take(ctx); err != nil {
		return err
	}
	defer f.turn.leave()
	conn, err := f.connect(ctx)
	if err != nil {
		return err
	}
	return f.wal(ctx, conn)
}

// learn asks the user's handle for the file and for the settings that the work
// of handlers depends on.
func (f *file) learn(ctx context.Context) error {
	conn, err := f.user.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var seq int
	var name string
	if err := conn.QueryRowContext(ctx, "PRAGMA database_list").Scan(&seq, &name, &f.path); err != nil {
		return err
	}
	if f.path == "" {
		return errors.New(`parley: sqlite: a database in memory cannot be shared with the application's handle: use a file, or sqlite.Open("sqlite::memory:")`)
	}
	f.params = url.Values{}
	var level, keys int
	if err := conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return err
	}
	if f.synchronous == "" && level < 4 {
		f.synchronous = [...]string{"OFF", "NORMAL", "FULL", "EXTRA"}[level]
	}
	if err := conn.QueryRowContext(ctx, "PRAGMA foreign_keys").Scan(&keys); err != nil {
		return err
	}
	if keys == 1 {
		f.params.Add("_pragma", "foreign_keys(1)")
	}
	return nil
}

// memory counts databases in memory, to tell them apart.
var memory atomic.Int64

// name is the driver's name for the database.
func (f *file) name(more string) string {
	escape := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23")
	params := url.Values{}
	for k, v := range f.params {
		params[k] = v
	}
	params.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", f.options.BusyTimeout.Milliseconds()))
	params.Add("_pragma", fmt.Sprintf("synchronous(%s)", f.synchronous))
	path := "file:" + escape.Replace(f.path)
	if f.path == ":memory:" {
		f.path = fmt.Sprintf("/parley-%d", memory.Add(1))
		f.params.Set("vfs", "memdb") // shared by the connections of this process
		params.Set("vfs", "memdb")
		path = "file:" + f.path
	}
	return path + "?" + params.Encode() + "&" + more
}

// wal puts the database into WAL mode. The mode stays with the file. Switching
// needs the file for oneself, and SQLite does not wait for that.
func (f *file) wal(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) error {
	deadline := time.Now().Add(f.options.BusyTimeout)
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

func (f *file) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if !f.opened.Swap(false) {
		return nil
	}
	f.turn.taken <- struct{}{} // transactions have been rolled back
	defer func() { <-f.turn.taken }()
	f.drop()
	f.readers.Range(func(_, v any) bool { v.(*sql.Stmt).Close(); return true })
	return errors.Join(f.read.Close(), f.write.Close())
}

// drop closes the writer's connection; the next writer opens another.
func (f *file) drop() {
	for _, s := range f.stmt {
		s.Close()
	}
	f.stmt = nil
	f.dropTexts()
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

// dropTexts closes the users' statements.
func (f *file) dropTexts() {
	for _, s := range f.text {
		s.Close()
	}
	f.text = make(map[string]*sql.Stmt)
}

// connect returns the writer's connection. It is the writer's turn.
func (f *file) connect(ctx context.Context) (*sql.Conn, error) {
	if f.conn == nil {
		conn, err := f.write.Conn(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		f.conn, f.stmt, f.text = conn, map[*sqlstore.Stmt]*sql.Stmt{}, map[string]*sql.Stmt{}
	}
	return f.conn, nil
}

// prepared returns a statement on the writer's connection.
func (f *file) prepared(q *sqlstore.Stmt) (*sql.Stmt, error) {
	if s := f.stmt[q]; s != nil {
		return s, nil
	}
	s, err := f.conn.PrepareContext(context.Background(), q.Text)
	if err != nil {
		return nil, err
	}
	f.stmt[q] = s
	return s, nil
}

// maxTexts is how many statements of users stay prepared.
const maxTexts = 100

// preparedText returns a user's statement on the writer's connection: to parse and
// plan a small one takes longer than to run it.
func (f *file) preparedText(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := f.text[query]; s != nil {
		return s, nil
	}
	s, err := f.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if len(f.text) >= maxTexts {
		f.dropTexts()
	}
	f.text[query] = s
	return s, nil
}

// The statements that begin and end transactions are prepared like others.
var (
	beginStmt    = &sqlstore.Stmt{Name: "begin", Text: "BEGIN IMMEDIATE"}
	commitStmt   = &sqlstore.Stmt{Name: "commit", Text: "COMMIT"}
	rollbackStmt = &sqlstore.Stmt{Name: "rollback", Text: "ROLLBACK"}
)

// run runs one of these on the writer's connection.
func (f *file) run(ctx context.Context, q *sqlstore.Stmt) error {
	s, err := f.prepared(q)
	if err == nil {
		_, err = s.ExecContext(ctx)
	}
	return err
}

// begin returns a transaction that takes its turn when it first does anything.
func (f *file) begin(ctx context.Context) (sqlstore.Transaction, error) {
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	return &transaction{f: f, born: ctx}, nil
}

// transaction is the one that may write. Its statements are short, and are not
// given contexts that can end: "If the interrupted SQL operation is an INSERT,
// UPDATE, or DELETE that is inside an explicit transaction, then the entire
// transaction will be rolled back automatically" (sqlite3_interrupt).
type transaction struct {
	f     *file
	born  context.Context // that it was begun with, for what it is inside of
	state atomic.Int32
	mu    sync.Mutex // held by each statement, while its rows are read as well, and by the end, which may come from Close
	// watched are contexts of the user's statements, which can be interrupted.
	watched []context.Context
	suspect bool // SQLite may have rolled back by itself
	ending  bool // or a statement of the user's may have ended it
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
	if t.state.Load() == over {
		t.mu.Unlock()
		return sql.ErrTxDone
	}
	return nil
}

// check returns an error if SQLite has rolled back by itself. To go on would
// make each statement a transaction of its own.
func (t *transaction) check() error {
	for _, ctx := range t.watched {
		t.suspect = t.suspect || ctx.Err() != nil
	}
	if !t.suspect {
		return nil
	}
	// There is no other way to ask than to try.
	if _, err := t.f.conn.ExecContext(context.Background(), "BEGIN"); err != nil {
		t.suspect, t.ending, t.watched = false, false, nil
		return nil
	}
	t.f.conn.ExecContext(context.Background(), "ROLLBACK")
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
	s, err := t.f.prepared(q)
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
	s, err := t.f.prepared(q)
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
	s, err := t.f.preparedText(context.Background(), text)
	if err != nil {
		return err
	}
	_, err = s.ExecContext(context.Background())
	t.suspect = t.suspect || err != nil && endsTransaction(err)
	return err
}

// Rest implements sqlstore.Resting. To close a statement of which rows are being
// read would be to free memory that the driver uses.
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
func (t *transaction) Rollback(context.Context) error { return t.end(rollbackStmt) }

func (t *transaction) end(how *sqlstore.Stmt) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Swap(over) != begun {
		return nil
	}
	err := t.f.run(context.Background(), how)
	if err == nil && how == commitStmt {
		err = t.f.same() // else what was committed is in a file that has no name
	} else if err != nil {
		// Whatever went wrong, the next writer must not find this transaction.
		if again := t.f.run(context.Background(), rollbackStmt); how == rollbackStmt && again != nil {
			err = nil // SQLite had rolled back by itself
		}
	}
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
		return u.t.f.store.Classify(err)
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
	s, err := u.t.f.preparedText(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := s.ExecContext(ctx, args...)
	u.t.suspect = u.t.suspect || err != nil && endsTransaction(err)
	return res, err
}

func (u userSQL) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := u.enter(ctx, query); err != nil {
		return nil, err
	}
	defer u.t.mu.Unlock()
	rows, err := u.t.f.conn.QueryContext(ctx, query, args...)
	u.t.suspect = u.t.suspect || err != nil && endsTransaction(err)
	return rows, err
}

func (u userSQL) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := u.enter(ctx, query); err != nil {
		return sqlstore.FailedRow(ctx, err)
	}
	defer u.t.mu.Unlock()
	return u.t.f.conn.QueryRowContext(ctx, query, args...)
}

func (u userSQL) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := u.enter(ctx, query); err != nil {
		return nil, err
	}
	defer u.t.mu.Unlock()
	return u.t.f.conn.PrepareContext(ctx, query)
}

// join works in the user's transaction, on the user's connection.
func (f *file) join(ctx context.Context, tx backend.Execer) (sqlstore.Session, error) {
	if f.invalid != nil {
		return nil, f.invalid
	}
	return sqlstore.Plain{Execer: tx}, nil
}

// reader returns a session that reads what is committed.
func (f *file) reader(ctx context.Context) (sqlstore.Session, func(), error) {
	if err := f.open(ctx); err != nil {
		return nil, nil, err
	}
	if err := f.same(); err != nil {
		return nil, nil, err
	}
	return pool{f}, func() {}, nil
}

// pool reads on any of the readers' connections.
type pool struct{ f *file }

func (p pool) prepared(ctx context.Context, q *sqlstore.Stmt) (*sql.Stmt, error) {
	if s, ok := p.f.readers.Load(q); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := p.f.read.PrepareContext(ctx, q.Text)
	if err != nil {
		return nil, err
	}
	if old, dup := p.f.readers.LoadOrStore(q, s); dup {
		s.Close()
		return old.(*sql.Stmt), nil
	}
	return s, nil
}

func (p pool) Exec(ctx context.Context, q *sqlstore.Stmt, args []any) (sql.Result, error) {
	return nil, errors.New("parley: sqlite: a reader does not write")
}

func (p pool) Query(ctx context.Context, q *sqlstore.Stmt, args []any) (*sql.Rows, error) {
	s, err := p.prepared(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// lastTime is the last instant that clock returned.
var lastTime atomic.Int64

// clock is the process's, in microseconds; no two of its instants are the same.
func clock() int64 {
	for {
		last := lastTime.Load()
		now := max(last+1, time.Now().UnixMicro())
		if lastTime.CompareAndSwap(last, now) {
			return now
		}
	}
}
