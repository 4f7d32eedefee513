package backendtest

import (
	"bytes"
	"log/slog"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

func testTimer(f *Fixture) {
	d := f.Open()
	set := func(after time.Duration) {
		f.Do(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, d.A.Handle, after) })
	}
	set(time.Hour)
	n, next := f.Maintain(backend.JobTimers)
	f.Equal("moved", n, 0)
	if next < 50*time.Minute || next > time.Hour {
		f.Errorf("next timer in %v", next)
	}
	set(0)
	if _, next := f.Maintain(backend.JobTimers); next != 0 {
		f.Errorf("next timer in %v, but there is none", next)
	}
	set(time.Hour)
	set(time.Millisecond)
	f.Send(d.B.Handle, "1")
	f.MaintainUntil(backend.JobTimers, 1)
	f.Equal("drained", f.Drain(f.QA), []string{"<DialogTimer>", "1"})
	f.Is(f.Try(func(tx backend.Tx) error { return tx.SetTimer(f.Ctx, backend.NewID(), 1) }), backend.ErrNoConversation)
	set(time.Hour)
	f.End(backend.End{Handle: d.A.Handle})
	if _, next := f.Maintain(backend.JobTimers); next != 0 {
		f.Errorf("next timer in %v, but the conversation has ended", next)
	}
}

// testStranded: a message that no marker leads to comes back, by maintenance, which says so.
func testStranded(f *Fixture) {
	var said bytes.Buffer
	if l := f.Backend.Capabilities().Logging; l != nil {
		l.LogTo(slog.New(slog.NewTextHandler(&said, nil)))
	}
	f.Post(backend.Posting{Key: "parked", Body: []byte("0")})
	f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QP)), Park: "parked"})
	d := f.Open()
	f.Send(d.A.Handle, "1", "2")
	f.Post(backend.Posting{Key: "k", Body: []byte("3")})
	table := f.table("ready")
	f.Do(func(tx backend.Tx) error {
		if tx.SQL() == nil {
			f.Skip("what the store keeps cannot be damaged from outside")
		}
		_, err := tx.SQL().ExecContext(f.Ctx, "DELETE FROM "+table+" WHERE queue_id > 0")
		return err
	})
	f.None(f.Request(f.QB))
	f.None(f.Request(f.QP))
	f.MaintainUntil(backend.JobGroups, 2)
	f.Equal("of the dialog", f.Drain(f.QB), []string{"1", "2"})
	f.Equal("of the key", f.Drain(f.QP), []string{"3"})
	n, _ := f.Maintain(backend.JobGroups)
	f.Equal("moved then", n, 0)
	f.Equal("groups told of", strings.Count(said.String(), "event=group.stranded"), 2)
}

// table is the name of a table in the application's statements.
func (f *Fixture) table(name string) string {
	f.Helper()
	info, err := f.Backend.Info(f.Ctx)
	f.OK(err)
	name = info.Settings["prefix"] + name
	if schema := info.Settings["schema"]; schema != "" {
		name = schema + "." + name
	}
	return name
}
