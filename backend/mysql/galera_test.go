package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/slow"
)

// TestGalera has the programs that use a store move from a node of a cluster that
// is killed to another one.
func TestGalera(t *testing.T) {
	t.Parallel()
	nodes := galeraNodes(t)
	testStanding(t, nodes)
	db := connect(t, nodes[0], "parley", nil)
	store := open(t, db, nil)
	info, err := store.Info(t.Context())
	if err != nil || !slices.ContainsFunc(info.Warnings, func(w backend.Warning) bool { return w.Code == backend.WarnCluster }) {
		t.Errorf("warnings %v, %v", info.Warnings, err)
	}
	if _, err := db.Exec("CREATE TABLE effect (stream VARBINARY(64), n BIGINT, place BIGINT AUTO_INCREMENT PRIMARY KEY, UNIQUE (stream, n)) ENGINE = InnoDB"); err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, nodes: nodes, committed: make(map[string]int)}
	b := c.broker()
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	b.Close()

	ctx, stop := context.WithCancel(t.Context())
	var senders, receivers sync.WaitGroup
	for i := range 4 {
		senders.Go(func() { c.send(ctx, fmt.Sprint("s", i)) })
	}
	done, over := context.WithCancel(t.Context())
	for range 4 {
		receivers.Go(func() { c.receive(done) })
	}
	time.Sleep(3 * time.Second)
	killNode(t, nodes[0])
	c.mu.Lock()
	c.at = 1
	c.mu.Unlock()
	time.Sleep(12 * time.Second) // it takes the others five to give the node up
	stop()
	senders.Wait()

	// What was committed is there, each once and in order.
	left := connect(t, nodes[1], "parley", nil)
	var total int
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		var waiting int
		if err := left.QueryRow("SELECT count(*) FROM parley_message").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting == 0 || time.Now().After(deadline) {
			break
		}
	}
	over()
	receivers.Wait()
	rows, err := left.Query("SELECT stream, n FROM effect ORDER BY place")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	next := make(map[string]int)
	for rows.Next() {
		var stream string
		var n int
		if err := rows.Scan(&stream, &n); err != nil {
			t.Fatal(err)
		}
		if n != next[stream] {
			t.Errorf("%s: %d came where %d should have", stream, n, next[stream])
		}
		next[stream] = n + 1
		total++
	}
	for stream, n := range c.committed {
		if next[stream] < n {
			t.Errorf("%s: %d sent, %d handled", stream, n, next[stream])
		}
	}
	if c.moved < 4 || total < 100 {
		t.Errorf("%d handled, %d handles have moved: that is no test", total, c.moved)
	}
	t.Logf("%d handled", total)
}

// testStanding is what needs no fault.
func testStanding(t *testing.T, nodes []string) {
	t.Run("migrations take turns", func(t *testing.T) { testTurns(t, nodes) })
	t.Run("what is undone is nowhere", func(t *testing.T) { testUndone(t, nodes) })
	t.Run("no part commits", func(t *testing.T) { testWhole(t, nodes[0]) })
	t.Run("a replaced connection commits", func(t *testing.T) { testReplaced(t, nodes[0]) })
	t.Run("a new connection knows what is committed", func(t *testing.T) { testBehind(t, nodes) })
}

// galeraNodes are the addresses of a cluster.
func galeraNodes(t *testing.T) []string {
	addresses := os.Getenv("PARLEY_TEST_GALERA")
	if addresses == "" {
		t.Skip("PARLEY_TEST_GALERA is not set: make verify-galera starts a cluster")
	}
	return strings.Split(addresses, ",")
}

// testUndone compares the nodes after rollbacks to savepoints. Without a binary log the others had what is undone.
func testUndone(t *testing.T, nodes []string) {
	one, two := connect(t, nodes[0], "parley", nil), connect(t, nodes[1], "parley", nil)
	do := func(db interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if _, err := db.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	do(one, "CREATE TABLE undone (id INT PRIMARY KEY) ENGINE = InnoDB")
	conn, err := one.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do(conn, "START TRANSACTION", "SELECT count(*) FROM undone", "SAVEPOINT a", "INSERT INTO undone VALUES (1)", "ROLLBACK TO SAVEPOINT a",
		"INSERT INTO undone VALUES (2)", "COMMIT",
		"START TRANSACTION", "SAVEPOINT a", "INSERT INTO undone VALUES (3)", "ROLLBACK TO SAVEPOINT a", "ROLLBACK TO SAVEPOINT a",
		"INSERT INTO undone VALUES (4)", "COMMIT")
	slow.Eventually(t, 20*time.Second, "the other node has the rows 2 and 4 alone", func() (any, bool) {
		var ids string
		err := two.QueryRowContext(t.Context(), "SELECT coalesce(group_concat(id ORDER BY id), '') FROM undone").Scan(&ids)
		return fmt.Sprint(ids, err), err == nil && ids == "2,4"
	})
}

// testWhole has transactions rolled back in the middle, which the store does not notice: what follows must not commit. The
// server does that to transactions in the way of a change of the schema.
func testWhole(t *testing.T, node string) {
	own := database(t, node)
	direct := connect(t, node, own, nil)
	for _, text := range []string{
		"CREATE TABLE effect (n INT PRIMARY KEY) ENGINE = InnoDB",
		"CREATE PROCEDURE vanish() ROLLBACK",
	} {
		if _, err := direct.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, several := range []bool{false, true} {
		db := connect(t, node, own, func(c *driver.Config) { c.MultiStatements = several })
		db.SetMaxOpenConns(1)
		b, err := parley.New(t.Context(), open(t, db, nil), &parley.Options{NoMaintenance: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
			t.Fatal(err)
		}
		work := func(in context.Context, lose string) error {
			return b.InTx(in, func(tx *parley.Tx) error {
				for _, text := range []string{"INSERT INTO effect VALUES (1)", lose, "INSERT INTO effect VALUES (2)"} {
					if _, err := tx.SQL().ExecContext(in, text); err != nil {
						return err
					}
				}
				_, err := tx.Post(in, "q", parley.Payload{})
				return err
			})
		}
		for lose, want := range map[string]struct {
			err     error
			effects int
		}{
			"RELEASE SAVEPOINT parley_whole": {parley.ErrSerialization, 0},
			"CALL vanish()":                  {parley.ErrSerialization, 0},
			"DROP TABLE IF EXISTS nothing":   {parley.ErrTxDone, 1}, // it commits what came before it
		} {
			brief, cancel := context.WithTimeout(t.Context(), slow.By(3*time.Second))
			err := work(brief, lose)
			cancel()
			if !errors.Is(err, want.err) {
				t.Errorf("%s: %v, want %v", lose, err, want.err)
			}
			effects, posts := backendtest.Number(t, direct, "SELECT count(*) FROM effect"), backendtest.Number(t, direct, "SELECT count(*) FROM parley_post")
			if effects != want.effects || posts != 0 {
				t.Errorf("%s: %d effects and %d posts are left", lose, effects, posts)
			}
			if _, err := direct.Exec("DELETE FROM effect"); err != nil {
				t.Fatal(err)
			}
		}
		if err := work(t.Context(), "DO 1"); err != nil {
			t.Error(err)
		}
		isTold(t, b)
		if _, err := db.Exec("DELETE FROM effect"); err != nil { // by the pool's connection, which commits by itself again
			t.Fatal(err)
		}
		if _, err := b.Post(t.Context(), "q", parley.Payload{}, parley.Key("k")); err != nil {
			t.Fatal(err)
		}
		effects, posts := backendtest.Number(t, direct, "SELECT count(*) FROM effect"), backendtest.Number(t, direct, "SELECT count(*) FROM parley_post")
		keyed := backendtest.Number(t, direct, "SELECT count(*) FROM parley_message")
		if effects != 0 || posts != 1 || keyed == 0 {
			t.Errorf("%d effects, %d posts and %d with a key", effects, posts, keyed)
		}
		if _, err := direct.Exec("DELETE FROM parley_post"); err != nil {
			t.Fatal(err)
		}
	}
}

// testReplaced: a transaction whose connection was dead begins on another one, which commits by itself afterwards.
func testReplaced(t *testing.T, node string) {
	own := database(t, node)
	direct := connect(t, node, own, nil)
	p, through := backendtest.Through(t, node)
	db := connect(t, through, own, func(c *driver.Config) { c.Logger, c.CheckConnLiveness = &driver.NopLogger{}, false })
	db.SetMaxOpenConns(1)
	b, err := parley.New(t.Context(), open(t, db, nil), &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.Cut()
		if _, err := b.Post(t.Context(), "q", parley.Payload{}, parley.Key("k")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Post(t.Context(), "q", parley.Payload{}); err != nil {
			t.Fatal(err)
		}
	}
	keyed, posts := backendtest.Number(t, direct, "SELECT count(*) FROM parley_message"), backendtest.Number(t, direct, "SELECT count(*) FROM parley_post")
	if keyed != 3 || posts != 3 {
		t.Errorf("%d posts with a key and %d without are stored, want 3 of each", keyed, posts)
	}
}

// isTold: who finds that something is not there hears that the transaction was gone.
func isTold(t *testing.T, b *parley.Broker) {
	missed := errors.New("what was there is not there")
	err := b.InTx(t.Context(), func(tx *parley.Tx) error {
		_, err := tx.SQL().ExecContext(t.Context(), "CALL vanish()")
		return errors.Join(missed, err)
	})
	if !errors.Is(err, missed) || !errors.Is(err, parley.ErrSerialization) {
		t.Errorf("%v, want %v and ErrSerialization", err, missed)
	}
}

// testTurns migrates on all nodes concurrently without GET_LOCK, which Percona XtraDB Cluster
// refuses and which other nodes would not see. Another connection has that lock.
func testTurns(t *testing.T, nodes []string) {
	base := database(t, nodes[0])
	var dbs []*sql.DB
	for _, node := range nodes {
		dbs = append(dbs, connect(t, node, base, nil))
	}
	if _, err := dbs[0].Exec(fmt.Sprintf("SELECT GET_LOCK('parley migrate %x', 0)", base)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), slow.By(2*time.Minute))
	defer cancel()
	var all sync.WaitGroup
	for _, db := range dbs {
		all.Go(func() {
			if err := mysql.New(db, nil).Migrate(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	take := func(until string) {
		t.Helper()
		if _, err := dbs[1].Exec("UPDATE parley_turn SET owner = x'01', until = " + until); err != nil {
			t.Fatal(err)
		}
	}
	take("9000000000000000") // another program, on another node
	first := mysql.New(dbs[0], nil)
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := first.Uninstall(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("out of turn: %v", err)
	}
	if err := first.Check(ctx); err != nil {
		t.Error(err)
	}
	take("1") // it has died
	if err := first.Uninstall(ctx); err != nil {
		t.Error(err)
	}
	if left := backendtest.Number(t, dbs[0], "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()"); left != 0 {
		t.Errorf("%d tables are left", left)
	}
}

// killNode kills the process that listens at an address of this machine.
func killNode(t *testing.T, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range processes {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00--port="+u.Port()+"\x00")) || !bytes.Contains(line, []byte("wsrep-on=ON")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no process listens at %s", address)
}

// cluster is where the traffic goes: to one node at a time.
type cluster struct {
	*testing.T
	nodes []string

	mu        sync.Mutex
	at        int
	moved     int
	committed map[string]int // by stream: how many are known to be committed
}

// broker opens one on the node of the moment.
func (c *cluster) broker() *parley.Broker {
	for {
		c.mu.Lock()
		node := c.nodes[c.at]
		c.mu.Unlock()
		s, err := mysql.Open(context.Background(), node, nil)
		if err == nil {
			b, err := parley.New(context.Background(), s, &parley.Options{Poll: 20 * time.Millisecond})
			if err == nil {
				return b
			}
			s.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// work calls f until ctx ends, with another broker after the connection was lost.
func (c *cluster) work(ctx context.Context, f func(b *parley.Broker) error) {
	b := c.broker()
	defer func() { b.Close() }()
	for ctx.Err() == nil {
		err := f(b)
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, parley.ErrSerialization), errors.Is(err, parley.ErrNoMessage):
		default:
			c.Logf("%v", err)
			b.Close()
			b = c.broker()
			c.mu.Lock()
			c.moved++
			c.mu.Unlock()
		}
	}
}

// send posts the numbers of a stream, one in a transaction. One whose commit may or
// may not have happened is tried again, with a key that tells.
func (c *cluster) send(ctx context.Context, stream string) {
	n := 0
	c.work(ctx, func(b *parley.Broker) error {
		begun := context.WithoutCancel(ctx)
		err := b.InTx(begun, func(tx *parley.Tx) error {
			isNew, err := tx.Once(begun, fmt.Sprint(stream, " ", n))
			if err != nil || !isNew {
				return err
			}
			_, err = tx.Post(begun, "q", parley.Payload{Body: fmt.Appendf(nil, "%s %d", stream, n)}, parley.Key(stream))
			return err
		})
		if err != nil {
			return err
		}
		n++
		c.mu.Lock()
		c.committed[stream] = n
		c.mu.Unlock()
		return nil
	})
}

// receive writes down what comes, in the transaction that acknowledges it.
func (c *cluster) receive(ctx context.Context) {
	c.work(ctx, func(b *parley.Broker) error {
		d, err := b.Receive(ctx, "q", &parley.ReceiveOptions{Wait: 200 * time.Millisecond})
		if err != nil || d == nil {
			return err
		}
		defer d.Close()
		tx, err := d.Tx(ctx)
		if err != nil {
			return err
		}
		for _, m := range d.Messages {
			stream, n, _ := strings.Cut(string(m.Body), " ")
			if _, err := tx.SQL().ExecContext(ctx, "INSERT INTO effect (stream, n) VALUES ('"+stream+"', "+n+")"); err != nil {
				var e *driver.MySQLError
				if errors.As(err, &e) && e.Number == 1062 {
					c.Errorf("%s came twice", m.Body)
				}
				return err
			}
		}
		return d.Ack(ctx)
	})
}
