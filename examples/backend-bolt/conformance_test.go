package bolt

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/conformance"
)

// quick does not wait for the disk.
var quick = &Options{NoSync: true}

func TestConformance(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) func(context.Context) (backend.Backend, error) {
		return func(context.Context) (backend.Backend, error) { return Open(filepath.Join(dir, name), quick) }
	}
	store := func(name string) conformance.Store {
		return conformance.Store{
			Disposable: true,
			Open:       open(name + ".db"),
			Fresh:      open(name + "-fresh.db"),
			Versions: func(ctx context.Context) (*conformance.Versioned, error) {
				be, err := open(name + "-versions.db")(ctx)
				if err != nil {
					return nil, err
				}
				set := func(ctx context.Context, schema, minProgram int) error {
					return be.(*Handle).alone(ctx, func(l *look) error {
						put(l, meta, key("versions"), versions{schema, minProgram})
						r, _ := get(l, catalog, key("catalog"))
						r.Version++
						put(l, catalog, key("catalog"), r)
						return l.err
					})
				}
				return &conformance.Versioned{Open: open(name + "-versions.db"), Set: set, Close: be.Close}, be.Migrate(ctx)
			},
		}
	}
	s := store("one")
	s.Beside = []conformance.Store{store("two"), store("three"), store("four")}
	conformance.Run(t, s)
}
