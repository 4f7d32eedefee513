package sample

import (
	"context"
	"fmt"

	"github.com/parleymq/parley"
)

// serveBackEnd does the work. Each reader takes one request at a time.
func (s *sample) serveBackEnd(ctx context.Context) error {
	return s.serve(ctx, backEndQueue, func(ctx context.Context, d *parley.Delivery) error {
		for _, m := range d.Messages {
			switch m.Type {
			case workload:
				n, err := number(m.Body)
				if err != nil {
					return err
				}
				if err := s.work(ctx, n, d); err != nil {
					return err
				}
				// Reply needs the transaction, which on SQLite stops all other writers.
				// So it comes after the work.
				if err := m.Reply(ctx, response, fmt.Appendf(nil, "<result>%d</result>", n)); err != nil {
					return err
				}
			case parley.EndDialog, parley.ErrorMessageType:
				if err := m.End(ctx); err != nil {
					return err
				}
			}
		}
		return d.Ack(ctx)
	})
}
