package postgres

import (
	"embed"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock. clock_timestamp and not now(): an expiry is tested
// with the time of the statement, not with that of the transaction.
const now = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are those that differ from the portable ones.
var statements = sqlstore.ReadTexts(sqlFiles)

// lockClause locks rows of groups and streams: "this lock will not block
// SELECT FOR KEY SHARE commands that attempt to acquire a lock on the same rows"
// (Explicit Locking, 13.3.2), so tables of the application's may refer to them.
const lockClause = "FOR NO KEY UPDATE"

// token writes in the portable statements what the planner understands.
func (p *pool) token(verb, arg string) (string, bool) {
	column, rest, _ := strings.Cut(arg, " ")
	switch verb {
	case "once":
		// clock_timestamp is volatile. A comparison with it uses no index, so it would read all
		// rows to find that nothing is due. As a subquery it is called once.
		return "(SELECT :now)", true
	case "due":
		// Of two indexes with the same order the planner may take the one without the queue, and
		// walk through the entries of all queues. So the index with the queue has the time as an
		// expression (due + 0).
		return "(" + arg + " + 0)", true
	case "behind":
		return p.token("after", "("+column+" + 0) "+rest)
	case "after":
		// From the two bounds of a range the planner expects hardly any rows, and sorts everything
		// that is due. From a row comparison it does not.
		i := strings.LastIndex(arg, " ")
		return "(" + arg[:i] + "," + arg[i:] + ") > (greatest(?::bigint, ?::bigint), ?)", true
	case "rank": // the place of an entry in an order, as package sqlstore writes it
		table, column, _ := strings.Cut(arg, ".")
		return fmt.Sprintf("(-%s.%s::bigint * %d + %[1]s.since)", table, column, sqlstore.Rank), true
	case "until":
		return p.aliveSQL(), true
	case "session":
		return p.sessionSQL(), true
	}
	return "", false
}

// hot are the statements that do in one round trip what package sqlstore does row by row.
//
// They are written so that only one plan is sensible, whatever the planner believes about the
// tables. These are empty at one moment and have a hundred thousand rows at the next. A join
// becomes a LATERAL subquery that the planner cannot merge into the rest (LIMIT, OFFSET 0, or a
// locking clause in it). So it is a lookup by key for each outer row. Rows are changed by the ctid
// that such a lookup found, which stays valid because we have them locked. For the same reason an
// index for walking a table in order has no column for looking up rows. A planner that expects one
// row would take a full scan of such an index for as good as a lookup.
//
// Arrays are hidden from the planner in (SELECT $1). Otherwise it estimates the rows of a prepared
// statement by the first arrays that it sees. It expects ten elements of any array, and plans again
// for each execution while the actual arrays are shorter. Planning these statements takes longer
// than executing them.
type hot struct {
	Send                                         [2]*sqlstore.Stmt // the second keeps a copy
	SendMany, BeginDialogs                       *sqlstore.Stmt
	SendState, Append, KeyState                  *sqlstore.Stmt
	EndFirst, EndLast, EndGuards                 *sqlstore.Stmt
	DropUnread, RemoveSides                      *sqlstore.Stmt
	PostMany, PostKeyed, PostNewKey, NewKeys     *sqlstore.Stmt
	Claims, StreamClaims                         walks
	PostClaims                                   [len(limits)]*sqlstore.Stmt
	Pages, Promotions                            [sqlstore.Widths]*sqlstore.Stmt
	ClaimOne                                     *sqlstore.Stmt
	Read, ReadUsual                              [2]*sqlstore.Stmt // the second for more than mostRead
	JoinPosts                                    *sqlstore.Stmt
	Remove, RemovePosts, Finish, Guards, Restore *sqlstore.Stmt
	Submit, FinishTasks                          *sqlstore.Stmt
	Retain, Keep, KeepPosts                      *sqlstore.Stmt
	LeaseLocked, Extend, Reclaim                 *sqlstore.Stmt
	Notify, Number, Became                       *sqlstore.Stmt
	PostLater, PostJoined                        *sqlstore.Stmt
}

// walks are the forms of a claim's first statement, by its limit. The near form looks at the head
// of the order, the deep form walks far.
type walks [2][len(limits)]*sqlstore.Stmt

const near, deep = 0, 1

// axes are the values of the variants of these statements.
var axes = func() map[string][]*strings.Replacer {
	put := strings.NewReplacer
	all := map[string][]*strings.Replacer{
		"copy": {put(":copy", ""), put(":copy", "{Copy}")},
		"depth": {put(":window", ":few", ":passable", "true"),
			put(":window", strconv.Itoa(deepWindow), ":passable", "{NotLeased}")},
		"most": {put(":most", strconv.Itoa(mostRead)), put(":most", "$2::int")},
	}
	for _, n := range limits {
		all["limit"] = append(all["limit"], put(":limit", strconv.Itoa(n), ":few", strconv.Itoa(window(n))))
	}
	for i := range sqlstore.Widths {
		all["width"] = append(all["width"], put(":window", strconv.Itoa(pageWindow*int(math.Pow10(i)))))
	}
	return all
}()
