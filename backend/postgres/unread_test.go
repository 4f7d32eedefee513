package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend/postgres"
)

// late is a proxy to a server that is slow to read what comes on connections that it had before.
type late struct {
	since atomic.Int64 // when it became slow; 0: not yet
}

func (p *late) copy(to, from net.Conn, began time.Time) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if since := p.since.Load(); since > 0 && began.UnixNano() < since {
			time.Sleep(10 * time.Millisecond)
		}
		if _, e := to.Write(buffer[:n]); err != nil || e != nil {
			return
		}
	}
}

// through returns a name of the server by way of the proxy.
func (p *late) through(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skipf("the server's name is no URL: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", u.Host)
			if err != nil {
				client.Close()
				continue
			}
			go p.copy(server, client, time.Now())
			go func() { defer client.Close(); io.Copy(client, server) }()
		}
	}()
	through := *u
	through.Host = l.Addr().String()
	return through.String()
}

// TestCancelledBeforeItIsRead: a context ends before the server has read the statement, which waits for a lock.
func TestCancelledBeforeItIsRead(t *testing.T) {
	dsn := server(t)
	db := connect(t, "postgres", dsn)
	o := postgres.Options{Schema: schema(t, db)}
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p := new(late)
	var brokers []*parley.Broker
	for _, db := range []*sql.DB{db, connect(t, "postgres", p.through(t, dsn))} {
		b, err := parley.New(ctx, open(t, db, o), nil)
		ok(err)
		t.Cleanup(func() { b.Close() })
		brokers = append(brokers, b)
	}
	here, behind := brokers[0], brokers[1]
	ok(here.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "q"}},
		Services: []parley.Service{{Name: "S", Queue: "q", Contracts: []string{parley.DefaultContract}}}}))
	h, err := here.BeginDialog(ctx, "S", "S", nil, parley.Payload{})
	ok(err)
	var patience time.Duration
	brief := func() (context.Context, func()) {
		if p.since.Load() == 0 {
			return ctx, func() {}
		}
		return context.WithTimeout(ctx, patience)
	}
	verbs := []func() error{
		func() error {
			ctx, over := brief()
			defer over()
			return behind.Send(ctx, h, parley.Payload{})
		},
		func() error {
			return behind.InTx(ctx, func(tx *parley.Tx) error {
				ctx, over := brief()
				defer over()
				return tx.Conversation(h).Send(ctx, "", nil)
			})
		},
	}
	for range 3 {
		for _, verb := range verbs {
			ok(verb())
		}
	}
	ok(here.InTx(ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(ctx, "", nil); err != nil { // has the lock
			return err
		}
		p.since.Store(time.Now().UnixNano())
		for i := range 40 { // wherever it is on its way, at some patience it is unread
			patience = time.Duration(i) * time.Millisecond / 2
			done := make(chan error, 1)
			go func() { done <- verbs[i%2]() }()
			select {
			case err := <-done:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("after %v: %v", patience, err)
				}
			case <-time.After(10 * time.Second):
				return fmt.Errorf("verb %d does not end with its context, after %v", i%2, patience)
			}
		}
		return nil
	}))
}
