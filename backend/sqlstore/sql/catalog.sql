-- name: SchemaVersion
-- A transaction that uses it waits for one that is changing it, for the
-- length of a short transaction. It does not wait for one that only holds its lock.
SELECT schema_version, catalog_version FROM parley_meta {read wait}
-- name: SchemaProgram
SELECT min_program FROM parley_meta {read wait}
-- name: SchemaAnnounce
UPDATE parley_meta SET min_program = ?, catalog_version = catalog_version + 1
-- name: SchemaOldest
SELECT oldest_program FROM parley_meta {read wait}
-- name: SchemaFinish
UPDATE parley_meta SET oldest_program = ?
-- name: SchemaLeases
SELECT owner, lease_until - :now FROM parley_grp {read dirty} WHERE lease_until > :now AND held_since <= ?
 UNION ALL
SELECT owner, lease_until - :now FROM parley_post {read dirty} WHERE lease_until > :now AND held_since <= ?
 UNION ALL
SELECT owner, due - :now FROM parley_task {read dirty} WHERE live = 1 AND state = 1 AND due > :now AND started <= ?
-- name: DefinitionsRead
SELECT kind, name, version, digest FROM parley_definition {read wait} ORDER BY version, n
-- name: DefinitionInsert
INSERT INTO parley_definition (version, n, kind, name, digest) VALUES (?, ?, ?, ?, ?)
-- name: DefinitionsInsert
INSERT INTO parley_definition (version, n, kind, name, digest)
VALUES {{20 (?, ?, ?, ?, ?)}}
-- name: CatalogLock
SELECT 1 FROM parley_meta {lock wait}
-- name: CatalogVersion
SELECT catalog_version FROM parley_meta {read wait}
-- name: CatalogBump
UPDATE parley_meta SET catalog_version = catalog_version + 1
-- name: CatalogObjects
SELECT kind, spec FROM parley_object {read wait} ORDER BY kind, name{bytes bytes}
-- name: CatalogQueues
SELECT queue_id, name, enabled, retention, keep_processed
  FROM parley_queue {read wait} ORDER BY name{bytes bytes}
-- name: ObjectDelete
DELETE FROM parley_object WHERE kind = ? AND name = ?{exact}
-- name: ObjectInsert
INSERT INTO parley_object (kind, name{bytes bytes}, spec) VALUES (?, ?{bytes ?}, ?)
-- name: QueueRead
SELECT v.catalog_version, q.enabled
  FROM parley_meta v {read wait}
  LEFT JOIN parley_queue q {read wait} ON q.queue_id = ?
-- name: QueueInsert
INSERT INTO parley_queue (queue_id, name{bytes bytes}, enabled, retention, keep_processed)
VALUES (?, ?{bytes ?}, ?, ?, ?)
-- name: QueuesInsert
INSERT INTO parley_queue (queue_id, name{bytes bytes}, enabled, retention, keep_processed)
VALUES {{20 (?, ?{bytes ?}, ?, ?, ?)}}
-- name: QueueUpdate
UPDATE parley_queue SET enabled = ?, retention = ?, keep_processed = ? WHERE name = ?{exact}
