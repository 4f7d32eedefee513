-- name: Extend
SET NOCOUNT ON;
DECLARE @ok TABLE (id binary(16) NOT NULL);
UPDATE g SET lease_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p3
OUTPUT inserted.group_id INTO @ok (id)
  FROM @p1 k
 INNER LOOP JOIN parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON g.group_id = k.id
 WHERE g.fence = k.num AND g.lease_until <> 0;
UPDATE p SET lease_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p3
OUTPUT inserted.post_id INTO @ok (id)
  FROM @p2 k
 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.post_id = k.id
 WHERE p.fence = k.num AND p.lease_until <> 0;
SELECT (SELECT count(*) FROM @p1 k
         WHERE NOT EXISTS (SELECT 1 FROM @ok o WHERE o.id = k.id)
           AND (EXISTS (SELECT 1 FROM parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                         WHERE g.group_id = k.id)
             OR NOT EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED)
                             WHERE g.group_id = k.id AND g.fence = k.num)))
     + (SELECT count(*) FROM @p2 k
         WHERE NOT EXISTS (SELECT 1 FROM @ok o WHERE o.id = k.id)
           AND (EXISTS (SELECT 1 FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
                         WHERE p.post_id = k.id)
             OR NOT EXISTS (SELECT 1 FROM parley_post p WITH (READUNCOMMITTED)
                             WHERE p.post_id = k.id AND p.fence = k.num)))

-- name: Finish
SET NOCOUNT ON;
DECLARE @ours TABLE (id binary(16) NOT NULL PRIMARY KEY);
DECLARE @h TABLE (id binary(16) NOT NULL PRIMARY KEY, group_id binary(16) NULL, kind smallint NOT NULL,
                  blocked smallint NOT NULL, first bigint NULL);
BEGIN TRY
  INSERT INTO @ours (id)
  SELECT s.stream_id
    FROM @p1 k
   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST) ON s.stream_id = k.id;
  INSERT INTO @h (id, group_id, kind, blocked, first)
  SELECT s.stream_id, s.group_id, s.kind, coalesce(g.blocked, 1),
         (SELECT TOP (1) m.since FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK)
           WHERE m.stream_id = s.stream_id ORDER BY m.seq)
    FROM @ours k
   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK) ON s.stream_id = k.id
    LEFT LOOP JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = s.group_id;
  DELETE r
    FROM @h h
   INNER LOOP JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK) ON r.group_id = h.group_id AND r.stream_id = h.id
   WHERE h.first IS NULL OR h.blocked <> 0;
  UPDATE r SET since = h.first
    FROM @h h
   INNER LOOP JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK) ON r.group_id = h.group_id AND r.stream_id = h.id
   WHERE h.blocked = 0 AND h.first > r.since;
  DELETE s
    FROM @h h
   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK) ON s.stream_id = h.id
   WHERE h.kind < 2 AND h.first IS NULL;
  SELECT count(*) FROM @ours;
END TRY
BEGIN CATCH
  THROW;
END CATCH

-- name: Reclaim
SET NOCOUNT ON;
DECLARE @ok TABLE (id binary(16) NOT NULL);
DECLARE @schema int = (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK));
UPDATE g SET lease_until = 0, owner = N''
OUTPUT inserted.group_id INTO @ok (id)
  FROM @p1 k
 INNER LOOP JOIN parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON g.group_id = k.id
 WHERE g.fence = k.num AND g.lease_until <> 0 AND @schema <= 12;
UPDATE p SET lease_until = 0, owner = N''
OUTPUT inserted.post_id INTO @ok (id)
  FROM @p2 k
 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.post_id = k.id
 WHERE p.fence = k.num AND p.lease_until <> 0 AND @schema <= 12;
SELECT id FROM @ok

-- name: Remove
DELETE m
  FROM @p1 k
 INNER LOOP JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK) ON m.stream_id = k.id AND m.seq = k.num

-- name: RemovePosts
DELETE p
  FROM @p1 k
 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK) ON p.post_id = k.id
