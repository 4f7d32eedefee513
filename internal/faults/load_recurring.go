package main

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/recurring"
)

// Two recurring jobs post while the programs work: the messages of one may be handled at the same time, those of the
// other one after the other. What was missed is made up for.
const (
	tickType    = "Faults tick"
	anyTick     = "any tick"
	orderedTick = "ordered tick"
	interval    = 500 * time.Millisecond
)

func (s *suite) schedule(ctx context.Context) error {
	if !wanted("recurring") {
		return nil
	}
	job := func(name string, o recurring.Overlap) recurring.Job {
		return recurring.Job{Name: name, Queue: postQueue, Type: tickType, Body: []byte(name), Every: interval,
			Grace: time.Hour, CatchUp: recurring.CatchUpAll, Overlap: o}
	}
	return recurring.Define(ctx, s.b, job(anyTick, recurring.OverlapAllow), job(orderedTick, recurring.OverlapQueue))
}

// unschedule removes the jobs when the programs send no more.
func (s *suite) unschedule(ctx context.Context) error {
	for _, name := range []string{anyTick, orderedTick} {
		err := s.again(ctx, func(ctx context.Context) error {
			return unless(recurring.Remove(ctx, s.b, name), recurring.ErrNoJob)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tick handles a message of a job. The due time is its number, in intervals.
func (h *handlers) tick(ctx context.Context, m *parley.Message) error {
	job, due := string(m.Body), recurring.DueTime(m)
	b := body{Stream: fmt.Sprint("tick/", job), Seq: int(due.UnixMilli() / interval.Milliseconds() % 1e9)} // the column has 32 bits
	if job == anyTick {
		b.Stream += fmt.Sprint("/", b.Seq)
	}
	h.rec.write(event{Kind: ticked, Stream: b.Stream, Seq: b.Seq, Since: due})
	return h.handle(ctx, m, b, nil)
}
