package main

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

// A diary is written by Senders, whose dialogs are renewed often.
const (
	writerQueue, diaryQueue = "faults writers", "faults diary"
	writer, diary           = "Faults writer", "Faults diary"
	entryType, entries      = "Faults entry", "Faults entries"
)

// entries writes entries under one key, or without.
func (s *sender) entries(ctx context.Context) (err error) {
	if s.diary == nil {
		s.diary, err = s.b.NewSender(ctx, &parley.SenderOptions{From: writer, To: diary, Contract: entries,
			MaxAge: 700 * time.Millisecond, MaxMessages: 40, Slots: 2})
		if err != nil {
			return err
		}
	}
	key := random.IntN(4)
	return s.send(ctx, func(tx *parley.Tx, log func(event)) error {
		for range 1 + random.IntN(4) {
			e, by := s.single("entry"), s.diary
			if key > 0 {
				e = s.nextIn(fmt.Sprint("diary/", s.name, "/", key))
				by = s.diary.Key(fmt.Sprint(s.name, " ", key))
			}
			log(e)
			if err := by.Send(ctx, tx, body{Stream: e.Stream, Seq: e.Seq}.payload(entryType)); err != nil {
				return err
			}
		}
		return nil
	})
}

// entry handles an entry.
func (h *handlers) entry(ctx context.Context, m *parley.Message) error {
	b, err := bodyOf(m)
	if err != nil {
		return err
	}
	return h.handle(ctx, m, b, nil)
}
