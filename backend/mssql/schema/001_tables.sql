-- Parley's tables on SQL Server 2017 or later, and Azure SQL. One batch, which
-- can be run by hand.
--
-- Everything is private but the views and the procedure parley_post_message. Instants
-- are microseconds since 1970 in UTC, flags are 0 and 1.
--
-- Ids are binary(16), the bytes of a UUID of version 7, which sort by time. As
-- uniqueidentifier they would not: that type compares the last six bytes first,
-- which are random, so that every insert would go to another page.
--
-- Names compare by code point (_BIN2). That still takes 'a' and 'a ' as equal,
-- as the shorter of two strings is padded with spaces, on every collation. So
-- where a name is a key its size in bytes is part of the key.
--
-- All locks are row locks. Page locks are off on every index, and so is the escalation of row locks
-- to a table lock. A table lock would block all other transactions, and READPAST would skip the
-- whole table. For the same reason every table has a clustered index. Without it a table is a heap,
-- which locks rows by their place and uses page locks that cannot be turned off. Where the primary
-- key is too long for it (900 bytes) another column has it.

CREATE TABLE parley_meta (
  id              int    NOT NULL CHECK (id = 1),
  schema_version  int    NOT NULL,
  catalog_version bigint NOT NULL,
  PRIMARY KEY CLUSTERED (id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Message types, contracts, services and priorities, as JSON.
CREATE TABLE parley_object (
  kind  nvarchar(16)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  name  nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes int           NOT NULL, -- of the name
  spec  nvarchar(max) NOT NULL,
  PRIMARY KEY CLUSTERED (kind, name, bytes) WITH (ALLOW_PAGE_LOCKS = OFF)
);

CREATE TABLE parley_queue (
  queue_id       bigint        NOT NULL,
  name           nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes          int           NOT NULL, -- of the name
  enabled        smallint      NOT NULL,
  retention      smallint      NOT NULL,
  keep_processed bigint        NOT NULL,
  PRIMARY KEY CLUSTERED (queue_id) WITH (ALLOW_PAGE_LOCKS = OFF),
  UNIQUE NONCLUSTERED (name, bytes) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Groups, dialogs' and keys'. The fence grows with every hold by lease; a
-- lease_until that has passed is a token that the next claim takes away.
CREATE TABLE parley_grp (
  group_id      binary(16)    NOT NULL,
  queue_id      bigint        NOT NULL,
  service       nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL, -- '' for a key
  name          nvarchar(512) COLLATE Latin1_General_100_BIN2 NOT NULL, -- of the key, '' for dialogs
  fence         bigint        NOT NULL DEFAULT 0,
  lease_until   bigint        NOT NULL DEFAULT 0,
  held_since    bigint        NOT NULL DEFAULT 0,
  owner         nvarchar(max) NOT NULL DEFAULT N'',
  blocked       smallint      NOT NULL DEFAULT 0, -- 1 deferred, 2 parked
  blocked_since bigint        NOT NULL DEFAULT 0,
  blocked_until bigint        NOT NULL DEFAULT 0,
  reason        nvarchar(max) NOT NULL DEFAULT N'',
  resweep       smallint      NOT NULL DEFAULT 0, -- a stream was missed when it became ready
  PRIMARY KEY CLUSTERED (group_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_blocked ON parley_grp (blocked, blocked_until) WHERE blocked <> 0 WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_resweep ON parley_grp (group_id) WHERE resweep = 1 WITH (ALLOW_PAGE_LOCKS = OFF);

-- One row for each side of a conversation.
CREATE TABLE parley_endpoint (
  handle         binary(16)    NOT NULL,
  conversation   binary(16)    NOT NULL,
  peer           binary(16)    NOT NULL,
  initiator      smallint      NOT NULL,
  service        nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  far            nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  contract       nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  queue_id       bigint        NOT NULL,
  group_id       binary(16)    NOT NULL,
  priority       smallint      NOT NULL,
  lifetime_until bigint        NULL,
  begun          bigint        NOT NULL,
  closed_at      bigint        NULL, -- this side ended
  finish_at      bigint        NULL, -- both did: when to remove the conversation
  PRIMARY KEY CLUSTERED (handle) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_conversation ON parley_endpoint (conversation, initiator DESC) WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_group ON parley_endpoint (group_id) WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_finish ON parley_endpoint (finish_at) WHERE finish_at IS NOT NULL WITH (ALLOW_PAGE_LOCKS = OFF);

-- What an endpoint has been told of its other side. Rows are only added.
CREATE TABLE parley_closing (
  handle      binary(16)    NOT NULL, -- of the endpoint that is told
  id          binary(16)    NOT NULL,
  kind        smallint      NOT NULL, -- 0 end, 1 error, 2 cleanup
  by_peer     smallint      NOT NULL, -- else by the broker
  code        int           NULL,
  description nvarchar(max) NULL,
  PRIMARY KEY CLUSTERED (handle, id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Streams. The row is the guard. A dialog's direction has the id of the handle
-- that sends; its home is where the other side receives. Sends change next_seq
-- and touched, which are in no other index: so the index by_group can be read
-- while they have the row locked.
CREATE TABLE parley_stream (
  stream_id binary(16) NOT NULL,
  kind      smallint   NOT NULL, -- 0 timer, 1 error, 2 dialog, 3 key
  group_id  binary(16) NULL,
  queue_id  bigint     NULL,
  endpoint  binary(16) NULL, -- that receives
  priority  smallint   NOT NULL,
  next_seq  bigint     NOT NULL,
  closed    smallint   NOT NULL,
  held      smallint   NOT NULL,
  touched   bigint     NOT NULL, -- when it was last written to
  PRIMARY KEY CLUSTERED (stream_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_group ON parley_stream (group_id, endpoint, stream_id) INCLUDE (kind) WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_held ON parley_stream (stream_id) WHERE held = 1 WITH (ALLOW_PAGE_LOCKS = OFF);

CREATE TABLE parley_message (
  stream_id  binary(16)     NOT NULL,
  seq        bigint         NOT NULL,
  message_id binary(16)     NOT NULL,
  kind       smallint       NOT NULL, -- 0 timer, 1 error, 2 user, 3 end, 4 post with key
  type       nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body       varbinary(max) NULL,
  since      bigint         NOT NULL,
  uniq       nvarchar(512)  COLLATE Latin1_General_100_BIN2 NULL,
  version    rowversion     NOT NULL, -- by which other processes notice it
  PRIMARY KEY CLUSTERED (stream_id, seq) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_id ON parley_message (message_id) WHERE kind = 4 WITH (ALLOW_PAGE_LOCKS = OFF);

-- The ready order of streams.
CREATE TABLE parley_ready (
  queue_id  bigint     NOT NULL,
  group_id  binary(16) NOT NULL,
  stream_id binary(16) NOT NULL,
  priority  smallint   NOT NULL,
  since     bigint     NOT NULL,
  PRIMARY KEY CLUSTERED (group_id, stream_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_order ON parley_ready (queue_id, priority DESC, since, group_id, stream_id) WITH (ALLOW_PAGE_LOCKS = OFF);

CREATE TABLE parley_promotion (
  group_id binary(16) NOT NULL, -- or a post's id
  queue_id bigint     NOT NULL,
  level    smallint   NOT NULL,
  since    bigint     NOT NULL,
  version  bigint     NOT NULL,
  sticky   smallint   NOT NULL,
  PRIMARY KEY CLUSTERED (group_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_order ON parley_promotion (queue_id, level DESC, since, group_id) WITH (ALLOW_PAGE_LOCKS = OFF);

-- Posts without key: message, stream, marker and group in one row.
CREATE TABLE parley_post (
  post_id       binary(16)     NOT NULL,
  queue_id      bigint         NOT NULL,
  priority      smallint       NOT NULL,
  since         bigint         NOT NULL,
  type          nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body          varbinary(max) NULL,
  uniq          nvarchar(512)  COLLATE Latin1_General_100_BIN2 NULL,
  attempts      int            NOT NULL DEFAULT 0,
  suspicion     int            NOT NULL DEFAULT 0,
  last_error    nvarchar(max)  NULL,
  fence         bigint         NOT NULL DEFAULT 0,
  lease_until   bigint         NOT NULL DEFAULT 0,
  held_since    bigint         NOT NULL DEFAULT 0,
  owner         nvarchar(max)  NOT NULL DEFAULT N'',
  blocked       smallint       NOT NULL DEFAULT 0,
  blocked_since bigint         NOT NULL DEFAULT 0,
  blocked_until bigint         NOT NULL DEFAULT 0,
  reason        nvarchar(max)  NOT NULL DEFAULT N'',
  version       rowversion     NOT NULL, -- by which other processes notice it
  PRIMARY KEY CLUSTERED (post_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_order ON parley_post (queue_id, priority DESC, since, post_id) WHERE blocked = 0 WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_blocked ON parley_post (blocked, blocked_until) WHERE blocked <> 0 WITH (ALLOW_PAGE_LOCKS = OFF);

-- The streams of keys; a key's group has the same id. A clustered key may have
-- 900 bytes, a nonclustered one 1700.
CREATE TABLE parley_key (
  queue_id  bigint        NOT NULL,
  name      nvarchar(512) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes     int           NOT NULL, -- of the name
  stream_id binary(16)    NOT NULL,
  PRIMARY KEY NONCLUSTERED (queue_id, name, bytes) WITH (ALLOW_PAGE_LOCKS = OFF),
  UNIQUE CLUSTERED (stream_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Posts that are not yet due.
CREATE TABLE parley_delayed (
  post_id  binary(16)     NOT NULL,
  queue_id bigint         NOT NULL,
  name     nvarchar(512)  COLLATE Latin1_General_100_BIN2 NOT NULL, -- of the key, or ''
  priority smallint       NOT NULL,
  type     nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body     varbinary(max) NULL,
  uniq     nvarchar(512)  COLLATE Latin1_General_100_BIN2 NULL,
  begun    bigint         NOT NULL,
  due      bigint         NOT NULL,
  PRIMARY KEY CLUSTERED (post_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_due ON parley_delayed (due) WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_queue ON parley_delayed (queue_id, name) WITH (ALLOW_PAGE_LOCKS = OFF);

-- Unique values of pending posts.
CREATE TABLE parley_uniq (
  queue_id bigint        NOT NULL,
  value    nvarchar(512) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes    int           NOT NULL, -- of the value
  post_id  binary(16)    NOT NULL,
  PRIMARY KEY NONCLUSTERED (queue_id, value, bytes) WITH (ALLOW_PAGE_LOCKS = OFF),
  UNIQUE CLUSTERED (post_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Messages that wait for their target.
CREATE TABLE parley_held (
  stream_id  binary(16)     NOT NULL,
  seq        bigint         NOT NULL,
  message_id binary(16)     NOT NULL,
  kind       smallint       NOT NULL,
  type       nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body       varbinary(max) NULL,
  since      bigint         NOT NULL,
  status     nvarchar(max)  NOT NULL,
  PRIMARY KEY CLUSTERED (stream_id, seq) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Dialog timers (0) and lifetimes (1).
CREATE TABLE parley_timer (
  handle binary(16) NOT NULL,
  kind   smallint   NOT NULL,
  due    bigint     NOT NULL,
  PRIMARY KEY CLUSTERED (handle, kind) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_due ON parley_timer (kind, due) WITH (ALLOW_PAGE_LOCKS = OFF);

-- Copies kept by retention.
CREATE TABLE parley_retained (
  handle     binary(16)     NOT NULL, -- of the side that keeps it
  stream_id  binary(16)     NOT NULL,
  seq        bigint         NOT NULL,
  sent       smallint       NOT NULL,
  message_id binary(16)     NOT NULL,
  kind       smallint       NOT NULL,
  type       nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body       varbinary(max) NULL,
  since      bigint         NOT NULL,
  kept       bigint         NOT NULL,
  PRIMARY KEY CLUSTERED (handle, stream_id, seq) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Posts kept after they were processed.
CREATE TABLE parley_processed (
  post_id    binary(16)     NOT NULL,
  queue_id   bigint         NOT NULL,
  name       nvarchar(512)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  type       nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body       varbinary(max) NULL,
  keep_until bigint         NOT NULL,
  PRIMARY KEY CLUSTERED (post_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_until ON parley_processed (keep_until) WITH (ALLOW_PAGE_LOCKS = OFF);

CREATE TABLE parley_dead_letter (
  message_id   binary(16)     NOT NULL,
  queue_id     bigint         NOT NULL, -- 0 if there was no target
  stream_id    binary(16)     NOT NULL,
  seq          bigint         NOT NULL,
  group_id     binary(16)     NOT NULL,
  kind         smallint       NOT NULL,
  type         nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body         varbinary(max) NULL,
  since        bigint         NOT NULL,
  name         nvarchar(512)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  handle       binary(16)     NULL,
  conversation binary(16)     NULL,
  initiator    smallint       NOT NULL,
  service      nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  far          nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  contract     nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  priority     smallint       NOT NULL,
  attempts     int            NOT NULL,
  suspicion    int            NOT NULL,
  last_error   nvarchar(max)  NOT NULL,
  reason       nvarchar(max)  NOT NULL,
  died         bigint         NOT NULL,
  PRIMARY KEY CLUSTERED (message_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_time ON parley_dead_letter (died DESC, message_id DESC) WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_queue ON parley_dead_letter (queue_id, died DESC, message_id DESC) WITH (ALLOW_PAGE_LOCKS = OFF);

-- What is known of messages that could not be handled.
CREATE TABLE parley_failure (
  message_id binary(16)    NOT NULL,
  attempts   int           NOT NULL,
  suspicion  int           NOT NULL,
  last_error nvarchar(max) NOT NULL,
  PRIMARY KEY CLUSTERED (message_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

CREATE TABLE parley_once (
  name       nvarchar(512) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes      int           NOT NULL, -- of the name
  keep_until bigint        NOT NULL,
  PRIMARY KEY NONCLUSTERED (name, bytes) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE CLUSTERED INDEX by_until ON parley_once (keep_until) WITH (ALLOW_PAGE_LOCKS = OFF);

-- Readers of queues, and what they have in hand: ids of messages, 16 bytes each.
-- One whose time is over has died.
CREATE TABLE parley_worker (
  reader_id binary(16)     NOT NULL,
  worker_id binary(16)     NOT NULL,
  queue_id  bigint         NOT NULL,
  owner     nvarchar(max)  NOT NULL,
  readers   int            NOT NULL,
  since     bigint         NOT NULL,
  until     bigint         NOT NULL,
  in_hand   varbinary(max) NULL,
  alone     smallint       NOT NULL, -- nothing else that may be deadly is in the worker's hands
  PRIMARY KEY CLUSTERED (reader_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Application locks. A transaction that decides about a lock locks the row of the stripe to which
-- the lock's name belongs. The row has the fence that was given last.
CREATE TABLE parley_lock_stripe (
  stripe smallint NOT NULL,
  fence  bigint   NOT NULL,
  PRIMARY KEY CLUSTERED (stripe) WITH (ALLOW_PAGE_LOCKS = OFF)
);
INSERT INTO parley_lock_stripe (stripe, fence)
SELECT TOP (64) ROW_NUMBER() OVER (ORDER BY object_id) - 1, 0 FROM sys.all_objects;

-- Owners of locks. A session (kind 0) has its locks until its time, a transaction (1) as long as it
-- has this row locked. A session with the server's locks (2) has them as long as it has the lock on
-- its id.
CREATE TABLE parley_lock_owner (
  owner_id binary(16)    NOT NULL,
  kind     smallint      NOT NULL,
  owner    nvarchar(max) NOT NULL,
  until    bigint        NOT NULL,
  touched  bigint        NOT NULL,
  PRIMARY KEY CLUSTERED (owner_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Locks that are held, and requests that wait for them.
CREATE TABLE parley_lock (
  name       nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes      int           NOT NULL, -- of the name
  seq        bigint        NOT NULL, -- the fence, or the ticket
  owner_id   binary(16)    NOT NULL,
  mode       smallint      NOT NULL, -- 1 IS, 2 S, 4 U, 8 IX, 16 X
  times      int           NOT NULL,
  waiting    smallint      NOT NULL,
  since      bigint        NOT NULL,
  wait_until bigint        NOT NULL, -- when a request expires that is not renewed
  PRIMARY KEY NONCLUSTERED (name, bytes, seq) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE CLUSTERED INDEX by_owner ON parley_lock (owner_id) WITH (ALLOW_PAGE_LOCKS = OFF);

-- The highest fence of a lock under which something was written.
CREATE TABLE parley_fence (
  name  nvarchar(510) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes int           NOT NULL, -- of the name
  fence bigint        NOT NULL,
  uses  bigint        NOT NULL,
  place bigint        NOT NULL IDENTITY,
  PRIMARY KEY NONCLUSTERED (name, bytes) WITH (ALLOW_PAGE_LOCKS = OFF),
  UNIQUE CLUSTERED (place) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Schedules. A transaction that submits or claims locks the row.
CREATE TABLE parley_schedule (
  name         nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  bytes        int           NOT NULL, -- of the name
  schedule_id  binary(16)    NOT NULL,
  sealed       smallint      NOT NULL DEFAULT 0,
  max_active   int           NOT NULL,
  go_on        smallint      NOT NULL, -- after a task is dead
  accept_late  smallint      NOT NULL,
  max_attempts int           NOT NULL,
  caller       nvarchar(max) NOT NULL,
  purpose      nvarchar(max) NOT NULL,
  made         bigint        NOT NULL,
  serial       bigint        NOT NULL DEFAULT 0, -- the last task's number
  latest       bigint        NOT NULL DEFAULT -9223372036854775807, -- the highest phase of which a task has started
  served       bigint        NOT NULL DEFAULT 0, -- when tasks were last claimed
  live         smallint      NOT NULL DEFAULT 1, -- there may be something to claim
  PRIMARY KEY CLUSTERED (name, bytes) WITH (ALLOW_PAGE_LOCKS = OFF),
  UNIQUE NONCLUSTERED (schedule_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);

-- Tasks. due is the time at which a task can be claimed next, 0 if it was never claimed. For a
-- running task it is the end of its lease. A transactional handler locks its task's row by changing
-- touched, which is in no other index. So other transactions can read the phases from the indexes
-- by_order, by_running and by_dead.
CREATE TABLE parley_task (
  task_id     binary(16)     NOT NULL,
  schedule_id binary(16)     NOT NULL,
  n           bigint         NOT NULL,
  phase       bigint         NOT NULL,
  type        nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body        varbinary(max) NULL,
  state       smallint       NOT NULL DEFAULT 0, -- 0 queued, 1 running, 2 failed, 3 done, 4 dead, 5 cancelled, 6 skipped
  live        smallint       NOT NULL DEFAULT 1, -- states 0 to 2
  due         bigint         NOT NULL DEFAULT 0,
  fence       bigint         NOT NULL DEFAULT 0,
  attempts    int            NOT NULL DEFAULT 0,
  stop        smallint       NOT NULL DEFAULT 0, -- asked for
  given       smallint       NOT NULL DEFAULT 0, -- to a caller that waits for its end
  touched     bigint         NOT NULL DEFAULT 0,
  caller      nvarchar(max)  NOT NULL,
  owner       nvarchar(max)  NOT NULL DEFAULT N'',
  error       nvarchar(max)  NOT NULL DEFAULT N'',
  submitted   bigint         NOT NULL,
  started     bigint         NOT NULL DEFAULT 0,
  ended       bigint         NOT NULL DEFAULT 0,
  PRIMARY KEY CLUSTERED (task_id) WITH (ALLOW_PAGE_LOCKS = OFF)
);
CREATE INDEX by_schedule ON parley_task (schedule_id, n) WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_order ON parley_task (schedule_id, phase, due, n) WHERE live = 1 WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_running ON parley_task (schedule_id, task_id) INCLUDE (due) WHERE state = 1 WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_dead ON parley_task (schedule_id, phase) WHERE state = 4 WITH (ALLOW_PAGE_LOCKS = OFF);
CREATE INDEX by_end ON parley_task (schedule_id, ended, n) WHERE live = 0 AND given = 0 WITH (ALLOW_PAGE_LOCKS = OFF);

-- Many rows at once come to the server as a table: ids with a number, which is a
-- sequence number or a fence, and messages.
CREATE TYPE parley_ids AS TABLE (
  n   int        NOT NULL PRIMARY KEY,
  id  binary(16) NOT NULL,
  num bigint     NOT NULL
);
CREATE TYPE parley_batch AS TABLE (
  n          int            NOT NULL PRIMARY KEY,
  stream_id  binary(16)     NOT NULL,
  seq        bigint         NOT NULL,
  message_id binary(16)     NOT NULL,
  kind       smallint       NOT NULL,
  type       nvarchar(256)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  body       varbinary(max) NULL,
  queue_id   bigint         NOT NULL,
  group_id   binary(16)     NOT NULL,
  priority   smallint       NOT NULL
);

ALTER TABLE parley_meta        SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_object      SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_queue       SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_grp         SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_endpoint    SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_closing     SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_stream      SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_message     SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_ready       SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_promotion   SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_post        SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_key         SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_delayed     SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_uniq        SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_held        SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_timer       SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_retained    SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_processed   SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_dead_letter SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_failure     SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_once        SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_worker      SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_lock_stripe SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_lock_owner  SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_lock        SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_fence       SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_schedule    SET (LOCK_ESCALATION = DISABLE);
ALTER TABLE parley_task        SET (LOCK_ESCALATION = DISABLE);

INSERT INTO parley_meta (id, schema_version, catalog_version) VALUES (1, 1, 0);
