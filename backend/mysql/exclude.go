package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// exclude makes migrations take turns, by a lock that belongs to the connection and is released
// when the transaction ends. On a cluster it uses a row instead. There only one node would know a
// lock, and Percona XtraDB Cluster refuses GET_LOCK in its strict mode, which is the default.
func (p *pool) exclude(ctx context.Context, tx backend.Execer) error {
	a, ok := tx.(application)
	if !ok {
		return errors.New("parley: mysql: a migration needs a separate transaction")
	}
	if p.cluster() {
		a.t.reset(ctx) // each statement of a migration commits by itself
		return a.takeTurn(ctx, p.prefix)
	}
	var database string
	if err := tx.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return err
	}
	// A lock's name is the server's, has at most 64 characters, and is no place for
	// quotes.
	name := fmt.Sprintf("parley migrate %x", []byte(database))
	name = name[:min(len(name), 64)]
	for {
		var got sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT GET_LOCK('"+name+"', 1)").Scan(&got); err != nil {
			return err
		}
		if got.Int64 == 1 {
			a.t.after, a.t.free, a.t.applied = "SELECT RELEASE_LOCK('"+name+"')", true, false
			if p.vitess() { // there no statement ends the transaction, which a migration outlasts
				_, err := a.t.conn.ExecContext(ctx, "COMMIT")
				return err
			}
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// turn is how long others wait for a migration that has gone silent: its program died,
// or it is at a single statement for longer.
const turn = 2 * time.Minute

// takeTurn waits until no other migration has its turn, and takes it. Every statement
// of a migration commits, so it is a lease and not a locked row. The table is made on
// clusters only.
func (a application) takeTurn(ctx context.Context, prefix string) error {
	table, me := prefix+"turn", backend.NewID()
	steps := []string{
		"CREATE TABLE IF NOT EXISTS " + table + ` (
			id    TINYINT PRIMARY KEY,
			owner BINARY(16) NOT NULL,
			until BIGINT NOT NULL) ENGINE = InnoDB`,
		"INSERT IGNORE INTO " + table + " (id, owner, until) VALUES (1, x'00', 0)",
		fmt.Sprintf(`
			UPDATE %s SET owner = x'%x', until = %s + %d
			 WHERE id = 1 AND (until < %[3]s OR owner = x'%[2]x')`, table, me[:], now, turn.Microseconds()),
	}
	for {
		done, err := a.changed(ctx, steps)
		if done {
			a.t.turn, a.t.free, a.t.applied = steps[2], true, false
			a.t.after = fmt.Sprintf("UPDATE %s SET until = 0 WHERE id = 1 AND owner = x'%x'", table, me[:])
			return nil
		}
		if err != nil && a.t.p.classify(err) != backend.ErrSerialization { // another node was first
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// changed runs statements and reports whether the last one has changed a row.
func (a application) changed(ctx context.Context, statements []string) (bool, error) {
	var n int64
	for _, statement := range statements {
		res, err := a.t.conn.ExecContext(ctx, statement)
		if err == nil {
			n, err = res.RowsAffected()
		}
		if err != nil {
			return false, err
		}
	}
	return n == 1, nil
}

// renew keeps the turn of a migration for its next statement.
func (a application) renew(ctx context.Context) error {
	if a.t.turn == "" {
		return nil
	}
	if done, err := a.changed(ctx, []string{a.t.turn}); err != nil || done {
		return err
	}
	return fmt.Errorf("parley: mysql: another program has taken over the migration: %w", backend.ErrSerialization)
}
