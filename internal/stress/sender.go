package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
)

// sender writes to streams that others write to as well, or to one of its own.
type sender struct {
	w       *world
	rec     recorder
	rng     *rand.Rand
	origin  string
	serial  *atomic.Int64 // of the origin
	dialogs []dialog      // in the order in which they were begun
	alone   bool          // no other sender writes to dialogs: take the time of a send
	took    func(time.Duration)
	slow    time.Duration // how long a transaction may stay open now and then
}

// errBack is how a sender asks for a rollback.
var errBack = errors.New("rolled back on purpose")

// work is one transaction in the making.
type work struct {
	tx     *parley.Tx
	tokens []string
}

// turn runs one transaction.
func (s *sender) turn(p *process) {
	ctx := context.Background()
	var t work
	var inside error
	err := p.InTx(ctx, func(tx *parley.Tx) error {
		t = work{tx: tx}
		inside = s.fill(ctx, &t)
		return inside
	})
	switch {
	case err == nil:
		s.rec.ended(committed, t.tokens)
	case errors.Is(err, errBack):
		s.rec.count("rollbacks", 1)
		s.rec.ended(undone, t.tokens)
	case inside == nil && errors.Is(err, parley.ErrConnection):
		s.rec.ended(maybe, t.tokens)
	default:
		s.rec.ended(undone, t.tokens)
		complain(s.rec, p, "sender", err)
	}
}

func (s *sender) fill(ctx context.Context, t *work) error {
	if err := s.write(ctx, t); err != nil {
		return err
	}
	pause := time.Duration(s.rng.IntN(2000)) * time.Microsecond
	if s.rng.IntN(100) < 3 {
		pause = time.Duration(s.rng.Int64N(int64(s.slow)))
	}
	time.Sleep(pause)
	if s.rng.IntN(100) < 20 {
		return errBack
	}
	return nil
}

// write sends a few messages. Within a transaction streams are written to in one
// order, conversations before keys; within one call the order is for the store
// to find.
func (s *sender) write(ctx context.Context, t *work) error {
	if s.alone {
		for range 1 + s.rng.IntN(3) {
			if err := s.send(ctx, t, s.dialogs[0]); err != nil {
				return err
			}
		}
		return nil
	}
	switch r := s.rng.IntN(100); {
	case r < 55:
		return s.several(ctx, t)
	case r < 65:
		return s.together(ctx, t)
	case r < 72:
		if err := s.several(ctx, t); err != nil {
			return err
		}
		return s.key(ctx, t)
	case r < 82:
		return s.key(ctx, t)
	case r < 87:
		return s.keys(ctx, t)
	case r < 96:
		return s.loose(ctx, t)
	default:
		return s.brief(ctx, t)
	}
}

// next makes a message for a stream; the stream of a loose post is its own.
func (s *sender) next(stream string) (string, string, []byte) {
	token := fmt.Sprintf("%s-%d", s.origin, s.serial.Add(1))
	if stream == loose {
		stream += token
	}
	weight := s.rng.IntN(200)
	if s.rng.IntN(200) == 0 {
		weight = 100_000
	}
	return token, stream, content(stream, token, weight)
}

func (s *sender) wrote(t *work, token, stream string) {
	s.rec.writing(token, stream, s.origin)
	t.tokens = append(t.tokens, token)
}

func (s *sender) send(ctx context.Context, t *work, d dialog) error {
	token, stream, body := s.next(d.Stream)
	c := t.tx.Conversation(d.Handle)
	start := time.Now()
	if err := c.Send(ctx, s.w.Request, body); err != nil {
		return err
	}
	if s.alone {
		s.took(time.Since(start))
	}
	s.wrote(t, token, stream)
	return nil
}

// pick chooses up to n conversations, in their order.
func (s *sender) pick(n int) (list []dialog) {
	n = min(1+s.rng.IntN(n), len(s.dialogs))
	for i, d := range s.dialogs {
		if s.rng.IntN(len(s.dialogs)-i) < n-len(list) {
			list = append(list, d)
		}
	}
	return list
}

func (s *sender) several(ctx context.Context, t *work) error {
	for _, d := range s.pick(3) {
		for range 1 + s.rng.IntN(2) {
			if err := s.send(ctx, t, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// together sends in one call, in no order.
func (s *sender) together(ctx context.Context, t *work) error {
	list := s.pick(4)
	list = append(list, list[s.rng.IntN(len(list))])
	s.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var batch []parley.Sending
	var tokens, streams []string
	for _, d := range list {
		token, stream, body := s.next(d.Stream)
		tokens, streams = append(tokens, token), append(streams, stream)
		batch = append(batch, parley.Sending{To: t.tx.Conversation(d.Handle), Payload: parley.Payload{Type: s.w.Request, Body: body}})
	}
	if err := t.tx.SendBatch(ctx, batch); err != nil {
		return err
	}
	for i := range tokens {
		s.wrote(t, tokens[i], streams[i])
	}
	return nil
}

// key posts one after the other under one key.
func (s *sender) key(ctx context.Context, t *work) error {
	name := s.w.Keys[s.rng.IntN(len(s.w.Keys))]
	for range 1 + s.rng.IntN(3) {
		token, stream, body := s.next(name)
		if _, err := t.tx.Post(ctx, s.w.Work, parley.Payload{Type: s.w.Request, Body: body}, parley.Key(name)); err != nil {
			return err
		}
		s.wrote(t, token, stream)
	}
	return nil
}

// keys posts under several keys in one call, in no order.
func (s *sender) keys(ctx context.Context, t *work) error {
	var names []string
	for range 2 + s.rng.IntN(3) {
		names = append(names, s.w.Keys[s.rng.IntN(len(s.w.Keys))])
	}
	return s.post(ctx, t, names)
}

func (s *sender) loose(ctx context.Context, t *work) error {
	return s.post(ctx, t, strings.Split(strings.Repeat(loose, 1+s.rng.IntN(5)), ""))
}

func (s *sender) post(ctx context.Context, t *work, names []string) error {
	var batch []parley.Posting
	var tokens, streams []string
	for _, name := range names {
		token, stream, body := s.next(name)
		tokens, streams = append(tokens, token), append(streams, stream)
		p := parley.Posting{Payload: parley.Payload{Type: s.w.Request, Body: body}}
		switch {
		case name != loose:
			p.Options = append(p.Options, parley.Key(name))
		case s.rng.IntN(10) == 0:
			p.Options = append(p.Options, parley.Priority(1+s.rng.IntN(10)))
		case s.rng.IntN(10) == 0:
			p.Options = append(p.Options, parley.After(time.Duration(1+s.rng.IntN(400))*time.Millisecond))
		}
		batch = append(batch, p)
	}
	if _, err := t.tx.PostBatch(ctx, s.w.Work, batch); err != nil {
		return err
	}
	for i := range tokens {
		s.wrote(t, tokens[i], streams[i])
	}
	return nil
}

// brief begins a conversation, says all it has to say, and ends its side.
func (s *sender) brief(ctx context.Context, t *work) error {
	c, err := t.tx.Begin(ctx, s.w.Client, s.w.Worker, &parley.DialogOptions{Contract: s.w.Contract})
	if err != nil {
		return err
	}
	d := dialog{Stream: fmt.Sprintf("%s-%s-%d", brief, s.origin, s.serial.Add(1)), Handle: c.Handle()}
	for range 1 + s.rng.IntN(2) {
		token, stream, body := s.next(d.Stream)
		if err := c.Send(ctx, s.w.Request, body); err != nil {
			return err
		}
		s.wrote(t, token, stream)
	}
	return c.End(ctx)
}

// complain sorts the errors that reach those who work with a Broker.
func complain(rec recorder, p *process, who string, err error) {
	switch {
	case errors.Is(err, parley.ErrSerialization):
		rec.problem("deadlocks", "%s: %v", who, err)
	case errors.Is(err, parley.ErrFenced):
		rec.count("fenced", 1)
	case errors.Is(err, parley.ErrGroupBusy), errors.Is(err, parley.ErrWouldDeadlock):
		rec.count("busy", 1)
	case expected(err, p):
		rec.count("cut off", 1)
	default:
		rec.problem("errors", "%s: %v", who, err)
	}
}
