package main

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

// onceKey begins the keys that only one transaction may find new.
const onceKey = "once "

// once posts a message if its transaction finds a key new. All senders use the same keys, three in each 300 milliseconds.
func (s *sender) once(ctx context.Context) error {
	key := fmt.Sprint(onceKey, time.Now().UnixMilli()/300, " ", random.IntN(3))
	e, isNew := event{}, false
	k, err := s.transact(ctx, func(tx *parley.Tx) (err error) {
		if isNew, err = tx.Once(ctx, key); err != nil || !isNew {
			return err
		}
		e = s.single("once")
		e.Kind, e.Name = sending, key
		s.rec.write(e)
		_, err = tx.Post(ctx, postQueue, body{Stream: e.Stream}.payload(parley.DefaultType))
		return err
	})
	switch {
	case isNew:
		e.Kind = k
		s.rec.write(e)
	case k == sent:
		s.rec.write(event{Kind: known, Name: key})
	}
	return err
}
