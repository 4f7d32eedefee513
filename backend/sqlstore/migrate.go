package sqlstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// A file of the schema is one step of it. Most steps only add: they expand the
// schema, and the programs before them work on. A line says what is special of others.
//
//	-- step: contract
//
// The step takes away what the programs of version n-2 and older use, n being its
// own number. Those are made to stop first, and what they have in hand is waited for.
//
//	-- step: online
//
// The step runs outside of transactions where the engine wants that, to lock no
// program out while it works. It may be run again from its start.
//
// Every file can be run again on an engine where a change of the schema commits.
type step struct {
	n                int // the schema's version after it
	text             string
	contract, online bool
}

var stepLine = regexp.MustCompile(`(?m)^-- step: (contract|online)$`)

// steps returns those after a version.
func (d *Dialect) steps(from int) (list []step) {
	for i, file := range d.Migrations {
		if i < from {
			continue
		}
		x := step{n: i + 1, text: d.Rewrite(file)}
		for _, m := range stepLine.FindAllStringSubmatch(file, -1) {
			x.contract, x.online = x.contract || m[1] == "contract", x.online || m[1] == "online"
		}
		list = append(list, x)
	}
	return list
}

// first is the step as part of a first installation, in which no one is
// to be locked out and all is one transaction.
func (x step) first() step {
	x.text = strings.ReplaceAll(x.text, " CONCURRENTLY ", " ")
	return x
}

// needs is the oldest program that a contract step leaves at work.
func (x step) needs() int { return x.n - 1 }

// Migrate implements backend.Backend.
func (s *Store) Migrate(ctx context.Context) error {
	return s.MigrateWith(ctx, backend.MigrateOptions{})
}

// MigrateWith implements backend.Migrator.
func (s *Store) MigrateWith(ctx context.Context, o backend.MigrateOptions) error {
	if o.Wait <= 0 {
		o.Wait = time.Minute
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	m := &migration{s: s, o: o, until: time.Now().Add(o.Wait)}
	done := s.check(ctx) == nil // as most calls find, which need not take turns
	if done {
		if err := m.rebuild(ctx); err != nil {
			return err
		}
	}
	for {
		var err error
		if !done {
			done, err = m.next(ctx)
			done = done && err == nil
		}
		if err == nil && done {
			err = m.finish(ctx)
		}
		if errors.Is(err, backend.ErrSerialization) && time.Now().Before(m.until) {
			if err := pause(ctx); err != nil {
				return err
			}
			m.report("others are in the way: trying again") // who were let through meanwhile
			continue
		}
		if err != nil || done {
			return err
		}
	}
}

// migration is a migration in progress.
type migration struct {
	s     *Store
	o     backend.MigrateOptions
	until time.Time
	clear int // the contract step before which no transaction is left to wait for
}

func (m *migration) report(format string, args ...any) { m.o.Report(fmt.Sprintf(format, args...)) }

// next takes the next step, or all of them if no program uses the store yet.
func (m *migration) next(ctx context.Context) (done bool, err error) {
	var wait, online step // that has been announced; that is done beside
	err = m.alone(ctx, func(tx *Tx) error {
		st, err := tx.state(ctx)
		if err != nil {
			return err
		}
		if st.schema < 0 || st.schema >= m.s.program() {
			done = true
			return m.s.compare(st)
		}
		list := m.s.d.steps(st.schema)
		fresh := st.schema == 0 // no program uses it yet
		switch first := list[0]; {
		case first.contract && !fresh && m.clear != first.n:
			wait = first
			return m.announce(ctx, tx, st, first)
		case first.online && !fresh && m.s.d.Online != nil:
			online = first
			return nil
		}
		for i, x := range list {
			if i > 0 && !fresh {
				break // together they would keep the locks of several tables
			}
			m.report("schema %d", x.n)
			if fresh {
				x = x.first()
			}
			if err := m.s.script(ctx, tx, x.text); err != nil {
				return err
			}
		}
		if done = fresh; fresh {
			return m.s.script(ctx, tx, m.s.d.anew())
		}
		return nil
	})
	switch {
	case err != nil || done:
		return done, err
	case online.n > 0:
		return false, m.online(ctx, online)
	case wait.n == 0:
		return false, nil
	}
	m.report("schema %d waits for older transactions and leases", wait.n)
	if err := m.await(ctx); err != nil {
		return false, fmt.Errorf("schema version %d: %w", wait.n, err)
	}
	m.clear = wait.n
	return false, nil
}

func (m *migration) online(ctx context.Context, x step) error {
	return m.s.fail(ctx, m.s.d.Online(ctx, x.text, func(ctx context.Context) (todo bool, err error) {
		err = m.s.outside(ctx, func(r run) error {
			st, err := r.state(ctx)
			todo = st.schema == x.n-1
			return err
		})
		if todo {
			m.report("schema %d, while others work", x.n)
		}
		return todo, err
	}))
}

// alone does work in a transaction while no other process migrates. No lock wait in it is long
// enough to delay transactions behind it noticeably.
func (m *migration) alone(ctx context.Context, work func(*Tx) error) error {
	return m.s.whole(ctx, func(tx *Tx) error {
		if m.s.d.Hasten != nil {
			undo, err := m.s.d.Hasten(ctx, tx.execer())
			if err != nil {
				return m.s.fail(ctx, err)
			}
			defer undo()
		}
		if err := m.s.d.Exclude(ctx, tx.execer()); err != nil {
			return m.s.fail(ctx, err)
		}
		return work(tx)
	})
}

// announce stops the programs that a step would break at their next send or claim: it makes the
// catalog that they know too old.
func (m *migration) announce(ctx context.Context, tx *Tx, st state, x step) error {
	if st.minProgram >= x.needs() {
		return nil
	}
	m.report("schema %d needs programs of version %d: older ones are told to stop", x.n, x.needs())
	_, err := tx.Exec(ctx, m.s.q.SchemaAnnounce, x.needs())
	return err
}

// finish stops programs older than this one, waits for what they have in hand, and then records
// that none of them is left.
func (m *migration) finish(ctx context.Context) error {
	if !m.o.Finish {
		return nil
	}
	var st state
	var oldest int
	err := m.s.outside(ctx, func(r run) (err error) {
		if st, err = r.meta(ctx); err == nil {
			_, err = r.Row(ctx, []any{&oldest}, r.s.q.SchemaOldest)
		}
		return err
	})
	program := m.s.program()
	if err != nil || oldest >= program {
		return err
	}
	if st.minProgram < program {
		m.report("programs older than version %d are told to stop", program)
		if err := m.tell(ctx, m.s.q.SchemaAnnounce); err != nil {
			return err
		}
	}
	m.report("waiting for their transactions and leases")
	if err := m.await(ctx); err != nil {
		return err
	}
	err = m.tell(ctx, m.s.q.SchemaFinish)
	if err == nil {
		m.report("no program older than version %d is left", program)
	}
	return err
}

// tell writes this program's version, while no other process migrates.
func (m *migration) tell(ctx context.Context, q *Stmt) error {
	return m.alone(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, q, m.s.program())
		return err
	})
}

// await waits for what older programs may have in hand. It waits first for their transactions, in
// which a lease may begin. Then it waits for all leases that began before the last of these
// transactions ended.
func (m *migration) await(ctx context.Context) error {
	limited, cancel := context.WithDeadline(ctx, m.until)
	defer cancel()
	err := m.quiet(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return errors.Join(backend.ErrMigrationWaits, err)
	}
	return err
}

func (m *migration) quiet(ctx context.Context) error {
	if m.s.d.Drain != nil {
		if err := m.s.d.Drain(ctx); err != nil {
			return m.s.fail(ctx, err)
		}
	}
	var began int64
	if err := m.s.outside(ctx, func(r run) (err error) { began, err = r.clock(ctx); return err }); err != nil {
		return err
	}
	for {
		var owner []byte
		var left int64
		found := false
		err := m.s.outside(ctx, func(r run) (err error) {
			found, err = r.Row(ctx, []any{&owner, &left}, r.s.q.SchemaLeases, began, began, began)
			return err
		})
		if err != nil || !found {
			return err
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s has a lease for another %v: %w", owner, time.Duration(left)*time.Microsecond, err)
		}
	}
}

// pause is between two looks.
func pause(ctx context.Context) error {
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// clock reads the store's clock.
func (r run) clock(ctx context.Context) (now int64, err error) {
	if r.s.q.SchemaClock.Empty() {
		return r.s.d.Clock(), nil
	}
	_, err = r.Row(ctx, []any{&now}, r.s.q.SchemaClock)
	return now, err
}

// rebuild rebuilds indexes whose creation was interrupted, where that leaves ones that
// cannot be used.
func (m *migration) rebuild(ctx context.Context) error {
	if m.s.d.Rebuild == nil {
		return nil
	}
	broken, err := m.broken(ctx)
	for _, name := range broken {
		m.report("index %s is not valid: it is made anew", name)
		err := m.s.fail(ctx, m.s.d.Rebuild(ctx, name))
		if errors.Is(err, backend.ErrSerialization) {
			return nil // another process is at it
		}
		if err != nil {
			return err
		}
	}
	return err
}

func (m *migration) broken(ctx context.Context) (names []string, err error) {
	err = m.s.outside(ctx, func(r run) error {
		indexes, err := r.indexes(ctx)
		for _, o := range r.s.d.objects() {
			if usable, there := indexes[o]; o.index != "" && there && !usable {
				names = append(names, o.index)
			}
		}
		return err
	})
	return names, err
}

// MigrationSQL implements backend.Printer.
func (s *Store) MigrationSQL(from int) string {
	var b strings.Builder
	b.WriteString(s.d.PrintFirst)
	for i, x := range s.d.steps(from) {
		if i > 0 {
			b.WriteByte('\n')
		}
		if x.contract && from > 0 {
			b.WriteString(s.d.announcement(x))
		}
		if from == 0 {
			x = x.first()
		}
		b.WriteString(x.text)
	}
	if from == 0 {
		b.WriteString("\n" + s.d.anew())
	}
	return b.String()
}

// anew is what follows the steps of a first installation: no program was there that would
// lose headers, and none may come.
func (d *Dialect) anew() string {
	if len(d.Migrations) < withHeaders {
		return ""
	}
	return d.alone(fmt.Sprintf("UPDATE parley_meta SET min_program = %d, oldest_program = %[1]d WHERE id = 1", withHeaders)) + ";\n"
}

// alone separates a statement that cannot be part of a batch.
func (d *Dialect) alone(statement string) string {
	statement = d.Rewrite(statement)
	if d.PrintAlone != "" {
		statement = fmt.Sprintf(d.PrintAlone, statement)
	}
	return statement
}

// announcement is what comes before a contract step that is run by hand.
func (d *Dialect) announcement(x step) string {
	update := d.alone(fmt.Sprintf("UPDATE parley_meta SET min_program = %d, catalog_version = catalog_version + 1 WHERE id = 1", x.needs()))
	return fmt.Sprintf("-- What follows needs programs of version %d. First have older ones stop, and commit:\n%s;\n"+
		"-- Then wait until their transactions and leases are over.\n", x.needs(), update)
}

// removal drops the tables and views that every engine has.
//
//go:embed uninstall.sql
var removal string

// Uninstall implements backend.Backend.
func (s *Store) Uninstall(ctx context.Context) error {
	defer s.versions.forget()
	return s.whole(ctx, func(tx *Tx) error {
		if err := s.d.Exclude(ctx, tx.execer()); err != nil {
			return s.fail(ctx, err)
		}
		for _, file := range []string{s.d.RemoveFirst, removal, s.d.RemoveLast} {
			if err := s.script(ctx, tx, s.d.Rewrite(file)); err != nil {
				return err
			}
		}
		return nil
	})
}

// script runs a file of the schema.
func (s *Store) script(ctx context.Context, tx *Tx, text string) (err error) {
	switch {
	case text == "":
	case s.d.Script != nil:
		err = s.d.Script(ctx, tx.execer(), text)
	default:
		_, err = tx.execer().ExecContext(ctx, text)
	}
	return s.fail(ctx, err)
}
