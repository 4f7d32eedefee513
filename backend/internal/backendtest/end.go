package backendtest

import (
	"time"

	"github.com/parleymq/parley/backend"
)

func testEnd(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	f.Send(d.B.Handle, "unread")
	done := f.End(backend.End{Handle: d.A.Handle})
	f.Equal("ended", done, backend.Ended{Queue: f.QB, Dropped: 1})
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.DisconnectedOutbound)
	f.Equal("peer's state", f.endpoint(d.B.Handle).State, backend.DisconnectedInbound)
	f.Is(f.Try(func(tx backend.Tx) error {
		_, err := tx.EndDialog(f.Ctx, backend.End{Handle: d.A.Handle, MessageID: backend.NewID()})
		return err
	}), backend.ErrEnded)
	f.None(f.Request(f.QA))
	f.Equal("drained", f.Drain(f.QB), []string{"1", "2", "<EndDialog>"})
	done = f.End(backend.End{Handle: d.B.Handle})
	f.Equal("ended", done, backend.Ended{FarGone: true, FarEnded: true})
	f.Maintain(backend.JobClosed)
	for _, h := range []backend.ID{d.A.Handle, d.B.Handle} {
		f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, h); return err }), backend.ErrNoConversation)
	}
}

func testEndError(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	done := f.End(backend.End{Handle: d.A.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 42, Text: "no & no"}})
	f.Equal("queue", done.Queue, f.QB)
	e := f.endpoint(d.B.Handle)
	f.Equal("state", e.State, backend.Errored)
	f.Equal("error", *e.Error, backend.DialogError{Code: 42, Text: "no & no"})
	h := f.One(f.Request(f.QB))
	f.Equal("bodies", Bodies(h.Messages), []string{"<Error>", "1"})
	got, err := backend.ParseDialogError(h.Messages[0].Body)
	f.OK(err)
	f.Equal("body", *got, *e.Error)
	f.Ack(h)
	done = f.End(backend.End{Handle: d.B.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 1, Text: "x"}, Keep: time.Hour})
	f.Equal("ended", done, backend.Ended{FarGone: true, FarEnded: true})
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.Closed)
	f.Equal("state", f.endpoint(d.B.Handle).State, backend.Closed)
	f.Maintain(backend.JobClosed)
	f.Equal("kept", f.endpoint(d.A.Handle).State, backend.Closed)
	f.None(f.Request(f.QA))
}

func testEndUnsent(f *Fixture) {
	d := f.ends()
	f.Do(func(tx backend.Tx) error {
		return tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: d.A, NewGroup: true})
	})
	done := f.End(backend.End{Handle: d.A.Handle})
	f.Equal("ended", done, backend.Ended{FarGone: true})
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.A.Handle); return err }), backend.ErrNoConversation)
}

func testCleanup(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Send(d.B.Handle, "2")
	f.End(backend.End{Handle: d.A.Handle, Kind: backend.EndCleanup})
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.A.Handle); return err }), backend.ErrNoConversation)
	e := f.endpoint(d.B.Handle)
	f.Equal("state", e.State, backend.Conversing)
	f.Equal("peer cleaned", e.FarCleaned, true)
	f.Equal("drained", f.Drain(f.QB), []string{"1"})
	f.None(f.Request(f.QA))
	done := f.End(backend.End{Handle: d.B.Handle})
	f.Equal("gone", done.FarGone, true)
	f.Is(f.Try(func(tx backend.Tx) error { _, err := tx.Endpoint(f.Ctx, d.B.Handle); return err }), backend.ErrNoConversation)
}

func testEndBoth(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.End(backend.End{Handle: d.B.Handle})
	f.End(backend.End{Handle: d.A.Handle})
	f.Drain(f.QA)
	f.Drain(f.QB)
	f.Maintain(backend.JobClosed)
	list, err := f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10})
	f.OK(err)
	f.Equal("conversations", len(list), 0)
	n, _ := f.Maintain(backend.JobGroups)
	f.Equal("groups removed", n, 2)
}

// testEndInDelivery ends a conversation in the transaction that acknowledges its
// messages.
func testEndInDelivery(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	h := f.One(f.Request(f.QB))
	f.Do(func(tx backend.Tx) error {
		if err := tx.Reclaim(f.Ctx, []*backend.Hold{h}); err != nil {
			return err
		}
		if err := tx.LockGroup(f.Ctx, h.Group); err != nil {
			return err
		}
		done, err := tx.EndDialog(f.Ctx, backend.End{Handle: d.B.Handle, MessageID: backend.NewID()})
		if err != nil {
			return err
		}
		f.Equal("ended", done, backend.Ended{Queue: f.QA})
		_, err = tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return err
	})
	f.Equal("drained", f.Drain(f.QA), []string{"<EndDialog>"})
	f.None(f.Request(f.QB))
}

// testEndUndone rolls an end back, and acknowledges all the same.
func testEndUndone(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	h := f.One(f.Request(f.QB))
	f.Do(func(tx backend.Tx) error {
		f.OK(tx.Reclaim(f.Ctx, []*backend.Hold{h}))
		f.OK(tx.Savepoint(f.Ctx, "before"))
		_, err := tx.EndDialog(f.Ctx, backend.End{Handle: d.B.Handle, MessageID: backend.NewID()})
		f.OK(err)
		f.OK(tx.RollbackTo(f.Ctx, "before"))
		_, err = tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		return err
	})
	f.Equal("state", f.endpoint(d.B.Handle).State, backend.Conversing)
	f.None(f.Request(f.QB))
	f.Send(d.A.Handle, "3")
	f.Equal("drained", f.Drain(f.QB), []string{"3"})
	f.Equal("for the other side", f.Drain(f.QA), []string{})
}

// testEndBothInDelivery ends the second side in the transaction that acknowledges what told
// it of the first one's end: nothing is left of either, and nothing to look at again.
func testEndBothInDelivery(f *Fixture) {
	d := f.Open()
	f.Send(d.A.Handle, "1")
	f.Ack(f.One(f.Request(f.QB)))
	f.Send(d.B.Handle, "2")
	f.End(backend.End{Handle: d.B.Handle})
	h := f.One(f.Request(f.QA))
	f.Equal("bodies", Bodies(h.Messages), []string{"2", "<EndDialog>"})
	f.Do(func(tx backend.Tx) error {
		f.OK(tx.Reclaim(f.Ctx, []*backend.Hold{h}))
		done, err := tx.EndDialog(f.Ctx, backend.End{Handle: d.A.Handle, MessageID: backend.NewID()})
		f.OK(err)
		f.Equal("ended", done, backend.Ended{FarGone: true, FarEnded: true})
		again, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
		f.Equal("to be looked at again", again, false)
		return err
	})
	list, err := f.Backend.Conversations(f.Ctx, backend.ConversationQuery{Limit: 10})
	f.OK(err)
	f.Equal("sides", len(list), 0)
	n, _ := f.Maintain(backend.JobGroups)
	f.Equal("groups removed", n, 2)
}

func testNotice(f *Fixture) {
	d := f.Open()
	f.Send(d.B.Handle, "1")
	f.Do(func(tx backend.Tx) error {
		return tx.Notice(f.Ctx, backend.Notice{To: d.A.Handle, Kind: backend.KindError, Error: &backend.DialogError{Code: -1, Text: "broken"}})
	})
	f.Equal("state", f.endpoint(d.A.Handle).State, backend.Errored)
	f.Equal("drained", f.Drain(f.QA), []string{"<Error>", "1"})
	f.End(backend.End{Handle: d.A.Handle})
	f.Do(func(tx backend.Tx) error {
		return tx.Notice(f.Ctx, backend.Notice{To: d.A.Handle, Kind: backend.KindTimer})
	})
	f.Equal("drained", f.Drain(f.QA), []string{})
}
