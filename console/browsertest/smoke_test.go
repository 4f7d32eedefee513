package browsertest

import (
	"strings"
	"testing"
)

// TestSmoke is the part of make test, where there is Chromium: a page is kept up to date, and a drop moves a group.
func TestSmoke(t *testing.T) {
	b := store(t, "sqlite")
	l := newLine(t, b, "ann", "bob", "cleo")
	l.take(true)
	site := serve(t, handler(t, b))
	w := open(t, wide)
	w.view(site+"/", []string{"line"})
	w.view(site+"/queue?name=line", []string{"ann", "bob", "cleo"})
	w.until(`document.querySelectorAll(".chip.ready").length === 2`)
	w.moved(func() { w.dragMouse(w.at(w.handle("cleo"), 0.5), w.at(w.row("bob"), 0.2)) })
	if got := strings.Join(l.rest(2), " "); got != "cleo bob" {
		t.Errorf("received are %s", got)
	}
	w.until(`document.querySelectorAll(".chip.ready").length === 0`)
}
