package applock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	_ "github.com/parleymq/parley/backend/sqlite"
)

// open returns a Broker on a new database.
func open() (b *parley.Broker, cleanup func()) {
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	b, err = parley.Open(context.Background(), "sqlite:"+filepath.Join(dir, "locks.db"), nil)
	must(err)
	must(b.Migrate(context.Background()))
	return b, func() {
		b.Close()
		os.RemoveAll(dir)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A session has locks for as long as it likes, and waits for those of others.
func ExampleSession() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	nightly, err := applock.Open(ctx, b, &applock.Options{Owner: "nightly"})
	must(err)
	defer nightly.Close()
	grant, err := nightly.Lock(ctx, "stock", applock.Exclusive, 0)
	must(err)
	fmt.Println(grant.Mode, grant.Fence > 0)

	reader, err := applock.Open(ctx, b, &applock.Options{Owner: "reader"})
	must(err)
	defer reader.Close()
	free, err := reader.Test(ctx, "stock", applock.Shared)
	must(err)
	_, err = reader.Lock(ctx, "stock", applock.Shared, 50*time.Millisecond)
	fmt.Println(free, errors.Is(err, parley.ErrLockTimeout))

	holders, err := applock.List(ctx, b, "sto")
	must(err)
	for _, l := range holders {
		fmt.Println(l.Name, l.Owner, l.Mode)
	}
	must(nightly.Unlock(ctx, "stock"))
	mode, err := nightly.Mode(ctx, "stock")
	must(err)
	fmt.Println(mode, nightly.Context().Err())
	// Output:
	// Exclusive true
	// false true
	// stock nightly Exclusive
	// NoLock <nil>
}

// The locks of a transaction end with it.
func ExampleIn() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	must(b.InTx(ctx, func(tx *parley.Tx) error {
		if _, err := applock.In(tx).Lock(ctx, "invoice numbers", applock.Exclusive, -1); err != nil {
			return err
		}
		mode, err := applock.In(tx).Mode(ctx, "invoice numbers")
		if err != nil {
			return err
		}
		free, err := applock.In(tx).Test(ctx, "something else", applock.Exclusive)
		fmt.Println(mode, free)
		return err
	}))
	err := b.InTx(ctx, func(tx *parley.Tx) error { return applock.In(tx).Unlock(ctx, "invoice numbers") })
	fmt.Println(errors.Is(err, parley.ErrNotLocked))
	// Output:
	// Exclusive true
	// true
}

// An owner who has lost a lock without knowing cannot write under it any more.
func ExampleTx_Fence() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	take := func() int64 {
		s, err := applock.Open(ctx, b, nil)
		must(err)
		defer s.Close() // say that it was lost
		grant, err := s.Lock(ctx, "price list", applock.Exclusive, -1)
		must(err)
		return grant.Fence
	}
	write := func(fence int64) error {
		return b.InTx(ctx, func(tx *parley.Tx) error {
			return applock.In(tx).Fence(ctx, "price list", fence) // and the writes
		})
	}
	first, second := take(), take()
	fmt.Println(write(first), write(second), write(second))
	fmt.Println(errors.Is(write(first), parley.ErrFenced))
	// Output:
	// <nil> <nil> <nil>
	// true
}

// Workers that receive messages in order keep phases apart with a gate.
func ExampleSession_Enter() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	s, err := applock.Open(ctx, b, nil)
	must(err)
	defer s.Close()
	// A message of phase 200, which comes after phase 100, has been received.
	pass, err := s.Enter(ctx, "nightly", 100, 200, func(ctx context.Context) error {
		fmt.Println("let go of the conversation")
		return nil // d.Ack(ctx)
	})
	must(err)
	fmt.Println("work")
	must(pass.Leave(ctx))
	// Output:
	// let go of the conversation
	// work
}
