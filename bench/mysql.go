package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const insertRowMySQL = `INSERT INTO bench_row (id, body) VALUES (?, ?)`

func openMySQL(ctx context.Context, name string) (*engine, error) {
	address := os.Getenv(addressOf(name))
	if address == "" {
		address = os.Getenv("PARLEY_TEST_" + addressOf(name)[len("BENCH_"):])
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "mysql" {
		return nil, fmt.Errorf("no server: set %s to a mysql:// URL", addressOf(name))
	}
	admin, err := sql.Open("mysql", driverDSN(address, true))
	if err != nil {
		return nil, err
	}
	var version, flush string
	if err := admin.QueryRowContext(ctx, `SELECT version(), @@innodb_flush_log_at_trx_commit`).Scan(&version, &flush); err != nil {
		admin.Close()
		return nil, err
	}
	return &engine{
		info: fmt.Sprintf("%s %s, innodb_flush_log_at_trx_commit %s", name, version, flush),
		make: func(ctx context.Context, database, _ string) (string, error) {
			v := *u
			v.Path = "/" + database
			_, err := admin.ExecContext(ctx, "CREATE DATABASE "+database)
			return v.String(), err
		},
		drop: func(ctx context.Context, database string) error {
			_, err := admin.ExecContext(ctx, "DROP DATABASE IF EXISTS "+database)
			return err
		},
		count: func(dsn string) (*counter, error) {
			return &counter{dsn: dsn, close: func() {}, tally: func(ctx context.Context) (tally, error) { return status(ctx, admin) }}, nil
		},
		close: func() { admin.Close() },
	}, nil
}

// status is what the server has done so far, by its own count. A statement that commits
// by itself is no commit here.
func status(ctx context.Context, admin *sql.DB) (n tally, err error) {
	rows, err := admin.QueryContext(ctx, `SHOW GLOBAL STATUS WHERE Variable_name IN
		('Questions', 'Com_stmt_prepare', 'Com_commit', 'Innodb_os_log_written')`)
	if err != nil {
		return n, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var v int64
		if err := rows.Scan(&name, &v); err != nil {
			return n, err
		}
		switch name {
		case "Questions": // without what prepares a statement
			n.statements += v
			n.trips += v
		case "Com_stmt_prepare":
			n.trips += v
		case "Com_commit":
			n.commits = v
		case "Innodb_os_log_written":
			n.logBytes += v
		}
	}
	if err := rows.Err(); err != nil {
		return n, err
	}
	binlog, err := binlogBytes(ctx, admin)
	n.logBytes += binlog
	return n, err
}

// binlogBytes is how long the binary log is, 0 if there is none.
func binlogBytes(ctx context.Context, admin *sql.DB) (n int64, err error) {
	rows, err := admin.QueryContext(ctx, `SHOW BINARY LOGS`)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) && refused.Number == 1381 { // "You are not using binary logging"
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns() // MySQL has one more than MariaDB
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		var name, rest sql.RawBytes
		var size int64
		if err := rows.Scan([]any{&name, &size, &rest}[:len(columns)]...); err != nil {
			return 0, err
		}
		n += size
	}
	return n, rows.Err()
}

// interpolating is a mysql:// URL with which the handlers' statements take one round
// trip, not two.
func interpolating(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	q := u.Query()
	q.Set("interpolateParams", "true")
	u.RawQuery = q.Encode()
	return u.String()
}

// driverDSN is a mysql:// URL as go-sql-driver/mysql has it. With interpolation the
// driver writes parameters into the statement, and does not prepare each.
func driverDSN(address string, interpolate bool) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.InterpolateParams = interpolate
	return c.FormatDSN()
}
