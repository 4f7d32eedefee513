package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parleymq/parley"
)

// posts sends posts under keys of its own, each of which is a stream, and some without
// key, of which some are delayed. A key is used for a while: only what no post comes after stays stranded.
func (s *sender) posts(ctx context.Context) error {
	return s.send(ctx, func(tx *parley.Tx, log func(event)) error {
		for range 1 + random.IntN(16) {
			var e event
			var o []parley.PostOption
			if random.IntN(4) > 0 {
				e = s.nextIn(fmt.Sprint("key/", s.name, "/", s.key()))
				o = append(o, parley.Key(e.Stream))
			} else if e = s.single("post"); random.IntN(3) == 0 {
				delay := time.Duration(random.IntN(600)) * time.Millisecond
				e.After = int64(delay)
				o = append(o, parley.After(delay))
			}
			log(e)
			if _, err := tx.Post(ctx, postQueue, body{Stream: e.Stream, Seq: e.Seq}.payload(parley.DefaultType), o...); err != nil {
				return err
			}
		}
		return nil
	})
}

// key draws one of the sender's six keys of now. Each is replaced after about eight posts.
func (s *sender) key() int {
	i := random.IntN(len(s.keys))
	if s.keys[i] == 0 || random.IntN(8) == 0 {
		s.newest++
		s.keys[i] = s.newest
	}
	return s.keys[i]
}

// post handles a post, and posts another one on the side now and then.
func (h *handlers) post(ctx context.Context, m *parley.Message) error {
	b, err := bodyOf(m)
	if err != nil {
		return err
	}
	return h.handle(ctx, m, b, func(a *attempt) error {
		if random.IntN(10) > 0 || strings.HasPrefix(b.Stream, "side/") {
			return nil
		}
		side := body{Stream: "side/" + a.name}
		a.posts(side.Stream, 0)
		_, err := a.tx.Post(ctx, postQueue, side.payload(parley.DefaultType))
		return err
	})
}
