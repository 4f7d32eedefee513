package mysql_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/conformance"
	"github.com/parleymq/parley/internal/workertest"
)

// keyspaces returns the addresses of vtgate: of two keyspaces without shards, and of one with.
func keyspaces(t *testing.T) []string {
	t.Helper()
	addresses := os.Getenv("PARLEY_TEST_VITESS")
	if addresses == "" {
		t.Skip("PARLEY_TEST_VITESS is not set: make verify-vitess starts Vitess")
	}
	return strings.Split(addresses, ",")
}

// under returns the name of a keyspace for a store with another prefix, which is removed when the test ends.
func under(t *testing.T, keyspace string) string {
	t.Helper()
	dsn := backendtest.WithParam(t, keyspace, "parley_prefix", backendtest.Name()+"_")
	return backendtest.Uninstalled(t, dsn, mysql.Open)
}

func TestConformanceVitess(t *testing.T) {
	t.Parallel()
	list := keyspaces(t)
	s := throughGate(t, list[0])
	s.Beside = []conformance.Store{throughGate(t, list[1])}
	conformance.Run(t, s)
}

// killed is a statement that vttablet kills after a moment, and with it the connection to MySQL.
const killed = "SELECT /*vt+ QUERY_TIMEOUT_MS=20 */ SLEEP(5)"

func throughGate(t *testing.T, keyspace string) conformance.Store {
	dsn := os.Getenv(conformance.StoreEnv) // a child process has its parent's tables
	fresh := ""
	if dsn == "" {
		dsn, fresh = under(t, keyspace), under(t, keyspace)
	}
	open := func(ctx context.Context, dsn string, o *mysql.Options) (backend.Backend, error) {
		return mysql.Open(ctx, dsn, o)
	}
	return conformance.Store{
		Process:    dsn,
		Disposable: true,
		Lose:       conformance.LoseBySQL(killed),
		Open:       func(ctx context.Context) (backend.Backend, error) { return open(ctx, dsn, nil) },
		Limit: func(ctx context.Context, conns int) (backend.Backend, error) {
			return open(ctx, dsn, &mysql.Options{MaxConns: conns})
		},
		Fresh: func(ctx context.Context) (backend.Backend, error) { return open(ctx, fresh, nil) },
		Versions: conformance.SQLVersions(func() func(context.Context) (backend.Backend, error) {
			dsn := under(t, keyspace)
			return func(ctx context.Context) (backend.Backend, error) { return open(ctx, dsn, nil) }
		}),
	}
}

// TestVitessSharded: a keyspace with shards is refused before anything is done in it.
func TestVitessSharded(t *testing.T) {
	t.Parallel()
	sharded := keyspaces(t)[2]
	for _, target := range []string{sharded, sharded + "@primary"} {
		if _, err := mysql.Open(t.Context(), target, nil); !errors.Is(err, mysql.ErrSharded) {
			t.Errorf("Open of %s: %v", target, err)
		}
	}
	b := mysql.New(connect(t, sharded, "sharded", nil), nil)
	defer b.Close()
	for range 2 {
		if err := b.Migrate(t.Context()); !errors.Is(err, mysql.ErrSharded) {
			t.Errorf("Migrate: %v", err)
		}
	}
}

// TestVitessLimits: what vtgate does not tell is assumed, and what a session asks for is known.
func TestVitessLimits(t *testing.T) {
	t.Parallel()
	keyspace := keyspaces(t)[0]
	for asked, want := range map[string]time.Duration{"": 20 * time.Second, "60000": 20 * time.Second, "1500": 1500 * time.Millisecond} {
		dsn := keyspace
		if asked != "" {
			dsn = backendtest.WithParam(t, keyspace, "transaction_timeout", asked)
		}
		for conns, warned := range map[int]bool{0: false, 21: true} { // 0: as Open sets it
			b, err := mysql.Open(t.Context(), dsn, &mysql.Options{MaxConns: conns})
			if err != nil {
				t.Fatal(err)
			}
			got, setting, err := b.Capabilities().TransactionLimiter.TransactionLimit(t.Context())
			if got != want || err != nil {
				t.Errorf("with transaction_timeout %q a transaction has %v by %q, want %v, %v", asked, got, setting, want, err)
			}
			info, err := b.Info(t.Context())
			if err != nil || info.Engine != "vitess" {
				t.Errorf("%q, %v", info.Engine, err)
			}
			codes := make(map[string]bool)
			for _, w := range info.Warnings {
				codes[w.Code] = true
			}
			if !codes[backend.WarnTimeout] || !codes[backend.WarnProcedures] || codes[backend.WarnLimits] != warned {
				t.Errorf("with %d connections: warnings %q", conns, slices.Sorted(maps.Keys(codes)))
			}
			b.Close()
		}
	}
}

// TestVitessEndsTransactions: a handler that takes longer than a transaction may is not repeated for ever.
func TestVitessEndsTransactions(t *testing.T) {
	t.Parallel()
	keyspace := keyspaces(t)[1]
	workertest.CutShort(t, "transaction_timeout", 5*time.Second, func(t *testing.T) backend.Backend {
		b, err := mysql.Open(t.Context(), backendtest.WithParam(t, under(t, keyspace), "transaction_timeout", "1000"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// TestVitessNoGrants: rights are those of vtgate's accounts.
func TestVitessNoGrants(t *testing.T) {
	t.Parallel()
	b, err := mysql.Open(t.Context(), keyspaces(t)[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if text, err := b.Grants(t.Context(), backend.RoleWorker, "app"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%q, %v", text, err)
	}
}

// TestVitessNotAgain: what may be the fault of the transaction itself, as a statement that always takes too
// long, is not tried again by Retry.
func TestVitessNotAgain(t *testing.T) {
	t.Parallel()
	be, err := mysql.Open(t.Context(), under(t, keyspaces(t)[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := parley.New(t.Context(), be, nil)
	if err == nil {
		err = b.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	runs := 0
	err = b.Retry(t.Context(), func(tx *parley.Tx) error {
		runs++
		_, err := tx.SQL().ExecContext(t.Context(), killed)
		return err
	})
	if err == nil || runs != 1 || parley.IsRetryable(err) {
		t.Errorf("%d runs, %v", runs, err)
	}
}
