-- Parley's tables on MySQL, 8.0.13 or later, and MariaDB, 10.6 or later. This
-- file can be run by hand, in the database that is to have them. It can be run
-- again if it was interrupted: here CREATE commits.
--
-- Everything is private but the views and the procedure parley_post. Instants are
-- microseconds since 1970, flags are 0 and 1. Ids, names and texts are bytes, so
-- that no character set or collation has a say in them, and trailing spaces count.
--
-- Indexes by which tables are walked are called place. They run through columns that count upwards
-- from the most urgent, since before 10.8 MariaDB makes an ascending index of a descending one. No
-- table whose rows come and go has a foreign key or a secondary unique index. A foreign key would
-- make senders wait for receivers. A unique index makes neighbours wait for each other, even at
-- READ COMMITTED.

CREATE TABLE IF NOT EXISTS parley_meta (
  id              TINYINT PRIMARY KEY,
  schema_version  INT     NOT NULL,
  catalog_version BIGINT  NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Message types, contracts, services and priorities, as JSON.
CREATE TABLE IF NOT EXISTS parley_object (
  kind VARBINARY(16)  NOT NULL,
  name VARBINARY(512) NOT NULL,
  spec LONGBLOB       NOT NULL,
  PRIMARY KEY (kind, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS parley_queue (
  queue_id       BIGINT         PRIMARY KEY,
  name           VARBINARY(512) NOT NULL UNIQUE,
  enabled        TINYINT        NOT NULL,
  retention      TINYINT        NOT NULL,
  keep_processed BIGINT         NOT NULL,
  edited         BIGINT         NOT NULL DEFAULT 0 -- how often
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Groups, dialogs' and keys'. The fence grows with every hold by lease; a
-- lease_until that has passed is a token that the next claim takes away.
CREATE TABLE IF NOT EXISTS parley_grp (
  group_id      BINARY(16)      PRIMARY KEY,
  queue_id      BIGINT          NOT NULL,
  service       VARBINARY(512)  NOT NULL, -- '' for a key
  name          VARBINARY(512)  NOT NULL, -- of the key, '' for dialogs
  fence         BIGINT          NOT NULL DEFAULT 0,
  lease_until   BIGINT          NOT NULL DEFAULT 0,
  held_since    BIGINT          NOT NULL DEFAULT 0,
  owner         VARBINARY(1024) NOT NULL DEFAULT '',
  blocked       TINYINT         NOT NULL DEFAULT 0, -- 1 deferred, 2 parked
  blocked_since BIGINT          NOT NULL DEFAULT 0,
  blocked_until BIGINT          NOT NULL DEFAULT 0,
  reason        MEDIUMBLOB      NOT NULL DEFAULT (''),
  resweep       TINYINT         NOT NULL DEFAULT 0, -- a stream was missed when it became ready
  INDEX blocked (blocked, blocked_until),
  INDEX resweep (resweep)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- One row for each side of a conversation.
CREATE TABLE IF NOT EXISTS parley_endpoint (
  handle         BINARY(16)     PRIMARY KEY,
  conversation   BINARY(16)     NOT NULL,
  peer           BINARY(16)     NOT NULL,
  initiator      TINYINT        NOT NULL,
  service        VARBINARY(512) NOT NULL,
  far            VARBINARY(512) NOT NULL,
  contract       VARBINARY(512) NOT NULL,
  queue_id       BIGINT         NOT NULL,
  group_id       BINARY(16)     NOT NULL,
  priority       TINYINT        NOT NULL,
  lifetime_until BIGINT,
  begun          BIGINT         NOT NULL,
  closed_at      BIGINT, -- this side ended
  finish_at      BIGINT, -- both did: when to remove the conversation
  INDEX conversation (conversation),
  INDEX group_id (group_id),
  INDEX finish (finish_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What an endpoint has been told of its other side. Rows are only added.
CREATE TABLE IF NOT EXISTS parley_closing (
  handle      BINARY(16) NOT NULL, -- of the endpoint that is told
  id          BINARY(16) NOT NULL,
  kind        TINYINT    NOT NULL, -- 0 end, 1 error, 2 cleanup
  by_peer     TINYINT    NOT NULL, -- else by the broker
  code        INT,
  description MEDIUMBLOB,
  PRIMARY KEY (handle, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Streams. The row is the guard. A dialog's direction has the id of the handle
-- that sends; its home is where the other side receives.
CREATE TABLE IF NOT EXISTS parley_stream (
  stream_id BINARY(16) PRIMARY KEY,
  kind      TINYINT    NOT NULL, -- 0 timer, 1 error, 2 dialog, 3 key
  group_id  BINARY(16),
  queue_id  BIGINT,
  endpoint  BINARY(16), -- that receives
  priority  TINYINT    NOT NULL,
  next_seq  BIGINT     NOT NULL,
  closed    TINYINT    NOT NULL,
  held      TINYINT    NOT NULL,
  touched   BIGINT     NOT NULL, -- when it was last written to
  INDEX group_id (group_id, endpoint),
  INDEX held (held, stream_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS parley_message (
  stream_id  BINARY(16)     NOT NULL,
  seq        BIGINT         NOT NULL,
  message_id BINARY(16)     NOT NULL,
  kind       TINYINT        NOT NULL, -- 0 timer, 1 error, 2 user, 3 end, 4 post with key
  type       VARBINARY(512) NOT NULL,
  body       LONGBLOB,
  since      BIGINT         NOT NULL,
  uniq       VARBINARY(512),
  PRIMARY KEY (stream_id, seq),
  INDEX message_id (message_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The ready order of streams.
CREATE TABLE IF NOT EXISTS parley_ready (
  queue_id  BIGINT     NOT NULL,
  group_id  BINARY(16) NOT NULL,
  stream_id BINARY(16) NOT NULL,
  priority  TINYINT    NOT NULL,
  since     BIGINT     NOT NULL,
  urgency   TINYINT    AS (-priority) STORED,
  PRIMARY KEY (group_id, stream_id),
  INDEX place (queue_id, urgency, since)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS parley_promotion (
  group_id BINARY(16) PRIMARY KEY, -- or a post's id
  queue_id BIGINT     NOT NULL,
  level    SMALLINT   NOT NULL,
  since    BIGINT     NOT NULL,
  version  BIGINT     NOT NULL,
  sticky   TINYINT    NOT NULL,
  urgency  SMALLINT   AS (-level) STORED,
  INDEX place (queue_id, urgency, since)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Posts without key: message, stream, marker and group in one row.
CREATE TABLE IF NOT EXISTS parley_post (
  post_id       BINARY(16)      PRIMARY KEY,
  queue_id      BIGINT          NOT NULL,
  priority      TINYINT         NOT NULL,
  since         BIGINT          NOT NULL,
  type          VARBINARY(512)  NOT NULL,
  body          LONGBLOB,
  uniq          VARBINARY(512),
  attempts      INT             NOT NULL DEFAULT 0,
  suspicion     INT             NOT NULL DEFAULT 0,
  last_error    MEDIUMBLOB,
  fence         BIGINT          NOT NULL DEFAULT 0,
  lease_until   BIGINT          NOT NULL DEFAULT 0,
  held_since    BIGINT          NOT NULL DEFAULT 0,
  owner         VARBINARY(1024) NOT NULL DEFAULT '',
  blocked       TINYINT         NOT NULL DEFAULT 0,
  blocked_since BIGINT          NOT NULL DEFAULT 0,
  blocked_until BIGINT          NOT NULL DEFAULT 0,
  reason        MEDIUMBLOB      NOT NULL DEFAULT (''),
  urgency       TINYINT         AS (-priority) STORED,
  INDEX place (queue_id, blocked, urgency, since),
  INDEX blocked (blocked, blocked_until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The streams of keys; a key's group has the same id.
CREATE TABLE IF NOT EXISTS parley_key (
  queue_id  BIGINT         NOT NULL,
  name      VARBINARY(512) NOT NULL,
  stream_id BINARY(16)     NOT NULL,
  PRIMARY KEY (queue_id, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Posts that are not yet due.
CREATE TABLE IF NOT EXISTS parley_delayed (
  post_id  BINARY(16)     PRIMARY KEY,
  queue_id BIGINT         NOT NULL,
  name     VARBINARY(512) NOT NULL, -- of the key, or ''
  priority TINYINT        NOT NULL,
  type     VARBINARY(512) NOT NULL,
  body     LONGBLOB,
  uniq     VARBINARY(512),
  begun    BIGINT         NOT NULL,
  due      BIGINT         NOT NULL,
  INDEX due (due),
  INDEX queue (queue_id, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Unique values of pending posts.
CREATE TABLE IF NOT EXISTS parley_uniq (
  queue_id BIGINT         NOT NULL,
  value    VARBINARY(512) NOT NULL,
  post_id  BINARY(16)     NOT NULL,
  PRIMARY KEY (queue_id, value)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Messages that wait for their target.
CREATE TABLE IF NOT EXISTS parley_held (
  stream_id  BINARY(16)     NOT NULL,
  seq        BIGINT         NOT NULL,
  message_id BINARY(16)     NOT NULL,
  kind       TINYINT        NOT NULL,
  type       VARBINARY(512) NOT NULL,
  body       LONGBLOB,
  since      BIGINT         NOT NULL,
  status     MEDIUMBLOB     NOT NULL,
  PRIMARY KEY (stream_id, seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Dialog timers (0) and lifetimes (1).
CREATE TABLE IF NOT EXISTS parley_timer (
  handle BINARY(16) NOT NULL,
  kind   TINYINT    NOT NULL,
  due    BIGINT     NOT NULL,
  PRIMARY KEY (handle, kind),
  INDEX due (kind, due)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Copies kept by retention.
CREATE TABLE IF NOT EXISTS parley_retained (
  handle     BINARY(16)     NOT NULL, -- of the side that keeps it
  stream_id  BINARY(16)     NOT NULL,
  seq        BIGINT         NOT NULL,
  sent       TINYINT        NOT NULL,
  message_id BINARY(16)     NOT NULL,
  kind       TINYINT        NOT NULL,
  type       VARBINARY(512) NOT NULL,
  body       LONGBLOB,
  since      BIGINT         NOT NULL,
  kept       BIGINT         NOT NULL,
  PRIMARY KEY (handle, stream_id, seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Posts kept after they were processed.
CREATE TABLE IF NOT EXISTS parley_processed (
  post_id    BINARY(16)     PRIMARY KEY,
  queue_id   BIGINT         NOT NULL,
  name       VARBINARY(512) NOT NULL,
  type       VARBINARY(512) NOT NULL,
  body       LONGBLOB,
  keep_until BIGINT         NOT NULL,
  INDEX keep_until (keep_until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS parley_dead_letter (
  message_id   BINARY(16)     PRIMARY KEY,
  queue_id     BIGINT         NOT NULL, -- 0 if there was no target
  stream_id    BINARY(16)     NOT NULL,
  seq          BIGINT         NOT NULL,
  group_id     BINARY(16)     NOT NULL,
  kind         TINYINT        NOT NULL,
  type         VARBINARY(512) NOT NULL,
  body         LONGBLOB,
  since        BIGINT         NOT NULL,
  name         VARBINARY(512) NOT NULL,
  handle       BINARY(16),
  conversation BINARY(16),
  initiator    TINYINT        NOT NULL,
  service      VARBINARY(512) NOT NULL,
  far          VARBINARY(512) NOT NULL,
  contract     VARBINARY(512) NOT NULL,
  priority     TINYINT        NOT NULL,
  attempts     INT            NOT NULL,
  suspicion    INT            NOT NULL,
  last_error   MEDIUMBLOB     NOT NULL,
  reason       MEDIUMBLOB     NOT NULL,
  died         BIGINT         NOT NULL,
  INDEX died (died, message_id),
  INDEX queue (queue_id, died, message_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What is known of messages that could not be handled.
CREATE TABLE IF NOT EXISTS parley_failure (
  message_id BINARY(16) PRIMARY KEY,
  attempts   INT        NOT NULL,
  suspicion  INT        NOT NULL,
  last_error MEDIUMBLOB NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Readers of queues, and what they have in hand: ids of messages, 16 bytes each.
-- One whose time is over has died.
CREATE TABLE IF NOT EXISTS parley_worker (
  reader_id BINARY(16) PRIMARY KEY,
  worker_id BINARY(16) NOT NULL,
  queue_id  BIGINT     NOT NULL,
  owner     MEDIUMBLOB NOT NULL,
  readers   INT        NOT NULL,
  since     BIGINT     NOT NULL,
  until     BIGINT     NOT NULL,
  in_hand   MEDIUMBLOB,
  alone     TINYINT    NOT NULL, -- nothing else that may be deadly is in the worker's hands
  INDEX worker (worker_id),
  INDEX queue (queue_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Application locks. A transaction that decides about a lock locks the row of the stripe to which
-- the lock's name belongs. The row has the fence that was given last.
CREATE TABLE IF NOT EXISTS parley_lock_stripe (
  stripe TINYINT PRIMARY KEY,
  fence  BIGINT  NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
INSERT IGNORE INTO parley_lock_stripe (stripe, fence)
SELECT a.n * 16 + b.n * 4 + c.n, 0
  FROM (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) a
 CROSS JOIN (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) b
 CROSS JOIN (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) c;

-- Who has locks: a session (kind 0) until its time, or a transaction (1) as
-- long as it has this row locked.
CREATE TABLE IF NOT EXISTS parley_lock_owner (
  owner_id BINARY(16) PRIMARY KEY,
  kind     TINYINT    NOT NULL,
  owner    MEDIUMBLOB NOT NULL,
  until    BIGINT     NOT NULL,
  touched  BIGINT     NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Locks that are held, and requests that wait for them.
CREATE TABLE IF NOT EXISTS parley_lock (
  name       VARBINARY(1020) NOT NULL,
  seq        BIGINT          NOT NULL, -- the fence, or the ticket
  owner_id   BINARY(16)      NOT NULL,
  mode       TINYINT         NOT NULL, -- 1 IS, 2 S, 4 U, 8 IX, 16 X
  times      INT             NOT NULL,
  waiting    TINYINT         NOT NULL,
  since      BIGINT          NOT NULL,
  wait_until BIGINT          NOT NULL, -- when a request expires that is not renewed
  PRIMARY KEY (name, seq),
  INDEX owner (owner_id),
  INDEX waiting (waiting, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- The highest fence of a lock under which something was written.
CREATE TABLE IF NOT EXISTS parley_fence (
  name  VARBINARY(1020) PRIMARY KEY,
  fence BIGINT          NOT NULL,
  uses  BIGINT          NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Schedules. A transaction that submits or claims locks the row.
CREATE TABLE IF NOT EXISTS parley_schedule (
  name         VARBINARY(1024) PRIMARY KEY,
  schedule_id  BINARY(16)      NOT NULL,
  sealed       TINYINT         NOT NULL DEFAULT 0,
  max_active   INT             NOT NULL,
  go_on        TINYINT         NOT NULL, -- after a task is dead
  accept_late  TINYINT         NOT NULL,
  max_attempts INT             NOT NULL,
  caller       MEDIUMBLOB      NOT NULL,
  purpose      MEDIUMBLOB      NOT NULL,
  made         BIGINT          NOT NULL,
  serial       BIGINT          NOT NULL DEFAULT 0, -- the last task's number
  latest       BIGINT          NOT NULL DEFAULT -9223372036854775807, -- the highest phase of which a task has started
  served       BIGINT          NOT NULL DEFAULT 0, -- when tasks were last claimed
  live         TINYINT         NOT NULL DEFAULT 1, -- there may be something to claim
  INDEX schedule_id (schedule_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Tasks. due is the time at which a task can be claimed next, 0 if it was never claimed. For a
-- running task it is the end of its lease.
CREATE TABLE IF NOT EXISTS parley_task (
  task_id     BINARY(16)     PRIMARY KEY,
  schedule_id BINARY(16)     NOT NULL,
  n           BIGINT         NOT NULL,
  phase       BIGINT         NOT NULL,
  type        VARBINARY(512) NOT NULL,
  body        LONGBLOB,
  state       TINYINT        NOT NULL DEFAULT 0, -- 0 queued, 1 running, 2 failed, 3 done, 4 dead, 5 cancelled, 6 skipped
  live        TINYINT        NOT NULL DEFAULT 1, -- states 0 to 2
  due         BIGINT         NOT NULL DEFAULT 0,
  fence       BIGINT         NOT NULL DEFAULT 0,
  attempts    INT            NOT NULL DEFAULT 0,
  stop        TINYINT        NOT NULL DEFAULT 0, -- asked for
  given       TINYINT        NOT NULL DEFAULT 0, -- to a caller that waits for its end
  touched     BIGINT         NOT NULL DEFAULT 0,
  caller      MEDIUMBLOB     NOT NULL,
  owner       MEDIUMBLOB     NOT NULL DEFAULT (''),
  error       MEDIUMBLOB     NOT NULL DEFAULT (''),
  submitted   BIGINT         NOT NULL,
  started     BIGINT         NOT NULL DEFAULT 0,
  ended       BIGINT         NOT NULL DEFAULT 0,
  INDEX log (schedule_id, n),
  INDEX place (schedule_id, live, phase, due, n),
  INDEX state (schedule_id, state, phase),
  INDEX finished (schedule_id, live, given, ended, n),
  INDEX running (state, started)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS parley_once (
  name       VARBINARY(1024) PRIMARY KEY,
  keep_until BIGINT          NOT NULL,
  INDEX until (keep_until)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Rows that are there for a moment, to find out whether others can see them.
CREATE TABLE IF NOT EXISTS parley_probe (
  probe_id BINARY(16) PRIMARY KEY
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

INSERT IGNORE INTO parley_meta (id, schema_version, catalog_version) VALUES (1, 0, 0);
UPDATE parley_meta SET schema_version = 1 WHERE id = 1;
