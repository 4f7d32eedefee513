package bolt

import (
	"bytes"
	"context"

	"github.com/parleymq/parley/backend"
)

// Catalog implements [backend.Tx].
func (tx *Tx) Catalog(ctx context.Context, lock bool) (c *backend.Catalog, err error) {
	do := tx.read
	if lock {
		do = tx.write
	}
	err = do(ctx, func(l *look) error {
		v := l.versions()
		if err := v.check(); err != nil {
			return err
		}
		r, _ := get(l, catalog, key("catalog"))
		defined := r.read()
		c = &defined
		if lock {
			for _, d := range scan(l, history, nil) {
				c.History = append(c.History, d)
			}
		}
		return nil
	})
	return c, err
}

// catalogRow has what the JSON of a Catalog leaves out.
type catalogRow struct {
	backend.Catalog
	Version int64
	IDs     map[string]int64 // of queues, by name
}

// read returns the catalog of a row, with what its JSON leaves out.
func (r catalogRow) read() backend.Catalog {
	c := r.Catalog
	c.Version = r.Version
	for i, q := range c.Queues {
		c.Queues[i].ID = r.IDs[q.Name]
	}
	return c
}

// known is the catalog that was decoded last, which is not changed any more.
type known struct {
	data []byte
	c    backend.Catalog
}

// defined returns the catalog, which the caller does not change.
func (l *look) defined() backend.Catalog {
	data := l.bucket(string(catalog)).Get(key("catalog"))
	if k := l.f.known.Load(); k != nil && bytes.Equal(k.data, data) {
		return k.c
	}
	r, _ := get(l, catalog, key("catalog"))
	k := &known{bytes.Clone(data), r.read()}
	l.f.known.Store(k)
	return k.c
}

// PutCatalog implements [backend.Tx].
func (tx *Tx) PutCatalog(ctx context.Context, change *backend.Catalog) (version int64, err error) {
	err = tx.write(ctx, func(l *look) error {
		r, _ := get(l, catalog, key("catalog"))
		r.Catalog.Version = r.Version
		r.Catalog = *r.Catalog.With(change)
		version, r.Version = r.Catalog.Version, r.Catalog.Version
		if r.IDs == nil {
			r.IDs = make(map[string]int64)
		}
		for _, q := range change.Queues { // a queue keeps its ID for life
			if r.IDs[q.Name] == 0 {
				r.IDs[q.Name] = l.next("queues")
			}
		}
		for _, d := range r.History {
			put(l, history, key(l.next("history")), d)
		}
		put(l, catalog, key("catalog"), r)
		return nil
	})
	return version, err
}

// disabled reports whether a queue takes and gives nothing. That holds for an unknown queue, too.
func (l *look) disabled(id int64) bool {
	for _, q := range l.defined().Queues {
		if q.ID == id {
			return q.Disabled
		}
	}
	return true
}

func (l *look) stale(version int64) bool { return l.defined().Version != version }
