-- Requests to cancel what others have in hand. Rows are added and removed, never changed.
CREATE TABLE parley_cancel (
  id       BLOB    NOT NULL, -- of a post or a task
  request  BLOB    NOT NULL,
  queue_id INTEGER NOT NULL, -- of the post; 0: a task
  since    INTEGER NOT NULL,
  PRIMARY KEY (id, request)
) WITHOUT ROWID;

UPDATE parley_meta SET schema_version = 8;
