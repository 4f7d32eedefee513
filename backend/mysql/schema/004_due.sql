-- Due items are found queue by queue, in order of their due times. A disabled queue costs nothing,
-- and a batch reads no more rows than it moves. The rows of an index end with the primary key. No
-- version of MySQL has ADD INDEX IF NOT EXISTS.
SET @parley_step = IF((SELECT count(*) FROM information_schema.statistics
                        WHERE table_schema = DATABASE() AND table_name = 'parley_delayed' AND index_name = 'place') = 0,
                      'ALTER TABLE parley_delayed ADD INDEX place (queue_id, due)', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;

-- The queue of the endpoint whose timer it is; 0 for a timer that an older program has set.
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_timer' AND column_name = 'queue_id') = 0,
                      'ALTER TABLE parley_timer ADD COLUMN queue_id BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.statistics
                        WHERE table_schema = DATABASE() AND table_name = 'parley_timer' AND index_name = 'place') = 0,
                      'ALTER TABLE parley_timer ADD INDEX place (kind, queue_id, due, handle)', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;

-- The progress of slow walks: of maintenance job 5 through closed conversations, and of job 6
-- through groups. The owner may go on.
CREATE TABLE IF NOT EXISTS parley_walk (
  duty  TINYINT    PRIMARY KEY,
  place BINARY(16) NOT NULL, -- the last id that was looked at
  owner BINARY(16) NOT NULL, -- a handle on the store
  until BIGINT     NOT NULL  -- its turn
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
INSERT IGNORE INTO parley_walk (duty, place, owner, until) VALUES (5, '', '', 0), (6, '', '', 0);

UPDATE parley_meta SET schema_version = 4 WHERE id = 1;
