package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"path/filepath"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

// connector opens a name with a driver.
type connector struct {
	driver driver.Driver
	name   string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.name) }
func (c connector) Driver() driver.Driver                        { return c.driver }

// counted is a store whose writer's statements are counted.
func counted(t *testing.T) (*Store, *backendtest.Counter) {
	t.Helper()
	before := connect
	defer func() { connect = before }()
	var counters []*backendtest.Counter
	connect = func(name string) (*sql.DB, error) {
		plain, err := before(name)
		if err != nil {
			return nil, err
		}
		defer plain.Close()
		db, count := backendtest.Count(connector{plain.Driver(), name})
		counters = append(counters, count)
		return db, nil
	}
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "test.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, counters[0]
}

// frame are the statements that begin and end transactions.
var frame = []string{"BEGIN", "BEGIN IMMEDIATE", "COMMIT"}

// TestStatements holds the number of the writer's statements. There are no round
// trips, but each has to be set up.
func TestStatements(t *testing.T) {
	s, count := counted(t)
	backendtest.Statements(backendtest.New(t, s), count, frame, map[string]int{
		"send one":                     3,
		"send a hundred":               103,
		"post one":                     1,
		"post a hundred":               101,
		"post one with a key":          3,
		"post a hundred with ten keys": 501,
		"post one with a new key":      6,
		"post a hundred with new keys": 701,
		"claim and settle a group, in one transaction":   4,
		"claim and settle ten keys, in one transaction":  3,
		"claim and settle ten posts, in one transaction": 3,
		"claim a key by lease":                           2,
		"claim ten posts by lease":                       2,
		"settle ten posts held by lease":                 2,
		"settle a key and a post that failed":            8,
		"end a hundred tasks":                            100,
		"claim nothing":                                  0, // a reader looks
		"a hundred delayed posts become due":             14,
		"claim nothing where posts have been":            2,
		"cancel a hundred posts":                         4,
		"cancel a hundred delayed posts":                 104,
		"list a hundred keys and posts":                  0, // a reader looks
	})
}

// TestDialogStatements holds the number of the writer's statements of new dialogs.
func TestDialogStatements(t *testing.T) {
	s, count := counted(t)
	backendtest.Dialogs(t, s, count, frame, map[string]int{
		"begin and send":                                     5,
		"receive, reply and end":                             13,
		"receive, reply and end, in one transaction":         11,
		"receive the reply and end, in one transaction":      8,
		"receive the reply and end":                          10,
		"a post by itself, with BEGIN and COMMIT":            3,
		"a post by itself with a key, with BEGIN and COMMIT": 5,
		"a send by itself, with BEGIN and COMMIT":            5,
		"a begin by itself, with BEGIN and COMMIT":           7,
		"what a reader has in hand, with BEGIN and COMMIT":   3,
		"begin and send on twenty dialogs":                   26,
		"a worker's batch of requests":                       88,
		"a worker's batch of replies and ends":               7,
	})
}
