-- Least privilege. Here nothing changes: parley_post works with the rights of its
-- definer anyway, and no account can execute it without having been granted that.
UPDATE parley_meta SET schema_version = 5 WHERE id = 1;
