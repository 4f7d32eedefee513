package doctor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/doctor"
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
	must(b.NewWorker("mail", parley.HandlerFunc(func(context.Context, *parley.Message) error {
		return parley.Park(errors.New("no"))
	}), nil).Drain(ctx))
	found, err := doctor.Diagnose(ctx, b, "mail")
	must(err)
	if len(found) != 101 || found[99].Code != "group.parked" || found[100].Code != "more" {
		t.Errorf("%d findings, at last %v", len(found), found[len(found)-1])
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
