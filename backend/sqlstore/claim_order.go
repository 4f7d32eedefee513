package sqlstore

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/parleymq/parley/backend"
)

// Turn is what decides when a stream of a group is received.
type Turn struct {
	Priority int
	Since    int64 // the time of its oldest message
	Handle   backend.ID
	Kind     int64
	Stream   backend.ID
}

// SortByTurn puts the streams of a group into the order in which they are received. Conversations are sorted by
// priority, then by their oldest message, and each stays in one piece. The time is the message's, not the marker's.
// A marker stays old as long as senders keep its guard busy, and the other streams would wait all that time.
func SortByTurn[S any](streams []S, turn func(S) Turn) {
	if len(streams) < 2 {
		return
	}
	oldest := make(map[backend.ID]int64, len(streams))
	for _, s := range streams {
		t := turn(s)
		if since, ok := oldest[t.Handle]; !ok || t.Since < since {
			oldest[t.Handle] = t.Since
		}
	}
	slices.SortFunc(streams, func(x, y S) int {
		a, b := turn(x), turn(y)
		return cmp.Or(
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(oldest[a.Handle], oldest[b.Handle]),
			bytes.Compare(a.Handle[:], b.Handle[:]),
			cmp.Compare(a.Kind, b.Kind),
			bytes.Compare(a.Stream[:], b.Stream[:]),
		)
	})
}
