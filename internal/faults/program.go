package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

const (
	queue    = "faults"
	brokers  = 2 // of each program
	hotRows  = 8
	lease    = 2 * time.Second
	delay    = 300 * time.Millisecond // of some posts
	inFlight = 400                    // messages of a program that may wait before it makes a pause
)

// body is what a message carries.
type body struct {
	Stream string
	Seq    int
}

// program is a child process: brokers with a worker each, and senders, until the
// file at stop is there. Then it only receives, until it is killed.
type program struct {
	db, stop string
	name     string
	rec      *recorder
	serial   atomic.Int64
	open     atomic.Int64 // messages sent minus messages handled here
}

func runProgram(db, history, stop string) error {
	rec, err := newRecorder(history)
	if err != nil {
		return err
	}
	p := &program{db: db, stop: stop, name: parley.NewID().String(), rec: rec}
	failed := make(chan error, brokers)
	for i := range brokers {
		go func() { failed <- p.broker(i) }()
	}
	return <-failed
}

// broker opens a store, again and again while there is a fault, and works with it.
func (p *program) broker(i int) error {
	ctx := context.Background()
	for {
		b, err := parley.Open(ctx, p.db, &parley.Options{Lease: lease, Poll: 200 * time.Millisecond})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go p.send(ctx, b, fmt.Sprint(p.name, "-", i))
		w := b.NewWorker(queue, parley.HandlerFunc(p.handle), &parley.WorkerOptions{
			MaxReaders: 3, MaxAttempts: -1, Backoff: parley.Backoff(10*time.Millisecond, 200*time.Millisecond)})
		for {
			err := w.Run(ctx)
			if !parley.IsRetryable(err) && !errors.Is(err, parley.ErrConnection) {
				return fmt.Errorf("worker: %w", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// send posts under keys of its own, each of which is a stream, and some without key.
func (p *program) send(ctx context.Context, b *parley.Broker, name string) {
	next := make(map[string]int)
	for {
		if _, err := os.Stat(p.stop); err == nil {
			return
		}
		if p.open.Load() > inFlight {
			time.Sleep(10 * time.Millisecond)
			p.open.Add(-inFlight / 20) // other programs may have handled them
			continue
		}
		var events []event
		for range 1 + rand.IntN(5) {
			e := event{Kind: sending, Stream: fmt.Sprint(name, "-k", rand.IntN(6))}
			if rand.IntN(4) == 0 {
				e.Stream = fmt.Sprint(name, "-p", p.serial.Add(1))
				if rand.IntN(4) == 0 {
					e.After = int64(delay)
				}
			}
			e.Seq = next[e.Stream]
			next[e.Stream]++
			p.rec.write(e)
			events = append(events, e)
		}
		p.outcome(events, p.transaction(ctx, b, events))
	}
}

var errBack = errors.New("rolled back on purpose")

// transaction sends, and says what became of it.
func (p *program) transaction(ctx context.Context, b *parley.Broker, events []event) kind {
	complete := false
	err := b.InTx(ctx, func(tx *parley.Tx) error {
		for _, e := range events {
			text, err := json.Marshal(body{e.Stream, e.Seq})
			if err != nil {
				return err
			}
			var o []parley.PostOption
			if e.Seq > 0 || e.Stream[len(e.Stream)-2] == 'k' {
				o = append(o, parley.Key(e.Stream))
			}
			if e.After > 0 {
				o = append(o, parley.After(time.Duration(e.After)))
			}
			if _, err := tx.Post(ctx, queue, parley.Payload{Type: parley.Default, Body: text}, o...); err != nil {
				return err
			}
		}
		if rand.IntN(20) == 0 {
			return errBack
		}
		complete = true
		return nil
	})
	switch {
	case err == nil:
		return sent
	case complete && errors.Is(err, parley.ErrConnection):
		return unknown
	}
	if !errors.Is(err, errBack) {
		time.Sleep(20 * time.Millisecond)
	}
	return undone
}

func (p *program) outcome(events []event, k kind) {
	for _, e := range events {
		e.Kind = k
		p.rec.write(e)
	}
	if k == sent {
		p.open.Add(int64(len(events)))
	}
}

// handle writes the effect of a message, and counts in a row that many handlers want.
func (p *program) handle(ctx context.Context, m *parley.Message) (err error) {
	var v body
	if err := json.Unmarshal(m.Body, &v); err != nil {
		return err
	}
	attempt := parley.NewID().String()
	p.rec.write(event{Kind: began, Stream: v.Stream, Seq: v.Seq, Attempt: attempt})
	defer func() {
		p.rec.write(event{Kind: returned, Stream: v.Stream, Seq: v.Seq, Attempt: attempt})
		p.open.Add(-1)
	}()
	tx, err := m.Tx(ctx)
	if err != nil {
		return err
	}
	// The values are the program's own, and need no quoting.
	_, err = tx.SQL().ExecContext(ctx, fmt.Sprintf("INSERT INTO faults_effect (stream, seq, attempt) VALUES ('%s', %d, '%s')", v.Stream, v.Seq, attempt))
	if err == nil && rand.IntN(4) == 0 {
		_, err = tx.SQL().ExecContext(ctx, fmt.Sprintf("UPDATE faults_hot SET n = n + 1 WHERE id = %d", rand.IntN(hotRows)))
	}
	if err == nil && rand.IntN(50) == 0 {
		err = errors.New("failed on purpose")
	}
	return err
}
