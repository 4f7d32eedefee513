-- name: PendingKeyed
-- It looks up the messages of each key by the primary key, even if it was planned while there were few: kind + 0 is in no
-- index.
SELECT m.message_id, k.name, m.type
  FROM parley_key k
 CROSS JOIN LATERAL (SELECT x.message_id, x.type FROM parley_message x
                      WHERE x.stream_id = k.stream_id AND x.kind + 0 = 4 AND x.message_id > $2
                     OFFSET 0) m
 WHERE k.queue_id = $1
 ORDER BY m.message_id
 LIMIT $3
