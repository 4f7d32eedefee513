-- Versions side by side. A program of version n works on the schemas n and n+1, and
-- stops where min_program is greater than n.
ALTER TABLE parley_meta ADD min_program int NOT NULL DEFAULT 0;

-- What definitions of objects there have been, one after another: a digest of each,
-- or an empty one where the object was removed. It tells a new definition from one
-- that was replaced before.
CREATE TABLE parley_definition (
  version bigint        NOT NULL, -- of the catalog
  n       int           NOT NULL, -- within it
  kind    nvarchar(16)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  name    nvarchar(256) COLLATE Latin1_General_100_BIN2 NOT NULL,
  digest  nvarchar(64)  COLLATE Latin1_General_100_BIN2 NOT NULL,
  PRIMARY KEY CLUSTERED (version, n) WITH (ALLOW_PAGE_LOCKS = OFF)
);
ALTER TABLE parley_definition SET (LOCK_ESCALATION = DISABLE);

UPDATE parley_meta SET schema_version = 3;
