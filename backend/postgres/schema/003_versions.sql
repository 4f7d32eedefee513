-- Versions side by side. A program of version n works on the schemas n and n+1, and
-- stops where min_program is greater than n.
ALTER TABLE parley_meta ADD COLUMN min_program integer NOT NULL DEFAULT 0;

-- What definitions of objects there have been, one after another: a digest of each,
-- or an empty one where the object was removed. It tells a new definition from one
-- that was replaced before.
CREATE TABLE parley_definition (
  version bigint           NOT NULL, -- of the catalog
  n       integer          NOT NULL, -- within it
  kind    text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  digest  text             NOT NULL,
  PRIMARY KEY (version, n)
);

UPDATE parley_meta SET schema_version = 3;
