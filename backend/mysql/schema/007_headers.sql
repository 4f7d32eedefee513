-- Headers of messages and posts: a JSON object of texts, NULL if there are none.
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_message' AND column_name = 'headers') = 0,
                      'ALTER TABLE parley_message ADD COLUMN headers MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_post' AND column_name = 'headers') = 0,
                      'ALTER TABLE parley_post ADD COLUMN headers MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_delayed' AND column_name = 'headers') = 0,
                      'ALTER TABLE parley_delayed ADD COLUMN headers MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_held' AND column_name = 'headers') = 0,
                      'ALTER TABLE parley_held ADD COLUMN headers MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_retained' AND column_name = 'headers') = 0,
                      'ALTER TABLE parley_retained ADD COLUMN headers MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_processed' AND column_name = 'headers') = 0,
                      'ALTER TABLE parley_processed ADD COLUMN headers MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_dead_letter' AND column_name = 'headers') = 0,
                      'ALTER TABLE parley_dead_letter ADD COLUMN headers MEDIUMBLOB', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;

-- No program of a version below oldest_program has anything in hand, or can get it. Headers are
-- written only when that is 7: programs of version 6 would lose them when they move a message.
-- A new store has no such programs: then it is 7 from the start.
SET @parley_step = IF((SELECT count(*) FROM information_schema.columns
                        WHERE table_schema = DATABASE() AND table_name = 'parley_meta' AND column_name = 'oldest_program') = 0,
                      'ALTER TABLE parley_meta ADD COLUMN oldest_program INT NOT NULL DEFAULT 0', 'DO 0');
PREPARE parley_step FROM @parley_step;
EXECUTE parley_step;
DEALLOCATE PREPARE parley_step;

-- parley_post with headers, a JSON object of texts. It is a separate procedure, because dropping
-- the old one would lose its grants. It writes the row itself, because it could not find the row
-- that the old procedure has written. It raises PA006 for headers that Go programs may not send,
-- and PA007 if programs that would lose headers may still be there.
DROP PROCEDURE IF EXISTS parley_post_with_headers;

DELIMITER //
CREATE PROCEDURE parley_post_with_headers(
  IN queue_name VARCHAR(128) CHARACTER SET utf8mb4,
  IN type_name  VARCHAR(128) CHARACTER SET utf8mb4,
  IN content    LONGBLOB,
  IN key_name   VARCHAR(512) CHARACTER SET utf8mb4,
  IN headers    LONGTEXT CHARACTER SET utf8mb4)
MODIFIES SQL DATA
BEGIN
  DECLARE us, queue, number BIGINT;
  DECLARE is_on INT;
  DECLARE random VARCHAR(64);
  DECLARE rule VARCHAR(16) CHARACTER SET utf8mb4;
  DECLARE id, stream, home BINARY(16);
  DECLARE key_bytes, type_bytes VARBINARY(512);
  DECLARE header_names, header_values, header_name, header_value, header_text LONGTEXT CHARACTER SET utf8mb4;
  DECLARE header_count, header_bytes INT DEFAULT 0;
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

  IF headers IS NOT NULL THEN
    IF coalesce(JSON_VALID(headers), 0) = 0 OR JSON_TYPE(headers) <> 'OBJECT' THEN
      SIGNAL SQLSTATE 'PA006' SET MESSAGE_TEXT = 'parley: the headers are not valid';
    END IF;
    SET header_names = JSON_KEYS(headers), header_values = coalesce(JSON_EXTRACT(headers, '$.*'), '[]');
    IF JSON_LENGTH(header_names) > 64 OR JSON_LENGTH(header_names) <> JSON_LENGTH(header_values) THEN
      SIGNAL SQLSTATE 'PA006' SET MESSAGE_TEXT = 'parley: the headers are not valid';
    END IF;
    WHILE header_count < JSON_LENGTH(header_names) DO
      SET header_name = JSON_UNQUOTE(JSON_EXTRACT(header_names, concat('$[', header_count, ']')));
      SET header_value = JSON_EXTRACT(header_values, concat('$[', header_count, ']'));
      IF JSON_TYPE(header_value) = 'STRING' THEN
        SET header_value = JSON_UNQUOTE(header_value);
        SET header_bytes = header_bytes + length(header_name) + length(header_value);
      ELSE
        SET header_bytes = 8193;
      END IF;
      IF header_bytes > 8192 OR length(header_name) = 0 OR CAST(left(header_name, 7) AS BINARY) = CAST('parley-' AS BINARY)
         OR locate(char(0), CAST(concat(header_name, header_value) AS BINARY)) > 0 THEN
        SIGNAL SQLSTATE 'PA006' SET MESSAGE_TEXT = 'parley: the headers are not valid';
      END IF;
      SET header_text = concat(coalesce(concat(header_text, ','), '{'), JSON_QUOTE(header_name), ':', JSON_QUOTE(header_value));
      SET header_count = header_count + 1;
    END WHILE;
    SET header_text = concat(header_text, '}');
    IF (SELECT m.oldest_program FROM parley_meta m WHERE m.id = 1) < 7 THEN
      SIGNAL SQLSTATE 'PA007' SET MESSAGE_TEXT = 'parley: programs that would lose headers may still be there';
    END IF;
  END IF;

  -- UUID version 7: milliseconds, the version, and random bits with the variant.
  SET us = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6));
  SET random = sha2(concat(uuid(), rand()), 256);
  SET id = unhex(concat(lpad(hex(us DIV 1000), 12, '0'), '7', substr(random, 1, 3),
                        hex(8 + (conv(substr(random, 4, 1), 16, 10) & 3)), substr(random, 5, 15)));
  IF key_bytes = '' THEN
    INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, headers)
    VALUES (id, queue, 5, us, type_bytes, content, header_text);
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
    INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, headers, since)
    VALUES (stream, number, id, 4, type_bytes, content, header_text, us);
    /*M!110602 SET STATEMENT innodb_snapshot_isolation = 0 FOR */
    UPDATE parley_stream SET next_seq = number + 1, touched = us WHERE stream_id = stream;
    /*M!110602 SET STATEMENT innodb_snapshot_isolation = 0 FOR */
    INSERT IGNORE INTO parley_ready (queue_id, group_id, stream_id, priority, since)
    VALUES (queue, home, stream, 5, us);
  END IF;
  SELECT lower(concat_ws('-', substr(hex(id), 1, 8), substr(hex(id), 9, 4), substr(hex(id), 13, 4), substr(hex(id), 17, 4), substr(hex(id), 21))) AS id;
END//
DELIMITER ;

UPDATE parley_meta SET schema_version = 7 WHERE id = 1;
