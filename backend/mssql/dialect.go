package mssql

import (
	"github.com/parleymq/parley/backend/sqlstore"
)

// now is the engine's clock, in UTC whatever the server's time zone. It is the
// time of the statement, not of the transaction.
const now = `DATEDIFF_BIG(microsecond, '19700101', SYSUTCDATETIME())`

// The statements of this file lock by hints. What the manual says of them
// ("Table hints (Transact-SQL)", and the "Transaction locking and row versioning
// guide"), and what follows:
//
// READPAST: "not read rows that are locked by other transactions". It skips
// only what is locked in a mode that is incompatible with the one asked for: a
// reader does not skip a group that is claimed (U), only one that is changed (X).
// It skips row locks, but waits for page locks: these are off. It "can only be
// specified in transactions operating at the READ COMMITTED or REPEATABLE READ
// isolation levels", hence ErrIsolation.
//
// READCOMMITTEDLOCK: "shared locks as data is read", released "when the read
// operation is completed, regardless of the setting of the
// READ_COMMITTED_SNAPSHOT database option". With that option on, READPAST needs
// it ("include the READCOMMITTEDLOCK table hint"), and without it a look after a
// lock could be at a version from before.
//
// UPDLOCK: "update locks are to be taken and held until the transaction
// completes". Two U are incompatible, U and S are not: a claimed group can be
// read. "When UPDLOCK is specified, the READCOMMITTED and READCOMMITTEDLOCK
// isolation level hints are ignored": in a SERIALIZABLE transaction it would lock
// ranges, which is the other half of ErrIsolation.
//
// XLOCK: "exclusive locks are to be taken and held until the transaction
// completes". Guards are taken with it, and not with U: READPAST would not skip a
// guard that somebody shares.
//
// ROWLOCK: "row locks are taken when page or table locks are ordinarily taken". The
// manual has it in one group with READCOMMITTEDLOCK, of which a table may have one;
// the server takes both.
//
// HOLDLOCK is not used: "equivalent to SERIALIZABLE", a lock of the range between
// two keys, in which every new id falls. Where a share lock is meant to last it
// is REPEATABLEREAD.
//
// READUNCOMMITTED reads a row whatever its locks. It is used for rows that are
// changed in place and of which only what never changes is needed, or what the
// transaction has itself, or a hint where to look: group, stream and endpoint.
//
// NOWAIT: "return a message as soon as a lock is encountered on the table".
//
// MERGE is not used: it is not safe from another inserter without HOLDLOCK. An
// insert that may find its row there catches 2601 and 2627, which leave the
// transaction as it is as long as XACT_ABORT is off. What SET sets in dynamic SQL
// lasts until that returns ("SET statements"), so it is set in the statement and
// nobody else notices.
//
// Rows are not deleted or updated through a common table expression or derived
// table: the lock taken by the inner read would depend on the plan.
//
// Each statement says what it locks: the table, key or range, the mode, how long
// (row: until the row has been read), and whether it waits for others or skips
// their rows. A test holds these lines against the hints, and a model of the lock
// manager runs them.

// statements are all that read, all that lock, and inserts that may find their row
// there. What is not here is package sqlstore's: inserts of new rows, and changes of
// rows by their key, which take U and then X on the row and keep it to the end.
func statements(schema, prefix string) sqlstore.Statements[string] {
	s := sqlstore.Portable()
	s.SchemaExists = `
		SELECT 1 WHERE OBJECT_ID(N'` + schema + prefix + `meta') IS NOT NULL`
	s.SchemaClock = `
		SELECT :now`
	s.SchemaTables = `
		SELECT t.name,
		       CONCAT_WS(', ', CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'SELECT') = 1 THEN NULL ELSE 'SELECT' END,
		                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'INSERT') = 1 THEN NULL ELSE 'INSERT' END,
		                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'UPDATE') = 1 THEN NULL ELSE 'UPDATE' END,
		                       CASE WHEN HAS_PERMS_BY_NAME(n.name, 'OBJECT', 'DELETE') = 1 THEN NULL ELSE 'DELETE' END)
		  FROM sys.tables t
		 CROSS APPLY (SELECT QUOTENAME(SCHEMA_NAME(t.schema_id)) + '.' + QUOTENAME(t.name) AS name) n
		 WHERE t.schema_id = (SELECT m.schema_id FROM sys.tables m WHERE m.object_id = OBJECT_ID(N'` + schema + prefix + `meta'))`
	s.SchemaIndexes = `
		SELECT t.name, i.name, CASE WHEN i.is_disabled = 0 THEN 1 ELSE 0 END
		  FROM sys.tables t
		  JOIN sys.indexes i ON i.object_id = t.object_id
		 WHERE i.name IS NOT NULL
		   AND t.schema_id = (SELECT m.schema_id FROM sys.tables m WHERE m.object_id = OBJECT_ID(N'` + schema + prefix + `meta'))`
	catalogStatements(&s)
	groupStatements(&s)
	dialogStatements(&s)
	postStatements(&s)
	claimStatements(&s)
	dutyStatements(&s)
	readerStatements(&s)
	lockStatements(&s)
	taskStatements(&s)
	workerStatements(&s)
	return s
}

func catalogStatements(s *sqlstore.Statements[string]) {
	// The catalog. Whoever uses it waits for whoever is changing it, for the length of
	// a short transaction, and for nobody who only holds its lock.
	s.SchemaVersion = `
		-- locks meta key S row wait current
		SELECT schema_version, catalog_version FROM parley_meta WITH (READCOMMITTEDLOCK, ROWLOCK)`
	s.SchemaProgram = `
		-- locks meta key S row wait current
		SELECT min_program FROM parley_meta WITH (READCOMMITTEDLOCK, ROWLOCK)`
	s.SchemaLeases = `
		-- locks grp row none row never dirty
		-- locks post row none row never dirty
		-- locks task row none row never dirty
		SELECT owner, lease_until - :now FROM parley_grp WITH (READUNCOMMITTED)
		 WHERE lease_until > :now AND held_since <= @p1
		 UNION ALL
		SELECT owner, lease_until - :now FROM parley_post WITH (READUNCOMMITTED)
		 WHERE lease_until > :now AND held_since <= @p2
		 UNION ALL
		SELECT owner, due - :now FROM parley_task WITH (READUNCOMMITTED)
		 WHERE live = 1 AND state = 1 AND due > :now AND started <= @p3`
	s.DefinitionsRead = `
		-- locks definition key S row wait current
		SELECT kind, name, version, digest FROM parley_definition WITH (READCOMMITTEDLOCK, ROWLOCK) ORDER BY version, n`
	s.CatalogVersion = `
		-- locks meta key S row wait current
		SELECT catalog_version FROM parley_meta WITH (READCOMMITTEDLOCK, ROWLOCK)`
	s.CatalogLock = `
		-- locks meta key U end wait current
		SELECT 1 FROM parley_meta WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK)`
	s.CatalogObjects = `
		-- locks object key S row wait current
		SELECT kind, spec FROM parley_object WITH (READCOMMITTEDLOCK, ROWLOCK) ORDER BY kind, name, bytes`
	s.CatalogQueues = `
		-- locks queue key S row wait current
		SELECT queue_id, name, enabled, retention, keep_processed
		  FROM parley_queue WITH (READCOMMITTEDLOCK, ROWLOCK) ORDER BY name, bytes`
	s.ObjectDelete = `
		-- locks object row X end wait option
		DELETE FROM parley_object WHERE kind = @p1 AND name = @p2 AND bytes = DATALENGTH(@p2)`
	s.ObjectInsert = `
		-- locks object row insert end wait option
		INSERT INTO parley_object (kind, name, bytes, spec) VALUES (@p1, @p2, DATALENGTH(@p2), @p3)`
	s.QueueRead = `
		-- locks meta key S row wait current
		-- locks queue key S row wait current
		SELECT v.catalog_version, q.enabled
		  FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
		  LEFT JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = @p1`
	s.QueueNumber = `
		-- locks queue key S row wait current
		SELECT coalesce(max(queue_id), 0) + 1 FROM parley_queue WITH (READCOMMITTEDLOCK, ROWLOCK)`
	s.QueueInsert = `
		-- locks queue row insert end wait option
		INSERT INTO parley_queue (queue_id, name, bytes, enabled, retention, keep_processed)
		VALUES (@p1, @p2, DATALENGTH(@p2), @p3, @p4, @p5)`
	s.QueueUpdate = `
		-- locks queue row X end wait option
		UPDATE parley_queue SET enabled = @p1, retention = @p2, keep_processed = @p3
		 WHERE name = @p4 AND bytes = DATALENGTH(@p4)`
}

func groupStatements(s *sqlstore.Statements[string]) {
	// Groups. The claim's lock is U on the row: it skips what others have claimed or
	// are changing, and readers of the row do not wait for it. The statement returns
	// nothing but that; the next one looks.
	s.GroupTry = `
		-- locks grp key U end skip current
		SELECT 1 FROM parley_grp WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE group_id = @p1`
	s.GroupFree = `
		-- locks grp key U end skip current
		SELECT 1 FROM parley_grp WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
		 WHERE group_id = @p1 AND lease_until < :now`
	s.GroupInsert = unlessThere(`
		-- locks grp row insert end wait option
		INSERT INTO parley_grp (group_id, queue_id, service, name) VALUES (@p1, @p2, @p3, @p4)`)
	// A group that another transaction is changing is read as that leaves it. Its
	// queue, service and name do not change. Whoever needs the rest has it locked, or
	// only asks whether the fence is still his.
	s.GroupRead = `
		-- locks grp row none row never dirty
		SELECT queue_id, service, name, fence, lease_until, blocked, resweep, :now
		  FROM parley_grp WITH (READUNCOMMITTED) WHERE group_id = @p1`
	// "When specified in an UPDATE statement, READPAST is applied only when reading
	// data to identify which records to update." A row that is locked belongs to
	// somebody who has taken over, or to a heartbeat.
	s.GroupReclaim = `
		-- locks grp key X end skip current
		-- locks meta key S row wait current
		UPDATE parley_grp WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) SET lease_until = 0, owner = N''
		 WHERE group_id = @p1 AND fence = @p2 AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= :newest`
	s.GroupReclaimWait = `
		-- locks grp row X end wait option
		-- locks meta key S row wait current
		UPDATE parley_grp SET lease_until = 0, owner = N''
		 WHERE group_id = @p1 AND fence = @p2 AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= :newest`
	s.GroupDue = `
		-- locks grp row none row never dirty
		SELECT 1 FROM parley_grp WITH (READUNCOMMITTED)
		 WHERE group_id = @p1 AND (blocked = 1 AND blocked_until <= :now OR blocked = 0 AND resweep = 1)`
	s.GroupUse = `
		-- locks endpoint row none row never dirty
		-- locks stream.by_group row none row never dirty
		-- locks ready row none row never dirty
		-- locks message row none row never dirty
		-- locks delayed row none row never dirty
		-- locks stream row none row never dirty
		-- locks grp row none row never dirty
		SELECT (SELECT count(*) FROM parley_endpoint e WITH (READUNCOMMITTED) WHERE e.group_id = g.group_id)
		     + (SELECT count(*) FROM parley_stream s WITH (INDEX(by_group), READUNCOMMITTED)
		         WHERE s.group_id = g.group_id AND s.stream_id <> g.group_id)
		     + (SELECT count(*) FROM parley_ready r WITH (READUNCOMMITTED) WHERE r.group_id = g.group_id)
		     + (SELECT count(*) FROM parley_message m WITH (READUNCOMMITTED) WHERE m.stream_id = g.group_id)
		     + (SELECT count(*) FROM parley_delayed d WITH (READUNCOMMITTED)
		         WHERE d.queue_id = g.queue_id AND d.name = g.name
		           AND DATALENGTH(d.name) = DATALENGTH(g.name) AND g.name <> N'')
		     + (SELECT count(*) FROM parley_stream s WITH (READUNCOMMITTED)
		         WHERE s.stream_id = g.group_id AND (s.kind <> 3 OR s.touched > :now - 60000000))
		  FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = @p1`
}

func dialogStatements(s *sqlstore.Statements[string]) {
	// Endpoints. Whether a side has ended is asked of the row as it is committed: one
	// that is locked is being ended or moved, and has not ended yet for us.
	s.EndpointInsert = `
		-- locks endpoint row insert end wait option
		INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
		       contract, queue_id, group_id, priority, lifetime_until, begun)
		VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, @p9, @p10, :now + CONVERT(bigint, @p11), :now)`
	s.EndpointRead = `
		-- locks endpoint row none row never dirty
		-- locks endpoint key S row skip current
		-- locks stream row none row never dirty
		-- locks closing key S row skip current
		SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
		       e.group_id, e.priority, e.lifetime_until, x.closed_at, s.next_seq, s.closed,
		       c.kind, c.by_peer, c.code, c.description, :now
		  FROM parley_endpoint e WITH (READUNCOMMITTED)
		  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
		  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
		  LEFT JOIN parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON c.handle = e.handle
		 WHERE e.handle = @p1
		 ORDER BY c.id`
	s.EndpointsOfGroup = `
		-- locks endpoint row none row never dirty
		-- locks endpoint key S row skip current
		-- locks stream row none row never dirty
		-- locks closing key S row skip current
		SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
		       e.group_id, e.priority, e.lifetime_until, x.closed_at, s.next_seq, s.closed,
		       c.kind, c.by_peer, c.code, c.description, :now
		  FROM parley_endpoint e WITH (READUNCOMMITTED)
		  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
		  LEFT JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = e.handle
		  LEFT JOIN parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON c.handle = e.handle
		 WHERE e.group_id = @p1
		 ORDER BY e.handle, c.id`
	s.EndpointHome = `
		-- locks endpoint row none row never dirty
		-- locks endpoint key S row skip current
		-- locks queue key S row wait current
		SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, x.closed_at, q.enabled
		  FROM parley_endpoint e WITH (READUNCOMMITTED)
		  LEFT JOIN parley_endpoint x WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON x.handle = e.handle
		  JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = e.queue_id
		 WHERE e.handle = @p1`

	// Streams. The guard is X on the row. Who waits for it is another sender of the
	// same stream; who tries it skips it, and comes again.
	s.GuardLock = `
		-- locks stream key X end wait current
		SELECT 1 FROM parley_stream WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK) WHERE stream_id = @p1`
	s.GuardTry = `
		-- locks stream key X end skip current
		SELECT 1 FROM parley_stream WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST) WHERE stream_id = @p1`
	// Closings are only added: what is skipped is not yet committed.
	s.StreamRead = `
		-- locks closing key S row skip current
		-- locks meta key S row wait current
		-- locks stream row none row never dirty
		-- locks queue key S row wait current
		SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
		       q.enabled,
		       (SELECT count(*) FROM parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE c.handle = s.stream_id),
		       (SELECT v.catalog_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK))
		  FROM parley_stream s WITH (READUNCOMMITTED)
		  LEFT JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = s.queue_id
		 WHERE s.stream_id = @p1`
	// The streams of a group are listed by the index, whose rows senders do not lock.
	// What is skipped there is being made or removed. With the table's own rows a
	// sender's would be skipped too, and its stream be forgotten.
	s.StreamsOfEndpoint = `
		-- locks stream.by_group key S row skip current
		SELECT stream_id, kind FROM parley_stream WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE group_id = @p1 AND endpoint = @p2 ORDER BY stream_id`
	s.StreamsOfGroup = `
		-- locks stream.by_group key S row skip current
		SELECT stream_id FROM parley_stream WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE group_id = @p1 ORDER BY stream_id`

	// Messages. Those of a sender in flight are skipped, or receivers would wait for
	// the sender. But a scan is not one instant: it can skip a message, whose sender then
	// commits, and meet the next one, of another sender, committed as well. So the
	// first statement finds the last message that can be seen, by which time all before
	// it are committed, and the second reads no further. The second does not skip: a
	// commit releases its locks one by one, so that of the guard may be free, and the
	// next sender be done, while that of the message is still there. It waits until it is
	// released. What is known of failed attempts is written by transactions that have had
	// the group, and read in the same way.
	s.MessageRead = `
		-- locks message key S row skip current
		-- locks message key S row wait current
		-- locks failure key S row wait current
		DECLARE @last bigint = (
		  SELECT max(m.seq) FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) WHERE m.stream_id = @p1);
		SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.since, m.uniq,
		       f.attempts, f.suspicion, f.last_error
		  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK)
		  LEFT JOIN parley_failure f WITH (READCOMMITTEDLOCK, ROWLOCK) ON f.message_id = m.message_id
		 WHERE m.stream_id = @p1 AND m.seq > @p2 AND m.seq <= @last
		 ORDER BY m.seq OFFSET 0 ROWS FETCH NEXT @p3 ROWS ONLY`
	s.MessageFind = `
		-- locks message key S row skip current
		-- locks stream row none row never dirty
		SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
		  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
		 WHERE m.message_id = @p1 AND m.kind = 4`
	s.MessageKeys = `
		-- locks message key S row skip current
		SELECT seq, message_id FROM parley_message WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE stream_id = @p1 ORDER BY seq`
	// Whether a stream is empty. It is asked with the guard, so that no sender is in
	// flight, but not always with the group: a message that is locked is being removed
	// by a receiver, who may yet roll back. To skip it would be to lose it, and to wait
	// would make senders wait, as the guard is ours. It counts as there.
	s.MessageFirst = `
		-- locks message key S row fail current
		SET XACT_ABORT OFF;
		DECLARE @seq bigint, @since bigint;
		BEGIN TRY
		  SELECT TOP (1) @seq = seq, @since = since FROM parley_message WITH (READCOMMITTEDLOCK, ROWLOCK, NOWAIT)
		   WHERE stream_id = @p1 ORDER BY seq;
		END TRY
		BEGIN CATCH
		  IF ERROR_NUMBER() <> 1222 THROW;
		  SELECT @seq = 0, @since = :now;
		END CATCH;
		SELECT @seq, @since WHERE @seq IS NOT NULL`

	// The ready order. The guard is ours, so nobody else can insert the same marker.
	s.MarkerInsert = `
		-- locks ready row insert end wait option
		-- locks ready key S row wait current
		INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
		SELECT @p1, @p2, @p3, @p4, :now
		 WHERE NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
		                    WHERE r.group_id = @p2 AND r.stream_id = @p3)`
	s.MarkerRead = `
		-- locks ready key S row skip current
		SELECT stream_id FROM parley_ready WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE group_id = @p1 ORDER BY stream_id`
	s.MarkersAstray = `
		-- locks stream.by_group key S row skip current
		-- locks ready key S row skip current
		-- locks stream row none row never dirty
		-- locks message key S row skip current
		SELECT TOP (10000) s.stream_id
		  FROM parley_stream s WITH (INDEX(by_group), READCOMMITTEDLOCK, ROWLOCK, READPAST)
		  LEFT JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
		  LEFT JOIN parley_stream x WITH (READUNCOMMITTED) ON x.stream_id = s.stream_id
		 WHERE s.group_id = @p1
		   AND coalesce(r.since, -1) <> (SELECT TOP (1) m.since
		                                   FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                                  WHERE m.stream_id = s.stream_id
		                                  ORDER BY m.seq)
		 ORDER BY x.priority DESC, s.endpoint, s.kind, s.stream_id`

	s.HeldRead = `
		-- locks held key S row skip current
		SELECT seq, message_id, kind, type, body, since
		  FROM parley_held WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE stream_id = @p1 ORDER BY seq`
}

func postStatements(s *sqlstore.Statements[string]) {
	// Keys. Of two who make one at once the second does not see it, and waits in the
	// insert.
	s.KeyRead = `
		-- locks key key S row skip current
		SELECT stream_id FROM parley_key WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE queue_id = @p1 AND name = @p2 AND bytes = DATALENGTH(@p2)`
	s.KeyInsert = unlessThere(`
		-- locks key row insert end wait option
		INSERT INTO parley_key (queue_id, name, bytes, stream_id) VALUES (@p1, @p2, DATALENGTH(@p2), @p3)`)
	s.KeyDelete = `
		-- locks key row X end wait option
		DELETE FROM parley_key WHERE queue_id = @p1 AND name = @p2 AND bytes = DATALENGTH(@p2)`

	// Posts without key: the row is group, stream and message in one, so its lock is
	// the claim's.
	s.PostTry = `
		-- locks post key U end skip current
		SELECT 1 FROM parley_post WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE post_id = @p1`
	s.PostFree = `
		-- locks post key U end skip current
		SELECT 1 FROM parley_post WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
		 WHERE post_id = @p1 AND lease_until < :now`
	s.PostOne = `
		-- locks post row insert end wait option
		-- locks queue key S row wait current
		-- locks meta key S row wait current
		INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
		SELECT @p1, q.queue_id, @p2, :now, @p3, CONVERT(varbinary(max), @p4)
		  FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
		 CROSS JOIN parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
		 WHERE q.queue_id = @p5 AND q.enabled = 1 AND v.catalog_version = @p6`
	s.PostRead = `
		-- locks post row none row never dirty
		SELECT post_id, queue_id, priority, since, type, body, uniq, attempts, suspicion,
		       last_error, fence, lease_until, blocked, :now
		  FROM parley_post WITH (READUNCOMMITTED) WHERE post_id = @p1`
	s.PostReclaim = `
		-- locks post key X end skip current
		-- locks meta key S row wait current
		UPDATE parley_post WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) SET lease_until = 0, owner = N''
		 WHERE post_id = @p1 AND fence = @p2 AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= :newest`
	s.PostReclaimWait = `
		-- locks post row X end wait option
		-- locks meta key S row wait current
		UPDATE parley_post SET lease_until = 0, owner = N''
		 WHERE post_id = @p1 AND fence = @p2 AND lease_until <> 0
		   AND (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)) <= :newest`
	s.DelayedTry = `
		-- locks delayed key U end skip current
		SELECT 1 FROM parley_delayed WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE post_id = @p1`
	s.DelayedRead = `
		-- locks delayed row none row never dirty
		SELECT queue_id, name, priority, type, body, uniq, due, :now
		  FROM parley_delayed WITH (READUNCOMMITTED) WHERE post_id = @p1`
	s.UniqueRead = `
		-- locks uniq key S row skip current
		SELECT post_id FROM parley_uniq WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE queue_id = @p1 AND value = @p2 AND bytes = DATALENGTH(@p2)`
	s.UniqueInsert = unlessThere(`
		-- locks uniq row insert end wait option
		INSERT INTO parley_uniq (queue_id, value, bytes, post_id) VALUES (@p1, @p2, DATALENGTH(@p2), @p3)`)
	s.UniqueDelete = `
		-- locks uniq row X end wait option
		DELETE FROM parley_uniq WHERE queue_id = @p1 AND value = @p2 AND bytes = DATALENGTH(@p2)`
	s.HeadPost = `
		-- locks post.by_order key S row skip current
		SELECT TOP (1) post_id, priority, since
		  FROM parley_post WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE queue_id = @p1 AND blocked = 0 AND lease_until < :now
		 ORDER BY priority DESC, since`
}

func claimStatements(s *sqlstore.Statements[string]) {
	// Whether a claim that returned nothing should look again soon. Rows that others
	// have locked count.
	s.Waiting = `
		-- locks ready row none row never dirty
		-- locks grp row none row never dirty
		-- locks post row none row never dirty
		SELECT 1
		 WHERE EXISTS (SELECT 1
		                 FROM parley_ready r WITH (READUNCOMMITTED)
		                 JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
		                WHERE r.queue_id = @p1 AND g.blocked = 0)
		    OR EXISTS (SELECT 1 FROM parley_post p WITH (READUNCOMMITTED)
		                WHERE p.queue_id = @p2 AND p.blocked = 0)`
	s.GroupVisible = `
		-- locks ready key S row skip current
		-- locks message key S row skip current
		SELECT TOP (1) 1
		  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE r.group_id = @p1
		   AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                WHERE m.stream_id = r.stream_id)`
	// The group is ours, so its endpoints are nobody else's to change.
	s.GroupStreams = `
		-- locks ready key S row skip current
		-- locks stream row none row never dirty
		-- locks endpoint row none row never dirty
		SELECT r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation,
		       e.initiator, e.service, e.far, e.contract, e.closed_at
		  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = r.stream_id
		  LEFT JOIN parley_endpoint e WITH (READUNCOMMITTED) ON e.handle = s.endpoint
		 WHERE r.group_id = @p1
		 ORDER BY r.priority DESC, s.endpoint, s.kind, s.stream_id`

	s.FailurePut = `
		-- locks failure row X end wait option
		-- locks failure row insert end wait option
		UPDATE parley_failure SET attempts = @p2, suspicion = @p3, last_error = @p4 WHERE message_id = @p1;
		IF @@ROWCOUNT = 0
		  INSERT INTO parley_failure (message_id, attempts, suspicion, last_error) VALUES (@p1, @p2, @p3, @p4)`
	s.RetainedInsert = `
		-- locks retained row insert end wait option
		INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, since, kept)
		VALUES (@p1, @p2, @p3, @p4, @p5, @p6, @p7, @p8, coalesce(CONVERT(bigint, @p9), :now), :now)`

	// Promotions. One that is being replaced is skipped: it stays, as its version
	// will be another.
	s.PromotionPut = `
		-- locks promotion row X end wait option
		-- locks promotion row insert end wait option
		SET XACT_ABORT OFF;
		DECLARE @now bigint = :now;
		UPDATE parley_promotion
		   SET level = @p3, since = @now, sticky = @p4,
		       version = CASE WHEN version >= @now THEN version + 1 ELSE @now END
		 WHERE group_id = @p1;
		IF @@ROWCOUNT = 0
		BEGIN
		  BEGIN TRY
		    INSERT INTO parley_promotion (group_id, queue_id, level, since, version, sticky)
		    VALUES (@p1, @p2, @p3, @now, @now, @p4);
		  END TRY
		  BEGIN CATCH
		    IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
		    UPDATE parley_promotion
		       SET level = @p3, since = @now, sticky = @p4,
		           version = CASE WHEN version >= @now THEN version + 1 ELSE @now END
		     WHERE group_id = @p1;
		  END CATCH
		END`
	s.PromotionTry = `
		-- locks promotion key U end skip current
		SELECT 1 FROM parley_promotion WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
		 WHERE group_id = @p1 AND version = @p2`
	s.PromotionRead = `
		-- locks promotion key S row skip current
		SELECT level, version, sticky FROM parley_promotion WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE group_id = @p1`

	s.TimerPut = `
		-- locks timer row X end wait option
		-- locks timer row insert end wait option
		SET XACT_ABORT OFF;
		UPDATE parley_timer SET due = :now + @p3, queue_id = @p4 WHERE handle = @p1 AND kind = @p2;
		IF @@ROWCOUNT = 0
		BEGIN
		  BEGIN TRY
		    INSERT INTO parley_timer (handle, kind, due, queue_id) VALUES (@p1, @p2, :now + @p3, @p4);
		  END TRY
		  BEGIN CATCH
		    IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
		    UPDATE parley_timer SET due = :now + @p3, queue_id = @p4 WHERE handle = @p1 AND kind = @p2;
		  END CATCH
		END`
	s.TimerTry = `
		-- locks timer key U end skip current
		SELECT 1 FROM parley_timer WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
		 WHERE handle = @p1 AND kind = @p2`
	s.OnceInsert = unlessThere(`
		-- locks once row insert end wait option
		INSERT INTO parley_once (name, bytes, keep_until) VALUES (@p1, DATALENGTH(@p1), :now + @p2)`)
}

func dutyStatements(s *sqlstore.Statements[string]) {
	// Duties skip what is locked and come again.
	s.DueDelayed = `
		-- locks delayed row none row never dirty
		-- locks queue key S row wait current
		SELECT TOP (100) d.post_id, d.due, d.name
		  FROM parley_delayed d WITH (READUNCOMMITTED)
		 WHERE d.queue_id = @p1
		   AND (SELECT q.enabled FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.queue_id = @p2) = 1
		   AND d.due <= :now AND d.due >= @p3 AND (d.due > @p4 OR d.post_id > @p5)
		 ORDER BY d.due, d.post_id`
	s.DueTimers = `
		-- locks timer row none row never dirty
		-- locks queue key S row wait current
		SELECT TOP (100) t.handle, t.due, N''
		  FROM parley_timer t WITH (READUNCOMMITTED)
		 WHERE t.kind = @p1 AND t.queue_id = @p2
		   AND coalesce((SELECT q.enabled FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.queue_id = @p3), 1) = 1
		   AND t.due <= :now AND t.due >= @p4 AND (t.due > @p5 OR t.handle > @p6)
		 ORDER BY t.due, t.handle`
	s.DelayedFirsts = `
		-- locks delayed row none row never dirty
		-- locks queue key S row wait current
		SELECT q.queue_id,
		       (SELECT TOP (1) d.due FROM parley_delayed d WITH (READUNCOMMITTED)
		         WHERE d.queue_id = q.queue_id ORDER BY d.due) - :now
		  FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
		 WHERE q.enabled = 1`
	s.TimerFirsts = `
		-- locks timer row none row never dirty
		-- locks queue key S row wait current
		SELECT f.queue_id,
		       (SELECT TOP (1) t.due FROM parley_timer t WITH (READUNCOMMITTED)
		         WHERE t.kind = @p1 AND t.queue_id = f.queue_id ORDER BY t.due) - :now
		  FROM (SELECT q.queue_id FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.enabled = 1
		         UNION ALL
		        SELECT 0) f`
	s.DueGroups = `
		-- locks grp row none row never dirty
		SELECT TOP (@p1) x.group_id
		  FROM (SELECT group_id FROM parley_grp WITH (READUNCOMMITTED) WHERE resweep = 1
		         UNION ALL
		        SELECT group_id FROM parley_grp WITH (READUNCOMMITTED)
		         WHERE blocked = 1 AND blocked <> 0 AND blocked_until <= :now AND resweep = 0) x`
	s.NextGroup = `
		-- locks grp row none row never dirty
		SELECT TOP (1) blocked_until - :now FROM parley_grp WITH (READUNCOMMITTED)
		 WHERE blocked = 1 AND blocked <> 0 ORDER BY blocked_until`
	s.DuePosts = `
		-- locks post row none row never dirty
		SELECT TOP (100) post_id, blocked_until, N'' FROM parley_post WITH (READUNCOMMITTED)
		 WHERE blocked = 1 AND blocked_until <= :now AND blocked_until >= @p1 AND (blocked_until > @p2 OR post_id > @p3)
		 ORDER BY blocked_until, post_id`
	s.NextPost = `
		-- locks post row none row never dirty
		SELECT TOP (1) 0, blocked_until - :now FROM parley_post WITH (READUNCOMMITTED)
		 WHERE blocked = 1 ORDER BY blocked_until`
	s.DueProcessed = `
		-- locks processed key S row skip current
		SELECT TOP (@p1) post_id FROM parley_processed WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE keep_until <= :now ORDER BY keep_until`
	s.OnceDue = `
		-- locks once key S row skip current
		SELECT TOP (@p1) name FROM parley_once WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE keep_until <= :now ORDER BY keep_until`
	s.OnceDelete = `
		-- locks once key X end wait option
		DELETE FROM parley_once WITH (ROWLOCK)
		 WHERE name = @p1 AND bytes = DATALENGTH(@p1) AND keep_until <= :now`
	s.NextProcessed = `
		-- locks processed key S row skip current
		SELECT TOP (1) keep_until - :now FROM parley_processed WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 ORDER BY keep_until`
	s.NextFinished = `
		-- locks endpoint key S row skip current
		SELECT TOP (1) finish_at - :now FROM parley_endpoint WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE finish_at IS NOT NULL ORDER BY finish_at`
	s.ReadyQueues = `
		-- locks queue key S row wait current
		-- locks ready key S row skip current
		SELECT q.queue_id FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
		 WHERE EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                WHERE r.queue_id = q.queue_id)`
	s.Stale = `
		-- locks ready.by_order key S row skip current
		-- locks grp row none row never dirty
		-- locks message key S row skip current
		SELECT r.stream_id, r.group_id, g.blocked
		  FROM (SELECT TOP (1000) x.stream_id, x.group_id
		          FROM parley_ready x WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE x.queue_id = @p1
		         ORDER BY x.priority DESC, x.since) r
		  LEFT JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
		 WHERE coalesce(g.blocked, 1) <> 0
		    OR NOT EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                    WHERE m.stream_id = r.stream_id)`
	s.FinishedEndpoints = `
		-- locks endpoint key S row skip current
		SELECT TOP (@p1) handle FROM parley_endpoint WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE finish_at <= :now AND finish_at IS NOT NULL ORDER BY finish_at`
	s.EndpointsAfter = `
		-- locks stream row none row never dirty
		-- locks endpoint row none row never dirty
		SELECT e.handle,
		       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
		             AND (p.handle IS NULL AND NOT EXISTS (
		                    SELECT 1 FROM parley_stream s WITH (READUNCOMMITTED)
		                     WHERE s.stream_id = e.handle AND s.held = 1)
		                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
		  FROM parley_endpoint e WITH (READUNCOMMITTED)
		  LEFT JOIN parley_endpoint p WITH (READUNCOMMITTED) ON p.handle = e.peer
		 WHERE e.handle > @p1 AND e.queue_id > 0
		 ORDER BY e.handle OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY`
	s.GroupsAfter = `
		-- locks endpoint row none row never dirty
		-- locks stream row none row never dirty
		-- locks ready row none row never dirty
		-- locks grp row none row never dirty
		SELECT g.group_id,
		       CASE WHEN NOT EXISTS (SELECT 1 FROM parley_endpoint e WITH (READUNCOMMITTED)
		                              WHERE e.group_id = g.group_id)
		             AND NOT EXISTS (SELECT 1 FROM parley_stream s WITH (READUNCOMMITTED)
		                              WHERE s.group_id = g.group_id
		                                AND (s.kind <> 3 OR s.touched > :now - 60000000))
		             AND NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READUNCOMMITTED)
		                              WHERE r.group_id = g.group_id)
		            THEN 1 ELSE 0 END
		  FROM parley_grp g WITH (READUNCOMMITTED)
		 WHERE g.group_id > @p1 AND g.queue_id > 0
		 ORDER BY g.group_id OFFSET 0 ROWS FETCH NEXT @p2 ROWS ONLY`
	s.WalkPlace = `
		-- locks walk key S row wait current
		SELECT place FROM parley_walk WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE duty = @p1`
	s.LostPromotions = `
		-- locks promotion key S row skip current
		-- locks grp row none row never dirty
		-- locks post row none row never dirty
		-- locks delayed row none row never dirty
		SELECT TOP (@p1) p.group_id FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE p.queue_id > 0
		   AND NOT EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = p.group_id)
		   AND NOT EXISTS (SELECT 1 FROM parley_post o WITH (READUNCOMMITTED) WHERE o.post_id = p.group_id)
		   AND NOT EXISTS (SELECT 1 FROM parley_delayed d WITH (READUNCOMMITTED) WHERE d.post_id = p.group_id)`
}

func readerStatements(s *sqlstore.Statements[string]) {
	// For operators. Rows that are added and removed are shown as committed, without
	// those that somebody is changing; those that are changed in place, groups above all,
	// as their transactions leave them. Nobody waits for anybody.
	s.QueueStatus = `
		-- locks ready key S row skip current
		-- locks message key S row skip current
		-- locks post key S row skip current
		-- locks delayed key S row skip current
		-- locks grp row none row never dirty
		-- locks post row none row never dirty
		-- locks stream row none row never dirty
		-- locks held key S row skip current
		-- locks queue key S row wait current
		SELECT q.queue_id, q.name, q.enabled,
		       (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one
		                                FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                                JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                                  ON m.stream_id = r.stream_id
		                               WHERE r.queue_id = q.queue_id) x)
		     + (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one
		                                FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                               WHERE p.queue_id = q.queue_id AND p.blocked = 0) x),
		       (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one
		                                FROM parley_delayed d WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                               WHERE d.queue_id = q.queue_id) x),
		       (SELECT count(*) FROM (SELECT DISTINCT r.group_id
		                                FROM (SELECT TOP (10000) y.group_id
		                                        FROM parley_ready y WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                                       WHERE y.queue_id = q.queue_id
		                                       ORDER BY y.priority DESC, y.since) r
		                                JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
		                               WHERE g.lease_until > :now) x)
		     + (SELECT count(*) FROM (SELECT TOP (10000) y.lease_until
		                                FROM parley_post y WITH (READUNCOMMITTED)
		                               WHERE y.queue_id = q.queue_id AND y.blocked = 0
		                               ORDER BY y.priority DESC, y.since) p
		         WHERE p.lease_until > :now),
		       (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_grp g WITH (READUNCOMMITTED)
		                               WHERE g.blocked = 1 AND g.queue_id = q.queue_id AND g.blocked <> 0) x)
		     + (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_post p WITH (READUNCOMMITTED)
		                               WHERE p.blocked = 1 AND p.queue_id = q.queue_id AND p.blocked <> 0) x),
		       (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_grp g WITH (READUNCOMMITTED)
		                               WHERE g.blocked = 2 AND g.queue_id = q.queue_id AND g.blocked <> 0) x)
		     + (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one FROM parley_post p WITH (READUNCOMMITTED)
		                               WHERE p.blocked = 2 AND p.queue_id = q.queue_id AND p.blocked <> 0) x),
		       (SELECT count(*) FROM (SELECT TOP (10000) 1 AS one
		                                FROM parley_stream s WITH (READUNCOMMITTED)
		                                JOIN parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                                  ON h.stream_id = s.stream_id
		                               WHERE s.held = 1 AND s.queue_id = q.queue_id) x),
		       (SELECT TOP (1) r.priority FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE r.queue_id = q.queue_id
		           AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                        WHERE m.stream_id = r.stream_id)
		         ORDER BY r.priority DESC, r.since),
		       (SELECT TOP (1) r.since FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE r.queue_id = q.queue_id
		           AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                        WHERE m.stream_id = r.stream_id)
		         ORDER BY r.priority DESC, r.since),
		       (SELECT TOP (1) p.priority FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE p.queue_id = q.queue_id AND p.blocked = 0
		         ORDER BY p.priority DESC, p.since),
		       (SELECT TOP (1) p.since FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE p.queue_id = q.queue_id AND p.blocked = 0
		         ORDER BY p.priority DESC, p.since),
		       :now
		  FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK)
		 WHERE q.queue_id BETWEEN @p1 AND @p2
		 ORDER BY q.name`
	s.ListPromotions = `
		-- locks endpoint row none row never dirty
		-- locks stream row none row never dirty
		-- locks post row none row never dirty
		-- locks delayed row none row never dirty
		-- locks promotion key S row skip current
		SELECT TOP (@p1) p.group_id, p.queue_id, p.level, p.sticky,
		       CASE WHEN EXISTS (SELECT 1 FROM parley_endpoint e WITH (READUNCOMMITTED)
		                          WHERE e.group_id = p.group_id AND e.closed_at IS NULL)
		              OR EXISTS (SELECT 1 FROM parley_stream s WITH (READUNCOMMITTED)
		                          WHERE s.stream_id = p.group_id AND s.kind = 3)
		              OR EXISTS (SELECT 1 FROM parley_post o WITH (READUNCOMMITTED) WHERE o.post_id = p.group_id)
		              OR EXISTS (SELECT 1 FROM parley_delayed d WITH (READUNCOMMITTED) WHERE d.post_id = p.group_id)
		            THEN 0 ELSE 1 END
		  FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE p.queue_id > 0
		 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id`
	s.ListPromoted = `
		-- locks grp row none row never dirty
		-- locks promotion key S row skip current
		-- locks ready key S row skip current
		-- locks message key S row skip current
		-- locks post row none row never dirty
		SELECT TOP (@p4) p.group_id, p.level, p.sticky,
		       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = p.group_id)
		            THEN 0 ELSE 1 END
		  FROM parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE p.queue_id = @p1
		   AND (EXISTS (SELECT 1
		                  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
		                  JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = r.stream_id
		                 WHERE r.group_id = p.group_id AND g.blocked = 0
		                   AND (g.lease_until < :now OR @p2 = 0))
		     OR EXISTS (SELECT 1 FROM parley_post o WITH (READUNCOMMITTED)
		                 WHERE o.post_id = p.group_id AND o.blocked = 0
		                   AND (o.lease_until < :now OR @p3 = 0)))
		 ORDER BY p.level DESC, p.since, p.group_id`
	s.ListReady = `
		-- locks ready key S row skip current
		-- locks grp row none row never dirty
		-- locks message key S row skip current
		SELECT TOP (@p3) r.group_id, r.priority, r.since
		  FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
		 WHERE r.queue_id = @p1 AND g.blocked = 0 AND (g.lease_until < :now OR @p2 = 0)
		   AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                WHERE m.stream_id = r.stream_id)
		 ORDER BY r.priority DESC, r.since`
	s.ListPosts = `
		-- locks post key S row skip current
		SELECT TOP (@p3) post_id, priority, since
		  FROM parley_post WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE queue_id = @p1 AND blocked = 0 AND (lease_until < :now OR @p2 = 0)
		 ORDER BY priority DESC, since`
	s.ListBlocked = `
		-- locks grp row none row never dirty
		SELECT TOP (@p2) group_id, blocked_since FROM parley_grp WITH (READUNCOMMITTED)
		 WHERE queue_id = @p1 AND blocked <> 0
		 ORDER BY blocked_since, group_id`
	s.ListBlockedPosts = `
		-- locks post row none row never dirty
		SELECT TOP (@p2) post_id, blocked_since FROM parley_post WITH (READUNCOMMITTED)
		 WHERE queue_id = @p1 AND blocked <> 0
		 ORDER BY blocked_since, post_id`
	s.GroupDetail = `
		-- locks ready key S row skip current
		-- locks grp row none row never dirty
		-- locks promotion key S row skip current
		SELECT g.service, g.name, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
		       g.blocked_until, g.reason, :now, p.level, p.sticky,
		       (SELECT max(r.priority) FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE r.group_id = g.group_id)
		  FROM parley_grp g WITH (READUNCOMMITTED)
		  LEFT JOIN parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.group_id = g.group_id
		 WHERE g.group_id = @p1`
	s.PostDetail = `
		-- locks post row none row never dirty
		-- locks promotion key S row skip current
		SELECT o.lease_until, o.held_since, o.owner, o.blocked, o.blocked_since, o.blocked_until,
		       o.reason, :now, p.level, p.sticky, o.priority, o.since
		  FROM parley_post o WITH (READUNCOMMITTED)
		  LEFT JOIN parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.group_id = o.post_id
		 WHERE o.post_id = @p1`
	s.GroupCount = `
		-- locks stream row none row never dirty
		-- locks message key S row skip current
		SELECT count(*), min(x.since)
		  FROM (SELECT TOP (10000) m.since
		          FROM parley_stream s WITH (READUNCOMMITTED)
		          JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = s.stream_id
		         WHERE s.group_id = @p1) x`
	s.ListConversations = `
		-- locks endpoint row none row never dirty
		SELECT TOP (@p2) handle, conversation FROM parley_endpoint WITH (READUNCOMMITTED)
		 WHERE conversation > @p1 AND queue_id > 0
		 ORDER BY conversation, initiator DESC`
	s.ListConversation = `
		-- locks endpoint row none row never dirty
		SELECT TOP (@p3) e.handle, e.conversation
		  FROM parley_endpoint e WITH (READUNCOMMITTED)
		  JOIN parley_endpoint x WITH (READUNCOMMITTED) ON x.conversation = e.conversation
		 WHERE x.handle = @p1 AND e.conversation > @p2
		 ORDER BY e.conversation, e.initiator DESC`
	s.ListConversationsOfGroup = `
		-- locks endpoint row none row never dirty
		SELECT TOP (@p3) handle, conversation FROM parley_endpoint WITH (READUNCOMMITTED)
		 WHERE group_id = @p1 AND conversation > @p2
		 ORDER BY conversation, initiator DESC`
	s.ConversationCounts = `
		-- locks timer key S row skip current
		-- locks stream row none row never dirty
		-- locks message key S row skip current
		-- locks held key S row skip current
		-- locks endpoint row none row never dirty
		SELECT e.begun, :now,
		       (SELECT t.due FROM parley_timer t WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE t.handle = e.handle AND t.kind = 0),
		       (SELECT count(*)
		          FROM (SELECT TOP (10000) 1 AS one
		                  FROM parley_stream s WITH (READUNCOMMITTED)
		                  JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON m.stream_id = s.stream_id
		                 WHERE s.group_id = e.group_id AND s.endpoint = e.handle) x),
		       (SELECT count(*)
		          FROM (SELECT TOP (10000) 1 AS one FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                 WHERE h.stream_id = e.handle) x),
		       (SELECT TOP (1) h.status FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE h.stream_id = e.handle ORDER BY h.seq)
		  FROM parley_endpoint e WITH (READUNCOMMITTED)
		 WHERE e.handle = @p1`
	s.ListWithheld = `
		-- locks held key S row skip current
		-- locks stream key S row skip current
		SELECT TOP (@p1) s.stream_id,
		       (SELECT count(*)
		          FROM (SELECT TOP (10000) 1 AS one FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                 WHERE h.stream_id = s.stream_id) x),
		       (SELECT TOP (1) h.status FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE h.stream_id = s.stream_id ORDER BY h.seq),
		       (SELECT TOP (1) h.since FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		         WHERE h.stream_id = s.stream_id ORDER BY h.seq),
		       :now
		  FROM parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE s.held = 1
		 ORDER BY s.stream_id`
	s.ListRetained = `
		-- locks retained key S row skip current
		SELECT stream_id, seq, sent, message_id, kind, type, body, since
		  FROM parley_retained WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE handle = @p1
		 ORDER BY since, kept, stream_id, seq`
	s.ListDead = `
		-- locks dead_letter key S row skip current
		SELECT TOP (@p1) queue_id, message_id, stream_id, seq, group_id, kind, type, body, since, name,
		       handle, conversation, initiator, service, far, contract, priority, attempts,
		       suspicion, last_error, reason, died, :now
		  FROM parley_dead_letter WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 ORDER BY died DESC, message_id DESC`
	s.ListDeadOf = `
		-- locks dead_letter key S row skip current
		SELECT TOP (@p2) queue_id, message_id, stream_id, seq, group_id, kind, type, body, since, name,
		       handle, conversation, initiator, service, far, contract, priority, attempts,
		       suspicion, last_error, reason, died, :now
		  FROM parley_dead_letter WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE queue_id = @p1
		 ORDER BY died DESC, message_id DESC`
	s.FindMessage = `
		-- locks message key S row skip current
		-- locks stream row none row never dirty
		-- locks held key S row skip current
		-- locks post row none row never dirty
		SELECT s.group_id
		  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
		 WHERE m.message_id = @p1
		 UNION ALL
		SELECT h.stream_id FROM parley_held h WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE h.message_id = @p2
		 UNION ALL
		SELECT o.post_id FROM parley_post o WITH (READUNCOMMITTED) WHERE o.post_id = @p3`
	s.PostStatusPost = `
		-- locks post key S row skip current
		SELECT type, body FROM parley_post WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE post_id = @p1 AND queue_id = @p2`
	s.PostStatusKeyed = `
		-- locks message key S row skip current
		-- locks stream row none row never dirty
		-- locks grp row none row never dirty
		SELECT g.name, m.type, m.body
		  FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = m.stream_id
		  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = s.group_id
		 WHERE m.message_id = @p1 AND m.kind = 4 AND s.queue_id = @p2`
	s.PostStatusProcessed = `
		-- locks processed key S row skip current
		SELECT name, type, body FROM parley_processed WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE post_id = @p1 AND queue_id = @p2`
}

func lockStatements(s *sqlstore.Statements[string]) {
	// Application locks are rows, and so are their owners. Who decides about a lock has
	// its stripe, so the rows of its name are his. An owner that is a transaction has its
	// row locked by a change for as long as it lives: it is read without a lock, and
	// tried by READPAST.
	s.LockFence = `
		-- locks lock_stripe key S row wait current
		SELECT fence FROM parley_lock_stripe WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE stripe = @p1`
	s.LockRows = `
		-- locks lock key S row wait current
		-- locks lock_owner row none row never dirty
		SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until, o.kind, o.until, :now
		  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK)
		  LEFT JOIN parley_lock_owner o WITH (READUNCOMMITTED) ON o.owner_id = l.owner_id
		 WHERE l.name = @p1 AND l.bytes = DATALENGTH(@p1)
		 ORDER BY l.seq`
	s.LockInsert = `
		-- locks lock row insert end wait option
		INSERT INTO parley_lock (name, bytes, seq, owner_id, mode, times, waiting, since, wait_until)
		VALUES (@p1, DATALENGTH(@p1), @p2, @p3, @p4, @p5, @p6, :now, :now + @p7)`
	s.LockChange = `
		-- locks lock row X end wait option
		UPDATE parley_lock SET mode = @p1, times = @p2
		 WHERE name = @p3 AND bytes = DATALENGTH(@p3) AND seq = @p4`
	s.LockWait = `
		-- locks lock row X end wait option
		UPDATE parley_lock SET wait_until = :now + @p1
		 WHERE name = @p2 AND bytes = DATALENGTH(@p2) AND seq = @p3`
	s.LockDelete = `
		-- locks lock row X end wait option
		DELETE FROM parley_lock WHERE name = @p1 AND bytes = DATALENGTH(@p1) AND seq = @p2`
	s.LockGraph = `
		-- locks lock key S row skip current
		SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
		  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE EXISTS (SELECT 1 FROM parley_lock w WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		                WHERE w.name = l.name AND w.bytes = l.bytes AND w.waiting = 1)
		 ORDER BY l.name, l.bytes, l.seq`
	s.OwnerRead = `
		-- locks lock_owner row none row never dirty
		SELECT kind FROM parley_lock_owner WITH (READUNCOMMITTED) WHERE owner_id = @p1`
	s.OwnerTry = `
		-- locks lock_owner key U end skip current
		SELECT 1 FROM parley_lock_owner WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE owner_id = @p1`
	s.OwnersExpired = `
		-- locks lock_owner key S row skip current
		SELECT TOP (@p1) owner_id FROM parley_lock_owner WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE kind <> 1 AND until <= :now ORDER BY owner_id`
	s.FenceInsert = unlessThere(`
		-- locks fence row insert end wait option
		INSERT INTO parley_fence (name, bytes, fence, uses) VALUES (@p1, DATALENGTH(@p1), @p2, 1)`)
	s.FenceRaise = `
		-- locks fence row X end wait option
		UPDATE parley_fence SET fence = @p1, uses = uses + 1
		 WHERE name = @p2 AND bytes = DATALENGTH(@p2) AND fence <= @p3`
	s.ListLocks = `
		-- locks lock key S row skip current
		-- locks lock_owner row none row never dirty
		SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
		       o.kind, o.until, l.wait_until, :now
		  FROM parley_lock l WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		  LEFT JOIN parley_lock_owner o WITH (READUNCOMMITTED) ON o.owner_id = l.owner_id
		 ORDER BY l.name, l.bytes, l.waiting, l.seq`
}

func taskStatements(s *sqlstore.Statements[string]) {
	// Schedules and tasks. Who submits or claims has the schedule's row. Whether a phase
	// is over is asked of indexes that the lock of a transactional handler does not
	// touch: skipping his task would end its phase early, and so would a look at what he
	// has not committed. What is waited for there is a change of state, which is followed
	// by a commit.
	s.ScheduleInsert = unlessThere(`
		-- locks schedule row insert end wait option
		INSERT INTO parley_schedule (name, bytes, schedule_id, max_active, go_on, accept_late, max_attempts,
		       caller, purpose, made)
		VALUES (@p1, DATALENGTH(@p1), @p2, @p3, @p4, @p5, @p6, @p7, @p8, :now)`)
	s.ScheduleLock = `
		-- locks schedule row X end wait option
		UPDATE parley_schedule SET serial = serial + @p1, live = 1
		 WHERE name = @p2 AND bytes = DATALENGTH(@p2)`
	s.ScheduleTry = `
		-- locks schedule key U end skip current
		SELECT 1 FROM parley_schedule WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
		 WHERE name = @p1 AND bytes = DATALENGTH(@p1)`
	s.ScheduleRead = `
		-- locks task.by_order key S row wait current
		-- locks task.by_running key S row wait current
		-- locks task.by_dead key S row wait current
		-- locks schedule row none row never dirty
		SELECT s.schedule_id, s.sealed, s.max_active, s.go_on, s.accept_late, s.max_attempts,
		       s.caller, s.purpose, s.serial, s.latest,
		       (SELECT min(a.phase) FROM parley_task a WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK)
		         WHERE a.schedule_id = s.schedule_id AND a.live = 1),
		       (SELECT count(*) FROM parley_task r WITH (INDEX(by_running), READCOMMITTEDLOCK, ROWLOCK)
		         WHERE r.schedule_id = s.schedule_id AND r.state = 1),
		       (SELECT count(*) FROM parley_task r WITH (INDEX(by_running), READCOMMITTEDLOCK, ROWLOCK)
		         WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > :now),
		       (SELECT min(d.phase) FROM parley_task d WITH (INDEX(by_dead), READCOMMITTEDLOCK, ROWLOCK)
		         WHERE d.schedule_id = s.schedule_id AND d.state = 4)
		  FROM parley_schedule s WITH (READUNCOMMITTED)
		 WHERE s.name = @p1 AND s.bytes = DATALENGTH(@p1)`
	s.ScheduleServed = `
		-- locks schedule row X end wait option
		UPDATE parley_schedule
		   SET served = :now, latest = CASE WHEN latest < @p1 THEN @p2 ELSE latest END
		 WHERE name = @p3 AND bytes = DATALENGTH(@p3)`
	s.ScheduleRest = `
		-- locks schedule row X end wait option
		UPDATE parley_schedule SET live = 0 WHERE name = @p1 AND bytes = DATALENGTH(@p1)`
	s.ScheduleSeal = `
		-- locks schedule row X end wait option
		UPDATE parley_schedule SET sealed = 1 WHERE name = @p1 AND bytes = DATALENGTH(@p1)`
	s.ScheduleDelete = `
		-- locks schedule row X end wait option
		DELETE FROM parley_schedule WHERE name = @p1 AND bytes = DATALENGTH(@p1)`
	s.SchedulesReady = `
		-- locks schedule row none row never dirty
		-- locks task row none row never dirty
		SELECT TOP (64) s.name
		  FROM parley_schedule s WITH (READUNCOMMITTED)
		 WHERE s.live = 1
		   AND (NOT EXISTS (SELECT 1 FROM parley_task a WITH (READUNCOMMITTED)
		                     WHERE a.schedule_id = s.schedule_id AND a.live = 1)
		     OR EXISTS (SELECT 1 FROM parley_task t WITH (READUNCOMMITTED)
		                 WHERE t.schedule_id = s.schedule_id AND t.live = 1 AND t.due <= :now
		                   AND t.phase = (SELECT min(p.phase) FROM parley_task p WITH (READUNCOMMITTED)
		                                   WHERE p.schedule_id = s.schedule_id AND p.live = 1))
		    AND (s.max_active = 0
		      OR s.max_active > (SELECT count(*) FROM parley_task r WITH (READUNCOMMITTED)
		                          WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > :now)))
		 ORDER BY s.served, s.name`
	s.TaskTry = `
		-- locks task key U end skip current
		SELECT 1 FROM parley_task WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST) WHERE task_id = @p1`
	s.TaskRead = `
		-- locks task row none row never dirty
		SELECT state, fence, due, live, given, stop, :now FROM parley_task WITH (READUNCOMMITTED) WHERE task_id = @p1`
	s.TasksDue = `
		-- locks task key S row skip current
		SELECT TOP (@p3) task_id, n, type, body, state, due, attempts, fence
		  FROM parley_task WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE schedule_id = @p1 AND live = 1 AND phase = @p2 AND due <= :now
		 ORDER BY due, n`
	s.TasksRunning = `
		-- locks task row none row never dirty
		SELECT task_id FROM parley_task WITH (READUNCOMMITTED)
		 WHERE schedule_id = @p1 AND state = 1 AND (1 = @p2 OR task_id = @p3)
		 ORDER BY task_id`
	// A task whose row is locked runs, and is told to stop instead.
	s.TasksCancel = `
		-- locks task key X end skip current
		UPDATE parley_task WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		   SET state = 5, live = 0, ended = :now
		 WHERE schedule_id = @p1 AND live = 1 AND state <> 1 AND (1 = @p2 OR task_id = @p3)`
	s.TasksFinished = `
		-- locks task key S row skip current
		SELECT TOP (20) task_id FROM parley_task WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
		 WHERE schedule_id = @p1 AND live = 0 AND given = 0
		 ORDER BY ended, n`
	s.ListSchedules = `
		-- locks schedule row none row never dirty
		SELECT name FROM parley_schedule WITH (READUNCOMMITTED) ORDER BY made, name`
	s.ScheduleCounts = `
		-- locks task row none row never dirty
		SELECT state, count(*) FROM parley_task WITH (READUNCOMMITTED) WHERE schedule_id = @p1 GROUP BY state`
	s.ScheduleError = `
		-- locks task row none row never dirty
		SELECT TOP (1) error FROM parley_task WITH (READUNCOMMITTED)
		 WHERE schedule_id = @p1 AND error <> N'' ORDER BY ended DESC, n DESC`
	s.ListTasks = `
		-- locks schedule row none row never dirty
		-- locks task row none row never dirty
		SELECT TOP (@p4) s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
		       t.error, t.submitted, t.started, t.ended
		  FROM parley_schedule s WITH (READUNCOMMITTED)
		  JOIN parley_task t WITH (READUNCOMMITTED) ON t.schedule_id = s.schedule_id
		 WHERE s.name = @p1 AND s.bytes = DATALENGTH(@p1) AND (0 = @p2 OR t.state = 1)
		   AND t.n > coalesce((SELECT b.n FROM parley_task b WITH (READUNCOMMITTED) WHERE b.task_id = @p3), 0)
		 ORDER BY t.n`
	s.ListRunning = `
		-- locks task row none row never dirty
		-- locks schedule row none row never dirty
		SELECT TOP (@p1) s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
		       t.error, t.submitted, t.started, t.ended
		  FROM parley_task t WITH (READUNCOMMITTED)
		  JOIN parley_schedule s WITH (READUNCOMMITTED) ON s.schedule_id = t.schedule_id
		 WHERE t.state = 1
		 ORDER BY t.started, t.task_id`
	s.OneTask = `
		-- locks task row none row never dirty
		-- locks schedule row none row never dirty
		SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
		       t.error, t.submitted, t.started, t.ended
		  FROM parley_task t WITH (READUNCOMMITTED)
		  JOIN parley_schedule s WITH (READUNCOMMITTED) ON s.schedule_id = t.schedule_id
		 WHERE t.task_id = @p1`
}

func workerStatements(s *sqlstore.Statements[string]) {
	// Records of readers, which only their own reader changes while it lives. WorkerInHand
	// reads one that WorkerLock has locked.
	s.WorkerOthers = `
		-- locks worker row none row never dirty
		SELECT reader_id, worker_id, in_hand, alone FROM parley_worker WITH (READUNCOMMITTED)
		 WHERE queue_id = @p1 AND worker_id <> @p2 AND in_hand IS NOT NULL`
	s.WorkerInHand = `
		-- locks worker row none row never dirty
		SELECT in_hand FROM parley_worker WITH (READUNCOMMITTED) WHERE reader_id = @p1`
	s.WorkerList = `
		-- locks worker row none row never dirty
		SELECT reader_id, worker_id, queue_id, owner, readers, :now - since, until - :now, in_hand, alone
		  FROM parley_worker WITH (READUNCOMMITTED)
		 ORDER BY queue_id, worker_id, reader_id`
}

// unlessThere makes an insert do nothing if its row is there. As it is more than one
// statement it says itself how many rows there were: see counted.
func unlessThere(insert string) string {
	return `
		SET XACT_ABORT OFF;
		SET @rows = 0;
		BEGIN TRY` + insert + `;
		  SET @rows = @@ROWCOUNT;
		END TRY
		BEGIN CATCH
		  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
		END CATCH`
}

// many are the statements that do in one trip what package sqlstore does row by
// row. Where rows of several tables are locked, a LOOP JOIN from the list of keys
// keeps the order of the list, and each row is found by its key: a hash join would
// read, and lock, the whole table.
type many struct {
	send, guards, append, posts                  *sqlstore.Stmt
	walk, take, lease, held, read                *sqlstore.Stmt
	remove, removePosts, finish, extend, reclaim *sqlstore.Stmt
	submit                                       *sqlstore.Stmt
}

// own lists them.
func (m *many) own() sqlstore.Own {
	return sqlstore.Own{
		&m.send:        {"send", sendSQL},
		&m.guards:      {"guards", guardsSQL},
		&m.append:      {"append", appendSQL},
		&m.posts:       {"posts", postsSQL},
		&m.walk:        {"walk", walkSQL},
		&m.take:        {"take", takeSQL},
		&m.lease:       {"lease", leaseSQL},
		&m.held:        {"held", heldSQL},
		&m.read:        {"read", readSQL},
		&m.remove:      {"remove", removeSQL},
		&m.removePosts: {"remove posts", removePostsSQL},
		&m.finish:      {"finish", finishSQL},
		&m.extend:      {"extend", extendSQL},
		&m.reclaim:     {"reclaim", reclaimSQL},
		&m.submit:      {"submit", submitSQL},
	}
}

// A send of one message, if its guard can be had at once and nothing refuses it.
// The guard first, then a look, in a new statement. The message comes last: what
// is there before it harms nobody.
//
// @p1 from, @p2 message id, @p3 type, @p4 body, @p5 kind, @p6 catalog version,
// @p7 whether to keep a copy
const sendSQL = `
	-- locks stream key X end skip current
	-- locks stream row none row never dirty
	-- locks queue key S row wait current
	-- locks meta key S row wait current
	-- locks closing key S row skip current
	-- locks stream row X end wait option
	-- locks ready row insert end wait option
	-- locks ready key S row wait current
	-- locks retained row insert end wait option
	-- locks message row insert end wait option
	SET NOCOUNT ON;
	DECLARE @now bigint = :now, @seq bigint, @queue bigint, @group binary(16), @priority smallint;
	BEGIN TRY
	  SELECT @seq = next_seq
	    FROM parley_stream WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST) WHERE stream_id = @p1;
	  SELECT @queue = s.queue_id, @group = s.group_id, @priority = s.priority
	    FROM parley_stream s WITH (READUNCOMMITTED)
	    JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = s.queue_id
	   CROSS JOIN parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
	   WHERE @seq IS NOT NULL AND s.stream_id = @p1 AND s.kind = 2 AND s.closed = 0 AND s.held = 0
	     AND q.enabled = 1 AND v.catalog_version = @p6
	     AND NOT EXISTS (SELECT 1 FROM parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                      WHERE c.handle = @p1);
	  IF @queue IS NOT NULL
	  BEGIN
	    UPDATE parley_stream SET next_seq = @seq + 1, touched = @now WHERE stream_id = @p1;
	    INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
	    SELECT @queue, @group, @p1, @priority, @now
	     WHERE NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
	                        WHERE r.group_id = @group AND r.stream_id = @p1);
	    IF @p7 = 1
	      INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body, since, kept)
	      VALUES (@p1, @p1, @seq, 1, @p2, @p5, @p3, @p4, @now, @now);
	    INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
	    VALUES (@p1, @seq, @p2, @p5, @p3, @p4, @now);
	    SELECT @seq, @queue;
	  END
	END TRY
	BEGIN CATCH
	  THROW;
	END CATCH`

// The guards of a batch, waited for in the order of the list, and then what a
// sender depends on.
//
// @p1 streams
const guardsSQL = `
	-- locks stream key X end wait current
	-- locks queue key S row wait current
	-- locks closing key S row skip current
	-- locks meta key S row wait current
	-- locks stream row none row never dirty
	DECLARE @locked int;
	SELECT @locked = count(s.kind)
	  FROM @p1 k
	 INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK) ON s.stream_id = k.id;
	SELECT s.stream_id, s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
	       (SELECT q.enabled FROM parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE q.queue_id = s.queue_id),
	       (SELECT count(*) FROM parley_closing c WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	         WHERE c.handle = s.stream_id),
	       (SELECT v.catalog_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK))
	  FROM @p1 k
	  JOIN parley_stream s WITH (READUNCOMMITTED) ON s.stream_id = k.id`

// Messages appended to streams whose guards are ours.
//
// @p1 messages
const appendSQL = `
	-- locks stream key X end wait current
	-- locks ready row insert end wait option
	-- locks ready key S row wait current
	-- locks message row insert end wait option
	SET NOCOUNT ON;
	DECLARE @now bigint = :now;
	BEGIN TRY
	  UPDATE s SET next_seq = k.next_seq, priority = k.priority, touched = @now
	    FROM (SELECT b.stream_id, max(b.seq) + 1 AS next_seq, max(b.priority) AS priority
	            FROM @p1 b GROUP BY b.stream_id) k
	   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK) ON s.stream_id = k.stream_id;
	  INSERT INTO parley_ready (queue_id, group_id, stream_id, priority, since)
	  SELECT k.queue_id, k.group_id, k.stream_id, k.priority, @now
	    FROM @p1 k
	   WHERE k.n = (SELECT min(b.n) FROM @p1 b WHERE b.stream_id = k.stream_id)
	     AND NOT EXISTS (SELECT 1 FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK)
	                      WHERE r.group_id = k.group_id AND r.stream_id = k.stream_id);
	  INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since)
	  SELECT k.stream_id, k.seq, k.message_id, k.kind, k.type, k.body, @now FROM @p1 k ORDER BY k.n;
	END TRY
	BEGIN CATCH
	  THROW;
	END CATCH`

// Posts without key, delay or unique value; their queues have been looked at.
//
// @p1 posts
const postsSQL = `
	-- locks post row insert end wait option
	INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
	SELECT k.message_id, k.queue_id, k.priority, :now, k.type, k.body FROM @p1 k ORDER BY k.n`

// A claim's first statement: where to look. It locks nothing, and what it returns
// are candidates: what has been claimed in a transaction (U) is among them. First
// promotions (0 groups, 1 posts), then streams (2) and posts (3), each from a place in
// its order on.
//
// @p1 queue, @p2 how many promotions, @p3 level and @p4 since of their place, @p5 how many
// streams and posts each, @p6 priority and @p7 since of their place
const walkSQL = `
	-- locks meta key S row wait current
	-- locks queue key S row wait current
	-- locks promotion.by_order key S row skip current
	-- locks grp row none row never dirty
	-- locks post row none row never dirty
	-- locks ready key S row skip current
	-- locks message key S row skip current
	-- locks ready.by_order key S row skip current
	-- locks post.by_order key S row skip current
	SELECT v.catalog_version, q.enabled, x.what, x.id, x.priority, x.since
	  FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK)
	  LEFT JOIN parley_queue q WITH (READCOMMITTEDLOCK, ROWLOCK) ON q.queue_id = @p1
	  LEFT JOIN (
	         SELECT a.what, a.id, a.priority, a.since
	           FROM (SELECT TOP (@p2) CASE WHEN g.group_id IS NULL THEN 1 ELSE 0 END AS what, p.group_id AS id,
	                        p.level AS priority, p.since
	                   FROM parley_promotion p WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                   LEFT JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = p.group_id
	                   LEFT JOIN parley_post o WITH (READUNCOMMITTED) ON o.post_id = p.group_id
	                  WHERE p.queue_id = @p1 AND p.level <= @p3 AND (p.level < @p3 OR p.since >= @p4)
	                    AND (g.blocked = 0 AND g.lease_until < :now
	                         AND EXISTS (SELECT 1
	                                       FROM parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                                       JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                                         ON m.stream_id = r.stream_id
	                                      WHERE r.group_id = p.group_id)
	                      OR o.blocked = 0 AND o.lease_until < :now)
	                  ORDER BY p.level DESC, p.since, p.group_id) a
	          UNION ALL
	         SELECT b.what, b.id, b.priority, b.since
	           FROM (SELECT TOP (@p5) 2 AS what, r.group_id AS id, r.priority, r.since
	                   FROM parley_ready r WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                   JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = r.group_id
	                  WHERE r.queue_id = @p1 AND r.priority <= @p6 AND (r.priority < @p6 OR r.since >= @p7)
	                    AND g.blocked = 0 AND g.lease_until < :now
	                    AND EXISTS (SELECT 1 FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                                 WHERE m.stream_id = r.stream_id)
	                  ORDER BY r.priority DESC, r.since, r.group_id, r.stream_id) b
	          UNION ALL
	         SELECT c.what, c.id, c.priority, c.since
	           FROM (SELECT TOP (@p5) 3 AS what, p.post_id AS id, p.priority, p.since
	                   FROM parley_post p WITH (INDEX(by_order), READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                  WHERE p.queue_id = @p1 AND p.priority <= @p6 AND (p.priority < @p6 OR p.since >= @p7)
	                    AND p.blocked = 0 AND p.lease_until < :now
	                  ORDER BY p.priority DESC, p.since, p.post_id) c) x ON 1 = 1`

// A claim's second statement, in a transaction: candidates are locked one by one,
// by their keys, in the order of the list, up to the number wanted. The first that
// can be had decides whether it is groups or posts. Nothing is asked of a row but its lock, so that
// no row is locked and then not returned; what became of it since the walk is the
// next statement's question. A token that an expired lease left behind is taken away, and
// told, since its receiver died.
//
// @p1 candidates (num: 0 group, 1 post), @p2 how many
const takeSQL = `
	-- locks grp key U end skip current
	-- locks post key U end skip current
	-- locks grp key X end wait current
	-- locks post key X end wait current
	-- locks grp row none row never dirty
	-- locks post row none row never dirty
	SET NOCOUNT ON;
	DECLARE @n int = 0, @id binary(16), @kind bigint, @first bigint, @had int = 0;
	DECLARE @locked TABLE (n int NOT NULL PRIMARY KEY, id binary(16) NOT NULL);
	DECLARE @orphans TABLE (id binary(16) NOT NULL);
	WHILE @had < @p2
	BEGIN
	  SET @id = NULL;
	  SELECT TOP (1) @n = k.n, @id = k.id, @kind = k.num FROM @p1 k
	   WHERE k.n > @n AND (@first IS NULL OR k.num = @first) ORDER BY k.n;
	  IF @id IS NULL BREAK;
	  IF @kind = 0
	    INSERT INTO @locked (n, id)
	    SELECT @n, g.group_id FROM parley_grp g WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
	     WHERE g.group_id = @id;
	  ELSE
	    INSERT INTO @locked (n, id)
	    SELECT @n, p.post_id FROM parley_post p WITH (READCOMMITTEDLOCK, UPDLOCK, ROWLOCK, READPAST)
	     WHERE p.post_id = @id;
	  IF @@ROWCOUNT = 1
	    SELECT @had = @had + 1, @first = @kind;
	END;
	IF @first = 0
	  UPDATE g SET fence = g.fence + 1, lease_until = 0, owner = N''
	  OUTPUT inserted.group_id INTO @orphans (id)
	    FROM @locked k
	   INNER LOOP JOIN parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK) ON g.group_id = k.id
	   WHERE g.lease_until <> 0 AND g.lease_until < :now;
	IF @first = 1
	  UPDATE p SET fence = p.fence + 1, lease_until = 0, owner = N'', suspicion = p.suspicion + 1
	    FROM @locked k
	   INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK) ON p.post_id = k.id
	   WHERE p.lease_until <> 0 AND p.lease_until < :now;
	SELECT @first, k.id,
	       CASE WHEN @first = 0 THEN (SELECT CASE WHEN g.blocked = 0 AND g.lease_until = 0 THEN 1 ELSE 0 END
	                                    FROM parley_grp g WITH (READUNCOMMITTED) WHERE g.group_id = k.id)
	            ELSE (SELECT CASE WHEN p.blocked = 0 AND p.lease_until = 0 THEN 1 ELSE 0 END
	                    FROM parley_post p WITH (READUNCOMMITTED) WHERE p.post_id = k.id) END,
	       (SELECT count(*) FROM @orphans o WHERE o.id = k.id)
	  FROM @locked k ORDER BY k.n`

// The same by lease. The lease is its own lock: the update's condition holds for one
// of two who claim at once, whether there are hints or not, as an update looks at
// the row again when it has waited for it. What has been had is committed with the
// messages that the next statement reads.
//
// @p1 candidates (num: 0 group, 1 post), @p2 how many, @p3 for how long, @p4 owner
const leaseSQL = `
	-- locks grp key X end skip current
	-- locks post key X end skip current
	SET NOCOUNT ON;
	DECLARE @n int = 0, @id binary(16), @kind bigint, @first bigint, @had int = 0;
	DECLARE @leased TABLE (id binary(16) NOT NULL, lease bigint NOT NULL);
	DECLARE @all TABLE (n int NOT NULL PRIMARY KEY, id binary(16) NOT NULL);
	WHILE @had < @p2
	BEGIN
	  SET @id = NULL;
	  SELECT TOP (1) @n = k.n, @id = k.id, @kind = k.num FROM @p1 k
	   WHERE k.n > @n AND (@first IS NULL OR k.num = @first) ORDER BY k.n;
	  IF @id IS NULL BREAK;
	  IF @kind = 0
	    UPDATE g SET fence = g.fence + 1, lease_until = :now + @p3, held_since = :now, owner = @p4
	    OUTPUT inserted.group_id, deleted.lease_until INTO @leased (id, lease)
	      FROM parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	     WHERE g.group_id = @id AND g.blocked = 0 AND g.lease_until < :now;
	  ELSE
	    UPDATE p SET fence = p.fence + 1, lease_until = :now + @p3, held_since = :now, owner = @p4,
	           suspicion = p.suspicion + CASE WHEN p.lease_until <> 0 THEN 1 ELSE 0 END
	    OUTPUT inserted.post_id, deleted.lease_until INTO @leased (id, lease)
	      FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	     WHERE p.post_id = @id AND p.blocked = 0 AND p.lease_until < :now;
	  IF @@ROWCOUNT = 1
	  BEGIN
	    INSERT INTO @all (n, id) VALUES (@n, @id);
	    SELECT @had = @had + 1, @first = @kind;
	  END
	END;
	SELECT @first, k.id, 1, CASE WHEN l.lease <> 0 THEN 1 ELSE 0 END
	  FROM @all k JOIN @leased l ON l.id = k.id ORDER BY k.n`

// Posts that are ours, with what is known of their promotions.
//
// @p1 posts
const heldSQL = `
	-- locks post key S row wait current
	SELECT p.post_id, p.queue_id, p.priority, p.since, p.type, p.body, p.uniq, p.attempts, p.suspicion,
	       p.last_error, p.fence, 0, p.blocked, :now
	  FROM @p1 k
	 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK) ON p.post_id = k.id
	 ORDER BY k.n`

// A claim's third statement: the messages of groups that are ours, in the order in
// which they are received, up to the last of each stream that could be seen a moment
// ago (see MessageRead).
//
// @p1 groups (num: whether a lease ran out), @p2 messages of each, @p3 bytes, @p4 handle, @p5 whether to lock only,
// @p6 whether the fence has grown
const readSQL = `
	-- locks message key S row skip current
	-- locks ready key S row skip current
	-- locks stream row none row never dirty
	-- locks endpoint row none row never dirty
	-- locks grp row none row never dirty
	-- locks promotion key S row skip current
	-- locks message key S row wait current
	-- locks failure key S row wait current
	SET NOCOUNT ON;
	DECLARE @s TABLE (n int NOT NULL, group_id binary(16) NOT NULL, stream_id binary(16) NOT NULL,
	                  priority smallint NOT NULL, kind smallint NOT NULL, endpoint binary(16) NULL,
	                  conversation binary(16) NULL, initiator smallint NULL, service nvarchar(256) NULL,
	                  far nvarchar(256) NULL, contract nvarchar(256) NULL, state int NOT NULL, last bigint NULL,
	                  PRIMARY KEY (n, stream_id));
	IF @p5 = 0
	  INSERT INTO @s (n, group_id, stream_id, priority, kind, endpoint, conversation, initiator, service, far,
	                  contract, state, last)
	  SELECT k.n, k.id, r.stream_id, r.priority, x.kind, x.endpoint, e.conversation, e.initiator, e.service, e.far,
	         e.contract,
	         CASE WHEN x.endpoint IS NULL THEN 0
	              WHEN e.group_id IS NULL OR e.closed_at IS NOT NULL THEN 1
	              WHEN e.group_id <> k.id THEN 2
	              ELSE 0 END,
	         (SELECT max(m.seq) FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	           WHERE m.stream_id = r.stream_id)
	    FROM @p1 k
	   INNER LOOP JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON r.group_id = k.id
	   INNER LOOP JOIN parley_stream x WITH (READUNCOMMITTED) ON x.stream_id = r.stream_id
	    LEFT LOOP JOIN parley_endpoint e WITH (READUNCOMMITTED) ON e.handle = x.endpoint;
	SELECT k.n, g.fence - @p6, k.num, p.level, p.version, p.sticky, g.name, t.state, t.stream_id, t.seq, t.message_id,
	       t.message_kind, t.type, t.body, t.since, t.uniq, f.attempts, f.suspicion, f.last_error,
	       CASE WHEN t.first = 1 THEN t.priority END, t.endpoint, t.conversation, t.initiator, t.service, t.far,
	       t.contract, t.kind
	  FROM @p1 k
	  JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = k.id
	  LEFT JOIN parley_promotion p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.group_id = k.id
	  LEFT JOIN (
	         SELECT y.n, y.k, y.state, y.stream_id, y.seq, y.message_id, y.message_kind, y.type, y.body, y.since,
	                y.uniq, y.first, y.priority, y.endpoint, y.conversation, y.initiator, y.service, y.far,
	                y.contract, y.kind
	           FROM (SELECT m.*,
	                        sum(coalesce(CONVERT(bigint, DATALENGTH(m.body)), 0))
	                          OVER (ORDER BY m.n, m.i ROWS UNBOUNDED PRECEDING) AS bytes,
	                        row_number() OVER (ORDER BY m.n, m.i) AS k,
	                        row_number() OVER (PARTITION BY m.n, m.stream_id ORDER BY m.i) AS first
	                   FROM (SELECT s.n, s.state, s.stream_id, s.priority, s.endpoint, s.conversation, s.initiator,
	                                s.service, s.far, s.contract, s.kind, x.seq, x.message_id,
	                                x.kind AS message_kind, x.type, x.body, x.since, x.uniq,
	                                row_number() OVER (PARTITION BY s.n
	                                                   ORDER BY s.priority DESC, s.endpoint, s.kind, s.stream_id,
	                                                            x.seq) AS i
	                           FROM @s s
	                          CROSS APPLY (SELECT TOP (@p2) y.seq, y.message_id, y.kind, y.type, y.body, y.since, y.uniq
	                                         FROM parley_message y WITH (READCOMMITTEDLOCK, ROWLOCK)
	                                        WHERE y.stream_id = s.stream_id AND y.seq <= s.last
	                                        ORDER BY y.seq) x
	                          WHERE s.state = 0 AND (@p4 IS NULL OR s.endpoint = @p4)) m
	                  WHERE m.i <= @p2) y
	          WHERE y.k = 1 OR y.bytes <= @p3
	          UNION ALL
	         SELECT s.n, 0, s.state, s.stream_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, s.priority, s.endpoint,
	                NULL, NULL, NULL, NULL, NULL, s.kind
	           FROM @s s WHERE s.state <> 0) t ON t.n = k.n
	  LEFT JOIN parley_failure f WITH (READCOMMITTEDLOCK, ROWLOCK) ON f.message_id = t.message_id
	 ORDER BY k.n, t.k`

// Delivered messages are removed by their keys. How many there were must be the
// number of the keys.
//
// @p1 streams and seqs
const removeSQL = `
	-- locks message key X end wait current
	DELETE m
	  FROM @p1 k
	 INNER LOOP JOIN parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK) ON m.stream_id = k.id AND m.seq = k.num`

// @p1 posts
const removePostsSQL = `
	-- locks post key X end wait current
	DELETE p
	  FROM @p1 k
	 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK) ON p.post_id = k.id`

// The ready order is put right, in two steps that must not be one statement: first
// the guards, where they can be had without waiting, then a look at what is left of
// their streams. One statement could look at the messages before it has the guard,
// and remove the marker of a message that a sender commits in between. Who holds guard and
// group meets no lock of anybody else's on the rows of the stream.
//
// @p1 streams
const finishSQL = `
	-- locks stream key X end skip current
	-- locks message key S row wait current
	-- locks stream key S row wait current
	-- locks grp row none row never dirty
	-- locks ready key X end wait current
	-- locks stream key X end wait current
	SET NOCOUNT ON;
	DECLARE @ours TABLE (id binary(16) NOT NULL PRIMARY KEY);
	DECLARE @h TABLE (id binary(16) NOT NULL PRIMARY KEY, group_id binary(16) NULL, kind smallint NOT NULL,
	                  blocked smallint NOT NULL, first bigint NULL);
	BEGIN TRY
	  INSERT INTO @ours (id)
	  SELECT s.stream_id
	    FROM @p1 k
	   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, XLOCK, ROWLOCK, READPAST) ON s.stream_id = k.id;
	  INSERT INTO @h (id, group_id, kind, blocked, first)
	  SELECT s.stream_id, s.group_id, s.kind, coalesce(g.blocked, 1),
	         (SELECT TOP (1) m.since FROM parley_message m WITH (READCOMMITTEDLOCK, ROWLOCK)
	           WHERE m.stream_id = s.stream_id ORDER BY m.seq)
	    FROM @ours k
	   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK) ON s.stream_id = k.id
	    LEFT LOOP JOIN parley_grp g WITH (READUNCOMMITTED) ON g.group_id = s.group_id;
	  DELETE r
	    FROM @h h
	   INNER LOOP JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK) ON r.group_id = h.group_id AND r.stream_id = h.id
	   WHERE h.first IS NULL OR h.blocked <> 0;
	  UPDATE r SET since = h.first
	    FROM @h h
	   INNER LOOP JOIN parley_ready r WITH (READCOMMITTEDLOCK, ROWLOCK) ON r.group_id = h.group_id AND r.stream_id = h.id
	   WHERE h.blocked = 0 AND h.first <> r.since;
	  DELETE s
	    FROM @h h
	   INNER LOOP JOIN parley_stream s WITH (READCOMMITTEDLOCK, ROWLOCK) ON s.stream_id = h.id
	   WHERE h.kind < 2 AND h.first IS NULL;
	  SELECT count(*) FROM @ours;
	END TRY
	BEGIN CATCH
	  THROW;
	END CATCH`

// Leases are prolonged. A row that is locked is in its owner's own transaction, which
// has not changed the fence, or in that of somebody who has taken it over, and so has.
// How many are lost.
//
// @p1 groups and fences, @p2 posts and fences, @p3 for how long
const extendSQL = `
	-- locks grp key X end skip current
	-- locks post key X end skip current
	-- locks grp key S row skip current
	-- locks grp row none row never dirty
	-- locks post key S row skip current
	-- locks post row none row never dirty
	SET NOCOUNT ON;
	DECLARE @ok TABLE (id binary(16) NOT NULL);
	UPDATE g SET lease_until = :now + @p3
	OUTPUT inserted.group_id INTO @ok (id)
	  FROM @p1 k
	 INNER LOOP JOIN parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON g.group_id = k.id
	 WHERE g.fence = k.num AND g.lease_until <> 0;
	UPDATE p SET lease_until = :now + @p3
	OUTPUT inserted.post_id INTO @ok (id)
	  FROM @p2 k
	 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.post_id = k.id
	 WHERE p.fence = k.num AND p.lease_until <> 0;
	SELECT (SELECT count(*) FROM @p1 k
	         WHERE NOT EXISTS (SELECT 1 FROM @ok o WHERE o.id = k.id)
	           AND (EXISTS (SELECT 1 FROM parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                         WHERE g.group_id = k.id)
	             OR NOT EXISTS (SELECT 1 FROM parley_grp g WITH (READUNCOMMITTED)
	                             WHERE g.group_id = k.id AND g.fence = k.num)))
	     + (SELECT count(*) FROM @p2 k
	         WHERE NOT EXISTS (SELECT 1 FROM @ok o WHERE o.id = k.id)
	           AND (EXISTS (SELECT 1 FROM parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST)
	                         WHERE p.post_id = k.id)
	             OR NOT EXISTS (SELECT 1 FROM parley_post p WITH (READUNCOMMITTED)
	                             WHERE p.post_id = k.id AND p.fence = k.num)))`

// Leases are taken into the transaction, where they can be had without waiting.
//
// @p1 groups and fences, @p2 posts and fences
const reclaimSQL = `
	-- locks meta key S row wait current
	-- locks grp key X end skip current
	-- locks post key X end skip current
	SET NOCOUNT ON;
	DECLARE @ok TABLE (id binary(16) NOT NULL);
	DECLARE @schema int = (SELECT v.schema_version FROM parley_meta v WITH (READCOMMITTEDLOCK, ROWLOCK));
	UPDATE g SET lease_until = 0, owner = N''
	OUTPUT inserted.group_id INTO @ok (id)
	  FROM @p1 k
	 INNER LOOP JOIN parley_grp g WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON g.group_id = k.id
	 WHERE g.fence = k.num AND g.lease_until <> 0 AND @schema <= :newest;
	UPDATE p SET lease_until = 0, owner = N''
	OUTPUT inserted.post_id INTO @ok (id)
	  FROM @p2 k
	 INNER LOOP JOIN parley_post p WITH (READCOMMITTEDLOCK, ROWLOCK, READPAST) ON p.post_id = k.id
	 WHERE p.fence = k.num AND p.lease_until <> 0 AND @schema <= :newest;
	SELECT id FROM @ok`

// Tasks of a schedule, with the numbers from @p3 on.
//
// @p1 tasks (seq: the phase), @p2 schedule, @p3 first number, @p4 caller
const submitSQL = `
	-- locks task row insert end wait option
	INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
	SELECT k.message_id, @p2, @p3 + k.n - 1, k.seq, k.type, k.body, @p4, :now FROM @p1 k ORDER BY k.n`
