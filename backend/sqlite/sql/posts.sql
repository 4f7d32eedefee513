-- name: PostReclaim
{PostReclaimWait}
