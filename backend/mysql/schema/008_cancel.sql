-- Requests to cancel what others have in hand. Rows are added and removed, never changed.
CREATE TABLE IF NOT EXISTS parley_cancel (
  id       BINARY(16) NOT NULL, -- of a post or a task
  request  BINARY(16) NOT NULL,
  queue_id BIGINT     NOT NULL, -- of the post; 0: a task
  since    BIGINT     NOT NULL,
  PRIMARY KEY (id, request)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

UPDATE parley_meta SET schema_version = 8 WHERE id = 1;
