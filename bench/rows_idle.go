package main

import (
	"context"
	"time"
)

// idling measures the cost of a worker whose queue has been empty for some time. The cost is the
// additional processor time of its process and of the server, in percent of a core. It needs a server
// on the same machine, and a system that has /proc.
func idling(ctx context.Context, m *measurement) (sample, error) {
	const settle, window = 40 * time.Second, 20 * time.Second
	server, err := serverPID(ctx, m.e.name, m.dsn)
	if err != nil {
		return sample{}, err
	}
	used := func() (time.Duration, error) {
		before, err := processorTime(server)
		if err != nil {
			return 0, err
		}
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		after, err := processorTime(server)
		return after - before, err
	}
	q, err := m.s.open(ctx, m.dsn)
	if err != nil {
		return sample{}, err
	}
	defer q.close()
	alone, err := used()
	if err != nil {
		return sample{}, err
	}
	handled := make(chan struct{}, 1)
	stop, err := q.work(ctx, job{readers: 10, handled: func([]byte) { handled <- struct{}{} }})
	if err != nil {
		return sample{}, err
	}
	defer stop()
	if err := q.send(ctx, body(0)); err != nil {
		return sample{}, err
	}
	<-handled
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return sample{}, ctx.Err()
	}
	waiting, err := used()
	// Less than what the clock can tell is that.
	return sample{value: 100 * max(waiting-alone, clockTick).Seconds() / window.Seconds()}, err
}
