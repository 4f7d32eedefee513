package console

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/parleymq/parley/applock"
)

// lockRow is a lock with those who have it and those who wait for it.
type lockRow struct {
	Name    string
	Holders []applock.Status
	Waiters []applock.Status
}

// locksData are the locks with a prefix.
type locksData struct {
	Prefix string
	Locks  []lockRow
	Cycles [][]wait
	More   bool
}

// wait is an owner that waits for another one.
type wait struct{ Owner, Lock, For string }

// locksShown is how many locks a page has.
const locksShown = 200

func (h *Handler) readLocks(ctx context.Context, q url.Values) (any, error) {
	d := &locksData{Prefix: q.Get("prefix")}
	list, err := applock.List(ctx, h.b, d.Prefix)
	if err != nil {
		return nil, err
	}
	d.Cycles = cycles(list)
	d.Locks = lockRows(list)
	if len(d.Locks) > locksShown {
		d.Locks, d.More = d.Locks[:locksShown], true
	}
	return d, nil
}

// lockRows puts the owners of a lock together. Locks for which owners wait come first.
func lockRows(list []applock.Status) (rows []lockRow) {
	at := make(map[string]int)
	for _, l := range list {
		i, ok := at[l.Name]
		if !ok {
			i = len(rows)
			at[l.Name], rows = i, append(rows, lockRow{Name: l.Name})
		}
		if l.Waiting {
			rows[i].Waiters = append(rows[i].Waiters, l)
		} else {
			rows[i].Holders = append(rows[i].Holders, l)
		}
	}
	slices.SortStableFunc(rows, func(a, b lockRow) int {
		if len(a.Waiters) != len(b.Waiters) {
			return len(b.Waiters) - len(a.Waiters)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return rows
}

// cycles finds owners that wait for each other. Owners are told apart by their names.
func cycles(list []applock.Status) (found [][]wait) {
	waits := make(map[string][]wait)
	var owners []string
	for _, w := range list {
		for _, holder := range list {
			if w.Waiting && !holder.Waiting && w.Name == holder.Name && w.Owner != holder.Owner && !w.Mode.Compatible(holder.Mode) {
				if waits[w.Owner] == nil {
					owners = append(owners, w.Owner)
				}
				waits[w.Owner] = append(waits[w.Owner], wait{w.Owner, w.Name, holder.Owner})
			}
		}
	}
	over := make(map[string]bool)
	var path []wait
	var walk func(owner string)
	walk = func(owner string) {
		if i := slices.IndexFunc(path, func(w wait) bool { return w.Owner == owner }); i >= 0 {
			found = append(found, slices.Clone(path[i:]))
			return
		}
		if over[owner] {
			return
		}
		for _, w := range waits[owner] {
			path = append(path, w)
			walk(w.For)
			path = path[:len(path)-1]
		}
		over[owner] = true
	}
	for _, owner := range owners {
		walk(owner)
	}
	return found
}
