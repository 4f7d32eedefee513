package conformance

import (
	"errors"
	"runtime"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

// world is a pair of services with a contract between them, which most checks
// start from: Client on CQ begins conversations with Server on SQ. Each check
// has its own.
type world struct {
	*env
	B *parley.Broker

	Client, Server string // services
	CQ, SQ         string // their queues
	Contract       string
	Ask, Tell      string // types: of the initiator, of the target
	Any            string // of both
}

// World defines the services on the Broker that checks share; a check that
// closes its Broker, or needs one with options, uses WorldOn.
func (e *env) World(change ...func(*parley.Catalog)) *world {
	if e.r.main.Capabilities().Listener == nil {
		// What one broker's maintenance jobs make due, another's receiver learns of by
		// polling only.
		return e.WorldOn(e.Broker(nil), change...)
	}
	e.shares = true
	b, err := e.r.broker(e.Ctx)
	e.Must(err)
	return e.WorldOn(b, change...)
}

// WorldOn defines the services on b. change may alter the catalog before it is
// defined: Queues[0] is CQ, Queues[1] is SQ, Services[0] Client, Services[1]
// Server.
func (e *env) WorldOn(b *parley.Broker, change ...func(*parley.Catalog)) *world {
	w := &world{
		env: e, B: b,
		Client: e.Name("client"), Server: e.Name("server"), CQ: e.Name("cq"), SQ: e.Name("sq"),
		Contract: e.Name("contract"), Ask: e.Name("ask"), Tell: e.Name("tell"), Any: e.Name("any"),
	}
	c := parley.Catalog{
		Types: []parley.MessageType{{Name: w.Ask}, {Name: w.Tell}, {Name: w.Any}},
		Contracts: []parley.Contract{{Name: w.Contract, Messages: []parley.ContractEntry{
			{Type: w.Ask, SentBy: parley.ByInitiator}, {Type: w.Tell, SentBy: parley.ByTarget}, {Type: w.Any, SentBy: parley.ByAny},
		}}},
		Queues:   []parley.Queue{{Name: w.CQ}, {Name: w.SQ}},
		Services: []parley.Service{{Name: w.Client, Queue: w.CQ}, {Name: w.Server, Queue: w.SQ, Contracts: []string{w.Contract}}},
	}
	for _, f := range change {
		f(&c)
	}
	if err := b.Define(e.Ctx, c); err != nil {
		e.fail("define the check's catalog: " + err.Error())
		runtime.Goexit()
	}
	return w
}

// Tx runs f in a transaction and ends the check if it fails.
func (w *world) Tx(f func(tx *parley.Tx) error) {
	if err := w.B.InTx(w.Ctx, f); err != nil {
		w.fail("transaction: " + err.Error())
		runtime.Goexit()
	}
}

// Dialog begins a conversation from Client to Server and sends Ask messages
// with the bodies, all in one transaction. It returns Client's handle.
func (w *world) Dialog(bodies ...string) parley.ID {
	return w.DialogWith(nil, bodies...)
}

// DialogWith is Dialog with options; the contract is the world's unless set.
func (w *world) DialogWith(o *parley.DialogOptions, bodies ...string) (h parley.ID) {
	var opt parley.DialogOptions
	if o != nil {
		opt = *o
	}
	if opt.Contract == "" {
		opt.Contract = w.Contract
	}
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(w.Ctx, w.Client, w.Server, &opt)
		if err != nil {
			return err
		}
		h = c.Handle()
		for _, body := range bodies {
			if err := c.Send(w.Ctx, w.Ask, []byte(body)); err != nil {
				return err
			}
		}
		return nil
	})
	return h
}

// Send sends one message on a conversation in a separate transaction.
func (w *world) Send(h parley.ID, typ, body string) {
	w.Tx(func(tx *parley.Tx) error { return tx.Conversation(h).Send(w.Ctx, typ, []byte(body)) })
}

// errUndo rolls a transaction back.
var errUndo = errors.New("it is rolled back")

// post posts a body in a separate transaction.
func (w *world) post(queue, body string, o ...parley.PostOption) parley.ID {
	id, err := w.B.Post(w.Ctx, queue, parley.Payload{Body: []byte(body)}, o...)
	if err != nil {
		w.Fatalf("post %q: %v", body, err)
	}
	return id
}

// Receive returns the next delivery of a queue, or ends the check if there is
// none within five seconds. It is given back at the end of the check if the
// check did not settle it.
func (w *world) Receive(queue string, o *parley.ReceiveOptions) *parley.Delivery {
	const patience = 15 * time.Second
	d := w.TryReceive(queue, o, patience)
	if d == nil {
		w.fail("nothing was received from " + queue + " within " + slow.By(patience).String())
		runtime.Goexit()
	}
	return d
}

// TryReceive is Receive with a wait; nil if there is nothing. A wait of a second and more, in
// which something has to come, is longer on a slow machine.
func (w *world) TryReceive(queue string, o *parley.ReceiveOptions, wait time.Duration) *parley.Delivery {
	var opt parley.ReceiveOptions
	if o != nil {
		opt = *o
	}
	comes := wait >= time.Second
	if opt.Wait = wait; comes {
		opt.Wait = slow.By(wait)
	}
	d, err := w.B.Receive(w.Ctx, queue, &opt)
	if errors.Is(err, parley.ErrNoMessage) {
		if comes {
			w.late()
		}
		return nil
	}
	if err != nil {
		w.fail("receive: " + err.Error())
		runtime.Goexit()
	}
	w.Cleanup(func() { d.Close() })
	return d
}

// Nothing ends the check if something can be received from the queue now.
func (w *world) Nothing(queue string, o *parley.ReceiveOptions) {
	if d := w.TryReceive(queue, o, 0); d != nil {
		w.fail("received " + describe(d.Messages) + " from " + queue + ", where nothing should be")
		runtime.Goexit()
	}
}

// Take receives one delivery, acknowledges it, and returns its bodies.
func (w *world) Take(queue string, o *parley.ReceiveOptions) []string {
	d := w.Receive(queue, o)
	got := bodiesOf(d.Messages)
	if err := d.Ack(w.Ctx); err != nil {
		w.fail("acknowledge: " + err.Error())
		runtime.Goexit()
	}
	return got
}

// Drain takes all that can be received now and returns the messages in the
// order in which they came.
func (w *world) Drain(queue string) []*parley.Message {
	var all []*parley.Message
	for {
		d := w.TryReceive(queue, nil, 0)
		if d == nil {
			return all
		}
		all = append(all, d.Messages...)
		if err := d.Ack(w.Ctx); err != nil {
			w.fail("acknowledge: " + err.Error())
			runtime.Goexit()
		}
	}
}

// bodiesOf returns the bodies of messages as strings.
func bodiesOf(ms []*parley.Message) []string {
	out := make([]string, len(ms))
	for i, m := range ms {
		out[i] = string(m.Body)
	}
	return out
}

func describe(ms []*parley.Message) string {
	s := ""
	for i, m := range ms {
		if i > 0 {
			s += ", "
		}
		s += m.Type + " " + string(m.Body[:min(len(m.Body), 60)])
	}
	return s
}
