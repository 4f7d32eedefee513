package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// Statements are sent with their values in the text. That takes one round trip whatever the
// handle's settings are; without interpolateParams the driver would prepare each statement again.
// Bytes are written in hexadecimal, so that neither sql_mode nor the connection's character set
// matters. Long values would become still longer, so the driver gets them as parameters.
const long = 64 << 10

// A list is written in the place of one parameter.
type list interface {
	appendTo(b *builder)
}

// builder makes the text of a statement.
type builder struct {
	text []byte
	args []any
	size int // of args
}

// inline replaces the question marks of a statement by its arguments; our statements use question
// marks for nothing else. The longest packet that the server accepts is limit, 0 if unknown.
func inline(text string, args []any, limit int) (string, []any, error) {
	if len(args) == 0 {
		return text, nil, nil
	}
	b := builder{text: make([]byte, 0, len(text)+40*len(args))}
	n := 0
	for i := range len(text) {
		if text[i] != '?' {
			b.text = append(b.text, text[i])
			continue
		}
		if n == len(args) {
			return "", nil, fmt.Errorf("parley: mysql: %d arguments are too few", len(args))
		}
		b.value(args[n])
		n++
	}
	if n != len(args) {
		return "", nil, fmt.Errorf("parley: mysql: %d arguments, want %d", len(args), n)
	}
	// The server closes the connection when a packet is too long for it.
	if size := len(b.text) + b.size + 1024; limit > 0 && size > limit {
		return "", nil, sqlstore.Classified(backend.ErrTooLarge, fmt.Errorf("%d bytes, and the server's max_allowed_packet is %d", size, limit))
	}
	return string(b.text), b.args, nil
}

// value writes one argument.
func (b *builder) value(v any) {
	switch v := v.(type) {
	case nil:
		b.string("NULL")
	case int64:
		b.int(v)
	case int:
		b.int(int64(v))
	case string:
		b.bytes([]byte(v))
	case []byte:
		if v == nil {
			b.string("NULL")
			return
		}
		b.bytes(v)
	case list:
		v.appendTo(b)
	default:
		b.string("?")
		b.args = append(b.args, v)
	}
}

func (b *builder) string(s string) { b.text = append(b.text, s...) }

func (b *builder) int(n int64) {
	if n < 0 { // not to make a comment of a minus sign before it
		b.string("(")
		b.text = strconv.AppendInt(b.text, n, 10)
		b.string(")")
		return
	}
	b.text = strconv.AppendInt(b.text, n, 10)
}

func (b *builder) bytes(v []byte) {
	if len(v) > long {
		b.string("?")
		b.args = append(b.args, v)
		b.size += len(v)
		return
	}
	b.string("x'")
	b.text = hex.AppendEncode(b.text, v)
	b.string("'")
}

func (b *builder) id(id backend.ID) {
	if id.IsZero() {
		b.string("NULL")
		return
	}
	b.bytes(id[:])
}

// ids is a list for IN, of at most most.
type ids []backend.ID

// most is how long a list of ids may be. From 1,000 on MariaDB makes a subquery of it
// (in_predicate_conversion_threshold), and then reads, and with FOR UPDATE locks, all
// of the table.
const most = 500

// execAll runs a statement whose last parameter is a list of ids. It runs a long list in several
// parts, and returns how many rows have changed.
func execAll(ctx context.Context, tx *sqlstore.Tx, q *sqlstore.Stmt, list []backend.ID, before ...any) (changed int64, err error) {
	for some := range slices.Chunk(list, most) {
		n, err := tx.Exec(ctx, q, append(slices.Clip(before), ids(some))...)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

// rowsAll is the same for a query.
func rowsAll(ctx context.Context, tx *sqlstore.Tx, scan func(*sql.Rows) error, q *sqlstore.Stmt, list []backend.ID, before ...any) error {
	for some := range slices.Chunk(list, most) {
		if err := tx.Rows(ctx, scan, q, append(slices.Clip(before), ids(some))...); err != nil {
			return err
		}
	}
	return nil
}

func (l ids) appendTo(b *builder) {
	for i, id := range l {
		if i > 0 {
			b.string(", ")
		}
		b.bytes(id[:])
	}
}

// numbers is a list for IN.
type numbers []int64

func (l numbers) appendTo(b *builder) {
	for i, n := range l {
		if i > 0 {
			b.string(", ")
		}
		b.int(n)
	}
}

// cell writes a value or an id.
func (b *builder) cell(v any) {
	if id, ok := v.(backend.ID); ok {
		b.id(id)
	} else {
		b.value(v)
	}
}

// tuples is a list for VALUES.
type tuples [][]any

func (l tuples) appendTo(b *builder) {
	for i, row := range l {
		if i > 0 {
			b.string(", ")
		}
		b.string("(")
		for j, v := range row {
			if j > 0 {
				b.string(", ")
			}
			b.cell(v)
		}
		b.string(")")
	}
}

// expression is a value that the server works out.
type expression string

func (e expression) appendTo(b *builder) { b.string(string(e)) }

// either is a condition: any of the rows, in each of which the columns have the
// values. "(a, b) IN ((1, 2))" with one tuple would be a scan of the whole table
// on MariaDB.
type either struct {
	columns []string
	rows    [][]any
}

func (e either) appendTo(b *builder) {
	b.string("(")
	for i, row := range e.rows {
		if i > 0 {
			b.string(" OR ")
		}
		for j, v := range row {
			if j > 0 {
				b.string(" AND ")
			}
			b.string(e.columns[j])
			if between, ok := v.(span); ok {
				b.string(" BETWEEN ")
				b.int(between.from)
				b.string(" AND ")
				b.int(between.to)
			} else {
				b.string(" = ")
				b.cell(v)
			}
		}
	}
	b.string(")")
}

// table is rows to join with, whose columns have names.
type table either

func (t table) appendTo(b *builder) {
	for i, row := range t.rows {
		if i > 0 {
			b.string(" UNION ALL ")
		}
		b.string("SELECT ")
		for j, v := range row {
			if j > 0 {
				b.string(", ")
			}
			b.cell(v)
			if i == 0 {
				b.string(" AS " + t.columns[j])
			}
		}
	}
}

// tableOf is a table of ids.
func tableOf(column string, ids []backend.ID) table {
	t := table{columns: []string{column}}
	for _, id := range ids {
		t.rows = append(t.rows, []any{id})
	}
	return t
}

// span is a range of numbers.
type span struct{ from, to int64 }

// choice is a CASE of the values of a column by which a row's new value is
// chosen.
type choice struct {
	column string
	when   []backend.ID
	then   []any
}

func (c choice) appendTo(b *builder) {
	b.string("CASE ")
	b.string(c.column)
	for i, id := range c.when {
		b.string(" WHEN ")
		b.bytes(id[:])
		b.string(" THEN ")
		b.value(c.then[i])
	}
	b.string(" END")
}
