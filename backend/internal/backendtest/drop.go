package backendtest

import (
	"errors"
	"testing"
)

// DropSchema drops a schema of PostgreSQL's when the test is over. pgx leaves a statement of a context that has
// ended to the server. It may go on for a moment, and have the drop lose a deadlock.
func DropSchema(t testing.TB, name string, exec func(query string) error) {
	t.Cleanup(func() {
		var err error
		for range 10 {
			err = exec("DROP SCHEMA IF EXISTS " + name + " CASCADE")
			if s, ok := errors.AsType[interface {
				error
				SQLState() string
			}](err); !ok || s.SQLState() != "40P01" {
				break
			}
		}
		if err != nil {
			t.Error(err)
		}
	})
}
