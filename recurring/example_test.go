package recurring_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/recurring"
)

// open returns a Broker on a new database with a queue.
func open() (b *parley.Broker, cleanup func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "parley")
	must(err)
	b, err = parley.Open(ctx, "sqlite:"+filepath.Join(dir, "jobs.db"), nil)
	must(err)
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "billing"}}}))
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

// A job posts a message at each of its due times.
func ExampleStart() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	must(recurring.Define(ctx, b, recurring.Job{Name: "poll", Queue: "billing", Every: 100 * time.Millisecond}))
	must(recurring.Start(ctx, b))

	var last time.Time
	for range 2 {
		d, err := b.Receive(ctx, "billing", &parley.ReceiveOptions{Wait: time.Minute})
		must(err)
		due := recurring.DueTime(d.Messages[0])
		if !last.IsZero() {
			fmt.Println(due.Sub(last))
		}
		last = due
		must(d.Ack(ctx))
	}
	// Output: 100ms
}

// Something that calls the program at intervals can take the place of Start.
func ExamplePostDue() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	must(recurring.Define(ctx, b, recurring.Job{Name: "poll", Queue: "billing", Every: 10 * time.Millisecond}))
	time.Sleep(20 * time.Millisecond)
	must(recurring.PostDue(ctx, b))
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	fmt.Println(len(d.Messages) > 0)
	must(d.Ack(ctx))
	// Output: true
}

// Operators pause jobs, run them by hand, and remove them.
func ExampleDefine() {
	ctx := context.Background()
	b, cleanup := open()
	defer cleanup()

	night := recurring.Job{Name: "invoices", Queue: "billing", Cron: "0 30 2 * * *", Zone: "Europe/Berlin", CatchUp: recurring.CatchUpOnce}
	must(recurring.Define(ctx, b, night))
	must(recurring.Pause(ctx, b, "invoices"))
	id, err := recurring.RunNow(ctx, b, "invoices")
	must(err)
	d, err := b.Receive(ctx, "billing", nil)
	must(err)
	fmt.Println(d.Messages[0].ID == id)
	must(d.Ack(ctx))
	must(recurring.Resume(ctx, b, "invoices"))

	old := night // as a program of an older version defines it
	night.Revision, night.Cron = 2, "0 30 4 * * *"
	must(recurring.Define(ctx, b, night))
	must(recurring.Define(ctx, b, old))

	list, err := recurring.List(ctx, b)
	must(err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(err)
	fmt.Println(list[0].Name, list[0].State, list[0].Due.In(berlin).Format("15:04"))
	must(recurring.Remove(ctx, b, "invoices"))
	// Output:
	// true
	// invoices active 04:30
}
