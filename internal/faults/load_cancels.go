package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

// pending is a post of a sender's that may still be pending.
type pending struct {
	event
	id    parley.ID
	keyed bool
}

// cancels posts a few messages, each of which is a stream, and cancels some a moment later. By then receivers may have them.
func (s *sender) cancels(ctx context.Context) error {
	key := "cancel/" + s.serialName()
	var list []pending
	err := s.send(ctx, func(tx *parley.Tx, log func(event)) error {
		list = nil
		for range 1 + random.IntN(16) {
			p, o, taken := pending{event: s.single("cancel")}, []parley.PostOption(nil), false
			switch random.IntN(4) {
			case 0:
				p.keyed, o = true, append(o, parley.Key(key))
			case 1:
				delay := time.Duration(random.IntN(100)) * time.Millisecond
				p.After, o = int64(delay), append(o, parley.After(delay))
			case 2: // its value is free again
				p.Name = uniqueValue(2 * random.IntN(uniqueValues/2))
				o = append(o, parley.Unique(p.Name), parley.Duplicate(&taken))
			}
			var err error
			if p.id, err = tx.Post(ctx, postQueue, body{Stream: p.Stream}.payload(parley.DefaultType), o...); err != nil {
				return err
			}
			if !taken {
				log(p.event)
				list = append(list, p)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
	chosen := slices.DeleteFunc(slices.Clone(list), func(pending) bool { return random.IntN(3) == 0 })
	switch random.IntN(4) {
	case 0:
		return s.cancelTogether(ctx, chosen)
	case 1:
		chosen = slices.DeleteFunc(list, func(p pending) bool { return !p.keyed })
		return s.cancel(ctx, chosen, parley.PostFilter{Key: key})
	}
	var f parley.PostFilter
	for _, p := range chosen {
		f.IDs = append(f.IDs, p.id)
	}
	return s.cancel(ctx, chosen, f)
}

// cancel cancels by the broker, which asks receivers to stop. Whether they do is theirs.
func (s *sender) cancel(ctx context.Context, list []pending, f parley.PostFilter) error {
	if len(list) == 0 {
		return nil
	}
	s.tell(list, cancelling)
	c, err := s.b.CancelPosts(ctx, postQueue, f)
	err = unless(err, parley.ErrNotPending)
	for _, p := range list {
		switch {
		case slices.Contains(c.Removed, p.id):
			s.tell([]pending{p}, removed)
		case err == nil && !slices.Contains(c.Requested, p.id):
			s.tell([]pending{p}, kept)
		}
	}
	return err
}

// cancelTogether cancels in one transaction.
func (s *sender) cancelTogether(ctx context.Context, list []pending) error {
	s.tell(list, cancelling)
	var out []pending
	k, err := s.transact(ctx, func(tx *parley.Tx) error {
		out = nil
		for _, p := range list {
			err := tx.CancelPost(ctx, postQueue, p.id)
			if err == nil {
				out = append(out, p)
			} else if !errors.Is(err, parley.ErrNotPending) {
				return err
			}
		}
		return nil
	})
	for _, p := range list {
		switch {
		case k == undone || k == sent && !slices.ContainsFunc(out, func(o pending) bool { return o.id == p.id }):
			s.tell([]pending{p}, kept)
		case k == sent:
			s.tell([]pending{p}, removed)
		}
	}
	return err
}

func (s *sender) tell(list []pending, k kind) {
	for _, p := range list {
		s.rec.write(event{Kind: k, Stream: p.Stream})
	}
}
