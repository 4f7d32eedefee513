-- Versions side by side. A program of version n works on the schemas n and n+1, and
-- stops where min_program is greater than n. No version of MySQL has ADD COLUMN IF
-- NOT EXISTS.
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_meta' AND column_name = 'min_program') = 0,
                      'ALTER TABLE parley_meta ADD COLUMN min_program INT NOT NULL DEFAULT 0', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;

-- What definitions of objects there have been, one after another: a digest of each,
-- or an empty one where the object was removed. It tells a new definition from one
-- that was replaced before.
CREATE TABLE IF NOT EXISTS parley_definition (
  version BIGINT         NOT NULL, -- of the catalog
  n       INT            NOT NULL, -- within it
  kind    VARBINARY(16)  NOT NULL,
  name    VARBINARY(512) NOT NULL,
  digest  VARBINARY(64)  NOT NULL,
  PRIMARY KEY (version, n)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE parley_meta SET schema_version = 3 WHERE id = 1;
