package conformance

import (
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

func init() {
	add(check{ID: "O11", Name: "what comes back from a deferral does not overtake what was sent before", Run: checkOrdReturn})
}

// checkOrdReturn defers a dialog, a key and a post that are older than another one, and sends something when the deferrals
// are over.
func checkOrdReturn(e *env) {
	w := e.another()
	one := &parley.ReceiveOptions{MaxMessages: 1}
	w.Dialog("dialog 1", "dialog 2")
	w.post(w.SQ, "key 1", parley.Key("k"))
	w.post(w.SQ, "key 2", parley.Key("k"))
	w.post(w.SQ, "post")
	w.post(w.SQ, "before")
	sent := make(map[string]time.Time)
	for range 3 {
		d := w.Receive(w.SQ, one)
		sent[string(d.Messages[0].Body)] = d.Messages[0].Enqueued
		e.Must(d.Defer(e.Ctx, 10*time.Millisecond))
	}
	if !e.Soon(10*time.Second, func() bool { return w.queueStatus(w.SQ).Deferred == 0 }) {
		e.Fatalf("groups are deferred 10 s after the end of their deferral")
	}
	_, err := e.Handle().Maintain(e.Ctx, backend.JobDeferred, 1000)
	e.Must(err)
	w.post(w.SQ, "after")
	var got []string
	for range 7 {
		d := w.Receive(w.SQ, one)
		m := d.Messages[0]
		if at, ok := sent[string(m.Body)]; ok && !m.Enqueued.Equal(at) {
			e.Errorf("%q was enqueued at %v, and after its deferral at %v", m.Body, at, m.Enqueued)
		}
		got = append(got, string(m.Body))
		e.Must(d.Ack(e.Ctx))
	}
	back := slices.Sorted(slices.Values(got[1:6])) // the deferrals may have ended at the same time
	want := []string{"before", "dialog 1", "dialog 2", "key 1", "key 2", "post", "after"}
	if !slices.Equal(slices.Concat(got[:1], back, got[6:]), want) {
		e.Errorf("received %q, want %q: what was deferred comes behind what was sent before its deferral was over", got, want)
	}
}
