-- name: QueueStatus
-- Everything of all queues in one trip. Counts are bounded one by one.
-- For operators. Rows that are added and removed are shown as committed, without
-- those that a transaction is changing. Rows that are changed in place, groups above
-- all, are shown as their transactions leave them. No reader waits for a transaction,
-- and no transaction waits for a reader.
-- The oldest message is looked for at each priority, because each has its own order.
SELECT q.queue_id, q.name, q.enabled,
       (SELECT count(*) FROM (SELECT 1 AS one
                                FROM parley_ready r {read skip}
                                JOIN parley_message m {read skip} ON m.stream_id = r.stream_id
                               WHERE r.queue_id = q.queue_id
                               {some 10000}) x)
     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p {read skip}
                               WHERE p.queue_id = q.queue_id AND p.blocked = 0
                               {some 10000}) x),
       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_delayed d {read skip}
                               WHERE d.queue_id = q.queue_id
                               {some 10000}) x),
       (SELECT count(*) FROM (SELECT DISTINCT r.group_id
                                FROM (SELECT group_id FROM parley_ready {read skip}
                                       WHERE queue_id = q.queue_id
                                       ORDER BY queue_id, priority DESC, since
                                       {limit 10000}) r
                                JOIN parley_grp g {read dirty} ON g.group_id = r.group_id
                               WHERE g.lease_until > :now) x)
     + (SELECT count(*) FROM (SELECT lease_until FROM parley_post {read dirty}
                               WHERE queue_id = q.queue_id AND blocked = 0
                               ORDER BY queue_id, priority DESC, since
                               {limit 10000}) p
         WHERE p.lease_until > :now),
       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g {read dirty}
                               WHERE g.blocked = 1 AND g.queue_id = q.queue_id AND g.blocked <> 0
                               {some 10000}) x)
     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p {read dirty}
                               WHERE p.blocked = 1 AND p.queue_id = q.queue_id AND p.blocked <> 0
                               {some 10000}) x),
       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g {read dirty}
                               WHERE g.blocked = 2 AND g.queue_id = q.queue_id AND g.blocked <> 0
                               {some 10000}) x)
     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p {read dirty}
                               WHERE p.blocked = 2 AND p.queue_id = q.queue_id AND p.blocked <> 0
                               {some 10000}) x),
       (SELECT count(*) FROM (SELECT 1 AS one
                                FROM parley_stream s {read dirty}
                                JOIN parley_held h {read skip} ON h.stream_id = s.stream_id
                               WHERE s.held = 1 AND s.queue_id = q.queue_id
                               {some 10000}) x),
       CASE WHEN EXISTS (SELECT 1 FROM parley_ready r {read skip} WHERE r.queue_id = q.queue_id) THEN
         (SELECT min(x.since)
            FROM (SELECT (SELECT r.since FROM parley_ready r {read skip}
                           WHERE r.queue_id = q.queue_id AND r.priority = l.priority
                             AND EXISTS (SELECT 1 FROM parley_message m {read skip} WHERE m.stream_id = r.stream_id)
                           ORDER BY r.since {limit 1}) AS since
                    FROM (SELECT 1 AS priority UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                           UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8
                           UNION ALL SELECT 9 UNION ALL SELECT 10) l) x) END,
       CASE WHEN EXISTS (SELECT 1 FROM parley_post p {read skip} WHERE p.queue_id = q.queue_id AND p.blocked = 0) THEN
         (SELECT min(x.since)
            FROM (SELECT (SELECT p.since FROM parley_post p {read skip}
                           WHERE p.queue_id = q.queue_id AND p.priority = l.priority AND p.blocked = 0
                           ORDER BY p.since {limit 1}) AS since
                    FROM (SELECT 1 AS priority UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                           UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8
                           UNION ALL SELECT 9 UNION ALL SELECT 10) l) x) END,
       :now
  FROM parley_queue q {read wait}
 WHERE q.queue_id BETWEEN ? AND ?
 ORDER BY q.name
-- name: ListPromotions
SELECT p.group_id, p.queue_id, p.level, p.sticky,
       CASE WHEN EXISTS (SELECT 1 FROM parley_endpoint e {read dirty}
                          WHERE e.group_id = p.group_id AND e.closed_at IS NULL)
              OR EXISTS (SELECT 1 FROM parley_stream s {read dirty} WHERE s.stream_id = p.group_id AND s.kind = 3)
              OR EXISTS (SELECT 1 FROM parley_post o {read dirty} WHERE o.post_id = p.group_id)
              OR EXISTS (SELECT 1 FROM parley_delayed d {read dirty} WHERE d.post_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p {read skip}
 WHERE p.group_id > ? AND p.queue_id > 0
 ORDER BY p.group_id
 {limit ?}
-- name: ListAstray
-- A page of messages by stream, each with its group and whether a marker leads to it. A marker that is being
-- written is one, so that a group in use does not look stranded.
SELECT m.stream_id, s.stream_id, s.group_id,
       CASE WHEN r.stream_id IS NULL AND g.blocked = 0 AND g.resweep = 0 THEN 1 ELSE 0 END
  FROM (SELECT x.stream_id FROM parley_message x {read skip}
         WHERE x.stream_id > ?
         ORDER BY x.stream_id, x.seq
         {limit ?}) m
  LEFT JOIN parley_stream s {read dirty} ON s.stream_id = m.stream_id
  LEFT JOIN parley_grp g {read dirty} ON g.group_id = s.group_id
  LEFT JOIN parley_ready r {read dirty} ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 ORDER BY m.stream_id
-- The lists of groups begin below a rank, and those called After go on behind a place in one.
-- A group that is held is of kind 2, another one of kind 1; those of one kind are left out.
-- name: ListPromoted
SELECT p.group_id, p.level, p.since,
       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g {read dirty} WHERE g.group_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p {read skip}
 WHERE p.queue_id = ? AND {under p.level}
   AND (EXISTS (SELECT 1
                  FROM parley_ready r {read skip}
                  JOIN parley_grp g {read dirty} ON g.group_id = r.group_id
                  JOIN parley_message m {read skip} ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < :now THEN 1 ELSE 2 END <> ?)
     OR EXISTS (SELECT 1 FROM parley_post o {read dirty}
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < :now THEN 1 ELSE 2 END <> ?))
 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
 {limit ?}
-- name: ListPromotedAfter
SELECT p.group_id, p.level, p.since,
       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g {read dirty} WHERE g.group_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p {read skip}
 WHERE p.queue_id = ? AND {at p.level} AND {after p.since p.group_id}
   AND (EXISTS (SELECT 1
                  FROM parley_ready r {read skip}
                  JOIN parley_grp g {read dirty} ON g.group_id = r.group_id
                  JOIN parley_message m {read skip} ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < :now THEN 1 ELSE 2 END <> ?)
     OR EXISTS (SELECT 1 FROM parley_post o {read dirty}
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < :now THEN 1 ELSE 2 END <> ?))
 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
 {limit ?}
-- name: ListReady
-- A group stands where the best of its markers with messages does.
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r {read skip}
 WHERE r.queue_id = ? AND {under r.priority}
   AND EXISTS (SELECT 1 FROM parley_grp g {read dirty}
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < :now THEN 1 ELSE 2 END <> ?)
   AND EXISTS (SELECT 1 FROM parley_message m {read skip} WHERE m.stream_id = r.stream_id)
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p {read skip}
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id)
   AND NOT EXISTS (SELECT 1 FROM parley_ready b {read skip}
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND EXISTS (SELECT 1 FROM parley_message m {read skip}
                                   WHERE m.stream_id = b.stream_id))
 ORDER BY r.queue_id, r.priority DESC, r.since, r.group_id
 {limit ?}
-- name: ListReadyAfter
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r {read skip}
 WHERE r.queue_id = ? AND {at r.priority} AND {after r.since r.group_id}
   AND EXISTS (SELECT 1 FROM parley_grp g {read dirty}
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < :now THEN 1 ELSE 2 END <> ?)
   AND EXISTS (SELECT 1 FROM parley_message m {read skip} WHERE m.stream_id = r.stream_id)
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p {read skip}
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id)
   AND NOT EXISTS (SELECT 1 FROM parley_ready b {read skip}
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND EXISTS (SELECT 1 FROM parley_message m {read skip}
                                   WHERE m.stream_id = b.stream_id))
 ORDER BY r.queue_id, r.priority DESC, r.since, r.group_id
 {limit ?}
-- name: ListPosts
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o {read skip}
 WHERE o.queue_id = ? AND o.blocked = 0 AND {under o.priority}
   AND CASE WHEN o.lease_until < :now THEN 1 ELSE 2 END <> ?
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p {read skip}
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id)
 ORDER BY o.queue_id, o.priority DESC, o.since, o.post_id
 {limit ?}
-- name: ListPostsAfter
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o {read skip}
 WHERE o.queue_id = ? AND o.blocked = 0 AND {at o.priority} AND {after o.since o.post_id}
   AND CASE WHEN o.lease_until < :now THEN 1 ELSE 2 END <> ?
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p {read skip}
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id)
 ORDER BY o.queue_id, o.priority DESC, o.since, o.post_id
 {limit ?}
-- name: ListBlocked
-- Those that are deferred, or those that are parked, by blocked_until: of a parked one that is when it was parked.
SELECT group_id, blocked_until, blocked_since, reason, service, name, :now FROM parley_grp {read dirty}
 WHERE blocked = ? AND blocked <> 0 AND queue_id = ? AND {after blocked_until group_id}
 ORDER BY blocked, blocked_until, group_id
 {limit ?}
-- name: ListBlockedPosts
SELECT post_id, blocked_until, blocked_since, reason, '', '', :now FROM parley_post {read dirty}
 WHERE blocked = ? AND blocked <> 0 AND queue_id = ? AND {after blocked_until post_id}
 ORDER BY blocked, blocked_until, post_id
 {limit ?}
-- name: GroupDetails
-- Groups, each with the number of its messages, the first of them, and how many no marker leads to. These are right if
-- together the groups have fewer messages than the bound. A marker that is being written is one, so that a group in use does not look stranded.
--
-- groups, groups
SELECT g.group_id, g.service, g.name, g.queue_id, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
       g.blocked_until, g.reason, :now, p.level, p.sticky,
       (SELECT max(r.priority) FROM parley_ready r {read skip}
         WHERE r.group_id = g.group_id),
       c.messages, c.since, c.astray
  FROM parley_grp g {read dirty}
  LEFT JOIN parley_promotion p {read skip} ON p.group_id = g.group_id
  LEFT JOIN (SELECT x.group_id, count(*) AS messages, min(x.since) AS since, count(x.astray) AS astray
               FROM (SELECT s.group_id, m.since, CASE WHEN r.stream_id IS NULL THEN 1 END AS astray
                       FROM parley_stream s {read dirty}
                       LEFT JOIN parley_ready r {read dirty} ON r.group_id = s.group_id AND r.stream_id = s.stream_id
                       JOIN parley_message m {read skip} ON m.stream_id = s.stream_id
                      WHERE s.group_id IN ({{50 ?}})
                      {some 10000}) x
              GROUP BY x.group_id) c ON c.group_id = g.group_id
 WHERE g.group_id IN ({{50 ?}})
-- name: PostDetails
SELECT o.post_id, o.queue_id, o.lease_until, o.held_since, o.owner, o.blocked, o.blocked_since, o.blocked_until,
       o.reason, :now, p.level, p.sticky, o.priority, o.since
  FROM parley_post o {read dirty}
  LEFT JOIN parley_promotion p {read skip} ON p.group_id = o.post_id
 WHERE o.post_id IN ({{50 ?}})
-- name: ListConversations
SELECT handle, conversation FROM parley_endpoint {read dirty}
 WHERE conversation > ? AND queue_id > 0
 ORDER BY conversation, initiator DESC
 {limit ?}
-- name: ListConversation
SELECT e.handle, e.conversation
  FROM parley_endpoint e {read dirty}
  JOIN parley_endpoint x {read dirty} ON x.conversation = e.conversation
 WHERE x.handle = ? AND e.conversation > ?
 ORDER BY e.conversation, e.initiator DESC
 {limit ?}
-- name: ListConversationsOfGroup
SELECT handle, conversation FROM parley_endpoint {read dirty}
 WHERE group_id = ? AND conversation > ?
 ORDER BY conversation, initiator DESC
 {limit ?}
-- name: ConversationCounts
SELECT e.begun, :now,
       (SELECT t.due FROM parley_timer t {read skip} WHERE t.handle = e.handle AND t.kind = 0),
       (SELECT count(*)
          FROM (SELECT 1 AS one
                  FROM parley_stream s {read dirty}
                  JOIN parley_message m {read skip} ON m.stream_id = s.stream_id
                 WHERE s.group_id = e.group_id AND s.endpoint = e.handle
                 {some 10000}) x),
       (SELECT count(*)
          FROM (SELECT 1 AS one FROM parley_held h {read skip} WHERE h.stream_id = e.handle {some 10000}) x),
       (SELECT h.status FROM parley_held h {read skip} WHERE h.stream_id = e.handle ORDER BY h.seq {limit 1})
  FROM parley_endpoint e {read dirty}
 WHERE e.handle = ?
-- name: ListWithheld
SELECT s.stream_id,
       (SELECT count(*)
          FROM (SELECT 1 AS one FROM parley_held h {read skip} WHERE h.stream_id = s.stream_id {some 10000}) x),
       (SELECT h.status FROM parley_held h {read skip} WHERE h.stream_id = s.stream_id ORDER BY h.seq {limit 1}),
       (SELECT h.since FROM parley_held h {read skip} WHERE h.stream_id = s.stream_id ORDER BY h.seq {limit 1}),
       :now
  FROM parley_stream s {read skip}
 WHERE s.held = 1 AND s.stream_id > ?
 ORDER BY s.stream_id
 {limit ?}
-- name: ListRetained
SELECT stream_id, seq, sent, message_id, kind, type, body, headers, since
  FROM parley_retained {read skip}
 WHERE handle = ?
 ORDER BY since, kept, stream_id, seq
-- name: ListDead
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN {convert ? smallint} = 1 THEN body END, coalesce({octets body}, 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, :now
  FROM parley_dead_letter {read skip}
 WHERE died <= ? AND (died < ? OR message_id < ?)
 ORDER BY died DESC, message_id DESC
 {limit ?}
-- name: ListDeadOf
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN {convert ? smallint} = 1 THEN body END, coalesce({octets body}, 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, :now
  FROM parley_dead_letter {read skip}
 WHERE queue_id = ? AND died <= ? AND (died < ? OR message_id < ?)
 ORDER BY queue_id, died DESC, message_id DESC
 {limit ?}
-- The lists of what waits. Each reads a range of a primary key, and for each row its stream, by subqueries, which no
-- planner turns into a join with all streams.
-- name: ListLater
SELECT post_id, 0, post_id, NULL, NULL, queue_id, type, headers
  FROM parley_delayed {read dirty}
 WHERE post_id > ?
 ORDER BY post_id
 {limit ?}
-- name: ListHeld
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s {read dirty} WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h {read skip}
 WHERE h.stream_id > ?
 ORDER BY h.stream_id, h.seq
 {limit ?}
-- name: ListHeldIn
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s {read dirty} WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h {read skip}
 WHERE h.stream_id = ? AND h.seq > ?
 ORDER BY h.stream_id, h.seq
 {limit ?}
-- name: ListMessages
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s {read dirty} WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s {read dirty} WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m {read skip}
 WHERE m.stream_id > ?
 ORDER BY m.stream_id, m.seq
 {limit ?}
-- name: ListMessagesIn
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s {read dirty} WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s {read dirty} WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m {read skip}
 WHERE m.stream_id = ? AND m.seq > ?
 ORDER BY m.stream_id, m.seq
 {limit ?}
-- name: ListPostsByID
SELECT post_id, 0, post_id, post_id, post_id, queue_id, type, headers
  FROM parley_post {read dirty}
 WHERE post_id > ?
 ORDER BY post_id
 {limit ?}
-- name: FindMessage
SELECT s.group_id
  FROM parley_message m {read skip}
  JOIN parley_stream s {read dirty} ON s.stream_id = m.stream_id
 WHERE m.message_id = ?
 UNION ALL
SELECT h.stream_id FROM parley_held h {read skip} WHERE h.message_id = ?
 UNION ALL
SELECT o.post_id FROM parley_post o {read dirty} WHERE o.post_id = ?
-- name: PostStatusPost
SELECT type, body, headers FROM parley_post {read skip} WHERE post_id = ? AND queue_id = ?
-- name: PostStatusKeyed
SELECT g.name, m.type, m.body, m.headers
  FROM parley_message m {read skip}
  JOIN parley_stream s {read dirty} ON s.stream_id = m.stream_id
  JOIN parley_grp g {read dirty} ON g.group_id = s.group_id
 WHERE m.message_id = ? AND m.kind = 4 AND s.queue_id = ?
-- name: PostStatusProcessed
SELECT name, type, body, headers FROM parley_processed {read skip} WHERE post_id = ? AND queue_id = ?
