-- name: CatalogBump
UPDATE parley_meta SET catalog_version = catalog_version + 1

-- name: CatalogLock
SELECT 1 FROM parley_meta
FOR NO KEY UPDATE

-- name: CatalogObjects
SELECT kind, spec FROM parley_object ORDER BY kind, name

-- name: CatalogQueues
SELECT queue_id, name, enabled, retention, keep_processed
  FROM parley_queue ORDER BY name

-- name: CatalogVersion
SELECT catalog_version FROM parley_meta

-- name: DefinitionInsert
INSERT INTO parley_definition (version, n, kind, name, digest) VALUES ($1, $2, $3, $4, $5)

-- name: DefinitionsInsert
INSERT INTO parley_definition (version, n, kind, name, digest)
VALUES ($1, $2, $3, $4, $5), ($6, $7, $8, $9, $10), ($11, $12, $13, $14, $15), ($16, $17, $18, $19, $20), ($21, $22, $23, $24, $25), ($26, $27, $28, $29, $30), ($31, $32, $33, $34, $35), ($36, $37, $38, $39, $40), ($41, $42, $43, $44, $45), ($46, $47, $48, $49, $50), ($51, $52, $53, $54, $55), ($56, $57, $58, $59, $60), ($61, $62, $63, $64, $65), ($66, $67, $68, $69, $70), ($71, $72, $73, $74, $75), ($76, $77, $78, $79, $80), ($81, $82, $83, $84, $85), ($86, $87, $88, $89, $90), ($91, $92, $93, $94, $95), ($96, $97, $98, $99, $100)

-- name: DefinitionsRead
SELECT kind, name, version, digest FROM parley_definition ORDER BY version, n

-- name: ObjectDelete
DELETE FROM parley_object WHERE kind = $1 AND name = $2

-- name: ObjectInsert
INSERT INTO parley_object (kind, name, spec) VALUES ($1, $2, $3)

-- name: QueueInsert
INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
VALUES ($1, $2, $3, $4, $5)

-- name: QueueRead
SELECT v.catalog_version, q.enabled
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = $1

-- name: QueueUpdate
UPDATE parley_queue SET enabled = $1, retention = $2, keep_processed = $3 WHERE name = $4

-- name: QueuesInsert
INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
VALUES ($1, $2, $3, $4, $5), ($6, $7, $8, $9, $10), ($11, $12, $13, $14, $15), ($16, $17, $18, $19, $20), ($21, $22, $23, $24, $25), ($26, $27, $28, $29, $30), ($31, $32, $33, $34, $35), ($36, $37, $38, $39, $40), ($41, $42, $43, $44, $45), ($46, $47, $48, $49, $50), ($51, $52, $53, $54, $55), ($56, $57, $58, $59, $60), ($61, $62, $63, $64, $65), ($66, $67, $68, $69, $70), ($71, $72, $73, $74, $75), ($76, $77, $78, $79, $80), ($81, $82, $83, $84, $85), ($86, $87, $88, $89, $90), ($91, $92, $93, $94, $95), ($96, $97, $98, $99, $100)

-- name: SchemaAnnounce
UPDATE parley_meta SET min_program = $1, catalog_version = catalog_version + 1

-- name: SchemaClock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: SchemaExists
SELECT 1 WHERE to_regclass('parley_meta') IS NOT NULL

-- name: SchemaFinish
UPDATE parley_meta SET oldest_program = $1

-- name: SchemaIndexes
SELECT t.relname, i.relname, CASE WHEN x.indisvalid AND x.indisready THEN 1 ELSE 0 END
  FROM pg_index x
  JOIN pg_class i ON i.oid = x.indexrelid
  JOIN pg_class t ON t.oid = x.indrelid
 WHERE t.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass('parley_meta'))

-- name: SchemaLeases
SELECT owner, lease_until - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM parley_grp WHERE lease_until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND held_since <= $1
 UNION ALL
SELECT owner, lease_until - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM parley_post WHERE lease_until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND held_since <= $2
 UNION ALL
SELECT owner, due - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM parley_task WHERE live = 1 AND state = 1 AND due > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND started <= $3

-- name: SchemaOldest
SELECT oldest_program FROM parley_meta

-- name: SchemaProgram
SELECT min_program FROM parley_meta

-- name: SchemaTables
SELECT c.relname,
       concat_ws(', ', CASE WHEN NOT has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END,
                       CASE WHEN NOT has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
                       CASE WHEN NOT has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END,
                       CASE WHEN NOT has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END)
  FROM pg_class c
 WHERE c.relkind = 'r'
   AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass('parley_meta'))

-- name: SchemaVersion
SELECT schema_version, catalog_version FROM parley_meta
