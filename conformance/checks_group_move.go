package conformance

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parleymq/parley"
)

func init() {
	add(
		scripted("G08", "messages come under the group that the conversation was moved to", `
			each hold: every hold
				begin d "m0" "m1" "m2"
				let p d.peer
				receive SQ $hold max 1 as r
				ack r
				begin x "x"
				move p to x.peer.group // with what waits and what comes
				send d "m3"
				nothing SQ group p
				receive SQ $hold group x.peer.group as r
				equal r.bodies "m1, m2, m3, x"
				each n: 0 | 1 | 2 | 3
					equal r.$n.group x.peer.group
				equal p.group x.peer.group
				ack r

				group fresh // a new group; a move that is rolled back; and within the delivery itself
				move p to fresh
				group other
				transaction t
				t: move p to other
				rollback t
				send d "m4"
				receive SQ $hold as r -> "m4"
				equal r.group fresh
				r: move p to x.peer.group
				ack r
				send d "m5"
				receive SQ $hold as r -> "m5"
				equal r.group x.peer.group
				ack r
				nothing SQ
		`, alone),
		scripted("G08", "a move to a group of another queue or service is refused", `
			define queue third
			define service neighbour on SQ lists Contract
			define service elsewhere on third lists Contract
			begin d "m0"
			begin far to elsewhere "elsewhere"
			begin beside to neighbour "beside"
			post SQ key k type Any "" as keyed
			let p d.peer
			let k keyed.group
			each g: d | far.peer | beside.peer | k // one of a side has its handle's id; a key has no service
				transaction t
				t: move p to $g -> ErrGroupElsewhere
				t: equal p.group p
				commit t
			receive SQ of p as r -> "m0"
			equal r.group p
			ack r
			transaction t
			t: move p to NoGroup -> ErrUnknownGroup
			commit t
		`, alone),
		check{ID: "G08", Name: "opposite moves both end", Run: checkGrpMoveOpposite},
	)
}

func checkGrpMoveOpposite(e *env) {
	w := invWorld(e)
	a, b := w.Dialog("a"), w.Dialog("b")
	peers := []parley.ID{dlgPeer(w, a), dlgPeer(w, b)}
	groups := slices.Clone(peers)
	w.Drain(w.SQ)
	var wg sync.WaitGroup
	for i := range peers {
		mover := invOther(w)
		wg.Go(func() {
			for n := range 8 {
				to := groups[(i+n+1)%2]
				ctx, cancel := context.WithTimeout(e.Ctx, 30*time.Second)
				err := mover.B.InTx(ctx, func(tx *parley.Tx) error {
					return tx.Conversation(peers[i]).Move(ctx, to)
				})
				cancel()
				if err != nil {
					e.Errorf("move %d of conversation %d: %v", n, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.Send(a, w.Ask, "a1")
	w.Send(b, w.Ask, "b1")
	ms := w.Drain(w.SQ)
	if got := bodiesOf(ms); len(got) != 2 {
		e.Fatalf("after the moves received %q, want a1 and b1", got)
	}
	for _, m := range ms {
		i := slices.Index(peers, m.Conversation)
		if m.Group != groups[i] { // an even number of moves ends where it began
			e.Errorf("conversation %d is in group %s after its last move, want %s", i, m.Group, groups[i])
		}
	}
}
