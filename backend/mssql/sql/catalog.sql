-- name: SchemaExists
SELECT 1 WHERE OBJECT_ID(N'{prefix}meta') IS NOT NULL
-- name: SchemaClock
SELECT :now
-- name: SchemaTables
SELECT t.name,
       CONCAT_WS(', ', CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'SELECT') = 1 THEN NULL ELSE 'SELECT' END,
                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'INSERT') = 1 THEN NULL ELSE 'INSERT' END,
                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'UPDATE') = 1 THEN NULL ELSE 'UPDATE' END,
                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'DELETE') = 1 THEN NULL ELSE 'DELETE' END)
  FROM sys.tables t
 CROSS APPLY (SELECT QUOTENAME(SCHEMA_NAME(t.schema_id)) + '.' + QUOTENAME(t.name) AS name) n
 WHERE t.schema_id = (SELECT m.schema_id FROM sys.tables m WHERE m.object_id = OBJECT_ID(N'{prefix}meta'))
-- name: SchemaIndexes
SELECT t.name, i.name, CASE WHEN i.is_disabled = 0 THEN 1 ELSE 0 END
  FROM sys.tables t
  JOIN sys.indexes i ON i.object_id = t.object_id
 WHERE i.name IS NOT NULL
   AND t.schema_id = (SELECT m.schema_id FROM sys.tables m WHERE m.object_id = OBJECT_ID(N'{prefix}meta'))
