-- What is public of Parley's tables: views to look at, and one to insert into,
-- by which any program can post in its own transaction. The columns of the views
-- stay; new ones come at their ends. Ids are shown as text, instants in UTC.

-- Queues. Counts stop at 10000.
CREATE VIEW parley_queues AS
SELECT q.name AS queue, q.enabled, q.retention,
       min(10000, (SELECT count(*) FROM (SELECT 1 FROM parley_post p
                                          WHERE p.queue_id = q.queue_id AND p.blocked = 0
                                          LIMIT 10000))
                + (SELECT count(*) FROM (SELECT 1 FROM parley_ready r
                                          CROSS JOIN parley_message m ON m.stream_id = r.stream_id
                                          WHERE r.queue_id = q.queue_id
                                          LIMIT 10000))) AS ready,
       (SELECT count(*) FROM (SELECT 1 FROM parley_delayed d
                               WHERE d.queue_id = q.queue_id LIMIT 10000)) AS delayed,
       (SELECT count(*) FROM (SELECT 1 FROM parley_grp g
                               WHERE g.blocked = 1 AND g.blocked <> 0 AND g.queue_id = q.queue_id LIMIT 10000))
     + (SELECT count(*) FROM (SELECT 1 FROM parley_post p
                               WHERE p.blocked = 1 AND p.blocked <> 0 AND p.queue_id = q.queue_id LIMIT 10000)) AS deferred,
       (SELECT count(*) FROM (SELECT 1 FROM parley_grp g
                               WHERE g.blocked = 2 AND g.blocked <> 0 AND g.queue_id = q.queue_id LIMIT 10000))
     + (SELECT count(*) FROM (SELECT 1 FROM parley_post p
                               WHERE p.blocked = 2 AND p.blocked <> 0 AND p.queue_id = q.queue_id LIMIT 10000)) AS parked
  FROM parley_queue q;

-- Groups with messages in the ready order, deferred and parked ones, and posts
-- without key, which are groups of their own.
CREATE VIEW parley_groups AS
SELECT q.name AS queue,
       lower(substr(hex(x.group_id), 1, 8) || '-' || substr(hex(x.group_id), 9, 4) || '-' ||
             substr(hex(x.group_id), 13, 4) || '-' || substr(hex(x.group_id), 17, 4) || '-' ||
             substr(hex(x.group_id), 21)) AS group_id,
       x.service, x.key, x.post, x.priority, p.level AS promotion, p.sticky,
       CASE WHEN x.blocked = 2 THEN 'parked'
            WHEN x.blocked = 1 THEN 'deferred'
            WHEN x.lease_until > (julianday('now') - 2440587.5) * 86400000000 THEN 'held'
            ELSE 'ready' END AS state,
       x.reason, x.owner,
       strftime('%Y-%m-%d %H:%M:%f', x.oldest / 1e6, 'unixepoch') AS oldest,
       strftime('%Y-%m-%d %H:%M:%f', nullif(CASE x.blocked WHEN 0 THEN x.held_since ELSE x.blocked_since END, 0) / 1e6, 'unixepoch') AS since,
       strftime('%Y-%m-%d %H:%M:%f', nullif(CASE x.blocked WHEN 0 THEN x.lease_until WHEN 1 THEN x.blocked_until END, 0) / 1e6, 'unixepoch') AS until
  FROM (SELECT g.queue_id, g.group_id, nullif(g.service, '') AS service, nullif(g.name, '') AS key, 0 AS post,
               (SELECT max(r.priority) FROM parley_ready r WHERE r.group_id = g.group_id) AS priority,
               (SELECT min(r.since) FROM parley_ready r WHERE r.group_id = g.group_id) AS oldest,
               g.blocked, g.blocked_since, g.blocked_until, g.reason, g.lease_until, g.held_since, g.owner
          FROM parley_grp g
         WHERE g.blocked <> 0
            OR EXISTS (SELECT 1 FROM parley_ready r WHERE r.group_id = g.group_id)
         UNION ALL
        SELECT o.queue_id, o.post_id, NULL, NULL, 1, o.priority, o.since,
               o.blocked, o.blocked_since, o.blocked_until, o.reason, o.lease_until, o.held_since, o.owner
          FROM parley_post o) x
  JOIN parley_queue q ON q.queue_id = x.queue_id
  LEFT JOIN parley_promotion p ON p.group_id = x.group_id;

-- Messages and posts that have not been handled. A pending message waits to be received, or a
-- receiver holds it. A delayed post is not yet due. A withheld message has a target that cannot
-- take it.
CREATE VIEW parley_messages AS
SELECT x.queue,
       lower(substr(hex(x.id), 1, 8) || '-' || substr(hex(x.id), 9, 4) || '-' || substr(hex(x.id), 13, 4) || '-' ||
             substr(hex(x.id), 17, 4) || '-' || substr(hex(x.id), 21)) AS message_id,
       lower(substr(hex(x.grp), 1, 8) || '-' || substr(hex(x.grp), 9, 4) || '-' || substr(hex(x.grp), 13, 4) || '-' ||
             substr(hex(x.grp), 17, 4) || '-' || substr(hex(x.grp), 21)) AS group_id,
       x.key,
       CASE WHEN x.handle IS NOT NULL THEN
       lower(substr(hex(x.handle), 1, 8) || '-' || substr(hex(x.handle), 9, 4) || '-' || substr(hex(x.handle), 13, 4) || '-' ||
             substr(hex(x.handle), 17, 4) || '-' || substr(hex(x.handle), 21)) END AS handle,
       x.type, x.body, x.state, x.status, x.seq,
       strftime('%Y-%m-%d %H:%M:%f', x.enqueued / 1e6, 'unixepoch') AS enqueued,
       strftime('%Y-%m-%d %H:%M:%f', x.due / 1e6, 'unixepoch') AS due
  FROM (SELECT q.name AS queue, m.message_id AS id, s.group_id AS grp, nullif(g.name, '') AS key,
               s.endpoint AS handle, m.type, m.body, 'pending' AS state, NULL AS status, m.seq,
               m.since AS enqueued, NULL AS due
          FROM parley_message m
          JOIN parley_stream s ON s.stream_id = m.stream_id
          JOIN parley_queue q ON q.queue_id = s.queue_id
          JOIN parley_grp g ON g.group_id = s.group_id
         UNION ALL
        SELECT q.name, p.post_id, p.post_id, NULL, NULL, p.type, p.body, 'pending', NULL, 0, p.since, NULL
          FROM parley_post p JOIN parley_queue q ON q.queue_id = p.queue_id
         UNION ALL
        SELECT q.name, d.post_id, d.post_id, nullif(d.name, ''), NULL, d.type, d.body, 'delayed', NULL, 0, d.begun, d.due
          FROM parley_delayed d JOIN parley_queue q ON q.queue_id = d.queue_id
         UNION ALL
        SELECT q.name, h.message_id, coalesce(s.group_id, h.stream_id), NULL, s.endpoint, h.type, h.body,
               'withheld', h.status, h.seq, h.since, NULL
          FROM parley_held h
          JOIN parley_stream s ON s.stream_id = h.stream_id
          LEFT JOIN parley_queue q ON q.queue_id = s.queue_id) x;

-- Conversations, one row for each side. The states are Service Broker's: SO, CO,
-- DI, DO, ER, CD.
CREATE VIEW parley_conversations AS
SELECT lower(substr(hex(x.conversation), 1, 8) || '-' || substr(hex(x.conversation), 9, 4) || '-' ||
             substr(hex(x.conversation), 13, 4) || '-' || substr(hex(x.conversation), 17, 4) || '-' ||
             substr(hex(x.conversation), 21)) AS conversation,
       lower(substr(hex(x.handle), 1, 8) || '-' || substr(hex(x.handle), 9, 4) || '-' ||
             substr(hex(x.handle), 13, 4) || '-' || substr(hex(x.handle), 17, 4) || '-' ||
             substr(hex(x.handle), 21)) AS handle,
       x.initiator, x.service, x.far AS far_service, x.contract, q.name AS queue,
       lower(substr(hex(x.group_id), 1, 8) || '-' || substr(hex(x.group_id), 9, 4) || '-' ||
             substr(hex(x.group_id), 13, 4) || '-' || substr(hex(x.group_id), 17, 4) || '-' ||
             substr(hex(x.group_id), 21)) AS group_id,
       x.priority,
       CASE WHEN x.closed_at IS NOT NULL AND x.peer_gone THEN 'CD'
            WHEN x.closed_at IS NOT NULL THEN 'DO'
            WHEN x.error IS NOT NULL THEN 'ER'
            WHEN x.peer_ended THEN 'DI'
            WHEN x.initiator = 1 AND s.next_seq = 0 THEN 'SO'
            ELSE 'CO' END AS state,
       c.code AS error_code, c.description AS error_text, s.next_seq AS send_sequence,
       strftime('%Y-%m-%d %H:%M:%f', x.begun / 1e6, 'unixepoch') AS begun,
       strftime('%Y-%m-%d %H:%M:%f', x.lifetime_until / 1e6, 'unixepoch') AS lifetime,
       (SELECT strftime('%Y-%m-%d %H:%M:%f', t.due / 1e6, 'unixepoch') FROM parley_timer t
         WHERE t.handle = x.handle AND t.kind = 0) AS timer
  FROM (SELECT e.*,
               EXISTS (SELECT 1 FROM parley_closing y
                        WHERE y.handle = e.handle AND (y.kind = 0 OR y.kind = 1 AND y.by_peer = 1)) AS peer_ended,
               EXISTS (SELECT 1 FROM parley_closing y
                        WHERE y.handle = e.handle AND (y.kind <> 1 OR y.by_peer = 1)) AS peer_gone,
               (SELECT y.id FROM parley_closing y
                 WHERE y.handle = e.handle AND y.kind = 1 ORDER BY y.id LIMIT 1) AS error
          FROM parley_endpoint e) x
  JOIN parley_queue q ON q.queue_id = x.queue_id
  LEFT JOIN parley_stream s ON s.stream_id = x.handle
  LEFT JOIN parley_closing c ON c.handle = x.handle AND c.id = x.error;

-- Dead letters.
CREATE VIEW parley_dead AS
SELECT q.name AS queue,
       lower(substr(hex(d.message_id), 1, 8) || '-' || substr(hex(d.message_id), 9, 4) || '-' ||
             substr(hex(d.message_id), 13, 4) || '-' || substr(hex(d.message_id), 17, 4) || '-' ||
             substr(hex(d.message_id), 21)) AS message_id,
       lower(substr(hex(d.group_id), 1, 8) || '-' || substr(hex(d.group_id), 9, 4) || '-' ||
             substr(hex(d.group_id), 13, 4) || '-' || substr(hex(d.group_id), 17, 4) || '-' ||
             substr(hex(d.group_id), 21)) AS group_id,
       nullif(d.name, '') AS key,
       CASE WHEN d.handle IS NOT NULL THEN
       lower(substr(hex(d.handle), 1, 8) || '-' || substr(hex(d.handle), 9, 4) || '-' ||
             substr(hex(d.handle), 13, 4) || '-' || substr(hex(d.handle), 17, 4) || '-' ||
             substr(hex(d.handle), 21)) END AS handle,
       CASE WHEN d.conversation IS NOT NULL THEN
       lower(substr(hex(d.conversation), 1, 8) || '-' || substr(hex(d.conversation), 9, 4) || '-' ||
             substr(hex(d.conversation), 13, 4) || '-' || substr(hex(d.conversation), 17, 4) || '-' ||
             substr(hex(d.conversation), 21)) END AS conversation,
       d.service, d.far AS far_service, d.contract, d.type, d.body, d.reason, d.attempts, d.last_error,
       strftime('%Y-%m-%d %H:%M:%f', d.since / 1e6, 'unixepoch') AS enqueued,
       strftime('%Y-%m-%d %H:%M:%f', d.died / 1e6, 'unixepoch') AS died
  FROM parley_dead_letter d
  LEFT JOIN parley_queue q ON q.queue_id = d.queue_id;

-- The execution log: tasks of schedules, with who submitted and who ran them.
-- running ones have started, but not ended.
CREATE VIEW parley_executions AS
SELECT s.name AS schedule,
       lower(substr(hex(t.task_id), 1, 8) || '-' || substr(hex(t.task_id), 9, 4) || '-' ||
             substr(hex(t.task_id), 13, 4) || '-' || substr(hex(t.task_id), 17, 4) || '-' ||
             substr(hex(t.task_id), 21)) AS task_id,
       t.n, t.phase, t.type, t.body,
       CASE t.state WHEN 0 THEN 'queued' WHEN 1 THEN 'running' WHEN 2 THEN 'failed' WHEN 3 THEN 'done'
                    WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' ELSE 'skipped' END AS state,
       t.caller, nullif(t.owner, '') AS worker, t.attempts, nullif(t.error, '') AS error,
       strftime('%Y-%m-%d %H:%M:%f', t.submitted / 1e6, 'unixepoch') AS submitted,
       strftime('%Y-%m-%d %H:%M:%f', nullif(t.started, 0) / 1e6, 'unixepoch') AS started,
       strftime('%Y-%m-%d %H:%M:%f', nullif(CASE t.live WHEN 0 THEN t.ended END, 0) / 1e6, 'unixepoch') AS ended
  FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id;

-- Application locks of sessions, and requests that wait for them. Modes are the
-- sum of 1 IntentShared, 2 Shared, 4 Update, 8 IntentExclusive and 16 Exclusive.
CREATE VIEW parley_locks AS
SELECT l.name, o.owner, l.mode, l.waiting, l.times,
       CASE l.waiting WHEN 0 THEN l.seq END AS fence,
       strftime('%Y-%m-%d %H:%M:%f', l.since / 1e6, 'unixepoch') AS since
  FROM parley_lock l
  JOIN parley_lock_owner o ON o.owner_id = l.owner_id
 WHERE o.until > (julianday('now') - 2440587.5) * 86400000000
   AND (l.waiting = 0 OR l.wait_until > (julianday('now') - 2440587.5) * 86400000000);

-- A post in the caller's transaction, from any program:
--
--     INSERT INTO parley_outbox (queue, type, body) VALUES ('emails', 'Welcome', '{"to": "a@example.org"}');
--     INSERT INTO parley_outbox (queue, type, body, key) VALUES ('emails', 'Welcome', '…', 'customer-42');
--
-- Posts of one key keep their order. Without a type it is DEFAULT. The statement fails if the queue
-- is not defined or disabled, or the type is not defined. It also fails if the body is not valid
-- for its type, or only a program can check it (XML and Go functions). Nothing can be read here;
-- see parley_messages.
CREATE VIEW parley_outbox AS
SELECT NULL AS queue, NULL AS type, NULL AS body, NULL AS key WHERE 0;

CREATE TRIGGER parley_outbox_insert INSTEAD OF INSERT ON parley_outbox
BEGIN
  SELECT RAISE(ABORT, 'parley: the queue is not defined')
   WHERE NOT EXISTS (SELECT 1 FROM parley_queue q WHERE q.name = NEW.queue);
  SELECT RAISE(ABORT, 'parley: the queue is disabled')
   WHERE EXISTS (SELECT 1 FROM parley_queue q WHERE q.name = NEW.queue AND q.enabled = 0);
  SELECT RAISE(ABORT, 'parley: the message type is not defined')
   WHERE NEW.type <> 'DEFAULT'
     AND NOT EXISTS (SELECT 1 FROM parley_object o WHERE o.kind = 'type' AND o.name = NEW.type);
  SELECT RAISE(ABORT, 'parley: a body of this type can only be checked by a program')
    FROM parley_object o
   WHERE o.kind = 'type' AND o.name = NEW.type
     AND (json_extract(o.spec, '$.validation') = 'func'
          OR json_extract(o.spec, '$.validation') = 'xml' AND length(NEW.body) > 0);
  SELECT RAISE(ABORT, 'parley: the body is not valid for its type')
    FROM parley_object o
   WHERE o.kind = 'type' AND o.name = NEW.type AND length(NEW.body) > 0
     AND (json_extract(o.spec, '$.validation') = 'empty'
          OR json_extract(o.spec, '$.validation') = 'json' AND NOT json_valid(CAST(NEW.body AS TEXT)));

  -- The clock of SQL has milliseconds: posts of one millisecond keep their order
  -- by following each other.
  INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
  SELECT randomblob(16), q.queue_id, 5,
         max(CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER),
             coalesce((SELECT max(p.since) + 1 FROM parley_post p
                        WHERE p.queue_id = q.queue_id AND p.blocked = 0 AND p.priority = 5), 0)),
         coalesce(NEW.type, 'DEFAULT'), CAST(NEW.body AS BLOB)
    FROM parley_queue q
   WHERE q.name = NEW.queue AND coalesce(NEW.key, '') = '';

  INSERT INTO parley_key (queue_id, name, stream_id)
  SELECT q.queue_id, NEW.key, randomblob(16) FROM parley_queue q
   WHERE q.name = NEW.queue AND coalesce(NEW.key, '') <> ''
      ON CONFLICT DO NOTHING;
  INSERT INTO parley_grp (group_id, queue_id, service, name)
  SELECT k.stream_id, k.queue_id, '', k.name
    FROM parley_queue q
    JOIN parley_key k ON k.queue_id = q.queue_id AND k.name = NEW.key
   WHERE q.name = NEW.queue
      ON CONFLICT DO NOTHING;
  INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched)
  SELECT k.stream_id, 3, k.stream_id, k.queue_id, 5, 0, 0, 0, 0
    FROM parley_queue q
    JOIN parley_key k ON k.queue_id = q.queue_id AND k.name = NEW.key
   WHERE q.name = NEW.queue
      ON CONFLICT DO NOTHING;
  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
  SELECT s.stream_id, s.next_seq, randomblob(16), 4, coalesce(NEW.type, 'DEFAULT'), CAST(NEW.body AS BLOB),
         CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    FROM parley_queue q
    JOIN parley_key k ON k.queue_id = q.queue_id AND k.name = NEW.key
    JOIN parley_stream s ON s.stream_id = k.stream_id
   WHERE q.name = NEW.queue;
  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
  SELECT k.queue_id, k.stream_id, k.stream_id, 5,
         CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
    FROM parley_queue q
    JOIN parley_key k ON k.queue_id = q.queue_id AND k.name = NEW.key
   WHERE q.name = NEW.queue
      ON CONFLICT DO NOTHING;
  UPDATE parley_stream
     SET next_seq = next_seq + 1,
         touched = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)
   WHERE stream_id = (SELECT k.stream_id FROM parley_queue q
                        JOIN parley_key k ON k.queue_id = q.queue_id AND k.name = NEW.key
                       WHERE q.name = NEW.queue);
END;

UPDATE parley_meta SET schema_version = 2;
