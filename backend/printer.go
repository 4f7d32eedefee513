package backend

// Printer is implemented by backends whose schema can be put in place by hand.
type Printer interface {
	// MigrationSQL returns what Migrate would run on an empty store.
	MigrationSQL() string
}
