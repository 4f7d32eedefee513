-- Parley's tables on SQLite. This file can be run by hand.
--
-- Everything is private but the views and parley_outbox. Ids are blobs of 16
-- bytes, instants are microseconds since 1970, flags are 0 and 1.

CREATE TABLE parley_meta (
  id              INTEGER PRIMARY KEY CHECK (id = 1),
  schema_version  INTEGER NOT NULL,
  catalog_version INTEGER NOT NULL
);

-- Message types, contracts, services and priorities, as JSON.
CREATE TABLE parley_object (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  spec TEXT NOT NULL,
  PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE TABLE parley_queue (
  queue_id       INTEGER PRIMARY KEY,
  name           TEXT    NOT NULL UNIQUE,
  enabled        INTEGER NOT NULL,
  retention      INTEGER NOT NULL,
  keep_processed INTEGER NOT NULL
);

-- Groups, dialogs' and keys'. The fence grows with every hold by lease; a
-- lease_until that has passed is a token that the next claim takes away.
CREATE TABLE parley_grp (
  group_id      BLOB    PRIMARY KEY,
  queue_id      INTEGER NOT NULL,
  service       TEXT    NOT NULL, -- '' for a key
  name          TEXT    NOT NULL, -- of the key, '' for dialogs
  fence         INTEGER NOT NULL DEFAULT 0,
  lease_until   INTEGER NOT NULL DEFAULT 0,
  held_since    INTEGER NOT NULL DEFAULT 0,
  owner         TEXT    NOT NULL DEFAULT '',
  blocked       INTEGER NOT NULL DEFAULT 0, -- 1 deferred, 2 parked
  blocked_since INTEGER NOT NULL DEFAULT 0,
  blocked_until INTEGER NOT NULL DEFAULT 0,
  reason        TEXT    NOT NULL DEFAULT '',
  resweep       INTEGER NOT NULL DEFAULT 0  -- a stream was missed when it became ready
) WITHOUT ROWID;
CREATE INDEX parley_grp_blocked ON parley_grp (blocked, blocked_until) WHERE blocked <> 0;
CREATE INDEX parley_grp_resweep ON parley_grp (group_id) WHERE resweep = 1;

-- One row for each side of a conversation.
CREATE TABLE parley_endpoint (
  handle         BLOB    PRIMARY KEY,
  conversation   BLOB    NOT NULL,
  peer           BLOB    NOT NULL,
  initiator      INTEGER NOT NULL,
  service        TEXT    NOT NULL,
  far            TEXT    NOT NULL,
  contract       TEXT    NOT NULL,
  queue_id       INTEGER NOT NULL,
  group_id       BLOB    NOT NULL,
  priority       INTEGER NOT NULL,
  lifetime_until INTEGER,
  begun          INTEGER NOT NULL,
  closed_at      INTEGER,          -- this side ended
  finish_at      INTEGER           -- both did: when to remove the conversation
) WITHOUT ROWID;
CREATE INDEX parley_endpoint_conversation ON parley_endpoint (conversation, initiator DESC);
CREATE INDEX parley_endpoint_group ON parley_endpoint (group_id);
CREATE INDEX parley_endpoint_finish ON parley_endpoint (finish_at) WHERE finish_at IS NOT NULL;

-- What an endpoint has been told of its other side. Rows are only added.
CREATE TABLE parley_closing (
  handle      BLOB    NOT NULL, -- of the endpoint that is told
  id          BLOB    NOT NULL,
  kind        INTEGER NOT NULL, -- 0 end, 1 error, 2 cleanup
  by_peer     INTEGER NOT NULL, -- else by the broker
  code        INTEGER,
  description TEXT,
  PRIMARY KEY (handle, id)
) WITHOUT ROWID;

-- Streams. The row is the guard. A dialog's direction has the id of the handle
-- that sends; its home is where the other side receives.
CREATE TABLE parley_stream (
  stream_id BLOB    PRIMARY KEY,
  kind      INTEGER NOT NULL, -- 0 timer, 1 error, 2 dialog, 3 key
  group_id  BLOB,
  queue_id  INTEGER,
  endpoint  BLOB,             -- that receives
  priority  INTEGER NOT NULL,
  next_seq  INTEGER NOT NULL,
  closed    INTEGER NOT NULL,
  held      INTEGER NOT NULL,
  touched   INTEGER NOT NULL  -- when it was last written to
) WITHOUT ROWID;
CREATE INDEX parley_stream_group ON parley_stream (group_id, endpoint);
CREATE INDEX parley_stream_held ON parley_stream (stream_id) WHERE held = 1;

CREATE TABLE parley_message (
  stream_id  BLOB    NOT NULL,
  seq        INTEGER NOT NULL,
  message_id BLOB    NOT NULL,
  kind       INTEGER NOT NULL, -- 0 timer, 1 error, 2 user, 3 end, 4 post with key
  type       TEXT    NOT NULL,
  body       BLOB,
  since      INTEGER NOT NULL,
  uniq       TEXT,
  PRIMARY KEY (stream_id, seq)
) WITHOUT ROWID;
CREATE INDEX parley_message_keyed ON parley_message (message_id) WHERE kind = 4;

-- The ready order of streams. Claims walk the free streams only. held_until removes the streams of
-- groups that are held by lease from that walk. Whether a group is held, its own row says.
CREATE TABLE parley_ready (
  queue_id   INTEGER NOT NULL,
  group_id   BLOB    NOT NULL,
  stream_id  BLOB    NOT NULL,
  priority   INTEGER NOT NULL,
  since      INTEGER NOT NULL,
  held_until INTEGER NOT NULL DEFAULT 0, -- 0: free
  PRIMARY KEY (group_id, stream_id)
) WITHOUT ROWID;
CREATE INDEX parley_ready_order ON parley_ready (queue_id, priority DESC, since, group_id, stream_id);
CREATE INDEX parley_ready_free ON parley_ready (queue_id, held_until, priority DESC, since, group_id, stream_id);
CREATE TRIGGER parley_grp_held AFTER UPDATE OF lease_until ON parley_grp
WHEN old.lease_until <> new.lease_until
BEGIN
  UPDATE parley_ready SET held_until = new.lease_until WHERE group_id = new.group_id;
END;

CREATE TABLE parley_promotion (
  group_id BLOB    PRIMARY KEY, -- or a post's id
  queue_id INTEGER NOT NULL,
  level    INTEGER NOT NULL,
  since    INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  sticky   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX parley_promotion_order ON parley_promotion (queue_id, level DESC, since, group_id);

-- Posts without key: message, stream, marker and group in one row.
CREATE TABLE parley_post (
  post_id       BLOB    PRIMARY KEY,
  queue_id      INTEGER NOT NULL,
  priority      INTEGER NOT NULL,
  since         INTEGER NOT NULL,
  type          TEXT    NOT NULL,
  body          BLOB,
  uniq          TEXT,
  attempts      INTEGER NOT NULL DEFAULT 0,
  suspicion     INTEGER NOT NULL DEFAULT 0,
  last_error    TEXT,
  fence         INTEGER NOT NULL DEFAULT 0,
  lease_until   INTEGER NOT NULL DEFAULT 0,
  held_since    INTEGER NOT NULL DEFAULT 0,
  owner         TEXT    NOT NULL DEFAULT '',
  blocked       INTEGER NOT NULL DEFAULT 0,
  blocked_since INTEGER NOT NULL DEFAULT 0,
  blocked_until INTEGER NOT NULL DEFAULT 0,
  reason        TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX parley_post_order ON parley_post (queue_id, priority DESC, since, post_id) WHERE blocked = 0;
CREATE INDEX parley_post_blocked ON parley_post (blocked, blocked_until) WHERE blocked <> 0;

-- The streams of keys; a key's group has the same id.
CREATE TABLE parley_key (
  queue_id  INTEGER NOT NULL,
  name      TEXT    NOT NULL,
  stream_id BLOB    NOT NULL,
  PRIMARY KEY (queue_id, name)
) WITHOUT ROWID;

-- Posts that are not yet due.
CREATE TABLE parley_delayed (
  post_id  BLOB    PRIMARY KEY,
  queue_id INTEGER NOT NULL,
  name     TEXT    NOT NULL, -- of the key, or ''
  priority INTEGER NOT NULL,
  type     TEXT    NOT NULL,
  body     BLOB,
  uniq     TEXT,
  begun    INTEGER NOT NULL,
  due      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX parley_delayed_due ON parley_delayed (due);
CREATE INDEX parley_delayed_queue ON parley_delayed (queue_id, name);

-- Unique values of pending posts.
CREATE TABLE parley_uniq (
  queue_id INTEGER NOT NULL,
  value    TEXT    NOT NULL,
  post_id  BLOB    NOT NULL,
  PRIMARY KEY (queue_id, value)
) WITHOUT ROWID;

-- Messages that wait for their target.
CREATE TABLE parley_held (
  stream_id  BLOB    NOT NULL,
  seq        INTEGER NOT NULL,
  message_id BLOB    NOT NULL,
  kind       INTEGER NOT NULL,
  type       TEXT    NOT NULL,
  body       BLOB,
  since      INTEGER NOT NULL,
  status     TEXT    NOT NULL,
  PRIMARY KEY (stream_id, seq)
) WITHOUT ROWID;

-- Dialog timers (0) and lifetimes (1).
CREATE TABLE parley_timer (
  handle BLOB    NOT NULL,
  kind   INTEGER NOT NULL,
  due    INTEGER NOT NULL,
  PRIMARY KEY (handle, kind)
) WITHOUT ROWID;
CREATE INDEX parley_timer_due ON parley_timer (kind, due);

-- Copies kept by retention.
CREATE TABLE parley_retained (
  handle     BLOB    NOT NULL, -- of the side that keeps it
  stream_id  BLOB    NOT NULL,
  seq        INTEGER NOT NULL,
  sent       INTEGER NOT NULL,
  message_id BLOB    NOT NULL,
  kind       INTEGER NOT NULL,
  type       TEXT    NOT NULL,
  body       BLOB,
  since      INTEGER NOT NULL,
  kept       INTEGER NOT NULL,
  PRIMARY KEY (handle, stream_id, seq)
) WITHOUT ROWID;

-- Posts kept after they were processed.
CREATE TABLE parley_processed (
  post_id    BLOB    PRIMARY KEY,
  queue_id   INTEGER NOT NULL,
  name       TEXT    NOT NULL,
  type       TEXT    NOT NULL,
  body       BLOB,
  keep_until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX parley_processed_until ON parley_processed (keep_until);

CREATE TABLE parley_dead_letter (
  message_id   BLOB    PRIMARY KEY,
  queue_id     INTEGER NOT NULL, -- 0 if there was no target
  stream_id    BLOB    NOT NULL,
  seq          INTEGER NOT NULL,
  group_id     BLOB    NOT NULL,
  kind         INTEGER NOT NULL,
  type         TEXT    NOT NULL,
  body         BLOB,
  since        INTEGER NOT NULL,
  name         TEXT    NOT NULL,
  handle       BLOB,
  conversation BLOB,
  initiator    INTEGER NOT NULL,
  service      TEXT    NOT NULL,
  far          TEXT    NOT NULL,
  contract     TEXT    NOT NULL,
  priority     INTEGER NOT NULL,
  attempts     INTEGER NOT NULL,
  suspicion    INTEGER NOT NULL,
  last_error   TEXT    NOT NULL,
  reason       TEXT    NOT NULL,
  died         INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX parley_dead_letter_died ON parley_dead_letter (died DESC, message_id DESC);
CREATE INDEX parley_dead_letter_queue ON parley_dead_letter (queue_id, died DESC, message_id DESC);

-- What is known of messages that could not be handled.
CREATE TABLE parley_failure (
  message_id BLOB    PRIMARY KEY,
  attempts   INTEGER NOT NULL,
  suspicion  INTEGER NOT NULL,
  last_error TEXT    NOT NULL
) WITHOUT ROWID;

-- Readers of queues, and what they have in hand: ids of messages, 16 bytes each.
-- One whose time is over has died.
CREATE TABLE parley_worker (
  reader_id BLOB    PRIMARY KEY,
  worker_id BLOB    NOT NULL,
  queue_id  INTEGER NOT NULL,
  owner     TEXT    NOT NULL,
  readers   INTEGER NOT NULL,
  since     INTEGER NOT NULL,
  until     INTEGER NOT NULL,
  in_hand   BLOB,
  alone     INTEGER NOT NULL -- nothing else that may be deadly is in the worker's hands
) WITHOUT ROWID;

CREATE TABLE parley_once (
  name       TEXT    PRIMARY KEY,
  keep_until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX parley_once_until ON parley_once (keep_until);

-- Application locks. A transaction that decides about a lock locks the row of the stripe to which
-- the lock's name belongs. The row has the fence that was given last.
CREATE TABLE parley_lock_stripe (
  stripe INTEGER PRIMARY KEY,
  fence  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO parley_lock_stripe (stripe, fence)
WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 63)
SELECT n, 0 FROM s;

-- Who has locks: a session (kind 0) until its time, or a transaction (1) as
-- long as it has this row locked.
CREATE TABLE parley_lock_owner (
  owner_id BLOB    PRIMARY KEY,
  kind     INTEGER NOT NULL,
  owner    TEXT    NOT NULL,
  until    INTEGER NOT NULL,
  touched  INTEGER NOT NULL
) WITHOUT ROWID;

-- Locks that are held, and requests that wait for them.
CREATE TABLE parley_lock (
  name       TEXT    NOT NULL,
  seq        INTEGER NOT NULL, -- the fence, or the ticket
  owner_id   BLOB    NOT NULL,
  mode       INTEGER NOT NULL, -- 1 IS, 2 S, 4 U, 8 IX, 16 X
  times      INTEGER NOT NULL,
  waiting    INTEGER NOT NULL,
  since      INTEGER NOT NULL,
  wait_until INTEGER NOT NULL, -- when a request expires that is not renewed
  PRIMARY KEY (name, seq)
) WITHOUT ROWID;
CREATE INDEX parley_lock_of_owner ON parley_lock (owner_id);
CREATE INDEX parley_lock_waiting ON parley_lock (name) WHERE waiting = 1;

-- The highest fence of a lock under which something was written.
CREATE TABLE parley_fence (
  name  TEXT    PRIMARY KEY,
  fence INTEGER NOT NULL,
  uses  INTEGER NOT NULL
) WITHOUT ROWID;

-- Schedules. A transaction that submits or claims locks the row.
CREATE TABLE parley_schedule (
  name         TEXT    PRIMARY KEY,
  schedule_id  BLOB    NOT NULL UNIQUE,
  sealed       INTEGER NOT NULL DEFAULT 0,
  max_active   INTEGER NOT NULL,
  go_on        INTEGER NOT NULL, -- after a task is dead
  accept_late  INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  caller       TEXT    NOT NULL,
  purpose      TEXT    NOT NULL,
  made         INTEGER NOT NULL,
  serial       INTEGER NOT NULL DEFAULT 0, -- the last task's number
  latest       INTEGER NOT NULL DEFAULT -9223372036854775807, -- the highest phase of which a task has started
  served       INTEGER NOT NULL DEFAULT 0, -- when tasks were last claimed
  live         INTEGER NOT NULL DEFAULT 1 -- there may be something to claim
) WITHOUT ROWID;

-- Tasks. due is the time at which a task can be claimed next, 0 if it was never claimed. For a
-- running task it is the end of its lease.
CREATE TABLE parley_task (
  task_id     BLOB    PRIMARY KEY,
  schedule_id BLOB    NOT NULL,
  n           INTEGER NOT NULL,
  phase       INTEGER NOT NULL,
  type        TEXT    NOT NULL,
  body        BLOB,
  state       INTEGER NOT NULL DEFAULT 0, -- 0 queued, 1 running, 2 failed, 3 done, 4 dead, 5 cancelled, 6 skipped
  live        INTEGER NOT NULL DEFAULT 1, -- states 0 to 2
  due         INTEGER NOT NULL DEFAULT 0,
  fence       INTEGER NOT NULL DEFAULT 0,
  attempts    INTEGER NOT NULL DEFAULT 0,
  stop        INTEGER NOT NULL DEFAULT 0, -- asked for
  given       INTEGER NOT NULL DEFAULT 0, -- to a caller that waits for its end
  touched     INTEGER NOT NULL DEFAULT 0,
  caller      TEXT    NOT NULL,
  owner       TEXT    NOT NULL DEFAULT '',
  error       TEXT    NOT NULL DEFAULT '',
  submitted   INTEGER NOT NULL,
  started     INTEGER NOT NULL DEFAULT 0,
  ended       INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX parley_task_log ON parley_task (schedule_id, n);
CREATE INDEX parley_task_order ON parley_task (schedule_id, phase, due, n) WHERE live = 1;
CREATE INDEX parley_task_running ON parley_task (schedule_id) WHERE state = 1;
CREATE INDEX parley_task_dead ON parley_task (schedule_id, phase) WHERE state = 4;
CREATE INDEX parley_task_finished ON parley_task (schedule_id, ended, n) WHERE live = 0 AND given = 0;

INSERT INTO parley_meta (id, schema_version, catalog_version) VALUES (1, 1, 0);
