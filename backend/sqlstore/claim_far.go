package sqlstore

import (
	"database/sql"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// walkTime is how long a claim walks past what is in flight. The next claim goes on.
const walkTime = 20 * time.Millisecond

// Rank is what a level of priority or promotion weighs in a place. A place is where an
// entry stands in an order, as one number: what comes first is less. An instant has 16
// digits.
const Rank int64 = 10_000_000_000_000_000

// Place is where an entry of a level and an instant stands.
func Place(level, since int64) int64 { return since - level*Rank }

// AtPlace returns the level and the instant of a place.
func AtPlace(place int64) (level, since int64) {
	since = place % Rank
	if since < 0 {
		since += Rank
	}
	return (since - place) / Rank, since
}

// Widths is how many sizes of pages there are, each ten times as large as the one
// before. A larger one is used where all entries of a page have the same place, which
// is where the next page would begin.
const Widths = 5

// Walk is how far claims have come in the orders of a queue, page by page, past what is
// in flight. They look first at the promotions, and then at the streams and posts.
type Walk struct {
	Promoted bool // the promotions have been walked
	Waiting  bool // something was there that is not blocked

	start time.Time // of this claim
	begun bool      // at and width are set
	at    int64     // the place at which the next page begins
	width int
}

// WalkOf returns the walk with which a request goes on, or a new one.
func WalkOf(r backend.ClaimRequest) *Walk {
	w := new(Walk)
	if before, ok := r.Walk.(*Walk); ok {
		*w = *before
	}
	w.start = time.Now()
	return w
}

// Page looks at one page of an order, from a place on. It returns the place of the first
// thing that it has locked, and that at which the next page begins, if there are such.
type Page func(at int64, width int) (found, next sql.NullInt64, err error)

// pages walks from a place on, or goes on where the claim before has come to. It returns the place
// of what was found, or nothing at the end of the order. If the time is over before that, done is
// false.
func (w *Walk) pages(from int64, page Page) (found sql.NullInt64, done bool, err error) {
	if !w.begun {
		w.begun, w.at, w.width = true, from, 0
	}
	for {
		found, next, err := page(w.at, w.width)
		switch {
		case err != nil || found.Valid || !next.Valid:
			return found, true, err
		case next.Int64 > w.at:
			w.at, w.width = next.Int64, 0
		default:
			w.width = min(w.width+1, Widths-1)
		}
		if time.Since(w.start) >= walkTime {
			return found, false, nil
		}
	}
}

// Shortcuts are places up to which all was in flight a moment ago, by their queues. For a
// second after a walk that took several claims the next ones begin there, or else each of them
// would take as long. What becomes free before that place is found after that second.
type Shortcuts struct{ orders, promotions sync.Map }

type shortcut struct {
	at    int64
	until time.Time
}

const shortcutLife = time.Second

func shortcutOf(m *sync.Map, queue int64) (s shortcut, ok bool) {
	v, ok := m.Load(queue)
	if ok {
		s = v.(shortcut)
		if ok = time.Now().Before(s.until); !ok {
			m.CompareAndDelete(queue, v)
		}
	}
	return s, ok
}

// Has reports whether there is one into the order of a queue.
func (s *Shortcuts) Has(queue int64) bool {
	_, ok := shortcutOf(&s.orders, queue)
	return ok
}

// Promotions walks those behind the place up to which a claim has seen none that is free. It
// returns a Walk if the next claim has to go on with it. If nothing is found, w is ready
// for the order.
func (s *Shortcuts) Promotions(queue int64, w *Walk, from int64, page Page) (rest *Walk, err error) {
	long := w.begun
	if short, ok := shortcutOf(&s.promotions, queue); ok && !long {
		from = short.at
	}
	found, done, err := w.pages(from, page)
	if err != nil || found.Valid {
		return nil, err
	}
	if !done {
		s.promotions.Delete(queue)
		return w, nil
	}
	if long {
		s.promotions.Store(queue, shortcut{w.at, time.Now().Add(shortcutLife)})
	}
	*w = Walk{Promoted: true, Waiting: w.Waiting, start: w.start}
	return nil, nil
}

// Order walks streams and posts likewise. A shortcut is for finding something: that there
// is nothing only a walk from the head tells.
func (s *Shortcuts) Order(queue int64, w *Walk, from int64, page Page) (rest *Walk, err error) {
	if !w.Promoted {
		*w = Walk{Promoted: true, Waiting: w.Waiting, start: w.start}
	}
	long := w.begun
	if short, ok := shortcutOf(&s.orders, queue); ok && !long {
		behind := *w
		found, done, err := behind.pages(short.at, page)
		if err != nil {
			return nil, err
		}
		if found.Valid {
			s.orders.Store(queue, shortcut{found.Int64, short.until})
			return nil, nil
		}
		s.orders.Delete(queue)
		if !done {
			w.begun, w.at = true, from
			return w, nil
		}
	}
	found, done, err := w.pages(from, page)
	switch {
	case err != nil:
	case !done:
		rest = w
	case found.Valid && long:
		s.orders.Store(queue, shortcut{found.Int64, time.Now().Add(shortcutLife)})
	}
	return rest, err
}
