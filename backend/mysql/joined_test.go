package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/mysql"
	"github.com/parleymq/parley/internal/slow"
)

// snapshots runs a test on both servers, on MariaDB with innodb_snapshot_isolation OFF and, if
// known, ON. With that setting a transaction cannot lock a row that was changed since the
// transaction has read.
func snapshots(t *testing.T, test func(t *testing.T, server string, set func(*driver.Config))) {
	each(t, func(t *testing.T, server string) {
		var name, is string
		err := connect(t, server, "", nil).QueryRow("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").Scan(&name, &is)
		if errors.Is(err, sql.ErrNoRows) {
			test(t, server, nil)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"OFF", "ON"} {
			t.Run(value, func(t *testing.T) {
				test(t, server, func(c *driver.Config) { c.Params = map[string]string{name: value} })
			})
		}
	})
}

// TestSnapshotIsolation runs the suite in sessions of the application's that have it, or
// not.
func TestSnapshotIsolation(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		if set == nil {
			t.Skip("the server does not know innodb_snapshot_isolation")
		}
		suite(t, connect(t, server, database(t, server), set))
	})
}

// TestEveryStatementRunsWithoutSnapshotIsolation: the application's session has snapshot isolation
// on. Every statement of the store that reads or writes rows turns it off for itself.
func TestEveryStatementRunsWithoutSnapshotIsolation(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		if set == nil {
			t.Skip("the server does not know innodb_snapshot_isolation")
		}
		var config driver.Config
		set(&config)
		db, count := counted(t, server, set)
		b := open(t, db, nil)
		count.Take()
		f := backendtest.New(t, b)
		d := f.Open()
		f.Send(d.A.Handle, "1", "2")
		f.Post(backend.Posting{Body: []byte("x")})
		f.Post(backend.Posting{Key: "k", Body: []byte("y")})
		f.Drain(f.QB)
		f.Drain(f.QP)
		if _, err := b.Maintain(f.Ctx, backend.JobDelayed, 10); err != nil {
			t.Fatal(err)
		}
		all, without := count.Take(), 0
		on := config.Params["innodb_snapshot_isolation"] == "ON"
		for _, statement := range all {
			if says := strings.HasPrefix(statement, "SET STATEMENT innodb_snapshot_isolation = 0"); says {
				without++
			} else if on && !about.MatchString(statement) {
				t.Errorf("with snapshot isolation: %s", statement)
			}
		}
		if len(all) < 50 || on != (without > 0) {
			t.Errorf("%d of %d statements say so", without, len(all))
		}
	})
}

// TestStatementsHaveNoTimeLimit: MariaDB may report nothing though max_statement_time has ended
// a statement. Whatever the store sends that reads or writes rows lifts the limit.
func TestStatementsHaveNoTimeLimit(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db, count := counted(t, server, nil)
		f := backendtest.New(t, open(t, db, nil))
		count.Take()
		d := f.Open()
		f.Send(d.A.Handle, "1", "2")
		f.Post(backend.Posting{Key: "k", Body: []byte("y")})
		f.Drain(f.QB)
		f.Drain(f.QP)
		for job := range backend.Job(backend.JobCount) {
			if _, err := f.Backend.Maintain(f.Ctx, job, 10); err != nil {
				t.Fatal(err)
			}
		}
		all := count.Take()
		for _, statement := range all {
			if !about.MatchString(statement) && !strings.Contains(statement, "max_statement_time = 0") {
				t.Errorf("with a limit: %s", statement)
			}
		}
		if len(all) < 50 {
			t.Errorf("%d statements: that is no workload", len(all))
		}
	})
}

// about matches statements that read and write no rows.
var about = regexp.MustCompile(`^(SET TRANSACTION|START|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|SHOW)\b`)

// TestBatchWaitsForItsSecondGuard: the sender that it waits for changes the stream after
// the batch has begun to read.
func TestBatchWaitsForItsSecondGuard(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		f := backendtest.New(t, open(t, connect(t, server, database(t, server), set), nil))
		one, two := f.Open(), f.Open()
		if bytes.Compare(one.A.Handle[:], two.A.Handle[:]) > 0 {
			one, two = two, one
		}
		first := f.Begin()
		_, err := first.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(two.A.Handle, "first")})
		f.OK(err)
		done := make(chan error, 1)
		go func() {
			second := f.Begin()
			_, err := second.Send(f.Ctx, f.Version, []backend.Outgoing{
				backendtest.Message(one.A.Handle, "second"), backendtest.Message(two.A.Handle, "second"),
			})
			done <- errors.Join(err, second.Commit(f.Ctx))
		}()
		waiting(t, server)
		f.OK(first.Commit(f.Ctx))
		f.OK(<-done)
		f.Equal("received", f.Drain(f.QB), []string{"first", "second", "second"})
	})
}

// waiting waits until some transaction waits for a lock. What it reads is as old as the
// last look if that was less than 0.1 s ago.
func waiting(t *testing.T, server string) {
	t.Helper()
	db := connect(t, server, "", nil)
	slow.Eventually(t, 20*time.Second, "a transaction waits for a lock", func() (any, bool) {
		time.Sleep(150 * time.Millisecond)
		n := backendtest.Number(t, db, "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
		return n, n > 0
	})
}

// joinedRead joins a transaction at the engines' own level that has read something.
func joinedRead(f *backendtest.Fixture, db *sql.DB, b backend.Joiner) (*sql.Tx, backend.Tx) {
	user, err := db.BeginTx(f.Ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	f.OK(err)
	var n int
	f.OK(user.QueryRow("SELECT count(*) FROM parley_message").Scan(&n))
	tx, err := b.Join(f.Ctx, user)
	f.OK(err)
	return user, tx
}

// hasty is the fixture on a handle that gives up a wait after a second.
func hasty(t *testing.T, f *backendtest.Fixture, server, base string) *backendtest.Fixture {
	h := *f
	h.Backend = open(t, connect(t, server, base, func(c *driver.Config) {
		c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	}), nil)
	return &h
}

// begin begins a conversation like those of Open, and accepts it.
func begin(f *backendtest.Fixture, tx backend.Tx) (backend.Endpoint, error) {
	a, b, c := backend.NewID(), backend.NewID(), backend.NewID()
	near := backend.Endpoint{Handle: a, Conversation: c, FarHandle: b, Initiator: true, Service: "A", FarService: "B",
		Contract: "c", Queue: f.QA, Group: a, Priority: 5}
	far := backend.Endpoint{Handle: b, Conversation: c, FarHandle: a, Service: "B", FarService: "A", Contract: "c", Queue: f.QB, Group: b, Priority: 5}
	err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: near, NewGroup: true})
	if err == nil {
		_, err = tx.Accept(f.Ctx, f.Version, a, far)
	}
	return near, err
}

// TestJoinedLocksNothingElse: a transaction of the application's at REPEATABLE READ
// that has sent and posted holds up only the senders on the same stream.
// The others give up at once where they would wait.
func TestJoinedLocksNothingElse(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		base := database(t, server)
		db := connect(t, server, base, set)
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		mine, theirs, third := f.Open(), f.Open(), f.Open()
		var batch []backend.Outgoing
		for range 20 { // most of a small table
			batch = append(batch, backendtest.Message(f.Open().A.Handle, "batch"))
		}
		f.Post(backend.Posting{Key: "old", Body: []byte("old")})
		hasty := hasty(t, f, server, base)
		for _, x := range []struct {
			what string
			do   func(tx backend.Tx) error
		}{
			{"a send", func(tx backend.Tx) error {
				_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(mine.A.Handle, "one")})
				return err
			}},
			{"a batch", func(tx backend.Tx) error {
				_, err := tx.Send(f.Ctx, f.Version, batch)
				return err
			}},
			{"a post", func(tx backend.Tx) error {
				_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("post")})})
				return err
			}},
			{"posts with a key", func(tx backend.Tx) error {
				_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: "old"}), f.Posting(backend.Posting{Key: "new"})})
				return err
			}},
			{"a post with a unique value", func(tx backend.Tx) error {
				_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: "old", Unique: "u"})})
				return err
			}},
			{"a conversation that is begun", func(tx backend.Tx) error {
				_, err := begin(f, tx)
				return err
			}},
			{"a key of Once", func(tx backend.Tx) error {
				_, err := tx.Once(f.Ctx, "once", time.Hour)
				return err
			}},
			{"what is withheld", func(tx backend.Tx) error {
				_, err := tx.Withhold(f.Ctx, []backend.Outgoing{backendtest.Message(mine.A.Handle, "later")}, "for a test")
				return err
			}},
		} {
			user, tx := joinedRead(f, db, b)
			f.OK(x.do(tx))
			try := func(what string, do func(tx backend.Tx) error) {
				t.Helper()
				other := hasty.Begin()
				if err := do(other); err != nil {
					t.Errorf("beside %s, %s: %v", x.what, what, err)
				}
				f.OK(other.Rollback(f.Ctx))
			}
			try("END", func(tx backend.Tx) error {
				_, err := tx.EndDialog(f.Ctx, backend.End{Handle: theirs.A.Handle, MessageID: backend.NewID()})
				return err
			})
			try("END of the peer", func(tx backend.Tx) error {
				_, err := tx.EndDialog(f.Ctx, backend.End{Handle: mine.B.Handle, MessageID: backend.NewID()})
				return err
			})
			try("Define", func(tx backend.Tx) error {
				c, err := tx.Catalog(f.Ctx, true)
				if err != nil {
					return err
				}
				_, err = tx.PutCatalog(f.Ctx, &backend.Catalog{Queues: c.Queues})
				return err
			})
			try("a send", func(tx backend.Tx) error {
				_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(third.A.Handle, "x")})
				return err
			})
			try("a post", func(tx backend.Tx) error {
				_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("x")})})
				return err
			})
			try("a conversation that is begun", func(tx backend.Tx) error {
				d, err := begin(f, tx)
				if err == nil {
					_, err = tx.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(d.Handle, "x")})
				}
				return err
			})
			try("posts with other keys", func(tx backend.Tx) error {
				_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: "a"}), f.Posting(backend.Posting{Key: "p"})})
				return err
			})
			f.OK(user.Rollback())
		}
	})
}

// TestJoinedCatalog: a transaction of the application's that has read before the catalog
// was changed goes on with what it has read, however often it looks.
func TestJoinedCatalog(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		db := connect(t, server, database(t, server), set)
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		d := f.Open()
		user, tx := joinedRead(f, db, b)
		before := f.Version
		f.Do(func(tx backend.Tx) error {
			c, err := tx.Catalog(f.Ctx, true)
			if err == nil {
				_, err = tx.PutCatalog(f.Ctx, &backend.Catalog{Queues: c.Queues[:1]})
			}
			return err
		})
		c, err := tx.Catalog(f.Ctx, false)
		f.OK(err)
		f.Equal("version", c.Version, before)
		_, err = tx.Send(f.Ctx, c.Version, []backend.Outgoing{backendtest.Message(d.A.Handle, "sent")})
		f.OK(err)
		_, err = tx.Post(f.Ctx, c.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("post")})})
		f.OK(err)
		f.OK(user.Commit())
		f.Do(func(tx backend.Tx) error {
			c, err := tx.Catalog(f.Ctx, false)
			f.Version = c.Version
			return err
		})
		f.Equal("sent", f.Drain(f.QB), []string{"sent"})
		f.Equal("posted", f.Drain(f.QP), []string{"post"})
	})
}

// TestJoinedTooLarge sends more than the server takes in a transaction of the
// application's, which goes on without it.
func TestJoinedTooLarge(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), func(c *driver.Config) { c.MaxAllowedPacket = 1 << 30 })
		var limit int
		if err := db.QueryRow("SELECT @@max_allowed_packet").Scan(&limit); err != nil {
			t.Fatal(err)
		}
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		user, tx := joinedRead(f, db, b)
		body := make([]byte, limit)
		_, err := tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: body})})
		f.Is(err, backend.ErrTooLarge)
		_, err = tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Body: []byte("small")})})
		f.OK(err)
		f.OK(user.Commit())
		f.Equal("posted", f.Drain(f.QP), []string{"small"})
	})
}

// TestPostProcedureInATransaction: a transaction at REPEATABLE READ posts by SQL to keys
// that others have used and made since it has read. With innodb_snapshot_isolation that
// is so from the version on that has it ON by itself.
func TestPostProcedureInATransaction(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		db := connect(t, server, database(t, server), set)
		var version string
		var strict bool
		if err := db.QueryRow("SELECT version()").Scan(&version); err != nil {
			t.Fatal(err)
		}
		if db.QueryRow("SELECT @@innodb_snapshot_isolation").Scan(&strict) == nil && strict {
			var major, minor int
			if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < 11 || major == 11 && minor < 8 {
				t.Skipf("%s does not have it by itself", version)
			}
		}
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		f.Post(backend.Posting{Key: "old", Body: []byte("1")})
		user, _ := joinedRead(f, db, b)
		f.Post(backend.Posting{Key: "old", Body: []byte("2")})
		f.Post(backend.Posting{Key: "new", Body: []byte("1")})
		for _, key := range []string{"old", "new"} {
			var id string
			f.OK(user.QueryRow("CALL parley_post('qp', 'm', 'last', ?)", key).Scan(&id))
		}
		f.OK(user.Commit())
		f.Equal("posted", f.Drain(f.QP), []string{"1", "2", "last", "1", "last"})
	})
}

// TestLongLists: of what is in a list of a thousand ids and more only that is locked.
func TestLongLists(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		base := database(t, server)
		f := backendtest.New(t, open(t, connect(t, server, base, nil), nil))
		posts := make([]backend.Posting, 1100)
		for i := range posts {
			posts[i] = f.Posting(backend.Posting{Key: fmt.Sprint("k", i), Body: []byte("x")})
		}
		f.Do(func(tx backend.Tx) error {
			_, err := tx.Post(f.Ctx, f.Version, posts)
			return err
		})
		d := f.Open()
		other := f.Begin() // has a guard that no other transaction asks for
		_, err := other.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(d.A.Handle, "x")})
		f.OK(err)
		hasty := hasty(t, f, server, base)
		for i := range posts {
			posts[i].ID = backend.NewID()
		}
		hasty.Do(func(tx backend.Tx) error {
			_, err := tx.Post(f.Ctx, f.Version, posts)
			return err
		})
		r := f.Request(f.QP)
		r.MaxGroups, r.MaxMessages, r.Lease = 1100, 10, time.Minute
		c := hasty.Claim(r)
		f.Equal("groups", len(c.Holds), 1100)
		hasty.Do(func(tx backend.Tx) error {
			var outcomes []backend.Outcome
			for _, h := range c.Holds {
				f.Equal("messages", len(h.Messages), 2)
				outcomes = append(outcomes, backend.Outcome{Hold: h, Done: h.Messages})
			}
			_, err := tx.Settle(f.Ctx, outcomes)
			return err
		})
		f.OK(other.Commit(f.Ctx))
		f.Equal("left", f.Drain(f.QP), []string(nil))
	})
}

// TestJoined works in transactions of the application's at the levels that they
// have by themselves, and at READ COMMITTED.
func TestJoined(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		db := connect(t, server, database(t, server), set)
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		d := f.Open()
		f.Send(d.A.Handle, "1")
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			user, err := db.BeginTx(f.Ctx, &sql.TxOptions{Isolation: level})
			f.OK(err)
			var n int
			f.OK(user.QueryRow("SELECT count(*) FROM parley_message").Scan(&n)) // from here on nothing new is seen
			if level != sql.LevelSerializable {                                 // which would wait
				f.Post(backend.Posting{Key: level.String(), Body: []byte("before")})
			}
			tx, err := b.Join(f.Ctx, user)
			f.OK(err)
			_, err = tx.Send(f.Ctx, f.Version, []backend.Outgoing{backendtest.Message(d.A.Handle, "joined")})
			f.OK(err)
			_, err = tx.Post(f.Ctx, f.Version, []backend.Posting{f.Posting(backend.Posting{Key: level.String(), Body: []byte("after")})})
			f.OK(err)
			r := f.Request(f.QB)
			r.Lease = 0
			c, err := tx.Claim(f.Ctx, r)
			if level == sql.LevelReadCommitted {
				f.OK(err)
				f.Equal("claimed", len(c.Holds), 1)
			} else {
				f.Is(err, backend.ErrIsolation)
				f.Is(tx.LockGroup(f.Ctx, d.A.Group), backend.ErrIsolation)
			}
			f.OK(tx.Commit(f.Ctx))
			f.OK(user.Commit())
		}
		f.Equal("dialog", f.Drain(f.QB), []string{"1", "joined", "joined", "joined", "joined"})
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			h := f.One(f.Request(f.QP))
			f.Equal(level.String(), backendtest.Bodies(h.Messages), []string{"before", "after"})
			f.Ack(h)
		}
	})
}

// TestJoinedOnASlowServer: what a test of the level writes may take seconds. That says nothing of the level.
func TestJoinedOnASlowServer(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		user, err := db.BeginTx(f.Ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		f.OK(err)
		defer user.Rollback()
		tx, err := b.Join(f.Ctx, user)
		f.OK(err)
		slow, err := db.Conn(f.Ctx)
		f.OK(err)
		defer slow.Close()
		_, err = slow.ExecContext(f.Ctx, "LOCK TABLES parley_probe READ")
		f.OK(err)
		unlocked := make(chan error)
		time.AfterFunc(1500*time.Millisecond, func() {
			_, err := slow.ExecContext(f.Ctx, "UNLOCK TABLES")
			unlocked <- err
		})
		_, err = tx.Claim(f.Ctx, f.Request(f.QP))
		f.OK(err)
		f.OK(<-unlocked)
		f.OK(tx.Commit(f.Ctx))
		f.OK(user.Commit())
	})
}

// TestJoinedOnAnotherServer: an application's transaction may be on another server than the store's connections, as after a
// switchover. What they write is seen there later, or never if the other server is out. That says nothing of its level.
func TestJoinedOnAnotherServer(t *testing.T) {
	var fixtures []*backendtest.Fixture
	var stores []*mysql.Store
	var dbs []*sql.DB
	for _, env := range []string{"PARLEY_TEST_MYSQL", "PARLEY_TEST_MARIADB"} {
		server := backendtest.Server(t, strings.ToLower(strings.TrimPrefix(env, "PARLEY_TEST_")), env, "the URL of a database for tests")
		db := connect(t, server, database(t, server), func(*driver.Config) {})
		b := open(t, db, nil)
		dbs, stores, fixtures = append(dbs, db), append(stores, b), append(fixtures, backendtest.New(t, b))
	}
	f := fixtures[0]
	joined := func() error {
		user, err := dbs[1].BeginTx(f.Ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		f.OK(err)
		defer user.Rollback()
		tx, err := stores[0].Join(f.Ctx, user)
		f.OK(err)
		defer tx.Rollback(f.Ctx)
		_, err = tx.Claim(f.Ctx, f.Request(f.QP))
		return err
	}
	f.Is(joined(), backend.ErrConnection)

	ctx, cancel := context.WithCancel(f.Ctx)
	copying := make(chan struct{})
	go func() {
		defer close(copying)
		for ctx.Err() == nil {
			var id []byte
			if dbs[0].QueryRowContext(ctx, "SELECT probe_id FROM parley_probe").Scan(&id) == nil {
				dbs[1].ExecContext(ctx, "INSERT IGNORE INTO parley_probe (probe_id) VALUES (?)", id)
			}
		}
	}()
	err := joined()
	cancel()
	<-copying
	if errors.Is(err, backend.ErrConnection) || errors.Is(err, backend.ErrIsolation) {
		t.Errorf("a row that arrived later: %v", err)
	}
}

// TestJoinedWithheld withholds messages in a transaction of the application's that has
// read before others did: they come behind those of the others.
func TestJoinedWithheld(t *testing.T) {
	snapshots(t, func(t *testing.T, server string, set func(*driver.Config)) {
		db := connect(t, server, database(t, server), set)
		b := open(t, db, nil)
		f := backendtest.New(t, b)
		d := f.Open()
		withhold := func(tx backend.Tx, body string) backend.Sent {
			t.Helper()
			sent, err := tx.Withhold(f.Ctx, []backend.Outgoing{backendtest.Message(d.A.Handle, body)}, "for a test")
			f.OK(err)
			return sent[0]
		}
		deliver := func() []string {
			t.Helper()
			f.Do(func(tx backend.Tx) error {
				_, err := tx.Deliver(f.Ctx, d.A.Handle)
				return err
			})
			return f.Drain(f.QB)
		}
		for i, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			user, err := db.BeginTx(f.Ctx, &sql.TxOptions{Isolation: level})
			f.OK(err)
			var n int
			f.OK(user.QueryRow("SELECT count(*) FROM parley_message").Scan(&n)) // from here on nothing new is seen
			f.Do(func(tx backend.Tx) error {
				f.Equal("number", withhold(tx, "before").Seq, int64(3*i))
				return nil
			})
			if i == 1 { // what was withheld arrives, and is received
				f.Equal("delivered", deliver(), []string{"before", "joined", "after", "before"})
			}
			tx, err := b.Join(f.Ctx, user)
			f.OK(err)
			f.Equal("number", withhold(tx, "joined").Seq, int64(3*i+1))
			f.OK(tx.Commit(f.Ctx))
			f.OK(user.Commit())
			f.Do(func(tx backend.Tx) error {
				f.Equal("number", withhold(tx, "after").Seq, int64(3*i+2))
				return nil
			})
		}
		f.Equal("delivered", deliver(), []string{"joined", "after", "before", "joined", "after"})
	})
}

// TestJoiningFirst: transactions may have all connections of the pool when a store joins them first.
func TestJoiningFirst(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db := connect(t, server, database(t, server), nil)
		another := mysql.New(db, nil)
		defer another.Close()
		backendtest.JoiningFirst(t, open(t, db, nil), another, db)
	})
}

// TestJoining: a *sql.DB, and a *sql.Conn without a transaction, are refused. The check does not
// change the isolation level of the connection's next transaction.
func TestJoining(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		own := database(t, server)
		db := connect(t, server, own, nil)
		b := open(t, db, nil)
		backendtest.Joining(t, b, db)
		f := &backendtest.Fixture{T: t, Ctx: t.Context()}
		conn, err := db.Conn(f.Ctx)
		f.OK(err)
		defer conn.Close()
		exec := func(on backend.Execer, text string) {
			t.Helper()
			_, err := on.ExecContext(f.Ctx, text)
			f.OK(err)
		}
		exec(db, "CREATE TABLE seen (n INT)")
		exec(conn, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		_, err = b.Join(f.Ctx, conn)
		f.Is(err, backend.ErrNoTx)
		exec(conn, "START TRANSACTION")
		count := func() (n int) {
			t.Helper()
			f.OK(conn.QueryRowContext(f.Ctx, "SELECT count(*) FROM seen").Scan(&n))
			return n
		}
		f.Equal("rows", count(), 0)
		exec(db, "INSERT INTO seen VALUES (1)")
		f.Equal("rows that a repeatable read sees", count(), 0)
		exec(conn, "ROLLBACK")
	})
}
