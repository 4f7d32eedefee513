package sqlite_test

import (
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
	"github.com/parleymq/parley/backend/sqlite"
)

// site is a file without a schema.
func site(t *testing.T) backendtest.Site {
	file := path(t)
	return backendtest.Site{
		RandomID: "randomblob(16)",
		DB:       user(t, file),
		Open: func(t *testing.T) backendtest.Versioned {
			b, err := sqlite.Open(t.Context(), "sqlite:"+file, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			return b
		},
		Exec: func(t *testing.T, text string) {
			t.Helper()
			if _, err := user(t, file).Exec(text); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func TestDue(t *testing.T) { backendtest.Due(t, site) }

func TestVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes half a minute")
	}
	t.Parallel()
	backendtest.Versions(t, site)
}
