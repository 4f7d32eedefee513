package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/phases"
)

// submit submits tasks of three phases to a separate schedule, some of them later than the others.
// It releases the schedule before if that is over.
func (s *sender) submit(ctx context.Context) error {
	if s.schedule != nil {
		return s.release(ctx)
	}
	schedule, err := phases.Open(ctx, s.b, s.serialName(), &phases.Options{MaxAttempts: 1000})
	if err != nil {
		return err
	}
	s.schedule = schedule
	for range 1 + random.IntN(2) {
		err := s.send(ctx, func(tx *parley.Tx, log func(event)) error {
			var tasks []phases.Task
			for range 1 + random.IntN(8) {
				phase := 1 + random.IntN(3)
				e := event{Stream: taskStream(schedule.Name(), phase, int(s.serial.Add(1)))}
				log(e)
				tasks = append(tasks, phases.Task{Phase: phase, Type: "effect", Body: body{Stream: e.Stream}.payload("").Body})
			}
			return schedule.SubmitTx(ctx, tx, tasks...)
		})
		if err := unless(err, phases.ErrClosed); err != nil { // a task of a later phase may have begun
			return err
		}
	}
	return nil
}

// release removes the schedule when its tasks are over.
func (s *sender) release(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	err := s.schedule.Wait(wait)
	if wait.Err() != nil {
		return nil // later
	}
	if err == nil {
		err = s.schedule.Delete(ctx)
	}
	if err == nil {
		s.schedule = nil
	}
	return err
}

// tasks runs the tasks of all schedules.
func (p *program) tasks(ctx context.Context, b *parley.Broker, fail func(error)) {
	pool, err := phases.NewPool(b, phases.Handlers{"effect": p.task}, &phases.PoolOptions{
		Workers: 2, MaxDeaths: 1000,
		Backoff: func(int) time.Duration { return 50 * time.Millisecond },
	})
	for ctx.Err() == nil {
		if err == nil {
			err = pool.Run(ctx)
		}
		if !passing(err) {
			fail(fmt.Errorf("task pool: %w", err))
			return
		}
		err = nil
		time.Sleep(100 * time.Millisecond)
	}
}

func (p *program) task(ctx context.Context, t *phases.Running) error {
	b, err := bodyOf(&parley.Message{Body: t.Body})
	if err != nil {
		return err
	}
	return p.attempted(parley.ID{}, b, func(a *attempt) error {
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		tx, err := t.Tx(ctx)
		if err == nil {
			err = writeEffect(ctx, tx, effect{b.Stream, b.Seq, a.name, hotRow()})
		}
		if err == nil && random.IntN(20) == 0 {
			err = errors.New("failed on purpose")
		}
		return err
	})
}
