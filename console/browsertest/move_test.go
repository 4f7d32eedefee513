package browsertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/internal/sure"
)

func keysInto(selector, text string) step { return chromedp.SendKeys(chromedp.CSS(selector), text) }

// line is a queue with a worker that handles one message when it is told to.
type line struct {
	t    *testing.T
	b    *parley.Broker
	next chan struct{}
	took chan string
	over chan struct{}
}

// newLine posts messages under keys, and starts a worker that takes them one by one, the first at once.
func newLine(t *testing.T, b *parley.Broker, keys ...string) *line {
	t.Helper()
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "line"}}}); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if _, err := b.Post(ctx, "line", parley.Payload{}, parley.Key(key)); err != nil {
			t.Fatal(err)
		}
	}
	l := &line{t, b, make(chan struct{}), make(chan string, len(keys)), make(chan struct{})}
	worker := sure.Of(b.NewWorker("line", parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
		l.took <- m.Key
		select {
		case <-l.next:
			return nil
		case <-l.over:
			return errors.New("the test is over")
		}
	}), &parley.WorkerOptions{MaxReaders: 1, MaxBatch: 1, Hold: parley.HoldLease}))
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = worker.Run(running) }()
	t.Cleanup(func() { end(); close(l.over); <-ended })
	return l
}

// take returns which message the worker has taken, after it has done the one before.
func (l *line) take(first bool) string {
	l.t.Helper()
	if !first {
		l.next <- struct{}{}
	}
	select {
	case key := <-l.took:
		return key
	case <-time.After(slow.By(20 * time.Second)):
		l.t.Fatal(slow.Expired + "the worker takes nothing")
		return ""
	}
}

// rest has the worker take all others.
func (l *line) rest(n int) (keys []string) {
	l.t.Helper()
	for range n {
		keys = append(keys, l.take(false))
	}
	return keys
}

// order is that of the groups which wait, as the page shows it.
func (w *window) order() []string {
	w.t.Helper()
	return value[[]string](w, `[...document.querySelectorAll("tbody tr")].filter((r) => r.querySelector(".chip.ready")).map((r) => r.querySelector("td.name").innerText.trim())`)
}

// handle is the handle of a group, and row its row.
func (w *window) handle(key string) string { return w.row(key) + " .grip" }

func (w *window) row(key string) string {
	w.t.Helper()
	return "#" + value[string](w, fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((r) => r.querySelector("td.name").innerText.trim() === %s).id`, quoted(key)))
}

// moved waits for the page after a drop.
func (w *window) moved(drop func()) {
	w.t.Helper()
	w.mark()
	drop()
	w.loaded()
	w.says("is moved")
}

// TestMove moves a group by mouse, touch, keyboard and form, to the top and to the middle, while a worker handles
// messages. It is received in the order shown.
func TestMove(t *testing.T) {
	each(t, func(t *testing.T, b *parley.Broker) {
		keys := []string{"ann", "bob", "cleo", "dan", "eve", "fay", "gus", "hal", "ida", "jon"}
		l := newLine(t, b, keys...)
		if got := l.take(true); got != "ann" {
			t.Fatalf("the worker begins with %s", got)
		}
		site := serve(t, handler(t, b))
		w := open(t, look{width: 1280, height: 1300}) // all groups are in sight
		w.run(command(emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true}))
		w.show(site + "/queue?name=line")
		w.until(`document.querySelectorAll(".chip.ready").length === 9`)
		is := func(want string) {
			t.Helper()
			if got := strings.Join(w.order(), " "); got != want {
				t.Fatalf("the page shows %s, want %s", got, want)
			}
		}
		w.moved(func() { w.dragMouse(w.at(w.handle("gus"), 0.5), w.at(w.row("bob"), 0.2)) })
		is("gus bob cleo dan eve fay hal ida jon")
		w.moved(func() { w.dragMouse(w.at(w.handle("ida"), 0.5), w.at(w.row("dan"), 0.2)) }) // to the middle
		is("gus bob cleo ida dan eve fay hal jon")
		if got := l.take(false); got != "gus" {
			t.Errorf("the worker takes %s, want gus", got)
		}
		w.until(`document.querySelectorAll(".chip.ready").length === 8`) // the page follows by itself
		is("bob cleo ida dan eve fay hal jon")
		w.moved(func() { w.dragFinger(w.at(w.handle("jon"), 0.5), w.at(w.row("cleo"), 0.2)) }) // between groups of one level
		is("bob jon cleo ida dan eve fay hal")
		w.run(chromedp.Focus(chromedp.CSS(w.handle("fay"))))
		w.press(kb.ArrowUp)
		w.press(kb.ArrowUp)
		w.until(fmt.Sprintf(`document.getElementById("moving").textContent.includes("dan") && document.querySelector(%s).hasAttribute("data-drop")`, quoted(w.row("dan"))))
		w.moved(func() { w.press(kb.Enter) })
		is("bob jon cleo ida fay dan eve hal")
		w.follow(w.row("hal") + ` a[href*="do=move"]`)
		value[string](w, `{ const s = document.querySelector("select[name=before]"); s.value = [...s.options].find((o) => o.text.endsWith("jon")).value }`)
		w.follow("form.act button")
		w.says("is moved")
		is("bob hal jon cleo ida fay dan eve")
		want := w.order()
		if got := l.rest(len(want)); !slices.Equal(got, want) {
			t.Errorf("received are %v, shown were %v", got, want)
		}
	})
}

// TestNoMove: a drop that changes nothing, a drop that is given up, and a drop overtaken by what happened meanwhile.
func TestNoMove(t *testing.T) {
	b := store(t, "sqlite")
	l := newLine(t, b, "ann", "bob", "cleo", "dan")
	l.take(true)
	site := serve(t, handler(t, b))
	w := open(t, wide)
	w.show(site + "/queue?name=line")
	w.until(`document.querySelectorAll(".chip.ready").length === 3`)
	w.mark()
	w.dragMouse(w.at(w.handle("bob"), 0.5), w.at(w.row("bob"), 0.9))
	w.run(chromedp.Focus(chromedp.CSS(w.handle("dan"))))
	w.press(kb.ArrowUp)
	w.until(`document.querySelector("[data-drop]")`)
	w.press(kb.Escape)
	w.until(`!document.querySelector("[data-drop]")`)
	w.press(kb.Enter)
	if got := strings.Join(w.order(), " "); got != "bob cleo dan" || value[string](w, "document.documentElement.dataset.old") != "1" {
		t.Fatalf("the page shows %s, or another page has come", got)
	}
	// The page shows bob, which the worker takes before it is dropped upon.
	w.press("p")
	w.until(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	l.take(false)
	l.take(false)
	w.allow("409 (Conflict)")
	w.dragMouse(w.at(w.handle("dan"), 0.5), w.at(w.row("bob"), 0.2))
	w.loaded()
	w.says("is no longer among the first")
	if got := l.rest(1); got[0] != "dan" {
		t.Errorf("received is %v", got)
	}
}

// TestTwoPages: what one person does, another one sees, whose own place is kept.
func TestTwoPages(t *testing.T) {
	each(t, func(t *testing.T, b *parley.Broker) {
		l := newLine(t, b, "ann", "bob", "cleo", "dan")
		l.take(true)
		site := serve(t, handler(t, b))
		one, two := open(t, wide), open(t, wide)
		for _, w := range []*window{one, two} {
			w.show(site + "/queue?name=line")
			w.until(`document.querySelectorAll(".chip.ready").length === 3`)
		}
		two.press("j")
		two.press("j") // bob, behind ann
		two.until(`document.querySelector("[data-at] td.name")?.innerText.trim() === "bob"`)
		one.moved(func() { one.dragMouse(one.at(one.handle("dan"), 0.5), one.at(one.row("bob"), 0.2)) })
		two.until(`[...document.querySelectorAll("tbody tr")].map((r) => r.querySelector("td.name").innerText.trim()).join(" ") === "dan ann bob cleo" ||
			[...document.querySelectorAll("tbody tr")].map((r) => r.querySelector("td.name").innerText.trim()).join(" ") === "ann dan bob cleo"`)
		two.until(`document.querySelector("[data-at] td.name")?.innerText.trim() === "bob" && document.activeElement.closest("tr")?.hasAttribute("data-at")`)
		want := one.order()
		if got := l.rest(3); !slices.Equal(got, want) {
			t.Errorf("received are %v, shown were %v", got, want)
		}
		two.until(`document.querySelectorAll(".chip.ready").length === 0`)
	})
}
