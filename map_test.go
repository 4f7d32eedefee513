package parley_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var mapped = regexp.MustCompile("`([a-z_/]+(?:\\.go|\\.md)?)`")

// TestMap: what the map in CONTRIBUTING.md points to is there.
func TestMap(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, _ := strings.Cut(string(text), "## A map of the house")
	table, _, ok := strings.Cut(house, "**A check.**")
	places := mapped.FindAllStringSubmatch(table, -1)
	if !ok || len(places) < 20 {
		t.Fatalf("the map has %d places", len(places))
	}
	for _, p := range places {
		if _, err := os.Stat(p[1]); err != nil {
			t.Errorf("the map points to %s: %v", p[1], err)
		}
	}
}
