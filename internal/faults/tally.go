package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// operations are the kinds of events that count as one.
var operations = []kind{sending, posted, began, promoting, parked, unparking, moving, cancelling, locked}

// tally counts the operations in histories that are still being written.
type tally struct {
	read map[string]int64 // bytes of each file
	n    int
}

// update counts what has come since, up to the last whole line of each file.
func (t *tally) update(paths []string) (n int, err error) {
	if t.read == nil {
		t.read = make(map[string]int64)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(io.NewSectionReader(f, t.read[path], 1<<40))
		f.Close()
		if err != nil {
			return 0, err
		}
		text = text[:bytes.LastIndexByte(text, '\n')+1]
		t.read[path] += int64(len(text))
		for _, k := range operations {
			t.n += bytes.Count(text, fmt.Appendf(nil, `"kind":"%s"`, k))
		}
	}
	return t.n, nil
}
