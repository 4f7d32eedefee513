package console_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/consoletest"
)

func TestMetrics(t *testing.T) {
	b := open(t, "sqlite")
	consoletest.Fill(t, b, consoletest.Plain)
	const odd = "a\"b\\c\nd"
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: odd}}}); err != nil {
		t.Fatal(err)
	}
	s := serve(t, b, nil)
	answer, text := s.get("/metrics")
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("the type is %q", kind)
	}
	for _, want := range []string{`parley_depth{queue="mail"} 1`, `parley_parked_groups{queue="mail"} 1`, `parley_deferred_groups{queue="mail"} 1`, `parley_delayed{queue="mail"} 1`,
		`parley_dead_letters{queue="mail"} 1`, `parley_leased_groups{queue="orders"} 1`, `parley_disabled{queue="legacy"} 1`, `parley_readers{queue="mail"} 0`,
		`parley_depth{queue="a\"b\\c\nd"} 0`, "# TYPE parley_oldest_seconds gauge"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s:\n%s", want, text)
		}
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) \S+ .+|[a-z_]+\{queue="([^"\\\n]|\\["\\n])*"\} [-+.e0-9]+)$`)
	for l := range strings.Lines(text) {
		if !line.MatchString(strings.TrimSuffix(l, "\n")) {
			t.Errorf("not a line of the format: %q", l)
		}
	}
}
