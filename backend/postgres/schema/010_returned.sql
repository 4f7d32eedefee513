-- step: online
-- When a post without key was sent, if it has been deferred since. Then its place in the order, since, is the end of the
-- deferral.
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_post ADD COLUMN IF NOT EXISTS sent bigint; END $$;

UPDATE parley_meta SET schema_version = 10;
