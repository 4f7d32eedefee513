package mysql

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock: the time of the statement, in a form that no time
// zone has a part in. SYSDATE(), which is later still, would keep the server from
// using an index.
const now = `TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))`

//go:embed sql/*.sql
var sqlFiles embed.FS

// statements are those that differ from the portable ones.
var statements = sqlstore.ReadTexts(sqlFiles)

// token writes in statements what InnoDB and the optimizer need.
func token(verb, arg string) (string, bool) {
	switch verb {
	case "key":
		// A row that is looked up by its whole primary key stays locked even if another condition
		// then excludes it. The rule "for UPDATE or DELETE statements, InnoDB holds locks only for
		// rows that it updates or deletes" does not hold for such a row. So the statement asks for
		// one of two keys, the other of which no row has, which makes it a range.
		return arg + " IN (?, '')", true
	case "order":
		if arg == "post" {
			return "FORCE INDEX (blocked)", true
		}
		return "FORCE INDEX (place)", true
	case "at", "under":
		// The indexes have it as urgency, with the opposite sign.
		x, _, qualified := strings.Cut(arg, ".")
		column, compare := "urgency", map[string]string{"at": " = -?", "under": " > -?"}[verb]
		if qualified {
			column = x + "." + column
		}
		return column + compare, true
	case "new":
		// IGNORE waits for a transaction that has inserted the same key and not yet
		// committed, and then inserts nothing or the row. There is nothing else in these rows
		// for it to overlook.
		return "INSERT IGNORE", true
	case "otherwise":
		return "", true
	case "made":
		return "replace(" + arg + ", '" + backend.AttemptNow + "', concat('\"at\":', :now))", true
	case "witness":
		x := strings.Fields(arg)
		return fmt.Sprintf("(SELECT 1 FROM %s w WHERE w.%s = %s.%[2]s LIMIT 1)", x[0], x[1], x[2]), true
	case "safely":
		return safely, true
	}
	return "", false
}

// adapt writes the portable statements in the words that the optimizers here understand.
func adapt(sql string, portable bool) string {
	if portable {
		sql = lookups(ascending.ReplaceAllString(sql, "${1}urgency"))
	}
	return sheltered(sql)
}

// ascending matches how the portable statements walk from the most urgent.
var ascending = regexp.MustCompile(`(\w+\.|\b)(?:priority|level) DESC`)

// lookups writes EXISTS as a lookup for each row. Otherwise the optimizers usually make a join of
// it, and then read all of a large table for the first row.
func lookups(text string) string {
	for {
		i := strings.Index(text, "EXISTS (SELECT 1")
		if i < 0 {
			return text
		}
		depth, end := 0, i
		for end = i; end < len(text); end++ {
			if text[end] == '(' {
				depth++
			} else if text[end] == ')' {
				if depth--; depth == 0 {
					break
				}
			}
		}
		before, is := text[:i], " IS NOT NULL"
		if b, ok := strings.CutSuffix(before, "NOT "); ok {
			before, is = b, " IS NULL"
		}
		text = before + text[i+len("EXISTS "):end] + " LIMIT 1)" + is + text[end+1:]
	}
}

// hot are the statements that do in few round trips what package sqlstore does row by row. One of
// their parameters may be a list; see inline.
//
// "A locking read clause in an outer statement does not lock the rows of a table in a nested
// subquery unless a locking read clause is also specified in the subquery" (Locking Reads), nor the
// other way round. So a walk reads the order without locking it. For one entry after the other, a
// subquery locks the group's row if it is free, until the walk has enough. CASE keeps the lock
// behind the conditions.
type hot struct {
	Advance, Insert, Place, PlaceSent, Next, Append, Mark *sqlstore.Stmt
	States                                                [2]*sqlstore.Stmt // the second leaves out those that others have locked
	PostMany, Keys, NewGroups, NewStreams                 *sqlstore.Stmt
	AdvanceKey, InsertKeyed, PlaceKey                     *sqlstore.Stmt
	NewKeys, NewKeysFree, NewKey                          *sqlstore.Stmt
	BeginState, BeginGroups, NewEndpoints, NewDialogs     *sqlstore.Stmt
	EndGuards, Closings, CloseSides, RemoveQuiet          *sqlstore.Stmt
	Head, Promoted, Walk, Posts, PostsOnly, Flow          *sqlstore.Stmt
	ReadyAfter, PostAfter                                 *sqlstore.Stmt
	ClaimOne, LockOne, Read, ReadTwo, Messages            *sqlstore.Stmt
	LeaseGroups, UnleaseGroups, LeaseLocked               *sqlstore.Stmt
	JoinLock, JoinPosts, JoinDelete                       *sqlstore.Stmt
	Remove, RemovePosts, Guards, Look, Belong, Restore    *sqlstore.Stmt
	Clear, Restand                                        *sqlstore.Stmt
	Submit, Start, HoldTasks, FinishTasks                 *sqlstore.Stmt
	Newest                                                *sqlstore.Stmt
	Probe, Probed, Unprobe, Where                         *sqlstore.Stmt
	Retain, Keep, KeepPosts                               *sqlstore.Stmt
	ReclaimGroups, ReclaimPosts, TookGroups, TookPosts    *sqlstore.Stmt
	ExtendGroups, ExtendPosts, LeasedGroups               *sqlstore.Stmt
	LeasedPosts                                           *sqlstore.Stmt
}

// axes are the values of the variants of these statements.
var axes = map[string][]*strings.Replacer{
	"locked": {strings.NewReplacer(" :locked", ""), strings.NewReplacer(":locked", "SKIP LOCKED")},
}
