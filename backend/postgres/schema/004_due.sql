-- step: online
-- Due items are found queue by queue, in order of their due times. A disabled queue costs nothing,
-- and a batch reads no more rows than it moves.
--
-- A statement that locks a table gives up after two seconds, and the migration tries again. So no
-- other program waits longer behind it.

-- The queue of the endpoint whose timer it is; 0 for a timer that an older program has set.
DO $$ BEGIN PERFORM set_config('lock_timeout', '2s', true); ALTER TABLE parley_timer ADD COLUMN IF NOT EXISTS queue_id bigint NOT NULL DEFAULT 0; END $$;

-- The progress of slow walks: of maintenance job 5 through closed conversations, and of job 6
-- through groups. The owner may go on.
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
