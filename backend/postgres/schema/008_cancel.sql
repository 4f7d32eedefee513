-- Requests to cancel what others have in hand. Rows are added and removed, never changed.
CREATE TABLE IF NOT EXISTS parley_cancel (
  id       uuid   NOT NULL, -- of a post or a task
  request  uuid   NOT NULL,
  queue_id bigint NOT NULL, -- of the post; 0: a task
  since    bigint NOT NULL,
  PRIMARY KEY (id, request)
);

UPDATE parley_meta SET schema_version = 8;
