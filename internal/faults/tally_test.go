package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTallyCountsAsTheCheckerDoes compares the two, while a file grows and ends with half
// a line.
func TestTallyCountsAsTheCheckerDoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.history")
	rec, err := newRecorder(path)
	if err != nil {
		t.Fatal(err)
	}
	var counted tally
	for range 2 {
		for _, k := range []kind{sending, sent, undone, unknown, posted, began, returned,
			promoting, parked, unparking, locked, fault, healed} {
			rec.write(event{Kind: k, Stream: "s", Attempt: "a", Name: "sending"})
		}
		history, err := readHistory([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		want := check(history, rows{}, stall, 0).Operations
		if _, err := rec.f.WriteString(`{"kind":"sending"`); err != nil {
			t.Fatal(err)
		}
		if got, err := counted.update([]string{path}); err != nil || got != want {
			t.Errorf("%d operations and %v, the checker counts %d", got, err, want)
		}
		info, err := os.Stat(path)
		if err == nil {
			err = rec.f.Truncate(info.Size() - int64(len(`{"kind":"sending"`)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
