package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lib/pq"

	"github.com/parleymq/parley/backend/sqlstore"
)

// unprepared returns a statement and its arguments for running it once. An unprepared statement
// takes lib/pq one round trip without parameters and two with parameters, the first for parsing. So
// the values are written into the text: numbers, and texts and bytes by the driver's quoting.
func (p *pool) unprepared(q *sqlstore.Stmt, args []any) (string, []any) {
	if !p.libpq || len(args) == 0 {
		return q.Text, args
	}
	text, ok := inline(q.Text, args)
	if !ok {
		return q.Text, args
	}
	return text, nil
}

// inline writes values in the place of the parameters of one of our statements,
// in which a dollar sign stands for nothing else.
func inline(text string, args []any) (string, bool) {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			b.WriteString(text)
			return b.String(), true
		}
		b.WriteString(text[:i])
		text = text[i+1:]
		n := 0
		for n < len(text) && text[n] >= '0' && text[n] <= '9' {
			n++
		}
		k, err := strconv.Atoi(text[:n])
		if err != nil || k < 1 || k > len(args) {
			return "", false
		}
		text = text[n:]
		switch v := args[k-1].(type) {
		case nil:
			b.WriteString("NULL")
		case int64:
			if v < 0 { // not to make a comment of a minus sign before it
				fmt.Fprintf(&b, "(%d)", v)
			} else {
				b.WriteString(strconv.FormatInt(v, 10))
			}
		case string:
			if strings.IndexByte(v, 0) >= 0 {
				return "", false // the server says what is wrong with it
			}
			b.WriteString(pq.QuoteLiteral(v))
		case []byte:
			// No backslash: with standard_conforming_strings off it would begin an escape.
			fmt.Fprintf(&b, `decode('%x', 'hex')`, v)
		default:
			return "", false
		}
	}
}
