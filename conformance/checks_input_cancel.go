package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		check{ID: "B06", Name: "cancelled before", Run: checkCancelledBefore},
		check{ID: "B06", Name: "cancelled before a verb of a transaction", Run: checkCancelledInTx},
		check{ID: "B06", Name: "cancelled in the middle of a verb", Run: checkCancelledWithin, Limit: 2 * time.Minute},
		check{ID: "B06", Name: "cancelled in the middle of receiving", Run: checkCancelledReceive},
		check{ID: "B06", Name: "cancelled in the middle of settling", Run: checkCancelledSettle},
		check{ID: "B06", Name: "cancelled in the middle of a definition", Run: checkCancelledDefine},
		check{ID: "B06", Name: "cancelled before the commit", Run: checkCancelledCommit},
		check{ID: "B06", Name: "cancelled while waiting for a message", Run: checkCancelledWaiting},
		scripted("B06", "cancelled while waiting for a sender", `
			broker other
			begin d "0"
			transaction t
			t: send d "1"
			start sends for 50ms other: send d "never" -> DeadlineExceeded // it waits for t, or for the one writer
			join sends
			commit t
			send d "2"
			take SQ -> "0" #0, "1" #1, "2" #2
			quiet SQ
		`),
		check{ID: "B06", Name: "cancelled while waiting for a group", Run: checkCancelledBehindGroup},
		check{ID: "B06", Name: "cancelled with a delivery in hand", Run: checkCancelledDelivery},
	)
}

// inpCancelled ends the check unless an error is the context's own.
func inpCancelled(e *env, what string, err, want error) {
	if !errors.Is(err, want) {
		dlgFatal(e, "%s: the error is %v, want %q", what, err, want)
	}
}

func checkCancelledBefore(e *env) {
	w := e.World()
	h := w.Dialog("0")
	before, err := w.B.Catalog(e.Ctx)
	e.Must(err)
	cancelled, cancel := context.WithCancel(e.Ctx)
	cancel()
	expired, cancel := context.WithTimeout(e.Ctx, -time.Second)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {expired, context.DeadlineExceeded}} {
		for _, v := range inpBrokerVerbs(w, h) {
			inpCancelled(e, v.name, v.do(c.ctx, w.B), c.want)
		}
		inpCancelled(e, "Migrate", w.B.Migrate(c.ctx), c.want)
		_, err := w.B.Info(c.ctx)
		inpCancelled(e, "Info", err, c.want)
	}
	after, err := w.B.Catalog(e.Ctx)
	e.Must(err)
	if after.Version != before.Version {
		e.Errorf("version %d of the catalog became %d", before.Version, after.Version)
	}
	dlgBodies(w, w.SQ, nil, "0")
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkCancelledInTx(e *env) {
	w := e.World(func(c *parley.Catalog) { c.Services[1].FarPromotion = 255 })
	h := w.Dialog("0")
	w.Send(dlgPeer(w, h), w.Tell, "to the client")
	cancelled, cancel := context.WithCancel(e.Ctx)
	cancel()
	w.Tx(func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("1")); err != nil {
			return err
		}
		if err := tx.Savepoint(e.Ctx, "outer"); err != nil {
			return err
		}
		for _, v := range inpTxVerbs(w) {
			inpCancelled(e, v.name, v.do(cancelled, tx, h), context.Canceled)
		}
		// It is still usable, and what was done before is still there.
		return tx.Conversation(h).Send(e.Ctx, w.Ask, []byte("2"))
	})
	dlgState(w, h, parley.Conversing)
	for i, m := range dlgBodies(w, w.SQ, nil, "0", "1", "2") {
		if m.Seq != int64(i) {
			e.Errorf("message %q has number %d, want %d", m.Body, m.Seq, i)
		}
	}
	dlgBodies(w, w.CQ, nil, "to the client")
	dlgQuiet(w, w.SQ, w.CQ)
}

// inpFuse is a context that is cancelled when it has been asked n times: a way
// to cancel a verb at each of its steps.
type inpFuse struct {
	context.Context
	mu   sync.Mutex
	n    int
	done chan struct{}
}

func inpNewFuse(parent context.Context, n int) *inpFuse {
	return &inpFuse{Context: parent, n: n, done: make(chan struct{})}
}

func (f *inpFuse) burn() (blown bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.n == 0 {
		close(f.done)
	}
	return f.n <= 0
}

func (f *inpFuse) Done() <-chan struct{} {
	f.burn()
	return f.done
}

func (f *inpFuse) Err() error {
	f.burn()
	select {
	case <-f.done:
		return context.Canceled
	default:
		return nil
	}
}

// inpPrint is what can be seen of conversations in a transaction.
func inpPrint(ctx context.Context, tx *parley.Tx, handles ...parley.ID) (string, error) {
	var out string
	for _, h := range handles {
		ep, err := tx.Conversation(h).Status(ctx)
		switch {
		case errors.Is(err, parley.ErrNoConversation):
			out += "none; "
		case err != nil:
			return "", err
		default:
			out += fmt.Sprintf("%s, next %d, in group %s; ", ep.State, ep.NextSeq, ep.Group)
		}
	}
	return out, nil
}

// checkCancelledWithin cancels in growing strides: a store may need a new
// connection after each time.
func checkCancelledWithin(e *env) {
	w, xml, _, _, _ := dlgChecked(e)
	verbs := []dlgVerb{
		{"SendTo", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
			c, err := tx.Begin(e.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
			if err != nil {
				return err
			}
			err = tx.SendTo(ctx, []*parley.Conversation{tx.Conversation(h), c}, w.Ask, []byte("sent"))
			if err != nil {
				ep, lost := c.Status(e.Ctx)
				if lost != nil {
					return err // the transaction is over
				}
				if ep.State != parley.StartedOutbound || ep.NextSeq != 0 {
					e.Errorf("a cancelled send leaves the fresh conversation in state %s with next number %d", ep.State, ep.NextSeq)
				}
				if _, there := tx.Conversation(ep.FarHandle).Status(e.Ctx); !errors.Is(there, parley.ErrNoConversation) {
					e.Errorf("a cancelled send to several leaves a target behind, on which nothing was sent (%v)", there)
				}
			}
			return err
		}},
	}
	verbs = append(verbs, dlgVerb{"SendBatch with a malformed body", func(ctx context.Context, tx *parley.Tx, h parley.ID) error {
		return tx.SendBatch(ctx, []parley.Sending{
			{To: tx.Conversation(h), Payload: parley.Payload{Type: w.Any, Body: []byte("sent")}},
			{To: tx.Conversation(h), Payload: parley.Payload{Type: xml, Body: []byte("<a>")}},
		})
	}})
	all := inpTxVerbs(w)
	for _, name := range []string{"Send", "End", "Cleanup", "Move", "PostBatch"} {
		i := slices.IndexFunc(all, func(v dlgVerb) bool { return v.name == name })
		verbs = append(verbs, all[i])
	}
	for _, v := range verbs {
		for steps := 1; ; steps += 1 + steps/4 {
			if steps > 500 {
				e.Fatalf("%s is not done after %d steps", v.name, steps)
			}
			h := w.Dialog("0")
			server := dlgPeer(w, h)
			var before string
			done := false
			err := w.B.InTx(e.Ctx, func(tx *parley.Tx) (err error) {
				if before, err = inpPrint(e.Ctx, tx, h, server); err != nil {
					return err
				}
				err = v.do(inpNewFuse(e.Ctx, steps), tx, h)
				if err == nil {
					done = true
					return errors.New("enough")
				}
				inpCancelled(e, fmt.Sprintf("%s, cancelled at step %d", v.name, steps), err, context.Canceled)
				after, lost := inpPrint(e.Ctx, tx, h, server)
				if lost != nil {
					return err // the store gave up on the transaction, so that nothing of it stays
				}
				if after != before {
					e.Errorf("%s, cancelled at step %d, made of %q %q", v.name, steps, before, after)
				}
				return nil
			})
			if done {
				dlgBodies(w, w.SQ, nil, "0")
				break
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				e.Logf("%s, cancelled at step %d: the transaction ended with %v", v.name, steps, err)
			}
			w.Tx(func(tx *parley.Tx) error {
				after, err := inpPrint(e.Ctx, tx, h, server)
				if err == nil && after != before {
					e.Errorf("%s, cancelled at step %d and committed, made of %q %q", v.name, steps, before, after)
				}
				return err
			})
			dlgBodies(w, w.SQ, nil, "0")
			w.Nothing(w.SQ, nil)
			w.Nothing(w.CQ, nil)
		}
	}
}

// inpAtEachStep runs try with contexts that end after one step, two, and so on in growing strides,
// until it is done. The function try returns the verb's error unchanged.
func inpAtEachStep(e *env, what string, try func(ctx context.Context) error) {
	for steps := 1; steps < 500; steps += 1 + steps/4 {
		err := try(inpNewFuse(e.Ctx, steps))
		if err == nil {
			return
		}
		inpCancelled(e, fmt.Sprintf("%s, cancelled at step %d", what, steps), err, context.Canceled)
	}
	e.Fatalf("%s is not done after 500 steps", what)
}

func checkCancelledReceive(e *env) {
	w := e.World()
	options := []parley.ReceiveOptions{{Release: parley.BeforeWork}}
	for _, hold := range e.Holds() {
		options = append(options, parley.ReceiveOptions{Hold: hold})
	}
	for _, o := range options {
		w.Dialog("0")
		inpAtEachStep(e, "receive", func(ctx context.Context) error {
			d, err := w.B.Receive(ctx, w.SQ, &o)
			if err == nil {
				dlgSame(e, "delivered", bodiesOf(d.Messages), []string{"0"})
				return d.Close()
			}
			// It is not in the hands of a receiver who was told that he has nothing.
			d = w.Receive(w.SQ, nil)
			dlgSame(e, "delivered after the cancelled receive", bodiesOf(d.Messages), []string{"0"})
			e.Must(d.Rollback(e.Ctx))
			return err
		})
		if o.Release == parley.AfterCommit {
			dlgBodies(w, w.SQ, nil, "0")
		}
		w.Nothing(w.SQ, nil)
	}
}

func checkCancelledSettle(e *env) {
	w := e.World()
	_, settling := inpDeliveryVerbs(w)
	for _, hold := range e.Holds() {
		for _, settle := range settling {
			inpAtEachStep(e, settle.name, func(ctx context.Context) error {
				w.Dialog("0")
				d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
				e.Must(d.Messages[0].Reply(e.Ctx, w.Tell, []byte("answer")))
				err := settle.do(ctx, d, d.Messages[0])
				if err != nil {
					e.Must(d.Close()) // it is ours still, or it was given back
				}
				if err == nil && (settle.name == "Defer" || settle.name == "Park") {
					w.Nothing(w.SQ, nil)
					e.Must(w.B.Admin().Unpark(e.Ctx, d.Group))
				}
				if err != nil || settle.name != "Ack" {
					w.Nothing(w.CQ, nil)
					dlgBodies(w, w.SQ, nil, "0")
				} else {
					dlgBodies(w, w.CQ, nil, "answer")
				}
				w.Nothing(w.SQ, nil)
				return err
			})
		}
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkCancelledDefine(e *env) {
	w := e.World()
	name := e.Name("new")
	version := func() int64 {
		c, err := w.B.Catalog(e.Ctx)
		e.Must(err)
		return c.Version
	}
	inpAtEachStep(e, "define", func(ctx context.Context) error {
		before := version()
		err := w.B.Define(ctx, parley.Catalog{
			Types:    []parley.MessageType{{Name: name}},
			Queues:   []parley.Queue{{Name: name}},
			Services: []parley.Service{{Name: name, Queue: name}},
		})
		if after := version(); err != nil && after != before {
			e.Errorf("a cancelled definition made version %d of version %d", after, before)
		}
		return err
	})
	inpAtEachStep(e, "disable", func(ctx context.Context) error {
		before := version()
		err := w.B.Admin().DisableQueue(ctx, w.SQ)
		if after := version(); err != nil && after != before {
			e.Errorf("disabling a queue was cancelled and made version %d of version %d", after, before)
		}
		return err
	})
}

func checkCancelledCommit(e *env) {
	w := e.World()
	h := w.Dialog("0")
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	err := w.B.InTx(ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(h).Send(ctx, w.Ask, []byte("never")); err != nil {
			return err
		}
		if _, err := tx.Post(ctx, w.SQ, parley.Payload{Body: []byte("never")}); err != nil {
			return err
		}
		cancel()
		return nil
	})
	inpCancelled(e, "commit", err, context.Canceled)
	w.Send(h, w.Ask, "1")
	for i, m := range dlgBodies(w, w.SQ, nil, "0", "1") {
		if m.Seq != int64(i) {
			e.Errorf("message %q has number %d, want %d", m.Body, m.Seq, i)
		}
	}
	dlgQuiet(w, w.SQ)
}

func checkCancelledWaiting(e *env) {
	w := e.WorldOn(e.Broker(&parley.Options{Poll: time.Minute}))
	type receiver struct {
		name string
		do   func(ctx context.Context) error
	}
	var receivers []receiver
	for _, hold := range e.Holds() {
		receivers = append(receivers, receiver{"Receive", func(ctx context.Context) error {
			_, err := w.B.Receive(ctx, w.SQ, &parley.ReceiveOptions{Wait: -1, Hold: hold})
			return err
		}})
	}
	if e.ManyWriters() {
		receivers = append(receivers, receiver{"Tx.Receive", func(ctx context.Context) error {
			return w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				_, err := tx.Receive(ctx, w.SQ, &parley.ReceiveOptions{Wait: time.Minute})
				return err
			})
		}}, receiver{"Tx.GetGroup", func(ctx context.Context) error {
			return w.B.InTx(e.Ctx, func(tx *parley.Tx) error {
				_, err := tx.GetGroup(ctx, w.SQ, &parley.ReceiveOptions{Wait: -1})
				return err
			})
		}})
	}
	for _, r := range receivers {
		ctx, cancel := context.WithCancel(e.Ctx)
		wait := dlgGo(e, r.name, func() error { return r.do(ctx) })
		time.Sleep(30 * time.Millisecond) // it waits by now; if not, it will see at once that it must not
		cancel()
		inpCancelled(e, r.name+" while it waits", wait(), context.Canceled)

		ctx, cancel = context.WithTimeout(e.Ctx, 30*time.Millisecond)
		wait = dlgGo(e, r.name, func() error { return r.do(ctx) })
		inpCancelled(e, r.name+" while it waits", wait(), context.DeadlineExceeded)
		cancel()
	}
	w.Dialog("0") // no receiver is left that would take it
	dlgBodies(w, w.SQ, nil, "0")
}

func checkCancelledBehindGroup(e *env) {
	if !e.ManyWriters() {
		e.Skipf("the store has one writer: a transaction does not wait for a group")
	}
	w := e.World()
	other := e.Broker(&parley.Options{GroupWait: time.Minute})
	for _, hold := range e.Holds() {
		h := w.Dialog("0")
		server := dlgPeer(w, h)
		d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		for name, verb := range map[string]func(ctx context.Context, tx *parley.Tx) error{
			"End": func(ctx context.Context, tx *parley.Tx) error { return tx.Conversation(server).End(ctx) },
			"Move": func(ctx context.Context, tx *parley.Tx) error {
				return tx.Conversation(server).Move(ctx, parley.NewID())
			},
			"Begin": func(ctx context.Context, tx *parley.Tx) error {
				_, err := tx.Begin(ctx, w.Server, w.Client, &parley.DialogOptions{Contract: w.Contract, RelatedConversation: server})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(e.Ctx, 40*time.Millisecond)
			wait := dlgGo(e, name, func() error {
				return other.InTx(e.Ctx, func(tx *parley.Tx) error {
					err := verb(ctx, tx)
					if err == nil {
						return errors.New("it did not wait for who holds the group")
					}
					if _, lost := tx.Conversation(server).Status(e.Ctx); lost == nil {
						return tx.Conversation(server).Send(e.Ctx, w.Any, []byte(name))
					}
					return err
				})
			})
			if err := wait(); err != nil {
				inpCancelled(e, name+" while it waits", err, context.DeadlineExceeded)
			} else {
				dlgBodies(w, w.CQ, nil, name) // the transaction went on
			}
			cancel()
		}
		e.Must(d.Ack(e.Ctx))
		dlgState(w, server, parley.Conversing)
		if got := dlgStatus(w, server).Group; got != server {
			e.Errorf("the side is in group %s, want it in its own, %s", got, server)
		}
	}
	dlgQuiet(w, w.SQ, w.CQ)
}

func checkCancelledDelivery(e *env) {
	w := e.World()
	working, settling := inpDeliveryVerbs(w)
	cancelled, cancel := context.WithCancel(e.Ctx)
	cancel()
	for _, hold := range e.Holds() {
		for _, opened := range []bool{false, true} { // whether its transaction is open
			for _, settle := range settling {
				h := w.Dialog("0", "1")
				server := dlgPeer(w, h)
				d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
				m := d.Messages[0]
				if opened {
					e.Must(m.Reply(e.Ctx, w.Tell, []byte("kept back")))
				} else {
					for _, v := range working {
						if err := v.do(cancelled, d, m); !errors.Is(err, context.Canceled) && !(v.name == "On" && err == nil) && !(v.name == "Tx" && err == nil) {
							e.Errorf("%s: the error is %v, want %q", v.name, err, context.Canceled)
						}
					}
				}
				err := settle.do(cancelled, d, m)
				if settle.name != "Rollback" || err != nil { // giving back is clean-up, which may go on
					inpCancelled(e, settle.name, err, context.Canceled)
				}

				// Either the delivery is still ours and can be settled now, or its
				// messages were given back.
				switch err := d.Ack(e.Ctx); {
				case err == nil:
					w.Drain(w.CQ)
					dlgBodies(w, w.SQ, nil, "1")
				case errors.Is(err, parley.ErrSettled):
					dlgBodies(w, w.SQ, nil, "0", "1")
					w.Nothing(w.CQ, nil)
				default:
					e.Fatalf("%s after a cancelled one: %v", "Ack", err)
				}
				w.Nothing(w.SQ, nil)
				dlgState(w, h, parley.Conversing)
				dlgState(w, server, parley.Conversing)
			}
		}
	}
	dlgQuiet(w, w.SQ, w.CQ)
}
