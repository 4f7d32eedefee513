package main

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
)

// move takes one side of a dialog to the group of another one, or to a new group.
func (s *sender) move(ctx context.Context) error {
	// The shared dialogs are the oldest, so that some of them have groups of several.
	list, err := s.b.Admin().Conversations(ctx, parley.ConversationQuery{Limit: 3 * sharedDialogs})
	if err != nil || len(list) == 0 {
		return err
	}
	from, to := list[random.IntN(len(list))], list[random.IntN(len(list))]
	if from.Service == writer { // the library has it in hand
		return nil
	}
	group := to.Group
	if to.Service != from.Service {
		group = parley.NewID()
	}
	return s.moveTo(ctx, from.Handle, group)
}

// moveTo takes one side of a dialog to a group.
func (s *sender) moveTo(ctx context.Context, handle, group parley.ID) error {
	err := s.b.InTx(ctx, func(tx *parley.Tx) error {
		if err := tx.Conversation(handle).Move(ctx, group); err != nil {
			return err
		}
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		if random.IntN(5) == 0 {
			return errBack
		}
		s.rec.write(event{Kind: moving, Group: group.String()})
		return nil
	})
	return unless(err, parley.ErrNoConversation, parley.ErrEnded)
}

// byHand receives as programs do that have no worker: in a delivery, or in a transaction of theirs. They do not wait to be
// told of messages, and so hide from workers that those are not told.
func (h *handlers) byHand(ctx context.Context) {
	mux := h.mux()
	for ctx.Err() == nil && wanted("receivers") {
		queue := []string{postQueue, askQueue, answerQueue, diaryQueue, diaryQueue, diaryQueue}[random.IntN(6)]
		receive := []func(context.Context, *parley.Mux, string) error{h.delivery, h.verbs}[random.IntN(2)]
		if err := receive(ctx, mux, queue); err != nil {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
	}
}

// verbs takes up to two groups in one transaction, as GET CONVERSATION GROUP and RECEIVE do.
func (h *handlers) verbs(ctx context.Context, mux *parley.Mux, queue string) error {
	return h.b.InTx(ctx, func(tx *parley.Tx) error {
		for n := range 1 + random.IntN(2) {
			o := parley.ReceiveOptions{MaxMessages: 1 + random.IntN(4)}
			var err error
			if random.IntN(2) == 0 {
				o.Group, err = tx.GetGroup(ctx, queue, nil)
			}
			var list []*parley.Message
			if err == nil {
				list, err = tx.Receive(ctx, queue, &o)
			}
			if err != nil && n > 0 {
				return unless(err, parley.ErrNoMessage)
			}
			if err == nil {
				h.linger(h.b.Backend().Capabilities().SingleWriter)
				err = handleAll(ctx, mux, list)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// linger is what a slow handler does, at which no sender waits for it.
func (h *handlers) linger(alone bool) {
	if random.IntN(3) == 0 && !alone { // the only writer would stop all others
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
	}
}

// delivery takes a delivery and does with it what must make no difference.
func (h *handlers) delivery(ctx context.Context, mux *parley.Mux, queue string) error {
	o := parley.ReceiveOptions{MaxMessages: 1 + random.IntN(4), Hold: parley.HoldTransaction}
	if random.IntN(2) == 0 || !h.b.Backend().Capabilities().HoldsInTransaction {
		o.Hold = parley.HoldLease
	}
	d, err := h.b.Receive(ctx, queue, &o)
	if err != nil {
		return err
	}
	defer d.Close()
	h.linger(false)
	if err = vary(ctx, d); err == nil {
		err = handleAll(ctx, mux, d.Messages)
	}
	if err == nil && random.IntN(8) == 0 {
		err = d.Rollback(ctx)
	} else if err == nil {
		err = d.Ack(ctx)
	}
	if errors.Is(err, parley.ErrFenced) && o.Hold == parley.HoldTransaction {
		h.rec.write(event{Kind: failed, Name: "a group was taken from the transaction that held it: " + err.Error()})
	}
	return err
}

// vary writes something and takes it back, or returns messages and takes them again.
func vary(ctx context.Context, d *parley.Delivery) error {
	switch random.IntN(6) {
	case 0:
		const point = "faults"
		tx, err := d.Tx(ctx)
		if err == nil {
			err = tx.Savepoint(ctx, point)
		}
		if err == nil {
			err = writeEffect(ctx, tx, effect{"undone", 0, "undone", hotRow()})
		}
		if err == nil {
			err = tx.RollbackTo(ctx, point)
		}
		if err == nil {
			err = tx.Release(ctx, point)
		}
		return err
	case 1:
		if err := d.Return(ctx); err != nil {
			return err
		}
		_, err := d.More(ctx, 3)
		return err
	case 2:
		_, err := d.More(ctx, 2)
		return err
	}
	return nil
}

// handleAll handles messages, but for those behind an error whose handler ended the conversation, as a worker does.
func handleAll(ctx context.Context, mux *parley.Mux, list []*parley.Message) error {
	over := make(map[parley.ID]bool)
	for _, m := range list {
		if over[m.Conversation] {
			continue
		}
		if err := mux.HandleMessage(ctx, m); err != nil {
			return err
		}
		if m.Type == parley.ErrorMessageType {
			over[m.Conversation] = true
		}
	}
	return nil
}
