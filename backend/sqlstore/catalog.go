package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// Catalog implements backend.Tx.
func (t *Tx) Catalog(ctx context.Context, lock bool) (*backend.Catalog, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	if lock {
		if _, err := t.TryLock(ctx, t.s.q.CatalogLock); err != nil {
			return nil, err
		}
	}
	var c *backend.Catalog
	err := t.look(ctx, func(r run) (err error) {
		if c, err = r.catalog(ctx); err == nil && lock {
			c.History, err = r.history(ctx)
		}
		return err
	})
	return c, err
}

func (r run) catalog(ctx context.Context) (*backend.Catalog, error) {
	st, err := r.meta(ctx)
	if err == nil {
		err = r.s.compare(st)
	}
	if err != nil {
		return nil, err
	}
	c := &backend.Catalog{Version: st.catalog}
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var kind backend.ObjectKind
		var spec []byte
		if err := rows.Scan(&kind, &spec); err != nil {
			return err
		}
		return decodeObject(c, kind, spec)
	}, r.s.q.CatalogObjects)
	if err != nil {
		return nil, err
	}
	if c.Queues, err = r.queues(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (r run) queues(ctx context.Context) (list []backend.Queue, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var q backend.Queue
		var enabled bool
		var keep int64
		if err := rows.Scan(&q.ID, &q.Name, Bool(&enabled), Bool(&q.Retention), &keep); err != nil {
			return err
		}
		q.Disabled = !enabled
		q.KeepProcessed = time.Duration(keep) * time.Microsecond
		list = append(list, q)
		return nil
	}, r.s.q.CatalogQueues)
	return list, err
}

func decodeObject(c *backend.Catalog, kind backend.ObjectKind, spec []byte) error {
	switch kind {
	case backend.ObjectType:
		return decodeInto(&c.Types, spec)
	case backend.ObjectContract:
		return decodeInto(&c.Contracts, spec)
	case backend.ObjectService:
		return decodeInto(&c.Services, spec)
	case backend.ObjectPriority:
		return decodeInto(&c.Priorities, spec)
	}
	return fmt.Errorf("parley: the catalog has an object of kind %q", kind)
}

func decodeInto[T any](list *[]T, spec []byte) error {
	var v T
	if err := json.Unmarshal(spec, &v); err != nil {
		return fmt.Errorf("parley: catalog: %w", err)
	}
	*list = append(*list, v)
	return nil
}

// PutCatalog implements backend.Tx.
func (t *Tx) PutCatalog(ctx context.Context, change *backend.Catalog) (version int64, err error) {
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	// The version's row is the lock of all who define.
	if _, err := t.Exec(ctx, t.s.q.CatalogBump); err != nil {
		return 0, err
	}
	if err := t.putQueues(ctx, change.Queues); err != nil {
		return 0, err
	}
	for _, v := range change.Types {
		if err := t.putObject(ctx, backend.ObjectType, v.Name, v); err != nil {
			return 0, err
		}
	}
	for _, v := range change.Contracts {
		if err := t.putObject(ctx, backend.ObjectContract, v.Name, v); err != nil {
			return 0, err
		}
	}
	for _, v := range change.Services {
		if err := t.putObject(ctx, backend.ObjectService, v.Name, v); err != nil {
			return 0, err
		}
	}
	for _, v := range change.Priorities {
		if err := t.putObject(ctx, backend.ObjectPriority, v.Name, v); err != nil {
			return 0, err
		}
	}
	for _, o := range change.Removed {
		if _, err := t.Exec(ctx, t.s.q.ObjectDelete, string(o.Kind), o.Name); err != nil {
			return 0, err
		}
	}
	if _, err = t.Row(ctx, []any{&version}, t.s.q.CatalogVersion); err != nil {
		return 0, err
	}
	rows := make([][]any, len(change.History))
	for n, d := range change.History {
		rows[n] = []any{version, n, string(d.Kind), d.Name, d.Digest}
	}
	return version, t.insert(ctx, t.s.q.DefinitionInsert, t.s.q.DefinitionsInsert, rows)
}

// history reads how objects were defined.
func (r run) history(ctx context.Context) (list []backend.Definition, err error) {
	err = r.Rows(ctx, func(rows *sql.Rows) error {
		var d backend.Definition
		err := rows.Scan(&d.Kind, &d.Name, &d.Version, &d.Digest)
		list = append(list, d)
		return err
	}, r.s.q.DefinitionsRead)
	return list, err
}

func (t *Tx) putObject(ctx context.Context, kind backend.ObjectKind, name string, v any) error {
	spec, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("parley: catalog: %w", err)
	}
	if _, err := t.Exec(ctx, t.s.q.ObjectDelete, string(kind), name); err != nil {
		return err
	}
	_, err = t.Exec(ctx, t.s.q.ObjectInsert, string(kind), name, string(spec))
	return err
}

// putQueues updates the queues that there are, and numbers and inserts the others.
func (t *Tx) putQueues(ctx context.Context, queues []backend.Queue) error {
	if len(queues) == 0 {
		return nil
	}
	known, last := make(map[string]bool), int64(0)
	err := t.look(ctx, func(r run) error {
		list, err := r.queues(ctx)
		for _, q := range list {
			known[q.Name], last = true, max(last, q.ID)
		}
		return err
	})
	if err != nil {
		return err
	}
	var rows [][]any
	for _, q := range queues {
		if known[q.Name] {
			if _, err := t.Exec(ctx, t.s.q.QueueUpdate, !q.Disabled, q.Retention, q.KeepProcessed, q.Name); err != nil {
				return err
			}
			continue
		}
		last++
		rows = append(rows, []any{last, q.Name, !q.Disabled, q.Retention, q.KeepProcessed})
	}
	return t.insert(ctx, t.s.q.QueueInsert, t.s.q.QueuesInsert, rows)
}

// insertedRows is how many rows a statement inserts that inserts many.
const insertedRows = 20

// insert inserts rows by one, which inserts one, and by many.
func (t *Tx) insert(ctx context.Context, one, many *Stmt, rows [][]any) error {
	for len(rows) >= insertedRows {
		if _, err := t.Exec(ctx, many, slices.Concat(rows[:insertedRows]...)...); err != nil {
			return err
		}
		rows = rows[insertedRows:]
	}
	for _, row := range rows {
		if _, err := t.Exec(ctx, one, row...); err != nil {
			return err
		}
	}
	return nil
}

// queueState is what sending to a queue and receiving from it depend on.
func (r run) queueState(ctx context.Context, version, queue int64) error {
	var now int64
	var enabled sql.NullInt64
	if _, err := r.Row(ctx, []any{&now, &enabled}, r.s.q.QueueRead, queue); err != nil {
		return err
	}
	return CatalogState(now, enabled, version)
}

// CatalogState judges what a statement has read of the catalog and a queue, for a
// caller who knows the version want.
func CatalogState(version int64, enabled sql.NullInt64, want int64) error {
	switch {
	case version != want || !enabled.Valid:
		return backend.ErrStaleCatalog
	case enabled.Int64 == 0:
		return backend.ErrQueueDisabled
	}
	return nil
}
