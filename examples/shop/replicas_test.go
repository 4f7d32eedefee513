package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleymq/parley"
)

// replica is a process of the program that is started again when it has ended.
type replica struct {
	*testing.T
	program, db, addr string

	mu  sync.Mutex
	cmd *exec.Cmd
	log strings.Builder
}

func (r *replica) start() {
	cmd := exec.Command(r.program, "-db", r.db, "-addr", r.addr)
	cmd.Stdout, cmd.Stderr = &r.log, &r.log
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = cmd
}

// end ends the process and returns how it ended.
func (r *replica) end(how syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return nil
	}
	_ = r.cmd.Process.Signal(how)
	err := r.cmd.Wait()
	r.cmd = nil
	return err
}

// TestReplicas runs three replicas on one database. They are killed, they are replaced one after the other, and
// the schema becomes the next version.
func TestReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	program := filepath.Join(t.TempDir(), "shop")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Run("sqlite", func(t *testing.T) { replicas(t, program, filepath.Join(t.TempDir(), "shop.db")) })
	t.Run("postgres", func(t *testing.T) {
		dsn := os.Getenv("PARLEY_TEST_POSTGRES")
		if dsn == "" {
			if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "postgres") {
				t.Fatal("PARLEY_TEST_POSTGRES is not set, but PARLEY_TEST_REQUIRE asks for postgres")
			}
			t.Skip("PARLEY_TEST_POSTGRES is not set: it is the data source name of a PostgreSQL server")
		}
		const schema = "parley_shop"
		db, _, err := open(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		drop := func(ctx context.Context) {
			if _, err := db.ExecContext(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
				t.Error(err)
			}
		}
		drop(t.Context())
		if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
			t.Fatal(err)
		}
		defer drop(context.WithoutCancel(t.Context()))
		replicas(t, program, dsn+map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")]+"search_path="+schema)
	})
}

func replicas(t *testing.T, program, name string) {
	var all []*replica
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		r := &replica{T: t, program: program, db: name, addr: l.Addr().String()}
		r.start()
		all = append(all, r)
		defer func() {
			_ = r.end(syscall.SIGKILL)
			if t.Failed() {
				t.Logf("%s\n%s", r.addr, r.log.String())
			}
		}()
	}
	var placed orders
	ctx, stop := context.WithCancel(t.Context())
	var customers sync.WaitGroup
	for i := range 3 {
		customers.Go(func() { customer(ctx, fmt.Sprint("customer ", i), all, &placed) })
	}

	placed.enough(t, 20)
	for range 4 {
		r := all[rand.IntN(len(all))]
		_ = r.end(syscall.SIGKILL)
		r.start()
		placed.enough(t, 5)
	}
	nextSchema(t, name)
	for _, r := range all {
		if err := r.end(syscall.SIGTERM); err != nil {
			t.Errorf("a replica that was told to end: %v", err)
		}
		r.start()
		placed.enough(t, 5)
	}
	stop()
	customers.Wait()
	check(t, name, placed.ids)
}

// orders are those that were placed.
type orders struct {
	mu  sync.Mutex
	ids []string
}

func (o *orders) add(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids = append(o.ids, id)
}

func (o *orders) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ids)
}

// enough waits until n more were placed.
func (o *orders) enough(t *testing.T, n int) {
	t.Helper()
	start := o.count()
	for end := time.Now().Add(time.Minute); o.count() < start+n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("behind %d orders, only %d of %d were placed within a minute", start, o.count()-start, n)
		}
	}
}

// customer places orders until ctx ends.
func customer(ctx context.Context, name string, all []*replica, placed *orders) {
	client := &http.Client{Timeout: 20 * time.Second}
	for ctx.Err() == nil {
		r := all[rand.IntN(len(all))]
		answer, err := client.Post("http://"+r.addr+"/orders", "", strings.NewReader(`{"Customer": "`+name+`", "Item": "tea"}`))
		if err != nil {
			time.Sleep(5 * time.Millisecond) // the replica is being started
			continue
		}
		id, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err == nil && answer.StatusCode == http.StatusOK {
			placed.add(strings.TrimSpace(string(id)))
		}
	}
}

// nextSchema migrates to a schema that the replicas do not know yet, which programs of one version before have to bear.
func nextSchema(t *testing.T, name string) {
	t.Helper()
	db, store, err := open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	defer store.Close()
	type versions interface {
		SetMigrations(func(known []string) []string) error
	}
	if _, err := store.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = store.(versions).SetMigrations(func(known []string) []string {
		return append(slices.Clip(known), fmt.Sprintf(`ALTER TABLE parley_stream ADD COLUMN later INTEGER NOT NULL DEFAULT 0;
			UPDATE parley_meta SET schema_version = %d WHERE id = 1;`, len(known)+1))
	})
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// check waits until every placed order is paid and confirmed, once each. An order that was in hand when two replicas
// were killed may look as if it had killed them. It is parked then, and an operator retries it.
func check(t *testing.T, name string, placed []string) {
	t.Helper()
	db, store, err := open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b, err := parley.New(t.Context(), store, &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	retry := func() {
		for _, q := range []string{"orders", "billing", "mail"} {
			parked, err := b.Admin().Parked(t.Context(), q, parley.Place{}, 100)
			for _, g := range parked {
				err = errors.Join(err, b.Admin().Unpark(t.Context(), g.Group))
			}
			if err != nil && !errors.Is(err, parley.ErrUnknownGroup) && !errors.Is(err, parley.ErrGroupBusy) {
				t.Fatal(err)
			}
		}
	}
	count := func(query string, args ...any) (n int) {
		if err := db.QueryRow(query, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for end := time.Now().Add(time.Minute); count("SELECT count(*) FROM orders") != count("SELECT count(*) FROM mails"); {
		if time.Now().After(end) {
			t.Fatalf("%d orders, %d of them placed, and %d mails",
				count("SELECT count(*) FROM orders"), count("SELECT count(*) FROM orders WHERE state = 'placed'"), count("SELECT count(*) FROM mails"))
		}
		retry()
		time.Sleep(20 * time.Millisecond)
	}
	for _, id := range placed {
		var state string
		err := db.QueryRow("SELECT state FROM orders WHERE id = $1", id).Scan(&state)
		if err == sql.ErrNoRows {
			t.Errorf("order %s was placed and is lost", id)
		} else if err != nil || state != "paid" {
			t.Errorf("order %s is %s, %v", id, state, err)
		}
		if mails := count("SELECT count(*) FROM mails WHERE text LIKE $1", "order "+id+" is paid%"); mails != 1 {
			t.Errorf("%d mails about order %s", mails, id)
		}
	}
	t.Logf("%d orders", len(placed))
}
