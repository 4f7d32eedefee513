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
	// Report, if set, gets a description of each step.
	Report func(text string)
	// Finish says that no program of an older version is left, nor comes back. Then those are
	// refused, what they have in hand is waited for, and what they would lose may be written.
	Finish bool
}

// Role is a set of rights that a program needs in a database; docs/security.md says
// what each of them is for.
type Role string

// The roles. Each leaves out what the others are for, but a worker sends, too.
const (
	RoleOwner    Role = "owner"    // migrates and defines
	RoleWorker   Role = "worker"   // receives, runs tasks, takes locks, does the maintenance
	RoleOperator Role = "operator" // looks at everything, promotes, retries, skips, discards
	RoleSender   Role = "sender"   // begins conversations, sends and posts
	RolePoster   Role = "poster"   // posts by plain SQL
)

// Roles are all of them.
var Roles = []Role{RoleOwner, RoleWorker, RoleOperator, RoleSender, RolePoster}

// Granter is implemented by backends for databases that know roles.
type Granter interface {
	// Grants returns the SQL by which the store's owner gives an account what a role
	// needs. If no account is named, the SQL makes one first. Where a database
	// has no roles the error is errors.ErrUnsupported and says what there is.
	Grants(ctx context.Context, role Role, account string) (string, error)
}
