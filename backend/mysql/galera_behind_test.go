package mysql_test

import (
	"database/sql"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/internal/slow"
)

// testBehind has programs come to a node that has not applied yet what is committed, as after a failover. A message that
// is posted there must not rely on a place in the order that a receiver has removed.
func testBehind(t *testing.T, nodes []string) {
	t.Run("post", func(t *testing.T) {
		testPostBehind(t, nodes, func(f behind) error {
			b, err := f.broker(f.connect(nil))
			if err != nil {
				return err
			}
			_, err = b.Post(f.Context(), "q", parley.Payload{Body: []byte("2")}, parley.Key("k"))
			return err
		})
	})
	t.Run("joined", func(t *testing.T) {
		testPostBehind(t, nodes, func(f behind) error {
			waits := func(c *driver.Config) { c.Params = map[string]string{"wsrep_sync_wait": "1"} }
			own, err := f.connect(waits).BeginTx(f.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				return err
			}
			defer own.Rollback()
			if _, err := f.known.Join(own).Post(f.Context(), "q", parley.Payload{Body: []byte("2")}, parley.Key("k")); err != nil {
				return err
			}
			return own.Commit()
		})
	})
}

// behind is a database on a node that is behind.
type behind struct {
	*testing.T
	node, own string
	known     *parley.Broker // its connections are older than what is committed
}

func (f behind) connect(change func(*driver.Config)) *sql.DB {
	return connect(f.T, f.node, f.own, change)
}

func (f behind) broker(db *sql.DB) (*parley.Broker, error) {
	b, err := parley.New(f.Context(), open(f.T, db, nil), &parley.Options{NoMaintenance: true})
	if err == nil {
		f.Cleanup(func() { b.Close() })
	}
	return b, err
}

func testPostBehind(t *testing.T, nodes []string, post func(behind) error) {
	f := behind{T: t, node: nodes[1], own: database(t, nodes[0])}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first, after := connect(t, nodes[0], f.own, nil), f.connect(nil)
	old, err := f.broker(first)
	must(err)
	must(old.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}))
	_, err = first.Exec("CREATE TABLE gate (n INT PRIMARY KEY) ENGINE = InnoDB")
	must(err)
	_, err = old.Post(t.Context(), "q", parley.Payload{Body: []byte("1")}, parley.Key("k"))
	must(err)
	slow.Eventually(t, 20*time.Second, "the other node has the message", func() (any, bool) {
		var n int
		err := after.QueryRow("SELECT count(*) FROM parley_message").Scan(&n)
		return err, err == nil && n == 1
	})
	f.known, err = f.broker(f.connect(nil))
	must(err)

	// What changes this table waits on the other node, and so does all that is committed afterwards.
	gate, err := after.Conn(t.Context())
	must(err)
	defer gate.Close()
	_, err = gate.ExecContext(t.Context(), "FLUSH TABLES gate WITH READ LOCK")
	must(err)
	_, err = first.Exec("INSERT INTO gate VALUES (1)")
	must(err)
	d, err := old.Receive(t.Context(), "q", nil)
	must(err)
	must(d.Ack(t.Context()))

	posted := make(chan error, 1)
	go func() {
		defer close(posted)
		posted <- post(f)
	}()
	slow.Eventually(t, 20*time.Second, "the program waits for what is committed", func() (any, bool) {
		n := backendtest.Number(t, after, "SELECT count(*) FROM information_schema.processlist"+
			" WHERE db = DATABASE() AND command = 'Query' AND time_ms > 1000 AND id <> CONNECTION_ID()")
		return n, n > 0
	})
	_, err = gate.ExecContext(t.Context(), "UNLOCK TABLES")
	must(err)
	must(<-posted)
	d, err = f.known.Receive(t.Context(), "q", &parley.ReceiveOptions{Wait: slow.By(5 * time.Second)})
	must(err)
	if got := string(d.Messages[0].Body); got != "2" {
		t.Errorf("received %q, want 2", got)
	}
	must(d.Ack(t.Context()))
}
