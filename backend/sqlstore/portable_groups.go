package sqlstore

// portableGroups has those for groups.
func portableGroups(s *Statements[string]) {
	s.GroupRead = `
		SELECT queue_id, service, name, fence, lease_until, blocked, resweep, :now
		  FROM parley_grp WHERE group_id = ?`
	s.GroupInsert = `
		INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES (?, ?, ?, ?)
		ON CONFLICT DO NOTHING`
	s.GroupLease = `
		UPDATE parley_grp
		   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
		 WHERE group_id = ?`
	s.GroupUnlease = `
		UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id = ?`
	s.GroupReclaimWait = `
		UPDATE parley_grp SET lease_until = 0, owner = ''
		 WHERE group_id = ? AND fence = ? AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v) <= :newest`
	s.GroupExtend = `
		UPDATE parley_grp SET lease_until = :now + ?
		 WHERE group_id = ? AND fence = ? AND lease_until <> 0`
	s.GroupBlock = `
		UPDATE parley_grp
		   SET blocked = ?, blocked_since = :now, blocked_until = :now + ?, reason = ?,
		       resweep = 0 -- Unpark and DutyDeferred look at every stream again
		 WHERE group_id = ?`
	s.GroupUnblock = `
		UPDATE parley_grp SET blocked = 0, blocked_until = 0, reason = '', resweep = ?
		 WHERE group_id = ?`
	// Changes nothing, but meets whoever looked at the group before with a
	// snapshot.
	s.GroupJoin = `
		UPDATE parley_grp SET resweep = resweep WHERE group_id = ?`
	s.GroupDelete = `
		DELETE FROM parley_grp WHERE group_id = ?`
	// What stands in the way of removing a group: endpoints, streams with
	// messages or markers, streams other than the key's own, and delayed posts.
	s.GroupUse = `
		SELECT (SELECT count(*) FROM parley_endpoint e WHERE e.group_id = g.group_id)
		     + (SELECT count(*) FROM parley_stream s
		         WHERE s.group_id = g.group_id AND s.stream_id <> g.group_id)
		     + (SELECT count(*) FROM parley_ready r
		         WHERE r.group_id = g.group_id)
		     + (SELECT count(*) FROM parley_message m WHERE m.stream_id = g.group_id)
		     + (SELECT count(*) FROM parley_delayed d
		         WHERE d.queue_id = g.queue_id AND d.name = g.name AND g.name <> '')
		     + (SELECT count(*) FROM parley_stream s
		         WHERE s.stream_id = g.group_id AND (s.kind <> 3 OR s.touched > :now - 60000000))
		  FROM parley_grp g WHERE g.group_id = ?`
}
