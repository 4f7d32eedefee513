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
	posted   kind = "posted"   // a handler sends it in the transaction of its attempt
	began    kind = "began"    // a handler was called for a message
	returned kind = "returned" // that handler returned

	promoting kind = "promoting" // before the promotion of the post that is the stream
	promoted  kind = "promoted"  // that promotion has committed
	claiming  kind = "claiming"  // before a receive
	claimed   kind = "claimed"   // it returned the message of the stream, or none

	parked    kind = "parked"    // a group was parked, which was asked for at Since, or deferred for After from then
	unparking kind = "unparking" // before it is made ready again
	unparked  kind = "unparked"  // that call returned
	skipping  kind = "skipping"  // before a post becomes a dead letter, which frees its value

	cancelling kind = "cancelling" // before the post that is the stream is cancelled
	removed    kind = "removed"    // that call removed it
	kept       kind = "kept"       // that call left it alone; with neither, either may be true

	waived kind = "waived" // the message may be dropped
	known  kind = "known"  // a transaction that committed found the key, which is the name, not new

	ticked kind = "ticked" // a handler was called for a message of a recurring job that was due at Since

	moving     kind = "moving"     // before the commit that takes a dialog to the group
	deadlocked kind = "deadlocked" // a transaction that only sends lost against another one, with the error that is the name

	locked    kind = "locked"    // the lock that is the stream was granted in the mode that is the name
	unlocking kind = "unlocking" // before it is released
	unlocked  kind = "unlocked"  // it was still held then

	failed kind = "failed" // a program ends with an error, its name, or logs that a promise was broken
	fault  kind = "fault"  // the nemesis begins a fault
	healed kind = "healed" // that fault is over
)

// event is a line of a history. Programs write it before and after what they do, so
// that a killed program leaves a send without an outcome, which counts as unknown.
type event struct {
	At      time.Time `json:"at"`
	Kind    kind      `json:"kind"`
	Stream  string    `json:"stream,omitempty"`  // has one writer
	Seq     int       `json:"seq,omitempty"`     // the message's number in its stream
	Attempt string    `json:"attempt,omitempty"` // what belongs together: a call, a claim, a hold of a lock
	Group   string    `json:"group,omitempty"`
	Name    string    `json:"name,omitempty"`
	After   int64     `json:"after,omitempty"` // nanoseconds that a message is delayed or a group is deferred
	Since   time.Time `json:"since,omitzero"`  // when the call began
}

// effect is a row of the user table, written in the transaction that acknowledges, or in that of the reply to the
// message.
type effect struct {
	Stream  string
	Seq     int
	Attempt string
	Hot     int // the row of the other table that was counted up with it, or one of those below
}

const (
	notHot      = -1
	leftToReply = -2
)

// lockEffect is a row that was written under an application lock and its fence.
type lockEffect struct {
	Lock    string
	Fence   int64
	Attempt string
}

// rows are what is in the user tables at the end, in the order in which it was written.
type rows struct {
	effects []effect
	locks   []lockEffect
	hot     map[int]int // counts by row
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

// write returns the time that it has given to the event. It panics when it fails: a
// run without its history proves nothing.
func (r *recorder) write(e event) time.Time {
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
	return e.At
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
