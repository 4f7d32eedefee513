package sqlstore

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/parleymq/parley/backend"
)

// version reads the schema's version, 0 if there is none.
func (r run) version(ctx context.Context) (v int, err error) {
	var one any
	found, err := r.Row(ctx, []any{&one}, r.s.q.SchemaExists)
	if err != nil || !found {
		return 0, err
	}
	_, err = r.Row(ctx, []any{&v}, r.s.q.SchemaVersion)
	return v, err
}

// Check implements backend.Backend.
func (s *Store) Check(ctx context.Context) error {
	return s.reading(ctx, func(r run) error {
		v, err := r.version(ctx)
		if err != nil {
			return err
		}
		return s.compare(v)
	})
}

func (s *Store) compare(version int) error {
	switch want := len(s.d.Migrations); {
	case version == 0:
		return backend.ErrNotMigrated
	case version < want:
		return fmt.Errorf("schema version %d, this program needs %d: %w", version, want, backend.ErrNotMigrated)
	case version > want:
		return fmt.Errorf("schema version %d, this program knows %d: %w", version, want, backend.ErrNewerSchema)
	}
	return nil
}

// Migrate implements backend.Backend.
func (s *Store) Migrate(ctx context.Context) error {
	// Most calls find that there is nothing to do, and need not take turns.
	if s.Check(ctx) == nil {
		return nil
	}
	return s.atomically(ctx, func(tx *Tx) error {
		if err := s.d.Exclude(ctx, tx.SQL()); err != nil {
			return s.fail(ctx, err)
		}
		v, err := tx.version(ctx)
		if err != nil {
			return err
		}
		if v > len(s.d.Migrations) {
			return s.compare(v)
		}
		for _, file := range s.d.Migrations[v:] {
			if err := s.script(ctx, tx, file); err != nil {
				return err
			}
		}
		v, err = tx.version(ctx)
		if err != nil {
			return err
		}
		return s.compare(v)
	})
}

// MigrationSQL implements backend.Printer.
func (s *Store) MigrationSQL() string {
	var b strings.Builder
	for i, file := range s.d.Migrations {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s.d.Rewrite(file))
	}
	return b.String()
}

// removal drops the tables and views that every engine has.
//
//go:embed uninstall.sql
var removal string

// Uninstall implements backend.Backend.
func (s *Store) Uninstall(ctx context.Context) error {
	return s.atomically(ctx, func(tx *Tx) error {
		if err := s.d.Exclude(ctx, tx.SQL()); err != nil {
			return s.fail(ctx, err)
		}
		for _, file := range []string{s.d.RemoveFirst, removal, s.d.RemoveLast} {
			if file == "" {
				continue
			}
			if err := s.script(ctx, tx, file); err != nil {
				return err
			}
		}
		return nil
	})
}

// script runs a file of the schema.
func (s *Store) script(ctx context.Context, tx *Tx, file string) (err error) {
	if s.d.Script != nil {
		err = s.d.Script(ctx, tx.SQL(), s.d.Rewrite(file))
	} else {
		_, err = tx.SQL().ExecContext(ctx, s.d.Rewrite(file))
	}
	return s.fail(ctx, err)
}
