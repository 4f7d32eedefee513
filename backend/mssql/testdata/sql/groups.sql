-- name: GroupBlock
UPDATE parley_grp
   SET blocked = @p1, blocked_since = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), blocked_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p2, reason = @p3,
       resweep = 0 
 WHERE group_id = @p4

-- name: GroupDelete
DELETE FROM parley_grp WHERE group_id = @p1

-- name: GroupExtend
UPDATE parley_grp SET lease_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1
 WHERE group_id = @p2 AND fence = @p3 AND lease_until <> 0

-- name: GroupFree
SELECT 1 FROM parley_grp WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE group_id = @p1 AND lease_until < DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: GroupInsert
SET XACT_ABORT OFF; SET @rows = 0;
BEGIN TRY
  INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES (@p1, @p2, @p3, @p4) ;
  SET @rows = @@ROWCOUNT;
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH

-- name: GroupJoin
UPDATE parley_grp SET resweep = resweep WHERE group_id = @p1

-- name: GroupLease
UPDATE parley_grp
   SET fence = fence + 1, lease_until = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) + @p1, held_since = DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()), owner = @p2
 WHERE group_id = @p3

-- name: GroupRead
SELECT queue_id, service, name, fence, lease_until, blocked, blocked_until, resweep, DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())
  FROM parley_grp WITH (READUNCOMMITTED) WHERE group_id = @p1

-- name: GroupReclaim
UPDATE parley_grp WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) SET lease_until = 0, owner = N''
 WHERE group_id = @p1 AND fence = @p2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= 12

-- name: GroupReclaimWait
UPDATE parley_grp SET lease_until = 0, owner = ''
 WHERE group_id = @p1 AND fence = @p2 AND lease_until <> 0
   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= 12

-- name: GroupTry
SELECT 1 FROM parley_grp WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE group_id = @p1

-- name: GroupUnblock
UPDATE parley_grp SET blocked = 0, blocked_until = @p1, reason = '', resweep = @p2
 WHERE group_id = @p3

-- name: GroupUnlease
UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id = @p1

-- name: GroupUse
SELECT (SELECT count(*) FROM parley_endpoint e WITH (READUNCOMMITTED) WHERE e.group_id = g.group_id)
     + (SELECT count(*) FROM parley_stream s WITH (INDEX(by_group), READUNCOMMITTED)
         WHERE s.group_id = g.group_id AND s.stream_id <> g.group_id)
     + (SELECT count(*) FROM parley_ready r WITH (READUNCOMMITTED)
         WHERE r.group_id = g.group_id)
     + (SELECT count(*) FROM parley_message m WITH (READUNCOMMITTED) WHERE m.stream_id = g.group_id)
     + (SELECT count(*) FROM parley_delayed d WITH (READUNCOMMITTED)
         WHERE d.queue_id = g.queue_id AND d.name = g.name AND DATALENGTH(d.name) = DATALENGTH(g.name) AND g.name <> '')
     + (SELECT count(*) FROM parley_stream s WITH (READUNCOMMITTED)
         WHERE s.stream_id = g.group_id AND (s.kind <> 3 OR s.touched > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) - 60000000))
  FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = @p1
