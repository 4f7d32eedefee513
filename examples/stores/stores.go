package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

// stores are databases that know nothing of each other. Each customer's orders are in one of them, and all invoices in
// the last.
type stores []*parley.Broker

// of is the number of the store that has a customer's orders. It has to be the same in every process, for ever: who
// adds a store moves customers.
func (s stores) of(customer string) int {
	h := fnv.New32a()
	h.Write([]byte(customer))
	return int(h.Sum32()) % len(s)
}

func (s stores) billing() *parley.Broker { return s[len(s)-1] }

const (
	customers = 8
	each      = 5 // orders of a customer
)

var errLost = errors.New("as if the process had died here")

// shop is what the handlers have done.
type shop struct {
	stores
	mu       sync.Mutex
	orders   map[string][]string // by customer, as they were acknowledged
	invoices []string
	again    int // orders that were handled a second time
}

// order has an order in one store write an invoice in another. No transaction has both: the invoice is committed first,
// under the order's ID, and the order is acknowledged then. A process that dies in between handles the order again, and
// finds that its invoice is there.
func (s *shop) order(ctx context.Context, m *parley.Message) error {
	err := s.billing().Retry(ctx, func(tx *parley.Tx) error {
		fresh, err := tx.Once(ctx, m.ID.String())
		if err != nil || !fresh {
			return err
		}
		_, err = tx.Post(ctx, "invoices", parley.Payload{Body: fmt.Appendf(nil, "%s, %s", m.Key, m.Body)})
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(m.Body) == "order 3" && m.Attempt == 1 {
		s.again++
		return errLost
	}
	s.orders[m.Key] = append(s.orders[m.Key], string(m.Body))
	return nil
}

func (s *shop) invoice(_ context.Context, m *parley.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invoices = append(s.invoices, string(m.Body))
	return nil
}

// sell takes orders, works until all is done, and prints the outcome.
func sell(ctx context.Context, all stores, out io.Writer) error {
	for _, b := range all {
		if err := b.Migrate(ctx); err != nil {
			return err
		}
		if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "orders"}, {Name: "invoices"}}}); err != nil {
			return err
		}
	}
	for n := range each {
		for c := range customers {
			customer := fmt.Sprint("customer ", c+1)
			payload := parley.Payload{Body: fmt.Append(nil, "order ", n+1)}
			if _, err := all[all.of(customer)].Post(ctx, "orders", payload, parley.Key(customer)); err != nil {
				return err
			}
		}
	}
	s := &shop{stores: all, orders: make(map[string][]string)}
	if err := s.work(ctx); err != nil {
		return err
	}
	return s.report(out)
}

// work runs a worker for each store's orders, and one for the invoices, until nothing is left.
func (s *shop) work(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	over := make(chan error)
	run := func(b *parley.Broker, queue string, handle parley.HandlerFunc) {
		o := &parley.WorkerOptions{Backoff: func(int) time.Duration { return 20 * time.Millisecond }}
		worker, err := b.NewWorker(queue, handle, o)
		if err == nil {
			err = worker.Run(running)
		}
		over <- err
	}
	for _, b := range s.stores {
		go run(b, "orders", s.order)
	}
	go run(s.billing(), "invoices", s.invoice)
	err := s.empty(ctx)
	stop()
	for range len(s.stores) + 1 {
		err = errors.Join(err, <-over)
	}
	return err
}

// empty waits until all queues are empty.
func (s *shop) empty(ctx context.Context) error {
	for left := 1; left > 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		left = 0
		for _, b := range s.stores { // the invoices last
			for _, name := range []string{"orders", "invoices"} {
				queues, err := b.Admin().Queues(ctx, name)
				if err != nil {
					return err
				}
				left += queues[0].Depth + queues[0].Deferred
			}
		}
	}
	return nil
}

func (s *shop) report(out io.Writer) error {
	counts := make([]struct{ orders, customers int }, len(s.stores))
	for customer, list := range s.orders {
		if len(list) != each || !slices.IsSorted(list) {
			return fmt.Errorf("%s: %q", customer, list)
		}
		counts[s.of(customer)].orders += len(list)
		counts[s.of(customer)].customers++
	}
	for i, n := range counts {
		fmt.Fprintf(out, "store %d: %d orders of %d customers, those of each in their order\n", i+1, n.orders, n.customers)
	}
	slices.Sort(s.invoices)
	if n := len(slices.Compact(slices.Clone(s.invoices))); n != customers*each || n != len(s.invoices) {
		return fmt.Errorf("%d invoices for %d orders: %q", len(s.invoices), customers*each, s.invoices)
	}
	fmt.Fprintf(out, "%d invoices in store %d, one for each order, though %d orders were handled twice\n", len(s.invoices), len(s.stores), s.again)
	return nil
}

func quiet() *parley.Options { return &parley.Options{Logger: slog.New(slog.DiscardHandler)} }
