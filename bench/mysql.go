package main

import (
	"context"
	"database/sql"
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
		close: func() { admin.Close() },
	}, nil
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
