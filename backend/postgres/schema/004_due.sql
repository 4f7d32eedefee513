-- step: online
-- What falls due is found queue by queue, in its order: a queue that is disabled costs
-- nothing, and a batch reads no more than it moves.
--
-- A statement that locks a table gives up after two seconds, so that no other program waits
-- behind it for longer, and the migration tries again.

-- The queue of the endpoint whose timer it is; 0 for one that an older program has set.
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_timer ADD COLUMN IF NOT EXISTS queue_id bigint NOT NULL DEFAULT 0; END $$;

-- How far the slow walk of a duty has come, that of closed conversations (5) and that of
-- groups (6), and whose turn it is to go on.
CREATE TABLE IF NOT EXISTS parley_walk (
  duty  smallint PRIMARY KEY,
  place uuid     NOT NULL, -- the last id that was looked at
  owner uuid     NOT NULL, -- a handle on the store
  until bigint   NOT NULL  -- its turn
);
INSERT INTO parley_walk (duty, place, owner, until)
VALUES (5, '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', 0), (6, '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000', 0)
ON CONFLICT DO NOTHING;

-- The sum keeps the planner from walking the indexes of due alone, through all queues.
CREATE INDEX CONCURRENTLY parley_delayed_order ON parley_delayed (queue_id, (due + 0), post_id);

CREATE INDEX CONCURRENTLY parley_timer_order ON parley_timer (kind, queue_id, (due + 0), handle);

CREATE INDEX CONCURRENTLY parley_post_due ON parley_post (blocked_until, post_id) WHERE blocked = 1;

UPDATE parley_meta SET schema_version = 4;
