package parleytest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// Message makes a message that carries v, at its first attempt. It is for Kit.Handle, and for calling a handler
// directly. Such a handler needs no store unless it asks for Message.Tx, which returns parley.ErrNotReceived.
// Message.WithTx gives it a transaction, such as one of Kit.Broker.
func Message[T any](t testing.TB, typ parley.Typed[T], v T) *parley.Message {
	t.Helper()
	p, err := typ.Encode(v)
	if err != nil {
		t.Fatalf("parleytest: %v", err)
	}
	return &parley.Message{
		ID: parley.NewID(), Type: p.Type, Body: p.Body,
		Attempt: 1, Priority: parley.DefaultPriority, Enqueued: time.Now(),
	}
}

// Post posts v in a separate transaction.
func Post[T any](k *Kit, queue string, typ parley.Typed[T], v T, o ...parley.PostOption) (id parley.ID) {
	k.t.Helper()
	k.must("post", k.Broker.InTx(k.own, func(tx *parley.Tx) (err error) {
		id, err = typ.Post(k.own, tx, queue, v, o...)
		return err
	}))
	return id
}

// place is where a message waits.
type place struct {
	queue string
	group backend.ID
	id    backend.ID // zero: the first of its type
	typ   string
}

func (p place) is(m *backend.Message) bool {
	return p.group.IsZero() || m.ID == p.id || p.id.IsZero() && m.Type == p.typ
}

// put sees to it that a message is in the store.
func (k *Kit) put(m *parley.Message) place {
	k.t.Helper()
	p := place{queue: m.Queue, id: m.ID, typ: m.Type}
	var err error
	if p.queue != "" && !p.id.IsZero() {
		if p.group, err = k.store.Find(k.own, p.id); err == nil {
			return p
		}
	}
	k.must("put a message into the store", k.Broker.InTx(k.own, func(tx *parley.Tx) error {
		if m.Conversation.IsZero() && m.Service == "" {
			p.id, err = k.post(tx, m)
			return err
		}
		return k.send(tx, m, &p)
	}))
	if !p.id.IsZero() {
		p.group, err = k.store.Find(k.own, p.id)
		k.must("find a message in the store", err)
	}
	if m.Attempt > 1 || m.LastError != "" || len(m.Errors) > 0 {
		err = k.Broker.InTx(k.own, func(tx *parley.Tx) error { return k.fail(tx, m, p) })
		k.must("give a message its earlier failures", err)
	}
	return p
}

func (k *Kit) post(tx *parley.Tx, m *parley.Message) (parley.ID, error) {
	var o []parley.PostOption
	if m.Key != "" {
		o = append(o, parley.Key(m.Key))
	}
	if m.Priority != 0 {
		o = append(o, parley.Priority(m.Priority))
	}
	if !m.ID.IsZero() {
		o = append(o, parley.PostID(m.ID))
	}
	return tx.Post(k.own, m.Queue, parley.Payload{Type: m.Type, Body: m.Body, Headers: m.Headers}, o...)
}

// send has the far side of a conversation send a message, or the broker give one notice.
func (k *Kit) send(tx *parley.Tx, m *parley.Message, p *place) (err error) {
	be, err := tx.Backend()
	if err != nil {
		return err
	}
	p.id = backend.ID{}
	var far *parley.Conversation
	var queue int64
	if m.Conversation.IsZero() {
		far, err = tx.Begin(k.own, m.FarService, m.Service, &parley.DialogOptions{Contract: m.Contract})
	} else {
		var near *backend.Endpoint
		if near, err = be.Endpoint(k.own, m.Conversation); err == nil {
			p.group, queue, far = near.Group, near.Queue, tx.Conversation(near.FarHandle)
		}
	}
	if err != nil {
		return err
	}
	switch e := m.Err(); {
	case m.Type == parley.DialogTimer:
		err = be.Notice(k.own, backend.Notice{To: m.Conversation, Kind: backend.KindTimer})
	case e != nil && e.Code < 0:
		err = be.Notice(k.own, backend.Notice{To: m.Conversation, Kind: backend.KindError, Error: e})
	case e != nil:
		err = far.EndWithError(k.own, e.Code, e.Text)
	case m.Type == parley.EndDialog:
		err = far.End(k.own)
	default:
		err = far.SendPayload(k.own, parley.Payload{Type: m.Type, Body: m.Body, Headers: m.Headers})
	}
	if err != nil {
		return err
	}
	if sent := be.(*watched).sent; len(sent) > 0 {
		last := sent[len(sent)-1]
		p.id, queue = last.ID, last.queue
	}
	if p.queue = k.queueName(queue); p.queue == "" {
		return fmt.Errorf("it waits in no queue: is service %q defined, and its queue enabled?", m.Service)
	}
	return nil
}

// fail notes of a message that waits that it has failed before.
func (k *Kit) fail(tx *parley.Tx, m *parley.Message, p place) error {
	be, err := tx.Backend()
	if err != nil {
		return err
	}
	catalog, err := be.Catalog(k.own, false)
	if err != nil {
		return err
	}
	r := backend.ClaimRequest{Version: catalog.Version, Group: p.group, MaxGroups: 1, MaxMessages: 1, MaxBytes: 1}
	for _, q := range catalog.Queues {
		if q.Name == p.queue {
			r.Queue = q.ID
		}
	}
	c, err := be.Claim(k.own, r)
	switch {
	case err != nil:
		return err
	case len(c.Holds) == 0:
		return errors.New("its group is parked, deferred or in a receiver's hands")
	}
	h := c.Holds[0]
	first := h.Messages[0]
	if !p.is(first) {
		return fmt.Errorf("message %s, %s, is before it", first.ID, first.Type)
	}
	failure := &backend.Failure{Message: first, Attempts: max(m.Attempt-1, 0), Error: m.LastError, Errors: m.Errors}
	_, err = be.Settle(k.own, []backend.Outcome{{Hold: h, Failure: failure}})
	return err
}
