package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/sure"
)

// TestManyBlocked: of a queue with many blocked groups some are shown.
func TestManyBlocked(t *testing.T) {
	ctx := t.Context()
	b, err := parley.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "doctor.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(b.Migrate(ctx))
	must(b.Define(ctx, parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}))
	for range 101 {
		_, err := b.Post(ctx, "mail", parley.Payload{})
		must(err)
	}
	must(sure.Of(b.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error {
		return parley.Park(errors.New("no"))
	}), nil)).Drain(ctx))
	found, err := doctor.Diagnose(ctx, b, "mail")
	must(err)
	if len(found) != 101 || found[99].Code != "group.parked" || found[100].Code != "more" {
		t.Errorf("%d findings, at last %v", len(found), found[len(found)-1])
	}
}

// lists counts what is listed of a store.
type lists struct {
	parley.Backend
	calls, groups int
}

func (l *lists) Groups(ctx context.Context, q backend.GroupQuery) ([]backend.GroupStatus, error) {
	list, err := l.Backend.Groups(ctx, q)
	l.calls, l.groups = l.calls+1, l.groups+len(list)
	return list, err
}

// TestManyWaiting: of many groups that wait, and many queues, the diagnosis lists none, and a list of
// parked groups none of those that wait.
func TestManyWaiting(t *testing.T) {
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	be, err := backend.Open(ctx, "sqlite:"+filepath.Join(t.TempDir(), "doctor.db"))
	must(err)
	l := &lists{Backend: be}
	b, err := parley.New(ctx, l, &parley.Options{NoMaintenance: true})
	must(err)
	defer b.Close()
	must(b.Migrate(ctx))
	const many = 2000
	var queues []parley.Queue
	var posts []parley.Posting
	for i := range many {
		queues = append(queues, parley.Queue{Name: fmt.Sprint("queue ", i)})
		posts = append(posts, parley.Posting{Options: []parley.PostOption{parley.Key(fmt.Sprint("key ", i))}})
	}
	must(b.Define(ctx, parley.Catalog{Queues: queues}))
	_, err = b.PostBatch(ctx, "queue 7", posts)
	must(err)
	d, err := b.Receive(ctx, "queue 7", nil)
	must(err)
	must(d.Park(ctx, errors.New("no")))
	*l = lists{Backend: be}
	found, err := doctor.Diagnose(ctx, b, "")
	must(err)
	parked := 0
	for _, f := range found {
		if f.Code == "group.parked" {
			parked++
		}
	}
	if parked != 1 || l.calls != 1 || l.groups != 1 {
		t.Errorf("of one parked group among %d others, %d findings; %d groups in %d lists, want one of each", many-1, parked, l.groups, l.calls)
	}
	*l = lists{Backend: be}
	list, err := b.Admin().Parked(ctx, "queue 7", parley.Place{}, 10)
	must(err)
	if len(list) != 1 || l.groups != 1 {
		t.Errorf("%d parked groups of %d that were listed, want one of one", len(list), l.groups)
	}
}

// TestClosed: of a broker that is closed there is nothing to be found.
func TestClosed(t *testing.T) {
	b, err := parley.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "doctor.db"), nil)
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"", "mail", parley.NewID().String()} {
		if found, err := doctor.Diagnose(t.Context(), b, what); !errors.Is(err, parley.ErrClosed) || len(found) > 0 {
			t.Errorf("%q: findings %v, error %v, want %v", what, found, err, parley.ErrClosed)
		}
	}
}

// TestCodes: every code of a finding is explained, and none that there is not.
func TestCodes(t *testing.T) {
	text, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, m := range regexp.MustCompile("`([a-z.]+)`").FindAllStringSubmatch(cells[1], -1) {
				explained[m[1]] = true
			}
		}
	}
	for _, file := range []string{"codes.go", "../backend/info.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		codes := regexp.MustCompile(`(?m)^\t(?:code|Warn)\w+ += "([a-z.]+)"`).FindAllStringSubmatch(string(src), -1)
		if len(codes) < 10 {
			t.Errorf("%s has %d codes", file, len(codes))
		}
		for _, m := range codes {
			if !explained[m[1]] {
				t.Errorf("docs/doctor.md does not explain %s", m[1])
			}
			delete(explained, m[1])
		}
	}
	for code := range explained {
		t.Errorf("docs/doctor.md explains %s, which there is not", code)
	}
}
