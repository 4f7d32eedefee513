-- name: SchemaExists
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}meta'
-- name: SchemaTables
SELECT name, '' FROM sqlite_master WHERE type = 'table'
-- name: SchemaIndexes
SELECT tbl_name, name, 1 FROM sqlite_master WHERE type = 'index'
-- name: CatalogLock
SELECT 1 FROM parley_meta
