-- What is public of Parley's tables: views to look at, and a procedure by which any
-- program can post in its own transaction. The columns of the views stay; new ones
-- come at their ends. Instants are in UTC. The columns key and delayed have to be
-- quoted, as they are words of SQL's.

-- Queues. The first two counts stop at 10000.
CREATE OR REPLACE VIEW parley_queues AS
SELECT CONVERT(q.name USING utf8mb4) AS queue, q.enabled, q.retention,
       least(10000,
             CASE WHEN (SELECT 1 FROM parley_post p
                         WHERE p.queue_id = q.queue_id AND p.blocked = 0 LIMIT 1 OFFSET 9999) IS NOT NULL
                  THEN 10000
                  ELSE (SELECT count(*) FROM parley_post p
                         WHERE p.queue_id = q.queue_id AND p.blocked = 0)
                     + (SELECT count(*) FROM parley_ready r
                          JOIN parley_message m ON m.stream_id = r.stream_id
                         WHERE r.queue_id = q.queue_id) END) AS ready,
       CASE WHEN (SELECT 1 FROM parley_delayed d WHERE d.queue_id = q.queue_id LIMIT 1 OFFSET 9999) IS NOT NULL
            THEN 10000
            ELSE (SELECT count(*) FROM parley_delayed d WHERE d.queue_id = q.queue_id) END AS `delayed`,
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 1 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p WHERE p.blocked = 1 AND p.queue_id = q.queue_id) AS deferred,
       (SELECT count(*) FROM parley_grp g WHERE g.blocked = 2 AND g.queue_id = q.queue_id)
     + (SELECT count(*) FROM parley_post p WHERE p.blocked = 2 AND p.queue_id = q.queue_id) AS parked
  FROM parley_queue q;

-- Groups with messages in the ready order, deferred and parked ones, and posts
-- without key, which are groups of their own. Holds of transactions cannot be
-- seen.
CREATE OR REPLACE VIEW parley_groups AS
SELECT CONVERT(q.name USING utf8mb4) AS queue,
       lower(concat_ws('-', substr(hex(x.group_id), 1, 8), substr(hex(x.group_id), 9, 4), substr(hex(x.group_id), 13, 4), substr(hex(x.group_id), 17, 4), substr(hex(x.group_id), 21))) AS group_id,
       CONVERT(x.service USING utf8mb4) AS service, CONVERT(x.name USING utf8mb4) AS `key`, x.post, x.priority,
       p.level AS promotion, p.sticky,
       CASE WHEN x.blocked = 2 THEN 'parked'
            WHEN x.blocked = 1 THEN 'deferred'
            WHEN x.lease_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) THEN 'held'
            ELSE 'ready' END AS state,
       CONVERT(x.reason USING utf8mb4) AS reason, CONVERT(x.owner USING utf8mb4) AS owner,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL x.oldest MICROSECOND AS oldest,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL nullif(CASE x.blocked WHEN 0 THEN x.held_since ELSE x.blocked_since END, 0) MICROSECOND AS since,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL nullif(CASE x.blocked WHEN 0 THEN x.lease_until WHEN 1 THEN x.blocked_until END, 0) MICROSECOND AS until
  FROM (SELECT g.queue_id, g.group_id, nullif(g.service, '') AS service, nullif(g.name, '') AS name, 0 AS post,
               (SELECT max(r.priority) FROM parley_ready r WHERE r.group_id = g.group_id) AS priority,
               (SELECT min(r.since) FROM parley_ready r WHERE r.group_id = g.group_id) AS oldest,
               g.blocked, g.blocked_since, g.blocked_until, g.reason, g.lease_until, g.held_since, g.owner
          FROM parley_grp g
         WHERE g.blocked <> 0
            OR (SELECT 1 FROM parley_ready r WHERE r.group_id = g.group_id LIMIT 1) IS NOT NULL
         UNION ALL
        SELECT o.queue_id, o.post_id, NULL, NULL, 1, o.priority, o.since,
               o.blocked, o.blocked_since, o.blocked_until, o.reason, o.lease_until, o.held_since, o.owner
          FROM parley_post o) x
  JOIN parley_queue q ON q.queue_id = x.queue_id
  LEFT JOIN parley_promotion p ON p.group_id = x.group_id;

-- Messages and posts that have not been handled. A pending message waits to be received, or a
-- receiver holds it. A delayed post is not yet due. A withheld message has a target that cannot
-- take it.
CREATE OR REPLACE VIEW parley_messages AS
SELECT CONVERT(x.queue USING utf8mb4) AS queue,
       lower(concat_ws('-', substr(hex(x.id), 1, 8), substr(hex(x.id), 9, 4), substr(hex(x.id), 13, 4), substr(hex(x.id), 17, 4), substr(hex(x.id), 21))) AS message_id,
       CASE WHEN x.grp IS NOT NULL THEN
       lower(concat_ws('-', substr(hex(x.grp), 1, 8), substr(hex(x.grp), 9, 4), substr(hex(x.grp), 13, 4), substr(hex(x.grp), 17, 4), substr(hex(x.grp), 21))) END AS group_id,
       CONVERT(x.name USING utf8mb4) AS `key`,
       CASE WHEN x.handle IS NOT NULL THEN
       lower(concat_ws('-', substr(hex(x.handle), 1, 8), substr(hex(x.handle), 9, 4), substr(hex(x.handle), 13, 4), substr(hex(x.handle), 17, 4), substr(hex(x.handle), 21))) END AS handle,
       CONVERT(x.type USING utf8mb4) AS type, x.body, x.state, CONVERT(x.status USING utf8mb4) AS status, x.seq,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL x.enqueued MICROSECOND AS enqueued, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL x.due MICROSECOND AS due
  FROM (SELECT q.name AS queue, m.message_id AS id, s.group_id AS grp, nullif(g.name, '') AS name,
               s.endpoint AS handle, m.type, m.body, 'pending' AS state, NULL AS status, m.seq,
               m.since AS enqueued, NULL AS due
          FROM parley_message m
          JOIN parley_stream s ON s.stream_id = m.stream_id
          JOIN parley_queue q ON q.queue_id = s.queue_id
          JOIN parley_grp g ON g.group_id = s.group_id
         UNION ALL
        SELECT q.name, p.post_id, p.post_id, NULL, NULL, p.type, p.body, 'pending', NULL, 0, p.since, NULL
          FROM parley_post p
          JOIN parley_queue q ON q.queue_id = p.queue_id
         UNION ALL
        SELECT q.name, d.post_id, NULL, nullif(d.name, ''), NULL, d.type, d.body, 'delayed', NULL, 0, d.begun, d.due
          FROM parley_delayed d
          JOIN parley_queue q ON q.queue_id = d.queue_id
         UNION ALL
        SELECT q.name, h.message_id, s.group_id, NULL, s.endpoint, h.type, h.body,
               'withheld', h.status, h.seq, h.since, NULL
          FROM parley_held h
          JOIN parley_stream s ON s.stream_id = h.stream_id
          LEFT JOIN parley_queue q ON q.queue_id = s.queue_id) x;

-- Conversations, one row for each side. The states are Service Broker's: SO, CO,
-- DI, DO, ER, CD.
CREATE OR REPLACE VIEW parley_conversations AS
SELECT lower(concat_ws('-', substr(hex(x.conversation), 1, 8), substr(hex(x.conversation), 9, 4), substr(hex(x.conversation), 13, 4), substr(hex(x.conversation), 17, 4), substr(hex(x.conversation), 21))) AS conversation,
       lower(concat_ws('-', substr(hex(x.handle), 1, 8), substr(hex(x.handle), 9, 4), substr(hex(x.handle), 13, 4), substr(hex(x.handle), 17, 4), substr(hex(x.handle), 21))) AS handle,
       x.initiator, CONVERT(x.service USING utf8mb4) AS service, CONVERT(x.far USING utf8mb4) AS far_service,
       CONVERT(x.contract USING utf8mb4) AS contract, CONVERT(q.name USING utf8mb4) AS queue,
       lower(concat_ws('-', substr(hex(x.group_id), 1, 8), substr(hex(x.group_id), 9, 4), substr(hex(x.group_id), 13, 4), substr(hex(x.group_id), 17, 4), substr(hex(x.group_id), 21))) AS group_id,
       x.priority,
       CASE WHEN x.closed_at IS NOT NULL AND x.peer_gone THEN 'CD'
            WHEN x.closed_at IS NOT NULL THEN 'DO'
            WHEN x.error IS NOT NULL THEN 'ER'
            WHEN x.peer_ended THEN 'DI'
            WHEN x.initiator = 1 AND s.next_seq = 0 THEN 'SO'
            ELSE 'CO' END AS state,
       c.code AS error_code, CONVERT(c.description USING utf8mb4) AS error_text, s.next_seq AS send_sequence,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL x.begun MICROSECOND AS begun, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL x.lifetime_until MICROSECOND AS lifetime,
       (SELECT TIMESTAMP'1970-01-01 00:00:00' + INTERVAL t.due MICROSECOND FROM parley_timer t
         WHERE t.handle = x.handle AND t.kind = 0) AS timer
  FROM (SELECT e.*,
               (SELECT 1 FROM parley_closing y
                 WHERE y.handle = e.handle AND (y.kind = 0 OR y.kind = 1 AND y.by_peer = 1) LIMIT 1) IS NOT NULL AS peer_ended,
               (SELECT 1 FROM parley_closing y
                 WHERE y.handle = e.handle AND (y.kind <> 1 OR y.by_peer = 1) LIMIT 1) IS NOT NULL AS peer_gone,
               (SELECT y.id FROM parley_closing y
                 WHERE y.handle = e.handle AND y.kind = 1 ORDER BY y.id LIMIT 1) AS error
          FROM parley_endpoint e) x
  JOIN parley_queue q ON q.queue_id = x.queue_id
  LEFT JOIN parley_stream s ON s.stream_id = x.handle
  LEFT JOIN parley_closing c ON c.handle = x.handle AND c.id = x.error;

-- Dead letters.
CREATE OR REPLACE VIEW parley_dead AS
SELECT CONVERT(q.name USING utf8mb4) AS queue,
       lower(concat_ws('-', substr(hex(d.message_id), 1, 8), substr(hex(d.message_id), 9, 4), substr(hex(d.message_id), 13, 4), substr(hex(d.message_id), 17, 4), substr(hex(d.message_id), 21))) AS message_id,
       lower(concat_ws('-', substr(hex(d.group_id), 1, 8), substr(hex(d.group_id), 9, 4), substr(hex(d.group_id), 13, 4), substr(hex(d.group_id), 17, 4), substr(hex(d.group_id), 21))) AS group_id,
       CONVERT(nullif(d.name, '') USING utf8mb4) AS `key`,
       CASE WHEN d.handle IS NOT NULL THEN
       lower(concat_ws('-', substr(hex(d.handle), 1, 8), substr(hex(d.handle), 9, 4), substr(hex(d.handle), 13, 4), substr(hex(d.handle), 17, 4), substr(hex(d.handle), 21))) END AS handle,
       CASE WHEN d.conversation IS NOT NULL THEN
       lower(concat_ws('-', substr(hex(d.conversation), 1, 8), substr(hex(d.conversation), 9, 4), substr(hex(d.conversation), 13, 4), substr(hex(d.conversation), 17, 4), substr(hex(d.conversation), 21))) END AS conversation,
       CONVERT(d.service USING utf8mb4) AS service, CONVERT(d.far USING utf8mb4) AS far_service, CONVERT(d.contract USING utf8mb4) AS contract,
       CONVERT(d.type USING utf8mb4) AS type, d.body, CONVERT(d.reason USING utf8mb4) AS reason, d.attempts,
       CONVERT(d.last_error USING utf8mb4) AS last_error,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL d.since MICROSECOND AS enqueued, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL d.died MICROSECOND AS died
  FROM parley_dead_letter d
  LEFT JOIN parley_queue q ON q.queue_id = d.queue_id;

-- The execution log: tasks of schedules, with who submitted and who ran them.
-- running ones have started, but not ended.
CREATE OR REPLACE VIEW parley_executions AS
SELECT CONVERT(s.name USING utf8mb4) AS schedule,
       lower(concat_ws('-', substr(hex(t.task_id), 1, 8), substr(hex(t.task_id), 9, 4), substr(hex(t.task_id), 13, 4), substr(hex(t.task_id), 17, 4), substr(hex(t.task_id), 21))) AS task_id,
       t.n, t.phase, CONVERT(t.type USING utf8mb4) AS type, t.body,
       CASE t.state WHEN 0 THEN 'queued' WHEN 1 THEN 'running' WHEN 2 THEN 'failed' WHEN 3 THEN 'done'
                    WHEN 4 THEN 'dead' WHEN 5 THEN 'cancelled' ELSE 'skipped' END AS state,
       CONVERT(t.caller USING utf8mb4) AS caller, CONVERT(nullif(t.owner, '') USING utf8mb4) AS worker, t.attempts,
       CONVERT(nullif(t.error, '') USING utf8mb4) AS error,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL t.submitted MICROSECOND AS submitted, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL nullif(t.started, 0) MICROSECOND AS started,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL nullif(CASE t.live WHEN 0 THEN t.ended END, 0) MICROSECOND AS ended
  FROM parley_task t
  JOIN parley_schedule s ON s.schedule_id = t.schedule_id;

-- Application locks, and requests that wait for them. Modes are the sum of 1
-- IntentShared, 2 Shared, 4 Update, 8 IntentExclusive and 16 Exclusive.
CREATE OR REPLACE VIEW parley_locks AS
SELECT CONVERT(l.name USING utf8mb4) AS name, CONVERT(o.owner USING utf8mb4) AS owner, l.mode, l.waiting, l.times,
       CASE l.waiting WHEN 0 THEN l.seq END AS fence,
       TIMESTAMP'1970-01-01 00:00:00' + INTERVAL l.since MICROSECOND AS since
  FROM parley_lock l
  JOIN parley_lock_owner o ON o.owner_id = l.owner_id
 WHERE (o.kind = 1 OR o.until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
   AND (l.waiting = 0 OR l.wait_until > TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)));

-- A post in the caller's transaction, from any program:
--
--     CALL parley_post('emails', 'Welcome', '{"to": "a@example.org"}', NULL);
--     CALL parley_post('emails', 'Welcome', '…', 'customer-42');
--
-- Posts of one key keep the order of their commits. Without a type it is DEFAULT. The result is one
-- row with the post's id. The procedure raises SQLSTATE PA001 if the queue is not defined, and
-- PA002 if it is disabled. It raises PA003 if the type is not defined, and PA004 if the body is not
-- valid for it. It raises PA005 for XML and Go functions, which only a program can check. The body
-- is taken as it is, in the connection's character set.
DROP PROCEDURE IF EXISTS parley_post;

DELIMITER //
CREATE PROCEDURE parley_post(
  IN queue_name VARCHAR(128) CHARACTER SET utf8mb4,
  IN type_name  VARCHAR(128) CHARACTER SET utf8mb4,
  IN content    LONGBLOB,
  IN key_name   VARCHAR(512) CHARACTER SET utf8mb4)
MODIFIES SQL DATA
BEGIN
  DECLARE us, queue, number BIGINT;
  DECLARE is_on INT;
  DECLARE random VARCHAR(64);
  DECLARE rule VARCHAR(16) CHARACTER SET utf8mb4;
  DECLARE id, stream, home BINARY(16);
  DECLARE key_bytes, type_bytes VARBINARY(512);
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;

  SET key_bytes = CAST(coalesce(key_name, '') AS BINARY), type_bytes = CAST(coalesce(type_name, 'DEFAULT') AS BINARY);
  SELECT q.queue_id, q.enabled INTO queue, is_on
    FROM parley_queue q WHERE q.name = CAST(queue_name AS BINARY);
  IF queue IS NULL THEN
    SIGNAL SQLSTATE 'PA001' SET MESSAGE_TEXT = 'parley: the queue is not defined';
  END IF;
  IF is_on = 0 THEN
    SIGNAL SQLSTATE 'PA002' SET MESSAGE_TEXT = 'parley: the queue is disabled';
  END IF;
  IF type_bytes <> CAST('DEFAULT' AS BINARY) THEN
    SELECT coalesce(JSON_UNQUOTE(JSON_EXTRACT(CONVERT(o.spec USING utf8mb4), '$.validation')), '') INTO rule
      FROM parley_object o WHERE o.kind = 'type' AND o.name = type_bytes;
    IF rule IS NULL THEN
      SIGNAL SQLSTATE 'PA003' SET MESSAGE_TEXT = 'parley: the message type is not defined';
    END IF;
    IF rule = 'func' OR rule = 'xml' AND length(content) > 0 THEN
      SIGNAL SQLSTATE 'PA005' SET MESSAGE_TEXT = 'parley: a body of this type can only be checked by a program';
    END IF;
    IF rule <> '' AND length(content) > 0
       AND (rule <> 'json' OR coalesce(JSON_VALID(CONVERT(content USING utf8mb4)), 0) = 0) THEN
      SIGNAL SQLSTATE 'PA004' SET MESSAGE_TEXT = 'parley: the body is not valid for its type';
    END IF;
  END IF;

  -- UUID version 7: milliseconds, the version, and random bits with the variant.
  SET us = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  SET random = sha2(concat(uuid(), rand()), 256);
  SET id = unhex(concat(lpad(hex(us DIV 1000), 12, '0'), '7', substr(random, 1, 3),
                        hex(8 + (conv(substr(random, 4, 1), 16, 10) & 3)), substr(random, 5, 15)));
  IF key_bytes = '' THEN
    INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
    VALUES (id, queue, 5, us, type_bytes, content);
  ELSE
    -- At REPEATABLE READ this may read an old version. So a key that seems to be missing is
    -- inserted and, if that fails, read with a lock. From 11.6.2 on, by default, MariaDB would
    -- refuse to lock a row that has changed since.
    SELECT k.stream_id INTO stream FROM parley_key k WHERE k.queue_id = queue AND k.name = key_bytes;
    find: LOOP
      IF stream IS NOT NULL THEN
        -- The guard: other posts to the same key wait here.
        /*M!110602 SET STATEMENT innodb_snapshot_isolation = 0 FOR */
        SELECT s.group_id, s.next_seq INTO home, number
          FROM parley_stream s WHERE s.stream_id = stream FOR UPDATE;
        IF number IS NOT NULL THEN
          LEAVE find;
        END IF;
      END IF;
      -- The key's first use, or it was swept a moment ago. Of two who make it at
      -- once the second waits, and then finds what the first has made.
      SET stream = unhex(substr(sha2(concat(uuid(), rand()), 256), 1, 32));
      /*M!110602 SET STATEMENT innodb_snapshot_isolation = 0 FOR */
      INSERT IGNORE INTO parley_key (queue_id, name, stream_id) VALUES (queue, key_bytes, stream);
      IF row_count() > 0 THEN
        INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES (stream, queue, '', key_bytes);
        INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, priority, next_seq, closed, held, touched)
        VALUES (stream, 3, stream, queue, 5, 0, 0, 0, us);
      ELSE
        SET stream = NULL;
        /*M!110602 SET STATEMENT innodb_snapshot_isolation = 0 FOR */
        SELECT k.stream_id INTO stream FROM parley_key k
         WHERE k.queue_id = queue AND k.name = key_bytes LOCK IN SHARE MODE;
      END IF;
    END LOOP;
    SET us = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
    INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
    VALUES (stream, number, id, 4, type_bytes, content, us);
    /*M!110602 SET STATEMENT innodb_snapshot_isolation = 0 FOR */
    UPDATE parley_stream SET next_seq = number + 1, touched = us WHERE stream_id = stream;
    /*M!110602 SET STATEMENT innodb_snapshot_isolation = 0 FOR */
    INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
    VALUES (queue, home, stream, 5, us);
  END IF;
  SELECT lower(concat_ws('-', substr(hex(id), 1, 8), substr(hex(id), 9, 4), substr(hex(id), 13, 4), substr(hex(id), 17, 4), substr(hex(id), 21))) AS id;
END//
DELIMITER ;

UPDATE parley_meta SET schema_version = 2 WHERE id = 1;
