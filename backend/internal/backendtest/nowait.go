package backendtest

import (
	"time"

	"github.com/parleymq/parley/backend"
)

// NoWait tests transactions that wait for no lock.
func NoWait(f *Fixture) {
	f.Helper()
	t := f.Backend.Capabilities().Together
	d, e := f.Open(), f.Open()
	f.OK(f.sendNoWait(d, "1", e, "2"))
	f.OK(f.sendNoWait(e, "3", d, "4"))
	f.Equal("sent", f.Drain(d.B.Queue), []string{"1", "4", "2", "3"})
	if t.KeyedPosts {
		f.OK(f.NoWait(f.posts("a", "b", "a"))) // both are new
		f.Equal("posts with keys", f.Drain(f.QP), []string{"0", "2", "1"})
		f.OK(f.NoWait(f.posts("a", "c")))
		f.OK(f.NoWait(f.posts("c", "a", "a")))
		f.Equal("posts with keys that are known", f.Drain(f.QP), []string{"0", "1", "2", "1", "0"})
	}
	if t.Posts {
		f.OK(f.NoWait(f.posts("", "")))
		f.Equal("posts", f.Drain(f.QP), []string{"0", "1"})
	}

	// A conversation that has ended refuses its message, and so the others.
	f.Do(func(tx backend.Tx) error {
		_, err := tx.EndDialog(f.Ctx, backend.End{Handle: e.A.Handle, MessageID: backend.NewID(), Kind: backend.EndPlain})
		return err
	})
	f.Drain(d.B.Queue)
	if f.sendNoWait(d, "5", e, "6") == nil {
		f.Error("a message on a conversation that has ended was sent")
	}
	f.Equal("after a refusal", f.Drain(d.B.Queue), []string(nil))
	if !f.Backend.Capabilities().SingleWriter {
		f.noWaitLocked(d, f.Open())
	}
}

// noWaitLocked tests them beside a transaction that has a lock.
func (f *Fixture) noWaitLocked(d, e Dialog) {
	f.Helper()
	other := f.Begin()
	defer other.Rollback(f.Ctx)
	_, err := other.Send(f.Ctx, f.Version, []backend.Outgoing{outgoing(e.A.Handle, "7")})
	f.OK(err)
	begun := time.Now()
	if f.sendNoWait(d, "8", e, "9") == nil {
		f.Error("a message on a conversation that another has locked was sent")
	}
	if f.Backend.Capabilities().Together.KeyedPosts {
		f.OK(f.posts("a", "new")(other))
		f.Is(f.NoWait(f.posts("b", "a")), backend.ErrStreamBusy)
		f.Is(f.NoWait(f.posts("b", "new")), backend.ErrStreamBusy)
	}
	if d := time.Since(begun); d > 3*time.Second {
		f.Errorf("transactions that wait for no lock took %v", d)
	}
	f.OK(other.Commit(f.Ctx))
	f.OK(f.sendNoWait(d, "a", e, "b"))
	f.Equal("after the lock", f.Drain(d.B.Queue), []string{"7", "b", "a"})
}

// NoWait does work in a transaction that waits for no lock.
func (f *Fixture) NoWait(work func(backend.Tx) error) error {
	f.Helper()
	tx, err := f.Backend.Begin(backend.NoWait(backend.Alone(f.Ctx)))
	f.OK(err)
	defer tx.Rollback(f.Ctx)
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit(f.Ctx)
}

// posts posts with keys. The bodies are 0, 1 and so on.
func (f *Fixture) posts(keys ...string) func(backend.Tx) error {
	return func(tx backend.Tx) error {
		var list []backend.Posting
		for i, key := range keys {
			list = append(list, f.Posting(backend.Posting{Key: key, Body: []byte{'0' + byte(i)}}))
		}
		_, err := tx.Post(f.Ctx, f.Version, list)
		return err
	}
}

func (f *Fixture) sendNoWait(d Dialog, one string, e Dialog, two string) error {
	return f.NoWait(func(tx backend.Tx) error {
		_, err := tx.Send(f.Ctx, f.Version, []backend.Outgoing{outgoing(d.A.Handle, one), outgoing(e.A.Handle, two)})
		return err
	})
}

func outgoing(from backend.ID, body string) backend.Outgoing {
	return backend.Outgoing{ID: backend.NewID(), From: from, Type: "m", Kind: backend.KindUser, Body: []byte(body)}
}
