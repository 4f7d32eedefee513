-- When a post without key was sent, if it has been deferred since. Then its place in the order, since, is the end of the
-- deferral.
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_post' AND column_name = 'sent') = 0,
                      'ALTER TABLE parley_post ADD COLUMN sent BIGINT', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;

UPDATE parley_meta SET schema_version = 10 WHERE id = 1;
