package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	_ "github.com/parleymq/parley/backend/mysql"
	_ "github.com/parleymq/parley/backend/postgres"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/consoletest"
	"github.com/parleymq/parley/internal/slow"
)

// locking is how a transaction takes all locks of a store that only a read without locks does not wait for.
type locking struct {
	server string // the variable with its address; empty: a file
	tables string // a query for the store's tables, whose names begin with a prefix
	lock   string // a statement for each
	wrong  string // a read of a table that takes a lock, if there is one
}

var lockings = map[string]locking{
	// Every mode conflicts with it but that of a plain SELECT, so also FOR UPDATE and FOR SHARE, and with SKIP LOCKED.
	"postgres": {"PARLEY_TEST_POSTGRES", "SELECT tablename FROM pg_tables WHERE tablename LIKE '%s%%'", "LOCK TABLE %s IN EXCLUSIVE MODE",
		"SELECT 1 FROM %squeue FOR SHARE SKIP LOCKED"},
	// A read that skips locked rows finds none.
	"mysql": {"PARLEY_TEST_MYSQL", "SELECT table_name FROM information_schema.tables WHERE table_schema = database() AND table_name LIKE '%s%%'",
		"SELECT count(*) FROM %s FOR UPDATE", "SELECT 1 FROM %squeue FOR UPDATE"},
	"mariadb": {"PARLEY_TEST_MARIADB", "SELECT table_name FROM information_schema.tables WHERE table_schema = database() AND table_name LIKE '%s%%'",
		"SELECT count(*) FROM %s FOR UPDATE", "SELECT 1 FROM %squeue FOR UPDATE"},
	"sqlite": {"", "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%s%%'", "DELETE FROM %s WHERE 0", ""},
}

// TestReadsTakeNoLocks serves each page while a transaction has all locks of the store. Each page is there at once and
// has the same content as before, so no look takes a lock that a receiver or a sender could wait for. It leaves
// out the look at a group's messages: that is a receive, which is rolled back, and receivers pass a group that is held.
func TestReadsTakeNoLocks(t *testing.T) {
	t.Parallel()
	for engine, l := range lockings {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			dsn, prefix := "sqlite:"+filepath.Join(t.TempDir(), "console.db"), "parley_"
			if l.server != "" {
				if dsn = os.Getenv(l.server); dsn == "" {
					t.Skipf("%s names no server", l.server)
				}
				prefix = "look" + parley.NewID().String()[24:] + "_"
				sign := "?"
				if strings.Contains(dsn, "?") {
					sign = "&"
				}
				dsn += sign + "parley_prefix=" + prefix
			}
			b := store(t, dsn)
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Backend().Uninstall(context.WithoutCancel(t.Context())) })
			f := consoletest.Fill(t, b, consoletest.Plain)
			viewer := store(t, dsn)
			tables := l.find(t, b, prefix)
			if len(tables) < 20 {
				t.Fatalf("the store has the tables %q", tables)
			}
			paths := slices.Collect(maps.Keys(consoletest.Pages(f, consoletest.Plain)))
			for _, path := range append(paths, "/metrics", "/search?q=nothing", "/act?do=retry-all", "/act?do=requeue-all",
				"/act?do=promote&queue=mail&id="+f.Keyed.String(), "/act?do=move&queue=mail&id="+f.Keyed.String()) {
				if strings.Contains(path, "peek=1") {
					continue
				}
				want := look(t, viewer, path)
				release := l.take(t, b, tables)
				got := look(t, viewer, path)
				release()
				if got != want {
					t.Errorf("%s while another transaction has all locks:\n%s\nwant\n%s", path, got, want)
				}
			}
			// The proof of this proof: a store that locks what it shows.
			if l.wrong == "" {
				return
			}
			release := l.take(t, b, tables)
			defer release()
			if got := look(t, wrapped(t, locks{viewer.Backend(), fmt.Sprintf(l.wrong, prefix)}), "/workers"); strings.HasPrefix(got, "200") {
				t.Errorf("a page that locks rows is served:\n%s", got)
			}
		})
	}
}

// store opens a handle without maintenance, which would wait for the locks.
func store(t *testing.T, dsn string) *parley.Broker {
	t.Helper()
	b, err := parley.Open(t.Context(), dsn, &parley.Options{Owner: "shop-1/4711", NoMaintenance: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func wrapped(t *testing.T, be parley.Backend) *parley.Broker {
	t.Helper()
	b, err := parley.New(t.Context(), be, &parley.Options{NoMaintenance: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return b // without Close, which would end the store below
}

// find returns the names of the store's tables.
func (l locking) find(t *testing.T, b *parley.Broker, prefix string) (names []string) {
	t.Helper()
	tx := must(b.Backend().Begin(t.Context()))
	defer tx.Rollback(t.Context())
	rows, err := tx.SQL().QueryContext(t.Context(), fmt.Sprintf(l.tables, prefix))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// take takes all locks, and returns what releases them. What sessions and leases do meanwhile can be in the way for a
// moment.
func (l locking) take(t *testing.T, b *parley.Broker, tables []string) (release func()) {
	t.Helper()
	slow.Eventually(t, 30*time.Second, "all locks of the store", func() (any, bool) {
		tx := must(b.Backend().Begin(t.Context()))
		for _, name := range tables {
			if _, err := tx.SQL().ExecContext(t.Context(), fmt.Sprintf(l.lock, name)); err != nil {
				_ = tx.Rollback(t.Context())
				return err, false
			}
		}
		release = func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }
		return nil, true
	})
	return release
}

// changing is what differs between two looks at the same things.
var changing = regexp.MustCompile(`(?s)<svg.*?</svg>|<time[^>]*>.*?</time>|(&lt;)?\d[\d.,:µmshin ]*|data-\w+="[^"]*"`)

// look returns the status and the content of a page that nothing has read before.
func look(t *testing.T, b *parley.Broker, path string) string {
	t.Helper()
	s := serve(t, b, &console.Options{Limit: slow.By(3 * time.Second), Write: true,
		Authorize: func(*http.Request, console.Action, string) error { return nil }})
	defer s.Close()
	answer, text := s.get(path)
	for end := time.Now().Add(slow.By(20 * time.Second)); answer.StatusCode == http.StatusAccepted && time.Now().Before(end); {
		answer, text = s.get(path)
	}
	if content := mainOf(text); content != "" {
		text = content
	}
	return answer.Status + "\n" + changing.ReplaceAllString(text, "#")
}

// locks is a store that locks the rows of what one page shows.
type locks struct {
	parley.Backend
	read string
}

func (l locks) ReaderRecords(ctx context.Context) ([]backend.ReaderStatus, error) {
	tx, err := l.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.SQL().ExecContext(ctx, l.read); err != nil {
		return nil, err
	}
	return l.Backend.ReaderRecords(ctx)
}
