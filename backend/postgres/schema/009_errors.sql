-- step: online
-- The errors of the last attempts: a JSON array of attempt, at (microseconds) and error, the oldest first.
-- It is NULL if no attempt has failed.
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_failure ADD COLUMN IF NOT EXISTS errors text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_post ADD COLUMN IF NOT EXISTS errors text; END $$;
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_dead_letter ADD COLUMN IF NOT EXISTS errors text; END $$;

UPDATE parley_meta SET schema_version = 9;
