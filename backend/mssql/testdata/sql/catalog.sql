-- name: CatalogBump
UPDATE parley_meta SET catalog_version = catalog_version + 1

-- name: CatalogLock
SELECT 1 FROM parley_meta WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK)

-- name: CatalogObjects
SELECT kind, spec FROM parley_object WITH (READCOMMITTEDLOCK, ROWLOCK) ORDER BY kind, name, bytes

-- name: CatalogQueues
SELECT queue_id, name, enabled, retention, keep_processed
  FROM parley_queue WITH (READCOMMITTEDLOCK, ROWLOCK) ORDER BY name, bytes

-- name: CatalogVersion
SELECT catalog_version FROM parley_meta WITH (READCOMMITTEDLOCK, ROWLOCK)

-- name: DefinitionInsert
INSERT INTO parley_definition (version, n, kind, name, digest) VALUES (@p1, @p2, @p3, @p4, @p5)

-- name: DefinitionsInsert
INSERT INTO parley_definition (version, n, kind, name, digest)
VALUES (@p1, @p2, @p3, @p4, @p5), (@p6, @p7, @p8, @p9, @p10), (@p11, @p12, @p13, @p14, @p15), (@p16, @p17, @p18, @p19, @p20), (@p21, @p22, @p23, @p24, @p25), (@p26, @p27, @p28, @p29, @p30), (@p31, @p32, @p33, @p34, @p35), (@p36, @p37, @p38, @p39, @p40), (@p41, @p42, @p43, @p44, @p45), (@p46, @p47, @p48, @p49, @p50), (@p51, @p52, @p53, @p54, @p55), (@p56, @p57, @p58, @p59, @p60), (@p61, @p62, @p63, @p64, @p65), (@p66, @p67, @p68, @p69, @p70), (@p71, @p72, @p73, @p74, @p75), (@p76, @p77, @p78, @p79, @p80), (@p81, @p82, @p83, @p84, @p85), (@p86, @p87, @p88, @p89, @p90), (@p91, @p92, @p93, @p94, @p95), (@p96, @p97, @p98, @p99, @p100)

-- name: DefinitionsRead
SELECT kind, name, version, digest FROM parley_definition WITH (READCOMMITTEDLOCK, ROWLOCK) ORDER BY version, n

-- name: ObjectDelete
DELETE FROM parley_object WHERE kind = @p1 AND name = @p2 AND bytes = DATALENGTH(@p2)

-- name: ObjectInsert
INSERT INTO parley_object (kind, name, bytes, spec) VALUES (@p1, @p2, DATALENGTH(@p2), @p3)

-- name: QueueInsert
INSERT INTO parley_queue (queue_id, name, bytes, enabled, retention, keep_processed)
VALUES (@p1, @p2, DATALENGTH(@p2), @p3, @p4, @p5)

-- name: QueueRead
SELECT v.catalog_version, q.enabled
  FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
  LEFT JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = @p1

-- name: QueueUpdate
UPDATE parley_queue SET enabled = @p1, retention = @p2, keep_processed = @p3 WHERE name = @p4 AND bytes = DATALENGTH(@p4)

-- name: QueuesInsert
INSERT INTO parley_queue (queue_id, name, bytes, enabled, retention, keep_processed)
VALUES (@p1, @p2, DATALENGTH(@p2), @p3, @p4, @p5), (@p6, @p7, DATALENGTH(@p7), @p8, @p9, @p10), (@p11, @p12, DATALENGTH(@p12), @p13, @p14, @p15), (@p16, @p17, DATALENGTH(@p17), @p18, @p19, @p20), (@p21, @p22, DATALENGTH(@p22), @p23, @p24, @p25), (@p26, @p27, DATALENGTH(@p27), @p28, @p29, @p30), (@p31, @p32, DATALENGTH(@p32), @p33, @p34, @p35), (@p36, @p37, DATALENGTH(@p37), @p38, @p39, @p40), (@p41, @p42, DATALENGTH(@p42), @p43, @p44, @p45), (@p46, @p47, DATALENGTH(@p47), @p48, @p49, @p50), (@p51, @p52, DATALENGTH(@p52), @p53, @p54, @p55), (@p56, @p57, DATALENGTH(@p57), @p58, @p59, @p60), (@p61, @p62, DATALENGTH(@p62), @p63, @p64, @p65), (@p66, @p67, DATALENGTH(@p67), @p68, @p69, @p70), (@p71, @p72, DATALENGTH(@p72), @p73, @p74, @p75), (@p76, @p77, DATALENGTH(@p77), @p78, @p79, @p80), (@p81, @p82, DATALENGTH(@p82), @p83, @p84, @p85), (@p86, @p87, DATALENGTH(@p87), @p88, @p89, @p90), (@p91, @p92, DATALENGTH(@p92), @p93, @p94, @p95), (@p96, @p97, DATALENGTH(@p97), @p98, @p99, @p100)

-- name: SchemaAnnounce
UPDATE parley_meta SET min_program = @p1, catalog_version = catalog_version + 1

-- name: SchemaClock
SELECT DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())

-- name: SchemaExists
SELECT 1 WHERE OBJECT_ID(N'parley_meta') IS NOT NULL

-- name: SchemaFinish
UPDATE parley_meta SET oldest_program = @p1

-- name: SchemaIndexes
SELECT t.name, i.name, CASE WHEN i.is_disabled = 0 THEN 1 ELSE 0 END
  FROM sys.tables t
  JOIN sys.indexes i ON i.object_id = t.object_id
 WHERE i.name IS NOT NULL
   AND t.schema_id = (SELECT m.schema_id FROM sys.tables m WHERE m.object_id = OBJECT_ID(N'parley_meta'))

-- name: SchemaLeases
SELECT owner, lease_until - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_grp WITH (READUNCOMMITTED) WHERE lease_until > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND held_since <= @p1
 UNION ALL
SELECT owner, lease_until - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_post WITH (READUNCOMMITTED) WHERE lease_until > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND held_since <= @p2
 UNION ALL
SELECT owner, due - DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) FROM parley_task WITH (READUNCOMMITTED) WHERE live = 1 AND state = 1 AND due > DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME()) AND started <= @p3

-- name: SchemaOldest
SELECT oldest_program FROM parley_meta WITH (READCOMMITTEDLOCK, ROWLOCK)

-- name: SchemaProgram
SELECT min_program FROM parley_meta WITH (READCOMMITTEDLOCK, ROWLOCK)

-- name: SchemaTables
SELECT t.name,
       CONCAT_WS(', ', CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'SELECT') = 1 THEN NULL ELSE 'SELECT' END,
                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'INSERT') = 1 THEN NULL ELSE 'INSERT' END,
                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'UPDATE') = 1 THEN NULL ELSE 'UPDATE' END,
                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'DELETE') = 1 THEN NULL ELSE 'DELETE' END)
  FROM sys.tables t
 CROSS APPLY (SELECT QUOTENAME(SCHEMA_NAME(t.schema_id)) + '.' + QUOTENAME(t.name) AS name) n
 WHERE t.schema_id = (SELECT m.schema_id FROM sys.tables m WHERE m.object_id = OBJECT_ID(N'parley_meta'))

-- name: SchemaVersion
SELECT schema_version, catalog_version FROM parley_meta WITH (READCOMMITTEDLOCK, ROWLOCK)
