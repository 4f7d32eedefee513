package backendtest

import "github.com/parleymq/parley/backend"

// testEmptied: a store that says that Settle has left nothing is right, and says so if it can tell. A single writer need
// not, nor a joined transaction, which does not even tell of a post without key.
func testEmptied(f *Fixture) {
	emptied := f.Backend.Capabilities().Emptied
	if emptied == nil {
		f.Skip("the store does not say")
	}
	settle := func(h *backend.Hold) (got bool) {
		f.Helper()
		f.Do(func(tx backend.Tx) error {
			if err := tx.Reclaim(f.Ctx, []*backend.Hold{h}); err != nil {
				return err
			}
			_, err := tx.Settle(f.Ctx, []backend.Outcome{{Hold: h, Done: h.Messages}})
			got = emptied(tx)
			return err
		})
		return got
	}
	f.Post(backend.Posting{Body: []byte("0")})
	tells := settle(f.One(f.Request(f.QP))) && !f.Backend.Capabilities().SingleWriter
	check := func(what string, got, want bool) {
		f.Helper()
		if got && !want || !got && want && tells {
			f.Errorf("%s: nothing is left: %t, want %t", what, got, want)
		}
	}
	d := f.Open()
	for name, send := range map[string]func(body string){
		"conversation": func(body string) { f.Send(d.A.Handle, body) },
		"key":          func(body string) { f.Post(backend.Posting{Key: "k", Body: []byte(body)}) },
	} {
		r := f.Request(map[string]int64{"conversation": f.QB, "key": f.QP}[name])
		r.MaxMessages = 1
		send("1")
		send("2")
		check(name+", one of two", settle(f.One(r)), false)
		check(name+", the last", settle(f.One(r)), true)
		send("3")
		h := f.One(r)
		send("4")
		check(name+", one more has come", settle(h), false)
		check(name+", the last once more", settle(f.One(r)), true)
		f.None(r)
	}
}
