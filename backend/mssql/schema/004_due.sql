-- Due items are found queue by queue, in order of their due times. A disabled queue costs nothing,
-- and a batch reads no more rows than it moves. The rows of an index end with the clustering key.
CREATE INDEX by_order ON parley_delayed (queue_id, due, post_id) WITH (ALLOW_PAGE_LOCKS = OFF);

-- The queue of the endpoint whose timer it is; 0 for a timer that an older program has set.
ALTER TABLE parley_timer ADD queue_id bigint NOT NULL DEFAULT 0;
-- The batch is compiled before the column is there.
EXEC(N'CREATE INDEX by_order ON parley_timer (kind, queue_id, due, handle) WITH (ALLOW_PAGE_LOCKS = OFF)');

CREATE INDEX by_due ON parley_post (blocked_until, post_id) WHERE blocked = 1 WITH (ALLOW_PAGE_LOCKS = OFF);

-- The progress of slow walks: of maintenance job 5 through closed conversations, and of job 6
-- through groups. The owner may go on.
CREATE TABLE parley_walk (
  duty  smallint   NOT NULL,
  place binary(16) NOT NULL, -- the last id that was looked at
  owner binary(16) NOT NULL, -- a handle on the store
  until bigint     NOT NULL, -- its turn
  PRIMARY KEY CLUSTERED (duty) WITH (ALLOW_PAGE_LOCKS = OFF)
);
ALTER TABLE parley_walk SET (LOCK_ESCALATION = DISABLE);
INSERT INTO parley_walk (duty, place, owner, until) VALUES (5, 0x, 0x, 0), (6, 0x, 0x, 0);

UPDATE parley_meta SET schema_version = 4;
