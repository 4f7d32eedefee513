-- name: Waiting
-- Whether a claim that returned nothing should look again soon. Rows that others
-- have locked count.
SELECT 1
 WHERE EXISTS (SELECT 1
                 FROM parley_ready r WITH (READUNCOMMITTED)
                 JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
                WHERE r.queue_id = @p1 AND g.blocked = 0)
    OR EXISTS (SELECT 1 FROM parley_post p WITH (READUNCOMMITTED)
                WHERE p.queue_id = @p2 AND p.blocked = 0)
-- name: FailurePut
UPDATE parley_failure SET attempts = @p2, suspicion = @p3, last_error = @p4, errors = {made @p5} WHERE message_id = @p1;
IF @@ROWCOUNT = 0
  INSERT INTO parley_failure (message_id, attempts, suspicion, last_error, errors) VALUES (@p1, @p2, @p3, @p4, {made @p5})
-- name: PromotionPut
-- Promotions. A promotion that is being replaced is skipped: it stays, as its version
-- will be another.
SET XACT_ABORT OFF;
DECLARE @now bigint = :now;
UPDATE parley_promotion
   SET level = @p3, since = @now, sticky = @p4,
       version = CASE WHEN version >= @now THEN version + 1 ELSE @now END
 WHERE group_id = @p1;
IF @@ROWCOUNT = 0
BEGIN
  BEGIN TRY
    INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
    VALUES (@p1, @p2, @p3, @now, @now, @p4);
  END TRY
  BEGIN CATCH
    IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
    UPDATE parley_promotion
       SET level = @p3, since = @now, sticky = @p4,
           version = CASE WHEN version >= @now THEN version + 1 ELSE @now END
     WHERE group_id = @p1;
  END CATCH
END
-- name: TimerPut
SET XACT_ABORT OFF;
UPDATE parley_timer SET due = :now + @p3, queue_id = @p4 WHERE handle = @p1 AND kind = @p2;
IF @@ROWCOUNT = 0
BEGIN
  BEGIN TRY
    INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (@p1, @p2, :now + @p3, @p4);
  END TRY
  BEGIN CATCH
    IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
    UPDATE parley_timer SET due = :now + @p3, queue_id = @p4 WHERE handle = @p1 AND kind = @p2;
  END CATCH
END

-- name: Walk
-- A claim's first statement: where to look. It locks nothing and returns candidates, including
-- groups that a transaction has claimed (U). First promotions (0 groups, 1 posts), then streams (2)
-- and posts (3), each from a place in its order on.
--
-- @p1 queue, @p2 how many promotions, @p3 level and @p4 since of their place, @p5 how many
-- streams and posts each, @p6 priority and @p7 since of their place
SELECT v.catalog_version, q.enabled, x.what, x.id, x.priority, x.since
  FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
  LEFT JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = @p1
  LEFT JOIN (
         SELECT a.what, a.id, a.priority, a.since
           FROM (SELECT TOP (@p2) CASE WHEN g.group_id IS NULL THEN 1 ELSE 0 END AS what, p.group_id AS id,
                        p.level AS priority, p.since
                   FROM parley_promotion p WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
                   LEFT JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = p.group_id
                   LEFT JOIN parley_post o WITH (READUNCOMMITTED) ON o.post_id = p.group_id
                  WHERE p.queue_id = @p1 AND p.level <= @p3 AND (p.level < @p3 OR p.since >= @p4)
                    AND (g.blocked = 0 AND g.lease_until < :now
                         AND EXISTS (SELECT 1
                                       FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                       JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                         ON m.stream_id = r.stream_id
                                      WHERE r.group_id = p.group_id)
                      OR o.blocked = 0 AND o.lease_until < :now)
                  ORDER BY p.level DESC, p.since, p.group_id) a
          UNION ALL
         SELECT b.what, b.id, b.priority, b.since
           FROM (SELECT TOP (@p5) 2 AS what, r.group_id AS id, r.priority, r.since
                   FROM parley_ready r WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
                   JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
                  WHERE r.queue_id = @p1 AND r.priority <= @p6 AND (r.priority < @p6 OR r.since >= @p7)
                    AND g.blocked = 0 AND g.lease_until < :now
                    AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                                 WHERE m.stream_id = r.stream_id)
                  ORDER BY r.priority DESC, r.since, r.group_id, r.stream_id) b
          UNION ALL
         SELECT c.what, c.id, c.priority, c.since
           FROM (SELECT TOP (@p5) 3 AS what, p.post_id AS id, p.priority, p.since
                   FROM parley_post p WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
                  WHERE p.queue_id = @p1 AND p.priority <= @p6 AND (p.priority < @p6 OR p.since >= @p7)
                    AND p.blocked = 0 AND p.lease_until < :now
                  ORDER BY p.priority DESC, p.since, p.post_id) c) x ON 1 = 1

-- name: Take
-- A claim's second statement, in a transaction. Candidates are locked one by one, by their keys, in
-- the order of the list, up to the number wanted. The first candidate that can be locked decides
-- whether the claim takes groups or posts. The statement checks nothing but the lock of a row, so
-- that it never locks a row and then does not return it. The next statement finds out what changed
-- since the walk. The token of an expired lease is removed and reported, because its receiver died.
--
-- @p1 candidates (num: 0 group, 1 post), @p2 how many
SET NOCOUNT ON;
DECLARE @n int = 0, @id binary(16), @kind bigint, @first bigint, @had int = 0;
DECLARE @locked TABLE (n int NOT NULL PRIMARY KEY, id binary(16) NOT NULL);
DECLARE @orphans TABLE (id binary(16) NOT NULL);
WHILE @had < @p2
BEGIN
  SET @id = NULL;
  SELECT TOP (1) @n = k.n, @id = k.id, @kind = k.num FROM @p1 k
   WHERE k.n > @n AND (@first IS NULL OR k.num = @first) ORDER BY k.n;
  IF @id IS NULL BREAK;
  IF @kind = 0
    INSERT INTO @locked (n, id)
    SELECT @n, g.group_id FROM parley_grp g WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
     WHERE g.group_id = @id;
  ELSE
    INSERT INTO @locked (n, id)
    SELECT @n, p.post_id FROM parley_post p WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
     WHERE p.post_id = @id;
  IF @@ROWCOUNT = 1
    SELECT @had = @had + 1, @first = @kind;
END;
IF @first = 0
  UPDATE g SET fence = g.fence + 1, lease_until = 0, owner = N''
  OUTPUT inserted.group_id INTO @orphans (id)
    FROM @locked k
   INNER LOOP JOIN parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK) ON g.group_id = k.id
   WHERE g.lease_until <> 0 AND g.lease_until < :now;
IF @first = 1
  UPDATE p SET fence = p.fence + 1, lease_until = 0, owner = N'', suspicion = p.suspicion + 1
    FROM @locked k
   INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK) ON p.post_id = k.id
   WHERE p.lease_until <> 0 AND p.lease_until < :now;
SELECT @first, k.id,
       CASE WHEN @first = 0 THEN (SELECT CASE WHEN g.blocked = 0 AND g.lease_until = 0 THEN 1 ELSE 0 END
                                    FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = k.id)
            ELSE (SELECT CASE WHEN p.blocked = 0 AND p.lease_until = 0 THEN 1 ELSE 0 END
                    FROM parley_post p WITH (READUNCOMMITTED) WHERE p.post_id = k.id) END,
       (SELECT count(*) FROM @orphans o WHERE o.id = k.id)
  FROM @locked k ORDER BY k.n

-- name: Lease
-- The same by lease. The lease is its own lock. The update's condition holds for one of two
-- concurrent claims, with or without hints, because an update reads the row again after it has
-- waited. The claimed groups are committed with the messages that the next statement reads.
--
-- @p1 candidates (num: 0 group, 1 post), @p2 how many, @p3 length of the lease, @p4 owner
SET NOCOUNT ON;
DECLARE @n int = 0, @id binary(16), @kind bigint, @first bigint, @had int = 0;
DECLARE @leased TABLE (id binary(16) NOT NULL, lease bigint NOT NULL);
DECLARE @all TABLE (n int NOT NULL PRIMARY KEY, id binary(16) NOT NULL);
WHILE @had < @p2
BEGIN
  SET @id = NULL;
  SELECT TOP (1) @n = k.n, @id = k.id, @kind = k.num FROM @p1 k
   WHERE k.n > @n AND (@first IS NULL OR k.num = @first) ORDER BY k.n;
  IF @id IS NULL BREAK;
  IF @kind = 0
    UPDATE g SET fence = g.fence + 1, lease_until = :now + @p3, held_since = :now, owner = @p4
    OUTPUT inserted.group_id, deleted.lease_until INTO @leased (id, lease)
      FROM parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
     WHERE g.group_id = @id AND g.blocked = 0 AND g.lease_until < :now;
  ELSE
    UPDATE p SET fence = p.fence + 1, lease_until = :now + @p3, held_since = :now, owner = @p4,
           suspicion = p.suspicion + CASE WHEN p.lease_until <> 0 THEN 1 ELSE 0 END
    OUTPUT inserted.post_id, deleted.lease_until INTO @leased (id, lease)
      FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
     WHERE p.post_id = @id AND p.blocked = 0 AND p.lease_until < :now;
  IF @@ROWCOUNT = 1
  BEGIN
    INSERT INTO @all (n, id) VALUES (@n, @id);
    SELECT @had = @had + 1, @first = @kind;
  END
END;
SELECT @first, k.id, 1, CASE WHEN l.lease <> 0 THEN 1 ELSE 0 END
  FROM @all k JOIN @leased l ON l.id = k.id ORDER BY k.n

-- name: Held
-- Posts that are ours, with their promotions.
--
-- @p1 posts
SELECT p.post_id, p.queue_id, p.priority, p.since, p.sent, p.type, p.body, p.headers, p.uniq, p.attempts, p.suspicion,
       p.last_error, p.errors, p.fence, 0, p.blocked, :now
  FROM @p1 k
 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK) ON p.post_id = k.id
 ORDER BY k.n

-- name: Read
-- A claim's third statement: the messages of groups that are ours, in the order in which they are
-- received. Each stream is read up to the last message that the claim saw before (see MessageRead).
--
-- @p1 groups (num: whether a lease ran out), @p2 messages of each, @p3 bytes, @p4 handle, @p5 whether to lock only,
-- @p6 whether the fence has grown
SET NOCOUNT ON;
DECLARE @s TABLE (n int NOT NULL, group_id binary(16) NOT NULL, stream_id binary(16) NOT NULL,
                  priority smallint NOT NULL, kind smallint NOT NULL, endpoint binary(16) NULL,
                  conversation binary(16) NULL, initiator smallint NULL, service nvarchar(256) NULL,
                  far nvarchar(256) NULL, contract nvarchar(256) NULL, state int NOT NULL, last bigint NULL,
                  oldest bigint NULL, PRIMARY KEY (n, stream_id));
IF @p5 = 0
  INSERT INTO @s (n, group_id, stream_id, priority, kind, endpoint, conversation, initiator, service, far,
                  contract, state, last, oldest)
  SELECT k.n, k.id, r.stream_id, r.priority, x.kind, x.endpoint, e.conversation, e.initiator, e.service, e.far,
         e.contract,
         CASE WHEN x.endpoint IS NULL THEN 0
              WHEN e.group_id IS NULL OR e.closed_at IS NOT NULL THEN 1
              WHEN e.group_id <> k.id THEN 2
              ELSE 0 END,
         (SELECT max(m.seq) FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
           WHERE m.stream_id = r.stream_id),
         (SELECT TOP (1) m.since FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
           WHERE m.stream_id = r.stream_id ORDER BY m.seq)
    FROM @p1 k
   INNER LOOP JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON r.group_id = k.id
   INNER LOOP JOIN parley_stream x WITH (READUNCOMMITTED) ON x.stream_id = r.stream_id
    LEFT LOOP JOIN parley_endpoint e WITH (READUNCOMMITTED) ON e.handle = x.endpoint;
SELECT k.n, g.fence - @p6, k.num, p.level, p.version, p.sticky, g.name, t.state, t.stream_id, t.seq, t.message_id,
       t.message_kind, t.type, t.body, t.headers, t.since, t.uniq, f.attempts, f.suspicion, f.last_error, f.errors,
       CASE WHEN t.first = 1 THEN t.priority END, t.endpoint, t.conversation, t.initiator, t.service, t.far,
       t.contract, t.kind
  FROM @p1 k
  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = k.id
  LEFT JOIN parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.group_id = k.id
  LEFT JOIN (
         SELECT y.n, y.k, y.state, y.stream_id, y.seq, y.message_id, y.message_kind, y.type, y.body, y.headers, y.since,
                y.uniq, y.first, y.priority, y.endpoint, y.conversation, y.initiator, y.service, y.far,
                y.contract, y.kind
           FROM (SELECT m.*,
                        sum(coalesce(CONVERT(bigint, DATALENGTH(m.body)), 0)
                            + coalesce(CONVERT(bigint, DATALENGTH(m.headers) / 2), 0))
                          OVER (ORDER BY m.n, m.i ROWS UNBOUNDED PRECEDING) AS bytes,
                        row_number() OVER (ORDER BY m.n, m.i) AS k,
                        row_number() OVER (PARTITION BY m.n, m.stream_id ORDER BY m.i) AS first
                   FROM (SELECT s.n, s.state, s.stream_id, s.priority, s.endpoint, s.conversation, s.initiator,
                                s.service, s.far, s.contract, s.kind, x.seq, x.message_id,
                                x.kind AS message_kind, x.type, x.body, x.headers, x.since, x.uniq,
                                row_number() OVER (PARTITION BY s.n
                                                   ORDER BY s.priority DESC, s.oldest, s.endpoint, s.kind, s.stream_id,
                                                            x.seq) AS i
                           FROM (SELECT r.n, r.state, r.stream_id, r.priority, r.endpoint, r.conversation,
                                        r.initiator, r.service, r.far, r.contract, r.kind, r.last,
                                        min(r.oldest) OVER (PARTITION BY r.n, r.endpoint) AS oldest
                                   FROM @s r WHERE r.state = 0) s
                          CROSS APPLY (SELECT TOP (@p2) y.seq, y.message_id, y.kind, y.type, y.body, y.headers, y.since,
                                              y.uniq
                                         FROM parley_message y WITH (READCOMMITTEDLOCK, ROWLOCK)
                                        WHERE y.stream_id = s.stream_id AND y.seq <= s.last
                                        ORDER BY y.seq) x
                          WHERE @p4 IS NULL OR s.endpoint = @p4) m
                  WHERE m.i <= @p2) y
          WHERE y.k = 1 OR y.bytes <= @p3
          UNION ALL
         SELECT s.n, 0, s.state, s.stream_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, s.priority, s.endpoint,
                NULL, NULL, NULL, NULL, NULL, s.kind
           FROM @s s WHERE s.state <> 0) t ON t.n = k.n
  LEFT JOIN parley_failure f WITH (READCOMMITTEDLOCK, ROWLOCK) ON f.message_id = t.message_id
 ORDER BY k.n, t.k
