package mssql

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// candidate is something that may be claimed.
type candidate struct {
	what     int64 // 0 promoted group, 1 promoted post, 2 group, 3 post
	id       backend.ID
	priority int64 // or level
	since    int64
}

// kind is 0 for a group and 1 for a post.
func (c candidate) kind() int64 { return c.what & 1 }

// promoted candidates come before all others.
func (c candidate) promoted() bool { return c.what < 2 }

// claim is a walk that locks nothing, one statement that locks what ranks first, and
// one that reads its messages. It looks at the head of the order only, and farther
// back if all of that is in somebody's hands.
func (s *server) claim(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	if !r.Group.IsZero() || !r.Handle.IsZero() {
		return s.claimOne(ctx, tx, r)
	}
	const deep = 10000
	for window := 8*r.MaxGroups + 50; ; window = deep {
		all, full, err := s.walk(ctx, tx, r, window)
		if err != nil {
			return c, err
		}
		c, err = s.claimFirst(ctx, tx, r, all)
		if err != nil || len(c.Holds) > 0 || c.Discarded > 0 || !full || window >= deep {
			break
		}
	}
	if err == nil && len(c.Holds) == 0 && !c.Contended {
		var one any
		c.Contended, err = tx.Row(ctx, []any{&one}, tx.Q().Waiting, r.Queue, r.Queue)
	}
	return c, err
}

// walk lists candidates in their order, each once. full says that there may be more.
func (s *server) walk(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, window int) (all []candidate, full bool, err error) {
	var version int64
	var enabled sql.NullInt64
	var counts [4]int
	seen := make(map[backend.ID]bool)
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var c candidate
		var what sql.NullInt64
		err := rows.Scan(&version, &enabled, &what, sqlstore.ID(&c.id), sqlstore.Int(&c.priority), sqlstore.Int(&c.since))
		if err == nil && what.Valid {
			c.what = what.Int64
			counts[c.what]++
			all = append(all, c)
		}
		return err
	}, s.many.walk, r.Queue, window)
	if err != nil {
		return nil, false, err
	}
	if err := sqlstore.CatalogState(version, enabled, r.Version); err != nil {
		return nil, false, err
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		if a.promoted() != b.promoted() {
			return cmp.Compare(min(a.what, 2), min(b.what, 2))
		}
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.since, b.since))
	})
	// A group with several streams stands in the order several times.
	all = slices.DeleteFunc(all, func(c candidate) bool {
		dup := seen[c.id]
		seen[c.id] = true
		return dup
	})
	return all, counts[0]+counts[1] >= window || counts[2] >= window || counts[3] >= window, nil
}

// claimFirst claims the first candidates that can be had: promoted ones, of one kind,
// or else ordinary ones, of one kind.
func (s *server) claimFirst(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, all []candidate) (c backend.Claim, err error) {
	n := 0
	for n < len(all) && all[n].promoted() {
		n++
	}
	for _, part := range [][]candidate{all[:n], all[n:]} {
		if len(part) == 0 {
			continue
		}
		c, err = s.take(ctx, tx, r, part)
		if err != nil || len(c.Holds) > 0 || c.Contended || c.Discarded > 0 {
			break
		}
	}
	return c, err
}

// take locks candidates, or leases them, and reads what they have.
func (s *server) take(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, list []candidate) (c backend.Claim, err error) {
	rows := make([]idRow, len(list))
	for i, x := range list {
		rows[i] = idRow{int32(i + 1), x.id[:], x.kind()}
	}
	q, args := s.many.take, []any{s.idTable(rows), r.MaxGroups}
	if r.Lease > 0 {
		q, args = s.many.lease, append(args, r.Lease, r.Owner)
	}
	var kind int64
	var had []backend.ID
	var orphans []int64
	vain := false
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		var id backend.ID
		var free bool
		var orphan int64 // a lease ran out
		err := rows.Scan(&kind, sqlstore.ID(&id), sqlstore.Bool(&free), &orphan)
		if free {
			had, orphans = append(had, id), append(orphans, orphan)
		} else {
			vain = true
		}
		return err
	}, q, args...)
	if err != nil || len(had) == 0 {
		c.Contended = vain
		return c, err
	}
	if vain && r.Alone {
		// What was locked must be free again: the owner of a group that was locked in
		// vain would wait for this transaction.
		c.Contended = true
		return c, nil
	}
	if kind == 1 {
		c.Holds, err = s.readPosts(ctx, tx, r, had, list[0].promoted())
		return c, err
	}
	return s.read(ctx, tx, r, had, orphans)
}

// read makes holds of groups that are ours. Those that turned out to have nothing are
// given back.
func (s *server) read(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, had []backend.ID, orphans []int64) (c backend.Claim, err error) {
	grown := int64(0)
	if r.Lease > 0 {
		grown = 1
	}
	c, err = tx.ReadHolds(ctx, r, had, s.many.read,
		s.idTable(idRows(had, orphans)), max(r.MaxMessages, 1), max(r.MaxBytes, 0), sqlstore.Null(r.Handle), r.LockOnly, grown)
	if err != nil || len(c.Holds) == len(had) {
		return c, err
	}
	for _, id := range had {
		if !slices.ContainsFunc(c.Holds, func(h *backend.Hold) bool { return h.Group == id }) {
			if r.Lease > 0 {
				if _, err := tx.Exec(ctx, tx.Q().GroupUnlease, id); err != nil {
					return c, err
				}
			}
			c.Contended = len(c.Holds) == 0
		}
	}
	return c, nil
}

// readPosts makes holds of posts that are ours, up to the limit of bytes.
func (s *server) readPosts(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest, had []backend.ID, promoted bool) (holds []*backend.Hold, err error) {
	var posts []*sqlstore.Post
	err = tx.Rows(ctx, func(rows *sql.Rows) error {
		p := new(sqlstore.Post)
		err := p.Scan(rows)
		posts = append(posts, p)
		return err
	}, s.many.held, s.idTable(idRows(had, nil)))
	if err != nil {
		return nil, err
	}
	left := r.MaxBytes
	for i, p := range posts {
		left -= len(p.Body)
		if i > 0 && left < 0 && !r.LockOnly { // it does not fit: give it back
			if r.Lease > 0 {
				if _, err := tx.Exec(ctx, tx.Q().PostUnlease, p.ID); err != nil {
					return nil, err
				}
			}
			continue
		}
		if r.Lease > 0 {
			p.Fence-- // as it was before the claim
		}
		h := p.Hold(r)
		if promoted {
			if err := tx.ReadPromotion(ctx, h); err != nil {
				return nil, err
			}
		}
		holds = append(holds, h)
	}
	return holds, nil
}

// claimOne claims the group that the request names.
func (s *server) claimOne(ctx context.Context, tx *sqlstore.Tx, r backend.ClaimRequest) (c backend.Claim, err error) {
	id, post, err := tx.FindOne(ctx, r)
	if err != nil || id.IsZero() {
		return c, err
	}
	x := candidate{what: 0, id: id}
	if post {
		x.what = 1
	}
	c, err = s.take(ctx, tx, r, []candidate{x})
	if err == nil && len(c.Holds) == 0 && c.Discarded == 0 {
		c.Contended = true
	}
	return c, err
}
