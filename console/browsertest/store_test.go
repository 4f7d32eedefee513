package browsertest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/console"
)

// each runs a test on each store that the console is shown on.
func each(t *testing.T, test func(t *testing.T, b *parley.Broker)) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) { test(t, store(t, engine)) })
	}
}

// store opens a new store.
func store(t testing.TB, engine string) *parley.Broker {
	t.Helper()
	return connect(t, address(t, engine), true)
}

// address names a store that no other test has.
func address(t testing.TB, engine string) string {
	t.Helper()
	if engine == "sqlite" {
		return "sqlite:" + filepath.Join(t.TempDir(), "console.db")
	}
	server := os.Getenv("PARLEY_TEST_POSTGRES")
	if server == "" {
		t.Skip("PARLEY_TEST_POSTGRES names no server")
	}
	separator := "?"
	if strings.Contains(server, "?") {
		separator = "&"
	}
	return server + separator + "parley_prefix=" + url.QueryEscape("console_"+parley.NewID().String()[24:]+"_")
}

// connect opens a store, and removes it at the end if it is new.
func connect(t testing.TB, dsn string, fresh bool) *parley.Broker {
	t.Helper()
	b, err := parley.Open(t.Context(), dsn, &parley.Options{Owner: "shop-1/4711", Logger: slog.New(slog.DiscardHandler)})
	if err == nil && fresh {
		err = b.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if fresh {
			_ = b.Backend().Uninstall(t.Context())
		}
		b.Close()
	})
	return b
}

// handler is a console in which everybody may act.
func handler(t testing.TB, b *parley.Broker) *console.Handler { return bodies(t, b, nil) }

// bodies is a handler that shows what a function leaves of bodies.
func bodies(t testing.TB, b *parley.Broker, redact func(string, string, []byte) string) *console.Handler {
	t.Helper()
	h, err := console.New(b, &console.Options{Write: true, Authorize: func(*http.Request, console.Action, string) error { return nil },
		Redact: redact, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve serves a console.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
