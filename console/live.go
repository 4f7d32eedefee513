package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// hub keeps open pages up to date. One loop reads for all of them, and each view once, however many pages show it.
// It ends with the last page.
type hub struct {
	mu      sync.Mutex
	topics  map[string]*topic // by the links of the pages
	running bool
}

// topic is a view that pages show.
type topic struct {
	v     *view
	q     url.Values
	pages map[chan event]bool
}

// event is what pages are told: their content, or why there is none.
type event struct {
	part *part
	err  *trouble
}

// mostStreams is how many pages can be open. Those beyond it ask from time to time instead.
const mostStreams = 1000

// subscribe adds a page; leave removes it. It returns nil if there are too many.
func (h *Handler) subscribe(v *view, q url.Values) (events chan event, leave func()) {
	key := v.Name + query(q, v.params)
	h.hub.mu.Lock()
	defer h.hub.mu.Unlock()
	n := 0
	for _, t := range h.hub.topics {
		n += len(t.pages)
	}
	if n >= mostStreams {
		return nil, nil
	}
	if h.hub.topics == nil {
		h.hub.topics = make(map[string]*topic)
	}
	t := h.hub.topics[key]
	if t == nil {
		t = &topic{v, q, make(map[chan event]bool)}
		h.hub.topics[key] = t
	}
	events = make(chan event, 1)
	t.pages[events] = true
	if !h.hub.running {
		h.hub.running = h.b.Go(h.refresh)
	}
	return events, func() {
		h.hub.mu.Lock()
		defer h.hub.mu.Unlock()
		if delete(t.pages, events); len(t.pages) == 0 && h.hub.topics[key] == t {
			delete(h.hub.topics, key)
		}
	}
}

// share is how many times as long as its reads the loop rests. So all open pages together take at most a
// fiftieth of one connection's time; longest is how long it rests at most.
const (
	share   = 49
	longest = 30 * time.Second
)

// refresh reads what open pages show, again and again until there are none.
func (h *Handler) refresh(ctx context.Context) {
	for {
		began := time.Now()
		for _, t := range h.open() {
			e := event{}
			p, err := h.look(ctx, t.v, t.q, h.opt.Interval/2)
			if e.part = p; err != nil {
				e.err = explained(err)
			}
			h.tell(t, e)
		}
		rest := max(h.opt.Interval, min(share*time.Since(began), longest))
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
		if h.over(ctx) {
			return
		}
	}
}

// over ends the loop if no page is open.
func (h *Handler) over(ctx context.Context) bool {
	h.hub.mu.Lock()
	defer h.hub.mu.Unlock()
	if len(h.hub.topics) > 0 && ctx.Err() == nil {
		return false
	}
	h.hub.running = false
	return true
}

func (h *Handler) open() (list []*topic) {
	h.hub.mu.Lock()
	defer h.hub.mu.Unlock()
	for _, t := range h.hub.topics {
		list = append(list, t)
	}
	return list
}

// tell gives pages an event. A page that has not taken the one before gets the new one alone.
func (h *Handler) tell(t *topic, e event) {
	h.hub.mu.Lock()
	defer h.hub.mu.Unlock()
	for page := range t.pages {
		select {
		case <-page:
		default:
		}
		page <- e
	}
}

// alive is how often a quiet stream says that it is there, so that proxies do not end it.
const alive = 15 * time.Second

// stream sends a page its content whenever that has changed.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	v, q, ok := h.streamed(w, r)
	if !ok {
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	events, leave := h.subscribe(v, q)
	if events == nil {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would collect events
	out := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(alive)) // instead of that of the program's server for a whole answer
		_, err := w.Write(text)
		return err == nil && out.Flush() == nil
	}
	seen := q.Get("since")
	quiet := time.NewTicker(alive)
	defer quiet.Stop()
	for ok := send([]byte("retry: 3000\n\n")); ok; {
		text := []byte(": quiet\n\n")
		select {
		case e := <-events:
			switch {
			case e.err != nil:
				text = eventText("trouble", []byte(e.err.Text+" "+e.err.Hint))
				seen = ""
			case e.part.version != seen:
				text, seen = eventText("main", e.part.html), e.part.version
			default:
				continue
			}
		case <-quiet.C:
		case <-r.Context().Done():
			return
		case <-h.b.Context().Done():
			return
		}
		a, target := v.action(q)
		if err := h.may(r, a, target); err != nil {
			send(eventText("refused", []byte(err.Error())))
			return
		}
		ok = send(text)
	}
}

// eventText is an event as a stream has it.
func eventText(name string, data []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", name)
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n")) // it would end a line of the stream, too
	for line := range bytes.Lines(data) {
		b.WriteString("data: ")
		b.Write(bytes.TrimSuffix(line, []byte("\n")))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
