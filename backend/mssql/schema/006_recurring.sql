-- Recurring jobs: what is posted and when, and how far that is. look: when a job is to be claimed.
CREATE TABLE parley_recurring (
  name     nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes    int            NOT NULL, -- of the name
  revision bigint         NOT NULL DEFAULT 0,
  queue    nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL DEFAULT N'',
  type     nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL DEFAULT N'',
  body     varbinary(max) NULL,
  cron     nvarchar(1024) NOT NULL DEFAULT N'', -- with its time zone, or
  zone     nvarchar(256)  NOT NULL DEFAULT N'',
  every    bigint         NOT NULL DEFAULT 0,
  jitter   bigint         NOT NULL DEFAULT 0,
  grace    bigint         NOT NULL DEFAULT 0,
  catch_up nvarchar(16)   NOT NULL DEFAULT N'', -- skip, once, all
  overlap  nvarchar(16)   NOT NULL DEFAULT N'', -- allow, skip, queue
  state    nvarchar(16)   COLLATE Latin1_General_100_BIN2 NOT NULL, -- active, paused, removed
  due      bigint         NOT NULL DEFAULT 0, -- the first due time that has not been dealt with
  look     bigint         NOT NULL DEFAULT 0,
  last_due bigint         NOT NULL DEFAULT 0, -- the last one that was posted
  fired    bigint         NOT NULL DEFAULT 0,
  skipped  bigint         NOT NULL DEFAULT 0,
  failures int            NOT NULL DEFAULT 0,
  error    nvarchar(max)  NOT NULL DEFAULT N'',
  PRIMARY KEY CLUSTERED (name, bytes) WITH (ALLOW_PAGE_LOCKS = OFF)
);
ALTER TABLE parley_recurring SET (LOCK_ESCALATION = DISABLE);
CREATE INDEX by_look ON parley_recurring (state, look, name) WITH (ALLOW_PAGE_LOCKS = OFF);

UPDATE parley_meta SET schema_version = 6;
