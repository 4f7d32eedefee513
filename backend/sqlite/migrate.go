package sqlite

import (
	"context"

	"github.com/parleymq/parley/backend"
)

// Migrate implements backend.Backend.
func (s *Store) Migrate(ctx context.Context) error {
	return s.MigrateWith(ctx, backend.MigrateOptions{})
}

// MigrateWith implements backend.Migrator.
func (s *Store) MigrateWith(ctx context.Context, o backend.MigrateOptions) error {
	if err := s.pool.takeOver(ctx); err != nil {
		return s.Classify(err)
	}
	return s.Store.MigrateWith(ctx, o)
}
