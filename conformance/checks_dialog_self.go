package conformance

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("D13", "both sides on one queue", `
			begin d "ask"
			take CQ as m -> "ask" on d.peer
			equal m.initiator false
			equal m.service m.far Client
			differ d.peer d
			differ d.peer.group d.group
			equal d.id d.peer.id
			equal d.initiator true
			equal d.peer.initiator false

			send d "ask 2" // each side has only its own kind of messages, filtered or not
			send d.peer "tell"
			each side, want: d, "tell" | d.peer, "ask 2"
				each by: of $side | group $side.group
					receive CQ $by as r -> $want
					rollback r
				take CQ of $side -> $want
			end d.peer
			take CQ -> EndDialog on d
			end d
			gone d d.peer

			begin d "again"
			take CQ as m -> "again"
			let p m.conversation
			end d
			take CQ -> EndDialog on p
			end p
			gone d p
			quiet CQ
		`, dlgSelf),
		check{ID: "D13", Name: "two receivers on one queue", Run: checkSelfPingPong},
	)
}

// dlgSelf defines one service that talks with itself.
func dlgSelf(e *env) *world {
	w := e.World()
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: w.Client, Queue: w.CQ, Contracts: []string{w.Contract}}}}))
	w.Server, w.SQ = w.Client, w.CQ
	return w
}

func checkSelfPingPong(e *env) {
	w := dlgSelf(e)
	const last = 12
	for _, hold := range e.Holds() {
		var mu sync.Mutex
		got := map[bool][]string{} // by whether the initiator received it
		ended := make(chan struct{})
		// The side that gets a message answers it with the next number; the
		// target ends after the last, and then the initiator.
		loop := func(b *parley.Broker) error {
			for {
				select {
				case <-ended:
					return nil
				default:
				}
				d, err := b.Receive(e.Ctx, w.CQ, &parley.ReceiveOptions{Wait: 200 * time.Millisecond, Hold: hold})
				if errors.Is(err, parley.ErrNoMessage) {
					continue
				}
				if err != nil {
					return err
				}
				over := false
				for _, m := range d.Messages {
					n := 0
					fmt.Sscan(string(m.Body), &n)
					mu.Lock()
					got[m.Initiator] = append(got[m.Initiator], string(m.Body))
					mu.Unlock()
					switch {
					case m.Type == parley.EndDialog:
						over = true
						err = m.End(e.Ctx)
					case n == last:
						err = m.End(e.Ctx)
					default:
						err = m.Reply(e.Ctx, w.Any, fmt.Append(nil, n+1))
					}
					if err != nil {
						d.Close()
						return err
					}
				}
				if err := d.Ack(e.Ctx); err != nil {
					return err
				}
				if over {
					close(ended)
				}
			}
		}
		var waits []func() error
		for range 2 {
			b := e.Broker(&parley.Options{Poll: 20 * time.Millisecond})
			waits = append(waits, dlgGo(e, "receive loop", func() error { return loop(b) }))
		}
		var h parley.ID
		w.Tx(func(tx *parley.Tx) error {
			c, err := tx.Begin(e.Ctx, w.Client, w.Client, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			h = c.Handle()
			return c.Send(e.Ctx, w.Any, []byte("0"))
		})
		for _, wait := range waits {
			e.Must(wait())
		}
		dlgSame(e, "received by the initiator", got[true], []string{"1", "3", "5", "7", "9", "11", ""})
		dlgSame(e, "received by the target", got[false], []string{"0", "2", "4", "6", "8", "10", "12"})
		dlgGone(w, h)
	}
}
