-- Due items are found queue by queue, in order of their due times. A disabled queue costs nothing,
-- and a batch reads no more rows than it moves.
CREATE INDEX parley_delayed_order ON parley_delayed (queue_id, due, post_id);

-- The queue of the endpoint whose timer it is; 0 for a timer that an older program has set.
ALTER TABLE parley_timer ADD COLUMN queue_id INTEGER NOT NULL DEFAULT 0;
CREATE INDEX parley_timer_order ON parley_timer (kind, queue_id, due, handle);

CREATE INDEX parley_post_due ON parley_post (blocked_until, post_id) WHERE blocked = 1;

-- The progress of slow walks: of maintenance job 5 through closed conversations, and of job 6
-- through groups. The owner may go on.
CREATE TABLE parley_walk (
  duty  INTEGER PRIMARY KEY,
  place BLOB    NOT NULL, -- the last id that was looked at
  owner BLOB    NOT NULL, -- a handle on the store
  until INTEGER NOT NULL  -- its turn
);
INSERT INTO parley_walk (duty, place, owner, until) VALUES (5, zeroblob(16), zeroblob(16), 0), (6, zeroblob(16), zeroblob(16), 0);

UPDATE parley_meta SET schema_version = 4;
