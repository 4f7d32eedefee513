-- On PostgreSQL, rows for its planner.
UPDATE parley_meta SET schema_version = 11;
