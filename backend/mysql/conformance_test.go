package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server string) {
		t.Parallel()
		s := checked(t, server)
		s.Beside = []conformance.Store{checked(t, server)} // with more, workers starve each other
		conformance.Run(t, s)
	})
}

// suite runs the checks on which it shows what settings do, on handles that share a pool.
func suite(t *testing.T, db *sql.DB) {
	conformance.RunMatching(t, conformance.Store{
		Open: func(context.Context) (backend.Backend, error) { return mysql.New(db, nil), nil },
	}, backendtest.Sessions)
}

// checked is a separate database for the suite.
func checked(t *testing.T, server string) conformance.Store {
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's database
	if dsn == "" {
		dsn = in(t, server, database(t, server))
	}
	return conformance.Store{
		Process:    dsn,
		Disposable: true,
		Lose:       append(conformance.LoseBySQL("KILL CONNECTION_ID()"), deadlock(t, dsn)),
		Open:       func(ctx context.Context) (backend.Backend, error) { return mysql.Open(ctx, dsn, nil) },
		Limit: func(ctx context.Context, conns int) (backend.Backend, error) {
			return mysql.Open(ctx, dsn, &mysql.Options{MaxConns: conns})
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) {
			return mysql.Open(ctx, in(t, server, database(t, server)), nil)
		},
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			dsn := in(t, server, database(t, server))
			return func(ctx context.Context) (backend.Backend, error) { return mysql.Open(ctx, dsn, nil) }
		}),
	}
}

// deadlock has the server roll a transaction back, while its connection lives on and takes further statements.
func deadlock(t *testing.T, dsn string) func(context.Context, backend.Tx) {
	const rows = 300 // the server chooses the one of the two that has changed less
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := connect(t, dsn, strings.TrimPrefix(u.Path, "/"), nil)
	do := func(ctx context.Context, in backend.Execer, statement string, args ...any) {
		if _, err := in.ExecContext(ctx, fmt.Sprintf(statement, args...)); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	return func(ctx context.Context, tx backend.Tx) {
		table := backendtest.Name()
		do(ctx, db, "CREATE TABLE %s (id INT PRIMARY KEY, n INT NOT NULL)", table)
		do(ctx, db, "INSERT INTO %s WITH RECURSIVE s (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < %d) SELECT i, 0 FROM s", table, rows)
		other, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // else it may lock row 0 as well
		if err != nil {
			t.Error(err)
			return
		}
		do(ctx, other, "UPDATE %s SET n = 1 WHERE id > 0", table)
		do(ctx, tx.SQL(), "UPDATE %s SET n = 1 WHERE id = 0", table)
		got := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET n = 1 WHERE id = 0", table))
			got <- err
		}()
		if _, err := tx.SQL().ExecContext(ctx, fmt.Sprintf("UPDATE %s SET n = 1 WHERE id = 1", table)); err == nil {
			t.Error("the other transaction was chosen as the victim")
		}
		if err := errors.Join(<-got, other.Rollback()); err != nil {
			t.Error(err)
		}
	}
}
