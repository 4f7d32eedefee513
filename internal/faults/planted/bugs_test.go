package main

import (
	"slices"
	"testing"
)

// TestBugsCanBePlanted has the source, as it is now, take each of the bugs. make
// planted runs them.
func TestBugsCanBePlanted(t *testing.T) {
	for _, b := range slices.Concat(bugs, controls) {
		t.Run(b.name, func(t *testing.T) {
			if _, err := b.plant("../../..", t.TempDir()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestChangeNeedsItsText(t *testing.T) {
	if _, err := (change{old: "gone", new: "x"}).apply("text"); err == nil {
		t.Error("a text that is not there was replaced")
	}
	if _, err := (change{old: "a", new: "x"}).apply("aa"); err == nil {
		t.Error("a text that is there twice was replaced")
	}
}
