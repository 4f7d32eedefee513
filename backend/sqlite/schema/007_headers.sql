-- Headers of messages and posts: a JSON object of texts, NULL if there are none.
ALTER TABLE parley_message ADD COLUMN headers TEXT;
ALTER TABLE parley_post ADD COLUMN headers TEXT;
ALTER TABLE parley_delayed ADD COLUMN headers TEXT;
ALTER TABLE parley_held ADD COLUMN headers TEXT;
ALTER TABLE parley_retained ADD COLUMN headers TEXT;
ALTER TABLE parley_processed ADD COLUMN headers TEXT;
ALTER TABLE parley_dead_letter ADD COLUMN headers TEXT;

-- No program of a version below oldest_program has anything in hand, or can get it. Headers are
-- written only when that is 7: programs of version 6 would lose them when they move a message.
-- A new store has no such programs: then it is 7 from the start.
ALTER TABLE parley_meta ADD COLUMN oldest_program INTEGER NOT NULL DEFAULT 0;

-- A post with headers, from any program: parley_outbox with one more column, of JSON.
--
--     INSERT INTO parley_outbox_with_headers (queue, type, body, headers)
--     VALUES ('emails', 'Welcome', '{"to": "a@example.org"}', '{"traceparent": "00-…"}');
--
-- What Go programs may not send as headers makes the statement fail.
CREATE VIEW parley_outbox_with_headers AS
SELECT NULL AS queue, NULL AS type, NULL AS body, NULL AS key, NULL AS headers WHERE 0;

CREATE TRIGGER parley_outbox_with_headers_insert INSTEAD OF INSERT ON parley_outbox_with_headers
BEGIN
  SELECT RAISE(ABORT, 'parley: the headers are not valid')
   WHERE NEW.headers IS NOT NULL
     AND CASE WHEN coalesce(json_valid(NEW.headers), 0) = 0 OR json_type(NEW.headers) <> 'object' THEN 1
              ELSE (SELECT count(*) > 64
                           OR coalesce(sum(length(CAST(h.key AS BLOB)) + length(CAST(h.value AS BLOB))), 0) > 8192
                           OR coalesce(max(h.type <> 'text' OR h.key = '' OR substr(h.key, 1, 7) = 'parley-'
                                           OR instr(h.key, char(0)) > 0 OR instr(h.value, char(0)) > 0), 0)
                      FROM json_each(NEW.headers) h) END;
  SELECT RAISE(ABORT, 'parley: programs that would lose headers may still be there')
    FROM parley_meta m
   WHERE NEW.headers IS NOT NULL AND m.oldest_program < 7;
  INSERT INTO parley_outbox (queue, type, body, key) VALUES (NEW.queue, NEW.type, NEW.body, NEW.key);
  -- There is one writer: the last one of its order is the post that has just come.
  UPDATE parley_post SET headers = nullif(json(NEW.headers), '{}')
   WHERE coalesce(NEW.key, '') = '' AND NEW.headers IS NOT NULL
     AND post_id = (SELECT p.post_id FROM parley_post p
                      JOIN parley_queue q ON q.queue_id = p.queue_id AND q.name = NEW.queue
                     WHERE p.blocked = 0 AND p.priority = 5
                     ORDER BY p.since DESC LIMIT 1);
  UPDATE parley_message SET headers = nullif(json(NEW.headers), '{}')
   WHERE coalesce(NEW.key, '') <> '' AND NEW.headers IS NOT NULL
     AND (stream_id, seq) = (SELECT s.stream_id, s.next_seq - 1
                               FROM parley_queue q
                               JOIN parley_key k ON k.queue_id = q.queue_id AND k.name = NEW.key
                               JOIN parley_stream s ON s.stream_id = k.stream_id
                              WHERE q.name = NEW.queue);
END;

UPDATE parley_meta SET schema_version = 7;
