package sqlstore

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// patiently acquires a connection of the pool for whatever may wait for it.
func patiently[T any](ctx context.Context, s *Store, acquire func(context.Context) (T, error)) (T, error) {
	if s.d.Futile || !backend.IsInside(ctx) { // with a single writer, turns have rules of their own
		return acquire(ctx)
	}
	return backend.Patiently(ctx, s.conns(), acquire)
}

// conns is how many connections there are for transactions and reads, 0 for any number. It is the
// limit of the pool without the connections that the store keeps for itself, to listen on or for
// the locks of sessions.
func (s *Store) conns() int {
	if s.d.MaxConns == nil {
		return 0
	}
	limit := s.d.MaxConns()
	if limit <= 0 {
		return 0
	}
	return max(limit-int(s.kept.Load()), 1)
}

// KeepsConn notes that the store keeps a connection of the pool for itself, until the
// returned function is called.
func (s *Store) KeepsConn() (over func()) {
	s.kept.Add(1)
	return func() { s.kept.Add(-1) }
}
