package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/parleymq/parley/backend"
	"go.etcd.io/bbolt"
)

// table is a bucket whose values are rows, as JSON.
type table[V any] string

// The tables, and what their keys are.
const (
	meta       table[versions]                = "meta"
	counters   table[int64]                   = "counters"   // name
	catalog    table[catalogRow]              = "catalog"    // one row
	history    table[backend.Definition]      = "history"    // number
	endpoints  table[endpoint]                = "endpoints"  // handle
	members    table[none]                    = "members"    // group, handle
	streams    table[stream]                  = "streams"    // stream
	notices    table[none]                    = "notices"    // handle that reads, stream
	messages   table[message]                 = "messages"   // stream, number
	withheld   table[message]                 = "withheld"   // stream, number
	bodies     table[[]byte]                  = "bodies"     // stream, number: of both
	order      table[none]                    = "order"      // queue, priority, arrival, stream
	groups     table[group]                   = "groups"     // group
	promotions table[promotion]               = "promotions" // group
	failures   table[failure]                 = "failures"   // message
	retained   table[backend.RetainedMessage] = "retained"   // handle, number
	dead       table[deadLetter]              = "dead"       // number
	posts      table[post]                    = "posts"      // post
	texts      table[[]byte]                  = "texts"      // post: its body
	uniques    table[backend.ID]              = "uniques"    // queue, value
	once       table[time.Time]               = "once"       // key
	dues       table[none]                    = "dues"       // job, instant, what
	readers    table[reader]                  = "readers"    // reader
	fences     table[int64]                   = "fences"     // name
	plans      table[plan]                    = "plans"      // name
	tasks      table[task]                    = "tasks"      // plan's ID, number
	taskIDs    table[int64]                   = "task ids"   // plan's ID, task
)

var buckets = []string{
	string(meta), string(counters), string(catalog), string(history), string(endpoints), string(members), string(streams),
	string(notices), string(messages), string(withheld), string(bodies), string(order), string(groups), string(promotions),
	string(failures), string(retained), string(dead), string(posts), string(texts), string(uniques), string(once),
	string(dues), string(readers), string(fences), string(plans), string(tasks), string(taskIDs),
}

type none struct{}

// look is the store as one transaction of bbolt sees it. The first thing that goes wrong stays
// in err.
type look struct {
	b   *bbolt.Tx
	f   *file
	log []change
	err error
}

// change is an entry of the undo log: a row that was written, or a function.
type change struct {
	bucket string
	key    []byte
	old    []byte // nil: there was none
	undo   func()
}

// key makes a key whose order is that of its parts.
func key(parts ...any) []byte {
	var k []byte
	for _, p := range parts {
		switch p := p.(type) {
		case backend.ID:
			k = append(k, p[:]...)
		case int64:
			k = binary.BigEndian.AppendUint64(k, uint64(p))
		case byte:
			k = append(k, p)
		case string:
			k = append(k, p...)
		default:
			panic(fmt.Sprintf("bolt: no key of %T", p))
		}
	}
	return k
}

// idAt and numberAt read parts of keys.
func idAt(k []byte, at int) (id backend.ID) { copy(id[:], k[at:]); return id }
func numberAt(k []byte, at int) int64       { return int64(binary.BigEndian.Uint64(k[at:])) }

func (l *look) now() time.Time { return time.Now() }

func (l *look) note(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *look) bucket(name string) *bbolt.Bucket { return l.b.Bucket([]byte(name)) }

// get returns a row, and whether there is one.
func get[V any](l *look, t table[V], k []byte) (row V, ok bool) {
	data := l.bucket(string(t)).Get(k)
	if data == nil {
		return row, false
	}
	l.note(decode(data, &row))
	return row, true
}

// encode and decode do not convert bytes to JSON, because bodies may be large. They copy bytes:
// bbolt keeps its arguments until the commit, and the caller's bytes belong to the caller.
func encode[V any](row V) ([]byte, error) {
	if b, ok := any(row).([]byte); ok {
		return bytes.Clone(b), nil
	}
	return json.Marshal(row)
}

func decode[V any](data []byte, row *V) error {
	if b, ok := any(row).(*[]byte); ok {
		*b = bytes.Clone(data)
		return nil
	}
	return json.Unmarshal(data, row)
}

func has[V any](l *look, t table[V], k []byte) bool { return l.bucket(string(t)).Get(k) != nil }

// put writes a row.
func put[V any](l *look, t table[V], k []byte, row V) {
	data, err := encode(row)
	l.note(err)
	b := l.bucket(string(t))
	l.log = append(l.log, change{bucket: string(t), key: k, old: bytes.Clone(b.Get(k))})
	l.note(b.Put(k, data))
}

// remove removes a row and reports whether there was one.
func remove[V any](l *look, t table[V], k []byte) bool {
	b := l.bucket(string(t))
	old := bytes.Clone(b.Get(k))
	if old == nil {
		return false
	}
	l.log = append(l.log, change{bucket: string(t), key: k, old: old})
	l.note(b.Delete(k))
	return true
}

// scan ranges over the rows whose keys begin with a prefix. The caller does not write meanwhile.
func scan[V any](l *look, t table[V], prefix []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		c := l.bucket(string(t)).Cursor()
		for k, data := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, data = c.Next() {
			var row V
			l.note(decode(data, &row))
			if !yield(k, row) {
				return
			}
		}
	}
}

// from ranges over all rows from a key on. The caller does not write meanwhile.
func from[V any](l *look, t table[V], at []byte) iter.Seq2[[]byte, V] {
	return func(yield func([]byte, V) bool) {
		c := l.bucket(string(t)).Cursor()
		for k, data := c.Seek(at); k != nil; k, data = c.Next() {
			var row V
			l.note(decode(data, &row))
			if !yield(k, row) {
				return
			}
		}
	}
}

// walk is scan for a caller that writes meanwhile, to this table as well.
func walk[V any](l *look, t table[V], prefix []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := prefix; ; {
			c := l.bucket(string(t)).Cursor()
			k, _ := c.Seek(at)
			if k != nil && len(at) > len(prefix) && bytes.Equal(k, at) {
				k, _ = c.Next()
			}
			if k == nil || !bytes.HasPrefix(k, prefix) {
				return
			}
			if at = bytes.Clone(k); !yield(at) {
				return
			}
		}
	}
}

// row is a row with its key.
type row[V any] struct {
	key []byte
	V   V
}

// list is scan for a caller that writes: all rows, read before.
func list[V any](l *look, t table[V], prefix []byte) (rows []row[V]) {
	for k, v := range scan(l, t, prefix) {
		rows = append(rows, row[V]{bytes.Clone(k), v})
	}
	return rows
}

// first returns the first row with a prefix.
func first[V any](l *look, t table[V], prefix []byte) (k []byte, row V, ok bool) {
	for k, row := range scan(l, t, prefix) {
		return bytes.Clone(k), row, true
	}
	return nil, row, false
}

// count counts rows up to the bound of the contract.
func count[V any](l *look, t table[V], prefix []byte) (n int) {
	c := l.bucket(string(t)).Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && n < backend.CountLimit; k, _ = c.Next() {
		n++
	}
	return n
}

// removeAll removes the rows with a prefix and returns how many there were.
func removeAll[V any](l *look, t table[V], prefix []byte) int {
	rows := list(l, t, prefix)
	for _, r := range rows {
		remove(l, t, r.key)
	}
	return len(rows)
}

// next counts in a row of the transaction, so that a rollback takes the number back.
func (l *look) next(counter string) int64 {
	n, _ := get(l, counters, key(counter))
	put(l, counters, key(counter), n+1)
	return n + 1
}

// did notes how something that is no row is undone.
func (l *look) did(undo func()) { l.log = append(l.log, change{undo: undo}) }

// undo takes back all since the log had a length, latest first.
func (l *look) undo(at int) {
	for i := len(l.log) - 1; i >= at; i-- {
		switch c := l.log[i]; {
		case c.undo != nil:
			c.undo()
		case c.old == nil:
			l.note(l.bucket(c.bucket).Delete(c.key))
		default:
			l.note(l.bucket(c.bucket).Put(c.key, c.old))
		}
	}
	l.log = l.log[:at]
}
