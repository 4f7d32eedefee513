package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend/sqlstore"
)

// timeouts returns the session's limits for transactions, in seconds: MariaDB's for idle
// transactions, and the time that a connection may be idle. Both servers apply the latter
// inside a transaction, too.
func (p *pool) timeouts(ctx context.Context) (map[string]time.Duration, error) {
	conn, _, err := p.conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if p.vitess() {
		return vitessTimeouts(ctx, conn)
	}
	v, err := variables(ctx, conn, "wait_timeout", "idle_transaction_timeout", "idle_readonly_transaction_timeout",
		"idle_write_transaction_timeout")
	if err != nil {
		return nil, err
	}
	return sqlstore.Durations(v, time.Second)
}

// lacks returns the privileges on a table that the role lacks. Privileges come from grants to
// users, roles and databases by patterns, and the servers do not show their sum. But "EXPLAIN
// requires the same privileges required to execute the explained statement", and executes nothing.
func (p *pool) lacks(ctx context.Context, sess sqlstore.Session, table string) (list []string, err error) {
	d, ok := sess.(direct)
	if !ok {
		return nil, errors.New("parley: mysql: only a reader can inspect privileges")
	}
	conn, s := d.conn, d.s
	var column string
	err = conn.QueryRowContext(ctx, fmt.Sprintf(`
		SELECT column_name FROM information_schema.columns
		 WHERE table_schema = DATABASE() AND table_name = '%s' AND ordinal_position = 1`, table)).Scan(&column)
	if err != nil {
		return nil, err
	}
	for _, x := range []struct{ privilege, statement string }{
		{"SELECT", fmt.Sprintf("SELECT 1 FROM %s WHERE FALSE", table)},
		{"INSERT", fmt.Sprintf("INSERT INTO %s (%s) VALUES (NULL)", table, column)},
		{"UPDATE", fmt.Sprintf("UPDATE %s SET %s = NULL WHERE FALSE", table, column)},
		{"DELETE", fmt.Sprintf("DELETE FROM %s WHERE FALSE", table)},
	} {
		err := p.guarded(ctx, s, func(ctx context.Context) error {
			rows, err := conn.QueryContext(ctx, "EXPLAIN "+x.statement)
			if err != nil {
				return err
			}
			return rows.Close()
		})
		switch number(err) {
		case 1142, // ER_TABLEACCESS_DENIED_ERROR
			1143: // ER_COLUMNACCESS_DENIED_ERROR
			list = append(list, x.privilege)
		default: // what comes after the privileges have been looked at
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	}
	return list, nil
}
