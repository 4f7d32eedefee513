package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"
)

// kind says what an event of a history tells.
type kind string

const (
	sending  kind = "sending"  // before the transaction of a message commits
	sent     kind = "sent"     // its commit succeeded
	undone   kind = "undone"   // it certainly did not commit
	unknown  kind = "unknown"  // the connection was cut during the commit
	began    kind = "began"    // a handler was called for a message
	returned kind = "returned" // that handler returned
	fault    kind = "fault"    // the nemesis begins a fault
	healed   kind = "healed"   // that fault is over
)

// event is a line of a history. Programs write it before and after what they do, so
// that a killed program leaves a send without an outcome, which counts as unknown.
type event struct {
	At      time.Time `json:"at"`
	Kind    kind      `json:"kind"`
	Stream  string    `json:"stream,omitempty"` // has one writer
	Seq     int       `json:"seq,omitempty"`    // the message's number in its stream
	Attempt string    `json:"attempt,omitempty"`
	Name    string    `json:"name,omitempty"`  // of a fault
	After   int64     `json:"after,omitempty"` // nanoseconds a post was delayed
}

// effect is a row of the user table, written in the transaction that acknowledges.
type effect struct {
	Stream  string
	Seq     int
	Attempt string
}

// recorder appends events to a file. Each event is one write, so that a program that
// is killed leaves no half line behind another one.
type recorder struct {
	mu sync.Mutex
	f  *os.File
}

func newRecorder(path string) (*recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &recorder{f: f}, err
}

// write panics when it fails: a run without its history proves nothing.
func (r *recorder) write(e event) {
	e.At = time.Now()
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.f.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// readHistory returns the events of files.
func readHistory(paths []string) (list []event, err error) {
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var e event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				f.Close()
				return nil, err
			}
			list = append(list, e)
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return list, nil
}
