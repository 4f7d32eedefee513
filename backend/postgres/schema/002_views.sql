-- What is public of Parley's tables: views to look at, and a function by which
-- any program can post in its own transaction. The columns of the views stay;
-- new ones come at their ends.

-- Queues. Counts stop at 10000.
CREATE VIEW parley_queues AS
SELECT q.name AS queue, q.enabled = 1 AS enabled, q.retention = 1 AS retention,
       least(10000, (SELECT count(*) FROM (SELECT 1 FROM parley_post p
                                            WHERE p.queue_id = q.queue_id AND p.blocked = 0
                                            LIMIT 10000) x)
                  + (SELECT count(*) FROM (SELECT 1 FROM parley_ready r
                                             JOIN parley_message m ON m.stream_id = r.stream_id
                                            WHERE r.queue_id = q.queue_id
                                            LIMIT 10000) x)) AS ready,
       (SELECT count(*) FROM (SELECT 1 FROM parley_delayed d
                               WHERE d.queue_id = q.queue_id LIMIT 10000) x) AS delayed,
       (SELECT count(*) FROM (SELECT 1 FROM parley_grp g
                               WHERE g.blocked = 1 AND g.queue_id = q.queue_id LIMIT 10000) x)
     + (SELECT count(*) FROM (SELECT 1 FROM parley_post p
                               WHERE p.blocked = 1 AND p.queue_id = q.queue_id LIMIT 10000) x) AS deferred,
       (SELECT count(*) FROM (SELECT 1 FROM parley_grp g
                               WHERE g.blocked = 2 AND g.queue_id = q.queue_id LIMIT 10000) x)
     + (SELECT count(*) FROM (SELECT 1 FROM parley_post p
                               WHERE p.blocked = 2 AND p.queue_id = q.queue_id LIMIT 10000) x) AS parked
  FROM parley_queue q;

-- Groups with messages in the ready order, deferred and parked ones, and posts
-- without key, which are groups of their own. Holds of transactions cannot be
-- seen.
CREATE VIEW parley_groups AS
SELECT q.name AS queue, x.group_id, x.service, x.key, x.post, x.priority,
       p.level AS promotion, p.sticky = 1 AS sticky,
       CASE WHEN x.blocked = 2 THEN 'parked'
            WHEN x.blocked = 1 THEN 'deferred'
            WHEN x.lease_until > extract(epoch FROM clock_timestamp()) * 1000000 THEN 'held'
            ELSE 'ready' END AS state,
       x.reason, x.owner,
       to_timestamp(x.oldest / 1000000.0) AS oldest,
       to_timestamp(nullif(CASE x.blocked WHEN 0 THEN x.held_since ELSE x.blocked_since END, 0) / 1000000.0) AS since,
       to_timestamp(nullif(CASE x.blocked WHEN 0 THEN x.lease_until WHEN 1 THEN x.blocked_until END, 0) / 1000000.0) AS until
  FROM (SELECT g.queue_id, g.group_id, nullif(g.service, '') AS service, nullif(g.name, '') AS key, false AS post,
               (SELECT max(r.priority) FROM parley_ready r
                 WHERE r.group_id = g.group_id) AS priority,
               (SELECT min(r.since) FROM parley_ready r
                 WHERE r.group_id = g.group_id) AS oldest,
               g.blocked, g.blocked_since, g.blocked_until, g.reason, g.lease_until, g.held_since, g.owner
          FROM parley_grp g
         WHERE g.blocked <> 0
            OR EXISTS (SELECT 1 FROM parley_ready r
                        WHERE r.group_id = g.group_id)
         UNION ALL
        SELECT o.queue_id, o.post_id, NULL, NULL, true, o.priority, o.since,
               o.blocked, o.blocked_since, o.blocked_until, o.reason, o.lease_until, o.held_since, o.owner
          FROM parley_post o) x
  JOIN parley_queue q ON q.queue_id = x.queue_id
  LEFT JOIN parley_promotion p ON p.group_id = x.group_id;

-- Messages and posts that have not been handled. A pending message waits to be received, or a
-- receiver holds it. A delayed post is not yet due. A withheld message has a target that cannot
-- take it.
CREATE VIEW parley_messages AS
SELECT q.name AS queue, m.message_id, s.group_id, nullif(g.name, '') AS key, s.endpoint AS handle,
       m.type, m.body, 'pending' AS state, NULL AS status, m.seq,
       to_timestamp(m.since / 1000000.0) AS enqueued, NULL::timestamptz AS due
  FROM parley_message m
  JOIN parley_stream s ON s.stream_id = m.stream_id
  JOIN parley_queue q ON q.queue_id = s.queue_id
  JOIN parley_grp g ON g.group_id = s.group_id
 UNION ALL
SELECT q.name, p.post_id, p.post_id, NULL, NULL, p.type, p.body, 'pending', NULL, 0,
       to_timestamp(p.since / 1000000.0), NULL
  FROM parley_post p
  JOIN parley_queue q ON q.queue_id = p.queue_id
 UNION ALL
SELECT q.name, d.post_id, NULL, nullif(d.name, ''), NULL, d.type, d.body, 'delayed', NULL, 0,
       to_timestamp(d.begun / 1000000.0), to_timestamp(d.due / 1000000.0)
  FROM parley_delayed d
  JOIN parley_queue q ON q.queue_id = d.queue_id
 UNION ALL
SELECT q.name, h.message_id, s.group_id, NULL, s.endpoint, h.type, h.body, 'withheld', h.status, h.seq,
       to_timestamp(h.since / 1000000.0), NULL
  FROM parley_held h
  JOIN parley_stream s ON s.stream_id = h.stream_id
  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id;

-- Conversations, one row for each side. The states are Service Broker's: SO, CO,
-- DI, DO, ER, CD.
CREATE VIEW parley_conversations AS
SELECT e.conversation, e.handle, e.initiator = 1 AS initiator, e.service, e.far AS far_service, e.contract,
       q.name AS queue, e.group_id, e.priority,
       CASE WHEN e.closed_at IS NOT NULL AND c.peer_gone THEN 'CD'
            WHEN e.closed_at IS NOT NULL THEN 'DO'
            WHEN c.in_error THEN 'ER'
            WHEN c.peer_ended THEN 'DI'
            WHEN e.initiator = 1 AND s.next_seq = 0 THEN 'SO'
            ELSE 'CO' END AS state,
       c.code AS error_code, c.description AS error_text, s.next_seq AS send_sequence,
       to_timestamp(e.begun / 1000000.0) AS begun,
       to_timestamp(e.lifetime_until / 1000000.0) AS lifetime,
       (SELECT to_timestamp(t.due / 1000000.0) FROM parley_timer t
         WHERE t.handle = e.handle AND t.kind = 0) AS timer
  FROM parley_endpoint e
  JOIN parley_queue q ON q.queue_id = e.queue_id
  LEFT JOIN parley_stream s ON s.stream_id = e.handle
 CROSS JOIN LATERAL (
         SELECT coalesce(bool_or(x.kind = 1), false) AS in_error,
                coalesce(bool_or(x.kind = 0 OR x.kind = 1 AND x.by_peer = 1), false) AS peer_ended,
                coalesce(bool_or(x.kind <> 1 OR x.by_peer = 1), false) AS peer_gone,
                (array_agg(x.code ORDER BY x.id) FILTER (WHERE x.kind = 1))[1] AS code,
                (array_agg(x.description ORDER BY x.id) FILTER (WHERE x.kind = 1))[1] AS description
           FROM parley_closing x WHERE x.handle = e.handle) c;

-- Dead letters.
CREATE VIEW parley_dead AS
SELECT q.name AS queue, d.message_id, d.group_id, nullif(d.name, '') AS key, d.handle, d.conversation,
       d.service, d.far AS far_service, d.contract, d.type, d.body, d.reason, d.attempts, d.last_error,
       to_timestamp(d.since / 1000000.0) AS enqueued, to_timestamp(d.died / 1000000.0) AS died
  FROM parley_dead_letter d
  LEFT JOIN parley_queue q ON q.queue_id = d.queue_id;

-- The execution log: tasks of schedules, with who submitted and who ran them.
-- running ones have started, but not ended.
CREATE VIEW parley_executions AS
SELECT s.name AS schedule, t.task_id, t.n, t.phase, t.type, t.body,
       CASE t.state WHEN 0 THEN 'queued' WHEN 1 THEN 'running' WHEN 2 THEN 'failed' WHEN 3 THEN 'done'
                    WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' ELSE 'skipped' END AS state,
       t.caller, nullif(t.owner, '') AS worker, t.attempts, nullif(t.error, '') AS error,
       to_timestamp(t.submitted / 1000000.0) AS submitted,
       to_timestamp(nullif(t.started, 0) / 1000000.0) AS started,
       to_timestamp(nullif(CASE t.live WHEN 0 THEN t.ended END, 0) / 1000000.0) AS ended
  FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id;

-- Application locks, and requests that wait for them. Modes are the sum of 1
-- IntentShared, 2 Shared, 4 Update, 8 IntentExclusive and 16 Exclusive.
CREATE VIEW parley_locks AS
SELECT l.name, o.owner, l.mode, l.waiting = 1 AS waiting, l.times,
       CASE l.waiting WHEN 0 THEN l.seq END AS fence,
       to_timestamp(l.since / 1000000.0) AS since
  FROM parley_lock l
  JOIN parley_lock_owner o ON o.owner_id = l.owner_id
 WHERE (o.kind = 1 OR o.until > extract(epoch FROM clock_timestamp()) * 1000000)
   AND (l.waiting = 0 OR l.wait_until > extract(epoch FROM clock_timestamp()) * 1000000);

-- A post in the caller's transaction, from any program:
--
--     SELECT parley_post('emails', 'Welcome', '{"to": "a@example.org"}'::bytea);
--     SELECT parley_post('emails', 'Welcome', '…'::bytea, 'customer-42');
--
-- Posts of one key keep the order of their commits. Receivers are woken when the transaction commits. The function
-- raises PA001 if the queue is not defined, and PA002 if it is disabled. It raises PA003 if the type is not defined,
-- and PA004 if the body is not valid for it. It raises PA005 for XML and Go functions, which only a program can check.
-- The function finds its tables in the schema in which it was created, whatever the caller's search_path.
CREATE FUNCTION parley_post(queue text, type text, body bytea, key text DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
  q      parley_queue;
  s      parley_stream;
  rule   text;
  us     bigint := extract(epoch FROM clock_timestamp()) * 1000000;
  random text := replace(gen_random_uuid()::text, '-', '');
  -- UUID version 7: milliseconds, the version, and random bits with the variant.
  id     uuid := lpad(to_hex(us / 1000), 12, '0') || '7' || substr(random, 14);
BEGIN
  SELECT * INTO q FROM parley_queue x WHERE x.name = parley_post.queue;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'parley: queue "%" is not defined', parley_post.queue USING ERRCODE = 'PA001';
  END IF;
  IF q.enabled = 0 THEN
    RAISE EXCEPTION 'parley: queue "%" is disabled', parley_post.queue USING ERRCODE = 'PA002';
  END IF;
  IF parley_post.type <> 'DEFAULT' THEN
    SELECT coalesce(o.spec::json ->> 'validation', '') INTO rule
      FROM parley_object o WHERE o.kind = 'type' AND o.name = parley_post.type;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'parley: message type "%" is not defined', parley_post.type USING ERRCODE = 'PA003';
    END IF;
    IF rule = 'func' OR rule = 'xml' AND length(parley_post.body) > 0 THEN
      RAISE EXCEPTION 'parley: a body of type "%" can only be checked by a program', parley_post.type USING ERRCODE = 'PA005';
    END IF;
    IF rule = 'json' AND length(parley_post.body) > 0 THEN
      BEGIN
        PERFORM convert_from(parley_post.body, 'UTF8')::json;
        rule := '';
      EXCEPTION WHEN data_exception THEN
        NULL; -- it is refused below
      END;
    END IF;
    IF rule <> '' AND length(parley_post.body) > 0 THEN
      RAISE EXCEPTION 'parley: the body is not valid for type "%"', parley_post.type USING ERRCODE = 'PA004';
    END IF;
  END IF;
  IF coalesce(parley_post.key, '') = '' THEN
    INSERT INTO parley_post AS x (post_id, queue_id, priority, since, type, body)
    VALUES (id, q.queue_id, 5, us, coalesce(parley_post.type, 'DEFAULT'), parley_post.body);
  ELSE
    LOOP
      -- The guard: other posts to the same key wait here.
      UPDATE parley_stream x SET next_seq = x.next_seq + 1, touched = us
       WHERE x.stream_id = (SELECT k.stream_id FROM parley_key k
                             WHERE k.queue_id = q.queue_id AND k.name = parley_post.key)
      RETURNING x.* INTO s;
      EXIT WHEN FOUND;
      -- The key's first use, or it was swept a moment ago. Of two who make it at
      -- once the second waits, and then finds what the first has made.
      random := gen_random_uuid()::text;
      INSERT INTO parley_key AS x (queue_id, name, stream_id)
      VALUES (q.queue_id, parley_post.key, random::uuid)
      ON CONFLICT DO NOTHING;
      IF FOUND THEN
        INSERT INTO parley_grp (group_id, queue_id, service, name)
        VALUES (random::uuid, q.queue_id, '', parley_post.key);
        INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched)
        VALUES (random::uuid, 3, random::uuid, q.queue_id, 5, 0, 0, 0, us);
      END IF;
    END LOOP;
    us := extract(epoch FROM clock_timestamp()) * 1000000;
    INSERT INTO parley_message AS x (stream_id, seq, message_id, kind, type, body, since)
    VALUES (s.stream_id, s.next_seq - 1, id, 4, coalesce(parley_post.type, 'DEFAULT'), parley_post.body, us);
    INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
    VALUES (q.queue_id, s.group_id, s.stream_id, 5, us)
    ON CONFLICT DO NOTHING;
  END IF;
  PERFORM pg_notify(left(current_schema() || '.parley_wake', 63), q.queue_id::text);
  RETURN id;
END $$;

UPDATE parley_meta SET schema_version = 2;
