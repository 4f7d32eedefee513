package sqlstore

import "strings"

// portableDuties has those for duties.
func portableDuties(s *Statements[string]) {
	// A page goes on behind the last row of the one before. Its limit is a literal: for
	// a parameter some planners expect a tenth of all rows, and sort them.
	s.DueDelayed = `
		SELECT d.post_id, d.due, d.name
		  FROM parley_delayed d
		 WHERE d.queue_id = ? AND (SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?) = 1
		   AND d.due <= :now AND d.due >= ? AND (d.due > ? OR d.post_id > ?)
		 ORDER BY d.due, d.post_id
		 LIMIT 100`
	// Queue 0 has the timers that older programs have set.
	s.DueTimers = `
		SELECT t.handle, t.due, ''
		  FROM parley_timer t
		 WHERE t.kind = ? AND t.queue_id = ?
		   AND coalesce((SELECT q.enabled FROM parley_queue q WHERE q.queue_id = ?), 1) = 1
		   AND t.due <= :now AND t.due >= ? AND (t.due > ? OR t.handle > ?)
		 ORDER BY t.due, t.handle
		 LIMIT 100`
	s.DelayedFirsts = `
		SELECT q.queue_id,
		       (SELECT d.due FROM parley_delayed d
		         WHERE d.queue_id = q.queue_id AND d.due < 9223372036854775807
		         ORDER BY d.queue_id, d.due LIMIT 1) - :now
		  FROM parley_queue q
		 WHERE q.enabled = 1`
	s.TimerFirsts = `
		SELECT f.queue_id,
		       (SELECT t.due FROM parley_timer t
		         WHERE t.kind = ? AND t.queue_id = f.queue_id AND t.due < 9223372036854775807
		         ORDER BY t.kind, t.queue_id, t.due LIMIT 1) - :now
		  FROM (SELECT q.queue_id FROM parley_queue q WHERE q.enabled = 1 UNION ALL SELECT 0) f`
	// The second condition is for SQLite, which looks for the one of the partial
	// index word by word, and reads the whole table if it isn't there.
	s.DueGroups = `
		SELECT group_id FROM parley_grp WHERE resweep = 1
		 UNION ALL
		SELECT group_id FROM parley_grp
		 WHERE blocked = 1 AND blocked <> 0 AND blocked_until <= :now AND resweep = 0
		 LIMIT ?`
	s.NextGroup = `
		SELECT blocked_until - :now FROM parley_grp
		 WHERE blocked = 1 AND blocked <> 0
		 ORDER BY blocked_until LIMIT 1`
	s.GroupDue = `
		SELECT 1 FROM parley_grp
		 WHERE group_id = ? AND (blocked = 1 AND blocked_until <= :now OR blocked = 0 AND resweep = 1)`
	s.DuePosts = `
		SELECT post_id, blocked_until, '' FROM parley_post
		 WHERE blocked = 1 AND blocked_until <= :now AND blocked_until >= ? AND (blocked_until > ? OR post_id > ?)
		 ORDER BY blocked_until, post_id
		 LIMIT 100`
	s.NextPost = `
		SELECT 0, blocked_until - :now FROM parley_post
		 WHERE blocked = 1
		 ORDER BY blocked_until LIMIT 1`
	s.DueProcessed = `
		SELECT post_id FROM parley_processed WHERE keep_until <= :now ORDER BY keep_until LIMIT ?`
	s.NextFinished = `
		SELECT finish_at - :now FROM parley_endpoint
		 WHERE finish_at IS NOT NULL
		 ORDER BY finish_at LIMIT 1`
	s.NextProcessed = `
		SELECT keep_until - :now FROM parley_processed ORDER BY keep_until LIMIT 1`
	s.ProcessedDelete = `
		DELETE FROM parley_processed WHERE post_id = ?`
	s.OnceDue = `
		SELECT name FROM parley_once WHERE keep_until <= :now ORDER BY keep_until LIMIT ?`
	s.OnceDelete = `
		DELETE FROM parley_once WHERE name = ? AND keep_until <= :now`
	s.ReadyQueues = `
		SELECT q.queue_id FROM parley_queue q
		 WHERE EXISTS (SELECT 1 FROM parley_ready r WHERE r.queue_id = q.queue_id)`
	// The entries at the head of a queue's ready order that are in the way:
	// those of blocked groups, and those without a message that we can see. What
	// is farther back is in nobody's way.
	s.Stale = `
		SELECT r.stream_id, r.group_id, g.blocked
		  FROM (SELECT x.stream_id, x.group_id
		          FROM parley_ready x
		         WHERE x.queue_id = ?
		         ORDER BY x.queue_id, x.priority DESC, x.since
		         LIMIT 1000) r
		  LEFT JOIN parley_grp g ON g.group_id = r.group_id
		 WHERE coalesce(g.blocked, 1) <> 0
		    OR NOT EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)`
	s.FinishedEndpoints = `
		SELECT handle FROM parley_endpoint WHERE finish_at <= :now ORDER BY finish_at LIMIT ?`
	s.EndpointsAfter = `
		SELECT e.handle,
		       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
		             AND (p.handle IS NULL AND NOT EXISTS (
		                    SELECT 1 FROM parley_stream s
		                     WHERE s.stream_id = e.handle AND s.held = 1)
		                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
		  FROM parley_endpoint e
		  LEFT JOIN parley_endpoint p ON p.handle = e.peer
		 WHERE e.handle > ? AND e.queue_id > 0
		 ORDER BY e.handle
		 LIMIT ?`
	s.GroupsAfter = `
		SELECT g.group_id,
		       CASE WHEN NOT EXISTS (SELECT 1 FROM parley_endpoint e WHERE e.group_id = g.group_id)
		             AND NOT EXISTS (SELECT 1 FROM parley_stream s
		                              WHERE s.group_id = g.group_id
		                                AND (s.kind <> 3 OR s.touched > :now - 60000000))
		             AND NOT EXISTS (SELECT 1 FROM parley_ready r
		                              WHERE r.group_id = g.group_id)
		            THEN 1 ELSE 0 END
		  FROM parley_grp g
		 WHERE g.group_id > ? AND g.queue_id > 0
		 ORDER BY g.group_id
		 LIMIT ?`
	s.WalkPlace = `
		SELECT place FROM parley_walk WHERE duty = ?`
	s.WalkPut = `
		UPDATE parley_walk SET place = ?, owner = ?, until = :now + ?
		 WHERE duty = ? AND (owner = ? OR until <= :now)`
	s.WalkStep = `
		UPDATE parley_walk SET place = ? WHERE duty = ? AND place = ?`

	s.LostPromotions = `
		SELECT p.group_id FROM parley_promotion p
		 WHERE p.queue_id > 0
		   AND NOT EXISTS (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id)
		   AND NOT EXISTS (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id)
		   AND NOT EXISTS (SELECT 1 FROM parley_delayed d WHERE d.post_id = p.group_id)
		 LIMIT ?`
}

// Hint puts something behind the tables delayed, timer and post where the statements of
// what falls due walk them in order: what has an engine take the index for that.
func Hint(s *Statements[string], delayed, timer, post string) {
	for _, x := range []struct {
		q           *string
		table, hint string
	}{
		{&s.DueDelayed, "parley_delayed d", delayed},
		{&s.DelayedFirsts, "parley_delayed d", delayed},
		{&s.DueTimers, "parley_timer t", timer},
		{&s.TimerFirsts, "parley_timer t", timer},
		{&s.DuePosts, "parley_post", post},
		{&s.NextPost, "parley_post", post},
	} {
		*x.q = strings.Replace(*x.q, "FROM "+x.table, "FROM "+x.table+" "+x.hint, 1)
	}
}
