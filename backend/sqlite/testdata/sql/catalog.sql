-- name: CatalogBump
UPDATE parley_meta SET catalog_version = catalog_version + 1

-- name: CatalogLock
SELECT 1 FROM parley_meta

-- name: CatalogObjects
SELECT kind, spec FROM parley_object ORDER BY kind, name

-- name: CatalogQueues
SELECT queue_id, name, enabled, retention, keep_processed
  FROM parley_queue ORDER BY name

-- name: CatalogVersion
SELECT catalog_version FROM parley_meta

-- name: DefinitionInsert
INSERT INTO parley_definition (version, n, kind, name, digest) VALUES (?1, ?2, ?3, ?4, ?5)

-- name: DefinitionsInsert
INSERT INTO parley_definition (version, n, kind, name, digest)
VALUES (?1, ?2, ?3, ?4, ?5), (?6, ?7, ?8, ?9, ?10), (?11, ?12, ?13, ?14, ?15), (?16, ?17, ?18, ?19, ?20), (?21, ?22, ?23, ?24, ?25), (?26, ?27, ?28, ?29, ?30), (?31, ?32, ?33, ?34, ?35), (?36, ?37, ?38, ?39, ?40), (?41, ?42, ?43, ?44, ?45), (?46, ?47, ?48, ?49, ?50), (?51, ?52, ?53, ?54, ?55), (?56, ?57, ?58, ?59, ?60), (?61, ?62, ?63, ?64, ?65), (?66, ?67, ?68, ?69, ?70), (?71, ?72, ?73, ?74, ?75), (?76, ?77, ?78, ?79, ?80), (?81, ?82, ?83, ?84, ?85), (?86, ?87, ?88, ?89, ?90), (?91, ?92, ?93, ?94, ?95), (?96, ?97, ?98, ?99, ?100)

-- name: DefinitionsRead
SELECT kind, name, version, digest FROM parley_definition ORDER BY version, n

-- name: ObjectDelete
DELETE FROM parley_object WHERE kind = +?1 AND name = ?2

-- name: ObjectInsert
INSERT INTO parley_object (kind, name, spec) VALUES (?1, ?2, ?3)

-- name: QueueInsert
INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
VALUES (?1, ?2, ?3, ?4, ?5)

-- name: QueueRead
SELECT v.catalog_version, q.enabled
  FROM parley_meta v
  LEFT JOIN parley_queue q ON q.queue_id = +?1

-- name: QueueUpdate
UPDATE parley_queue SET enabled = ?1, retention = ?2, keep_processed = ?3 WHERE name = ?4

-- name: QueuesInsert
INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
VALUES (?1, ?2, ?3, ?4, ?5), (?6, ?7, ?8, ?9, ?10), (?11, ?12, ?13, ?14, ?15), (?16, ?17, ?18, ?19, ?20), (?21, ?22, ?23, ?24, ?25), (?26, ?27, ?28, ?29, ?30), (?31, ?32, ?33, ?34, ?35), (?36, ?37, ?38, ?39, ?40), (?41, ?42, ?43, ?44, ?45), (?46, ?47, ?48, ?49, ?50), (?51, ?52, ?53, ?54, ?55), (?56, ?57, ?58, ?59, ?60), (?61, ?62, ?63, ?64, ?65), (?66, ?67, ?68, ?69, ?70), (?71, ?72, ?73, ?74, ?75), (?76, ?77, ?78, ?79, ?80), (?81, ?82, ?83, ?84, ?85), (?86, ?87, ?88, ?89, ?90), (?91, ?92, ?93, ?94, ?95), (?96, ?97, ?98, ?99, ?100)

-- name: SchemaAnnounce
UPDATE parley_meta SET min_program = ?1, catalog_version = catalog_version + 1

-- name: SchemaExists
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'parley_meta'

-- name: SchemaFinish
UPDATE parley_meta SET oldest_program = ?1

-- name: SchemaIndexes
SELECT tbl_name, name, 1 FROM sqlite_master WHERE type = 'index'

-- name: SchemaLeases
SELECT owner, lease_until - ?4 FROM parley_grp WHERE lease_until > ?4 AND held_since <= ?1
 UNION ALL
SELECT owner, lease_until - ?4 FROM parley_post WHERE lease_until > ?4 AND held_since <= ?2
 UNION ALL
SELECT owner, due - ?4 FROM parley_task WHERE live = 1 AND state = 1 AND due > ?4 AND started <= ?3

-- name: SchemaOldest
SELECT oldest_program FROM parley_meta

-- name: SchemaProgram
SELECT min_program FROM parley_meta

-- name: SchemaTables
SELECT name, '' FROM sqlite_master WHERE type = 'table'

-- name: SchemaVersion
SELECT schema_version, catalog_version FROM parley_meta
