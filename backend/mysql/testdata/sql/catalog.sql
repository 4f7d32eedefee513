-- name: CatalogBump
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_meta SET catalog_version = catalog_version + 1 WHERE id = 1

-- name: CatalogLock
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM parley_meta WHERE id = 1 FOR UPDATE

-- name: CatalogObjects
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT kind, spec FROM parley_object ORDER BY kind, name

-- name: CatalogQueues
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT queue_id, name, enabled, retention, keep_processed
  FROM parley_queue ORDER BY name

-- name: CatalogVersion
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT catalog_version FROM parley_meta

-- name: DefinitionInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_definition (version, n, kind, name, digest) VALUES (?, ?, ?, ?, ?)

-- name: DefinitionsInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_definition (version, n, kind, name, digest)
VALUES (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?)

-- name: DefinitionsRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT kind, name, version, digest FROM parley_definition ORDER BY version, n

-- name: ObjectDelete
/*M! SET STATEMENT max_statement_time = 0 FOR */
DELETE FROM parley_object WHERE kind = ? AND name = ?

-- name: ObjectInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_object (kind, name, spec) VALUES (?, ?, ?)

-- name: QueueInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
VALUES (?, ?, ?, ?, ?)

-- name: QueueRead
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT v.catalog_version, q.enabled
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = ?

-- name: QueueUpdate
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_queue SET enabled = ?, retention = ?, keep_processed = ?, edited = edited + 1
 WHERE name = ?

-- name: QueuesInsert
/*M! SET STATEMENT max_statement_time = 0 FOR */
INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
VALUES (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?), (?, ?, ?, ?, ?)

-- name: SchemaAnnounce
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_meta SET min_program = ?, catalog_version = catalog_version + 1 WHERE id = 1

-- name: SchemaClock
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))

-- name: SchemaExists
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT 1 FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_name = 'parley_meta'

-- name: SchemaFinish
/*M! SET STATEMENT max_statement_time = 0 FOR */
UPDATE parley_meta SET oldest_program = ? WHERE id = 1

-- name: SchemaIndexes
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT DISTINCT table_name, index_name, 1 FROM information_schema.statistics
 WHERE table_schema = DATABASE()

-- name: SchemaLeases
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT owner, lease_until - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_grp WHERE lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND held_since <= ?
 UNION ALL
SELECT owner, lease_until - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_post WHERE lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND held_since <= ?
 UNION ALL
SELECT owner, due - TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) FROM parley_task WHERE live = 1 AND state = 1 AND due > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AND started <= ?

-- name: SchemaOldest
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT oldest_program FROM parley_meta

-- name: SchemaProgram
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT min_program FROM parley_meta

-- name: SchemaTables
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT table_name, '' FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'

-- name: SchemaVersion
/*M! SET STATEMENT max_statement_time = 0 FOR */
SELECT schema_version, catalog_version FROM parley_meta
