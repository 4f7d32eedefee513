package backendtest

import (
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
