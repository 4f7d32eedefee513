-- Parley's tables on PostgreSQL, 13 or later. This file can be run by hand, in
-- the schema that comes first in the search_path.
--
-- Everything is private but the views and the function parley_post. Instants are
-- microseconds since 1970, flags are 0 and 1, names compare by bytes.
--
-- fillfactor leaves room for updates that touch no index (HOT). Tables that can grow from empty to
-- large within a moment are vacuumed early. They have some rows of a queue that does not exist; see
-- the end of this file.

CREATE TABLE parley_meta (
  id              smallint PRIMARY KEY CHECK (id = 1),
  schema_version  integer  NOT NULL,
  catalog_version bigint   NOT NULL
);

-- Message types, contracts, services and priorities, as JSON.
CREATE TABLE parley_object (
  kind text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  spec text             NOT NULL,
  PRIMARY KEY (kind, name)
);

CREATE TABLE parley_queue (
  queue_id       bigint           PRIMARY KEY,
  name           text COLLATE "C" NOT NULL UNIQUE,
  enabled        smallint         NOT NULL,
  retention      smallint         NOT NULL,
  keep_processed bigint           NOT NULL
);

-- Groups, dialogs' and keys'. The fence grows with every hold by lease; a
-- lease_until that has passed is a token that the next claim takes away.
CREATE TABLE parley_grp (
  group_id      uuid             PRIMARY KEY,
  queue_id      bigint           NOT NULL,
  service       text COLLATE "C" NOT NULL, -- '' for a key
  name          text COLLATE "C" NOT NULL, -- of the key, '' for dialogs
  fence         bigint           NOT NULL DEFAULT 0,
  lease_until   bigint           NOT NULL DEFAULT 0,
  held_since    bigint           NOT NULL DEFAULT 0,
  owner         text             NOT NULL DEFAULT '',
  blocked       smallint         NOT NULL DEFAULT 0, -- 1 deferred, 2 parked
  blocked_since bigint           NOT NULL DEFAULT 0,
  blocked_until bigint           NOT NULL DEFAULT 0,
  reason        text             NOT NULL DEFAULT '',
  resweep       smallint         NOT NULL DEFAULT 0 -- a stream was missed when it became ready
) WITH (
  fillfactor = 60,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_grp_blocked ON parley_grp (blocked, blocked_until) WHERE blocked <> 0;
CREATE INDEX parley_grp_resweep ON parley_grp (group_id) WHERE resweep = 1;
CREATE INDEX parley_grp_leased ON parley_grp (queue_id, lease_until, group_id) WHERE lease_until <> 0;

-- One row for each side of a conversation.
CREATE TABLE parley_endpoint (
  handle         uuid             PRIMARY KEY,
  conversation   uuid             NOT NULL,
  peer           uuid             NOT NULL,
  initiator      smallint         NOT NULL,
  service        text COLLATE "C" NOT NULL,
  far            text COLLATE "C" NOT NULL,
  contract       text COLLATE "C" NOT NULL,
  queue_id       bigint           NOT NULL,
  group_id       uuid             NOT NULL,
  priority       smallint         NOT NULL,
  lifetime_until bigint,
  begun          bigint           NOT NULL,
  closed_at      bigint, -- this side ended
  finish_at      bigint -- both did: when to remove the conversation
) WITH (
  fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_endpoint_conversation ON parley_endpoint (conversation, initiator DESC);
CREATE INDEX parley_endpoint_group ON parley_endpoint (group_id);
CREATE INDEX parley_endpoint_finish ON parley_endpoint (finish_at) WHERE finish_at IS NOT NULL;

-- What an endpoint has been told of its other side. Rows are only added.
CREATE TABLE parley_closing (
  handle      uuid     NOT NULL, -- of the endpoint that is told
  id          uuid     NOT NULL,
  kind        smallint NOT NULL, -- 0 end, 1 error, 2 cleanup
  by_peer     smallint NOT NULL, -- else by the broker
  code        integer,
  description text,
  PRIMARY KEY (handle, id)
);

-- Streams. The row is the guard. A dialog's direction has the id of the handle
-- that sends; its home is where the other side receives.
CREATE TABLE parley_stream (
  stream_id uuid     PRIMARY KEY,
  kind      smallint NOT NULL, -- 0 timer, 1 error, 2 dialog, 3 key
  group_id  uuid,
  queue_id  bigint,
  endpoint  uuid, -- that receives
  priority  smallint NOT NULL,
  next_seq  bigint   NOT NULL,
  closed    smallint NOT NULL,
  held      smallint NOT NULL,
  touched   bigint   NOT NULL -- when it was last written to
) WITH (
  fillfactor = 60,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_stream_group ON parley_stream (group_id, endpoint);
CREATE INDEX parley_stream_held ON parley_stream (stream_id) WHERE held = 1;

CREATE TABLE parley_message (
  stream_id  uuid             NOT NULL,
  seq        bigint           NOT NULL,
  message_id uuid             NOT NULL,
  kind       smallint         NOT NULL, -- 0 timer, 1 error, 2 user, 3 end, 4 post with key
  type       text COLLATE "C" NOT NULL,
  body       bytea,
  since      bigint           NOT NULL,
  uniq       text,
  PRIMARY KEY (stream_id, seq)
) WITH (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_message_keyed ON parley_message (message_id) WHERE kind = 4;

-- The ready order of streams.
CREATE TABLE parley_ready (
  queue_id  bigint   NOT NULL,
  group_id  uuid     NOT NULL,
  stream_id uuid     NOT NULL,
  priority  smallint NOT NULL,
  since     bigint   NOT NULL,
  PRIMARY KEY (group_id, stream_id)
) WITH (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_ready_order ON parley_ready (queue_id, priority DESC, since);

CREATE TABLE parley_promotion (
  group_id uuid     PRIMARY KEY, -- or a post's id
  queue_id bigint   NOT NULL,
  level    smallint NOT NULL,
  since    bigint   NOT NULL,
  version  bigint   NOT NULL,
  sticky   smallint NOT NULL
) WITH (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_promotion_order ON parley_promotion (queue_id, level DESC, since);

-- Posts without key: message, stream, marker and group in one row.
CREATE TABLE parley_post (
  post_id       uuid             PRIMARY KEY,
  queue_id      bigint           NOT NULL,
  priority      smallint         NOT NULL,
  since         bigint           NOT NULL,
  type          text COLLATE "C" NOT NULL,
  body          bytea,
  uniq          text,
  attempts      integer          NOT NULL DEFAULT 0,
  suspicion     integer          NOT NULL DEFAULT 0,
  last_error    text,
  fence         bigint           NOT NULL DEFAULT 0,
  lease_until   bigint           NOT NULL DEFAULT 0,
  held_since    bigint           NOT NULL DEFAULT 0,
  owner         text             NOT NULL DEFAULT '',
  blocked       smallint         NOT NULL DEFAULT 0,
  blocked_since bigint           NOT NULL DEFAULT 0,
  blocked_until bigint           NOT NULL DEFAULT 0,
  reason        text             NOT NULL DEFAULT ''
) WITH (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_post_order ON parley_post (queue_id, priority DESC, since) WHERE blocked = 0;
CREATE INDEX parley_post_blocked ON parley_post (blocked, blocked_until) WHERE blocked <> 0;

-- The streams of keys; a key's group has the same id.
CREATE TABLE parley_key (
  queue_id  bigint           NOT NULL,
  name      text COLLATE "C" NOT NULL,
  stream_id uuid             NOT NULL,
  PRIMARY KEY (queue_id, name)
) WITH (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);

-- Posts that are not yet due.
CREATE TABLE parley_delayed (
  post_id  uuid             PRIMARY KEY,
  queue_id bigint           NOT NULL,
  name     text COLLATE "C" NOT NULL, -- of the key, or ''
  priority smallint         NOT NULL,
  type     text COLLATE "C" NOT NULL,
  body     bytea,
  uniq     text,
  begun    bigint           NOT NULL,
  due      bigint           NOT NULL
);
CREATE INDEX parley_delayed_due ON parley_delayed (due);
CREATE INDEX parley_delayed_queue ON parley_delayed (queue_id, name);

-- Unique values of pending posts.
CREATE TABLE parley_uniq (
  queue_id bigint           NOT NULL,
  value    text COLLATE "C" NOT NULL,
  post_id  uuid             NOT NULL,
  PRIMARY KEY (queue_id, value)
);

-- Messages that wait for their target.
CREATE TABLE parley_held (
  stream_id  uuid             NOT NULL,
  seq        bigint           NOT NULL,
  message_id uuid             NOT NULL,
  kind       smallint         NOT NULL,
  type       text COLLATE "C" NOT NULL,
  body       bytea,
  since      bigint           NOT NULL,
  status     text             NOT NULL,
  PRIMARY KEY (stream_id, seq)
);

-- Dialog timers (0) and lifetimes (1).
CREATE TABLE parley_timer (
  handle uuid     NOT NULL,
  kind   smallint NOT NULL,
  due    bigint   NOT NULL,
  PRIMARY KEY (handle, kind)
);
CREATE INDEX parley_timer_due ON parley_timer (kind, due);

-- Copies kept by retention.
CREATE TABLE parley_retained (
  handle     uuid             NOT NULL, -- of the side that keeps it
  stream_id  uuid             NOT NULL,
  seq        bigint           NOT NULL,
  sent       smallint         NOT NULL,
  message_id uuid             NOT NULL,
  kind       smallint         NOT NULL,
  type       text COLLATE "C" NOT NULL,
  body       bytea,
  since      bigint           NOT NULL,
  kept       bigint           NOT NULL,
  PRIMARY KEY (handle, stream_id, seq)
);

-- Posts kept after they were processed.
CREATE TABLE parley_processed (
  post_id    uuid             PRIMARY KEY,
  queue_id   bigint           NOT NULL,
  name       text COLLATE "C" NOT NULL,
  type       text COLLATE "C" NOT NULL,
  body       bytea,
  keep_until bigint           NOT NULL
);
CREATE INDEX parley_processed_until ON parley_processed (keep_until);

CREATE TABLE parley_dead_letter (
  message_id   uuid             PRIMARY KEY,
  queue_id     bigint           NOT NULL, -- 0 if there was no target
  stream_id    uuid             NOT NULL,
  seq          bigint           NOT NULL,
  group_id     uuid             NOT NULL,
  kind         smallint         NOT NULL,
  type         text COLLATE "C" NOT NULL,
  body         bytea,
  since        bigint           NOT NULL,
  name         text COLLATE "C" NOT NULL,
  handle       uuid,
  conversation uuid,
  initiator    smallint         NOT NULL,
  service      text COLLATE "C" NOT NULL,
  far          text COLLATE "C" NOT NULL,
  contract     text COLLATE "C" NOT NULL,
  priority     smallint         NOT NULL,
  attempts     integer          NOT NULL,
  suspicion    integer          NOT NULL,
  last_error   text             NOT NULL,
  reason       text             NOT NULL,
  died         bigint           NOT NULL
);
CREATE INDEX parley_dead_letter_died ON parley_dead_letter (died DESC, message_id DESC);
CREATE INDEX parley_dead_letter_queue ON parley_dead_letter (queue_id, died DESC, message_id DESC);

-- What is known of messages that could not be handled.
CREATE TABLE parley_failure (
  message_id uuid    PRIMARY KEY,
  attempts   integer NOT NULL,
  suspicion  integer NOT NULL,
  last_error text    NOT NULL
);

-- Readers of queues, and what they have in hand: ids of messages, 16 bytes each.
-- One whose time is over has died.
CREATE TABLE parley_worker (
  reader_id uuid     PRIMARY KEY,
  worker_id uuid     NOT NULL,
  queue_id  bigint   NOT NULL,
  owner     text     NOT NULL,
  readers   integer  NOT NULL,
  since     bigint   NOT NULL,
  until     bigint   NOT NULL,
  in_hand   bytea,
  alone     smallint NOT NULL -- nothing else that may be deadly is in the worker's hands
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);

-- Ids cannot be compressed.
ALTER TABLE parley_worker ALTER COLUMN in_hand SET STORAGE EXTERNAL;

CREATE TABLE parley_once (
  name       text COLLATE "C" PRIMARY KEY,
  keep_until bigint           NOT NULL
);
CREATE INDEX parley_once_until ON parley_once (keep_until);

-- Application locks. A transaction that decides about a lock locks the row of the stripe to which
-- the lock's name belongs. The row has the fence that was given last.
CREATE TABLE parley_lock_stripe (
  stripe smallint PRIMARY KEY,
  fence  bigint   NOT NULL
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02
);
INSERT INTO parley_lock_stripe (stripe, fence) SELECT n, 0 FROM generate_series(0, 63) n;

-- Owners of locks. A session (kind 0) has its locks until its time, a transaction (1) as long as it
-- has this row locked. A session with advisory locks (2) has them as long as it has the lock on its
-- id.
CREATE TABLE parley_lock_owner (
  owner_id uuid     PRIMARY KEY,
  kind     smallint NOT NULL,
  owner    text     NOT NULL,
  until    bigint   NOT NULL,
  touched  bigint   NOT NULL
) WITH (
  fillfactor = 60,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);

-- Locks that are held, and requests that wait for them.
CREATE TABLE parley_lock (
  name       text COLLATE "C" NOT NULL,
  seq        bigint           NOT NULL, -- the fence, or the ticket
  owner_id   uuid             NOT NULL,
  mode       smallint         NOT NULL, -- 1 IS, 2 S, 4 U, 8 IX, 16 X
  times      integer          NOT NULL,
  waiting    smallint         NOT NULL,
  since      bigint           NOT NULL,
  wait_until bigint           NOT NULL, -- when a request expires that is not renewed
  PRIMARY KEY (name, seq)
) WITH (
  fillfactor = 60,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_lock_of_owner ON parley_lock (owner_id);
CREATE INDEX parley_lock_waiting ON parley_lock (name) WHERE waiting = 1;

-- The highest fence of a lock under which something was written.
CREATE TABLE parley_fence (
  name  text COLLATE "C" PRIMARY KEY,
  fence bigint           NOT NULL,
  uses  bigint           NOT NULL
) WITH (fillfactor = 60);

-- Schedules. A transaction that submits or claims locks the row.
CREATE TABLE parley_schedule (
  name         text COLLATE "C" PRIMARY KEY,
  schedule_id  uuid             NOT NULL UNIQUE,
  sealed       smallint         NOT NULL DEFAULT 0,
  max_active   integer          NOT NULL,
  go_on        smallint         NOT NULL, -- after a task is dead
  accept_late  smallint         NOT NULL,
  max_attempts integer          NOT NULL,
  caller       text             NOT NULL,
  purpose      text             NOT NULL,
  made         bigint           NOT NULL,
  serial       bigint           NOT NULL DEFAULT 0, -- the last task's number
  latest       bigint           NOT NULL DEFAULT -9223372036854775807, -- the highest phase of which a task has started
  served       bigint           NOT NULL DEFAULT 0, -- when tasks were last claimed
  live         smallint         NOT NULL DEFAULT 1 -- there may be something to claim
) WITH (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);

-- Tasks. due is the time at which a task can be claimed next, 0 if it was never claimed. For a
-- running task it is the end of its lease.
CREATE TABLE parley_task (
  task_id     uuid             PRIMARY KEY,
  schedule_id uuid             NOT NULL,
  n           bigint           NOT NULL,
  phase       bigint           NOT NULL,
  type        text COLLATE "C" NOT NULL,
  body        bytea,
  state       smallint         NOT NULL DEFAULT 0, -- 0 queued, 1 running, 2 failed, 3 done, 4 dead, 5 cancelled, 6 skipped
  live        smallint         NOT NULL DEFAULT 1, -- states 0 to 2
  due         bigint           NOT NULL DEFAULT 0,
  fence       bigint           NOT NULL DEFAULT 0,
  attempts    integer          NOT NULL DEFAULT 0,
  stop        smallint         NOT NULL DEFAULT 0, -- asked for
  given       smallint         NOT NULL DEFAULT 0, -- to a caller that waits for its end
  touched     bigint           NOT NULL DEFAULT 0,
  caller      text             NOT NULL,
  owner       text             NOT NULL DEFAULT '',
  error       text             NOT NULL DEFAULT '',
  submitted   bigint           NOT NULL,
  started     bigint           NOT NULL DEFAULT 0,
  ended       bigint           NOT NULL DEFAULT 0
) WITH (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05
);
CREATE INDEX parley_task_log ON parley_task (schedule_id, n);
CREATE INDEX parley_task_order ON parley_task (schedule_id, phase, due, n) WHERE live = 1;
CREATE INDEX parley_task_running ON parley_task (schedule_id) WHERE state = 1;
CREATE INDEX parley_task_dead ON parley_task (schedule_id, phase) WHERE state = 4;
CREATE INDEX parley_task_finished ON parley_task (schedule_id, ended, n) WHERE live = 0 AND given = 0;

-- Plans that last. Prepared statements keep their plans. If the planner expects one row, it may
-- scan a whole table or index instead of looking the row up. Such a plan is a disaster when a
-- hundred thousand messages arrive within a second, until the next ANALYZE. The planner takes the
-- number of rows from "the current physical table size" (14.2.1) and from the density that the last
-- VACUUM or ANALYZE found. For a table that was empty then, the density is zero. So tables that are
-- emptied again and again keep some rows of a queue that does not exist. Only a scan finds them.
INSERT INTO parley_grp (group_id, queue_id, service, name)
SELECT lpad(to_hex(i), 32, '0')::uuid, -1, repeat('x', 1000), '' FROM generate_series(1, 100) i;
INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far, contract,
       queue_id, group_id, priority, begun)
SELECT id, id, id, 0, repeat('x', 1000), '', '', -1, id, 0, 0
  FROM (SELECT lpad(to_hex(i), 32, '0')::uuid AS id FROM generate_series(1, 100) i) x;
INSERT INTO parley_closing (handle, id, kind, by_peer, description)
SELECT id, id, 0, 0, repeat('x', 1000)
  FROM (SELECT lpad(to_hex(i), 32, '0')::uuid AS id FROM generate_series(1, 100) i) x;
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, since)
SELECT id, 0, id, 0, repeat('x', 1000), 0
  FROM (SELECT lpad(to_hex(i), 32, '0')::uuid AS id FROM generate_series(1, 100) i) x;
INSERT INTO parley_failure (message_id, attempts, suspicion, last_error)
SELECT lpad(to_hex(i), 32, '0')::uuid, 0, 0, repeat('x', 1000) FROM generate_series(1, 100) i;
INSERT INTO parley_post (post_id, queue_id, priority, since, type)
SELECT lpad(to_hex(i), 32, '0')::uuid, -1, 0, 0, repeat('x', 1000) FROM generate_series(1, 100) i;
INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, begun, due)
SELECT lpad(to_hex(i), 32, '0')::uuid, -1, '', 0, repeat('x', 1000), 0, 9223372036854775807
  FROM generate_series(1, 100) i;
INSERT INTO parley_key (queue_id, name, stream_id)
SELECT -1, repeat('x', 1000) || i, lpad(to_hex(i), 32, '0')::uuid FROM generate_series(1, 100) i;
INSERT INTO parley_uniq (queue_id, value, post_id)
SELECT -1, repeat('x', 1000) || i, lpad(to_hex(i), 32, '0')::uuid FROM generate_series(1, 100) i;
INSERT INTO parley_stream (stream_id, kind, priority, next_seq, closed, held, touched)
SELECT lpad(to_hex(i), 32, '0')::uuid, 2, 0, 0, 0, 0, 0 FROM generate_series(1, 1500) i;
INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
SELECT -1, id, id, 0, 0
  FROM (SELECT lpad(to_hex(i), 32, '0')::uuid AS id FROM generate_series(1, 1500) i) x;
INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
SELECT lpad(to_hex(i), 32, '0')::uuid, -1, 0, 0, 0, 0 FROM generate_series(1, 1500) i;
INSERT INTO parley_timer (handle, kind, due)
SELECT lpad(to_hex(i), 32, '0')::uuid, i % 2, 9223372036854775807 FROM generate_series(1, 1500) i;
-- These are of one schedule, as real ones have many tasks.
INSERT INTO parley_task (task_id, schedule_id, n, phase, type, due, caller, submitted)
SELECT lpad(to_hex(i), 32, '0')::uuid, lpad('', 32, '0')::uuid, i, i, '', 9223372036854775807, '', 0
  FROM generate_series(1, 1500) i;
ANALYZE parley_task, parley_lock_stripe, parley_grp, parley_endpoint, parley_closing, parley_message, parley_failure, parley_post,
        parley_delayed, parley_key, parley_uniq, parley_stream, parley_ready, parley_promotion,
        parley_timer;

INSERT INTO parley_meta (id, schema_version, catalog_version) VALUES (1, 1, 0);
