-- Plans that last, once more (see 001). Rows are removed and changed by their ctid. The planner expects ten of them, and
-- scans the whole table if that has fewer pages than the ten random ones would cost, which is 40. So the tables of such
-- rows that grow by far have more pages than that of a queue that does not exist.
INSERT INTO parley_grp (group_id, queue_id, service, name)
SELECT lpad(to_hex(i), 32, '0')::uuid, -1, repeat('x', 1500), '' FROM generate_series(101, 300) i
    ON CONFLICT DO NOTHING;
INSERT INTO parley_message (stream_id, seq, message_id, kind, type, since)
SELECT id, 0, id, 0, repeat('x', 1500), 0
  FROM (SELECT lpad(to_hex(i), 32, '0')::uuid AS id FROM generate_series(101, 300) i) x
    ON CONFLICT DO NOTHING;
INSERT INTO parley_failure (message_id, attempts, suspicion, last_error)
SELECT lpad(to_hex(i), 32, '0')::uuid, 0, 0, repeat('x', 1500) FROM generate_series(101, 300) i
    ON CONFLICT DO NOTHING;
INSERT INTO parley_post (post_id, queue_id, priority, since, type)
SELECT lpad(to_hex(i), 32, '0')::uuid, -1, 0, 0, repeat('x', 1500) FROM generate_series(101, 300) i
    ON CONFLICT DO NOTHING;
INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, begun, due)
SELECT lpad(to_hex(i), 32, '0')::uuid, -1, '', 0, repeat('x', 1500), 0, 9223372036854775807
  FROM generate_series(101, 300) i
    ON CONFLICT DO NOTHING;

UPDATE parley_meta SET schema_version = 11;
