-- Requests to cancel what others have in hand. Rows are added and removed, never changed.
CREATE TABLE parley_cancel (
  id       binary(16) NOT NULL, -- of a post or a task
  request  binary(16) NOT NULL,
  queue_id bigint     NOT NULL, -- of the post; 0: a task
  since    bigint     NOT NULL,
  PRIMARY KEY CLUSTERED (id, request) WITH (ALLOW_PAGE_LOCKS = OFF)
);
ALTER TABLE parley_cancel SET (LOCK_ESCALATION = DISABLE);

UPDATE parley_meta SET schema_version = 8;
