package sqlstore

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
)

// TestTexts: whatever is wrong with the statements of an engine is found when they are
// compiled, and those of the folder sql are all used.
func TestTexts(t *testing.T) {
	known := reflect.TypeFor[Statements]()
	for name := range portableTexts() {
		if _, ok := known.FieldByName(name); !ok {
			t.Errorf("no one uses the statement %s", name)
		}
	}
	placeholder := func(n int) string { return fmt.Sprint("$", n) }
	two := map[string][]*strings.Replacer{"n": {strings.NewReplacer(":n", "1"), strings.NewReplacer(":n", "2")}}
	for _, x := range []struct {
		texts Texts
		own   any
		want  string
	}{
		{Texts{"Nothing": {sql: "SELECT 1"}}, nil, "[Nothing] are not used"},
		{Texts{"KeyRead": {sql: "SELECT {nothing}"}}, nil, "unknown token"},
		{Texts{"KeyRead": {sql: "SELECT 'x"}}, nil, "unclosed quote"},
		{nil, &struct{ Missing *Stmt }{}, "there is no Missing"},
		{Texts{"Many": {sql: "SELECT 1"}}, &struct{ Many [2]*Stmt }{}, "want one with 2 values"},
		{Texts{"Many": {sql: "SELECT 1", axes: []string{"n"}}}, &struct{ Many [3]*Stmt }{}, "want one with 3 values"},
		{Texts{"One": {sql: "SELECT 1", axes: []string{"n"}}}, &struct{ One *Stmt }{}, "axes [n] are left"},
	} {
		d := &Dialect{Placeholder: placeholder, Texts: x.texts, Own: x.own, Axes: two}
		if err := d.compile(new(Statements)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, want an error with %q", x.texts, err, x.want)
		}
	}
	var own struct{ Many [2]*Stmt }
	d := &Dialect{Placeholder: placeholder, Own: &own, Axes: two, Lock: "FOR UPDATE", Texts: Texts{
		"Many": {sql: "SELECT :n FROM x {read skip} WHERE a = ? AND b = f(?!) AND c = ? {Part}", axes: []string{"n"}},
		"Part": {sql: "{limit 3}"},
	}}
	var locks, none Statements
	if err := d.compile(&locks); err != nil {
		t.Fatal(err)
	}
	if err := (&Dialect{Placeholder: placeholder}).compile(&none); err != nil {
		t.Fatal(err)
	}
	indexes := &Dialect{Placeholder: placeholder, Prefix: "my_", Texts: Texts{
		"KeyRead":   {sql: "SELECT 1 FROM parley_a x FORCE INDEX (one), parley_a WITH (INDEX(two), ROWLOCK), parley_b"},
		"KeyInsert": {sql: "UPDATE parley_b INDEXED BY parley_b_three SET x = 1"},
	}}
	if err := indexes.compile(new(Statements)); err != nil {
		t.Fatal(err)
	}
	if want := map[object]bool{{"my_a", "one"}: true, {"my_a", "two"}: true, {"my_b", "my_b_three"}: true}; !maps.Equal(indexes.named, want) {
		t.Errorf("the statements name the indexes %v, want %v", indexes.named, want)
	}
	for want, q := range map[string]*Stmt{
		"SELECT 1 FROM x WHERE a = $1 AND b = f($1) AND c = $2 LIMIT 3":                          own.Many[0],
		"SELECT 2 FROM x WHERE a = $1 AND b = f($1) AND c = $2 LIMIT 3":                          own.Many[1],
		"SELECT 1 FROM task WHERE task_id = $1\nFOR UPDATE SKIP LOCKED":                          locks.TaskTry,
		"SELECT 1 FROM stream WHERE stream_id = $1\nFOR UPDATE":                                  locks.GuardLock,
		"INSERT INTO key (queue_id, name, stream_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING": none.KeyInsert,
		"": none.TaskTry,
	} {
		if q.Text != want {
			t.Errorf("got %q, want %q", q.Text, want)
		}
	}
}
