-- name: GroupReclaim
-- There is no other writer to wait for.
{GroupReclaimWait}
