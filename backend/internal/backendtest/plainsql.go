package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend"
)

// PlainPosts posts by SQL and by the API and compares what arrives. post does what clients without
// Parley do. It returns the new post's id, or "" if they cannot know it. The function state returns
// the code of an error. unknown and disabled are the codes for a queue that does not exist, or is
// off.
func PlainPosts(f *Fixture, post func(queue string, typ sql.NullString, body []byte, key sql.NullString) (id string, err error),
	state func(error) string, unknown, disabled string) {
	f.Helper()
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }
	f.Post(backend.Posting{Body: []byte("api")})
	f.Post(backend.Posting{Key: "k", Body: []byte("api k1")})
	for _, x := range []struct{ typ, body, key string }{
		{"m", "sql 0", ""},
		{"m", "sql 1", ""},
		{"m", "sql 2", ""},
		{"m", "sql k2", "k"},
		{"m", "other case", "K"},
		{"m", "other space", "k "},
		{"", "", "new"},
		{"m", "sql l1", "l"},
	} {
		var body []byte
		if x.body != "" {
			body = []byte(x.body)
		}
		id, err := post("qp", text(x.typ), body, text(x.key))
		f.OK(err)
		if id == "" {
			continue
		}
		parsed, err := backend.ParseID(id)
		if err != nil || parsed[6]>>4 != 7 || parsed[8]>>6 != 2 {
			f.Errorf("id %s is no UUID of version 7, %v", id, err)
		}
		if s, err := f.Backend.PostStatus(f.Ctx, f.QP, parsed); err != nil || s.State != "pending" || s.Key != x.key {
			f.Errorf("status of %+v: %+v, %v", x, s, err)
		}
	}
	f.Post(backend.Posting{Key: "k", Body: []byte("api k3")})
	f.Post(backend.Posting{Key: "l", Body: []byte("api l2")})

	r := f.Request(f.QP)
	r.MaxGroups = 10
	var plain []string
	keyed := map[string]string{}
	for c := f.Claim(r); len(c.Holds) > 0; c = f.Claim(r) {
		for _, h := range c.Holds {
			m := h.Messages[0]
			if m.Key == "" {
				plain = append(plain, string(m.Body))
			} else {
				keyed[m.Key] = fmt.Sprint(m.Type, " ", m.Priority, " ", m.Handle.IsZero(), " ", Bodies(h.Messages))
			}
			f.Ack(h)
		}
	}
	f.Equal("posts without key", plain, []string{"api", "sql 0", "sql 1", "sql 2"})
	f.Equal("posts with keys", keyed, map[string]string{
		"k":   "m 5 true [api k1 sql k2 api k3]",
		"K":   "m 5 true [other case]",
		"k ":  "m 5 true [other space]",
		"new": "DEFAULT 5 true []",
		"l":   "m 5 true [sql l1 api l2]",
	})

	for _, queue := range []string{"nowhere", "QP"} {
		_, err := post(queue, text("m"), nil, text(""))
		f.Equal("a post to "+queue, state(err), unknown)
	}
	plainTypes(f, func(typ, body string) error {
		_, err := post("qp", text(typ), []byte(body), text(""))
		return err
	})
	f.Define(&backend.Catalog{Queues: []backend.Queue{{Name: "qp", Disabled: true}}})
	_, err := post("qp", text("m"), nil, text(""))
	f.Equal("a post to a disabled queue", state(err), disabled)
}

// plainTypes posts what the API would refuse, and what it would take.
func plainTypes(f *Fixture, post func(typ, body string) error) {
	f.Helper()
	f.Define(&backend.Catalog{Types: []backend.MessageType{
		{Name: "plain json", Validation: backend.ValidationJSON}, {Name: "plain empty", Validation: backend.ValidationEmpty},
		{Name: "plain xml", Validation: backend.ValidationXML}, {Name: "plain func", Validation: backend.ValidationFunc, Validator: "v"},
	}})
	for _, x := range []struct{ typ, body string }{
		{"undefined", "x"}, {"M", "x"}, {"m ", "x"}, {backend.TypeEndDialog, ""}, {backend.TypeError, "x"}, {backend.TypeDialogTimer, ""},
		{backend.TypeEndOfStream, ""}, {"plain json", "{"}, {"plain json", "1, 2"}, {"plain json", "x"}, {"plain empty", "x"},
		{"plain xml", "<a"}, {"plain xml", "<a/>"}, {"plain func", ""}, {"plain func", "x"},
	} {
		if err := post(x.typ, x.body); err == nil {
			f.Errorf("a post of type %q with body %q is taken", x.typ, x.body)
		}
	}
	for _, x := range []struct{ typ, body string }{
		{"DEFAULT", "x"}, {"", "x"}, {"plain json", `{"a": [1, "ж"]}`}, {"plain json", "7"}, {"plain json", ""}, {"plain empty", ""}, {"plain xml", ""},
	} {
		if err := post(x.typ, x.body); err != nil {
			f.Errorf("a post of type %q with body %q: %v", x.typ, x.body, err)
		}
	}
}

// Uninstalls removes one of two stores in one database while the other works, and then the other.
// left counts what there is of them.
func Uninstalls(t *testing.T, one, two backend.Backend, left func() int) {
	t.Helper()
	f := New(t, two)
	f.Post(backend.Posting{Body: []byte("x")})
	f.OK(one.Uninstall(context.Background()))
	f.Equal("drained", f.Drain(f.QP), []string{"x"})
	f.OK(two.Uninstall(context.Background()))
	f.Equal("left after Uninstall", left(), 0)
}

// PlainHeaders posts with headers by SQL. wrong is the code of headers that are not valid. older is
// the code of a store that older programs may use, which would lose the headers.
func PlainHeaders(f *Fixture, post func(headers sql.NullString, key string) error, set func(oldest int),
	state func(error) string, wrong, older string) {
	f.Helper()
	f.Drain(f.QP)
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	want := map[string]string{"a": "1", "grüße \" \\ <": "日本語, 🙂\n", "empty": ""}
	full := map[string]string{"n": strings.Repeat("ü", 4095) + "x"}
	for _, key := range []string{"", "k"} {
		f.OK(post(text(" "+backend.EncodeHeaders(want)+"\n"), key))
		f.OK(post(text("{}"), key))
		f.OK(post(sql.NullString{}, key))
		f.OK(post(text(backend.EncodeHeaders(full)), key))
	}
	r := f.Request(f.QP)
	r.MaxGroups = 10
	got := map[string][]map[string]string{}
	for c := f.Claim(r); len(c.Holds) > 0; c = f.Claim(r) {
		for _, h := range c.Holds {
			for _, m := range h.Messages {
				got[m.Key] = append(got[m.Key], backend.DecodeHeaders(m.Headers))
				if len(backend.DecodeHeaders(m.Headers)) == 0 && m.Headers != "" {
					f.Errorf("no headers are kept as %q", m.Headers)
				}
			}
			f.Ack(h)
		}
	}
	list := []map[string]string{want, nil, nil, full}
	f.Equal("headers", got, map[string][]map[string]string{"": list, "k": list})

	many := make(map[string]string)
	for i := range backend.MaxHeaders + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for _, bad := range []string{
		"", "x", "null", "7", "[]", `["a"]`, `"a"`, `{"a": 1}`, `{"a": null}`, `{"a": ["b"]}`, `{"": "x"}`, `{"parley-x": "1"}`,
		`{"a": "\u0000"}`, `{"\u0000": "a"}`, backend.EncodeHeaders(many),
		backend.EncodeHeaders(map[string]string{"n": strings.Repeat("ü", 4096)}),
	} {
		f.Equal(fmt.Sprintf("a post with the headers %.60s", bad), state(post(text(bad), "")), wrong)
	}
	f.Equal("left", f.Drain(f.QP), []string(nil))
	set(6)
	f.Equal("a post where older programs may be", state(post(text(`{"a": "1"}`), "")), older)
	f.OK(post(sql.NullString{}, ""))
}
