package parley

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/crowd"
	"github.com/parleymq/parley/internal/guard"
	"github.com/parleymq/parley/internal/wait"
)

// Payload is what a message carries.
type Payload struct {
	Type string
	Body []byte // nil and empty are the same: no body
	// Headers are texts beside the body, such as the context of a trace. At most
	// backend.MaxHeaders, and backend.MaxHeaderBytes of names and values together, which count
	// as part of the body for Options.MaxBody. Names must not be empty or begin with "parley-".
	Headers map[string]string
}

// Sending is a message for a conversation, for SendBatch.
type Sending struct {
	To *Conversation
	Payload
}

// Send sends a message. It waits only for others that write to the same side of the
// same conversation, never for a receiver. A body that its type does not allow does not
// fail here. The message is dropped and this side receives an error, as in Service
// Broker.
func (c *Conversation) Send(ctx context.Context, typ string, body []byte) error {
	return c.tx.SendBatch(ctx, []Sending{{c, Payload{Type: typ, Body: body}}})
}

// SendPayload is Send for a payload, which may have headers.
func (c *Conversation) SendPayload(ctx context.Context, p Payload) error {
	return c.tx.SendBatch(ctx, []Sending{{c, p}})
}

// Send sends a message on a conversation in a separate transaction, as Post posts one.
func (b *Broker) Send(ctx context.Context, conversation ID, p Payload) error {
	f := b.convs.get(conversation)
	if f == nil {
		return b.alone(ctx, func(tx *Tx) error { return tx.Conversation(conversation).SendPayload(ctx, p) })
	}
	err := b.shownOne(ctx, f.service, f.far, &p)
	if err == nil {
		err = b.crowded(ctx, &crowd.Member[*verb]{Subject: subject{conversation: conversation}, Verb: &verb{Posting: Posting{Payload: p},
			on: func(_ context.Context, tx *Tx) (*Conversation, error) { return tx.Conversation(conversation), nil }}})
	}
	return fail("send", objConv(conversation), err)
}

// SendTo sends one message on several conversations, or on none if any of them cannot take it. No
// conversation may be listed twice.
func (tx *Tx) SendTo(ctx context.Context, to []*Conversation, typ string, body []byte) error {
	batch := make([]Sending, len(to))
	seen := make(map[ID]bool, len(to))
	for i, c := range to {
		if seen[c.handle] {
			return fail("send", objConv(c.handle), fmt.Errorf("it is in the list twice: %w", ErrInvalidOption))
		}
		seen[c.handle] = true
		batch[i] = Sending{c, Payload{Type: typ, Body: body}}
	}
	return tx.SendBatch(ctx, batch)
}

// SendBatch sends all messages or none. Messages on one conversation are sent
// in the order of the batch.
func (tx *Tx) SendBatch(ctx context.Context, batch []Sending) error {
	if len(batch) == 0 {
		return nil
	}
	for _, s := range batch {
		if s.To.tx != tx {
			return fail("send", objConv(s.To.handle), fmt.Errorf("the conversation belongs to another transaction: %w", ErrInvalidOption))
		}
	}
	obj := objConv(batch[0].To.handle)
	if len(batch) > 1 {
		obj += fmt.Sprintf(" and %d more", len(batch)-1)
	}
	err := tx.ready()
	if err == nil {
		batch, err = tx.shown(ctx, batch)
	}
	if err == nil {
		err = tx.send(ctx, batch)
	}
	if err == nil {
		err = tx.told(ctx)
	}
	return fail("send", obj, err)
}

// outbox sorts a batch: what can be sent and what is turned down by its type.
type outbox struct {
	from   []*Conversation
	out    []backend.Outgoing
	turned []turnedDown
}

type turnedDown struct {
	conv *Conversation
	typ  string
	why  error
}

func (tx *Tx) send(ctx context.Context, batch []Sending) error {
	var box outbox
	var version int64
	err := tx.withCatalog(ctx, func(v *catalogView) (err error) {
		version = v.version
		box, err = tx.sort(ctx, v, batch)
		switch {
		case err != nil:
			return err
		case tx.noWait:
			return tx.dispatchPlain(ctx, v, box)
		case len(box.turned) == 0:
			return tx.dispatch(ctx, v, version, box)
		}
		return tx.whole(ctx, "parley_batch", func() error {
			if len(box.out) > 0 {
				if err := tx.dispatch(ctx, v, version, box); err != nil {
					return err
				}
			}
			for _, t := range box.turned {
				if err := tx.turnDown(ctx, t); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, c := range box.from {
		c.fresh = nil
	}
	return nil
}

// sort checks each message against contract and type.
func (tx *Tx) sort(ctx context.Context, v *catalogView, batch []Sending) (outbox, error) {
	var box outbox
	broken := map[ID]bool{} // conversations with a message turned down: nothing follows it
	for _, s := range batch {
		f, err := s.To.known(ctx)
		if err != nil {
			return box, fmt.Errorf("%s: %w", objConv(s.To.handle), err)
		}
		p, why, err := tx.b.checked(v, s.Payload, func(typ string) error { return f.allows(v, typ) })
		if err != nil {
			return box, err
		}
		if why != nil && s.To.recycled { // the application would not receive the error in the conversation
			return box, fmt.Errorf("message type %q: %w: %w", p.Type, ErrInvalidBody, why)
		}
		if why != nil {
			if !broken[s.To.handle] {
				// Whether it could be sent at all is asked before anything is.
				ep, err := s.To.endpoint(ctx)
				if err == nil {
					err = sendable(ep)
				}
				if err != nil {
					return box, fmt.Errorf("%s: %w", objConv(s.To.handle), err)
				}
				box.turned = append(box.turned, turnedDown{s.To, p.Type, why})
			}
			broken[s.To.handle] = true
			continue
		}
		if broken[s.To.handle] {
			continue
		}
		box.from = append(box.from, s.To)
		box.out = append(box.out, backend.Outgoing{
			ID:      NewID(),
			From:    s.To.handle,
			Type:    p.Type,
			Kind:    backend.KindUser,
			Body:    p.Body,
			Headers: backend.EncodeHeaders(p.Headers),
			Retain:  v.queues[v.services[f.service].Queue].Retention,
			Last:    p.Type == EndOfStream,
		})
	}
	return box, nil
}

// allows returns why the side may not send a message of a type.
func (f *convInfo) allows(v *catalogView, typ string) error {
	if v.allows(f.contract, typ, f.initiator) {
		return nil
	}
	side := "target"
	if f.initiator {
		side = "initiator"
	}
	return fmt.Errorf("message type %q, sent by the %s on contract %q: %w", typ, side, f.contract, ErrTypeNotAllowed)
}

// turnDown answers a message whose body its type does not allow: it is not sent,
// and its sender is told, in the conversation.
func (tx *Tx) turnDown(ctx context.Context, t turnedDown) error {
	ep, err := t.conv.endpoint(ctx)
	if err != nil {
		return err
	}
	tx.touch(ep.Queue)
	return tx.be.Notice(ctx, backend.Notice{To: ep.Handle, Kind: backend.KindError, Error: &DialogError{
		Code: CodeValidationFailed,
		Text: fmt.Sprintf("A message of type %q failed validation on the target service %q. Conversation ID: %s, Initiator: %t, Message sequence number: %d. %v",
			t.typ, ep.FarService, ep.Conversation, ep.Initiator, ep.NextSeq, guard.Reason(guard.String(t.why), "its validator says no more")),
	}})
}

// sendable says in which state nothing can be sent.
func sendable(ep *backend.Endpoint) error {
	switch ep.State {
	case DisconnectedInbound:
		return ErrFarEnded
	case Errored:
		if ep.Error != nil {
			return fmt.Errorf("%w: %w", ErrConversationError, ep.Error)
		}
		return ErrConversationError
	case DisconnectedOutbound, StateClosed:
		return ErrEnded
	}
	return nil
}

// dispatch sends a batch. If the store refuses messages, the refusal is resolved where possible. A
// conversation without a target gets one, and messages that the target cannot take are withheld.
func (tx *Tx) dispatch(ctx context.Context, v *catalogView, version int64, box outbox) error {
	const point = "parley_send"
	marked := false
	undo := func(err error) error {
		if marked {
			ctx, cancel := wait.Cleanup(ctx)
			defer cancel()
			err = errors.Join(err, tx.back(ctx, point), tx.be.Release(ctx, point))
		}
		return err
	}
	// Changes are made step by step only by a batch, which must be undone whole.
	mark := func() error {
		if marked || len(box.out) == 1 {
			return nil
		}
		marked = true
		return tx.be.Savepoint(ctx, point)
	}

	withheld := map[ID]string{} // handle -> why
	gone := map[ID]bool{}       // answered with an error, as their messages cannot arrive
	accepted := map[ID]bool{}
	recycled := map[ID]bool{}
	for _, c := range box.from {
		recycled[c.handle] = c.recycled
		if c.behind != "" {
			withheld[c.handle] = c.behind
			continue
		}
		if c.fresh != nil && !accepted[c.handle] { // the store would only refuse the first try
			accepted[c.handle] = true
			if err := mark(); err != nil {
				return err
			}
			why, err := tx.acceptEndpoint(ctx, v, c.fresh)
			switch {
			case errors.Is(err, errContractRefused) && !c.recycled:
				gone[c.handle] = true
			case err != nil:
				return undo(err)
			case why != "":
				withheld[c.handle] = why
			}
		}
	}

	for try := 0; ; try++ {
		var now, later []backend.Outgoing
		for _, o := range box.out {
			switch {
			case gone[o.From]:
			case withheld[o.From] != "":
				later = append(later, o)
			default:
				now = append(now, o)
			}
		}
		refused, err := tx.tryBoth(ctx, version, now, later, withheld)
		if err != nil {
			return undo(err)
		}
		if refused == nil {
			break
		}
		if try > len(box.out)+maxReloads {
			return undo(refused)
		}
		if err := mark(); err != nil {
			return err
		}
		for i, r := range refused.Refusals {
			h := now[i].From
			switch r {
			case backend.RefusedStale:
				return undo(backend.ErrStaleCatalog)
			case backend.RefusedUnknown:
				err = fmt.Errorf("%s: %w", objConv(h), ErrNoConversation)
			case backend.RefusedEnded:
				err = fmt.Errorf("%s: %w", objConv(h), ErrEnded)
			case backend.RefusedSealed:
				err = fmt.Errorf("%s: %w", objConv(h), ErrSealed)
			case backend.RefusedFar:
				gone[h], err = true, tx.peerGone(ctx, h, recycled[h])
			case backend.RefusedNoTarget:
				if withheld[h] != "" || gone[h] {
					continue
				}
				var why string
				why, err = tx.accept(ctx, v, tx.Conversation(h))
				if why != "" {
					withheld[h] = why
				}
			case backend.RefusedDisabled:
				withheld[h] = targetDisabled
			case backend.RefusedWithheld:
				withheld[h], err = tx.whyHeld(ctx, v, h)
			}
			if errors.Is(err, errContractRefused) && !recycled[h] {
				gone[h], err = true, nil
			}
			if err != nil {
				return undo(err)
			}
		}
	}
	if marked {
		if err := tx.be.Release(ctx, point); err != nil {
			return undo(err)
		}
	}
	return nil
}

// dispatchPlain sends a batch to targets that can take it, or fails: by itself each message has what it needs.
func (tx *Tx) dispatchPlain(ctx context.Context, v *catalogView, box outbox) error {
	if len(box.turned) > 0 {
		return backend.ErrStreamBusy
	}
	for _, c := range box.from {
		if c.fresh == nil {
			continue
		}
		why, err := tx.acceptEndpoint(ctx, v, c.fresh)
		if err == nil && why != "" {
			err = backend.ErrStreamBusy
		}
		if err != nil {
			return err
		}
	}
	sent, err := tx.be.Send(ctx, v.version, box.out)
	for _, s := range sent {
		tx.touch(s.Queue)
	}
	return err
}

// tryBoth sends and withholds; what was refused is told, and then nothing was
// withheld either.
func (tx *Tx) tryBoth(ctx context.Context, version int64, now, later []backend.Outgoing, why map[ID]string) (*backend.Refused, error) {
	if len(now) > 0 {
		sent, err := tx.be.Send(ctx, version, now)
		var refused *backend.Refused
		if errors.As(err, &refused) {
			return refused, nil
		}
		if err != nil {
			return nil, err
		}
		for _, s := range sent {
			tx.touch(s.Queue)
			tx.seq = s.Seq
		}
	}
	for len(later) > 0 { // one call for each reason
		reason := why[later[0].From]
		var same, rest []backend.Outgoing
		for _, o := range later {
			if why[o.From] == reason {
				same = append(same, o)
			} else {
				rest = append(rest, o)
			}
		}
		sent, err := tx.be.Withhold(ctx, same, reason)
		if err != nil {
			return nil, err
		}
		tx.seq = sent[len(sent)-1].Seq
		later = rest
	}
	return nil, nil
}

// whyHeld says what a conversation with withheld messages waits for.
func (tx *Tx) whyHeld(ctx context.Context, v *catalogView, handle ID) (string, error) {
	f, err := tx.Conversation(handle).known(ctx)
	if err != nil {
		return "", err
	}
	svc, ok := v.services[f.far]
	switch {
	case !ok:
		return fmt.Sprintf("service %q is not defined", f.far), nil
	case v.queues[svc.Queue].Disabled:
		return targetDisabled, nil
	}
	return "earlier messages of the conversation wait", nil
}

const targetDisabled = "the target's queue is disabled"

// errContractRefused: the target was asked on a contract that it does not take;
// the sender has been told in the conversation.
var errContractRefused = errors.New("the target service does not accept the contract")

// accept makes the target's side of a conversation. why says why it cannot be
// made yet.
func (tx *Tx) accept(ctx context.Context, v *catalogView, c *Conversation) (why string, err error) {
	ep, err := c.endpoint(ctx)
	if err != nil {
		return "", err
	}
	return tx.acceptEndpoint(ctx, v, ep)
}

func (tx *Tx) acceptEndpoint(ctx context.Context, v *catalogView, ep *backend.Endpoint) (why string, err error) {
	svc, ok := v.services[ep.FarService]
	if !ok {
		return fmt.Sprintf("service %q is not defined", ep.FarService), nil
	}
	if !takes(svc, ep.Contract) {
		err := tx.refuseContract(ctx, ep, svc)
		if err == nil {
			err = errContractRefused
		}
		return "", err
	}
	_, err = tx.be.Accept(ctx, v.version, ep.Handle, backend.Endpoint{
		Handle:       ep.FarHandle,
		Conversation: ep.Conversation,
		FarHandle:    ep.Handle,
		Service:      svc.Name,
		FarService:   ep.Service,
		Contract:     ep.Contract,
		Queue:        v.queues[svc.Queue].ID,
		Group:        ep.FarHandle, // a separate group
		Priority:     v.priority(ep.Contract, svc.Name, ep.Service),
		Lifetime:     ep.Lifetime,
	})
	return "", err
}

// refuseContract tells a sender, in the conversation, that its target does not
// take the contract.
func (tx *Tx) refuseContract(ctx context.Context, ep *backend.Endpoint, svc Service) error {
	tx.touch(ep.Queue)
	return tx.be.Notice(ctx, backend.Notice{To: ep.Handle, Kind: backend.KindError, Error: &DialogError{
		Code: CodeContractRefused,
		Text: fmt.Sprintf("The target service %q does not support the service contract %q.", svc.Name, ep.Contract),
	}})
}

func takes(s Service, contract string) bool { return slices.Contains(s.Contracts, contract) }

// peerGone answers a send on a conversation whose other side is not there. It is an
// error of this call. After a cleanup of which this side could not know it is an error
// in the conversation, which a Sender hears at once.
func (tx *Tx) peerGone(ctx context.Context, handle ID, recycled bool) error {
	ep, err := tx.Conversation(handle).endpoint(ctx)
	if err != nil {
		return err
	}
	if err := sendable(ep); err != nil {
		return fmt.Errorf("%s: %w", objConv(handle), err)
	}
	if !ep.FarCleaned {
		return fmt.Errorf("%s: %w", objConv(handle), ErrFarEnded)
	}
	gone := &DialogError{
		Code: CodeRemoteClosed,
		Text: fmt.Sprintf("The conversation endpoint of %q is closed or has been dropped.", ep.FarService),
	}
	if recycled {
		return fmt.Errorf("%s: %w: %w", objConv(handle), ErrConversationError, gone)
	}
	tx.touch(ep.Queue)
	return tx.be.Notice(ctx, backend.Notice{To: handle, Kind: backend.KindError, Error: gone})
}
