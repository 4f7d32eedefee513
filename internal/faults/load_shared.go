package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/parleymq/parley"
)

// Shared dialogs and keys have all senders, each of which has a stream in them. Senders that write to several dialogs
// in one transaction keep to one order; within one call the order is for the store to find.
const (
	sharedDialogs = 8
	sharedKeys    = 5
)

// sharedFile lists the handles of the shared dialogs.
func sharedFile(stop string) string { return filepath.Join(filepath.Dir(stop), "shared") }

// share begins the shared dialogs.
func (s *suite) share(ctx context.Context) error {
	var handles []parley.ID
	for i := range sharedDialogs {
		e := event{Kind: sending, Stream: fmt.Sprint("shared/", i)}
		s.rec.write(e)
		err := s.b.InTx(ctx, func(tx *parley.Tx) error {
			c, err := tx.Begin(ctx, asker, diary, &parley.DialogOptions{Contract: entries})
			if err != nil {
				return err
			}
			handles = append(handles, c.Handle())
			return send(ctx, c.Send, entryType, body{Stream: e.Stream})
		})
		if err != nil {
			return err
		}
		e.Kind = sent
		s.rec.write(e)
	}
	text, err := json.Marshal(handles)
	if err != nil {
		return err
	}
	return os.WriteFile(sharedFile(s.stopFile()), text, 0o600)
}

// unshare ends the shared dialogs when the programs send no more.
func (s *suite) unshare(ctx context.Context) error {
	handles, err := readShared(s.stopFile())
	for _, h := range handles {
		err = s.again(ctx, func(ctx context.Context) error {
			err := s.b.InTx(ctx, func(tx *parley.Tx) error { return tx.Conversation(h).End(ctx) })
			return unless(err, parley.ErrEnded, parley.ErrNoConversation) // by a try whose connection was cut
		})
		if err != nil {
			break
		}
	}
	return err
}

func readShared(stop string) (handles []parley.ID, err error) {
	text, err := os.ReadFile(sharedFile(stop))
	if err == nil {
		err = json.Unmarshal(text, &handles)
	}
	return handles, err
}

// shared sends where other senders do, or in a dialog that ends at once.
func (s *sender) shared(ctx context.Context) error {
	f := []func(context.Context, *parley.Tx, func(event)) error{s.oneByOne, s.together, s.underKeys, s.brief}[random.IntN(4)]
	err := s.send(ctx, func(tx *parley.Tx, log func(event)) error { return f(ctx, tx, log) })
	return unless(err, parley.ErrEnded, parley.ErrNoConversation) // the run is over
}

// sharedIn returns the event of a message in shared dialogs or keys.
func (s *sender) sharedIn(kind string, i int) event {
	return s.nextIn(fmt.Sprint(kind, "/", i, "/", s.name))
}

// pick draws numbers below n, in their order.
func pick(n int) (list []int) {
	for range 1 + random.IntN(4) {
		list = append(list, random.IntN(n))
	}
	slices.Sort(list)
	return list
}

func (s *sender) oneByOne(ctx context.Context, tx *parley.Tx, log func(event)) error {
	for _, i := range pick(len(s.talks)) {
		e := s.sharedIn("shared", i)
		log(e)
		if err := send(ctx, tx.Conversation(s.talks[i]).Send, entryType, body{Stream: e.Stream, Seq: e.Seq}); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) together(ctx context.Context, tx *parley.Tx, log func(event)) error {
	var batch []parley.Sending
	list := pick(len(s.talks))
	slices.Reverse(list)
	for _, i := range list {
		e := s.sharedIn("shared", i)
		log(e)
		batch = append(batch, parley.Sending{To: tx.Conversation(s.talks[i]), Payload: body{Stream: e.Stream, Seq: e.Seq}.payload(entryType)})
	}
	return tx.SendBatch(ctx, batch)
}

func (s *sender) underKeys(ctx context.Context, tx *parley.Tx, log func(event)) error {
	var batch []parley.Posting
	list := pick(sharedKeys)
	slices.Reverse(list)
	for _, i := range list {
		e := s.sharedIn("common", i)
		log(e)
		batch = append(batch, parley.Posting{Payload: body{Stream: e.Stream, Seq: e.Seq}.payload(parley.DefaultType),
			Options: []parley.PostOption{parley.Key(fmt.Sprint("common ", i))}})
	}
	_, err := tx.PostBatch(ctx, postQueue, batch)
	return err
}

// brief begins a dialog, says all that it has to say, and ends its side.
func (s *sender) brief(ctx context.Context, tx *parley.Tx, log func(event)) error {
	c, err := tx.Begin(ctx, asker, diary, &parley.DialogOptions{Contract: entries})
	if err != nil {
		return err
	}
	stream := "brief/" + s.serialName()
	for range 1 + random.IntN(3) {
		e := s.nextIn(stream)
		log(e)
		if err := send(ctx, c.Send, entryType, body{Stream: e.Stream, Seq: e.Seq}); err != nil {
			return err
		}
	}
	return c.End(ctx)
}
