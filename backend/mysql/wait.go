package mysql

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Capabilities implements backend.Backend: the servers cannot notify.
func (s *Store) Capabilities() backend.Capabilities {
	c := s.Pooled.Capabilities()
	c.Watcher, c.Printer = s, s
	return c
}

// Newest implements backend.Watcher. A message does not count if a later message has
// committed before it; polling finds it.
func (s *Store) Newest(ctx context.Context, queues []int64) (map[int64]int64, error) {
	newest := make(map[int64]int64)
	for some := range slices.Chunk(queues, most) {
		err := s.Read(ctx, func(rows *sql.Rows) error {
			var queue int64
			var marker, post sql.NullInt64
			err := rows.Scan(&queue, &marker, &post)
			if since := max(marker.Int64, post.Int64); since > newest[queue] {
				newest[queue] = since
			}
			return err
		}, s.pool.hot.Newest, numbers(some))
		if err != nil {
			return nil, err
		}
	}
	return newest, nil
}
