-- Least privilege. Nothing changes here. parley_post_message and the tables have one owner, so its
-- callers need EXECUTE and no right to any table (ownership chaining). No user has EXECUTE without
-- a grant.
UPDATE parley_meta SET schema_version = 5;
