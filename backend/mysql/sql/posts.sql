-- name: PostExtend
UPDATE parley_post SET lease_until = greatest(:now + ?, lease_until + 1)
 WHERE post_id IN (?, '') AND fence = ? AND lease_until <> 0
