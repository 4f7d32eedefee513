package browsertest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/examples/priority/sample"
	"github.com/parleymq/parley/internal/slow"
)

// replies collects what the demo prints.
type replies struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *replies) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *replies) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Split(strings.TrimSpace(r.text.String()), "\n")
}

var _ io.Writer = (*replies)(nil)

// TestDemo: beside `parley demo priority`, whose back end is slowed, request 3 is dragged to the top, and the reply to
// request 3 comes next. The console is another program's, with its own connection.
func TestDemo(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			dsn := address(t, engine)
			demo := connect(t, dsn, true)
			var out replies
			taken, goOn, over := make(chan int), make(chan struct{}), make(chan error, 1)
			go func() {
				over <- sample.Run(t.Context(), demo, sample.Options{Requests: 12, Work: time.Millisecond, Taken: func(n int, _ bool) {
					select {
					case taken <- n:
					case <-t.Context().Done():
						return
					}
					select {
					case <-goOn:
					case <-t.Context().Done():
					}
				}}, &out)
			}()
			next := func() int {
				t.Helper()
				select {
				case n := <-taken:
					return n
				case err := <-over:
					t.Fatalf("the demo has ended: %v", err)
				case <-time.After(slow.By(20 * time.Second)):
					t.Fatal(slow.Expired + "the back end takes no request")
				}
				return -1
			}
			if n := next(); n != 0 {
				t.Fatalf("the back end begins with request %d", n)
			}
			goOn <- struct{}{}
			if n := next(); n != 10 { // it has the demo's own promotion; all others wait now
				t.Fatalf("the back end goes on with request %d", n)
			}
			site := serve(t, bodies(t, connect(t, dsn, false), func(_, _ string, body []byte) string { return string(body) }))
			w := open(t, look{width: 1280, height: 1300})
			w.show(site + "/queue?name=BackEndQueue")
			w.until(`document.querySelectorAll(".grip").length >= 10`)
			third := w.request(t, demo, 3)
			w.moved(func() { w.dragMouse(w.at("#g"+third+" .grip", 0.5), w.at("tbody tr:has(.grip)", 0.2)) })
			goOn <- struct{}{}
			if n := next(); n != 3 {
				t.Errorf("the back end takes request %d, want 3", n)
			}
			goOn <- struct{}{}
			go func() {
				for range taken {
					goOn <- struct{}{}
				}
			}()
			if err := <-over; err != nil {
				t.Fatal(err)
			}
			close(taken)
			want := []string{"response 0", "response 10", "response 3", "response 1", "response 2", "response 4"}
			if got := out.lines(); len(got) != 12 || !slices.Equal(got[:6], want) {
				t.Errorf("the replies are %v", got)
			}
		})
	}
}

// request finds the group of a request by what its page shows, as a person would.
func (w *window) request(t *testing.T, b *parley.Broker, n int) string {
	t.Helper()
	for _, g := range must(b.Admin().GroupsIn(t.Context(), "BackEndQueue", "ready", parley.Place{}, 100)) {
		page := fmt.Sprintf("group?queue=BackEndQueue&id=%s&peek=1", g.Group)
		if value[bool](w, fmt.Sprintf(`fetch(%s).then((r) => r.text()).then((text) => text.includes(%s))`, quoted(page), quoted(fmt.Sprintf("&lt;request&gt;%d&lt;", n)))) {
			return g.Group.String()
		}
	}
	t.Fatalf("no group has request %d", n)
	return ""
}
