-- Least privilege. Here nothing changes: parley_post_message and the tables have one
-- owner, so that its callers need EXECUTE and no right to any table (ownership chaining),
-- and no user can execute it without having been granted that.
UPDATE parley_meta SET schema_version = 5;
