package doctor

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/parleymq/parley/backend"
)

// How many messages doctor looks at together, how long it goes on, and how many of those that are
// astray it looks at once more.
const (
	astrayPage = 2000
	astrayTime = 300 * time.Millisecond
	mostAstray = 10
)

// astray looks for messages that no receive finds. It begins at a random place, so that one look after
// the other comes to all of a big store.
func (d *diagnosis) astray(ctx context.Context) error {
	begun, begin := time.Now(), somewhere()
	for place, again := begin, false; time.Since(begun) < astrayTime; {
		list, last, err := d.be.Astray(ctx, place, astrayPage)
		if list, err = backend.Offered(list, err); err != nil {
			return err
		}
		for _, a := range list[:min(len(list), mostAstray)] {
			if err := d.lost(ctx, a); err != nil {
				return err
			}
		}
		switch {
		case last.IsZero() && again, again && slices.Compare(last[:], begin[:]) >= 0, len(list) > 0:
			return nil
		case last.IsZero():
			again = true
		}
		place = last
	}
	return nil
}

// lost looks again at a stream that seems to be astray.
func (d *diagnosis) lost(ctx context.Context, a backend.Astray) error {
	if !a.Group.IsZero() {
		list, err := d.be.Groups(ctx, backend.GroupQuery{Group: a.Group, Limit: 1})
		if err == nil && len(list) > 0 {
			_, err = d.stranded(ctx, list[0])
		}
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(strandedFor):
	}
	list, _, err := d.be.Astray(ctx, before(a.Stream), 1)
	if err == nil && slices.Contains(list, a) {
		d.add(true, codeOrphaned, "stream "+a.Stream.String(), "", "its messages are there, but the stream is not: no receive finds them")
	}
	return err
}

// somewhere returns an id of the last month, in half of the cases of the last minute, because most
// messages do not wait long. An id begins with its time in milliseconds.
func somewhere() backend.ID {
	id := backend.NewID()
	month := float64((30 * 24 * time.Hour).Milliseconds())
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()-int64(math.Pow(month, rand.Float64()))))
	copy(id[:6], ms[2:])
	return id
}

// before is the id in front of an id.
func before(id backend.ID) backend.ID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			break
		}
	}
	return id
}
