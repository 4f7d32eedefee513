package main

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley"
)

// All senders post under a few values, of which one post at a time may be pending, or one in each period may be posted.
const (
	uniqueValues = 8
	period       = time.Second
)

func uniqueValue(i int) string { return fmt.Sprint("unique ", i) }

// uniques posts under such values. What is added is written down, with its value, before the commit.
func (s *sender) uniques(ctx context.Context) error {
	return s.send(ctx, func(tx *parley.Tx, log func(event)) error {
		for _, i := range pick(uniqueValues) {
			e := s.single("unique")
			e.Name = uniqueValue(i)
			o := []parley.PostOption{parley.Unique(e.Name)}
			if i%2 == 1 {
				e.Name, o = fmt.Sprint("per ", i), []parley.PostOption{parley.UniquePer(e.Name, period)}
			}
			if random.IntN(2) == 0 {
				o = append(o, parley.Key(e.Stream))
			}
			taken := false
			e.Since = time.Now()
			_, err := tx.Post(ctx, postQueue, body{Stream: e.Stream}.payload(parley.DefaultType), append(o, parley.Duplicate(&taken))...)
			if err != nil {
				return err
			}
			if !taken {
				log(e)
			}
		}
		return nil
	})
}

// outlived are the values that no post may have when none is left, and that are taken all the same.
func outlived(ctx context.Context, b *parley.Broker) (list []string, err error) {
	err = b.InTx(ctx, func(tx *parley.Tx) error {
		list = nil
		for i := range uniqueValues {
			taken := false
			_, err := tx.Post(ctx, postQueue, parley.Payload{}, parley.Unique(uniqueValue(i)), parley.Duplicate(&taken))
			if err != nil {
				return err
			}
			if taken {
				list = append(list, fmt.Sprintf("the value %q is taken, and no post has it", uniqueValue(i)))
			}
		}
		return errBack
	})
	return list, unless(err, errBack)
}
