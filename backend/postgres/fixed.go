package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/parleymq/parley/backend/sqlstore"
)

// fixedMost is how many statements with fixed arguments there may be: each costs
// the server nearly a megabyte in every session that has used it.
const fixedMost = 24

// fixedKey is a statement with its arguments.
type fixedKey struct {
	q    *sqlstore.Stmt
	args [3]int64
}

// fixed returns a claim's statement with its few arguments written into it. "If a prepared
// statement has no parameters, then this is moot and a generic plan is always used" (PREPARE). So
// it is planned once in each session, which takes longer than running it a hundred times. With
// parameters it would be planned for each of the first five executions, or for all of them if the
// generic plan looks more expensive.
//
// The queue is a subquery, so that the plan is made for any queue. The planner may know no rows of
// this queue, but at the time of a claim there are some.
func (p *pool) fixed(q *sqlstore.Stmt, args ...int64) (*sqlstore.Stmt, []any) {
	key := fixedKey{q: q}
	copy(key.args[:], args)
	if v, ok := p.fixedStmts.Load(key); ok {
		return v.(*sqlstore.Stmt), nil
	}
	if p.pooled.Load() || p.fixedCount.Add(1) > fixedMost { // nothing is prepared, or enough
		list := make([]any, len(args))
		for i, a := range args {
			list[i] = a
		}
		return q, list
	}
	var put []string
	for i, a := range args {
		value := strconv.FormatInt(a, 10)
		if i == 0 {
			value = fmt.Sprintf("(SELECT %d::bigint)", a)
		}
		put = append(put, "$"+strconv.Itoa(i+1), value)
	}
	v, _ := p.fixedStmts.LoadOrStore(key, &sqlstore.Stmt{Name: q.Name, Text: strings.NewReplacer(put...).Replace(q.Text)})
	return v.(*sqlstore.Stmt), nil
}
