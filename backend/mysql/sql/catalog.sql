-- name: SchemaExists
SELECT 1 FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_name = '{prefix}meta'
-- name: SchemaClock
SELECT :now
-- name: SchemaTables
SELECT table_name, '' FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'
-- name: SchemaIndexes
SELECT DISTINCT table_name, index_name, 1 FROM information_schema.statistics
 WHERE table_schema = DATABASE()
-- name: CatalogLock
SELECT 1 FROM parley_meta WHERE id = 1 FOR UPDATE
-- name: CatalogBump
UPDATE parley_meta SET catalog_version = catalog_version + 1 WHERE id = 1
-- name: SchemaAnnounce
UPDATE parley_meta SET min_program = ?, catalog_version = catalog_version + 1 WHERE id = 1
-- name: SchemaFinish
UPDATE parley_meta SET oldest_program = ? WHERE id = 1
-- name: QueueUpdate
-- What is counted as changed depends on the handle's clientFoundRows, so that
-- something has to change in every case.
UPDATE parley_queue SET enabled = ?, retention = ?, keep_processed = ?, edited = edited + 1
 WHERE name = ?
