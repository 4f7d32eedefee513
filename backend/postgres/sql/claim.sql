-- name: TimerTry
SELECT 1 FROM parley_timer {lock skip} WHERE handle = ? AND kind + 0 = ?
-- name: PromotionPut
INSERT INTO parley_promotion AS p (group_id, queue_id, level, since, version, sticky)
VALUES ($1, $2, $3, :now, :now, $4)
ON CONFLICT (group_id) DO UPDATE
   SET level = excluded.level, since = excluded.since, sticky = excluded.sticky,
       version = greatest(p.version + 1, excluded.version)
-- name: Waiting
-- The orders keep the planner from a sequential scan, which it prefers where
-- it expects to find a row soon.
SELECT 1
 WHERE (SELECT 1
          FROM (SELECT x.group_id FROM parley_ready x
                 WHERE x.queue_id = $1
                 ORDER BY x.queue_id, x.priority DESC, x.since) r
         CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                              WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g
         LIMIT 1) IS NOT NULL
    OR (SELECT 1
          FROM (SELECT x.post_id FROM parley_post x
                 WHERE x.queue_id = $2 AND x.blocked = 0
                 ORDER BY x.queue_id, x.priority DESC, x.since
                 LIMIT 1) p) IS NOT NULL

-- name: NotLeased
-- Groups that a deep claim skips without a lookup. To look up every held group would cost three
-- times as much as the rest of the walk. The limit keeps the planner from comparing each with each;
-- if there are more groups, the others are looked up.
         e.group_id NOT IN (
           SELECT g.group_id FROM parley_grp g
            WHERE g.queue_id = $1 AND g.lease_until <> 0 AND g.lease_until > (SELECT now FROM t)
            ORDER BY g.queue_id, g.lease_until
            LIMIT 20000)

-- name: Claims
-- axis: depth limit
-- A claim's first statement: it finds what there is to claim, and locks it.
--
-- Promotions come first, one at a time: a group and a post locked together could not be returned
-- together. If there are more promotions than the window and none in it is free, the statement
-- stops. But $3 can say that all of them have been checked (add 4). Then follows one of two orders,
-- that of the streams or that of the posts without key. It is the order whose head, locked or not,
-- ranks higher, or the one that $3 prefers (1 streams, 2 posts). If nothing in it can be locked,
-- the other order follows. Entries before the head of the streams are not checked again: they are
-- blocked, held by lease, or without a message. A post is one row, and a locking clause returns
-- that row as it is when the lock is granted. So posts come with their bodies, up to $2 bytes,
-- counted in the order of the walk. Sorting them once more would take as long as locking them.
-- Groups come without messages, which a new statement reads (rule R-A). The rows also have the
-- heads of both orders, and say whether there are streams and promotions. If there is nothing to
-- claim, they say whether there is an entry that is not blocked. If there may be more behind the
-- window, they say where it ended, that of the promotions or that of the streams. If all streams in
-- the window are in flight, no post is taken, because a stream behind it that ranks higher may be
-- free.
--
-- $1 queue, $2 bytes at most, $3 preferred order; :limit groups at most, :window how far to walk,
-- :few how far through the promotions, :passable what the window leaves out
WITH t AS MATERIALIZED (SELECT :now AS now),
promotions AS MATERIALIZED (
  SELECT x.group_id, {rank x.level} AS place FROM parley_promotion x
   WHERE x.queue_id = $1
   ORDER BY x.queue_id, x.level DESC, x.since
   LIMIT :few),
promoted AS MATERIALIZED (
  SELECT p.group_id, g.group_id IS NULL AS post, g.free
    FROM promotions p
{Promoted}
   LIMIT 1),
promotions_end AS MATERIALIZED (
  SELECT p.place FROM promotions p
   WHERE (SELECT count(*) FROM promoted) = 0 AND $3::int < 4
  OFFSET :few - 1),
ordinary AS MATERIALIZED (
  SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM promoted) AND NOT EXISTS (SELECT 1 FROM promotions_end)),
entries AS MATERIALIZED (
  SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
   WHERE x.queue_id = $1
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT :window),
streams AS MATERIALIZED (SELECT e.* FROM entries e WHERE :passable),
ready_head AS MATERIALIZED (
  SELECT r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT 1 FROM parley_grp g
            WHERE g.group_id = r.group_id AND g.blocked = 0 AND g.lease_until < (SELECT now FROM t)
            LIMIT 1) g
   CROSS JOIN LATERAL (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id LIMIT 1) m
   WHERE (SELECT count(*) FROM ordinary) > 0
   LIMIT 1),
post_head AS MATERIALIZED (
  SELECT x.priority, x.since FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
     AND (SELECT count(*) FROM ordinary) > 0
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT 1),
posts_first AS MATERIALIZED (
  SELECT CASE $3::int & 3 WHEN 1 THEN false WHEN 2 THEN true ELSE
         NOT EXISTS (SELECT 1 FROM ready_head)
         OR (SELECT (-p.priority, p.since) < (-r.priority, r.since) FROM post_head p, ready_head r) END AS yes
    FROM post_head),
ready_first AS MATERIALIZED (
  SELECT r.group_id, g.free, r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = r.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = r.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE (-r.priority, r.since) >= (SELECT -h.priority, h.since FROM ready_head h)
     AND (SELECT yes FROM posts_first) IS NOT TRUE
   LIMIT :limit),
entries_end AS MATERIALIZED (
  SELECT {rank e.priority} AS place FROM entries e OFFSET :window - 1),
posts AS MATERIALIZED (
  SELECT x.post_id, x.priority, x.since, x.sent, x.type, x.body, x.headers, x.uniq, x.attempts, x.suspicion,
         x.last_error, x.errors, x.fence, x.lease_until
    FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
     AND (SELECT count(*) FROM post_head) > 0 AND (SELECT count(*) FROM ready_first) = 0
     AND ((SELECT yes FROM posts_first) AND EXISTS (SELECT 1 FROM ready_head)
          OR NOT EXISTS (SELECT 1 FROM entries_end))
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT :limit
     FOR NO KEY UPDATE SKIP LOCKED),
ready_last AS MATERIALIZED (
  SELECT r.group_id, g.free, r.priority, r.since
    FROM streams r
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = r.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = r.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE (-r.priority, r.since) >= (SELECT -h.priority, h.since FROM ready_head h)
     AND (SELECT yes FROM posts_first) AND (SELECT count(*) FROM posts) = 0
   LIMIT :limit),
found AS (
  SELECT CASE WHEN post THEN 1 WHEN free THEN 0 ELSE 3 END AS what, group_id AS id,
         NULL::smallint AS priority, NULL::bigint AS since, NULL::bigint AS sent, NULL::text AS type, NULL::bytea AS body,
         NULL::text AS headers, NULL::text AS uniq, NULL::int AS attempts, NULL::int AS suspicion, NULL::text AS last_error,
         NULL::text AS errors, NULL::bigint AS fence, NULL::bigint AS lease_until
    FROM promoted
   UNION ALL
  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ready_first
   UNION ALL
  SELECT CASE WHEN free THEN 0 ELSE 3 END, group_id, priority, since, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM ready_last
   UNION ALL
  SELECT 2, post_id, priority, since, sent, type, body, headers, uniq, attempts, suspicion, last_error, errors, fence,
         lease_until
    FROM (SELECT p.*,
                 sum(coalesce(octet_length(p.body), 0) + coalesce(octet_length(p.headers), 0)) OVER w AS bytes,
                 row_number() OVER w AS n
            FROM posts p
          WINDOW w AS (ROWS UNBOUNDED PRECEDING)) p
   WHERE p.n = 1 OR p.bytes <= $2)
SELECT v.catalog_version, q.enabled,
       (SELECT h.priority FROM ready_head h), (SELECT h.since FROM ready_head h),
       (SELECT h.priority FROM post_head h), (SELECT h.since FROM post_head h),
       EXISTS (SELECT 1 FROM entries),
       (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
         ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL,
       CASE WHEN f.id IS NULL THEN (SELECT place FROM promotions_end) END,
       CASE WHEN f.id IS NULL AND EXISTS (SELECT 1 FROM ordinary) THEN (SELECT place FROM entries_end) END,
       CASE WHEN f.id IS NULL
            THEN EXISTS (SELECT 1 FROM entries r
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g)
              OR (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) p) IS NOT NULL END,
       f.*
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN found f ON true

-- name: Promoted
-- Promotions, p, each with its group g or post o, locked if that is free.
LEFT JOIN LATERAL (
	           SELECT g.group_id, g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free
	             FROM parley_grp g
	            WHERE g.group_id = p.group_id
	              AND EXISTS (SELECT 1 FROM parley_grp y
	                           WHERE y.group_id = p.group_id AND y.blocked = 0
	                             AND y.lease_until < (SELECT now FROM t))
	              AND EXISTS (SELECT 1 FROM parley_ready r
	                           CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
	                                                WHERE m.stream_id = r.stream_id LIMIT 1) m
	                           WHERE r.group_id = p.group_id)
	              FOR NO KEY UPDATE SKIP LOCKED) g ON true
	    LEFT JOIN LATERAL (
	           SELECT o.post_id FROM parley_post o
	            WHERE o.post_id = p.group_id AND o.blocked = 0 AND o.lease_until < (SELECT now FROM t)
	              FOR NO KEY UPDATE SKIP LOCKED) o ON true
	   WHERE g.group_id IS NOT NULL OR o.post_id IS NOT NULL

-- name: StreamClaims
-- axis: depth limit
-- A claim of a queue with only streams, at half the cost. Without posts there are no heads to
-- compare. If there is a promotion, or a post that could be claimed, it returns no rows. The walk
-- through the order is repeated where it is needed, because a single WITH query would keep each row
-- that it skips. The repeated walks run only if nothing is found.
--
-- $1 queue; :limit, :window and :passable as above
WITH t AS MATERIALIZED (SELECT :now AS now),
other AS MATERIALIZED (
  SELECT (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL
      OR (SELECT 1 FROM parley_post x
           WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT now FROM t)
           ORDER BY x.queue_id, x.priority DESC, x.since LIMIT 1) IS NOT NULL AS yes),
ready AS MATERIALIZED (
  SELECT e.group_id, g.free
    FROM (SELECT x.group_id, x.stream_id FROM parley_ready x
           WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.priority DESC, x.since
           LIMIT :window) e
   CROSS JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = e.group_id
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = e.group_id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = e.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g
   WHERE NOT (SELECT yes FROM other) AND :passable
   LIMIT :limit)
SELECT v.catalog_version, q.enabled,
       CASE WHEN f.group_id IS NULL
            THEN (SELECT {rank e.priority} FROM (SELECT x.priority, x.since FROM parley_ready x
                                                  WHERE x.queue_id = $1
                                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                                  LIMIT :window) e OFFSET :window - 1) END,
       CASE WHEN f.group_id IS NULL
            THEN EXISTS (SELECT 1 FROM (SELECT x.group_id FROM parley_ready x
                                         WHERE x.queue_id = $1
                                         ORDER BY x.queue_id, x.priority DESC, x.since
                                         LIMIT :window) e
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = e.group_id AND g.blocked = 0 LIMIT 1) g)
              OR (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) p) IS NOT NULL END,
       f.group_id, f.free
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN ready f ON true
 WHERE NOT (SELECT yes FROM other)

-- name: PostClaims
-- axis: limit
-- A claim of a queue with only posts. If there is anything else, it returns no rows. If there is
-- nothing to claim, it says whether there is a post that is not blocked. What few posts have is one
-- column, and bytes are added up row by row only if all are too many: both take longer than the rest.
--
-- $1 queue, $2 bytes at most; :limit posts at most
WITH other AS MATERIALIZED (
  SELECT (SELECT 1 FROM parley_ready x WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.priority DESC, x.since LIMIT 1) IS NOT NULL
      OR (SELECT 1 FROM parley_promotion x WHERE x.queue_id = $1
           ORDER BY x.queue_id, x.level DESC, x.since LIMIT 1) IS NOT NULL AS yes),
posts AS MATERIALIZED (
  SELECT x.post_id, x.priority, x.since, x.type, x.body, x.headers,
         CASE WHEN x.sent <> 0 OR x.uniq IS NOT NULL OR x.attempts <> 0 OR x.suspicion <> 0
                OR x.last_error IS NOT NULL OR x.errors IS NOT NULL OR x.fence <> 0 OR x.lease_until <> 0
              THEN json_build_array(x.sent, x.uniq, x.attempts, x.suspicion, x.last_error, x.errors,
                                    x.fence, x.lease_until)::text END AS seldom,
         coalesce(octet_length(x.body), 0) + coalesce(octet_length(x.headers), 0) AS bytes
    FROM parley_post x
   WHERE x.queue_id = $1 AND x.blocked = 0 AND x.lease_until < (SELECT :now)
     AND NOT (SELECT yes FROM other)
   ORDER BY x.queue_id, x.priority DESC, x.since
   LIMIT :limit
     FOR NO KEY UPDATE SKIP LOCKED)
SELECT v.catalog_version, q.enabled,
       CASE WHEN p.post_id IS NULL
            THEN (SELECT 1 FROM (SELECT 1 FROM parley_post x
                                  WHERE x.queue_id = $1 AND x.blocked = 0
                                  ORDER BY x.queue_id, x.priority DESC, x.since
                                  LIMIT 1) w) IS NOT NULL END,
       p.post_id, p.priority, p.since, p.type, p.body, p.headers, p.seldom
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN posts p
    ON (SELECT sum(x.bytes) FROM posts x) <= $2
    OR p.post_id IN (SELECT y.post_id
                       FROM (SELECT x.post_id, row_number() OVER w AS n, sum(x.bytes) OVER w AS bytes
                               FROM posts x
                             WINDOW w AS (ROWS UNBOUNDED PRECEDING)) y
                      WHERE y.n = 1 OR y.bytes <= $2)
 WHERE NOT (SELECT yes FROM other)

-- name: Pages
-- axis: width
-- A page of a walk beyond the window: streams and posts from a place on, in one order, locked. If
-- one of them continues behind the page, the other ends there as well. A page with posts returns a
-- single group or post, as a promotion does, because a surplus lock could not be released. Rows say
-- what was found (0 a group, 1 a post, 3 a group without a claimable message), and where. They say
-- where the next page begins, if there is one. If nothing was found, they say whether there is an
-- entry that is not blocked.
--
-- $1 queue, $2 priority and $3 since of the place, $4 groups at most; :window how far
WITH t AS MATERIALIZED (SELECT :now AS now),
streams AS MATERIALIZED (
  SELECT e.group_id, e.stream_id, {rank e.priority} AS place
    FROM ((SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
            WHERE x.queue_id = $1 AND x.priority = $2 AND x.since >= $3
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT :window)
           UNION ALL
          (SELECT x.group_id, x.stream_id, x.priority, x.since FROM parley_ready x
            WHERE x.queue_id = $1 AND x.priority < $2
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT :window)) e
   LIMIT :window),
posts AS MATERIALIZED (
  SELECT e.post_id, e.lease_until, {rank e.priority} AS place
    FROM ((SELECT x.post_id, x.lease_until, x.priority, x.since FROM parley_post x
            WHERE x.queue_id = $1 AND x.priority = $2 AND x.since >= $3 AND x.blocked = 0
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT :window)
           UNION ALL
          (SELECT x.post_id, x.lease_until, x.priority, x.since FROM parley_post x
            WHERE x.queue_id = $1 AND x.priority < $2 AND x.blocked = 0
            ORDER BY x.queue_id, x.priority DESC, x.since
            LIMIT :window)) e
   LIMIT :window),
page AS MATERIALIZED (
  SELECT least((SELECT s.place FROM streams s OFFSET :window - 1),
               (SELECT p.place FROM posts p OFFSET :window - 1)) AS ends),
found AS MATERIALIZED (
  SELECT CASE WHEN o.post_id IS NOT NULL THEN 1 WHEN g.free THEN 0 ELSE 3 END AS what, w.id, w.place
    FROM (SELECT s.group_id AS id, s.stream_id, s.place FROM streams s
           WHERE s.place <= coalesce((SELECT ends FROM page), 9223372036854775807)
           UNION ALL
          SELECT p.post_id, NULL, p.place FROM posts p
           WHERE p.place <= coalesce((SELECT ends FROM page), 9223372036854775807)
             AND p.lease_until < (SELECT now FROM t)
           ORDER BY place) w
    LEFT JOIN LATERAL (
           SELECT g.blocked = 0 AND g.lease_until < (SELECT now FROM t) AS free FROM parley_grp g
            WHERE g.group_id = w.id AND w.stream_id IS NOT NULL
              AND EXISTS (SELECT 1 FROM parley_grp y
                           WHERE y.group_id = w.id AND y.blocked = 0
                             AND y.lease_until < (SELECT now FROM t))
              AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = w.stream_id)
              FOR NO KEY UPDATE SKIP LOCKED) g ON true
    LEFT JOIN LATERAL (
           SELECT o.post_id FROM parley_post o
            WHERE o.post_id = w.id AND w.stream_id IS NULL
              AND o.blocked = 0 AND o.lease_until < (SELECT now FROM t)
              FOR NO KEY UPDATE SKIP LOCKED) o ON true
   WHERE g.free IS NOT NULL OR o.post_id IS NOT NULL
   LIMIT (SELECT CASE WHEN EXISTS (SELECT 1 FROM posts) THEN 1 ELSE $4::int END))
SELECT p.ends,
       CASE WHEN f.id IS NULL
            THEN EXISTS (SELECT 1 FROM streams r
                          CROSS JOIN LATERAL (SELECT 1 FROM parley_grp g
                                               WHERE g.group_id = r.group_id AND g.blocked = 0 LIMIT 1) g)
              OR EXISTS (SELECT 1 FROM posts) END,
       f.what, f.id, f.place
  FROM page p
  LEFT JOIN found f ON true

-- name: Promotions
-- axis: width
-- A page of the walk through promotions, which locks the first free one. The columns are those of a
-- page.
--
-- $1 queue, $2 level and $3 since of the place; :window how far
WITH t AS MATERIALIZED (SELECT :now AS now),
promotions AS MATERIALIZED (
  SELECT e.group_id, {rank e.level} AS place
    FROM ((SELECT x.group_id, x.level, x.since FROM parley_promotion x
            WHERE x.queue_id = $1 AND x.level = $2 AND x.since >= $3
            ORDER BY x.queue_id, x.level DESC, x.since
            LIMIT :window)
           UNION ALL
          (SELECT x.group_id, x.level, x.since FROM parley_promotion x
            WHERE x.queue_id = $1 AND x.level < $2
            ORDER BY x.queue_id, x.level DESC, x.since
            LIMIT :window)) e
   LIMIT :window),
found AS MATERIALIZED (
  SELECT CASE WHEN g.group_id IS NULL THEN 1 WHEN g.free THEN 0 ELSE 3 END AS what, p.group_id AS id, p.place
    FROM promotions p
{Promoted}
   LIMIT 1)
SELECT (SELECT p.place FROM promotions p OFFSET :window - 1), NULL, f.what, f.id, f.place
  FROM (SELECT 1) one
  LEFT JOIN found f ON true

-- name: ClaimOne
-- A claim's first statement if it is for one group: $2, or that of endpoint $3. It distinguishes
-- two cases: the group exists (seen), and it has something for us to claim (group_id).
--
-- $1 queue, $2 group, $3 handle
SELECT v.catalog_version, q.enabled, s.group_id, g.group_id
  FROM parley_meta v
  LEFT JOIN LATERAL (SELECT x.enabled FROM parley_queue x WHERE x.queue_id = $1) q ON true
  LEFT JOIN LATERAL (
         SELECT x.group_id FROM parley_grp x
          WHERE x.group_id = coalesce((SELECT e.group_id FROM parley_endpoint e WHERE e.handle = $3::uuid), $2::uuid)
            AND ($2::uuid IS NULL OR x.group_id = $2::uuid)
            AND x.queue_id = $1 AND x.blocked = 0
            AND EXISTS (SELECT 1 FROM parley_ready r
                         CROSS JOIN LATERAL (SELECT 1 FROM parley_message m
                                              WHERE m.stream_id = r.stream_id LIMIT 1) m
                         WHERE r.group_id = x.group_id)
          LIMIT 1) s ON true
  LEFT JOIN LATERAL (
         SELECT x.group_id FROM parley_grp x
          WHERE x.group_id = s.group_id AND x.blocked = 0 AND x.lease_until < :now
            FOR NO KEY UPDATE SKIP LOCKED) g ON true

-- name: Read
-- axis: most
-- A claim's second statement: the state of the locked groups and their messages, in the order in
-- which they are received. Its snapshot is younger than the locks. Bodies beyond $3 bytes are not
-- read. With a lease the groups that have messages are marked as held, and the token of an expired
-- lease is removed.
--
-- Only the first message of a stream has the data of its endpoint. A group with several streams may
-- come with more than $2 messages. The rows are not sorted once more, which would cost a third of
-- the statement. They are in the order of the window, and their reader checks that. Streams that
-- cannot be received come without messages. Their endpoint has ended (state 1), or is now in
-- another group (2).
--
-- $1 groups, $2 messages of each, $3 bytes, $4 handle, $5 lease, $6 owner,
-- $7 whether to lock only; :most messages of each at most
WITH g AS MATERIALIZED (
  SELECT k.n, x.group_id, x.name, x.fence, x.lease_until, x.tid, p.level, p.version, p.sticky
    FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
   CROSS JOIN LATERAL (
           SELECT y.group_id, y.name, y.fence, y.lease_until, y.ctid AS tid FROM parley_grp y
            WHERE y.group_id = k.id AND y.blocked = 0 LIMIT 1) x
    LEFT JOIN LATERAL (
           SELECT y.level, y.version, y.sticky FROM parley_promotion y
            WHERE y.group_id = k.id LIMIT 1) p ON true),
s AS MATERIALIZED (
  SELECT g.*, r.stream_id, r.priority, x.kind, x.endpoint, e.conversation, e.initiator,
         e.service, e.far, e.contract,
         CASE WHEN x.endpoint IS NULL THEN 0
              WHEN e.group_id IS NULL OR e.closed_at IS NOT NULL THEN 1
              WHEN e.group_id <> g.group_id THEN 2
              ELSE 0 END AS state
    FROM g
   CROSS JOIN LATERAL (
           SELECT y.stream_id, y.priority FROM parley_ready y
            WHERE y.group_id = g.group_id OFFSET 0) r
   CROSS JOIN LATERAL (
           SELECT y.kind, y.endpoint FROM parley_stream y WHERE y.stream_id = r.stream_id LIMIT 1) x
    LEFT JOIN LATERAL (
           SELECT y.* FROM parley_endpoint y WHERE y.handle = x.endpoint LIMIT 1) e ON true
   WHERE $7::int = 0),
taken AS MATERIALIZED (
  SELECT x.*
    FROM (SELECT s.*, m.seq, m.message_id, m.kind AS message_kind, m.type, m.body, m.headers, m.since, m.uniq,
                 sum(coalesce(octet_length(m.body), 0) + coalesce(octet_length(m.headers), 0)) OVER w AS bytes,
                 row_number() OVER w AS k,
                 lag(s.stream_id) OVER w IS DISTINCT FROM s.stream_id AS first
            FROM (SELECT y.*, row_number() OVER (PARTITION BY y.n
                                                 ORDER BY y.priority DESC, y.oldest, y.endpoint, y.kind, y.stream_id) AS place
                    FROM (SELECT s.*, min(m.since) OVER (PARTITION BY s.n, s.endpoint) AS oldest
                            FROM s
                           CROSS JOIN LATERAL (
                                   SELECT m.since FROM parley_message m
                                    WHERE m.stream_id = s.stream_id ORDER BY m.stream_id, m.seq LIMIT 1) m
                           WHERE s.state = 0 AND ($4::uuid IS NULL OR s.endpoint = $4::uuid)) y) s
           CROSS JOIN LATERAL (
                   SELECT y.* FROM (SELECT z.* FROM parley_message z
                                     WHERE z.stream_id = s.stream_id ORDER BY z.seq LIMIT :most) y
                    LIMIT (SELECT $2::int)) m
           WHERE s.place <= $2
          WINDOW w AS (ORDER BY s.n, s.place, m.seq ROWS UNBOUNDED PRECEDING)) x
   WHERE x.k = 1 OR x.bytes <= $3),
held AS (
  UPDATE parley_grp y
     SET fence = y.fence + 1,
         lease_until = CASE WHEN $5::bigint > 0 THEN :now + $5::bigint ELSE 0 END,
         held_since = CASE WHEN $5::bigint > 0 THEN :now ELSE 0 END,
         owner = CASE WHEN $5::bigint > 0 THEN $6 ELSE '' END
   WHERE y.ctid = ANY (ARRAY(
           SELECT g.tid FROM g
            WHERE ($5::bigint > 0 OR g.lease_until <> 0)
              AND ($7::int = 1 OR g.n IN (SELECT taken.n FROM taken)))))
SELECT t.n, t.fence, t.lease_until, t.level, t.version, t.sticky, t.name, t.state, t.stream_id,
       t.seq, t.message_id, t.message_kind, t.type, t.body, t.headers, t.since, t.uniq,
       f.attempts, f.suspicion, f.last_error, f.errors,
       CASE WHEN t.first THEN t.priority END, CASE WHEN t.first THEN t.endpoint END,
       CASE WHEN t.first THEN t.conversation END, CASE WHEN t.first THEN t.initiator END,
       CASE WHEN t.first THEN t.service END, CASE WHEN t.first THEN t.far END,
       CASE WHEN t.first THEN t.contract END, t.kind
  FROM taken t
  LEFT JOIN LATERAL (
         SELECT y.attempts, y.suspicion, y.last_error, y.errors FROM parley_failure y
          WHERE y.message_id = t.message_id LIMIT 1) f ON true
 UNION ALL
SELECT s.n, s.fence, s.lease_until, s.level, s.version, s.sticky, s.name, s.state, s.stream_id,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL,
       s.priority, s.endpoint, NULL, NULL, NULL, NULL, NULL, s.kind
  FROM s WHERE s.state <> 0
 UNION ALL
SELECT g.n, g.fence, g.lease_until, g.level, g.version, g.sticky, g.name, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM g WHERE $7::int = 1

-- name: ReadUsual
-- axis: most
-- Read without what is seldom: each group has a single stream, whose endpoint is in the group and has not ended, no lease
-- ran out, and the messages are no longer than the claim may be. It takes three quarters of the time. A row that is not so
-- has the state 3. The rows are in the order of the numbers, and their reader checks that.
--
-- $1 groups, $2 messages of each, $3 bytes
SELECT x.n, 0, 0, x.level, x.version, x.sticky, x.name,
       CASE WHEN x.usual AND (x.k = 1 OR x.bytes <= $3) THEN 0 ELSE 3 END,
       x.stream_id, x.seq, x.message_id, x.message_kind, x.type, x.body, x.headers, x.since, x.uniq,
       x.attempts, x.suspicion, x.last_error, x.errors,
       x.priority, x.endpoint, x.conversation, x.initiator, x.service, x.far, x.contract, x.kind
  FROM (SELECT k.n, p.level, p.version, p.sticky, g.name, r.stream_id, r.priority, s.kind, s.endpoint,
               e.conversation, e.initiator, e.service, e.far, e.contract,
               m.seq, m.message_id, m.kind AS message_kind, m.type, m.body, m.headers, m.since, m.uniq,
               f.attempts, f.suspicion, f.last_error, f.errors,
               g.lease_until = 0 AND NOT r.several
               AND (s.endpoint IS NULL OR e.group_id = k.id AND e.closed_at IS NULL) AS usual,
               row_number() OVER w AS k,
               coalesce(octet_length(m.body), 0) + coalesce(octet_length(m.headers), 0) AS own,
               sum(coalesce(octet_length(m.body), 0) + coalesce(octet_length(m.headers), 0)) OVER w AS bytes
          FROM unnest((SELECT $1::uuid[])) WITH ORDINALITY k(id, n)
         CROSS JOIN LATERAL (
                 SELECT y.name, y.lease_until FROM parley_grp y
                  WHERE y.group_id = k.id AND y.blocked = 0 LIMIT 1) g
          LEFT JOIN LATERAL (
                 SELECT y.level, y.version, y.sticky FROM parley_promotion y
                  WHERE y.group_id = k.id LIMIT 1) p ON true
         CROSS JOIN LATERAL (
                 SELECT y.stream_id, y.priority,
                        EXISTS (SELECT 1 FROM parley_ready z
                                 WHERE z.group_id = k.id AND z.stream_id > y.stream_id) AS several
                   FROM parley_ready y WHERE y.group_id = k.id ORDER BY y.stream_id LIMIT 1) r
         CROSS JOIN LATERAL (
                 SELECT y.kind, y.endpoint FROM parley_stream y WHERE y.stream_id = r.stream_id LIMIT 1) s
          LEFT JOIN LATERAL (
                 SELECT y.group_id, y.closed_at, y.conversation, y.initiator, y.service, y.far, y.contract
                   FROM parley_endpoint y WHERE y.handle = s.endpoint LIMIT 1) e ON true
          LEFT JOIN LATERAL (
                 SELECT y.* FROM (SELECT z.* FROM parley_message z
                                   WHERE z.stream_id = r.stream_id ORDER BY z.seq LIMIT :most) y
                  LIMIT (SELECT $2::int)) m ON true
          LEFT JOIN LATERAL (
                 SELECT y.attempts, y.suspicion, y.last_error, y.errors FROM parley_failure y
                  WHERE y.message_id = m.message_id LIMIT 1) f ON true
        WINDOW w AS (ROWS UNBOUNDED PRECEDING)) x
 WHERE x.k = 1 OR x.bytes - x.own <= $3

-- name: LeaseLocked
-- Posts that were locked become held by lease.
--
-- $1 ids, $2 lease, $3 owner
UPDATE parley_post y
   SET fence = y.fence + 1,
       suspicion = y.suspicion + CASE WHEN y.lease_until <> 0 THEN 1 ELSE 0 END, -- its receiver died
       lease_until = CASE WHEN $2::bigint > 0 THEN :now + $2::bigint ELSE 0 END,
       held_since = CASE WHEN $2::bigint > 0 THEN :now ELSE 0 END,
       owner = CASE WHEN $2::bigint > 0 THEN $3 ELSE '' END
 WHERE y.ctid = ANY (ARRAY(
         SELECT x.ctid FROM unnest((SELECT $1::uuid[])) k(id)
          CROSS JOIN LATERAL (SELECT z.ctid FROM parley_post z WHERE z.post_id = k.id LIMIT 1) x))
