package backendtest

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Server returns what a variable of the environment says of a server, and what
// that is for. Where it is not set the test is skipped, or fails if
// PARLEY_TEST_REQUIRE asks for the engine.
func Server(t testing.TB, engine, variable, meaning string) string {
	t.Helper()
	dsn := os.Getenv(variable)
	if dsn == "" {
		if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), engine) {
			t.Fatalf("%s is not set, but PARLEY_TEST_REQUIRE asks for %s", variable, engine)
		}
		t.Skipf("%s is not set: it is %s", variable, meaning)
	}
	return dsn
}

var names atomic.Int64

// Name returns a name that nothing else on a server has.
func Name() string {
	return fmt.Sprintf("t%d_%d_%d", os.Getpid(), time.Now().Unix()%100000, names.Add(1))
}

// Connect opens a pool as an application would, until the test ends.
func Connect(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(16) // two by default: most of the time would go into connecting
	t.Cleanup(func() { db.Close() })
	return db
}

// WithParam adds a parameter to the URL of a database.
func WithParam(t testing.TB, dsn, name, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// Texts returns the rows of a query of one text column.
func Texts(t testing.TB, db *sql.DB, query string, args ...any) (out []string) {
	t.Helper()
	rows, err := db.Query(query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

// Number returns what a query of one number says.
func Number(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
