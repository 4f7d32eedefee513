-- Least privilege. parley_post works with the rights of its owner, so that its callers
-- need EXECUTE and no right to any table. Objects that a caller makes, also temporary
-- ones, are not looked at: the search_path is that of the function alone.
--
-- PostgreSQL lets every role execute a new function. So far that was not enough to post:
-- a caller needed INSERT on the tables as well. A role that was granted INSERT keeps its
-- calls by EXECUTE, PUBLIC too. Otherwise PUBLIC loses EXECUTE.
DO $$
DECLARE
  home   text := quote_ident(current_schema());
  post   text := home || '.parley_post(text, text, bytea, text)';
  caller oid;
BEGIN
  EXECUTE 'ALTER FUNCTION ' || post || ' SECURITY DEFINER SET search_path = ' || home || ', pg_temp';
  EXECUTE 'REVOKE ALL ON FUNCTION ' || post || ' FROM PUBLIC';
  FOR caller IN
    SELECT DISTINCT a.grantee
      FROM (SELECT c.relacl AS acl FROM pg_class c
             WHERE c.oid IN ((home || '.parley_post')::regclass, (home || '.parley_message')::regclass)
             UNION ALL
            SELECT c.attacl FROM pg_attribute c
             WHERE c.attrelid IN ((home || '.parley_post')::regclass, (home || '.parley_message')::regclass)) t
     CROSS JOIN LATERAL aclexplode(t.acl) a
     WHERE a.privilege_type = 'INSERT'
  LOOP
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || post || ' TO '
         || CASE caller WHEN 0 THEN 'PUBLIC' ELSE caller::regrole::text END;
  END LOOP;
END $$;

UPDATE parley_meta SET schema_version = 5;
