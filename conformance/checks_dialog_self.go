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
		Check{ID: "D13", Name: "both sides on one queue", Run: checkSelfDialog},
		Check{ID: "D13", Name: "two receivers on one queue", Run: checkSelfPingPong},
	)
}

// dlgSelf defines one service that talks with itself.
func dlgSelf(e *Env) *World {
	w := e.World()
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: w.Client, Queue: w.CQ, Contracts: []string{w.Contract}}}}))
	w.Server, w.SQ = w.Client, w.CQ
	return w
}

func checkSelfDialog(e *Env) {
	w := dlgSelf(e)
	h := w.Dialog("ask")
	ep := dlgStatus(w, h)
	m := dlgBodies(w, w.CQ, nil, "ask")[0]
	if m.Conversation != ep.Peer || m.Initiator || m.Service != w.Client || m.Far != w.Client {
		e.Errorf("the message came to %s (initiator: %t), want it at the target's side %s", m.Conversation, m.Initiator, ep.Peer)
	}
	peer := dlgStatus(w, ep.Peer)
	if peer.Handle == h || peer.Group == ep.Group || peer.Conversation != ep.Conversation || !ep.Initiator || peer.Initiator {
		e.Errorf("the sides are %+v and %+v, want two handles and two groups of one conversation", ep, peer)
	}
	// Each side has only its own kind of messages, filtered or not.
	w.Send(h, w.Ask, "ask 2")
	w.Send(peer.Handle, w.Tell, "tell")
	for _, side := range []struct {
		handle, group parley.ID
		want          string
	}{{h, ep.Group, "tell"}, {peer.Handle, peer.Group, "ask 2"}} {
		for _, o := range []parley.ReceiveOptions{{Conversation: side.handle}, {Group: side.group}} {
			d := w.Receive(w.CQ, &o)
			dlgSame(e, "delivered to one side", Bodies(d.Messages), []string{side.want})
			e.Must(d.Rollback(e.Ctx))
		}
		dlgBodies(w, w.CQ, &parley.ReceiveOptions{Conversation: side.handle}, side.want)
	}
	dlgEnd(w, peer.Handle)
	if m := dlgEndDialog(w, w.CQ); m.Conversation != h {
		e.Errorf("EndDialog came to %s, want it at the initiator's side %s", m.Conversation, h)
	}
	dlgEnd(w, h)
	dlgGone(w, h, peer.Handle)

	h = w.Dialog("again")
	server := dlgBodies(w, w.CQ, nil, "again")[0].Conversation
	dlgEnd(w, h)
	if m := dlgEndDialog(w, w.CQ); m.Conversation != server {
		e.Errorf("EndDialog came to %s, want it at the target's side %s", m.Conversation, server)
	}
	dlgEnd(w, server)
	dlgGone(w, h, server)
	dlgQuiet(w, w.CQ)
}

func checkSelfPingPong(e *Env) {
	w := dlgSelf(e)
	const last = 12
	for _, hold := range e.Holds() {
		var mu sync.Mutex
		got := map[bool][]string{} // by whether the initiator received it
		ended := make(chan struct{})
		// Whoever of the two gets a message answers it with the next number; the
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
