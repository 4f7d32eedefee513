package mysql

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parleymq/parley/backend/internal/backendtest"
)

// What an interrupted statement may answer with NULL in the place of a subquery, without an error, and
// why that does no harm: see sqlstore.Witness.
const (
	witnessed = "the last column, or the last condition, is a witness"
	counted   = "a later subquery is a count, or a number that is always there, and NULL for it is an error"
	locked    = "the subquery that locks comes last, and without it the row is left out"
	hidden    = "what is hidden is found by the next look"
	again     = "what is found is looked at again under its lock"
	refused   = "the lease counts as lost, and the message comes again"
	unique    = "the key is unique"
	shown     = "it is shown to people"
)

// subqueries says so of each statement that has one.
var subqueries = map[string]string{
	"Belong": witnessed, "Look": witnessed, "LostPromotions": witnessed, "GroupWaits": witnessed, "MarkersAstray": witnessed,
	"BeginState": counted, "EndRead": counted, "EndUnread": counted, "GroupUse": counted, "ScheduleRead": counted, "States": counted, "StreamRead": counted,
	"Flow": locked, "Posts": locked, "PostsOnly": locked, "Promoted": locked, "Walk": locked,
	"EndpointsAfter": again, "GroupsAfter": again, "SchedulesReady": again, "Stale": again,
	"GroupReclaimWait": refused, "PostReclaimWait": refused, "ReclaimGroups": refused, "ReclaimPosts": refused,
	"BeginGroups": "it begins nothing then, which counts as a catalog that has changed",
	"EndGuards":   "the lock is tried once more",
	"AdvanceKey":  "no key is found then, and the post goes the way of many",
	"NewKey":      unique, "NewKeysFree": unique,
	"ClaimOne": hidden, "DelayedFirsts": hidden, "DueDelayed": hidden, "Head": hidden, "GroupVisible": hidden,
	"LockGraph": hidden, "Newest": hidden, "Read": hidden, "ReadTwo": hidden, "ReadyAfter": hidden, "ReadyQueues": hidden, "TimerFirsts": hidden, "Waiting": hidden,
	"ConversationCounts": shown, "GroupDetails": shown, "ListPosts": shown, "ListPostsAfter": shown,
	"ListPromoted": shown, "ListPromotedAfter": shown, "ListPromotions": shown, "ListReady": shown, "ListReadyAfter": shown,
	"ListHeld": shown, "ListHeldIn": shown, "ListMessages": shown, "ListMessagesIn": shown,
	"ListTasks": shown, "ListWithheld": shown, "QueueStatus": shown,
	"DueTimers":    "a timer of a queue that is disabled fires all the same: its message waits there",
	"GroupStreams": "the conversations of a group come in another order, this once",
	"Insert":       "a message for a conversation that is ending is stored, and removed with it: its sender is not told",
}

// subquery matches one whose place may be NULL. What FROM and JOIN read is no such place.
var subquery = regexp.MustCompile(`(\w+)?\s*\(\s*SELECT`)

// TestSubqueries: each statement with a subquery has a reason why an interrupted one does no harm.
func TestSubqueries(t *testing.T) {
	seen := make(map[string]bool)
	for name, sql := range backendtest.Compiled(t) {
		sql = strings.Join(strings.Fields(sql), " ")
		if !slices.ContainsFunc(subquery.FindAllStringSubmatch(sql, -1), func(m []string) bool { return m[1] != "FROM" && m[1] != "JOIN" }) {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		name, _, _ = strings.Cut(name, "[")
		if seen[name] = true; subqueries[name] == "" {
			t.Errorf("%s has a subquery: what if the server interrupts it without an error? (sqlstore.Witness)\n%s", name, sql)
		}
		if subqueries[name] == witnessed && !strings.Contains(sql, " w WHERE w.") {
			t.Errorf("%s has no witness:\n%s", name, sql)
		}
	}
	for name := range subqueries {
		if !seen[name] {
			t.Errorf("%s has no subquery", name)
		}
	}
}
