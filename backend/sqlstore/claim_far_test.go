package sqlstore

import (
	"database/sql"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

func TestPlace(t *testing.T) {
	var places []int64
	for _, level := range []int64{255, 100, 10, 5, 1, 0} {
		for _, since := range []int64{0, 1, 1_700_000_000_000_000, Rank - 1} {
			p := Place(level, since)
			if l, s := AtPlace(p); l != level || s != since {
				t.Errorf("level %d since %d is place %d, which is level %d since %d", level, since, p, l, s)
			}
			places = append(places, p)
		}
	}
	if !slices.IsSorted(places) {
		t.Errorf("places are not in the order: %d", places)
	}
}

// flights is an order of entries, of which those that are free can be found. A page has
// three of them, or ten times as many for each width.
type flights struct {
	places []int64
	free   map[int]bool
	looked int // entries that were looked at
}

func (f *flights) page(at int64, width int) (found, next sql.NullInt64, err error) {
	n := 3
	for range width {
		n *= 10
	}
	from, _ := slices.BinarySearch(f.places, at)
	end := min(from+n, len(f.places))
	for i := from; i < end; i++ {
		f.looked++
		if f.free[i] {
			return sql.NullInt64{Int64: f.places[i], Valid: true}, next, nil
		}
	}
	if end-from == n {
		next = sql.NullInt64{Int64: f.places[end-1], Valid: true}
	}
	return found, next, nil
}

// claims claims until one leaves no walk, and returns what was found, and by how many
// claims. A claim has time for one page if it is a slow one.
func (f *flights) claims(s *Shortcuts, slow bool) (found int64, n int) {
	var r backend.ClaimRequest
	for {
		n++
		w := WalkOf(r)
		if slow {
			w.start = time.Now().Add(-walkTime)
		}
		found = -1
		rest, err := s.Order(1, w, f.places[0], func(at int64, width int) (sql.NullInt64, sql.NullInt64, error) {
			x, next, err := f.page(at, width)
			if x.Valid {
				found = x.Int64
			}
			return x, next, err
		})
		if err != nil || rest == nil {
			return found, n
		}
		r.Walk = rest
	}
}

// TestWalk finds the first that is free, wherever it is, by many claims or one, among
// entries of which many have the same place.
func TestWalk(t *testing.T) {
	for range 200 {
		f := flights{free: make(map[int]bool)}
		for n := 1 + rand.IntN(100); len(f.places) < n; {
			f.places = append(f.places, rand.Int64N(20))
		}
		slices.Sort(f.places)
		want := int64(-1)
		for _, i := range rand.Perm(len(f.places))[:rand.IntN(2)] {
			f.free[i], want = true, f.places[i]
		}
		for _, slow := range []bool{true, false} {
			if got, n := f.claims(new(Shortcuts), slow); got != want {
				t.Fatalf("slow %t: found %d by %d claims among %d, want %d of %v", slow, got, n, len(f.places), want, f)
			}
		}
	}
}

// TestShortcut: after a walk of several claims the next claims begin where the walk found
// something. If nothing is free there, they walk the whole order.
func TestShortcut(t *testing.T) {
	f := flights{free: map[int]bool{90: true}}
	for i := range 100 {
		f.places = append(f.places, int64(i))
	}
	shortcuts := new(Shortcuts)
	claim := func(what string, slow bool, found int64, looked int) {
		t.Helper()
		f.looked = 0
		if got, _ := f.claims(shortcuts, slow); got != found || f.looked != looked {
			t.Errorf("%s: found %d, having looked at %d, want %d and %d", what, got, f.looked, found, looked)
		}
	}
	claim("a walk by one claim", false, 90, 135)
	claim("it leaves no shortcut", false, 90, 135)
	claim("a walk by several", true, 90, 135)
	claim("it leaves one", false, 90, 1)
	f.free[50], f.free[92] = true, true
	delete(f.free, 90)
	claim("behind it", false, 92, 3)
	delete(f.free, 92)
	claim("all, when nothing is free behind it", false, 50, 86)
	claim("there is no shortcut now", false, 50, 75)
	claim("a walk by several again", true, 50, 75)
	shortcuts.orders.Store(int64(1), shortcut{at: 50})
	f.free[10] = true
	claim("after the shortcut's life", false, 10, 15)
}
