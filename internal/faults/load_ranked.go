package main

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley"
)

// rankedQueue is received from one by one, so that a promotion can be seen to count.
const rankedQueue = "faults ranked"

// rankedPosts posts a backlog, and promotes some of its end.
func (s *sender) rankedPosts(ctx context.Context) error {
	var ids []parley.ID
	var streams []string
	err := s.send(ctx, func(tx *parley.Tx, log func(event)) error {
		for range 10 {
			e := s.single("ranked")
			log(e)
			p, rank := body{Stream: e.Stream}.payload(parley.DefaultType), parley.Priority(1+random.IntN(10))
			id, err := tx.Post(ctx, rankedQueue, p, rank)
			if err != nil {
				return err
			}
			ids, streams = append(ids, id), append(streams, e.Stream)
		}
		return nil
	})
	for i := 7; err == nil && i < 10; i++ {
		s.rec.write(event{Kind: promoting, Stream: streams[i]})
		if err = s.b.Promote(ctx, ids[i]); err == nil {
			s.rec.write(event{Kind: promoted, Stream: streams[i]})
		}
		err = unless(err, parley.ErrUnknownGroup) // it is handled already
	}
	return err
}

// ranked receives from the ranked queue, as programs do that have no worker.
func (p *program) ranked(ctx context.Context, b *parley.Broker) {
	for ctx.Err() == nil {
		if err := p.receive(ctx, b); err != nil {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
	}
}

func (p *program) receive(ctx context.Context, b *parley.Broker) error {
	o := parley.ReceiveOptions{MaxMessages: 1, Hold: []parley.Hold{parley.HoldDefault, parley.HoldLease}[random.IntN(2)]}
	look := p.serialName()
	p.rec.write(event{Kind: claiming, Attempt: look})
	d, err := b.Receive(ctx, rankedQueue, &o)
	if err != nil {
		e := event{Kind: claimed, Attempt: look}
		if !errors.Is(err, parley.ErrNoMessage) {
			e.Name = "error"
		}
		p.rec.write(e)
		return err
	}
	defer d.Close()
	v, err := bodyOf(d.Messages[0])
	if err != nil {
		return err
	}
	p.rec.write(event{Kind: claimed, Attempt: look, Stream: v.Stream})
	err = p.attempted(d.Group, v, func(a *attempt) (err error) {
		if a.tx, err = d.Tx(ctx); err == nil {
			err = writeEffect(ctx, a.tx, effect{v.Stream, v.Seq, a.name, hotRow()})
		}
		return err
	})
	if err == nil {
		err = d.Ack(ctx)
	}
	return err
}
