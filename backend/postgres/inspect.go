package postgres

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// Info implements backend.Backend.
func (s *Store) Info(ctx context.Context) (backend.Info, error) {
	i, err := s.Store.Info(ctx)
	readOnly := i.Settings["transaction_read_only"] == "on" // a standby has no LISTEN
	if err == nil && !readOnly && !s.hears(ctx) {
		i.Warnings = append(i.Warnings, backend.Warning{Code: backend.WarnListener,
			Text: "no wake-ups arrive from other processes: receivers poll",
			Hint: "Options.Listen, or parley_listen in the URL: the name of the server itself, not of a pooler"})
	}
	return i, err
}

// timeouts returns the session's limits for transactions, which pg_settings has in
// milliseconds. transaction_timeout came with version 17.
func (p *pool) timeouts(ctx context.Context) (map[string]time.Duration, error) {
	settings := make(map[string]string)
	rows, err := p.db.QueryContext(ctx, `
		SELECT name, setting FROM pg_settings
		 WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`)
	if err := sqlstore.Settings(settings, rows, err); err != nil {
		return nil, err
	}
	return sqlstore.Durations(settings, time.Millisecond)
}

// hears reports whether notifications arrive, by one to itself. A name for
// Options.Listen that leads to a pooler can be listened on, and nothing is heard.
func (s *Store) hears(ctx context.Context) (heard bool) {
	const nobody = -1 // no queue's number
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	woken := make(chan int64, 16)
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.Listen(ctx, func(queue int64) {
			select {
			case woken <- queue:
			default:
			}
		})
	}()
	for {
		select {
		case queue := <-woken:
			if queue == nobody {
				cancel()
				<-over
				return true
			}
			if queue == 0 && s.Notify(ctx, []int64{nobody}) != nil { // it listens now
				return false
			}
		case <-over: // there is nothing to listen with, or the time is over
			return false
		}
	}
}
