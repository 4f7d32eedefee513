-- Recurring jobs: what is posted and when, and how far that is. look: when a job is to be claimed.
CREATE TABLE IF NOT EXISTS parley_recurring (
  name     VARBINARY(1024) PRIMARY KEY,
  revision BIGINT          NOT NULL DEFAULT 0,
  queue    VARBINARY(1024) NOT NULL DEFAULT '',
  type     VARBINARY(1024) NOT NULL DEFAULT '',
  body     LONGBLOB,
  cron     VARBINARY(1024) NOT NULL DEFAULT '', -- with its time zone, or
  zone     VARBINARY(255)  NOT NULL DEFAULT '',
  every    BIGINT          NOT NULL DEFAULT 0,
  jitter   BIGINT          NOT NULL DEFAULT 0,
  grace    BIGINT          NOT NULL DEFAULT 0,
  catch_up VARBINARY(16)   NOT NULL DEFAULT '', -- skip, once, all
  overlap  VARBINARY(16)   NOT NULL DEFAULT '', -- allow, skip, queue
  state    VARBINARY(16)   NOT NULL, -- active, paused, removed
  due      BIGINT          NOT NULL DEFAULT 0, -- the first due time that has not been dealt with
  look     BIGINT          NOT NULL DEFAULT 0,
  last_due BIGINT          NOT NULL DEFAULT 0, -- the last one that was posted
  fired    BIGINT          NOT NULL DEFAULT 0,
  skipped  BIGINT          NOT NULL DEFAULT 0,
  failures INT             NOT NULL DEFAULT 0,
  error    MEDIUMBLOB,
  INDEX place (state, look)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE parley_meta SET schema_version = 6 WHERE id = 1;
