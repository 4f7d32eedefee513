-- Recurring jobs: what is posted and when, and how far that is. look: when a job is to be claimed.
CREATE TABLE parley_recurring (
  name     TEXT    PRIMARY KEY,
  revision INTEGER NOT NULL DEFAULT 0,
  queue    TEXT    NOT NULL DEFAULT '',
  type     TEXT    NOT NULL DEFAULT '',
  body     BLOB,
  cron     TEXT    NOT NULL DEFAULT '', -- with its time zone, or
  zone     TEXT    NOT NULL DEFAULT '',
  every    INTEGER NOT NULL DEFAULT 0,
  jitter   INTEGER NOT NULL DEFAULT 0,
  grace    INTEGER NOT NULL DEFAULT 0,
  catch_up TEXT    NOT NULL DEFAULT '', -- skip, once, all
  overlap  TEXT    NOT NULL DEFAULT '', -- allow, skip, queue
  state    TEXT    NOT NULL, -- active, paused, removed
  due      INTEGER NOT NULL DEFAULT 0, -- the first due time that has not been dealt with
  look     INTEGER NOT NULL DEFAULT 0,
  last_due INTEGER NOT NULL DEFAULT 0, -- the last one that was posted
  fired    INTEGER NOT NULL DEFAULT 0,
  skipped  INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  error    TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX parley_recurring_order ON parley_recurring (state, look, name);

UPDATE parley_meta SET schema_version = 6;
