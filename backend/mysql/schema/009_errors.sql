-- The errors of the last attempts: a JSON array of attempt, at (microseconds) and error, the oldest first.
-- It is NULL if no attempt has failed.
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_failure' AND column_name = 'errors') = 0,
                      'ALTER TABLE parley_failure ADD COLUMN errors MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_post' AND column_name = 'errors') = 0,
                      'ALTER TABLE parley_post ADD COLUMN errors MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_dead_letter' AND column_name = 'errors') = 0,
                      'ALTER TABLE parley_dead_letter ADD COLUMN errors MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;

UPDATE parley_meta SET schema_version = 9 WHERE id = 1;
