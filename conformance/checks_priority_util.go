package conformance

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/parleymq/parley"
)

// prioOrder takes messages one by one and ends the check unless they come in
// this order.
func prioOrder(w *world, queue, what string, want ...string) {
	var got []string
	for i := range want {
		d := w.TryReceive(queue, &parley.ReceiveOptions{MaxMessages: 1, Hold: w.Holds()[i%len(w.Holds())]}, time.Second)
		if d == nil {
			break
		}
		got = append(got, bodiesOf(d.Messages)...)
		w.Must(d.Ack(w.Ctx))
	}
	if !slices.Equal(got, want) {
		w.fail(fmt.Sprintf("%s: received %q, want %q", what, got, want))
		runtime.Goexit()
	}
}

// prioLine begins a conversation for each body, and returns the groups in which
// their messages wait in the world's queue SQ, oldest first.
func prioLine(w *world, bodies ...string) (groups []parley.ID) {
	for _, body := range bodies {
		groups = append(groups, dlgPeer(w, w.Dialog(body)))
		time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
	}
	return groups
}
