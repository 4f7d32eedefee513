package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/phases"
	"github.com/parleymq/parley/recurring"
)

func TestJSONStyle(t *testing.T) {
	type inner struct {
		FarID   parley.ID
		LastSay string
	}
	id := parley.NewID()
	for _, test := range []struct {
		v    any
		want string
	}{
		{struct {
			Age   time.Duration
			Empty []int
			Err   error
			inner
			Body   []byte
			Binary []byte
			None   []byte
			hidden int
		}{1500 * time.Millisecond, nil, errors.New("no"), inner{id, "<&>"}, []byte("text"), []byte{0xff}, nil, 1},
			`{"age_seconds":1.5,"empty":[],"err":"no","far_id":"` + id.String() + `","last_say":"<&>","body":"text","binary_base64":"/w==","none":null}`},
		{[]inner{{FarID: id, LastSay: "<&>"}}, `[{"far_id":"` + id.String() + `","last_say":"<&>"}]`},
		{inner{}, `{"far_id":null,"last_say":""}`},
		{struct{ At time.Time }{}, `{"at":null}`},
		{struct{ At time.Time }{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, `{"at":"2026-01-02T03:04:05Z"}`},
		{struct{ Error *parley.DialogError }{&parley.DialogError{Code: 3, Text: "no"}}, `{"error":{"code":3,"text":"no"}}`},
		{struct{}{}, `{}`},
		{map[phases.State]int{phases.StateDone: 2}, `{"done":2}`},
	} {
		var b strings.Builder
		c := &call{stdout: &b}
		if err := c.encode(test.v); err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal([]byte(test.want), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
			t.Fatalf("%v in %s", err, b.String())
		}
		if compact := strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(b.String()); compact != test.want {
			t.Errorf("%+v is printed as %s, want %s", test.v, compact, test.want)
		}
	}
}

// TestJSONNames: docs/command.md names all fields. A name that goes or changes breaks scripts.
func TestJSONNames(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"status":        parley.QueueStatus{},
		"groups":        parley.GroupStatus{},
		"conversations": parley.ConversationStatus{},
		"messages":      parley.Message{},
		"dead":          deadLetter{},
		"tasks":         phases.TaskStatus{},
		"plans":         phases.Status{},
		"recurring":     recurring.Status{},
		"locks":         applock.Status{},
		"doctor":        doctor.Finding{},
		"top":           line{},
		"version":       versions{Engine: "x", Server: "x", Schema: 1},
		"migrate":       migrated{},
		"post":          posted{},
	} {
		var names []string
		for _, f := range styled(v).(object) {
			names = append(names, f.name)
		}
		if want := fmt.Sprintf("| %s | %s |", name, strings.Join(names, ", ")); !strings.Contains(string(page), want) {
			t.Errorf("docs/command.md lacks the row\n%s", want)
		}
	}
}

func TestSnakeCase(t *testing.T) {
	for name, want := range map[string]string{
		"ID": "id", "LastError": "last_error", "NextSeq": "next_seq", "FarID": "far_id", "P50": "p50", "HTTPCode": "http_code",
	} {
		if got := snake(name); got != want {
			t.Errorf("snake(%q) is %q, want %q", name, got, want)
		}
	}
}
