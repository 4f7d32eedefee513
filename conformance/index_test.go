package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestIndex: testdata/sentences.txt has each sentence, the checks that prove it with their
// files, and the mutants that break it.
func TestIndex(t *testing.T) {
	const file = "testdata/sentences.txt"
	want := index()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run UPDATE=1 go test -run TestIndex ./conformance", file)
	}
}

func index() string {
	var page strings.Builder
	all := mutants()
	for _, s := range Sentences {
		fmt.Fprintf(&page, "%s %s\n", s.ID, s.Text)
		for _, c := range checks {
			if c.ID == s.ID {
				fmt.Fprintf(&page, "\tcheck: %s (%s)\n", c.Name, c.file)
			}
		}
		for _, m := range all {
			if m.breaks == s.ID {
				fmt.Fprintf(&page, "\tmutant: %s\n", m.says)
			}
		}
	}
	return page.String()
}
