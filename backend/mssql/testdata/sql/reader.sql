-- name: ConversationCounts
SELECT e.begun, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()),
       (SELECT t.due FROM parley_timer t WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE t.handle = e.handle AND t.kind = 0),
       (SELECT count(*)
          FROM (SELECT 1 AS one
                  FROM parley_stream s WITH (READUNCOMMITTED)
                  JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = s.stream_id
                 WHERE s.group_id = e.group_id AND s.endpoint = e.handle
                 ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       (SELECT count(*)
          FROM (SELECT 1 AS one FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE h.stream_id = e.handle ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       (SELECT h.status FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE h.stream_id = e.handle ORDER BY h.seq OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY)
  FROM parley_endpoint e WITH (READUNCOMMITTED)
 WHERE e.handle = @p1

-- name: FindMessage
SELECT s.group_id
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
 WHERE m.message_id = @p1
 UNION ALL
SELECT h.stream_id FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE h.message_id = @p2
 UNION ALL
SELECT o.post_id FROM parley_post o WITH (READUNCOMMITTED) WHERE o.post_id = @p3

-- name: GroupDetails
SELECT g.group_id, g.service, g.name, g.queue_id, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
       g.blocked_until, g.reason, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), p.level, p.sticky,
       (SELECT max(r.priority) FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
         WHERE r.group_id = g.group_id),
       c.messages, c.since, c.astray
  FROM parley_grp g WITH (READUNCOMMITTED)
  LEFT JOIN parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.group_id = g.group_id
  LEFT JOIN (SELECT x.group_id, count(*) AS messages, min(x.since) AS since, count(x.astray) AS astray
               FROM (SELECT s.group_id, m.since, CASE WHEN r.stream_id IS NULL THEN 1 END AS astray
                       FROM parley_stream s WITH (READUNCOMMITTED)
                       LEFT JOIN parley_ready r WITH (READUNCOMMITTED) ON r.group_id = s.group_id AND r.stream_id = s.stream_id
                       JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = s.stream_id
                      WHERE s.group_id IN (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p11, @p12, @p13, @p14, @p15, @p16, @p17, @p18, @p19, @p20, @p21, @p22, @p23, @p24, @p25, @p26, @p27, @p28, @p29, @p30, @p31, @p32, @p33, @p34, @p35, @p36, @p37, @p38, @p39, @p40, @p41, @p42, @p43, @p44, @p45, @p46, @p47, @p48, @p49, @p50)
                      ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x
              GROUP BY x.group_id) c ON c.group_id = g.group_id
 WHERE g.group_id IN (@p51, @p52, @p53, @p54, @p55, @p56, @p57, @p58, @p59, @p60, @p61, @p62, @p63, @p64, @p65, @p66, @p67, @p68, @p69, @p70, @p71, @p72, @p73, @p74, @p75, @p76, @p77, @p78, @p79, @p80, @p81, @p82, @p83, @p84, @p85, @p86, @p87, @p88, @p89, @p90, @p91, @p92, @p93, @p94, @p95, @p96, @p97, @p98, @p99, @p100)

-- name: ListAstray
SELECT m.stream_id, s.stream_id, s.group_id,
       CASE WHEN r.stream_id IS NULL AND g.blocked = 0 AND g.resweep = 0 THEN 1 ELSE 0 END
  FROM (SELECT x.stream_id FROM parley_message x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
         WHERE x.stream_id > @p1
         ORDER BY x.stream_id, x.seq
         OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY) m
  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
  LEFT JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = s.group_id
  LEFT JOIN parley_ready r WITH (READUNCOMMITTED) ON r.group_id = s.group_id AND r.stream_id = s.stream_id
 ORDER BY m.stream_id

-- name: ListBlocked
SELECT group_id, blocked_until, blocked_since, reason, service, name, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_grp WITH (READUNCOMMITTED)
 WHERE blocked = @p1 AND blocked <> 0 AND queue_id = @p2 AND blocked_until >= @p3 AND (blocked_until > @p4 OR group_id > @p5)
 ORDER BY blocked, blocked_until, group_id
 OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY

-- name: ListBlockedPosts
SELECT post_id, blocked_until, blocked_since, reason, '', '', DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_post WITH (READUNCOMMITTED)
 WHERE blocked = @p1 AND blocked <> 0 AND queue_id = @p2 AND blocked_until >= @p3 AND (blocked_until > @p4 OR post_id > @p5)
 ORDER BY blocked, blocked_until, post_id
 OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY

-- name: ListConversation
SELECT e.handle, e.conversation
  FROM parley_endpoint e WITH (READUNCOMMITTED)
  JOIN parley_endpoint x WITH (READUNCOMMITTED) ON x.conversation = e.conversation
 WHERE x.handle = @p1 AND e.conversation > @p2
 ORDER BY e.conversation, e.initiator DESC
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: ListConversations
SELECT handle, conversation FROM parley_endpoint WITH (READUNCOMMITTED)
 WHERE conversation > @p1 AND queue_id > 0
 ORDER BY conversation, initiator DESC
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: ListConversationsOfGroup
SELECT handle, conversation FROM parley_endpoint WITH (READUNCOMMITTED)
 WHERE group_id = @p1 AND conversation > @p2
 ORDER BY conversation, initiator DESC
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: ListDead
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN CONVERT(smallint, @p1) = 1 THEN body END, coalesce(CONVERT(bigint, DATALENGTH(body)), 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_dead_letter WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE died <= @p2 AND (died < @p3 OR message_id < @p4)
 ORDER BY died DESC, message_id DESC
 OFFSET 0 ROWS FETCH NEXT @p5 ROWS ONLY

-- name: ListDeadOf
SELECT queue_id, message_id, stream_id, seq, group_id, kind, type,
       CASE WHEN CONVERT(smallint, @p1) = 1 THEN body END, coalesce(CONVERT(bigint, DATALENGTH(body)), 0), headers, since, name,
       handle, conversation, initiator, service, far, contract, priority, attempts,
       suspicion, last_error, errors, reason, died, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_dead_letter WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE queue_id = @p2 AND died <= @p3 AND (died < @p4 OR message_id < @p5)
 ORDER BY queue_id, died DESC, message_id DESC
 OFFSET 0 ROWS FETCH NEXT @p6 ROWS ONLY

-- name: ListHeld
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s WITH (READUNCOMMITTED) WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE h.stream_id > @p1
 ORDER BY h.stream_id, h.seq
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: ListHeldIn
SELECT h.stream_id, h.seq, h.message_id, h.stream_id, NULL,
       (SELECT s.queue_id FROM parley_stream s WITH (READUNCOMMITTED) WHERE s.stream_id = h.stream_id), h.type, h.headers
  FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE h.stream_id = @p1 AND h.seq > @p2
 ORDER BY h.stream_id, h.seq
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: ListLater
SELECT post_id, 0, post_id, NULL, NULL, queue_id, type, headers
  FROM parley_delayed WITH (READUNCOMMITTED)
 WHERE post_id > @p1
 ORDER BY post_id
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: ListMessages
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s WITH (READUNCOMMITTED) WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s WITH (READUNCOMMITTED) WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE m.stream_id > @p1
 ORDER BY m.stream_id, m.seq
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: ListMessagesIn
SELECT m.stream_id, m.seq, m.message_id, m.stream_id,
       (SELECT s.group_id FROM parley_stream s WITH (READUNCOMMITTED) WHERE s.stream_id = m.stream_id),
       (SELECT s.queue_id FROM parley_stream s WITH (READUNCOMMITTED) WHERE s.stream_id = m.stream_id), m.type, m.headers
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE m.stream_id = @p1 AND m.seq > @p2
 ORDER BY m.stream_id, m.seq
 OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY

-- name: ListPosts
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE o.queue_id = @p1 AND o.blocked = 0 AND o.priority < @p2
   AND CASE WHEN o.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p3
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id)
 ORDER BY o.queue_id, o.priority DESC, o.since, o.post_id
 OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY

-- name: ListPostsAfter
SELECT o.post_id, o.priority, o.since, 1
  FROM parley_post o WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE o.queue_id = @p1 AND o.blocked = 0 AND o.priority = @p2 AND o.since >= @p3 AND (o.since > @p4 OR o.post_id > @p5)
   AND CASE WHEN o.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p6
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                    WHERE p.group_id = o.post_id AND p.queue_id = o.queue_id)
 ORDER BY o.queue_id, o.priority DESC, o.since, o.post_id
 OFFSET 0 ROWS FETCH NEXT @p7 ROWS ONLY

-- name: ListPostsByID
SELECT post_id, 0, post_id, post_id, post_id, queue_id, type, headers
  FROM parley_post WITH (READUNCOMMITTED)
 WHERE post_id > @p1
 ORDER BY post_id
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: ListPromoted
SELECT p.group_id, p.level, p.since,
       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE p.queue_id = @p1 AND p.level < @p2
   AND (EXISTS (SELECT 1
                  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
                  JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p3)
     OR EXISTS (SELECT 1 FROM parley_post o WITH (READUNCOMMITTED)
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p4))
 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
 OFFSET 0 ROWS FETCH NEXT @p5 ROWS ONLY

-- name: ListPromotedAfter
SELECT p.group_id, p.level, p.since,
       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE p.queue_id = @p1 AND p.level = @p2 AND p.since >= @p3 AND (p.since > @p4 OR p.group_id > @p5)
   AND (EXISTS (SELECT 1
                  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
                  JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = r.stream_id
                 WHERE r.group_id = p.group_id AND g.blocked = 0
                   AND CASE WHEN g.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p6)
     OR EXISTS (SELECT 1 FROM parley_post o WITH (READUNCOMMITTED)
                 WHERE o.post_id = p.group_id AND o.blocked = 0
                   AND CASE WHEN o.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p7))
 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
 OFFSET 0 ROWS FETCH NEXT @p8 ROWS ONLY

-- name: ListPromotions
SELECT p.group_id, p.queue_id, p.level, p.sticky,
       CASE WHEN EXISTS (SELECT 1 FROM parley_endpoint e WITH (READUNCOMMITTED)
                          WHERE e.group_id = p.group_id AND e.closed_at IS NULL)
              OR EXISTS (SELECT 1 FROM parley_stream s WITH (READUNCOMMITTED) WHERE s.stream_id = p.group_id AND s.kind = 3)
              OR EXISTS (SELECT 1 FROM parley_post o WITH (READUNCOMMITTED) WHERE o.post_id = p.group_id)
              OR EXISTS (SELECT 1 FROM parley_delayed d WITH (READUNCOMMITTED) WHERE d.post_id = p.group_id)
            THEN 0 ELSE 1 END
  FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE p.group_id > @p1 AND p.queue_id > 0
 ORDER BY p.group_id
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: ListReady
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE r.queue_id = @p1 AND r.priority < @p2
   AND EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED)
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p3)
   AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = r.stream_id)
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id)
   AND NOT EXISTS (SELECT 1 FROM parley_ready b WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                   WHERE m.stream_id = b.stream_id))
 ORDER BY r.queue_id, r.priority DESC, r.since, r.group_id
 OFFSET 0 ROWS FETCH NEXT @p4 ROWS ONLY

-- name: ListReadyAfter
SELECT r.group_id, r.priority, r.since, 0
  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE r.queue_id = @p1 AND r.priority = @p2 AND r.since >= @p3 AND (r.since > @p4 OR r.group_id > @p5)
   AND EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED)
                WHERE g.group_id = r.group_id AND g.blocked = 0
                  AND CASE WHEN g.lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) THEN 1 ELSE 2 END <> @p6)
   AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = r.stream_id)
   AND NOT EXISTS (SELECT 1 FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                    WHERE p.group_id = r.group_id AND p.queue_id = r.queue_id)
   AND NOT EXISTS (SELECT 1 FROM parley_ready b WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                    WHERE b.group_id = r.group_id
                      AND (b.priority > r.priority OR b.priority = r.priority AND b.since < r.since)
                      AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                   WHERE m.stream_id = b.stream_id))
 ORDER BY r.queue_id, r.priority DESC, r.since, r.group_id
 OFFSET 0 ROWS FETCH NEXT @p7 ROWS ONLY

-- name: ListRetained
SELECT stream_id, seq, sent, message_id, kind, type, body, headers, since
  FROM parley_retained WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE handle = @p1
 ORDER BY since, kept, stream_id, seq

-- name: ListWithheld
SELECT s.stream_id,
       (SELECT count(*)
          FROM (SELECT 1 AS one FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE h.stream_id = s.stream_id ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       (SELECT h.status FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE h.stream_id = s.stream_id ORDER BY h.seq OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY),
       (SELECT h.since FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE h.stream_id = s.stream_id ORDER BY h.seq OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY),
       DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
 WHERE s.held = 1 AND s.stream_id > @p1
 ORDER BY s.stream_id
 OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY

-- name: PostDetails
SELECT o.post_id, o.queue_id, o.lease_until, o.held_since, o.owner, o.blocked, o.blocked_since, o.blocked_until,
       o.reason, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), p.level, p.sticky, o.priority, o.since
  FROM parley_post o WITH (READUNCOMMITTED)
  LEFT JOIN parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.group_id = o.post_id
 WHERE o.post_id IN (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, @p11, @p12, @p13, @p14, @p15, @p16, @p17, @p18, @p19, @p20, @p21, @p22, @p23, @p24, @p25, @p26, @p27, @p28, @p29, @p30, @p31, @p32, @p33, @p34, @p35, @p36, @p37, @p38, @p39, @p40, @p41, @p42, @p43, @p44, @p45, @p46, @p47, @p48, @p49, @p50)

-- name: PostStatusKeyed
SELECT g.name, m.type, m.body, m.headers
  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = s.group_id
 WHERE m.message_id = @p1 AND m.kind = 4 AND s.queue_id = @p2

-- name: PostStatusPost
SELECT type, body, headers FROM parley_post WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE post_id = @p1 AND queue_id = @p2

-- name: PostStatusProcessed
SELECT name, type, body, headers FROM parley_processed WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE post_id = @p1 AND queue_id = @p2

-- name: QueueStatus
SELECT q.queue_id, q.name, q.enabled,
       (SELECT count(*) FROM (SELECT 1 AS one
                                FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = r.stream_id
                               WHERE r.queue_id = q.queue_id
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x)
     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                               WHERE p.queue_id = q.queue_id AND p.blocked = 0
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_delayed d WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                               WHERE d.queue_id = q.queue_id
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       (SELECT count(*) FROM (SELECT DISTINCT r.group_id
                                FROM (SELECT group_id FROM parley_ready WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                       WHERE queue_id = q.queue_id
                                       ORDER BY queue_id, priority DESC, since
                                       OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) r
                                JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
                               WHERE g.lease_until > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())) x)
     + (SELECT count(*) FROM (SELECT lease_until FROM parley_post WITH (READUNCOMMITTED)
                               WHERE queue_id = q.queue_id AND blocked = 0
                               ORDER BY queue_id, priority DESC, since
                               OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) p
         WHERE p.lease_until > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())),
       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g WITH (READUNCOMMITTED)
                               WHERE g.blocked = 1 AND g.queue_id = q.queue_id AND g.blocked <> 0
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x)
     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p WITH (READUNCOMMITTED)
                               WHERE p.blocked = 1 AND p.queue_id = q.queue_id AND p.blocked <> 0
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g WITH (READUNCOMMITTED)
                               WHERE g.blocked = 2 AND g.queue_id = q.queue_id AND g.blocked <> 0
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x)
     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p WITH (READUNCOMMITTED)
                               WHERE p.blocked = 2 AND p.queue_id = q.queue_id AND p.blocked <> 0
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       (SELECT count(*) FROM (SELECT 1 AS one
                                FROM parley_stream s WITH (READUNCOMMITTED)
                                JOIN parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON h.stream_id = s.stream_id
                               WHERE s.held = 1 AND s.queue_id = q.queue_id
                               ORDER BY (SELECT NULL) OFFSET 0 ROWS FETCH NEXT 10000 ROWS ONLY) x),
       CASE WHEN EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE r.queue_id = q.queue_id) THEN
         (SELECT min(x.since)
            FROM (SELECT (SELECT r.since FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                           WHERE r.queue_id = q.queue_id AND r.priority = l.priority
                             AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = r.stream_id)
                           ORDER BY r.since OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY) AS since
                    FROM (SELECT 1 AS priority UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                           UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8
                           UNION ALL SELECT 9 UNION ALL SELECT 10) l) x) END,
       CASE WHEN EXISTS (SELECT 1 FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE p.queue_id = q.queue_id AND p.blocked = 0) THEN
         (SELECT min(x.since)
            FROM (SELECT (SELECT p.since FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                           WHERE p.queue_id = q.queue_id AND p.priority = l.priority AND p.blocked = 0
                           ORDER BY p.since OFFSET 0 ROWS FETCH NEXT 1 ROWS ONLY) AS since
                    FROM (SELECT 1 AS priority UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
                           UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8
                           UNION ALL SELECT 9 UNION ALL SELECT 10) l) x) END,
       DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
 WHERE q.queue_id BETWEEN @p1 AND @p2
 ORDER BY q.name
