-- name: MessagesOfEndpoint
SELECT s.stream_id, s.kind, m.seq, m.message_id, f.message_id
  FROM parley_stream s
  LEFT JOIN LATERAL (
         SELECT x.seq, x.message_id FROM parley_message x
          WHERE x.stream_id = s.stream_id ORDER BY x.seq OFFSET 0) m ON true
  LEFT JOIN LATERAL (
         SELECT x.message_id FROM parley_failure x WHERE x.message_id = m.message_id LIMIT 1) f ON true
 WHERE s.group_id = $1 AND s.endpoint = $2
 ORDER BY s.stream_id, m.seq
