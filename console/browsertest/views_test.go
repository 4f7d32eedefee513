package browsertest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/consoletest"
)

// TestViews loads each view with both themes and on narrow screens. Axe finds nothing, nothing is cut off, and the
// browser reports no error.
func TestViews(t *testing.T) {
	each(t, func(t *testing.T, b *parley.Broker) {
		f := consoletest.Fill(t, b, consoletest.Plain)
		site := serve(t, handler(t, b))
		looks := []look{wide, wide.inDark(), narrow, narrow.inDark()}
		if strings.HasSuffix(t.Name(), "postgres") {
			looks = []look{wide, narrow.inDark()}
		}
		pages := consoletest.Pages(f, consoletest.Plain)
		for _, verb := range []string{"promote", "move", "discard"} {
			pages["/act?"+url.Values{"do": {verb}, "queue": {"mail"}, "id": {f.Keyed.String()}}.Encode()] = []string{"customer-7"}
		}
		for _, l := range looks {
			t.Run(l.String(), func(t *testing.T) {
				w := open(t, l)
				for _, path := range slices.Sorted(maps.Keys(pages)) {
					w.view(site+path, pages[path])
				}
			})
		}
	})
}

// TestEmptyViews: what an empty store shows passes the same.
func TestEmptyViews(t *testing.T) {
	site := serve(t, handler(t, store(t, "sqlite")))
	w := open(t, narrow)
	for _, path := range slices.Sorted(maps.Keys(consoletest.Empty)) {
		w.view(site+path, []string{consoletest.Empty[path]})
	}
	w.allow("404 (Not Found)")
	w.view(site+"/nothing", []string{"there is no such page"})
}

// TestHelp: the list of keys passes the same, and takes the focus and gives it back.
func TestHelp(t *testing.T) {
	site := serve(t, handler(t, store(t, "sqlite")))
	w := open(t, wide)
	w.show(site + "/")
	w.press("?")
	w.until(`document.getElementById("help").open`)
	w.check()
	w.press("\x1b")
	w.until(`!document.getElementById("help").open`)
}

// TestToken: who has the token may act, in the one browser in which it was entered.
func TestToken(t *testing.T) {
	b := store(t, "sqlite")
	consoletest.Fill(t, b, consoletest.Plain)
	site := serve(t, must(console.New(b, &console.Options{Write: true, Token: "secret"})))
	first, second := open(t, wide), open(t, wide)
	for _, w := range []*window{first, second} {
		w.show(site + "/queue?name=legacy")
		w.follow(`a[href="enter"]`)
		w.view(site+"/enter", []string{"Enter the token"})
		w.run(keysInto(`input[name="token"]`, "secret"))
		w.mark()
		if w == second {
			w.allow("403 (Forbidden)")
		}
		w.press("\r")
		w.loaded()
	}
	second.says("was entered before")
	first.show(site + "/queue?name=legacy")
	first.follow(`a[href*="do=enable"]`)
	first.follow(`form.act button`)
	first.says("legacy is enabled")
	first.until(`location.search === "?name=legacy"`)
	second.allow("401 (Unauthorized)")
	second.show(site + "/act?do=disable&queue=legacy")
	second.says("enter the token first")
}

// TestReadOnly: without Write no page has a link or a handle that acts, and a form that is sent anyway is refused.
func TestReadOnly(t *testing.T) {
	b := store(t, "sqlite")
	f := consoletest.Fill(t, b, consoletest.Plain)
	site := serve(t, must(console.New(b, nil)))
	w := open(t, wide)
	for _, path := range slices.Sorted(maps.Keys(consoletest.Pages(f, consoletest.Plain))) {
		w.show(site + path)
		if n := value[int](w, `document.querySelectorAll('a[href*="act?"], form[action="act"], .grip').length`); n != 0 {
			t.Errorf("%s has %d ways to act", path, n)
		}
	}
	w.allow("403 (Forbidden)")
	status := value[int](w, fmt.Sprintf(`fetch("act", { method: "POST", body: new URLSearchParams({ do: "demote", id: %q }) }).then((r) => r.status)`, f.Keyed))
	if status != http.StatusForbidden {
		t.Errorf("the form was answered with %d", status)
	}
}

// TestHostileTexts: whatever programs write, no script of theirs runs and nothing is loaded. A dialog, an error or a
// report of the policy would fail the test.
func TestHostileTexts(t *testing.T) {
	for i, text := range consoletest.Hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := store(t, "sqlite")
			say := func(what string) string { return what + strings.ReplaceAll(text, "\x00", "") }
			f := consoletest.Fill(t, b, say)
			site := serve(t, must(console.New(b, &console.Options{Redact: func(_, _ string, body []byte) string { return string(body) }})))
			w := open(t, narrow)
			for _, path := range slices.Sorted(maps.Keys(consoletest.Pages(f, say))) {
				w.show(site + path)
				w.fits(path)
				if n := value[int](w, `document.querySelectorAll("script:not([src*='static/console.js']), img, iframe, object, embed, base, style").length`); n != 0 {
					t.Errorf("%s has %d elements that no template makes", path, n)
				}
			}
		})
	}
}

// view opens a page and looks at it: what it says, what axe says, and whether anything is cut off.
func (w *window) view(link string, texts []string) {
	w.t.Helper()
	w.show(link)
	for _, text := range texts {
		w.says(text)
	}
	w.fits(link)
	w.check()
	if folder := os.Getenv("PICTURES_OF_ALL"); folder != "" {
		u := must(url.Parse(link))
		name := strings.NewReplacer("/", "_", "&", "_", "=", "_", "?", "_", "#", "_", "+", "_").Replace(w.t.Name() + "_" + u.Path[1:] + "_" + u.RawQuery)
		w.picture(filepath.Join(folder, name[:min(len(name), 150)]+".png"), true)
	}
}

// says fails if the page does not have a text.
func (w *window) says(text string) {
	w.t.Helper()
	if !value[bool](w, fmt.Sprintf(`document.querySelector("main").outerHTML.includes(%s) || document.querySelector("main").textContent.includes(%s)`, quoted(text), quoted(text))) {
		w.t.Errorf("%s does not say %q:\n%s", value[string](w, "location.href"), text, value[string](w, `document.querySelector("main").innerText`))
	}
}

// fits fails if the page is wider than the window, or an element sticks out of it.
func (w *window) fits(link string) {
	w.t.Helper()
	if wider := value[int](w, `document.documentElement.scrollWidth - innerWidth`); wider > 0 {
		w.t.Errorf("%s is %d points wider than its window (%s)", link, wider, w.t.Name())
	}
}
