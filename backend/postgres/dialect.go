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
		// clock_timestamp is volatile: what is compared with it is looked up in no index,
		// and to find that nothing is due all rows would be read. As a subquery it is
		// called once.
		return "(SELECT :now)", true
	case "due":
		// Of two indexes that have the order the planner may take the one without the queue,
		// and pass all that others have. So one of them has it as an expression.
		return "(" + arg + " + 0)", true
	case "behind":
		return p.token("after", "("+column+" + 0) "+rest)
	case "after":
		// Of two bounds of a range the planner expects that they leave next to nothing, and
		// sorts all that is due; of a row that is compared it does not.
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

// hot are the statements that do in one trip what package sqlstore does row by
// row.
//
// They are written so that there is one sensible plan, whatever the planner
// believes of the tables, which are empty at one moment and hold a hundred
// thousand rows at the next. A join becomes a LATERAL subquery that the planner
// cannot merge into the rest (LIMIT, OFFSET 0, or a locking clause in it), so
// that it is a lookup by key for each row outside; and rows are changed by the
// ctid that such a lookup found, which holds because they are locked by us. For
// the same reason the indexes by which tables are walked in order have no column
// by which rows are looked up: to a planner that expects one row a scan of such
// an index from end to end is as good as a lookup.
//
// Arrays are hidden from the planner in (SELECT $1), as it estimates the rows of
// a prepared statement by the first arrays that it sees, and plans anew for each
// execution as long as those are shorter than the ten elements that it expects of
// any array. Planning these statements takes longer than executing them.
type hot struct {
	Send                                         [2]*sqlstore.Stmt // the second keeps a copy
	BeginDialogs, SendState, Append, KeyState    *sqlstore.Stmt
	EndFirst, EndGuards, DropUnread, RemoveSides *sqlstore.Stmt
	PostMany, PostKeyed, PostNewKey, NewKeys     *sqlstore.Stmt
	Claims, StreamClaims                         walks
	PostClaims                                   [len(limits)]*sqlstore.Stmt
	Pages, Promotions                            [sqlstore.Widths]*sqlstore.Stmt
	ClaimOne                                     *sqlstore.Stmt
	Read                                         [2]*sqlstore.Stmt // the second for more than mostRead
	JoinPosts                                    *sqlstore.Stmt
	Remove, RemovePosts, Finish, Guards, Restore *sqlstore.Stmt
	Submit, FinishTasks                          *sqlstore.Stmt
	Retain, Keep, KeepPosts                      *sqlstore.Stmt
	LeaseLocked, Extend, Reclaim                 *sqlstore.Stmt
	Notify                                       *sqlstore.Stmt
}

// walks are the forms of a claim's first statement, by its limit: the near one looks at the
// head of the order, the deep one walks far.
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
