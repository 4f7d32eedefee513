package conformance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/sure"
)

func init() {
	add(
		check{ID: "H01", Name: "headers of messages and posts", Run: checkHeaders},
		check{ID: "H01", Name: "headers of messages in one batch", Run: checkHeadersOfBatch},
		check{ID: "H01", Name: "headers of values", Run: checkHeadersOfValues},
		check{ID: "H02", Name: "headers through rollback, retry and parking", Run: checkHeadersRetried},
		check{ID: "H03", Name: "headers of what was withheld", Run: checkHeadersWithheld},
		check{ID: "H03", Name: "headers on the dialogs of a Sender", Run: checkHeadersRecycled},
		check{ID: "H04", Name: "headers of dead letters", Run: checkHeadersDead},
		check{ID: "H04", Name: "headers of copies", Run: checkHeadersKept},
		check{ID: "H05", Name: "headers that are refused", Run: checkHeadersRefused},
		check{ID: "H05", Name: "as many headers as are allowed", Run: checkHeadersMost},
		check{ID: "H06", Name: "headers count as part of the body", Run: checkHeadersCounted},
	)
}

type headers = map[string]string

// traced are headers that texts are easily broken by.
var traced = headers{
	"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Traceparent": "another name",
	"empty": "", " ": "  ", "grüße": "日本語, 🙂", "a\"b\\c": "\"\\'<>&%_{}[]:,\u2028", "lines": "\r\n\t\x01\x7f", "NULL": "null",
}

// headed begins a conversation with a message that has headers.
func (w *world) headed(h headers, bodies ...string) (handle parley.ID) {
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(w.Ctx, w.Client, w.Server, &parley.DialogOptions{Contract: w.Contract})
		if err != nil {
			return err
		}
		handle = c.Handle()
		for _, body := range bodies {
			if err := c.SendPayload(w.Ctx, parley.Payload{Type: w.Ask, Body: []byte(body), Headers: h}); err != nil {
				return err
			}
		}
		return nil
	})
	return handle
}

// headedPost posts with headers.
func (w *world) headedPost(h headers, body string, o ...parley.PostOption) parley.ID {
	id, err := w.B.Post(w.Ctx, w.SQ, parley.Payload{Body: []byte(body), Headers: h}, o...)
	w.Must(err)
	return id
}

// sameHeaders compares headers; none is nil.
func sameHeaders(e *env, how string, got, want headers) {
	if !maps.Equal(got, want) || len(want) == 0 && got != nil {
		e.Errorf("%s: the headers are %q, want %q", how, got, want)
	}
}

// takeHeaded receives one message, compares its headers, and acknowledges it.
func (w *world) takeHeaded(how string, want headers) { w.takeHeadedFrom(w.SQ, how, want) }

func (w *world) takeHeadedFrom(queue, how string, want headers) {
	d := w.Receive(queue, &parley.ReceiveOptions{MaxMessages: 1})
	sameHeaders(w.env, how, d.Messages[0].Headers, want)
	w.Must(d.Ack(w.Ctx))
}

func checkHeaders(e *env) {
	w := e.World()
	for _, want := range []headers{traced, nil, {}, {"one": "1"}} {
		w.headed(want, "body")
		w.takeHeaded("a message", want)
		for how, o := range map[string][]parley.PostOption{
			"a post": nil, "a post with key": {parley.Key("k")}, "a unique post": {parley.Unique("u")},
			"a unique post with key":  {parley.Unique("u"), parley.Key("k")},
			"a delayed post":          {parley.After(20 * time.Millisecond)},
			"a delayed post with key": {parley.After(20 * time.Millisecond), parley.Key("k")},
		} {
			id := w.headedPost(want, "body", o...)
			s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
			e.Must(err)
			sameHeaders(e, how+"'s status", s.Headers, want)
			w.takeHeaded(how, want)
		}
	}
}

// checkHeadersOfBatch sends messages with and without headers together.
func checkHeadersOfBatch(e *env) {
	w := e.World()
	all := []headers{{"n": "0"}, nil, traced, nil, {"n": "4"}}
	h := w.Dialog()
	w.Tx(func(tx *parley.Tx) error {
		var sends []parley.Sending
		var posts []parley.Posting
		for _, h2 := range all {
			p := parley.Payload{Type: w.Ask, Headers: h2}
			sends = append(sends, parley.Sending{To: tx.Conversation(h), Payload: p})
			posts = append(posts, parley.Posting{Payload: p, Options: []parley.PostOption{parley.Key("k")}})
		}
		if err := tx.SendBatch(e.Ctx, sends); err != nil {
			return err
		}
		_, err := tx.PostBatch(e.Ctx, w.SQ, posts)
		return err
	})
	for range 2 { // the conversation and the key, whichever comes first
		d := w.Receive(w.SQ, &parley.ReceiveOptions{MaxMessages: 2})
		_, err := d.More(e.Ctx, 10)
		e.Must(err)
		for i, m := range d.Messages {
			sameHeaders(e, "a message of a batch", m.Headers, all[i])
		}
		e.Must(d.Ack(e.Ctx))
	}
	w.Tx(func(tx *parley.Tx) error {
		var posts []parley.Posting
		for i, h := range all {
			posts = append(posts, parley.Posting{Payload: parley.Payload{Body: []byte{byte(i)}, Headers: h}})
		}
		_, err := tx.PostBatch(e.Ctx, w.SQ, posts)
		return err
	})
	for range all {
		d := w.Receive(w.SQ, nil)
		sameHeaders(e, "a post of a batch", d.Messages[0].Headers, all[d.Messages[0].Body[0]])
		e.Must(d.Ack(e.Ctx))
	}
}

// checkHeadersOfValues sends values of Go in all the ways that there are.
func checkHeadersOfValues(e *env) {
	w := e.World(recCatalog(false)) // on whose contract the initiator alone sends
	s := recSender(w, w.B, parley.SenderOptions{}).Key("k")
	plain := parley.Type[string](w.Ask, parley.Raw)
	ask := plain.WithHeaders(traced)
	h := w.Dialog("first")
	w.Tx(func(tx *parley.Tx) error {
		_, post := ask.Post(e.Ctx, tx, w.SQ, "post")
		_, batch := ask.PostBatch(e.Ctx, tx, w.SQ, []string{"0", "1"}, parley.Key("k"))
		return errors.Join(post, batch, ask.Send(e.Ctx, tx.Conversation(h), "send"), ask.SendBy(e.Ctx, s, tx, "sender"),
			plain.Send(e.Ctx, tx.Conversation(h), "plain"))
	})
	for range 7 {
		d := w.Receive(w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
		m, want := d.Messages[0], traced
		if body := string(m.Body); body == "first" || body == "plain" {
			want = nil
		}
		sameHeaders(e, string(m.Body), m.Headers, want)
		e.Must(d.Ack(e.Ctx))
	}

	w = e.another()
	w.Dialog("first")
	d := w.Receive(w.SQ, nil)
	e.Must(parley.Type[string](w.Tell, parley.Raw).WithHeaders(traced).Reply(e.Ctx, d.Messages[0], "reply"))
	e.Must(d.Ack(e.Ctx))
	w.takeHeadedFrom(w.CQ, "a reply", traced)
}

// handleHeaded has a worker fail until each message has been tried so often, and calls decide for the last failure.
func (w *world) handleHeaded(hold parley.Hold, messages, failures int, decide func(error) error) {
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	var mu sync.Mutex
	left := messages
	errAgain := errors.New("again")
	h := parley.HandlerFunc(func(ctx context.Context, m *parley.Message) error {
		sameHeaders(w.env, "in a handler", m.Headers, traced)
		if m.Attempt <= failures {
			return errAgain
		}
		mu.Lock()
		defer mu.Unlock()
		if left--; left == 0 {
			time.AfterFunc(50*time.Millisecond, cancel) // what is decided is carried out first in any case
		}
		return decide(errAgain)
	})
	err := sure.Of(w.B.NewWorker(w.SQ, h, &parley.WorkerOptions{
		Hold: hold, Backoff: func(int) time.Duration { return time.Millisecond }, MaxAttempts: 10,
	})).Run(ctx)
	if err != nil || w.Ctx.Err() != nil || left > 0 {
		w.Fatalf("the worker ended with %v, and %d messages are left", err, left)
	}
}

func checkHeadersRetried(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.headed(traced, "dialog")
		w.headedPost(traced, "keyed", parley.Key("k"))
		w.headedPost(traced, "post")
		for range 3 {
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			sameHeaders(e, "before a rollback", d.Messages[0].Headers, traced)
			e.Must(d.Rollback(e.Ctx))
		}
		w.handleHeaded(hold, 3, 2, parley.Park)
		groups, err := w.B.Admin().Parked(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Must(err)
		if len(groups) != 3 {
			e.Fatalf("%d groups are parked, want 3", len(groups))
		}
		for _, g := range groups {
			list, err := w.B.Admin().PeekParked(e.Ctx, w.SQ, g.Group, 1)
			e.Must(err)
			sameHeaders(e, "of a parked message", list[0].Headers, traced)
			e.Must(w.B.Admin().Unpark(e.Ctx, g.Group))
		}
		w.handleHeaded(hold, 3, 0, func(error) error { return nil })
		w.Nothing(w.SQ, nil)
	}
}

func checkHeadersWithheld(e *env) {
	w := e.World()
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.SQ))
	w.headed(traced, "0", "1")
	w.headed(nil, "none")
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.SQ))
	for _, want := range []headers{traced, traced, nil} {
		w.takeHeaded("a message that was withheld", want)
	}
	w.Nothing(w.SQ, nil)
}

// checkHeadersRecycled sends nine messages by a Sender whose dialogs take two each. The messages of
// a dialog are withheld until the dialog before it has ended.
func checkHeadersRecycled(e *env) {
	w := e.World(recCatalog(true))
	s := recSender(w, w.B, parley.SenderOptions{MaxMessages: 2}).Key("k")
	w.Tx(func(tx *parley.Tx) error {
		var batch []parley.Payload
		for range 5 {
			batch = append(batch, parley.Payload{Type: w.Ask, Headers: traced})
		}
		return s.SendBatch(e.Ctx, tx, batch)
	})
	for range 4 {
		w.Tx(func(tx *parley.Tx) error { return s.Send(e.Ctx, tx, parley.Payload{Type: w.Ask, Headers: traced}) })
	}
	got, _ := recUntil(w, 9)
	for _, m := range got {
		sameHeaders(e, "on the dialog of a Sender", m.Headers, traced)
	}
}

func checkHeadersDead(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		w.headed(traced, "dialog")
		w.headedPost(traced, "keyed", parley.Key("k"))
		w.headedPost(traced, "post")
		w.handleHeaded(hold, 3, 1, parley.DeadLetter)
		list, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
		e.Must(err)
		if len(list) != 3 {
			e.Fatalf("%d dead letters, want 3", len(list))
		}
		for _, d := range list {
			sameHeaders(e, "of a dead letter", d.Message.Headers, traced)
			if d.Queue != w.SQ || d.Message.Queue != w.SQ {
				e.Errorf("a dead letter is of queue %q, and its message of %q, want %q", d.Queue, d.Message.Queue, w.SQ)
			}
			if d.Message.ConversationID.IsZero() {
				_, err := w.B.Admin().RequeueDead(e.Ctx, d)
				e.Must(err)
			}
		}
		w.handleHeaded(hold, 2, 0, func(error) error { return nil })
	}
	// What its sender has ended before the target refused it.
	w := e.another()
	ghost := e.Name("ghost")
	w.Tx(func(tx *parley.Tx) error {
		c, err := tx.Begin(e.Ctx, w.Client, ghost, &parley.DialogOptions{Contract: w.Contract})
		if err == nil {
			err = c.SendPayload(e.Ctx, parley.Payload{Type: w.Ask, Headers: traced})
		}
		if err == nil {
			err = c.End(e.Ctx)
		}
		return err
	})
	e.Must(w.B.Define(e.Ctx, parley.Catalog{Services: []parley.Service{{Name: ghost, Queue: w.SQ}}}))
	ok := e.Soon(10*time.Second, func() bool {
		list, err := w.B.Admin().DeadLetters(e.Ctx, "", parley.Place{}, backend.CountLimit)
		e.Must(err)
		return slices.ContainsFunc(list, func(d parley.DeadStatus) bool {
			return d.Message.Type == w.Ask && maps.Equal(d.Message.Headers, traced)
		})
	})
	if !ok {
		e.Errorf("a message that its target refused is no dead letter with its headers")
	}
}

func checkHeadersKept(e *env) {
	w := e.World(func(c *parley.Catalog) {
		c.Queues[0].Retention, c.Queues[1].Retention, c.Queues[1].KeepProcessed = true, true, time.Hour
	})
	sent := w.headed(traced, "0", "1")
	ids := []parley.ID{w.headedPost(traced, "keyed", parley.Key("k")), w.headedPost(traced, "post")}
	received := w.Drain(w.SQ)
	for _, m := range received {
		if !m.Conversation.IsZero() {
			for _, side := range []parley.ID{sent, m.Conversation} {
				copies, err := w.B.Admin().Retained(e.Ctx, side)
				e.Must(err)
				if len(copies) != 2 {
					e.Errorf("a side keeps %d copies, want 2", len(copies))
				}
				for _, c := range copies {
					sameHeaders(e, "of a copy", c.Message.Headers, traced)
				}
			}
		}
	}
	for _, id := range ids {
		s, err := w.B.PostStatus(e.Ctx, w.SQ, id)
		e.Must(err)
		if s.State != "processed" || !maps.Equal(s.Headers, traced) {
			e.Errorf("a post that was processed is %s, with the headers %q", s.State, s.Headers)
		}
	}
}

// numberedHeaders returns so many headers whose names and values have so many bytes together.
func numberedHeaders(n, bytes int, filler string) headers {
	h := make(headers)
	for i := range n {
		name := string(rune('A'+i/26)) + string(rune('a'+i%26))
		h[name] = ""
		bytes -= len(name)
	}
	h["Aa"] = strings.Repeat(filler, bytes/len(filler))
	h["Ab"] = strings.Repeat("x", bytes%len(filler))
	return h
}

func checkHeadersRefused(e *env) {
	w := e.World(recCatalog(false))
	s := recSender(w, w.B, parley.SenderOptions{}).Key("k")
	h := w.Dialog("0")
	for _, bad := range []struct {
		headers headers
		want    error
	}{
		{headers{"": "x"}, parley.ErrInvalidName},
		{headers{"parley-": "x"}, parley.ErrInvalidName},
		{headers{"parley-of-ours": "x"}, parley.ErrInvalidName},
		{headers{"zero\x00": "x"}, parley.ErrInvalidName},
		{headers{"\xff": "x"}, parley.ErrInvalidName},
		{headers{"zero": "x\x00"}, parley.ErrInvalidOption},
		{headers{"bytes": "\xc3\x28"}, parley.ErrInvalidOption},
		{headers{"half": "\xed\xa0\x80"}, parley.ErrInvalidOption},
		{numberedHeaders(backend.MaxHeaders+1, 1000, "x"), parley.ErrTooLarge},
		{numberedHeaders(2, backend.MaxHeaderBytes+1, "x"), parley.ErrTooLarge},
		{numberedHeaders(2, backend.MaxHeaderBytes+1, "ü"), parley.ErrTooLarge},
	} {
		p, good := parley.Payload{Type: w.Ask, Headers: bad.headers}, parley.Payload{Type: w.Ask}
		w.Tx(func(tx *parley.Tx) error {
			c := tx.Conversation(h)
			_, post := tx.Post(e.Ctx, w.SQ, p)
			_, batch := tx.PostBatch(e.Ctx, w.SQ, []parley.Posting{{Payload: good}, {Payload: p}})
			for how, err := range map[string]error{
				"send": c.SendPayload(e.Ctx, p), "post": post, "a batch of posts": batch,
				"a batch of sends": tx.SendBatch(e.Ctx, []parley.Sending{{To: c, Payload: good}, {To: c, Payload: p}}),
				"a Sender":         s.Send(e.Ctx, tx, p),
			} {
				if !errors.Is(err, bad.want) {
					e.Errorf("%s: headers %.100q: error %v, want %v", how, bad.headers, err, bad.want)
				}
			}
			return c.SendPayload(e.Ctx, parley.Payload{Type: w.Ask, Headers: headers{"parley": "is a name of anyone's"}})
		})
	}
	got := w.Drain(w.SQ)
	if len(got) != 12 { // the first, and one for each that was refused
		e.Errorf("received %s, want what was not refused", describe(got))
	}
}

func checkHeadersMost(e *env) {
	w := e.World()
	for _, filler := range []string{"x", "\"", "\x01", "<", "ü", "日", "🙂"} {
		want := numberedHeaders(backend.MaxHeaders, backend.MaxHeaderBytes, filler)
		w.headed(want, "body")
		w.takeHeaded("as many as are allowed", want)
		w.headedPost(want, "body")
		w.takeHeaded("as many as are allowed with a post", want)
	}
}

func checkHeadersCounted(e *env) {
	small := e.WorldOn(e.Broker(&parley.Options{MaxBody: 100}))
	for n, want := range map[int]error{50: nil, 51: parley.ErrTooLarge} {
		_, err := small.B.Post(e.Ctx, small.SQ, parley.Payload{
			Body: []byte(strings.Repeat("x", n)), Headers: headers{"name": strings.Repeat("x", 46)},
		})
		if !errors.Is(err, want) {
			e.Errorf("a body of %d bytes with 50 of headers, with 100 allowed: error %v, want %v", n, err, want)
		}
	}

	w := e.another()
	big := headers{"big": strings.Repeat("x", 1000)}
	for range 3 {
		w.headedPost(big, "", parley.Key("k"))
	}
	w.headed(big, "", "", "")
	for range 2 {
		for _, want := range []int{2, 1} {
			d := w.Receive(w.SQ, &parley.ReceiveOptions{MaxBytes: 2500})
			if len(d.Messages) != want {
				e.Errorf("with 2500 bytes %d messages with 1000 bytes of headers came, want %d", len(d.Messages), want)
			}
			e.Must(d.Ack(e.Ctx))
		}
	}
	// A claim of several posts.
	be := e.Handle()
	for range 3 {
		w.headedPost(big, "")
	}
	q, err := w.B.Admin().Queues(e.Ctx, w.SQ)
	e.Must(err)
	tx, err := be.Begin(e.Ctx)
	e.Must(err)
	defer tx.Rollback(e.Ctx)
	c, err := tx.Catalog(e.Ctx, false)
	e.Must(err)
	claim, err := tx.Claim(e.Ctx, backend.ClaimRequest{
		Version: c.Version, Queue: q[0].ID, MaxGroups: 10, MaxMessages: 10, MaxBytes: 2500, Owner: "conformance", Lease: time.Minute,
	})
	e.Must(err)
	if len(claim.Holds) < 1 || len(claim.Holds) > 2 {
		e.Errorf("with 2500 bytes a claim has %d posts with 1000 bytes of headers, want one or two", len(claim.Holds))
	}
}
