package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/postgres"
)

func TestSpeed(t *testing.T) {
	if os.Getenv("SPEED") == "" {
		t.Skip()
	}
	db := connect(t, "postgres", server(t))
	db.SetMaxOpenConns(40)
	db.SetMaxIdleConns(40)
	f := backendtest.New(t, open(t, db, postgres.Options{}))
	ctx := context.Background()
	body := make([]byte, 200)
	run := func(name string, workers int, d time.Duration, work func(w int) int) {
		var n atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for w := range workers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for time.Since(start) < d {
					k := work(w)
					if k == 0 {
						return
					}
					n.Add(int64(k))
				}
			}()
		}
		wg.Wait()
		el := time.Since(start)
		fmt.Printf("%-50s %2d workers %8.0f/s (%d)\n", name, workers, float64(n.Load())/el.Seconds(), n.Load())
	}
	tx := func(work func(tx backend.Tx) error) {
		x, err := f.Backend.Begin(ctx)
		if err == nil {
			err = work(x)
		}
		if err == nil {
			err = x.Commit(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	}
	raw := func(w int) int {
		x, _ := db.BeginTx(ctx, nil)
		x.ExecContext(ctx, "SELECT 1")
		x.Commit()
		return 1
	}
	post := func(n int, key bool) func(w int) int {
		return func(w int) int {
			var b []backend.Posting
			for i := range n {
				p := f.Posting(backend.Posting{Body: body})
				if key {
					p.Key = fmt.Sprint("k", w, i%100)
				}
				b = append(b, p)
			}
			tx(func(x backend.Tx) error { _, err := x.Post(ctx, f.Version, b); return err })
			return n
		}
	}
	drain := func(groups, messages int) func(w int) int {
		return func(w int) int {
			k := 0
			tx(func(x backend.Tx) error {
				c, err := x.Claim(ctx, backend.ClaimRequest{Version: f.Version, Queue: f.QP, MaxGroups: groups, MaxMessages: messages, MaxBytes: 4 << 20})
				if err != nil {
					return err
				}
				var o []backend.Outcome
				for _, h := range c.Holds {
					o = append(o, backend.Outcome{Hold: h, Done: h.Messages})
					k += len(h.Messages)
				}
				if len(o) > 0 {
					_, err = x.Settle(ctx, o)
				}
				return err
			})
			return k
		}
	}
	run("empty transaction", 1, time.Second, raw)
	run("post 1/tx", 1, time.Second, post(1, false))
	run("post 1/tx", 16, time.Second, post(1, false))
	run("post 100/tx", 1, time.Second, post(100, false))
	run("post 100/tx", 4, 2*time.Second, post(100, false))
	run("claim empty other queue", 1, time.Second, func(int) int {
		tx(func(x backend.Tx) error { _, err := x.Claim(ctx, f.Request(f.QA)); return err })
		return 1
	})
	run("drain posts 1/tx", 1, time.Second, drain(1, 1))
	run("drain posts 1/tx", 4, time.Second, drain(1, 1))
	run("drain posts 100/tx", 1, time.Second, drain(100, 1))
	run("drain posts 100/tx", 4, time.Second, drain(100, 1))
	run("drain rest", 4, 20*time.Second, drain(100, 1))
	d := f.Open()
	run("send 1/tx", 1, time.Second, func(int) int {
		tx(func(x backend.Tx) error {
			_, err := x.Send(ctx, f.Version, []backend.Outgoing{{ID: backend.NewID(), From: d.A.Handle, Type: "m", Kind: backend.KindUser, Body: body}})
			return err
		})
		return 1
	})
	var ds []backendtest.Dialog
	for range 16 {
		ds = append(ds, f.Open())
	}
	run("send 1/tx, 16 dialogs", 16, time.Second, func(w int) int {
		tx(func(x backend.Tx) error {
			_, err := x.Send(ctx, f.Version, []backend.Outgoing{{ID: backend.NewID(), From: ds[w].A.Handle, Type: "m", Kind: backend.KindUser, Body: body}})
			return err
		})
		return 1
	})
	for i := range 3 {
		post(100, true)(i)
	}
	run("post 100 of 100 keys/tx", 4, 2*time.Second, post(100, true))
	run("drain keys, 10 groups of 100", 4, time.Second, drain(10, 100))
	run("drain rest", 4, 20*time.Second, drain(10, 100))
	for i := range 10 {
		post(100, true)(i)
	}
	run("drain keys, 1 group of 1", 1, time.Second, drain(1, 1))
	run("drain keys, 100 groups of 1", 1, time.Second, drain(100, 1))
}
