package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		Check{ID: "I3", Name: "each committed message is found at once by another process", Run: checkInvFoundAtOnce},
		Check{ID: "I3", Name: "a message is found after others were rolled back", Run: checkInvFoundAfterRollback},
		Check{ID: "I3", Name: "the message of a sender that stayed open for long is found", Run: checkInvFoundAfterLong},
		Check{ID: "I3", Name: "nothing is stranded under load", Run: func(e *Env) { runLoad(e, load{moves: true}) }, Limit: 2 * time.Minute},
	)
}

func checkInvFoundAtOnce(e *Env) {
	w := invWorld(e)
	receivers := []*World{invOther(w), invOther(w), w}
	h := w.Dialog()
	for i := range 30 {
		body := fmt.Sprint("m", i)
		switch i % 3 {
		case 0:
			w.Send(h, w.Ask, body)
		case 1:
			_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)}, parley.Key("k"))
			e.Must(err)
		case 2:
			_, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{Type: w.Any, Body: []byte(body)})
			e.Must(err)
		}
		r := receivers[i/3%len(receivers)]
		d := r.TryReceive(w.SQ, &parley.ReceiveOptions{Hold: e.Holds()[i%len(e.Holds())]}, 0)
		if d == nil {
			e.Fatalf("message %d was committed, and another process receives nothing", i)
		}
		if got := Bodies(d.Messages); !slices.Equal(got, []string{body}) {
			e.Fatalf("received %q, want %q", got, body)
		}
		e.Must(d.Ack(e.Ctx))
	}
}

func checkInvFoundAfterRollback(e *Env) {
	s := invUnder(invWorld(e))
	for _, st := range s.streams() {
		for i := range 3 {
			tx := s.opened(st, "undone")
			s.rollback(tx)
			s.nothing(backend.ClaimRequest{}, st.kind+" after a rolled back send")
			if i == 1 { // the duty finds what the rolled back send left, if anything
				s.tend(backend.DutyMarkers)
			}
			body := fmt.Sprint("m", i)
			s.sent(st, body)
			s.found(e.Holds()[0], st.kind+" after a rolled back send").want(st.kind, body).ack()
		}
		// A receiver that gave back what it had in hand.
		s.sent(st, "a", "b")
		for _, hold := range e.Holds() {
			s.found(hold, st.kind).want(st.kind, "a", "b").back()
		}
		s.found(e.Holds()[0], st.kind+" after it was given back").want(st.kind, "a", "b").ack()
	}
}

func checkInvFoundAfterLong(e *Env) {
	if !e.HoldsInTransaction() {
		e.Skipf("the store has a single writer")
	}
	s := invUnder(invWorld(e))
	slow, busy := s.dialog(), s.dialog()
	sender := s.opened(slow, "late")
	// Meanwhile the queue moves on: whoever remembers where the head of the
	// order was must not look only behind it.
	for until := time.Now().Add(2500 * time.Millisecond); time.Now().Before(until); {
		s.sent(busy, "x")
		s.found(e.Holds()[0], "busy conversation").want("busy conversation", "x").ack()
		time.Sleep(20 * time.Millisecond)
	}
	s.sent(busy, "y")
	s.commit(sender)
	var got []string
	for range 2 {
		d := s.Receive(s.SQ, nil)
		got = append(got, Bodies(d.Messages)...)
		e.Must(d.Ack(e.Ctx))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"late", "y"}) {
		e.Errorf("received %q, want late and y", got)
	}
}
