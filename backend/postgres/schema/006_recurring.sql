-- Recurring jobs: what is posted and when, and how far that is. look: when a job is to be claimed.
CREATE TABLE IF NOT EXISTS parley_recurring (
  name     text COLLATE "C" PRIMARY KEY,
  revision bigint   NOT NULL DEFAULT 0,
  queue    text     NOT NULL DEFAULT '',
  type     text     NOT NULL DEFAULT '',
  body     bytea,
  cron     text     NOT NULL DEFAULT '', -- with its time zone, or
  zone     text     NOT NULL DEFAULT '',
  every    bigint   NOT NULL DEFAULT 0,
  jitter   bigint   NOT NULL DEFAULT 0,
  grace    bigint   NOT NULL DEFAULT 0,
  catch_up text     NOT NULL DEFAULT '', -- skip, once, all
  overlap  text     NOT NULL DEFAULT '', -- allow, skip, queue
  state    text     NOT NULL, -- active, paused, removed
  due      bigint   NOT NULL DEFAULT 0, -- the first due time that has not been dealt with
  look     bigint   NOT NULL DEFAULT 0,
  last_due bigint   NOT NULL DEFAULT 0, -- the last one that was posted
  fired    bigint   NOT NULL DEFAULT 0,
  skipped  bigint   NOT NULL DEFAULT 0,
  failures integer  NOT NULL DEFAULT 0,
  error    text     NOT NULL DEFAULT ''
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX IF NOT EXISTS parley_recurring_order ON parley_recurring (state, look, name);

UPDATE parley_meta SET schema_version = 6;
