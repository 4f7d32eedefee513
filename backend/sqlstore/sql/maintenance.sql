-- name: DueDelayed
-- A page goes on behind the last row of the one before. Its limit is a literal: for
-- a parameter some planners expect a tenth of all rows, and sort them.
-- Maintenance skips what is locked and come again.
SELECT d.post_id, {due d.due}, d.name, d.queue_id
  FROM parley_delayed d {order delayed} {read dirty}
 WHERE d.queue_id = ? AND (SELECT q.enabled FROM parley_queue q {read wait} WHERE q.queue_id = ?) = 1
   AND {due d.due} <= {once} AND {behind d.due d.post_id}
 ORDER BY {due d.due}, d.post_id
 {limit 100}
-- name: DueTimers
-- Queue 0 has the timers that older programs have set.
SELECT t.handle, {due t.due}, '', t.queue_id
  FROM parley_timer t {order timer} {read dirty}
 WHERE t.kind = ? AND t.queue_id = ?
   AND coalesce((SELECT q.enabled FROM parley_queue q {read wait} WHERE q.queue_id = ?), 1) = 1
   AND {due t.due} <= {once} AND {behind t.due t.handle}
 ORDER BY {due t.due}, t.handle
 {limit 100}
-- name: DelayedFirsts
SELECT q.queue_id,
       (SELECT {due d.due} FROM parley_delayed d {order delayed} {read dirty}
         WHERE d.queue_id = q.queue_id AND {due d.due} < 9223372036854775807
         ORDER BY d.queue_id, {due d.due} {limit 1}) - :now
  FROM parley_queue q {read wait}
 WHERE q.enabled = 1
-- name: TimerFirsts
SELECT f.queue_id,
       (SELECT {due t.due} FROM parley_timer t {order timer} {read dirty}
         WHERE t.kind = ? AND t.queue_id = f.queue_id AND {due t.due} < 9223372036854775807
         ORDER BY t.kind, t.queue_id, {due t.due} {limit 1}) - :now
  FROM (SELECT q.queue_id FROM parley_queue q {read wait} WHERE q.enabled = 1 UNION ALL SELECT 0) f
-- name: DueGroups
-- The second condition is for SQLite. It compares conditions with that of the partial index word by
-- word, and without a match reads the whole table.
SELECT group_id FROM parley_grp WHERE resweep = 1
 UNION ALL
SELECT group_id FROM parley_grp
 WHERE blocked = 1 AND blocked <> 0 AND blocked_until <= {once} AND resweep = 0
 LIMIT ?
-- name: NextGroup
SELECT blocked_until - :now FROM parley_grp {read dirty}
 WHERE blocked = 1 AND blocked <> 0
 ORDER BY blocked_until {limit 1}
-- name: GroupDue
SELECT 1 FROM parley_grp {read dirty}
 WHERE group_id = ? AND (blocked = 1 AND blocked_until <= :now OR blocked = 0 AND resweep = 1)
-- name: DuePosts
SELECT post_id, blocked_until, '', queue_id FROM parley_post {order post} {read dirty}
 WHERE blocked = 1 AND blocked_until <= {once} AND {after blocked_until post_id}
 ORDER BY blocked_until, post_id
 {limit 100}
-- name: NextPost
SELECT 0, blocked_until - :now FROM parley_post {order post} {read dirty}
 WHERE blocked = 1
 ORDER BY blocked_until {limit 1}
-- name: DueProcessed
SELECT post_id FROM parley_processed {read skip} WHERE keep_until <= {once} ORDER BY keep_until {limit ?}
-- name: NextFinished
SELECT finish_at - :now FROM parley_endpoint {read skip}
 WHERE finish_at IS NOT NULL
 ORDER BY finish_at {limit 1}
-- name: NextProcessed
SELECT keep_until - :now FROM parley_processed {read skip} ORDER BY keep_until {limit 1}
-- name: ProcessedDelete
DELETE FROM parley_processed WHERE post_id = ?
-- name: OnceDue
SELECT name FROM parley_once {read skip} WHERE keep_until <= {once} ORDER BY keep_until {limit ?}
-- name: OnceDelete
DELETE FROM parley_once WHERE name = ? AND keep_until <= :now
-- name: ReadyQueues
SELECT q.queue_id FROM parley_queue q {read wait}
 WHERE EXISTS (SELECT 1 FROM parley_ready r {read skip} WHERE r.queue_id = q.queue_id)
-- name: Stale
-- The entries at the head of a queue's ready order that are in the way. They are those
-- of blocked groups, and those without a message that we can see. What is farther back
-- is in no claim's way.
SELECT r.stream_id, r.group_id, g.blocked
  FROM (SELECT x.stream_id, x.group_id
          FROM parley_ready x {read skip by_order}
         WHERE x.queue_id = ?
         ORDER BY x.queue_id, x.priority DESC, x.since
         {limit 1000}) r
  LEFT JOIN parley_grp g {read dirty} ON g.group_id = r.group_id
 WHERE coalesce(g.blocked, 1) <> 0
    OR NOT EXISTS (SELECT 1 FROM parley_message m {read skip} WHERE m.stream_id = r.stream_id)
-- name: FinishedEndpoints
SELECT handle FROM parley_endpoint WHERE finish_at <= {once} ORDER BY finish_at LIMIT ?
-- name: EndpointsAfter
SELECT e.handle,
       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
             AND (p.handle IS NULL
                  AND NOT EXISTS (SELECT 1 FROM parley_stream s {read dirty}
                                   WHERE s.stream_id = e.handle AND s.held = 1)
                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
  FROM parley_endpoint e {read dirty}
  LEFT JOIN parley_endpoint p {read dirty} ON p.handle = e.peer
 WHERE e.handle > ? AND e.queue_id > 0
 ORDER BY e.handle
 {limit ?}
-- name: GroupsAfter
-- 1: nothing seems to refer to the group. 2: a stream of it seems to have messages and no marker.
SELECT g.group_id,
       CASE WHEN NOT EXISTS (SELECT 1 FROM parley_endpoint e {read dirty} WHERE e.group_id = g.group_id)
             AND NOT EXISTS (SELECT 1 FROM parley_stream s {read dirty}
                              WHERE s.group_id = g.group_id
                                AND (s.kind <> 3 OR s.touched > :now - 60000000))
             AND NOT EXISTS (SELECT 1 FROM parley_ready r {read dirty}
                              WHERE r.group_id = g.group_id)
            THEN 1
            WHEN g.blocked = 0
             AND EXISTS (SELECT 1 FROM parley_stream s {read dirty}
                          WHERE s.group_id = g.group_id
                            AND EXISTS (SELECT 1 FROM parley_message m {read dirty}
                                         WHERE m.stream_id = s.stream_id)
                            AND NOT EXISTS (SELECT 1 FROM parley_ready r {read dirty}
                                             WHERE r.group_id = s.group_id AND r.stream_id = s.stream_id))
            THEN 2 ELSE 0 END
  FROM parley_grp g {read dirty}
 WHERE g.group_id > ? AND g.queue_id > 0
 ORDER BY g.group_id
 {limit ?}
-- name: WalkPlace
SELECT place FROM parley_walk {read wait} WHERE duty = ?
-- name: WalkPut
UPDATE parley_walk SET place = ?, owner = ?, until = :now + ?
 WHERE duty = ? AND (owner = ? OR until <= :now)
-- name: WalkStep
UPDATE parley_walk SET place = ? WHERE duty = ? AND place = ?
-- name: LostPromotions
SELECT p.group_id, {witness parley_promotion group_id p} FROM parley_promotion p {read skip}
 WHERE p.queue_id > 0
   AND NOT EXISTS (SELECT 1 FROM parley_grp g {read dirty} WHERE g.group_id = p.group_id)
   AND NOT EXISTS (SELECT 1 FROM parley_post o {read dirty} WHERE o.post_id = p.group_id)
   AND NOT EXISTS (SELECT 1 FROM parley_delayed d {read dirty} WHERE d.post_id = p.group_id)
 {some ?}
