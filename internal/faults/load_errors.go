package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/parleymq/parley"
)

// wrong begins the text of errors that are meant. The name of the conversation's stream of errors follows.
const wrong = "faults: "

// errors writes entries in a dialog that ends with an error: at once, or when its timer is due. The error overtakes
// the entries, and those that wait go with it.
func (s *sender) errors(ctx context.Context) error {
	return s.send(ctx, func(tx *parley.Tx, log func(event)) error {
		c, err := tx.Begin(ctx, asker, diary, &parley.DialogOptions{Contract: entries})
		if err != nil {
			return err
		}
		id, err := c.ID(ctx)
		if err != nil {
			return err
		}
		for i := range 1 + random.IntN(3) { // without any the other side would not exist
			e := event{Stream: dialogStream(id, "entry"), Seq: i}
			log(e)
			e.Kind = waived
			s.rec.write(e)
			if err := send(ctx, c.Send, entryType, body{Stream: e.Stream, Seq: e.Seq}); err != nil {
				return err
			}
		}
		if random.IntN(2) == 0 {
			return setTimer(ctx, c, id, log)
		}
		e := event{Stream: dialogStream(id, "error")}
		log(e)
		return c.EndWithError(ctx, 1, wrong+e.Stream)
	})
}

// quit ends a dialog with an error when its timer is due.
func (h *handlers) quit(ctx context.Context, m *parley.Message) error {
	return h.answer(ctx, m, body{Stream: dialogStream(m.ConversationID, "timer")}, func(a *attempt) error {
		c, err := m.On(ctx)
		if err != nil {
			return err
		}
		stream := dialogStream(m.ConversationID, "error")
		a.posts(stream, 0)
		return c.EndWithError(ctx, 1, wrong+stream)
	})
}

// errored handles errors. Those that are not meant should not come.
func (h *handlers) errored(ctx context.Context, m *parley.Message) error {
	e := m.Err()
	stream, meant := strings.CutPrefix(e.Text, wrong)
	if meant && e.Code == 1 && stream == dialogStream(m.ConversationID, "error") {
		return h.answer(ctx, m, body{Stream: stream}, func(*attempt) error { return m.End(ctx) })
	}
	h.rec.write(event{Kind: failed, Name: fmt.Sprintf("the conversation of %s with %s: %v", m.Service, m.FarService, e)})
	return m.End(ctx)
}
