// Command shop is a service as a new user would write it: orders by HTTP, handlers with replies, a recurring job.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log"
	"net/http"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres/pgxstore"
	"github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/recurring"
)

func main() {
	name := flag.String("db", "shop.db", "`file` of SQLite, or postgres://…")
	addr := flag.String("addr", "127.0.0.1:8080", "`address` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *name, *addr); err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) { // it may be told to end while it starts
		log.Fatal(err)
	}
}

// open opens the program's database, which is Parley's too.
func open(ctx context.Context, name string) (*sql.DB, parley.Backend, error) {
	if strings.HasPrefix(name, "postgres:") {
		pool, err := pgxpool.New(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		return stdlib.OpenDBFromPool(pool), pgxstore.New(pool, nil), nil
	}
	db, err := sql.Open("sqlite", name+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	return db, sqlite.New(db, nil), err
}

func run(ctx context.Context, name, addr string) error {
	db, store, err := open(ctx, name)
	if err != nil {
		return err
	}
	defer db.Close()
	b, err := parley.New(ctx, store, &parley.Options{Outgoing: outgoing, Lease: 5 * time.Second})
	if err != nil {
		return err
	}
	defer b.Close()
	s := &Shop{B: b, DB: db, Logf: log.Printf, Pay: func(_ context.Context, c Charge, request string) (string, error) {
		return "P-" + request[:8], nil // a payment service
	}}
	server := &http.Server{Addr: addr, Handler: s.Routes()}
	worker, err := b.NewWorker("orders", s.Mux(), &parley.WorkerOptions{Also: []string{"billing", "mail", "reports"}})
	if err := errors.Join(err, s.Setup(ctx), recurring.Start(ctx, b)); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	var served, worked error
	var both sync.WaitGroup
	both.Go(func() {
		defer stop() // neither goes on without the other
		worked = worker.Run(work)
	})
	both.Go(func() {
		defer stop()
		served = server.ListenAndServe()
	})
	log.Print("orders at http://", addr)
	<-work.Done()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = server.Shutdown(late) // requests finish, and so do handlers
	both.Wait()
	if errors.Is(served, http.ErrServerClosed) {
		served = nil
	}
	return errors.Join(err, served, worked)
}
