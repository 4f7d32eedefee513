-- name: Waiting
SELECT 1 FROM parley_meta
 WHERE EXISTS (SELECT 1 FROM parley_ready r
                 JOIN parley_grp g ON g.group_id = r.group_id
                WHERE r.queue_id = ? AND g.blocked = 0)
    OR EXISTS (SELECT 1 FROM parley_post p WHERE p.queue_id = ? AND p.blocked = 0)
-- name: GroupVisible
SELECT 1 FROM parley_ready r {read skip}
 WHERE r.group_id = ?
   AND EXISTS (SELECT 1 FROM parley_message m {read skip} WHERE m.stream_id = r.stream_id)
 {some 1}
-- name: GroupStreams
-- The streams of a group that have messages, with the data of the receiving endpoint. They are sorted by the
-- time of the oldest message. The group is ours, so no other transaction changes its endpoints.
SELECT r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation,
       e.initiator, e.service, e.far, e.contract, e.closed_at,
       (SELECT m.since FROM parley_message m {read skip}
         WHERE m.stream_id = r.stream_id ORDER BY m.stream_id, m.seq {limit 1})
  FROM parley_ready r {read skip}
  JOIN parley_stream s {read dirty} ON s.stream_id = r.stream_id
  LEFT JOIN parley_endpoint e {read dirty} ON e.handle = s.endpoint
 WHERE r.group_id = ?
-- name: FailurePut
-- The errors of attempts are JSON, in which the last one has no time yet: see backend.AttemptNow.
INSERT INTO parley_failure (message_id, attempts, suspicion, last_error, errors) VALUES (?, ?, ?, ?, {made ?})
ON CONFLICT (message_id) DO UPDATE
   SET attempts = excluded.attempts, suspicion = excluded.suspicion, last_error = excluded.last_error,
       errors = excluded.errors
-- name: FailureDelete
DELETE FROM parley_failure WHERE message_id = ?
-- name: DeadDelete
DELETE FROM parley_dead_letter WHERE message_id = ?
-- name: DeadInsert
INSERT INTO parley_dead_letter (message_id, queue_id, stream_id, seq, group_id, kind, type,
       body, headers, since, name, handle, conversation, initiator, service, far, contract,
       priority, attempts, suspicion, last_error, errors, reason, died)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {made ?}, ?, :now)
-- name: RetainedInsert
INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body,
       headers, since, kept)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce({convert ? bigint}, :now), :now)
-- name: RetainedDelete
DELETE FROM parley_retained WHERE handle = ?
-- name: PromotionTry
SELECT 1 FROM parley_promotion {lock skip} WHERE {key group_id} AND version = ?
-- name: PromotionRead
SELECT level, version, sticky FROM parley_promotion {read skip} WHERE group_id = ?
-- name: PromotionDelete
DELETE FROM parley_promotion WHERE group_id = ? AND version = ?
-- name: PromotionEmpty
DELETE FROM parley_promotion WHERE group_id = ? AND version = ? AND sticky = 2
-- name: GroupWaits
-- A message that a sender has not committed may count or not, so no sender is waited for. The last column is a
-- witness: see sqlstore.Witness.
SELECT CASE WHEN EXISTS (SELECT 1 FROM parley_message m {read dirty} WHERE m.stream_id = s.stream_id) THEN 1 ELSE 0 END,
       {witness parley_stream stream_id s}
  FROM parley_stream s {read dirty}
 WHERE s.group_id = ?
-- name: PromotionDrop
DELETE FROM parley_promotion WHERE group_id = ?
-- name: TimerPut
INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (?, ?, :now + ?, ?)
ON CONFLICT (handle, kind) DO UPDATE SET due = excluded.due, queue_id = excluded.queue_id
-- name: TimerTry
SELECT 1 FROM parley_timer {lock skip} WHERE handle = ? AND kind = ?
-- name: TimerQueue
UPDATE parley_timer SET queue_id = ? WHERE handle = ? AND kind + 0 = ?
-- name: TimerDelete
-- The sum keeps planners from taking the indexes that begin with the kind for these.
DELETE FROM parley_timer WHERE handle = ? AND kind + 0 = ?
-- name: TimerExpire
DELETE FROM parley_timer WHERE handle = ? AND kind + 0 = ? AND due <= :now
-- name: TimersDelete
DELETE FROM parley_timer WHERE handle = ?
-- name: OnceInsert
{new} INTO parley_once (name{bytes bytes}, keep_until) VALUES (?{bytes ?}, :now + ?) {otherwise}
