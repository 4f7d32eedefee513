package console_test

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/consoletest"
	"github.com/parleymq/parley/internal/slow"
)

// standbys say how to find the port of a server that follows, by a query at the primary.
var standbys = map[string]struct{ primary, server, port string }{
	"postgres": {"PARLEY_TEST_POSTGRES", "postgres-pair",
		"SELECT substr(application_name, 9) FROM pg_stat_replication WHERE application_name LIKE 'standby_%'"},
	"mysql": {"PARLEY_TEST_MYSQL", "mysql-group",
		"SELECT member_port FROM performance_schema.replication_group_members WHERE member_role = 'SECONDARY' ORDER BY 1 LIMIT 1"},
}

// TestOnAStandby serves each page from a standby, which refuses all writes, and on PostgreSQL all locks of rows. It
// leaves out the look at a group's messages, which is a receive, and what does something.
func TestOnAStandby(t *testing.T) {
	for engine, s := range standbys {
		t.Run(engine, func(t *testing.T) {
			primary := os.Getenv(s.primary)
			if primary == "" {
				t.Skip(s.primary + " names no server")
			}
			u, err := url.Parse(primary)
			if err != nil {
				t.Fatal(err)
			}
			values := u.Query()
			values.Set("parley_prefix", "standby"+parley.NewID().String()[24:]+"_")
			u.RawQuery = values.Encode()
			b := store(t, u.String())
			if err := b.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Backend().Uninstall(context.WithoutCancel(t.Context())) })
			port := ""
			err = b.InTx(t.Context(), func(tx *parley.Tx) error {
				rows, err := tx.SQL().QueryContext(t.Context(), s.port)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					err = rows.Scan(&port)
				}
				return errors.Join(err, rows.Err())
			})
			switch required := strings.Contains(os.Getenv("PARLEY_TEST_REQUIRE"), s.server); {
			case err != nil:
				t.Fatal(err)
			case port == "" && required:
				t.Fatal("the server has no standby")
			case port == "":
				t.Skip("the server has no standby: make verify-standby starts one")
			}
			f := consoletest.Fill(t, b, consoletest.Plain)
			if _, err := b.Post(t.Context(), "mail", parley.Payload{}, parley.Key("the last")); err != nil {
				t.Fatal(err)
			}
			u.Host = u.Hostname() + ":" + port
			viewer := store(t, u.String())
			onStandby(t, viewer, b, f)
		})
	}
}

func onStandby(t *testing.T, viewer, b *parley.Broker, f consoletest.Filled) {
	slow.Eventually(t, 30*time.Second, "the standby has what was written last", func() (any, bool) {
		list, err := viewer.Admin().Groups(t.Context(), "mail", parley.Place{}, 1000)
		return err, slices.ContainsFunc(list, func(g parley.GroupStatus) bool { return g.Key == "the last" })
	})
	findings := regexp.MustCompile(`^/(doctor|why.*)?$`) // they say that the server is a standby
	pages := slices.Sorted(maps.Keys(consoletest.Pages(f, consoletest.Plain)))
	for _, path := range append(pages, "/metrics", "/search?q=nothing", "/search?of=waiting&q=nothing") {
		if strings.Contains(path, "peek=1") || strings.HasPrefix(path, "/act") {
			continue
		}
		got, want := look(t, viewer, path), look(t, b, path)
		if !strings.HasPrefix(got, "200") || got != want && !findings.MatchString(path) {
			t.Errorf("%s on the standby:\n%s\non the primary:\n%s", path, got, want)
		}
	}
	if _, err := viewer.Post(t.Context(), "mail", parley.Payload{}); !errors.Is(err, parley.ErrReadOnly) {
		t.Errorf("a post to a standby: %v, want ErrReadOnly", err)
	}
}
