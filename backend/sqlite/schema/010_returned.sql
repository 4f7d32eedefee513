-- When a post without key was sent, if it has been deferred since. Then its place in the order, since, is the end of the
-- deferral.
ALTER TABLE parley_post ADD COLUMN sent INTEGER;

UPDATE parley_meta SET schema_version = 10;
