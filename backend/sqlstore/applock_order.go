package sqlstore

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/parleymq/parley/backend"
)

// lockRow is one row of the table lock: a lock that is held, or a request.
type lockRow struct {
	name    string
	seq     int64 // its fence or ticket; what came first has the lower one
	owner   backend.ID
	mode    backend.LockMode
	times   int
	waiting bool
	tx      bool // the owner is a transaction
	dead    bool // the owner is no more
	stale   bool // a request whose owner has stopped asking
}

func (x *lockRow) over() bool { return x.dead || x.stale }

// against returns what a request has to wait for: locks that other owners hold in incompatible
// modes. Unless its owner already holds the lock, the request also waits for earlier requests of
// others. That keeps a succession of readers from starving a writer.
func against(rows []lockRow, a *ask) (found []lockRow) {
	conversion := find(rows, a.owner.id, 0).held != nil
	for _, x := range rows {
		if x.owner == a.owner.id || a.mode.Compatible(x.mode) {
			continue
		}
		ahead := !conversion && (a.ticket == 0 || x.seq < a.ticket)
		if !x.waiting || ahead {
			found = append(found, x)
		}
	}
	return found
}

// own is what an owner has: the lock, and the request with its ticket.
type own struct{ held, request *lockRow }

func find(rows []lockRow, owner backend.ID, ticket int64) (o own) {
	for i := range rows {
		switch x := &rows[i]; {
		case x.owner != owner:
		case !x.waiting:
			o.held = x
		case x.seq == ticket:
			o.request = x
		}
	}
	return o
}

func without(rows []lockRow, gone func(lockRow) bool) []lockRow {
	return slices.DeleteFunc(slices.Clone(rows), gone)
}

// victim reports whether a request has to fail: of the requests that wait for each other in a
// cycle, the last one fails. All of them see the same rows and choose the same victim, so that only
// one fails. The rows are those of all names with requests, by name and number.
func victim(rows []lockRow, a *ask) bool {
	byName := make(map[string][]lockRow)
	for _, x := range rows {
		byName[x.name] = append(byName[x.name], x)
	}
	// Who waits for whom, and by which request.
	edges := make(map[backend.ID][]backend.ID)
	var requests []lockRow
	there := false
	for _, x := range rows {
		if !x.waiting {
			continue
		}
		requests = append(requests, x)
		there = there || x.name == a.name && x.seq == a.ticket
		for _, y := range against(byName[x.name], &ask{owner: lockOwner{id: x.owner}, name: x.name, mode: x.mode, ticket: x.seq}) {
			edges[x.owner] = append(edges[x.owner], y.owner)
		}
	}
	if !there {
		return false
	}
	mine := reach(edges, a.owner.id)
	if !mine[a.owner.id] {
		return false
	}
	last := slices.MaxFunc(requests, func(x, y lockRow) int {
		// Those outside of our cycles come first.
		in := func(r lockRow) int {
			if mine[r.owner] && reach(edges, r.owner)[a.owner.id] {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(in(x), in(y)), cmp.Compare(x.seq, y.seq), bytes.Compare(x.owner[:], y.owner[:]), cmp.Compare(x.name, y.name))
	})
	return last.name == a.name && last.seq == a.ticket
}

// reach returns all owners that one waits for, directly or by way of others. It
// is among them only if there is a cycle.
func reach(edges map[backend.ID][]backend.ID, from backend.ID) map[backend.ID]bool {
	seen := make(map[backend.ID]bool)
	next := []backend.ID{from}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for _, to := range edges[at] {
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return seen
}
