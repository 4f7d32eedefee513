-- name: SchemaExists
SELECT 1 WHERE to_regclass('{prefix}meta') IS NOT NULL
-- name: SchemaClock
SELECT :now
-- name: SchemaTables
SELECT c.relname,
       concat_ws(', ', CASE WHEN NOT has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END,
                       CASE WHEN NOT has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
                       CASE WHEN NOT has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END,
                       CASE WHEN NOT has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END)
  FROM pg_class c
 WHERE c.relkind = 'r'
   AND c.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass('{prefix}meta'))
-- name: SchemaIndexes
SELECT t.relname, i.relname, CASE WHEN x.indisvalid AND x.indisready THEN 1 ELSE 0 END
  FROM pg_index x
  JOIN pg_class i ON i.oid = x.indexrelid
  JOIN pg_class t ON t.oid = x.indrelid
 WHERE t.relnamespace = (SELECT m.relnamespace FROM pg_class m WHERE m.oid = to_regclass('{prefix}meta'))
