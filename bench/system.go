package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// system is a queue, with its settings, as an application would use it.
type system struct {
	name   string
	engine []string
	// settings say how it is set, and where that comes from.
	settings string
	// extra systems are left out of quick runs.
	extra bool
	// open brings up the schema if need be, and what it takes to send.
	open func(ctx context.Context, dsn string) (queue, error)
}

// queue is an open system.
type queue interface {
	// send begins a transaction, sends one message and commits.
	send(ctx context.Context, body []byte) error
	// batch sends many in one transaction.
	batch(ctx context.Context, bodies [][]byte) error
	// work starts workers, which call j.handled for each message.
	work(ctx context.Context, j job) (stop func(), err error)
	close()
}

// owner is a queue that sends in a transaction of the program's.
type owner interface {
	// sendOwn begins a transaction, writes a row of the program's, sends one message and commits.
	sendOwn(ctx context.Context, body []byte) error
}

// keyed is a queue with order in groups.
type keyed interface {
	// batchOf sends messages of one group in one transaction.
	batchOf(ctx context.Context, key string, bodies [][]byte) error
}

// job is what workers do.
type job struct {
	handled func(body []byte)
	// row asks for a row of the user's, written in the transaction in which the
	// message is acknowledged.
	row bool
	// readers is how many handlers may run at once.
	readers int
}

const insertRow = `INSERT INTO bench_row (id, body) VALUES ($1, $2)`

const createRow = `CREATE TABLE IF NOT EXISTS bench_row (id varchar(60) NOT NULL, body varchar(60) NOT NULL)`

// bodyLen is the size of every body.
const bodyLen = 200

// body is a number, the present time, and filler, all of them text, since some
// systems store JSON.
func body(n int) []byte {
	b := make([]byte, 0, bodyLen)
	b = fmt.Appendf(b, "%012d %020d ", n, time.Now().UnixNano())
	for len(b) < bodyLen {
		b = append(b, "the quick brown fox jumps over the lazy dog "[len(b)%44])
	}
	return b
}

func bodies(from, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = body(from + i)
	}
	return out
}

func numberOf(body []byte) int {
	n, err := strconv.Atoi(string(body[:12]))
	if err != nil {
		panic(err)
	}
	return n
}

func sentAt(body []byte) time.Time {
	n, err := strconv.ParseInt(string(body[13:33]), 10, 64)
	if err != nil {
		panic(err)
	}
	return time.Unix(0, n)
}

func (s *system) runsOn(engine string) bool {
	for _, e := range s.engine {
		if e == engine {
			return true
		}
	}
	return false
}

// named reports whether a name was asked for.
func named(name string, want []string) bool {
	if len(want) == 0 {
		return true
	}
	for _, w := range want {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}
