package conformance

import (
	"errors"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(
		scripted("P09", "a promotion of a held group", `
			broker other
			each hold: every hold
				each end, want: rollback r, "m0" "b" "m1" "m2" "m3" | ack r, "m1" "b" "m2" "m3"
					line a b
					begin d "m0" "m1" "m2"
					receive SQ $hold max 1 group d.peer.group as r
					clock c
					other: promote r.group
					other: receive SQ $hold now as next -> "a" // the others are not kept from their work by it
					ack next
					within c 5s
					send d "m3"
					$end
					order SQ $want
			if many writers: // by GetGroup's way of looking too
				line a
				begin d "m0"
				receive SQ by lease group d.peer.group as r
				promote r.group
				transaction t on other
				t: group g at SQ
				differ g r.group
				rollback t
		`, alone),
		scripted("P09", "a promotion of a group without messages", `
			begin d "m0"
			order SQ "m0"
			line a b
			promote d.peer.group
			order SQ "a"
			maintain // no clean-up takes it away
			send d "m1"
			send d "m2"
			order SQ "m1" "b" "m2"
		`, alone),
		scripted("P09", "a promotion of a group whose first message is withheld", `
			line a b
			disable SQ
			begin d "withheld 0" "withheld 1"
			withheld d 2
			let p d.peer
			promote p
			enable SQ
			soon 20s:
				shown p ready
			order SQ "withheld 0" "a" "b" "withheld 1"
		`),
		scripted("P09", "a promotion of a parked group", `
			each hold: every hold
				each hide: park r | defer r for 1h
					line m a
					receive SQ $hold as r
					$hide
					promote r.group
					order SQ "a"
					nothing SQ
					line b
					unpark r.group
					receive SQ as r -> "m"
					equal r.promoted true
					ack r
					order SQ "b"
		`, alone),
		check{ID: "P11", Name: "a promotion of an ended group is removed", Run: checkPrioEnded},
		scripted("P11", "a promotion of an unknown group is refused", `
			line a
			group unknown
			promote unknown -> ErrUnknownGroup naming unknown
			promote NoGroup -> ErrUnknownGroup
			transaction t
			each g, naming: unknown, naming unknown | NoGroup,
				t: promote $g -> ErrUnknownGroup $naming
				t: demote $g // the transaction can still be used
			commit t
			order SQ "a"
		`, alone),
	)
}

func checkPrioEnded(e *env) {
	w := invWorld(e)
	s := invUnder(w)
	group := parley.NewID() // the client's, so that it can be made again
	begin := func(group parley.ID) (peer parley.ID) {
		return dlgPeer(w, w.DialogWith(&parley.DialogOptions{RelatedGroup: group}, "hello"))
	}
	tell := func(peer parley.ID, body string) {
		w.Send(peer, w.Tell, body)
		time.Sleep(2 * time.Millisecond) // for stores whose clock is coarse
	}
	peer := begin(group)
	tell(peer, "never received")
	e.Must(w.B.Promote(e.Ctx, group, parley.Sticky()))
	dlgEnd(w, dlgPeer(w, peer), peer)

	// Others are received beside it, and nothing goes wrong again and again.
	second := begin(parley.NewID())
	tell(second, "a")
	prioOrder(w, w.CQ, "beside a promotion of an ended group", "a")
	w.Nothing(w.CQ, nil)
	if err := w.B.Promote(e.Ctx, group); err != nil && !errors.Is(err, parley.ErrUnknownGroup) {
		e.Errorf("a promotion of the ended group returns %v, want none or ErrUnknownGroup", err)
	}

	gone := func() bool {
		for _, job := range []backend.Job{backend.JobMarkers, backend.JobClosed, backend.JobGroups} {
			s.maintain(job)
		}
		tx := s.begin()
		defer s.rollback(tx)
		err := tx.LockGroup(e.Ctx, group)
		return errors.Is(err, backend.ErrNoGroup)
	}
	if !e.Soon(10*time.Second, gone) {
		e.Fatalf("the clean-up does not remove a promoted group that has ended")
	}
	if err := w.B.Promote(e.Ctx, group); !errors.Is(err, parley.ErrUnknownGroup) {
		e.Errorf("a promotion of the removed group returns %v, want ErrUnknownGroup", err)
	}
	// Its promotion went with it: made again, the group has none.
	tell(second, "older")
	tell(begin(group), "younger, in a group made again")
	prioOrder(w, w.CQ, "the group was made again", "older", "younger, in a group made again")
}
