package backendtest

import (
	"errors"

	"github.com/parleymq/parley/backend"
)

// testFailuresGo: whatever removes a message leaves nothing of its failures, be they attempts or deferrals.
func testFailuresGo(f *Fixture) {
	table := f.table("failure")
	rows := func() (n int) {
		f.Do(func(tx backend.Tx) error {
			if tx.SQL() == nil {
				f.Skip("what the store keeps cannot be seen from outside")
			}
			return tx.SQL().QueryRowContext(f.Ctx, "SELECT count(*) FROM "+table).Scan(&n)
		})
		return n
	}
	before := rows()
	settle := func(end func(*backend.Outcome)) func(*backend.Hold) {
		return func(h *backend.Hold) {
			o := backend.Outcome{Hold: h}
			end(&o)
			f.Settle(o)
		}
	}
	consume := func(h *backend.Hold) {
		r := f.Request(h.Queue)
		r.Consume, r.Lease = true, 0
		f.Do(func(tx backend.Tx) error {
			c, err := tx.Claim(f.Ctx, r)
			if err == nil && len(c.Holds) != 1 {
				err = errors.New("the message is not received")
			}
			return err
		})
	}
	ends := map[string]func(*backend.Hold){
		"done":      settle(func(o *backend.Outcome) { o.Done = o.Hold.Messages }),
		"dead":      settle(func(o *backend.Outcome) { o.Dead = []backend.DeadLetter{{Message: o.Hold.Messages[0], Reason: "dead"}} }),
		"cancelled": settle(func(o *backend.Outcome) { o.Cancelled = o.Hold.Messages }),
		"consume":   consume,
		"cancel": func(h *backend.Hold) {
			m := h.Messages[0]
			if m.Handle.IsZero() {
				f.Do(func(tx backend.Tx) error { return tx.Cancel(f.Ctx, h.Queue, m.ID) })
			} else {
				f.End(backend.End{Handle: m.Handle})
			}
		},
	}
	for how, end := range ends {
		for attempts := range 2 {
			f.Send(f.Open().A.Handle, "m")
			f.Post(backend.Posting{Key: "k"})
			for _, queue := range []int64{f.QB, f.QP} {
				h := f.One(f.Request(queue))
				o := backend.Outcome{Hold: h, Failure: &backend.Failure{Message: h.Messages[0], Attempts: attempts, Error: "failed"}}
				if attempts > 0 {
					o.Failure.Errors = backend.AddAttempt(nil, 1, "failed")
				}
				f.Settle(o)
				if how != "consume" && how != "cancel" {
					h = f.One(f.Request(queue))
					f.Equal("errors", len(h.Messages[0].Errors), attempts)
				}
				end(h)
			}
			if n := rows() - before; n != 0 {
				f.Errorf("%s, after %d attempts: %d messages are gone and their failures are not", how, attempts, n)
				before += n
			}
		}
	}
}
