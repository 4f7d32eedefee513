package conformance

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// prioOrder takes messages one by one and ends the check unless they come in
// this order.
func prioOrder(w *World, queue, what string, want ...string) {
	var got []string
	for i := range want {
		d := w.TryReceive(queue, &parley.ReceiveOptions{MaxMessages: 1, Hold: w.Holds()[i%len(w.Holds())]}, time.Second)
		if d == nil {
			break
		}
		got = append(got, Bodies(d.Messages)...)
		w.Must(d.Ack(w.Ctx))
	}
	if !slices.Equal(got, want) {
		w.fail(fmt.Sprintf("%s: received %q, want %q", what, got, want))
		runtime.Goexit()
	}
}

// prioLine begins a conversation for each body, and returns the groups in which
// their messages wait in the world's queue SQ, oldest first.
func prioLine(w *World, bodies ...string) (groups []parley.ID) {
	for _, body := range bodies {
		groups = append(groups, invPeer(w, w.Dialog(body)))
		time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
	}
	return groups
}

// prioStatus reads one side of a conversation.
func prioStatus(w *World, h parley.ID) (ep backend.Endpoint) {
	w.Tx(func(tx *parley.Tx) error {
		p, err := tx.Conversation(h).Status(w.Ctx)
		if err == nil {
			ep = *p
		}
		return err
	})
	return ep
}

// prioDuplex is a world in which conversations of one client service have the
// priority that the name of the server says, so that groups of the client's
// queue can have conversations of several priorities.
type prioDuplex struct{ *World }

func newPrioDuplex(e *Env, levels ...int) prioDuplex {
	return prioDuplex{invWorld(e, func(c *parley.Catalog) {
		for _, n := range levels {
			server := parley.Service{Name: e.Name(fmt.Sprint("server ", n)), Queue: c.Queues[1].Name, Contracts: c.Services[1].Contracts}
			c.Services = append(c.Services, server)
			c.Priorities = append(c.Priorities, parley.PriorityRule{Name: e.Name(fmt.Sprint("rule ", n)), Local: c.Services[0].Name, Remote: server.Name, Level: n})
		}
	})}
}

// begin begins a conversation of that priority in a group of the client, and
// returns the target's handle.
func (w prioDuplex) begin(level int, group parley.ID) (peer parley.ID) {
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(w.Ctx, w.Client, w.Name(fmt.Sprint("server ", level)), &parley.DialogOptions{Contract: w.Contract, RelatedGroup: group})
		if err != nil {
			return err
		}
		if err := c.Send(w.Ctx, w.Ask, nil); err != nil {
			return err
		}
		ep, err := c.Status(w.Ctx)
		if err == nil {
			peer = ep.Peer
		}
		return err
	})
	return peer
}

// tell sends to the client.
func (w prioDuplex) tell(peer parley.ID, body string) {
	w.Send(peer, w.Tell, body)
	time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
}
