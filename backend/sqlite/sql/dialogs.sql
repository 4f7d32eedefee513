-- name: MarkerMove
UPDATE parley_ready SET group_id = ?, held_until = 0
 WHERE group_id = ? AND stream_id = ?
