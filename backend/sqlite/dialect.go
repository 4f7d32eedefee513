package sqlite

import (
	"context"
	"embed"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are those that differ from the portable ones. Nothing is locked: there
// is one writer at a time. In joins a CROSS JOIN keeps the order of the tables: the
// left one is the outer loop ("The SQLite Query Optimizer Overview").
var statements = sqlstore.ReadTexts(sqlFiles)

// token names the indexes along which tables are walked.
func token(verb, arg string) (string, bool) {
	index := map[string]string{"delayed": "delayed_order", "timer": "timer_order", "post": "post_due"}[arg]
	return "INDEXED BY parley_" + index, verb == "order"
}

// adapt hides from the planner what a limit and small integers are. It would plan by them, and compile the statement again
// whenever they are bound, which takes longer than most statements do. A plus sign before a parameter changes nothing else.
func adapt(sql string, _ bool) string { return small.Replace(sql) }

var small = strings.NewReplacer("LIMIT ?", "LIMIT +?", "queue_id = ?", "queue_id = +?", "blocked = ?", "blocked = +?",
	"kind = ?", "kind = +?", "phase = ?", "phase = +?", "priority = ?", "priority = +?", "level = ?", "level = +?",
	"catalog_version = ?", "catalog_version = +?")

// many are the statements for many rows, which take them as JSON: ids in hexadecimal, or an
// object of ids and fences.
type many struct {
	RemovePosts, ReclaimGroups, ReclaimPosts, HeldPosts *sqlstore.Stmt
	JoinPosts, JoinDelete                               *sqlstore.Stmt
	BeginGroups, NewEndpoints, NewDialogs, Mark         *sqlstore.Stmt
	Advance, AdvanceKey, NewKey                         *sqlstore.Stmt
	MarkersDelete, StreamsOf, ClosingsOf, EndpointsOf   *sqlstore.Stmt
	Closings, Ends, CloseStreams, CloseEndpoints        *sqlstore.Stmt
	Remove, DropMarkers, Restand                        *sqlstore.Stmt
}

// remove removes posts and returns how many there were.
func (m *many) remove(ctx context.Context, tx *sqlstore.Tx, list []backend.ID) (int64, error) {
	if len(list) == 1 {
		return tx.Exec(ctx, tx.Q().PostDelete, list[0])
	}
	return tx.Exec(ctx, m.RemovePosts, ids(list))
}

// ids writes ids.
func ids(list []backend.ID) string {
	b := []byte{'['}
	for i, id := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, id[:])
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

// joinPosts moves delayed posts to their queues.
func (m *many) joinPosts(ctx context.Context, tx *sqlstore.Tx, list []backend.ID) (int64, error) {
	n, err := tx.Exec(ctx, m.JoinPosts, ids(list))
	if err == nil {
		_, err = tx.Exec(ctx, m.JoinDelete, ids(list))
	}
	return n, err
}

// fences writes holds as an object of ids and fences.
func fences(holds []*backend.Hold) string {
	b := []byte{'{'}
	for i, h := range holds {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, h.Group[:])
		b = append(b, '"', ':')
		b = strconv.AppendInt(b, h.Fence, 10)
	}
	return string(append(b, '}'))
}

// reclaim takes leases into the transaction and returns those that it had.
func (m *many) reclaim(ctx context.Context, tx *sqlstore.Tx, holds []*backend.Hold) (had []backend.ID, err error) {
	groups, posts := sqlstore.SplitHolds(holds)
	if len(groups) > 0 {
		if had, err = tx.IDs(ctx, m.ReclaimGroups, fences(groups)); err != nil {
			return nil, err
		}
	}
	if len(posts) > 0 {
		ids, err := tx.IDs(ctx, m.ReclaimPosts, fences(posts))
		return append(had, ids...), err
	}
	return had, nil
}

// held counts the posts that are still held by their fences.
func (m *many) held(ctx context.Context, tx *sqlstore.Tx, posts []*backend.Hold) (n int64, err error) {
	_, err = tx.Row(ctx, []any{&n}, m.HeldPosts, fences(posts))
	return n, err
}

// release ends the leases of posts that are held.
func (m *many) release(ctx context.Context, tx *sqlstore.Tx, posts []*backend.Hold) error {
	_, err := tx.IDs(ctx, m.ReclaimPosts, fences(posts))
	return err
}
