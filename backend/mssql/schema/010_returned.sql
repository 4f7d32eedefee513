-- When a post without key was sent, if it has been deferred since. Then its place in the order, since, is the end of the
-- deferral.
ALTER TABLE parley_post ADD sent bigint NULL;

UPDATE parley_meta SET schema_version = 10;
