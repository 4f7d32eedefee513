package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/sure"
)

// hostile sets a terminal's title and clipboard, forges a row, and turns text round.
const hostile = "\x1b]0;title\x07\x1b]52;c;cHduZWQ=\x07\nforged\trow\r\u202egnp\u009b2J"

func TestTerminalOutputObeysNoEscapeSequence(t *testing.T) {
	ctx := t.Context()
	db := "sqlite:" + filepath.Join(t.TempDir(), "hostile.db")
	works(t, "migrate", "--db", db)
	b, err := parley.Open(ctx, db, &parley.Options{Owner: hostile})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: "T"}}, Queues: []parley.Queue{{Name: "q"}, {Name: "held"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"park\x1b[2J", "dead"} {
		if _, err := b.Post(ctx, "q", parley.Payload{
			Type: "T", Body: []byte(hostile), Headers: map[string]string{"a\u202e": "\x1b[2J\u202e"},
		}, parley.Key(key)); err != nil {
			t.Fatal(err)
		}
	}
	w := sure.Of(b.NewWorker("q", parley.HandlerFunc(func(_ context.Context, m *parley.Message) error {
		if m.Key == "dead" {
			return parley.DeadLetter(errors.New(hostile))
		}
		return parley.Park(errors.New(hostile))
	}), nil))
	if err := w.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Post(ctx, "held", parley.Payload{Type: "T"}, parley.Key(hostile)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Receive(ctx, "held", nil); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"parked"}, {"parked", "show", "--queue", "q"}, {"dead"}, {"dead", "show", "--queue", "q"},
		{"groups", "q"}, {"groups", "held"}, {"doctor"}, {"doctor", "q"}, {"top", "--once"}, {"groups", hostile}, {"doctor", hostile},
		{hostile}, {"status", "--" + hostile},
	} {
		_, out, errs := tool(t, append(args, "--db", db)...)
		for _, r := range out + errs {
			if r != '\n' && r != '\t' && hidden(r) {
				t.Errorf("parley %q prints %q in\n%q", args, r, out+errs)
				break
			}
		}
		if strings.Contains(out, "\nforged") {
			t.Errorf("parley %q prints a forged row:\n%s", args, out)
		}
	}
	var groups []struct{ Reason string }
	if err := json.Unmarshal([]byte(works(t, "parked", "--json", "--db", db)), &groups); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(hostile, "\n"); len(groups) != 1 || groups[0].Reason != first {
		t.Errorf("--json has %q, want the reason as it is: %q", groups, first)
	}
}

func FuzzShown(f *testing.F) {
	for _, s := range []string{"", "plain", "Grüße 日本", hostile, "\xff\xfe", "\\x1b", "a\u00a0b\u200bc\ufeff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := shown(s)
		if !utf8.ValidString(got) || strings.IndexFunc(got, hidden) >= 0 {
			t.Errorf("%q is shown as %q", s, got)
		}
		if again := shown(got); again != got {
			t.Errorf("%q is shown as %q, and that as %q", s, got, again)
		}
		if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 && got != s {
			t.Errorf("%q need not become %q", s, got)
		}
	})
}
