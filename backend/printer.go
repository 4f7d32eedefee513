package backend

import (
	"context"
	"time"
)

// Printer is implemented by backends whose schema can be put in place by hand.
type Printer interface {
	// MigrationSQL returns what Migrate would run on a store whose schema has the
	// version from; 0 is an empty store.
	MigrationSQL(from int) string
}

// Migrator is implemented by backends whose Migrate takes steps that may have to
// wait, and tells of them.
type Migrator interface {
	MigrateWith(ctx context.Context, o MigrateOptions) error
}

// MigrateOptions are the options of a migration. The zero value has all defaults.
type MigrateOptions struct {
	// Wait is how long the migration waits for locks, and for what older programs
	// have in hand. Zero means one minute.
	Wait time.Duration
	// Report, if set, is told what the migration does.
	Report func(text string)
}
