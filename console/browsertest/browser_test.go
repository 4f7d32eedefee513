// Package browsertest tests the console in a real browser, Debian's Chromium, on SQLite and PostgreSQL. It is a separate
// module, so that programs with the console do not need a driver of browsers. `make verify-console` runs it; with
// PICTURES=1 it also makes the pictures of docs/console.md.
//
// testdata/axe.min.js is axe-core 4.14.1, as the package of that name in the registry of npm has it (MPL-2.0).
package browsertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/parleymq/parley/internal/slow"
)

//go:embed testdata/axe.min.js
var axe string

// chromium is the browser that all tests share. Each page has its own window and cookies.
var chromium = sync.OnceValues(func() (context.Context, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path), chromedp.NoSandbox)...) // as root there is none, and it shows nothing but our own pages
		ctx, _ = chromedp.NewContext(ctx)
		stop = func() { _ = chromedp.Cancel(ctx); cancel() }
		return ctx, chromedp.Do(ctx)
	}
	return nil, nil
})

var stop = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// look is how a window looks.
type look struct {
	width, height int64
	dark          bool
}

var (
	wide   = look{width: 1280, height: 900}
	narrow = look{width: 390, height: 844}
)

func (l look) String() string {
	theme := "light"
	if l.dark {
		theme = "dark"
	}
	return fmt.Sprintf("%s-%d", theme, l.width)
}

func (l look) inDark() look { l.dark = true; return l }

// window is one of the browser.
type window struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // that the browser has about the pages
	allowed    []string // parts of those that are part of the test
}

// open opens a window. The test fails if the browser has anything to complain about in it.
func open(t *testing.T, l look) *window {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	if browser == nil {
		t.Skip("there is no Chromium")
	}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	w := &window{t: t}
	if err := chromedp.Listen(ctx, w.listen); err != nil {
		t.Fatal(err)
	}
	var timeout context.CancelFunc
	w.ctx, timeout = context.WithTimeout(ctx, slow.By(2*time.Minute))
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.complaints {
			t.Errorf("the browser complains: %s", c)
		}
		timeout()
		cancel()
	})
	theme := "light"
	if l.dark {
		theme = "dark"
	}
	w.run(command(log.Enable, cdp.Empty{}),
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}))
	return w
}

// step is something that a window does.
type step = chromedp.Action[chromedp.Void]

// command is a command of the browser's protocol.
func command[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// listen keeps what the browser writes into its console: errors of scripts, reports of the policy, failed requests.
func (w *window) listen(e any) {
	text := ""
	switch e := e.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			text = fmt.Sprint(e.Type)
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
		}
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("%s %s", e.ExceptionDetails.Text, e.ExceptionDetails.URL)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			text = fmt.Sprintf("%s %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		text = "a dialog: " + e.Message
		go func() {
			_ = chromedp.Do(w.ctx, command(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}))
		}()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, part := range w.allowed {
		if strings.Contains(text, part) {
			return
		}
	}
	if text != "" {
		w.complaints = append(w.complaints, text)
	}
}

// allow lets the browser complain about something that the test brings about.
func (w *window) allow(part string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allowed = append(w.allowed, part)
}

func (w *window) run(steps ...step) {
	w.t.Helper()
	if err := chromedp.Do(w.ctx, steps...); err != nil {
		w.t.Fatal(err)
	}
}

// show opens a page, and waits until it is there with its scripts.
func (w *window) show(url string) {
	w.t.Helper()
	w.run(chromedp.Navigate(url))
	w.until("document.documentElement.dataset.scripts !== undefined && !document.querySelector('[data-reading]')")
}

// value is what an expression in the page says.
func value[T any](w *window, expression string) T {
	w.t.Helper()
	v, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		w.t.Fatalf("%s: %v", expression[:min(len(expression), 200)], err)
	}
	return v
}

// until waits for a condition in the page.
func (w *window) until(condition string) {
	w.t.Helper()
	slow.Eventually(w.t, 20*time.Second, condition, func() (any, bool) {
		is, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool]("!!("+condition+")"))
		if err != nil {
			return err, false // another page is coming
		}
		return func() any {
			text, _ := chromedp.Run(w.ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.querySelector('main')?.innerText"))
			return text
		}, is
	})
}

// follow clicks, and waits for the page to which that leads.
func (w *window) follow(selector string) {
	w.t.Helper()
	w.mark()
	w.run(chromedp.Click(chromedp.CSS(selector)))
	w.loaded()
}

// mark marks the page as old.
func (w *window) mark() {
	w.t.Helper()
	value[int](w, "document.documentElement.dataset.old = 1")
}

// loaded waits until another page has come in place of the page that is marked as old.
func (w *window) loaded() {
	w.t.Helper()
	w.until("document.documentElement.dataset.old === undefined && document.documentElement.dataset.scripts !== undefined")
}

// press presses a key.
func (w *window) press(keys string) {
	w.t.Helper()
	w.run(chromedp.KeyEvent(keys))
}

// point is a place in the window.
type point struct{ X, Y float64 }

// at is the middle of an element, or a place at a share of its height.
func (w *window) at(selector string, share float64) point {
	w.t.Helper()
	return value[point](w, fmt.Sprintf(`(() => {
		const e = document.querySelector(%s);
		const box = e.getBoundingClientRect();
		return { X: box.left + box.width / 2, Y: box.top + box.height * %g };
	})()`, quoted(selector), share))
}

func quoted(text string) string {
	j, _ := json.Marshal(text)
	return string(j)
}

// dragMouse drags from one place to another with the mouse.
func (w *window) dragMouse(from, to point) {
	w.t.Helper()
	event := func(kind input.DispatchMouseEventType, p point) step {
		return command(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: p.X, Y: p.Y, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1})
	}
	w.run(event(input.DispatchMouseEventTypeMousePressed, from))
	for _, p := range between(from, to) {
		w.run(event(input.DispatchMouseEventTypeMouseMoved, p))
	}
	w.run(event(input.DispatchMouseEventTypeMouseReleased, to))
}

// dragFinger drags from one place to another on a touch screen.
func (w *window) dragFinger(from, to point) {
	w.t.Helper()
	event := func(kind input.DispatchTouchEventType, at ...point) step {
		points := make([]*input.TouchPoint, len(at))
		for i, p := range at {
			points[i] = &input.TouchPoint{X: p.X, Y: p.Y}
		}
		return command(input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: kind, TouchPoints: points})
	}
	w.run(event(input.DispatchTouchEventTypeTouchStart, from))
	for _, p := range between(from, to) {
		w.run(event(input.DispatchTouchEventTypeTouchMove, p))
	}
	w.run(event(input.DispatchTouchEventTypeTouchEnd))
}

// between are places on the way.
func between(from, to point) (way []point) {
	const steps = 8
	for i := 1; i <= steps; i++ {
		share := float64(i) / steps
		way = append(way, point{from.X + (to.X-from.X)*share, from.Y + (to.Y-from.Y)*share})
	}
	return way
}

// violation is one of axe's.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// check has axe look at the page, with all of its rules.
func (w *window) check() {
	w.t.Helper()
	value[int](w, axe+"; 0")
	found := value[[]violation](w, `axe.run(document, { resultTypes: ["violations"], preload: false }).then((r) => r.violations)`)
	for _, v := range found {
		for i, n := range v.Nodes {
			if i < 3 {
				w.t.Errorf("%s: axe: %s (%s): %s\n%s\n%s", value[string](w, "location.href"), v.ID, v.Impact, v.Help, n.HTML, n.FailureSummary)
			}
		}
	}
}

// picture writes a picture of the window, or of the whole page.
func (w *window) picture(file string, whole bool) {
	w.t.Helper()
	shot := chromedp.CaptureScreenshot()
	if whole {
		shot = chromedp.FullScreenshot(100)
	}
	png, err := chromedp.Run(w.ctx, shot)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		w.t.Fatal(err)
	}
}
