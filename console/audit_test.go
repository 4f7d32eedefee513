package console_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/console"
)

// TestAudit: each action is recorded before it begins and when it is over, with the person. An action that cannot be
// recorded is not done.
func TestAudit(t *testing.T) {
	b := open(t, "memory")
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	id := must(b.Post(ctx, "mail", parley.Payload{}))
	promoted := func() bool { return must(b.Admin().Group(ctx, "mail", id)).Promoted }
	var records []string
	var ids []parley.ID
	var refuse error
	var log bytes.Buffer
	s := writer(t, b, console.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Audit: func(_ context.Context, r *http.Request, a console.Audited) error {
			records = append(records, fmt.Sprint(r.Header.Get("X-User"), " ", a.Action, " ", a.Target == id.String(), " ", a.Form.Get("do"), " ", a.Over, " ", promoted(), " ", a.Said != "", " ", a.Err))
			ids = append(ids, a.ID)
			return refuse
		}})
	act := func(verb string) int {
		t.Helper()
		answer, _ := s.post("/act", url.Values{"do": {verb}, "queue": {"mail"}, "id": {id.String()}}, func(r *http.Request) { r.Header.Set("X-User", "ann") })
		return answer.StatusCode
	}
	if code := act("promote"); code != http.StatusSeeOther {
		t.Errorf("promote is answered with %d", code)
	}
	want := "ann promote true promote false false false <nil>|ann promote true promote true true true <nil>"
	if got := strings.Join(records, "|"); got != want || ids[0] != ids[1] || !strings.Contains(log.String(), ids[0].String()) {
		t.Errorf("recorded are\n%s\nwant\n%s\nof %v", got, want, ids)
	}
	records = nil
	act("requeue") // there is no such dead letter
	if len(records) != 2 || !strings.HasSuffix(records[0], "false true false <nil>") || strings.HasSuffix(records[1], "<nil>") || ids[2] == ids[0] {
		t.Errorf("of a failed action is recorded %q", records)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), ids[2].String()) {
		t.Errorf("a failed action is not in the log:\n%s", &log)
	}
	records, refuse = nil, errors.New("the disk is full")
	if code := act("demote"); code != http.StatusInternalServerError || len(records) != 1 || !promoted() {
		t.Errorf("an action that cannot be recorded: %d, %q, promoted %t", code, records, promoted())
	}
	records = nil
	s.get("/act?" + url.Values{"do": {"demote"}, "queue": {"mail"}, "id": {id.String()}}.Encode())
	if len(records) != 0 {
		t.Errorf("of a page that asks is recorded %q", records)
	}
}
