package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "D12", Name: "many senders", Run: checkConcurrentSenders},
		scripted("D12", "a sender waits for the one before", `
			broker other
			begin d "0"
			each n, end: 0, commit t | 1, rollback t
				transaction t
				t: send d "first $n"
				start sends other: send d "second $n"
				pause 50ms // a second sender that does not wait has come by now
				$end
				join sends
			take SQ -> "0" #0, "first 0" #1, "second 0" #2, "second 1" #3
		`),
	)
}

func checkConcurrentSenders(e *env) {
	w := e.World()
	h := w.Dialog()
	const senders, each = 8, 12
	var brokers []*parley.Broker
	for range 4 {
		brokers = append(brokers, e.Broker(&parley.Options{NoMaintenance: true}))
	}

	// The receiver works while they send: what it sees is the order of the
	// commits.
	total := senders * each
	var received []*parley.Message
	wait := dlgGo(e, "receive", func() error {
		for len(received) < total {
			d, err := w.B.Receive(e.Ctx, w.SQ, &parley.ReceiveOptions{Wait: 8 * time.Second, Hold: parley.HoldLease, MaxMessages: 7})
			if err != nil {
				return fmt.Errorf("after %d of %d messages: %w", len(received), total, err)
			}
			received = append(received, d.Messages...)
			if err := d.Ack(e.Ctx); err != nil {
				return err
			}
		}
		return nil
	})

	type record struct {
		seq               int64
		body              string
		committing, ended time.Time
	}
	var mu sync.Mutex
	var history []record
	var rolledBack atomic.Int64
	dlgEach(senders, func(i int) {
		b := brokers[i%len(brokers)]
		for n := 0; n < each; {
			r := record{body: fmt.Sprintf("%d.%d", i, n)}
			undo := n%4 == 3 && rolledBack.Add(1)%2 == 1
			err := b.InTx(e.Ctx, func(tx *parley.Tx) error {
				c := tx.Conversation(h)
				if err := c.Send(e.Ctx, w.Ask, []byte(r.body)); err != nil {
					return err
				}
				ep, err := c.Status(e.Ctx)
				if err != nil {
					return err
				}
				if undo {
					return errUndo
				}
				r.seq, r.committing = ep.NextSeq-1, time.Now()
				return nil
			})
			r.ended = time.Now()
			switch {
			case undo && errors.Is(err, errUndo), parley.IsRetryable(err):
			case err != nil:
				e.Errorf("send: %v", err)
				return
			default:
				mu.Lock()
				history = append(history, r)
				mu.Unlock()
				n++
			}
		}
	})
	e.Must(wait())

	slices.SortFunc(history, func(a, b record) int { return int(a.seq - b.seq) })
	var latest time.Time // at which a commit with a lower number began
	last := map[string]int{}
	for i, r := range history {
		if r.seq != int64(i) {
			e.Fatalf("the numbers given are not 0 to %d: place %d has %d", total-1, i, r.seq)
		}
		if r.ended.Before(latest) {
			e.Errorf("number %d had committed before a lower one began to", r.seq)
		}
		if r.committing.After(latest) {
			latest = r.committing
		}
		sender, n, _ := strings.Cut(r.body, ".")
		var now int
		fmt.Sscan(n, &now)
		if now != last[sender] {
			e.Errorf("sender %s: message %d has a lower number than its message %d", sender, now, last[sender])
		}
		last[sender]++
		m := received[i]
		if m.Seq != r.seq || string(m.Body) != r.body {
			e.Fatalf("place %d: received number %d %q, want %d %q", i, m.Seq, m.Body, r.seq, r.body)
		}
	}
	dlgQuiet(w, w.SQ)
}
