package main

import (
	"context"
	"fmt"

	"github.com/parleymq/parley"
)

// alone sends one message without a transaction: on a shared dialog or a new one, under a shared key or a separate one, or
// without a key.
func (s *sender) alone(ctx context.Context) error {
	var e event
	var options []parley.PostOption
	verb := func(p parley.Payload) error {
		_, err := s.b.Post(ctx, postQueue, p, options...)
		return err
	}
	typ := parley.DefaultType
	switch random.IntN(5) {
	case 0:
		e = s.single("post")
	case 1:
		e = s.nextIn(fmt.Sprint("key/", s.name, "/", s.key()))
		options = append(options, parley.Key(e.Stream))
	case 2:
		i := random.IntN(sharedKeys)
		e = s.sharedIn("common", i)
		options = append(options, parley.Key(fmt.Sprint("common ", i)))
	case 3:
		i := random.IntN(len(s.talks))
		e, typ = s.sharedIn("shared", i), entryType
		verb = func(p parley.Payload) error { return s.b.Send(ctx, s.talks[i], p) }
	case 4:
		e, typ = s.single("begin"), requestType
		verb = func(p parley.Payload) error {
			_, err := s.b.BeginDialog(ctx, asker, answerer, &parley.DialogOptions{Contract: talk}, p)
			return err
		}
	}
	e.Kind = sending
	s.rec.write(e)
	err := verb(body{Stream: e.Stream, Seq: e.Seq}.payload(typ))
	e.Kind = outcome(err, true)
	s.rec.write(e)
	if e.Kind == unknown {
		s.name = s.serialName() // new streams: it may arrive behind what is sent from now on
	}
	return unless(err, parley.ErrEnded, parley.ErrNoConversation) // the run is over
}
