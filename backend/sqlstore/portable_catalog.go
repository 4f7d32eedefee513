package sqlstore

// portableCatalog has the statements for the schema's version and the catalog.
func portableCatalog(s *Statements[string]) {
	s.SchemaVersion = `
		SELECT schema_version, catalog_version FROM parley_meta`
	s.SchemaProgram = `
		SELECT min_program FROM parley_meta`
	s.SchemaAnnounce = `
		UPDATE parley_meta SET min_program = ?, catalog_version = catalog_version + 1`
	s.SchemaLeases = `
		SELECT owner, lease_until - :now FROM parley_grp WHERE lease_until > :now AND held_since <= ?
		 UNION ALL
		SELECT owner, lease_until - :now FROM parley_post WHERE lease_until > :now AND held_since <= ?
		 UNION ALL
		SELECT owner, due - :now FROM parley_task WHERE live = 1 AND state = 1 AND due > :now AND started <= ?`
	s.DefinitionsRead = `
		SELECT kind, name, version, digest FROM parley_definition ORDER BY version, n`
	s.DefinitionInsert = `
		INSERT INTO parley_definition (version, n, kind, name, digest) VALUES (?, ?, ?, ?, ?)`
	s.CatalogVersion = `
		SELECT catalog_version FROM parley_meta`
	s.CatalogBump = `
		UPDATE parley_meta SET catalog_version = catalog_version + 1`
	s.CatalogObjects = `
		SELECT kind, spec FROM parley_object ORDER BY kind, name`
	s.CatalogQueues = `
		SELECT queue_id, name, enabled, retention, keep_processed
		  FROM parley_queue ORDER BY name`
	s.ObjectDelete = `
		DELETE FROM parley_object WHERE kind = ? AND name = ?`
	s.ObjectInsert = `
		INSERT INTO parley_object (kind, name, spec) VALUES (?, ?, ?)`
	s.QueueRead = `
		SELECT v.catalog_version, q.enabled
		  FROM parley_meta v
		  LEFT JOIN parley_queue q ON q.queue_id = ?`
	s.QueueNumber = `
		SELECT coalesce(max(queue_id), 0) + 1 FROM parley_queue`
	s.QueueInsert = `
		INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
		VALUES (?, ?, ?, ?, ?)`
	s.QueueUpdate = `
		UPDATE parley_queue SET enabled = ?, retention = ?, keep_processed = ? WHERE name = ?`
}
