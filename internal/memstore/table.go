package memstore

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/parleymq/parley/backend"
)

// A table is a list of row versions, ordered by key. A version that another transaction may be
// reading is never overwritten. A transaction that changes a row hides the version that it saw and
// adds a new one. Others go on seeing the old one until the commit.
type table[K, V any] struct {
	compare  func(a, b K) int
	versions []*version[K, V]
}

type version[K, V any] struct {
	key  K
	row  V
	made *Tx // the open transaction that made it; nil: committed
	gone *Tx // the open transaction that deleted it; nil: none
}

// visible is the whole of READ COMMITTED: what is committed, plus what tx did
// itself. A nil tx is an onlooker.
func (v *version[K, V]) visible(tx *Tx) bool {
	return (v.made == nil || v.made == tx) && (v.gone == nil || v.gone != tx)
}

// find returns the place of the first version whose key is not below key.
func (t *table[K, V]) find(key K) int {
	i, _ := slices.BinarySearchFunc(t.versions, key, func(v *version[K, V], key K) int { return t.compare(v.key, key) })
	return i
}

// of ranges over all versions of one key, the latest last.
func (t *table[K, V]) of(key K) []*version[K, V] {
	first := t.find(key)
	last := first
	for last < len(t.versions) && t.compare(t.versions[last].key, key) == 0 {
		last++
	}
	return t.versions[first:last]
}

func (t *table[K, V]) look(tx *Tx, key K) *version[K, V] {
	versions := t.of(key)
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].visible(tx) {
			return versions[i]
		}
	}
	return nil
}

// get returns the row that tx sees.
func (t *table[K, V]) get(tx *Tx, key K) (row V, ok bool) {
	if v := t.look(tx, key); v != nil {
		return v.row, true
	}
	return row, false
}

func (t *table[K, V]) has(tx *Tx, key K) bool { return t.look(tx, key) != nil }

// from ranges over the rows that tx sees, in order, from key on. The caller
// does not change the table meanwhile.
func (t *table[K, V]) from(tx *Tx, key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for i := t.find(key); i < len(t.versions); i++ {
			if v := t.versions[i]; v.visible(tx) && !yield(v.key, v.row) {
				return
			}
		}
	}
}

// keys collects the keys of all rows that tx sees, for a caller that is going
// to change the table.
func (t *table[K, V]) keys(tx *Tx) []K {
	var keys []K
	for _, v := range t.versions {
		if v.visible(tx) {
			keys = append(keys, v.key)
		}
	}
	return keys
}

// busy reports whether another open transaction is changing the row: what a
// database would call a row lock.
func (t *table[K, V]) busy(tx *Tx, key K) bool {
	return slices.ContainsFunc(t.of(key), func(v *version[K, V]) bool {
		return v.made != nil && v.made != tx || v.gone != nil && v.gone != tx
	})
}

// removedBy reports whether tx itself has deleted the row.
func (t *table[K, V]) removedBy(tx *Tx, key K) bool {
	return slices.ContainsFunc(t.of(key), func(v *version[K, V]) bool { return v.gone == tx })
}

// put writes a row. Where two transactions write one row, which the locks
// forbid wherever it matters, the last to commit wins.
func (t *table[K, V]) put(tx *Tx, key K, row V) {
	seen := t.look(tx, key)
	if seen != nil && seen.made == tx { // no other transaction sees it: change it in place
		old := seen.row
		seen.row = row
		tx.did(change{undo: func() { seen.row = old }})
		return
	}
	if seen != nil {
		t.hide(tx, seen)
	}
	added := &version[K, V]{key: key, row: row, made: tx}
	after := t.find(key) + len(t.of(key))
	t.versions = slices.Insert(t.versions, after, added)
	tx.did(change{
		undo: func() { t.remove(added) },
		commit: func() {
			added.made = nil
			for _, other := range slices.Clone(t.of(key)) {
				if other != added && other.made == nil {
					t.remove(other)
				}
			}
		},
	})
}

// delete removes a row and reports whether it was there. A row that another
// transaction is removing counts as gone.
func (t *table[K, V]) delete(tx *Tx, key K) bool {
	seen := t.look(tx, key)
	return seen != nil && t.hide(tx, seen)
}

func (t *table[K, V]) hide(tx *Tx, v *version[K, V]) bool {
	if v.gone != nil {
		return false
	}
	v.gone = tx
	tx.did(change{
		undo:   func() { v.gone = nil },
		commit: func() { t.remove(v) },
	})
	return true
}

// remove takes a version out for good.
func (t *table[K, V]) remove(v *version[K, V]) {
	for i := t.find(v.key); i < len(t.versions) && t.compare(t.versions[i].key, v.key) == 0; i++ {
		if t.versions[i] == v {
			t.versions = slices.Delete(t.versions, i, i+1)
			return
		}
	}
}

// The keys of tables.

// pair is a key of two ids: the rows of the first are neighbours.
type pair struct{ of, id backend.ID }

// numbered is the key of the n-th row that belongs to an id.
type numbered struct {
	of backend.ID
	n  int64
}

func compareIDs(a, b backend.ID) int { return bytes.Compare(a[:], b[:]) }

func comparePairs(a, b pair) int {
	return cmp.Or(compareIDs(a.of, b.of), compareIDs(a.id, b.id))
}

func compareNumbered(a, b numbered) int {
	return cmp.Or(compareIDs(a.of, b.of), cmp.Compare(a.n, b.n))
}

// second collects the second ids of all pairs that begin with of.
func second[V any](t *table[pair, V], tx *Tx, of backend.ID) []backend.ID {
	var ids []backend.ID
	for key := range t.from(tx, pair{of: of}) {
		if key.of != of {
			break
		}
		ids = append(ids, key.id)
	}
	return ids
}

// rowsOf ranges over the numbered rows of an id, in order.
func rowsOf[V any](t *table[numbered, V], tx *Tx, of backend.ID) iter.Seq2[numbered, V] {
	return func(yield func(numbered, V) bool) {
		for key, row := range t.from(tx, numbered{of: of}) {
			if key.of != of || !yield(key, row) {
				return
			}
		}
	}
}

// clearRows deletes the numbered rows of an id and returns how many there were.
func clearRows[V any](t *table[numbered, V], tx *Tx, of backend.ID) int {
	var keys []numbered
	for key := range rowsOf(t, tx, of) {
		keys = append(keys, key)
	}
	n := 0
	for _, key := range keys {
		if t.delete(tx, key) {
			n++
		}
	}
	return n
}

func newTables() *tables {
	t := new(tables)
	t.catalog.compare = cmp.Compare[int]
	t.endpoints.compare = compareIDs
	t.members.compare = comparePairs
	t.closings.compare = compareIDs
	t.troubles.compare = compareIDs
	t.timers.compare = compareIDs
	t.retained.compare = compareNumbered
	t.streams.compare = compareIDs
	t.notices.compare = comparePairs
	t.messages.compare = compareNumbered
	t.withheld.compare = compareNumbered
	t.markers.compare = compareIDs
	t.order.compare = compareRanks
	t.groups.compare = compareIDs
	t.promotions.compare = compareIDs
	t.failures.compare = compareIDs
	t.posts.compare = compareIDs
	t.uniques.compare = compareUniques
	t.dead.compare = cmp.Compare[int64]
	t.once.compare = cmp.Compare[string]
	t.fences.compare = cmp.Compare[string]
	t.readers.compare = compareIDs
	t.schedules.compare = cmp.Compare[string]
	t.recurring.compare = cmp.Compare[string]
	t.requests.compare = comparePairs
	t.tasks.compare = compareTaskKeys
	return t
}
