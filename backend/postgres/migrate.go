package postgres

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// hasten limits the lock waits of a migration's transaction. The transaction itself may be idle for
// long while another connection makes an index.
func (p *pool) hasten(ctx context.Context, tx backend.Execer) (undo func(), err error) {
	_, err = tx.ExecContext(ctx, `
		SELECT set_config(name, CASE name WHEN 'lock_timeout' THEN '2s' ELSE '0' END, true)
		  FROM pg_settings
		 WHERE name IN ('lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`)
	return func() {}, err
}

// drain waits for the transactions that have read the table meta, which all do that
// send or claim. It looks at their locks, as a lock of its own would stop everybody
// who comes after it: "virtualtransaction" is the "virtual ID of the transaction that
// is holding or awaiting this lock" (pg_locks).
func (p *pool) drain(ctx context.Context) error {
	var older map[string]bool
	for {
		now, err := p.users(ctx)
		if err != nil {
			return err
		}
		if older == nil {
			older = now
		}
		left := false
		for id := range older {
			left = left || now[id]
		}
		if !left {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// users returns the transactions that have the table meta in use.
func (p *pool) users(ctx context.Context) (map[string]bool, error) {
	rows, err := p.db.QueryContext(ctx, `
		SELECT DISTINCT virtualtransaction
		  FROM pg_locks
		 WHERE locktype = 'relation' AND granted
		   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
		   AND relation = to_regclass('`+p.qualified("meta")+`')
		   AND pid IS DISTINCT FROM pg_backend_pid()`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := make(map[string]bool)
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids[id] = true
	}
	return ids, rows.Err()
}

// qualified is the name of something of the schema's. Its parts have been validated.
func (p *pool) qualified(name string) string {
	if p.options.Schema == "" {
		return p.options.Prefix + name
	}
	return p.options.Schema + "." + p.options.Prefix + name
}

var concurrently = regexp.MustCompile(`(?s)^CREATE INDEX CONCURRENTLY (\w+) ON (.*)$`)

// online runs the statements of a file, each of which ends at the end of a line, outside of
// transactions. "If a problem arises while scanning the table, such as a deadlock …, the CREATE
// INDEX command will fail but leave behind an invalid index". So an existing index is rebuilt
// unless it is valid.
func (p *pool) online(ctx context.Context, script string, still func(context.Context) (bool, error)) error {
	return p.beside(ctx, func(conn *sql.Conn) error {
		if todo, err := still(ctx); err != nil || !todo {
			return err
		}
		whole := ""
		for part := range strings.SplitSeq(comments.ReplaceAllString(script, ""), ";\n") {
			whole += part
			if strings.Count(whole, "$$")%2 == 1 { // a function, whose own statements end like this
				whole += ";\n"
				continue
			}
			statement := strings.TrimSpace(whole)
			if whole = ""; statement == "" {
				continue
			}
			statement = strings.ReplaceAll(statement, p.options.Prefix, p.qualified(""))
			name := p.qualified("")
			if m := concurrently.FindStringSubmatch(strings.Replace(statement, name, p.options.Prefix, 1)); m != nil {
				if err := p.index(ctx, conn, m[1], m[0]); err != nil {
					return err
				}
				continue
			}
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

var comments = regexp.MustCompile(`(?m)^--.*$`)

// index makes an index, or rebuilds it if it cannot be used.
func (p *pool) index(ctx context.Context, conn *sql.Conn, name, create string) error {
	var valid bool
	err := conn.QueryRowContext(ctx, `
		SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('`+p.inSchema(name)+`')`).Scan(&valid)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		_, err = conn.ExecContext(ctx, create)
	case err == nil && !valid:
		err = p.reindex(ctx, conn, name)
	}
	return err
}

// inSchema is the name of an index, which begins with the prefix.
func (p *pool) inSchema(name string) string {
	return p.qualified(strings.TrimPrefix(name, p.options.Prefix))
}

// rebuild rebuilds an index unless another process has done so.
func (p *pool) rebuild(ctx context.Context, name string) error {
	return p.beside(ctx, func(conn *sql.Conn) error { return p.index(ctx, conn, name, "") })
}

// reindex rebuilds an index, after what is left of an earlier attempt has gone:
// "drop the invalid index with the suffix _ccnew" (REINDEX).
func (p *pool) reindex(ctx context.Context, conn *sql.Conn, name string) error {
	for _, statement := range []string{
		"DROP INDEX CONCURRENTLY IF EXISTS " + p.inSchema(name) + "_ccnew",
		"REINDEX INDEX CONCURRENTLY " + p.inSchema(name),
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// besideWait is how long a migration waits for a second connection.
const besideWait = 10 * time.Second

// beside does work outside of transactions while no other process does. The lock of a second
// transaction excludes other processes, because behind a pooler no session is ours. It is tried
// without waiting: a transaction that waits for a lock has a snapshot, and CREATE INDEX
// CONCURRENTLY waits for all snapshots.
func (p *pool) beside(ctx context.Context, work func(*sql.Conn) error) error {
	tx, cancel, err := p.beginTx(ctx, level)
	if err != nil {
		return err
	}
	defer cancel()
	defer tx.Rollback()
	undo, err := p.hasten(ctx, tx)
	if err != nil {
		return err
	}
	defer undo()
	var alone bool
	if err := tx.QueryRowContext(ctx, `
		SELECT pg_try_advisory_xact_lock(hashtextextended('parley online `+p.qualified("")+`', 0))`).Scan(&alone); err != nil {
		return err
	}
	if !alone {
		return sqlstore.Classified(backend.ErrSerialization, errors.New("another process is at this step"))
	}
	// A query's portal, and with it a snapshot, stays until the next statement.
	if _, err := tx.ExecContext(ctx, "SAVEPOINT parley"); err != nil {
		return err
	}
	waiting, stop := context.WithTimeout(ctx, besideWait)
	defer stop()
	conn, err := p.db.Conn(waiting)
	if err != nil {
		if ctx.Err() == nil && waiting.Err() != nil {
			return errors.New("parley: postgres: this step of the migration needs a second connection of the pool")
		}
		return err
	}
	defer conn.Close()
	return work(conn)
}
