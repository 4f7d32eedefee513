package sqlstore

import (
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
)

// Store keeps conversations in a database.
type Store struct {
	d      *Dialect
	q      Statements
	closed atomic.Bool

	leaving atomic.Bool // idle connections are about to be closed

	versions versions

	// busy are queues where the last claim found something, so that the next one
	// need not look first whether it is worth a transaction.
	busy sync.Map

	id       backend.ID    // of the handle, in slow walks
	turns    atomic.Uint64 // of claims of several schedules
	released bell          // rings when an application lock was released

	mu      sync.Mutex
	overdue [backend.JobCount]*overdue   // walks through what is due that go on
	stall   [dueGroups + 1]time.Duration // how long to leave what is due and locked
	open    map[*Tx]struct{}             // transactions that Close has to end
	lines   map[*session]struct{}        // native sessions, whose lines it has to close

	limit atomic.Pointer[limit] // nil: not yet known

	kept atomic.Int32 // connections of the pool that the store has for itself

	log *slog.Logger
}

var _ backend.Backend = (*Store)(nil)

// Capabilities implements backend.Backend.
func (s *Store) Capabilities() backend.Capabilities {
	return backend.Capabilities{Together: s.d.Together, Invalid: s.d.Invalid, Joiner: s, Migrator: s, Printer: s, Granter: s, Logging: s, Classify: s.Classify}
}

// LogTo implements backend.Logging.
func (s *Store) LogTo(l *slog.Logger) { s.log = l }

// New makes a store of a dialect.
func New(d *Dialect) (*Store, error) {
	s := &Store{d: d, id: backend.NewID(), open: map[*Tx]struct{}{}, lines: map[*session]struct{}{}, log: slog.New(slog.DiscardHandler)}
	err := s.d.compile(&s.q)
	return s, err
}

// SetMigrations makes the store that of another program, which knows other files of
// the schema: an older one knows fewer, a newer one more. It is for tests of
// programs side by side, before the store's first use.
func (s *Store) SetMigrations(files func(known []string) []string) error {
	s.d.Migrations = files(s.d.Migrations)
	return s.d.compile(&s.q)
}

// Q returns the statements as the engine wants them.
func (s *Store) Q() *Statements { return &s.q }

// Info implements backend.Backend.
func (s *Store) Info(ctx context.Context) (backend.Info, error) {
	if s.closed.Load() {
		return backend.Info{}, backend.ErrClosed
	}
	info, err := s.d.Info(ctx)
	if err != nil {
		return info, s.fail(ctx, err)
	}
	if err := s.warnTimeouts(ctx, &info); err != nil {
		return info, err
	}
	return info, s.inspect(ctx, &info)
}

// Begin implements backend.Backend.
func (s *Store) Begin(ctx context.Context) (backend.Tx, error) {
	if err := s.usable(ctx); err != nil {
		return nil, s.NotBegun(ctx, err)
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	return s.wrap(tx), nil
}

// usable tells whether there is something to be done in the store at all.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return backend.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.admit(ctx)
}

func (s *Store) wrap(tx *Tx) backend.Tx {
	if s.d.Wrap == nil {
		return tx
	}
	return s.d.Wrap(tx)
}

func (s *Store) begin(ctx context.Context) (*Tx, error) {
	if s.closed.Load() {
		return nil, backend.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tr, err := patiently(ctx, s, s.d.Begin)
	if err != nil {
		return nil, s.NotBegun(ctx, err)
	}
	tx := &Tx{run: run{s, tr, new(verb)}, tr: tr, noWait: backend.IsNoWait(ctx)}
	s.mu.Lock()
	s.open[tx] = struct{}{}
	s.mu.Unlock()
	if s.closed.Load() { // meanwhile, and Close may have looked before this one was there
		tx.abandon()
		return nil, backend.ErrClosed
	}
	return tx, nil
}

// Join implements backend.Joiner.
func (s *Store) Join(ctx context.Context, tx backend.Execer) (backend.Tx, error) {
	if s.closed.Load() {
		return nil, backend.ErrClosed
	}
	if err := s.inTx(ctx, tx); err != nil {
		return nil, s.fail(ctx, err)
	}
	sess, err := s.d.Join(ctx, tx)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return s.wrap(&Tx{run: run{s, sess, new(verb)}, user: tx}), nil
}

// atomically does work in a separate transaction.
func (s *Store) atomically(ctx context.Context, work func(*Tx) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.whole(ctx, work)
}

// whole is atomically whatever the schema.
func (s *Store) whole(ctx context.Context, work func(*Tx) error) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// reading does work that only reads what is committed, and what a transaction has written if
// it may be done there.
func (s *Store) reading(ctx context.Context, work func(run) error) error {
	if tx, ok := backend.ReadsIn(ctx).(*Tx); ok && tx.s == s {
		return work(tx.run)
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.outside(ctx, work)
}

// Read calls scan for each row of a query that reads what is committed.
func (s *Store) Read(ctx context.Context, scan func(*sql.Rows) error, q *Stmt, args ...any) error {
	return s.reading(ctx, func(r run) error { return r.Rows(ctx, scan, q, args...) })
}

// outside is reading whatever the schema.
func (s *Store) outside(ctx context.Context, work func(run) error) error {
	if s.closed.Load() {
		return backend.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	type reader struct {
		Session
		release func()
	}
	r, err := patiently(ctx, s, func(ctx context.Context) (r reader, err error) {
		r.Session, r.release, err = s.d.Read(ctx)
		return r, err
	})
	if err != nil {
		return s.NotBegun(ctx, err)
	}
	defer r.release()
	return work(run{s: s, sess: r.Session})
}

// Close implements backend.Backend.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.mu.Lock()
	open := make([]*Tx, 0, len(s.open))
	for tx := range s.open {
		open = append(open, tx)
	}
	lines := slices.Collect(maps.Keys(s.lines))
	s.mu.Unlock()
	var over sync.WaitGroup // at once: each may have to wait for a server that does not answer
	for _, tx := range open {
		over.Go(tx.abandon)
	}
	for _, x := range lines {
		over.Go(x.hangUp)
	}
	over.Wait()
	if s.d.Close == nil {
		return nil
	}
	return s.d.Close()
}
