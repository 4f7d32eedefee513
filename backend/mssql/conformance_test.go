package mssql_test

import (
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mssql"
	"github.com/parleymq/parley/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conformanceOf(t, nil, mssql.Options{})
}

// TestConformanceNativeLocks runs the checks of application locks once more, on
// those of the server's own.
func TestConformanceNativeLocks(t *testing.T) {
	t.Parallel()
	conformanceOf(t, regexp.MustCompile(`^L|application locks`), mssql.Options{Locks: mssql.LocksNative})
}

func conformanceOf(t *testing.T, match *regexp.Regexp, o mssql.Options) {
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's prefix
	var fresh string
	if dsn == "" {
		dsn, fresh = under(t, prefix(t)), under(t, prefix(t))
	}
	at := func(dsn string) func(context.Context) (backend.Backend, error) {
		return func(ctx context.Context) (backend.Backend, error) { return mssql.Open(ctx, dsn, &o) }
	}
	conformance.RunMatching(t, conformance.Store{
		Process: dsn, Disposable: true, Lose: conformance.LoseBySQL("SET XACT_ABORT ON; THROW 51000, N'lost', 1"), Open: at(dsn), Fresh: at(fresh),
		Limit: func(ctx context.Context, conns int) (backend.Backend, error) {
			o := o
			o.MaxConns = conns
			return mssql.Open(ctx, dsn, &o)
		},
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) { return at(under(t, prefix(t))) }),
	}, match)
}

// under returns the name of the server for a store with a prefix, which is removed
// when the test ends.
func under(t *testing.T, prefix string) string {
	t.Helper()
	dsn := backendtest.WithParam(t, address(t), "parley_prefix", prefix)
	return backendtest.Uninstalled(t, dsn, mssql.Open)
}
