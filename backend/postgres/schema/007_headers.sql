-- step: online
-- Headers of messages and posts: a JSON object of texts, NULL if there are none. A statement that
-- locks a table gives up after two seconds, and the migration tries again. So no other program
-- waits longer behind it.
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_message ADD COLUMN IF NOT EXISTS headers text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_post ADD COLUMN IF NOT EXISTS headers text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_delayed ADD COLUMN IF NOT EXISTS headers text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_held ADD COLUMN IF NOT EXISTS headers text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_retained ADD COLUMN IF NOT EXISTS headers text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_processed ADD COLUMN IF NOT EXISTS headers text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_dead_letter ADD COLUMN IF NOT EXISTS headers text; END $$;

-- No program of a version below oldest_program has anything in hand, or can get it. Headers are
-- written only when that is 7: programs of version 6 would lose them when they move a message.
-- A new store has no such programs: then it is 7 from the start.
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_meta ADD COLUMN IF NOT EXISTS oldest_program integer NOT NULL DEFAULT 0; END $$;

-- parley_post with headers, a JSON object of texts. It is a new function, because a new parameter
-- with a default would make calls of the old function ambiguous. It raises PA006 for headers that
-- Go programs may not send, and PA007 if programs that would lose headers may still be there.
CREATE OR REPLACE FUNCTION parley_post(queue text, type text, body bytea, key text, headers text) RETURNS uuid
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
  id     uuid;
  n      integer := 0;
  bytes  integer;
  good   boolean;
  stored text;
BEGIN
  IF headers IS NOT NULL THEN
    BEGIN
      SELECT count(*),
             sum(octet_length(convert_to(h.key, 'UTF8')) + octet_length(convert_to(h.value #>> '{}', 'UTF8'))),
             bool_and(jsonb_typeof(h.value) = 'string' AND h.key <> '' AND h.key NOT LIKE 'parley-%')
        INTO n, bytes, good
        FROM jsonb_each(headers::jsonb) h;
    EXCEPTION WHEN data_exception THEN
      good := false;
    END;
    IF n > 64 OR bytes > 8192 OR NOT good THEN
      RAISE EXCEPTION 'parley: the headers are not valid' USING ERRCODE = 'PA006';
    END IF;
    IF (SELECT m.oldest_program FROM parley_meta m) < 7 THEN
      RAISE EXCEPTION 'parley: programs that would lose headers may still be there' USING ERRCODE = 'PA007';
    END IF;
  END IF;
  id := parley_post(queue, type, body, key);
  IF n > 0 THEN
    stored := headers::jsonb::text;
    IF coalesce(key, '') = '' THEN
      UPDATE parley_post x SET headers = stored WHERE x.post_id = id;
    ELSE
      UPDATE parley_message x SET headers = stored WHERE x.message_id = id AND x.kind = 4;
    END IF;
  END IF;
  RETURN id;
END $$;

-- As in 005_grants.sql: the search_path is that of the function alone, and PUBLIC has no right to it.
DO $$ BEGIN EXECUTE format('ALTER FUNCTION parley_post(text, text, bytea, text, text) SET search_path = %I, pg_temp', (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'parley_meta'::regclass)); END $$;
REVOKE ALL ON FUNCTION parley_post(text, text, bytea, text, text) FROM PUBLIC;

UPDATE parley_meta SET schema_version = 7;
