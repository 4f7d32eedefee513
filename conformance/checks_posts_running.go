package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/wait"
)

func init() {
	add(
		check{ID: "K01", Name: "posts are cancelled by ID, key and type", Run: checkCancelFilter},
		check{ID: "K01", Name: "many posts of each kind, some of them in hand", Run: checkCancelMany},
		check{ID: "K01", Name: "a request to cancel waits for none", Run: checkCancelWaits},
		check{ID: "K02", Name: "a handler is told that its post is cancelled", Run: checkCancelTold},
		check{ID: "K02", Name: "a handler that succeeds all the same", Run: checkCancelLate},
		check{ID: "K02", Name: "posts of a call for several", Run: checkCancelTogether},
		check{ID: "K03", Name: "a post that is given back is cancelled", Run: checkCancelReturned},
		check{ID: "K03", Name: "each is done or cancelled, once", Run: checkCancelLoad, Limit: 3 * time.Minute},
	)
}

// cancels cancels posts of SQ and returns how many were removed, and in whose hands how many were.
func (w *world) cancels(f parley.PostFilter) (c parley.Cancelled) {
	c, err := w.B.CancelPosts(w.Ctx, w.SQ, f)
	w.Must(err)
	return c
}

// pending lists the bodies of the pending posts of a queue.
func (w *world) pending(queue string) (bodies []string) {
	after := backend.ID{}
	for {
		page, err := w.B.Backend().PendingPosts(w.Ctx, backend.PendingQuery{Queue: w.queueStatus(queue).ID, After: after, Limit: 2})
		w.Must(err)
		if len(page) == 0 {
			return bodies
		}
		for _, p := range page {
			after = p.ID
			s, err := w.B.PostStatus(w.Ctx, queue, p.ID)
			if errors.Is(err, parley.ErrNotPending) { // by now
				continue
			}
			w.Must(err)
			bodies = append(bodies, string(s.Body))
		}
	}
}

func checkCancelFilter(e *env) {
	w := e.World()
	var want []string
	for _, body := range []string{"plain", "late"} {
		for _, kind := range []string{"", " of k", " of l", ", typed"} {
			p := parley.Payload{Body: []byte(body + kind)}
			var o []parley.PostOption
			if body == "late" {
				o = append(o, parley.After(time.Hour))
			}
			if key, ok := strings.CutPrefix(kind, " of "); ok {
				o = append(o, parley.Key(key))
			} else if kind != "" {
				p.Type = w.Any
			}
			_, err := w.B.Post(e.Ctx, w.SQ, p, o...)
			e.Must(err)
			want = append(want, body+kind)
		}
	}
	w.post(w.CQ, "of another queue", parley.Key("k"))
	for _, c := range []struct {
		filter parley.PostFilter
		gone   string
	}{
		{parley.PostFilter{Key: "k"}, " of k"},
		{parley.PostFilter{Key: "none"}, "-"},
		{parley.PostFilter{Type: w.Any}, ", typed"},
		{parley.PostFilter{Key: "l", Type: w.Any}, "-"},
		{parley.PostFilter{All: true}, ""},
	} {
		want = slices.DeleteFunc(want, func(body string) bool { return strings.Contains(body, c.gone) })
		got := w.cancels(c.filter)
		if rest := w.pending(w.SQ); !slices.Equal(rest, want) || len(got.Requested) > 0 {
			e.Errorf("%+v leaves %q, want %q; in receivers' hands were %d", c.filter, rest, want, len(got.Requested))
		}
	}
	if rest := w.pending(w.CQ); len(rest) != 1 {
		e.Errorf("another queue has %q", rest)
	}
	gone, stays := w.post(w.SQ, "one"), w.post(w.SQ, "two")
	if got := w.cancels(parley.PostFilter{IDs: []parley.ID{gone, parley.NewID()}}); !slices.Equal(got.Removed, []parley.ID{gone}) {
		e.Errorf("removed are %v, want %v", got.Removed, gone)
	}
	for _, c := range []struct {
		queue  string
		filter parley.PostFilter
		err    error
	}{
		{w.SQ, parley.PostFilter{}, parley.ErrInvalidOption},
		{w.SQ, parley.PostFilter{IDs: []parley.ID{gone}}, parley.ErrNotPending},
		{w.CQ, parley.PostFilter{IDs: []parley.ID{stays}}, parley.ErrNotPending},
		{e.Name("unknown"), parley.PostFilter{All: true}, parley.ErrUnknownQueue},
	} {
		_, err := w.B.CancelPosts(e.Ctx, c.queue, c.filter)
		e.Is(err, c.err)
	}
	if rest := w.pending(w.SQ); !slices.Equal(rest, []string{"two"}) {
		e.Errorf("left are %q, want that which no cancel named", rest)
	}
}

// checkCancelMany cancels all posts of a queue while receivers have some.
func checkCancelMany(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		in := make(map[string]parley.ID) // hand
		for _, name := range []string{"plain", "first of a key", "second of a key"} {
			var o []parley.PostOption
			if name != "plain" {
				o = append(o, parley.Key("k"))
			}
			in[name] = w.post(w.SQ, name, o...)
		}
		for range 2 {
			w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold, MaxMessages: 1})
		}
		var list []parley.Posting
		for i := range 60 { // more than a backend may treat at once
			for kind, o := range map[string]parley.PostOption{
				"plain": parley.Unique(fmt.Sprint("plain", i)), "late": parley.After(time.Hour), "key": parley.Key(fmt.Sprint("key", i%7)),
			} {
				body := fmt.Sprint(kind, " ", i)
				list = append(list, parley.Posting{Payload: parley.Payload{Body: []byte(body)}, Options: []parley.PostOption{o}})
			}
		}
		posted, err := w.B.PostBatch(e.Ctx, w.SQ, list)
		e.Must(err)
		got := w.cancels(parley.PostFilter{All: true})
		for _, x := range []struct {
			what string
			got  []parley.ID
			want []parley.ID
		}{{"removed", got.Removed, posted}, {"in hand", got.Requested, slices.Collect(maps.Values(in))}} {
			compare := func(a, b parley.ID) int { return bytes.Compare(a[:], b[:]) }
			slices.SortFunc(x.got, compare)
			slices.SortFunc(x.want, compare)
			if !slices.Equal(x.got, x.want) {
				e.Errorf("%s are %d posts %v, want %d: %v", x.what, len(x.got), x.got, len(x.want), x.want)
			}
		}
		again, err := w.B.Post(e.Ctx, w.SQ, parley.Payload{}, parley.Unique("plain7"))
		if e.Must(err); slices.Contains(posted, again) {
			e.Errorf("the unique value of a cancelled post is not free")
		}
	}
}

func checkCancelWaits(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		other := e.Broker(nil)
		plain, keyed := w.post(w.SQ, "plain"), w.post(w.SQ, "keyed", parley.Key("k"))
		for range 2 {
			w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
		}
		ask := func(b *parley.Broker) error {
			ctx, cancel := context.WithTimeout(e.Ctx, slow.By(10*time.Second))
			defer cancel()
			c, err := b.CancelPosts(ctx, w.SQ, parley.PostFilter{IDs: []parley.ID{plain, keyed}})
			if err == nil && len(c.Requested) != 2 {
				err = fmt.Errorf("asked to stop are the receivers of %v, want those of %v and %v", c.Requested, plain, keyed)
			}
			return err
		}
		e.Must(ask(other))
		if !e.ManyWriters() {
			continue
		}
		// What an open transaction asks for makes no other wait that asks for the same.
		tx := w.begin()
		e.Must(tx.RequestCancel(e.Ctx, w.queueStatus(w.SQ).ID, []parley.ID{plain, keyed}))
		e.Must(ask(other))
		e.Must(tx.Rollback(e.Ctx))
	}
}

// slowHandler waits until it is told to stop, and reports the cause.
func (w *world) slowHandler(started chan<- parley.ID, causes chan<- error, end func(context.Context) error) parley.HandlerFunc {
	return func(ctx context.Context, m *parley.Message) error {
		if !strings.HasPrefix(string(m.Body), "slow") {
			return w.effect(ctx, m)
		}
		if strings.HasSuffix(string(m.Body), "writes") {
			if err := w.effect(ctx, m); err != nil {
				return err
			}
		}
		started <- m.ID
		select {
		case <-ctx.Done():
		case <-time.After(slow.By(10 * time.Second)):
		}
		causes <- context.Cause(ctx)
		return end(ctx)
	}
}

func checkCancelTold(e *env) {
	for _, hold := range e.Holds() {
		w := e.another(func(c *parley.Catalog) {
			for i := range c.Queues {
				c.Queues[i].KeepProcessed = time.Hour
			}
		})
		other := e.Broker(nil)
		started, causes := make(chan parley.ID, 10), make(chan error, 10)
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 2},
			w.slowHandler(started, causes, func(ctx context.Context) error { return errors.Join(errUndo, ctx.Err()) }))
		for _, key := range []string{"", "k"} {
			for _, body := range []string{"slow", "slow, writes"} {
				if body != "slow" && !e.ManyWriters() {
					continue // the writer who cancels waits for the handler's transaction
				}
				var o []parley.PostOption
				if key != "" {
					o = append(o, parley.Key(key))
				}
				id := w.post(w.SQ, body, o...)
				if got := <-started; got != id {
					e.Fatalf("started is %v, want %v", got, id)
				}
				behind := w.post(w.SQ, "behind", o...)
				asked := time.Now()
				c, err := other.CancelPosts(e.Ctx, w.SQ, parley.PostFilter{IDs: []parley.ID{id}})
				e.Must(err)
				if !slices.Equal(c.Requested, []parley.ID{id}) {
					e.Fatalf("asked to stop is the receiver of %v, want that of %v", c.Requested, id)
				}
				e.Is(<-causes, parley.ErrCancelled)
				e.Within(2*time.Second, time.Since(asked), "the handler was told after %v")
				w.once(w.effects(1), []string{"behind"})
				if !e.Soon(10*time.Second, func() bool { return len(w.pending(w.SQ)) == 0 }) {
					e.Fatalf("pending are %q", w.pending(w.SQ))
				}
				if s, err := w.B.PostStatus(e.Ctx, w.SQ, id); !errors.Is(err, parley.ErrNotPending) {
					e.Errorf("a cancelled post is there: %+v, %v", s, err)
				}
				if s, err := w.B.PostStatus(e.Ctx, w.SQ, behind); err != nil || s.State != "processed" {
					e.Errorf("the next post is %+v, %v, want it processed", s, err)
				}
				_, err = other.CancelPosts(e.Ctx, w.SQ, parley.PostFilter{IDs: []parley.ID{id}})
				e.Is(err, parley.ErrNotPending)
			}
		}
		r.Stop()
	}
}

func checkCancelLate(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		started, causes := make(chan parley.ID, 10), make(chan error, 10)
		w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 1}, w.slowHandler(started, causes, func(context.Context) error { return nil }))
		body := "slow, writes"
		if !e.ManyWriters() {
			body = "slow"
		}
		id := w.post(w.SQ, body)
		<-started
		w.cancels(parley.PostFilter{IDs: []parley.ID{id}})
		e.Is(<-causes, parley.ErrCancelled)
		if body != "slow" {
			w.once(w.effects(1), []string{body})
		}
		if !e.Soon(20*time.Second, func() bool { return len(w.pending(w.SQ)) == 0 }) {
			e.Errorf("pending are %q", w.pending(w.SQ))
		}
		dead, err := w.B.Admin().DeadLetters(e.Ctx, w.SQ, parley.Place{}, 10)
		if e.Must(err); len(dead) > 0 {
			e.Errorf("dead letters: %v", dead)
		}
	}
}

func checkCancelTogether(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		var ids []parley.ID
		for _, body := range []string{"a", "b", "c", "d"} {
			ids = append(ids, w.post(w.SQ, body, parley.Key("k")))
		}
		var calls atomic.Int32
		started := make(chan struct{})
		w.workWith(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 1}, parley.GroupFunc(func(ctx context.Context, ms []*parley.Message) error {
			if calls.Add(1) == 1 {
				close(started)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			for _, m := range ms {
				if err := w.effect(ctx, m); err != nil {
					return err
				}
				if m.Attempt > 1 {
					e.Errorf("%s has attempt %d, want the first: a call that was cancelled is no failure", m.Body, m.Attempt)
				}
			}
			return nil
		}))
		<-started
		// The first call may have been given one message or several: the first is among them.
		if c := w.cancels(parley.PostFilter{IDs: []parley.ID{ids[0], ids[2]}}); len(c.Requested) != 2 {
			e.Errorf("asked to stop are the receivers of %v, want those of two posts of a group in hand", c.Requested)
		}
		w.once(w.effects(2), []string{"b", "d"})
	}
}

func checkCancelReturned(e *env) {
	for _, hold := range e.Holds() {
		w := e.another()
		b := e.Broker(nil)
		for _, key := range []string{"", "k"} {
			var o []parley.PostOption
			if key != "" {
				o = append(o, parley.Key(key))
			}
			id := w.post(w.SQ, "given back", o...)
			d := w.Receive(w.SQ, &parley.ReceiveOptions{Hold: hold})
			c, err := b.CancelPosts(e.Ctx, w.SQ, parley.PostFilter{IDs: []parley.ID{id}})
			e.Must(err)
			if len(c.Requested) != 1 {
				e.Fatalf("asked to stop is the receiver of %v, want that of %v", c.Requested, id)
			}
			// The maintenance job leaves it alone as long as it is in hand.
			_, err = w.B.Backend().Maintain(e.Ctx, backend.JobCancels, 100)
			e.Must(err)
			e.Must(d.Rollback(e.Ctx))
			if !e.Soon(30*time.Second, func() bool { return len(w.pending(w.SQ)) == 0 }) {
				e.Fatalf("pending are %q", w.pending(w.SQ))
			}
			w.Nothing(w.SQ, nil)
			// Nor does the request outlast its post.
			if !e.Soon(30*time.Second, func() bool {
				list, err := w.B.Backend().CancelRequests(e.Ctx)
				e.Must(err)
				return !slices.ContainsFunc(list, func(r backend.CancelRequest) bool { return r.ID == id })
			}) {
				e.Errorf("the request is still there")
			}
		}
	}
}

// cancelCount counts what workers have cancelled.
type cancelCount struct {
	parley.NopObserver
	n atomic.Int64
}

func (c *cancelCount) Settled(_ context.Context, e parley.SettleEvent) { c.n.Add(int64(e.Cancelled)) }

func checkCancelLoad(e *env) {
	const n = 1000
	for _, hold := range e.Holds() {
		w := e.WorldOn(e.Broker(&parley.Options{NoMaintenance: true})) // so that workers alone cancel what is in hand
		keys := make([]string, 50)
		for i := range keys {
			keys[i] = fmt.Sprint("k", i%25) // every other post has one
		}
		bodies := numbered("%04d", n)
		ids := make([]parley.ID, n)
		w.Tx(func(tx *parley.Tx) (err error) {
			posts := make([]parley.Posting, n)
			for i, body := range bodies {
				ids[i] = parley.NewID()
				posts[i] = parley.Posting{Payload: parley.Payload{Type: w.Any, Body: []byte(body)}, Options: []parley.PostOption{parley.PostID(ids[i])}}
				if i%2 == 0 {
					posts[i].Options = append(posts[i].Options, parley.Key(keys[i%len(keys)]))
				}
			}
			_, err = tx.PostBatch(w.Ctx, w.SQ, posts)
			return err
		})
		seen := new(cancelCount)
		r := w.work(w.B, &parley.WorkerOptions{Hold: hold, MaxReaders: 8, Observer: seen, Backoff: soonAgain}, func(ctx context.Context, m *parley.Message) error {
			if m.Body[len(m.Body)-1] == '0' && m.Body[len(m.Body)-2] < '5' { // one of twenty takes its time
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(300 * time.Millisecond):
				}
			}
			return w.effect(ctx, m)
		})
		said := w.cancelAll(ids)
		if !e.Soon(60*time.Second, func() bool { return len(w.pending(w.SQ)) == 0 }) {
			e.Fatalf("pending are %q", w.pending(w.SQ))
		}
		r.Stop()
		done := make(map[string]int)
		for _, m := range w.Drain(w.CQ) {
			done[string(m.Body)]++
		}
		counts := make(map[string]int)
		for i, body := range bodies {
			was, times := said[ids[i]], done[body]
			counts[was]++
			if times > 1 || times == 1 && was == "removed" || times == 0 && was == "" {
				e.Errorf("post %s, of which a cancel said %q, was done %d times", body, was, times)
			}
		}
		if got := len(done) + counts["removed"] + int(seen.n.Load()); got != n {
			e.Errorf("%d were done, %d removed and %d cancelled by workers: %d, want %d", len(done), counts["removed"], seen.n.Load(), got, n)
		}
		e.Logf("%d done, %d removed, %d requested, of which workers cancelled %d", len(done), counts["removed"], counts["requested"], seen.n.Load())
	}
}

// cancelAll cancels posts ten at a time, two such calls at once, and returns what was said of each.
func (w *world) cancelAll(ids []parley.ID) (said map[parley.ID]string) {
	var mu sync.Mutex
	said = make(map[parley.ID]string)
	var all sync.WaitGroup
	for from := range 2 {
		all.Go(func() {
			for i := from * 10; i < len(ids) && wait.Sleep(w.Ctx, time.Millisecond) == nil; i += 20 {
				c, err := w.B.CancelPosts(w.Ctx, w.SQ, parley.PostFilter{IDs: ids[i : i+10]})
				if err != nil && !errors.Is(err, parley.ErrNotPending) {
					w.Errorf("cancel: %v", err)
					return
				}
				mu.Lock()
				for _, id := range c.Removed {
					said[id] = "removed"
				}
				for _, id := range c.Requested {
					said[id] = "requested"
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return said
}
