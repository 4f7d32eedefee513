package postgres_test

import (
	"context"
	"os"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/conformance"
)

// TestConformance runs the suite on handles that share a *sql.DB, as the parts of a program may.
// Connecting to PostgreSQL takes longer than most checks.
func TestConformance(t *testing.T) {
	t.Parallel()
	o := postgres.Options{Listen: server(t)}
	s := sharing(t, "postgres", server(t), o)
	s.Beside = []conformance.Store{sharing(t, "postgres", server(t), o)}
	conformance.Run(t, s)
}

// TestConformanceOpen runs the suite on handles of Open, each with a separate pool.
func TestConformanceOpen(t *testing.T) {
	t.Parallel()
	conformanceOpened(t, nil, func() postgres.Options { return postgres.Options{} })
}

// ofLocks matches the checks of application locks.
var ofLocks = regexp.MustCompile(`^L|application locks`)

// TestConformanceNativeLocks runs the checks of application locks once more, on
// those of the server's own.
func TestConformanceNativeLocks(t *testing.T) {
	t.Parallel()
	conformanceOpened(t, ofLocks, func() postgres.Options { return postgres.Options{Locks: postgres.LocksNative} })
}

// TestConformanceMixedLocks runs them on handles that keep locks the one way and
// the other by turns: they are one store.
func TestConformanceMixedLocks(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	conformanceOpened(t, ofLocks, func() postgres.Options {
		return postgres.Options{Locks: postgres.Locks(n.Add(1) % 2)}
	})
}

// conformanceOpened runs the checks that match on stores that are opened each with the next
// options.
func conformanceOpened(t *testing.T, match *regexp.Regexp, next func() postgres.Options) {
	s := checked(t, next)
	if match == nil {
		s.Beside = []conformance.Store{checked(t, next)}
	}
	conformance.RunMatching(t, s, match)
}

// checked is a separate schema for the suite.
func checked(t *testing.T, next func() postgres.Options) conformance.Store {
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's schema
	var fresh string
	if dsn == "" {
		db := connect(t, "postgres", server(t))
		dsn = backendtest.WithParam(t, server(t), "parley_schema", schema(t, db))
		fresh = backendtest.WithParam(t, server(t), "parley_schema", schema(t, db))
	}
	open := func(ctx context.Context, dsn string) (backend.Backend, error) {
		o := next()
		return postgres.Open(ctx, dsn, &o)
	}
	return conformance.Store{
		Process:    dsn,
		Disposable: true,
		Lose:       lose,
		Open:       func(ctx context.Context) (backend.Backend, error) { return open(ctx, dsn) },
		Limit: func(ctx context.Context, conns int) (backend.Backend, error) {
			o := next()
			o.MaxConns = conns
			return postgres.Open(ctx, dsn, &o)
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) { return open(ctx, fresh) },
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			dsn := backendtest.WithParam(t, server(t), "parley_schema", schema(t, connect(t, "postgres", server(t))))
			return func(ctx context.Context) (backend.Backend, error) { return open(ctx, dsn) }
		}),
	}
}

// lose has the server end a session in the middle of its transaction.
var lose = conformance.LoseBySQL("SELECT pg_terminate_backend(pg_backend_pid())")
