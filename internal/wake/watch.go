package wake

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// Watch finds out what other processes have sent, on a store that cannot tell. It looks as long
// as a receiver of this process waits, often while there is something to be found, and ever
// more rarely otherwise.
type Watch struct {
	Hub     *Hub
	Watcher backend.Watcher
	Log     *slog.Logger

	// Expected reports whether an error needs no line in the log, as for Peers.
	Expected func(error) bool

	newest map[int64]int64 // by queue: what was there at the last look
	lately time.Time       // when something was found
}

const (
	lookFirst  = 10 * time.Millisecond // for lookBusy after something was found,
	lookBusy   = 5 * time.Second
	lookEvery  = 20 * time.Millisecond // and then for lookOften
	lookOften  = 30 * time.Second
	lookRarely = time.Second
	lookTime   = 5 * time.Second // for a look
)

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	w.newest, w.lately = make(map[int64]int64), time.Now()
	for pause, failed := lookEvery, false; ; {
		queues, begun := w.Hub.waited()
		if len(queues) == 0 {
			select {
			case <-begun:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := w.look(ctx, queues)
		if ctx.Err() != nil || errors.Is(err, backend.ErrClosed) {
			return
		}
		if err != nil && !failed && !w.Expected(err) {
			w.Log.Warn("parley: looking for messages of other processes failed; polling meanwhile", "error", err)
		}
		switch failed = err != nil; {
		case failed:
			pause = lookRarely
		case time.Since(w.lately) < lookBusy:
			pause = lookFirst
		case time.Since(w.lately) < lookOften:
			pause = lookEvery
		default:
			pause = min(pause+pause/2, lookRarely)
		}
		if wait.Sleep(ctx, wait.Jitter(pause)) != nil {
			return
		}
	}
}

// look wakes the receivers of queues that have something new. A queue that was not looked at
// before may have got it since its receivers looked.
func (w *Watch) look(ctx context.Context, queues []int64) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	newest, err := w.Watcher.Newest(ctx, queues)
	if err != nil {
		return err
	}
	for _, q := range queues {
		now, some := newest[q]
		last, known := w.newest[q]
		switch {
		case !some:
			w.newest[q] = 0
		case !known || now > last:
			w.newest[q], w.lately = now, time.Now()
			w.Hub.Wake(q)
		}
	}
	return nil
}
