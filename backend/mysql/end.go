package mysql

import (
	"context"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// endGuards locks the guards of both sides. It waits for the first only.
func (p *pool) endGuards(ctx context.Context, tx *sqlstore.Tx, handle, far backend.ID) (farLocked bool, err error) {
	var own, other backend.ID
	_, err = tx.Row(ctx, []any{sqlstore.ID(&own), sqlstore.ID(&other)}, p.hot.EndGuards, far, handle)
	return other == far, err
}

// endMany decides ends together.
func (p *pool) endMany(ctx context.Context, tx *sqlstore.Tx, list []sqlstore.LateEnd) ([]sqlstore.LateEnd, error) {
	return tx.EndMany(ctx, list, func(ctx context.Context, guards []backend.ID) ([]backend.ID, error) {
		return tx.IDs(ctx, p.hot.Guards, ids(guards))
	})
}

// endSides writes the ends of sides in three statements, and one for the markers that are not there.
func (p *pool) endSides(ctx context.Context, tx *sqlstore.Tx, list []sqlstore.SideEnd) error {
	var closings, messages, marks tuples
	var sides []backend.ID
	for i, x := range list {
		closings = append(closings, []any{x.Far, x.Message, sqlstore.ClosingEnd, 1})
		messages = append(messages, []any{x.Handle, x.Seq, x.Message, int64(backend.KindEnd), backend.TypeEndDialog, nil, nil, expression(now)})
		sides = append(sides, x.Handle)
		if !x.Stands {
			marks = append(marks, []any{x.Queue, x.Group, x.Handle, x.Priority, later(i)})
		}
	}
	_, err := tx.Exec(ctx, p.hot.Closings, closings)
	if err == nil {
		_, err = tx.Exec(ctx, p.hot.Append, messages)
	}
	if err == nil && len(marks) > 0 {
		_, err = tx.Exec(ctx, p.hot.Mark, marks)
	}
	if err == nil {
		_, err = tx.Exec(ctx, p.hot.CloseSides, tableOf("handle", sides))
	}
	return err
}

// removeQuiet removes what is left of conversations in one statement.
func (p *pool) removeQuiet(ctx context.Context, tx *sqlstore.Tx, r *sqlstore.Remainder) error {
	var keys clearing
	for _, m := range r.Messages {
		keys.message(m.Stream, m.Seq)
	}
	for _, m := range r.Markers {
		keys.marker(m[0], m[1])
	}
	for _, id := range r.Streams {
		keys.stream(id)
	}
	for _, id := range r.Handles {
		keys.rows = append(keys.rows, []any{nil, nil, nil, nil, nil, id})
	}
	_, err := tx.Exec(ctx, p.hot.RemoveQuiet, keys.table())
	return err
}

// clearing are keys of rows of several tables, which one statement removes.
type clearing struct{ rows [][]any }

func (c *clearing) message(stream backend.ID, seq int64) {
	c.rows = append(c.rows, []any{stream, seq, nil, nil, nil, nil})
}

func (c *clearing) marker(group, stream backend.ID) {
	c.rows = append(c.rows, []any{nil, nil, group, stream, nil, nil})
}

func (c *clearing) stream(id backend.ID) {
	c.rows = append(c.rows, []any{nil, nil, nil, nil, id, nil})
}

func (c *clearing) table() table {
	const none = "" // no row has it, but it gives each column its type
	return table{
		columns: []string{"message", "seq", "grp", "marker", "stream", "handle"},
		rows:    append([][]any{{none, -1, none, none, none, none}}, c.rows...),
	}
}
