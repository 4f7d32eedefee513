-- The errors of the last attempts: a JSON array of attempt, at (microseconds) and error, the oldest first.
-- It is NULL if no attempt has failed.
ALTER TABLE parley_failure ADD COLUMN errors TEXT;
ALTER TABLE parley_post ADD COLUMN errors TEXT;
ALTER TABLE parley_dead_letter ADD COLUMN errors TEXT;

UPDATE parley_meta SET schema_version = 9;
