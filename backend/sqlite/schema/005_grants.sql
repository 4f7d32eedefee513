-- Least privilege. SQLite has no roles: nothing changes.
UPDATE parley_meta SET schema_version = 5;
