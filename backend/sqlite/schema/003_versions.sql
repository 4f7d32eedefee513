-- Versions side by side. A program of version n works on the schemas n and n+1, and
-- stops where min_program is greater than n.
ALTER TABLE parley_meta ADD COLUMN min_program INTEGER NOT NULL DEFAULT 0;

-- What definitions of objects there have been, one after another: a digest of each,
-- or an empty one where the object was removed. It tells a new definition from one
-- that was replaced before.
CREATE TABLE parley_definition (
  version INTEGER NOT NULL, -- of the catalog
  n       INTEGER NOT NULL, -- within it
  kind    TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  digest  TEXT    NOT NULL,
  PRIMARY KEY (version, n)
);

UPDATE parley_meta SET schema_version = 3;
