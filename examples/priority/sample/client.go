package sample

import (
	"bytes"
	"context"
	"fmt"

	"github.com/parleymq/parley"
)

// ask sends all requests. Request 0 goes first, so that the back end works on it when the
// others arrive. Every tenth request asks for a priority of its number.
func (s *sample) ask(ctx context.Context) error {
	for i := range s.o.Requests {
		promoted := i%10 == 0 && !(s.late() && i == s.o.Late)
		if err := s.request(ctx, i, promoted); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if s.o.Direct { // the back end's queue knows at once
			s.pass()
			if promoted {
				s.pass()
			}
		}
		if i == 0 {
			if err := s.until(ctx, s.begun(0)); err != nil {
				return err
			}
		}
	}
	if !s.late() {
		return nil
	}
	if err := s.until(ctx, s.begun(s.o.Late-10)); err != nil {
		return err
	}
	err := s.b.InTx(ctx, func(tx *parley.Tx) error {
		return s.promote(ctx, tx.Conversation(s.handles[s.o.Late]), s.o.Late)
	})
	if err == nil && s.o.Direct {
		s.pass()
	}
	return err
}

// request sends one request. A transaction that lost against another one runs again.
func (s *sample) request(ctx context.Context, i int, promoted bool) error {
	for tries := 1; ; tries++ {
		if err := s.send(ctx, i, promoted); !parley.IsRetryable(err) || tries == 20 {
			return err
		}
	}
}

func (s *sample) send(ctx context.Context, i int, promoted bool) error {
	return s.b.InTx(ctx, func(tx *parley.Tx) error {
		to, contract := frontEnd, requestWithPriority
		if s.o.Direct {
			to, contract = backEnd, requestInternal
		}
		c, err := tx.Begin(ctx, client, to, &parley.DialogOptions{Contract: contract})
		if err != nil {
			return err
		}
		s.handles[i] = c.Handle()
		if err := c.Send(ctx, workload, s.body(i)); err != nil {
			return err
		}
		if !promoted {
			return nil
		}
		return s.promote(ctx, c, i)
	})
}

// promote asks for a priority: by a message to the front end, or, without a front end, by a
// call of Promote.
func (s *sample) promote(ctx context.Context, c *parley.Conversation, level int) error {
	if s.o.Direct {
		return c.Promote(ctx, parley.PromoteLevel(min(level, parley.MaxLevel)))
	}
	return c.Send(ctx, setPriority, fmt.Appendf(nil, "<priority>%d</priority>", min(level, parley.MaxLevel)))
}

func (s *sample) body(i int) []byte {
	if !s.o.Direct {
		return fmt.Appendf(nil, "<request>%d</request>", i)
	}
	pad := bytes.Repeat([]byte("x"), s.o.Size)
	return fmt.Appendf(nil, "<request>%d<pad>%s</pad></request>", i, pad)
}

// answers prints each response as it arrives and ends its conversation.
func (s *sample) answers(ctx context.Context) error {
	got := 0
	return s.serve(ctx, clientQueue, func(ctx context.Context, d *parley.Delivery) error {
		var arrived []int
		for _, m := range d.Messages {
			if m.Type == response {
				n, err := number(m.Body)
				if err != nil {
					return err
				}
				arrived = append(arrived, n)
			}
			if e := m.Err(); e != nil {
				return fmt.Errorf("a request failed: %w", e)
			}
			if err := m.End(ctx); err != nil {
				return err
			}
		}
		if err := d.Ack(ctx); err != nil {
			return err
		}
		for _, n := range arrived {
			fmt.Fprintf(s.out, "response %d\n", n)
			got++
		}
		if got == s.o.Requests {
			close(s.allAnswered)
		}
		return nil
	})
}
