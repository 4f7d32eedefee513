package sqlstore

// portableDialogs has those for conversations: endpoints, streams, messages and their
// places in the ready order.
func portableDialogs(s *Statements[string]) {
	s.EndpointInsert = `
		INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
		       contract, queue_id, group_id, priority, lifetime_until, begun)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, :now + ?, :now)`
	s.EndpointRead = `
		SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
		       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
		       c.kind, c.by_peer, c.code, c.description, :now
		  FROM parley_endpoint e
		  LEFT JOIN parley_stream s ON s.stream_id = e.handle
		  LEFT JOIN parley_closing c ON c.handle = e.handle
		 WHERE e.handle = ?
		 ORDER BY c.id`
	s.EndpointsOfGroup = `
		SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
		       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
		       c.kind, c.by_peer, c.code, c.description, :now
		  FROM parley_endpoint e
		  LEFT JOIN parley_stream s ON s.stream_id = e.handle
		  LEFT JOIN parley_closing c ON c.handle = e.handle
		 WHERE e.group_id = ?
		 ORDER BY e.handle, c.id`
	s.EndpointHome = `
		SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, e.closed_at, q.enabled
		  FROM parley_endpoint e
		  JOIN parley_queue q ON q.queue_id = e.queue_id
		 WHERE e.handle = ?`
	s.EndpointClose = `
		UPDATE parley_endpoint SET closed_at = :now WHERE handle = ?`
	s.EndpointFinish = `
		UPDATE parley_endpoint SET finish_at = :now + ? WHERE handle = ?`
	s.EndpointMove = `
		UPDATE parley_endpoint SET group_id = ? WHERE handle = ?`
	s.EndpointDelete = `
		DELETE FROM parley_endpoint WHERE handle = ?`
	s.ClosingInsert = `
		INSERT INTO parley_closing (handle, id, kind, by_peer, code, description)
		VALUES (?, ?, ?, ?, ?, ?)`
	s.ClosingDelete = `
		DELETE FROM parley_closing WHERE handle = ?`

	s.StreamInsert = `
		INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority,
		       next_seq, closed, held, touched)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, :now)`
	s.StreamRead = `
		SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
		       q.enabled,
		       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
		       (SELECT v.catalog_version FROM parley_meta v)
		  FROM parley_stream s
		  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id
		 WHERE s.stream_id = ?`
	s.StreamHome = `
		UPDATE parley_stream SET group_id = ?, queue_id = ?, endpoint = ?, priority = ?
		 WHERE stream_id = ?`
	s.StreamAdvance = `
		UPDATE parley_stream SET next_seq = ?, touched = :now WHERE stream_id = ?`
	s.StreamRank = `
		UPDATE parley_stream SET priority = ? WHERE stream_id = ?`
	s.StreamHold = `
		UPDATE parley_stream SET next_seq = ?, held = 1, touched = :now WHERE stream_id = ?`
	s.StreamUnhold = `
		UPDATE parley_stream SET held = 0 WHERE stream_id = ?`
	s.StreamClose = `
		UPDATE parley_stream SET closed = 1 WHERE stream_id = ?`
	s.StreamSeal = `
		UPDATE parley_stream SET closed = 2 WHERE stream_id = ?`
	s.StreamMove = `
		UPDATE parley_stream SET group_id = ? WHERE stream_id = ?`
	s.StreamDelete = `
		DELETE FROM parley_stream WHERE stream_id = ?`
	s.StreamsOfEndpoint = `
		SELECT stream_id, kind FROM parley_stream
		 WHERE group_id = ? AND endpoint = ? ORDER BY stream_id`
	s.StreamsOfGroup = `
		SELECT stream_id FROM parley_stream WHERE group_id = ? ORDER BY stream_id`

	s.MessageInsert = `
		INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since, uniq)
		VALUES (?, ?, ?, ?, ?, ?, :now, ?)`
	s.MessageDelete = `
		DELETE FROM parley_message WHERE stream_id = ? AND seq = ?`
	s.MessageRead = `
		SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.since, m.uniq,
		       f.attempts, f.suspicion, f.last_error
		  FROM parley_message m
		  LEFT JOIN parley_failure f ON f.message_id = m.message_id
		 WHERE m.stream_id = ? AND m.seq > ?
		 ORDER BY m.seq
		 LIMIT ?`
	// The condition on kind lets the index of keyed posts be used.
	s.MessageFind = `
		SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
		  FROM parley_message m
		  JOIN parley_stream s ON s.stream_id = m.stream_id
		 WHERE m.message_id = ? AND m.kind = 4`
	s.MessageKeys = `
		SELECT seq, message_id FROM parley_message WHERE stream_id = ? ORDER BY seq`
	s.MessageFirst = `
		SELECT seq, since FROM parley_message WHERE stream_id = ? ORDER BY seq LIMIT 1`

	s.MarkerInsert = `
		INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
		VALUES (?, ?, ?, ?, :now)
		ON CONFLICT DO NOTHING`
	s.MarkerDelete = `
		DELETE FROM parley_ready WHERE group_id = ? AND stream_id = ?`
	s.MarkerSince = `
		UPDATE parley_ready SET since = ?
		 WHERE group_id = ? AND stream_id = ? AND since <> ?`
	s.MarkerMove = `
		UPDATE parley_ready SET group_id = ?
		 WHERE group_id = ? AND stream_id = ?`
	s.MarkerRead = `
		SELECT stream_id FROM parley_ready WHERE group_id = ? ORDER BY stream_id`
	s.MarkersAstray = `
		SELECT s.stream_id
		  FROM parley_stream s
		  LEFT JOIN parley_ready r
		    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
		 WHERE s.group_id = ?
		   AND coalesce(r.since, -1) <> (SELECT m.since FROM parley_message m
		                                  WHERE m.stream_id = s.stream_id
		                                  ORDER BY m.seq LIMIT 1)
		 ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id -- as they are received
		 LIMIT 10000`

	s.HeldInsert = `
		INSERT INTO parley_held (stream_id, seq, message_id, kind, type, body, since, status)
		VALUES (?, ?, ?, ?, ?, ?, :now, ?)`
	s.HeldRead = `
		SELECT seq, message_id, kind, type, body, since FROM parley_held
		 WHERE stream_id = ? ORDER BY seq`
	s.HeldMove = `
		UPDATE parley_held SET stream_id = ?, seq = seq + ?, status = ?
		 WHERE stream_id = ? AND type <> ?`
	s.HeldDelete = `
		DELETE FROM parley_held WHERE stream_id = ?`
}
