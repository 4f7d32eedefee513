package sqlstore

// Statements are the statements of a dialect, as text or compiled. What a
// statement does not say stands in the fields' names and groups; those without
// a text in Portable have to be written for each engine.
type Statements[T any] struct {
	// Schema and catalog.
	SchemaExists  T // a row if there is the table meta
	SchemaVersion T
	CatalogVersion,
	CatalogLock,
	CatalogBump,
	CatalogObjects,
	CatalogQueues,
	ObjectDelete,
	ObjectInsert,
	QueueRead,
	QueueNumber,
	QueueInsert,
	QueueUpdate T

	// Groups. GroupTry locks one without waiting, GroupFree only if nobody has it
	// by lease. GroupReclaim does not wait for whoever has the row locked,
	// GroupReclaimWait does.
	GroupTry,
	GroupFree,
	GroupInsert, // nothing if it exists
	GroupJoin,
	GroupRead,
	GroupLease,
	GroupUnlease,
	GroupReclaim,
	GroupReclaimWait,
	GroupExtend,
	GroupBlock,
	GroupUnblock,
	GroupDue, // a row if it is deferred and due, or ready and to be looked at again
	GroupDelete,
	GroupUse T

	// Endpoints and what is known of their other side.
	EndpointInsert,
	EndpointRead,
	EndpointsOfGroup,
	EndpointHome,
	EndpointClose,
	EndpointFinish,
	EndpointMove,
	EndpointDelete,
	ClosingInsert,
	ClosingDelete T

	// Streams. GuardLock waits for the guard, GuardTry does not.
	GuardLock,
	GuardTry,
	StreamInsert,
	StreamRead,
	StreamHome,
	StreamAdvance,
	StreamRank,
	StreamHold,
	StreamUnhold,
	StreamClose,
	StreamSeal,
	StreamMove,
	StreamDelete,
	StreamsOfEndpoint,
	StreamsOfGroup T

	// Messages.
	MessageInsert,
	MessageDelete,
	MessageRead,
	MessageFind,
	MessageKeys,
	MessageFirst T

	// The ready order.
	MarkerInsert, // nothing if it exists
	MarkerDelete,
	MarkerSince,
	MarkerMove,
	MarkerRead,
	MarkersMissing T

	// Messages that wait for their target.
	HeldInsert,
	HeldRead,
	HeldMove,
	HeldDelete T

	// Keys of posts.
	KeyRead,
	KeyInsert, // nothing if it exists
	KeyDelete T

	// Posts without key, and those that are not yet due. PostTry and DelayedTry
	// lock one without waiting, PostFree only if nobody has it by lease.
	PostTry,
	PostFree,
	PostOne, // an insert that checks catalog and queue
	PostInsert,
	PostRead,
	PostLease,
	PostUnlease,
	PostReclaim,
	PostReclaimWait,
	PostExtend,
	PostBlock,
	PostUnblock,
	PostDue, // unblocks it if it is due
	PostFail,
	PostDelete,
	DelayedTry,
	DelayedInsert,
	DelayedRead,
	DelayedDelete,
	UniqueRead,
	UniqueInsert, // nothing if it exists
	UniqueDelete,
	ProcessedInsert T

	// The claim.
	WalkPromoted,
	WalkReady,
	HeadPost,
	TakePosts,
	LeasePosts, // takes posts and marks them as held by lease; may be empty
	Waiting, // a row if there is something to claim, or in somebody's hands
	Claimable, // a row if there is something to claim in a queue
	GroupVisible,
	GroupStreams T

	// What deliveries leave behind.
	FailurePut, // insert or replace
	FailureDelete,
	DeadInsert,
	DeadDelete,
	RetainedInsert,
	RetainedDelete T

	// Promotions. PromotionTry locks one, if it has the version, without waiting.
	PromotionPut, // insert or replace
	PromotionTry,
	PromotionRead,
	PromotionDelete,
	PromotionDrop T

	TimerPut, // insert or replace
	TimerDelete,
	TimerExpire, // deletes it if it is due
	TimersDelete,
	TimerTry,
	OnceInsert T // nothing if it exists

	// Duties.
	DueDelayed,
	DueTimers,
	DueGroups,
	DuePosts,
	DueProcessed,
	NextDelayed,
	NextTimer,
	NextGroup,
	NextPost,
	NextProcessed,
	ProcessedDelete,
	ReadyQueues, // with entries in the ready order
	Stale,
	FinishedEndpoints,
	EndpointsAfter,
	GroupsAfter,
	LostPromotions T

	// Application locks. LockTurn locks a stripe of names and draws the next
	// fence; OwnerTry locks an owner without waiting.
	LockTurn,
	LockFence,
	LockRows,
	LockInsert,
	LockChange,
	LockWait,
	LockDelete,
	LockDrop,
	LockGraph,
	OwnerInsert,
	OwnerRead,
	OwnerTouch,
	OwnerHold,
	OwnerRenew,
	OwnerTry,
	OwnerExpire,
	OwnerDelete,
	OwnersExpired,
	FenceInsert, // nothing if it exists
	FenceRaise T

	// Schedules and their tasks. ScheduleLock waits for the schedule,
	// ScheduleTry does not, nor does TaskTry. TaskHold waits.
	ScheduleInsert, // nothing if it exists
	ScheduleLock,
	ScheduleTry,
	ScheduleRead,
	ScheduleServed,
	ScheduleRest,
	ScheduleSeal,
	ScheduleDelete,
	SchedulesReady,
	TaskInsert,
	TaskTry,
	TaskHold,
	TaskRead,
	TasksDue,
	TasksStart,
	TaskStart,
	TaskFinish,
	TaskReturn,
	TaskExtend,
	TaskStop,
	TasksRunning,
	TasksCancel,
	TasksRetry,
	TasksSkip,
	TasksDelete,
	TasksFinished,
	TaskGiven T
	// Records of readers. WorkerAttend is a change and a read in one, in a
	// transaction of its own whose commit need not wait for the disk; without it
	// WorkerUpdate, WorkerInsert and WorkerOthers are used.
	WorkerAttend,
	WorkerUpdate,
	WorkerInsert,
	WorkerOthers,
	WorkerPutDown,
	WorkerAlive,
	WorkerLeave,
	WorkerLeaveOne,
	WorkerList,
	WorkerSweep T

	// For operators.
	ListLocks,
	ListSchedules,
	ScheduleCounts,
	ScheduleError,
	ListTasks,
	ListRunning,
	OneTask,
	QueueStatus,
	ListPromoted,
	ListReady,
	ListPosts,
	ListBlocked,
	ListBlockedPosts,
	GroupDetail,
	PostDetail,
	GroupCount,
	ListConversations,
	ListConversation,
	ListConversationsOfGroup,
	ConversationCounts,
	ListWithheld,
	ListRetained,
	ListDead,
	ListDeadOf,
	PostStatusPost,
	PostStatusKeyed,
	PostStatusProcessed T
}

// Portable returns the statements that are the same on every engine: plain
// reads, and changes of rows that the transaction has to itself.
func Portable() Statements[string] {
	return Statements[string]{
		SchemaVersion: `
			SELECT schema_version FROM parley_meta`,
		CatalogVersion: `
			SELECT catalog_version FROM parley_meta`,
		CatalogBump: `
			UPDATE parley_meta SET catalog_version = catalog_version + 1`,
		CatalogObjects: `
			SELECT kind, spec FROM parley_object ORDER BY kind, name`,
		CatalogQueues: `
			SELECT queue_id, name, enabled, retention, keep_processed
			  FROM parley_queue ORDER BY name`,
		ObjectDelete: `
			DELETE FROM parley_object WHERE kind = ? AND name = ?`,
		ObjectInsert: `
			INSERT INTO parley_object (kind, name, spec) VALUES (?, ?, ?)`,
		QueueRead: `
			SELECT v.catalog_version, q.enabled
			  FROM parley_meta v
			  LEFT JOIN parley_queue q ON q.queue_id = ?`,
		QueueNumber: `
			SELECT coalesce(max(queue_id), 0) + 1 FROM parley_queue`,
		QueueInsert: `
			INSERT INTO parley_queue (queue_id, name, enabled, retention, keep_processed)
			VALUES (?, ?, ?, ?, ?)`,
		QueueUpdate: `
			UPDATE parley_queue SET enabled = ?, retention = ?, keep_processed = ? WHERE name = ?`,

		GroupRead: `
			SELECT queue_id, service, name, fence, lease_until, blocked, resweep, :now
			  FROM parley_grp WHERE group_id = ?`,
		GroupLease: `
			UPDATE parley_grp
			   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
			 WHERE group_id = ?`,
		GroupUnlease: `
			UPDATE parley_grp SET fence = fence + 1, lease_until = 0, owner = '' WHERE group_id = ?`,
		GroupReclaimWait: `
			UPDATE parley_grp SET lease_until = 0, owner = ''
			 WHERE group_id = ? AND fence = ? AND lease_until <> 0`,
		GroupExtend: `
			UPDATE parley_grp SET lease_until = :now + ?
			 WHERE group_id = ? AND fence = ? AND lease_until <> 0`,
		GroupBlock: `
			UPDATE parley_grp
			   SET blocked = ?, blocked_since = :now, blocked_until = :now + ?, reason = ?,
			       resweep = 0 -- Unpark and DutyDeferred look at every stream again
			 WHERE group_id = ?`,
		GroupUnblock: `
			UPDATE parley_grp SET blocked = 0, blocked_until = 0, reason = '', resweep = ?
			 WHERE group_id = ?`,
		// Changes nothing, but meets whoever looked at the group before with a
		// snapshot.
		GroupJoin: `
			UPDATE parley_grp SET resweep = resweep WHERE group_id = ?`,
		GroupDelete: `
			DELETE FROM parley_grp WHERE group_id = ?`,
		// What stands in the way of removing a group: endpoints, streams with
		// messages or markers, streams other than the key's own, and delayed posts.
		GroupUse: `
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
			  FROM parley_grp g WHERE g.group_id = ?`,

		EndpointInsert: `
			INSERT INTO parley_endpoint (handle, conversation, peer, initiator, service, far,
			       contract, queue_id, group_id, priority, lifetime_until, begun)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, :now + ?, :now)`,
		EndpointRead: `
			SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
			       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
			       c.kind, c.by_peer, c.code, c.description, :now
			  FROM parley_endpoint e
			  LEFT JOIN parley_stream s ON s.stream_id = e.handle
			  LEFT JOIN parley_closing c ON c.handle = e.handle
			 WHERE e.handle = ?
			 ORDER BY c.id`,
		EndpointsOfGroup: `
			SELECT e.handle, e.conversation, e.peer, e.initiator, e.service, e.far, e.contract, e.queue_id,
			       e.group_id, e.priority, e.lifetime_until, e.closed_at, s.next_seq, s.closed,
			       c.kind, c.by_peer, c.code, c.description, :now
			  FROM parley_endpoint e
			  LEFT JOIN parley_stream s ON s.stream_id = e.handle
			  LEFT JOIN parley_closing c ON c.handle = e.handle
			 WHERE e.group_id = ?
			 ORDER BY e.handle, c.id`,
		EndpointHome: `
			SELECT e.group_id, e.queue_id, e.priority, e.peer, e.service, e.closed_at, q.enabled
			  FROM parley_endpoint e
			  JOIN parley_queue q ON q.queue_id = e.queue_id
			 WHERE e.handle = ?`,
		EndpointClose: `
			UPDATE parley_endpoint SET closed_at = :now WHERE handle = ?`,
		EndpointFinish: `
			UPDATE parley_endpoint SET finish_at = :now + ? WHERE handle = ?`,
		EndpointMove: `
			UPDATE parley_endpoint SET group_id = ? WHERE handle = ?`,
		EndpointDelete: `
			DELETE FROM parley_endpoint WHERE handle = ?`,
		ClosingInsert: `
			INSERT INTO parley_closing (handle, id, kind, by_peer, code, description)
			VALUES (?, ?, ?, ?, ?, ?)`,
		ClosingDelete: `
			DELETE FROM parley_closing WHERE handle = ?`,

		StreamInsert: `
			INSERT INTO parley_stream (stream_id, kind, group_id, queue_id, endpoint, priority,
			       next_seq, closed, held, touched)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, :now)`,
		StreamRead: `
			SELECT s.kind, s.group_id, s.queue_id, s.endpoint, s.priority, s.next_seq, s.closed, s.held,
			       q.enabled,
			       (SELECT count(*) FROM parley_closing c WHERE c.handle = s.stream_id),
			       (SELECT v.catalog_version FROM parley_meta v)
			  FROM parley_stream s
			  LEFT JOIN parley_queue q ON q.queue_id = s.queue_id
			 WHERE s.stream_id = ?`,
		StreamHome: `
			UPDATE parley_stream SET group_id = ?, queue_id = ?, endpoint = ?, priority = ?
			 WHERE stream_id = ?`,
		StreamAdvance: `
			UPDATE parley_stream SET next_seq = ?, touched = :now WHERE stream_id = ?`,
		StreamRank: `
			UPDATE parley_stream SET priority = ? WHERE stream_id = ?`,
		StreamHold: `
			UPDATE parley_stream SET next_seq = ?, held = 1, touched = :now WHERE stream_id = ?`,
		StreamUnhold: `
			UPDATE parley_stream SET held = 0 WHERE stream_id = ?`,
		StreamClose: `
			UPDATE parley_stream SET closed = 1 WHERE stream_id = ?`,
		StreamSeal: `
			UPDATE parley_stream SET closed = 2 WHERE stream_id = ?`,
		StreamMove: `
			UPDATE parley_stream SET group_id = ? WHERE stream_id = ?`,
		StreamDelete: `
			DELETE FROM parley_stream WHERE stream_id = ?`,
		StreamsOfEndpoint: `
			SELECT stream_id, kind FROM parley_stream
			 WHERE group_id = ? AND endpoint = ? ORDER BY stream_id`,
		StreamsOfGroup: `
			SELECT stream_id FROM parley_stream WHERE group_id = ? ORDER BY stream_id`,

		MessageInsert: `
			INSERT INTO parley_message (stream_id, seq, message_id, kind, type, body, since, uniq)
			VALUES (?, ?, ?, ?, ?, ?, :now, ?)`,
		MessageDelete: `
			DELETE FROM parley_message WHERE stream_id = ? AND seq = ?`,
		MessageRead: `
			SELECT m.seq, m.message_id, m.kind, m.type, m.body, m.since, m.uniq,
			       f.attempts, f.suspicion, f.last_error
			  FROM parley_message m
			  LEFT JOIN parley_failure f ON f.message_id = m.message_id
			 WHERE m.stream_id = ? AND m.seq > ?
			 ORDER BY m.seq
			 LIMIT ?`,
		// The condition on kind lets the index of keyed posts be used.
		MessageFind: `
			SELECT m.stream_id, m.seq, m.uniq, s.group_id, s.queue_id
			  FROM parley_message m
			  JOIN parley_stream s ON s.stream_id = m.stream_id
			 WHERE m.message_id = ? AND m.kind = 4`,
		MessageKeys: `
			SELECT seq, message_id FROM parley_message WHERE stream_id = ? ORDER BY seq`,
		MessageFirst: `
			SELECT seq, since FROM parley_message WHERE stream_id = ? ORDER BY seq LIMIT 1`,

		MarkerDelete: `
			DELETE FROM parley_ready WHERE group_id = ? AND stream_id = ?`,
		MarkerSince: `
			UPDATE parley_ready SET since = ?
			 WHERE group_id = ? AND stream_id = ? AND since <> ?`,
		MarkerMove: `
			UPDATE parley_ready SET group_id = ?
			 WHERE group_id = ? AND stream_id = ?`,
		MarkerRead: `
			SELECT stream_id FROM parley_ready WHERE group_id = ? ORDER BY stream_id`,
		MarkersMissing: `
			SELECT s.stream_id
			  FROM parley_stream s
			  LEFT JOIN parley_ready r
			    ON r.group_id = s.group_id AND r.stream_id = s.stream_id
			 WHERE s.group_id = ? AND r.stream_id IS NULL
			 ORDER BY s.stream_id`,

		HeldInsert: `
			INSERT INTO parley_held (stream_id, seq, message_id, kind, type, body, since, status)
			VALUES (?, ?, ?, ?, ?, ?, :now, ?)`,
		HeldRead: `
			SELECT seq, message_id, kind, type, body, since FROM parley_held
			 WHERE stream_id = ? ORDER BY seq`,
		HeldMove: `
			UPDATE parley_held SET stream_id = ?, seq = seq + ?, status = ?
			 WHERE stream_id = ? AND type <> ?`,
		HeldDelete: `
			DELETE FROM parley_held WHERE stream_id = ?`,

		KeyRead: `
			SELECT stream_id FROM parley_key WHERE queue_id = ? AND name = ?`,
		KeyDelete: `
			DELETE FROM parley_key WHERE queue_id = ? AND name = ?`,

		PostOne: `
			INSERT INTO parley_post (post_id, queue_id, priority, since, type, body)
			SELECT ?, q.queue_id, ?, :now, ?, ?
			  FROM parley_queue q
			 CROSS JOIN parley_meta v
			 WHERE q.queue_id = ? AND q.enabled = 1 AND v.catalog_version = ?`,
		PostInsert: `
			INSERT INTO parley_post (post_id, queue_id, priority, since, type, body, uniq)
			VALUES (?, ?, ?, :now, ?, ?, ?)`,
		PostRead: `
			SELECT post_id, queue_id, priority, since, type, body, uniq, attempts, suspicion,
			       last_error, fence, lease_until, blocked, :now
			  FROM parley_post WHERE post_id = ?`,
		PostLease: `
			UPDATE parley_post
			   SET fence = fence + 1, lease_until = :now + ?, held_since = :now, owner = ?
			 WHERE post_id = ?`,
		PostUnlease: `
			UPDATE parley_post SET fence = fence + 1, lease_until = 0, owner = '' WHERE post_id = ?`,
		PostReclaimWait: `
			UPDATE parley_post SET lease_until = 0, owner = ''
			 WHERE post_id = ? AND fence = ? AND lease_until <> 0`,
		PostExtend: `
			UPDATE parley_post SET lease_until = :now + ?
			 WHERE post_id = ? AND fence = ? AND lease_until <> 0`,
		PostBlock: `
			UPDATE parley_post
			   SET blocked = ?, blocked_since = :now, blocked_until = :now + ?, reason = ?
			 WHERE post_id = ?`,
		PostUnblock: `
			UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = '' WHERE post_id = ?`,
		PostDue: `
			UPDATE parley_post SET blocked = 0, blocked_until = 0, reason = ''
			 WHERE post_id = ? AND blocked = 1 AND blocked_until <= :now`,
		PostFail: `
			UPDATE parley_post SET attempts = ?, suspicion = ?, last_error = ? WHERE post_id = ?`,
		PostDelete: `
			DELETE FROM parley_post WHERE post_id = ?`,
		DelayedInsert: `
			INSERT INTO parley_delayed (post_id, queue_id, name, priority, type, body, uniq, begun, due)
			VALUES (?, ?, ?, ?, ?, ?, ?, :now, :now + ?)`,
		DelayedRead: `
			SELECT queue_id, name, priority, type, body, uniq, due, :now
			  FROM parley_delayed WHERE post_id = ?`,
		DelayedDelete: `
			DELETE FROM parley_delayed WHERE post_id = ?`,
		UniqueRead: `
			SELECT post_id FROM parley_uniq WHERE queue_id = ? AND value = ?`,
		UniqueDelete: `
			DELETE FROM parley_uniq WHERE queue_id = ? AND value = ?`,
		ProcessedInsert: `
			INSERT INTO parley_processed (post_id, queue_id, name, type, body, keep_until)
			VALUES (?, ?, ?, ?, ?, :now + ?)`,

		HeadPost: `
			SELECT post_id, priority, since
			  FROM parley_post
			 WHERE queue_id = ? AND blocked = 0 AND lease_until < :now
			 ORDER BY queue_id, priority DESC, since
			 LIMIT 1`,
		Waiting: `
			SELECT 1 FROM parley_meta
			 WHERE EXISTS (SELECT 1 FROM parley_ready r
			                 JOIN parley_grp g ON g.group_id = r.group_id
			                WHERE r.queue_id = ? AND g.blocked = 0)
			    OR EXISTS (SELECT 1 FROM parley_post p WHERE p.queue_id = ? AND p.blocked = 0)`,
		GroupVisible: `
			SELECT 1 FROM parley_ready r
			 WHERE r.group_id = ?
			   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
			 LIMIT 1`,
		// The streams of a group that have messages, in the order in which they
		// are received, with what is known of the endpoint that receives.
		GroupStreams: `
			SELECT r.stream_id, s.kind, r.priority, s.endpoint, e.group_id, e.conversation,
			       e.initiator, e.service, e.far, e.contract, e.closed_at
			  FROM parley_ready r
			  JOIN parley_stream s ON s.stream_id = r.stream_id
			  LEFT JOIN parley_endpoint e ON e.handle = s.endpoint
			 WHERE r.group_id = ?
			 ORDER BY r.priority DESC, s.endpoint, s.kind, s.stream_id`,

		FailureDelete: `
			DELETE FROM parley_failure WHERE message_id = ?`,
		DeadDelete: `
			DELETE FROM parley_dead_letter WHERE message_id = ?`,
		DeadInsert: `
			INSERT INTO parley_dead_letter (message_id, queue_id, stream_id, seq, group_id, kind, type,
			       body, since, name, handle, conversation, initiator, service, far, contract,
			       priority, attempts, suspicion, last_error, reason, died)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, :now)`,
		RetainedInsert: `
			INSERT INTO parley_retained (handle, stream_id, seq, sent, message_id, kind, type, body,
			       since, kept)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, :now), :now)`,
		RetainedDelete: `
			DELETE FROM parley_retained WHERE handle = ?`,

		PromotionRead: `
			SELECT level, version, sticky FROM parley_promotion WHERE group_id = ?`,
		PromotionDelete: `
			DELETE FROM parley_promotion WHERE group_id = ? AND version = ?`,
		PromotionDrop: `
			DELETE FROM parley_promotion WHERE group_id = ?`,

		// The sum keeps planners from taking the index of kind and due for these.
		TimerDelete: `
			DELETE FROM parley_timer WHERE handle = ? AND kind + 0 = ?`,
		TimerExpire: `
			DELETE FROM parley_timer WHERE handle = ? AND kind + 0 = ? AND due <= :now`,
		TimersDelete: `
			DELETE FROM parley_timer WHERE handle = ?`,

		DueDelayed: `
			SELECT d.post_id
			  FROM parley_delayed d
			  JOIN parley_queue q ON q.queue_id = d.queue_id
			 WHERE d.due <= :now AND q.enabled = 1
			 ORDER BY d.due, d.post_id
			 LIMIT ?`,
		DueTimers: `
			SELECT t.handle
			  FROM parley_timer t
			  JOIN parley_endpoint e ON e.handle = t.handle
			  JOIN parley_queue q ON q.queue_id = e.queue_id
			 WHERE t.kind = ? AND t.due <= :now AND q.enabled = 1
			 ORDER BY t.due
			 LIMIT ?`,
		NextDelayed: `
			SELECT d.due - :now
			  FROM parley_delayed d
			  JOIN parley_queue q ON q.queue_id = d.queue_id
			 WHERE q.enabled = 1
			 ORDER BY d.due LIMIT 1`,
		NextTimer: `
			SELECT t.due - :now
			  FROM parley_timer t
			  JOIN parley_endpoint e ON e.handle = t.handle
			  JOIN parley_queue q ON q.queue_id = e.queue_id
			 WHERE t.kind = ? AND q.enabled = 1
			 ORDER BY t.due LIMIT 1`,
		DueGroups: `
			SELECT group_id FROM parley_grp WHERE resweep = 1
			 UNION ALL
			SELECT group_id FROM parley_grp WHERE blocked = 1 AND blocked_until <= :now AND resweep = 0
			 LIMIT ?`,
		NextGroup: `
			SELECT blocked_until - :now FROM parley_grp WHERE blocked = 1 ORDER BY blocked_until LIMIT 1`,
		GroupDue: `
			SELECT 1 FROM parley_grp
			 WHERE group_id = ? AND (blocked = 1 AND blocked_until <= :now OR blocked = 0 AND resweep = 1)`,
		DuePosts: `
			SELECT post_id FROM parley_post WHERE blocked = 1 AND blocked_until <= :now LIMIT ?`,
		NextPost: `
			SELECT blocked_until - :now FROM parley_post WHERE blocked = 1 ORDER BY blocked_until LIMIT 1`,
		DueProcessed: `
			SELECT post_id FROM parley_processed WHERE keep_until <= :now ORDER BY keep_until LIMIT ?`,
		NextProcessed: `
			SELECT keep_until - :now FROM parley_processed ORDER BY keep_until LIMIT 1`,
		ProcessedDelete: `
			DELETE FROM parley_processed WHERE post_id = ?`,
		ReadyQueues: `
			SELECT q.queue_id FROM parley_queue q
			 WHERE EXISTS (SELECT 1 FROM parley_ready r WHERE r.queue_id = q.queue_id)`,
		// The entries at the head of a queue's ready order that are in the way:
		// those of blocked groups, and those without a message that we can see. What
		// is farther back is in nobody's way.
		Stale: `
			SELECT r.stream_id, r.group_id, g.blocked
			  FROM (SELECT x.stream_id, x.group_id
			          FROM parley_ready x
			         WHERE x.queue_id = ?
			         ORDER BY x.queue_id, x.priority DESC, x.since
			         LIMIT 1000) r
			  LEFT JOIN parley_grp g ON g.group_id = r.group_id
			 WHERE coalesce(g.blocked, 1) <> 0
			    OR NOT EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)`,
		FinishedEndpoints: `
			SELECT handle FROM parley_endpoint WHERE finish_at <= :now ORDER BY finish_at LIMIT ?`,
		EndpointsAfter: `
			SELECT e.handle,
			       CASE WHEN e.closed_at IS NOT NULL AND e.finish_at IS NULL
			             AND (p.handle IS NULL AND NOT EXISTS (
			                    SELECT 1 FROM parley_stream s
			                     WHERE s.stream_id = e.handle AND s.held = 1)
			                  OR p.closed_at IS NOT NULL AND p.finish_at IS NULL) THEN 1 ELSE 0 END
			  FROM parley_endpoint e
			  LEFT JOIN parley_endpoint p ON p.handle = e.peer
			 WHERE e.handle > ? AND e.queue_id > 0
			 ORDER BY e.handle
			 LIMIT ?`,
		GroupsAfter: `
			SELECT g.group_id,
			       CASE WHEN NOT EXISTS (SELECT 1 FROM parley_endpoint e WHERE e.group_id = g.group_id)
			             AND NOT EXISTS (SELECT 1 FROM parley_stream s
			                              WHERE s.group_id = g.group_id
			                                AND (s.kind <> 3 OR s.touched > :now - 60000000))
			             AND NOT EXISTS (SELECT 1 FROM parley_ready r
			                              WHERE r.group_id = g.group_id)
			            THEN 1 ELSE 0 END
			  FROM parley_grp g
			 WHERE g.group_id > ? AND g.queue_id > 0
			 ORDER BY g.group_id
			 LIMIT ?`,

		LostPromotions: `
			SELECT p.group_id FROM parley_promotion p
			 WHERE p.queue_id > 0
			   AND NOT EXISTS (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id)
			   AND NOT EXISTS (SELECT 1 FROM parley_post o WHERE o.post_id = p.group_id)
			   AND NOT EXISTS (SELECT 1 FROM parley_delayed d WHERE d.post_id = p.group_id)
			 LIMIT ?`,

		// Everything of all queues in one trip. Counts are bounded one by one.
		// No fence is ever drawn twice, not even by a transaction that is rolled back
		// together with what it drew, as on an engine with one writer: the clock has
		// gone on since.
		LockTurn: `
			UPDATE parley_lock_stripe
			   SET fence = CASE WHEN fence >= :now THEN fence + 1 ELSE :now END
			 WHERE stripe = ?`,
		LockFence: `
			SELECT fence FROM parley_lock_stripe WHERE stripe = ?`,
		LockRows: `
			SELECT l.seq, l.owner_id, l.mode, l.times, l.waiting, l.wait_until,
			       o.kind, o.until, :now
			  FROM parley_lock l
			  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
			 WHERE l.name = ?
			 ORDER BY l.seq`,
		LockInsert: `
			INSERT INTO parley_lock (name, seq, owner_id, mode, times, waiting, since, wait_until)
			VALUES (?, ?, ?, ?, ?, ?, :now, :now + ?)`,
		LockChange: `
			UPDATE parley_lock SET mode = ?, times = ? WHERE name = ? AND seq = ?`,
		LockWait: `
			UPDATE parley_lock SET wait_until = :now + ? WHERE name = ? AND seq = ?`,
		LockDelete: `
			DELETE FROM parley_lock WHERE name = ? AND seq = ?`,
		LockDrop: `
			DELETE FROM parley_lock WHERE owner_id = ?`,
		LockGraph: `
			SELECT l.name, l.seq, l.owner_id, l.mode, l.waiting
			  FROM parley_lock l
			 WHERE l.name IN (SELECT w.name FROM parley_lock w WHERE w.waiting = 1)
			 ORDER BY l.name, l.seq`,
		OwnerInsert: `
			INSERT INTO parley_lock_owner (owner_id, kind, owner, until, touched)
			VALUES (?, ?, ?, :now + ?, 0)`,
		OwnerRead: `
			SELECT kind FROM parley_lock_owner WHERE owner_id = ?`,
		OwnerTouch: `
			UPDATE parley_lock_owner SET touched = touched + 1
			 WHERE owner_id = ? AND kind = 0 AND until > :now`,
		OwnerHold: `
			UPDATE parley_lock_owner SET touched = touched + 1 WHERE owner_id = ?`,
		OwnerRenew: `
			UPDATE parley_lock_owner SET until = :now + ?, touched = touched + 1
			 WHERE owner_id = ? AND kind = 0 AND until > :now`,
		OwnerExpire: `
			DELETE FROM parley_lock_owner WHERE owner_id = ? AND kind = 0 AND until <= :now`,
		OwnerDelete: `
			DELETE FROM parley_lock_owner WHERE owner_id = ?`,
		OwnersExpired: `
			SELECT owner_id FROM parley_lock_owner
			 WHERE kind = 0 AND until <= :now ORDER BY owner_id LIMIT ?`,
		FenceRaise: `
			UPDATE parley_fence SET fence = ?, uses = uses + 1 WHERE name = ? AND fence <= ?`,
		ListLocks: `
			SELECT l.name, l.owner_id, o.owner, l.mode, l.waiting, l.times, l.seq, l.since,
			       o.kind, o.until, l.wait_until, :now
			  FROM parley_lock l
			  LEFT JOIN parley_lock_owner o ON o.owner_id = l.owner_id
			 ORDER BY l.name, l.waiting, l.seq`,

		ScheduleLock: `
			UPDATE parley_schedule SET serial = serial + ?, live = 1 WHERE name = ?`,
		// With the lowest phase that is not over, how many tasks run, how many of
		// these have a worker that is alive, and the lowest phase with a dead task.
		ScheduleRead: `
			SELECT s.schedule_id, s.sealed, s.max_active, s.go_on, s.accept_late, s.max_attempts,
			       s.caller, s.purpose, s.serial, s.latest,
			       (SELECT a.phase FROM parley_task a
			         WHERE a.schedule_id = s.schedule_id AND a.live = 1
			         ORDER BY a.phase LIMIT 1),
			       (SELECT count(*) FROM parley_task r
			         WHERE r.schedule_id = s.schedule_id AND r.state = 1),
			       (SELECT count(*) FROM parley_task r
			         WHERE r.schedule_id = s.schedule_id AND r.state = 1 AND r.due > :now),
			       (SELECT d.phase FROM parley_task d
			         WHERE d.schedule_id = s.schedule_id AND d.state = 4
			         ORDER BY d.phase LIMIT 1)
			  FROM parley_schedule s WHERE s.name = ?`,
		ScheduleServed: `
			UPDATE parley_schedule
			   SET served = :now, latest = CASE WHEN latest < ? THEN ? ELSE latest END
			 WHERE name = ?`,
		ScheduleRest: `
			UPDATE parley_schedule SET live = 0 WHERE name = ?`,
		ScheduleSeal: `
			UPDATE parley_schedule SET sealed = 1 WHERE name = ?`,
		ScheduleDelete: `
			DELETE FROM parley_schedule WHERE name = ?`,
		// Schedules where a claim would find something, and those that have
		// nothing any more and can rest; least recently served ones first.
		SchedulesReady: `
			SELECT s.name
			  FROM parley_schedule s
			 WHERE s.live = 1
			   AND ((SELECT a.phase FROM parley_task a
			          WHERE a.schedule_id = s.schedule_id AND a.live = 1
			          ORDER BY a.phase LIMIT 1) IS NULL
			     OR (SELECT t.due FROM parley_task t
			          WHERE t.schedule_id = s.schedule_id AND t.live = 1 AND t.due <= :now
			            AND t.phase = (SELECT p.phase FROM parley_task p
			                            WHERE p.schedule_id = s.schedule_id AND p.live = 1
			                            ORDER BY p.phase LIMIT 1)
			          ORDER BY t.due LIMIT 1) IS NOT NULL
			    AND (s.max_active = 0
			      OR s.max_active > (SELECT count(*) FROM parley_task r
			                          WHERE r.schedule_id = s.schedule_id AND r.state = 1
			                            AND r.due > :now)))
			 ORDER BY s.served, s.name
			 LIMIT 64`,
		TaskInsert: `
			INSERT INTO parley_task (task_id, schedule_id, n, phase, type, body, caller, submitted)
			VALUES (?, ?, ?, ?, ?, ?, ?, :now)`,
		TaskHold: `
			UPDATE parley_task SET touched = touched + 1
			 WHERE task_id = ? AND fence = ? AND state = 1`,
		TaskRead: `
			SELECT state, fence, due, live, given, stop, :now FROM parley_task WHERE task_id = ?`,
		// Queued tasks are due at 0, failed ones after their delay, running ones at
		// the end of their lease.
		TasksDue: `
			SELECT task_id, n, type, body, state, due, attempts, fence
			  FROM parley_task
			 WHERE schedule_id = ? AND live = 1 AND phase = ? AND due <= :now
			 ORDER BY schedule_id, phase, due, n
			 LIMIT ?`,
		TasksStart: `
			UPDATE parley_task
			   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
			       started = :now, due = :now + ?
			 WHERE schedule_id = ? AND live = 1 AND phase = ? AND due = 0 AND n >= ? AND n <= ?`,
		TaskStart: `
			UPDATE parley_task
			   SET state = 1, fence = fence + 1, attempts = attempts + 1, stop = 0, owner = ?,
			       started = :now, due = :now + ?
			 WHERE task_id = ? AND fence = ? AND live = 1`,
		TaskFinish: `
			UPDATE parley_task
			   SET state = ?, live = ?, due = :now + ?, error = ?, ended = :now
			 WHERE task_id = ? AND fence = ? AND state = 1`,
		// It is due, but not as one that was never claimed: those are started many
		// at a time by their numbers.
		TaskReturn: `
			UPDATE parley_task
			   SET state = 0, due = 1, attempts = attempts - 1, error = ?
			 WHERE task_id = ? AND fence = ? AND state = 1`,
		TaskExtend: `
			UPDATE parley_task SET due = :now + ?, touched = touched + 1
			 WHERE task_id = ? AND fence = ? AND state = 1`,
		TaskStop: `
			UPDATE parley_task SET stop = 1 WHERE task_id = ? AND state = 1`,
		TasksRunning: `
			SELECT task_id FROM parley_task
			 WHERE schedule_id = ? AND state = 1 AND (1 = ? OR task_id = ?)
			 ORDER BY task_id`,
		TasksCancel: `
			UPDATE parley_task
			   SET state = 5, live = 0, ended = :now
			 WHERE schedule_id = ? AND live = 1 AND state <> 1 AND (1 = ? OR task_id = ?)`,
		TasksRetry: `
			UPDATE parley_task
			   SET state = 0, live = 1, due = 1, attempts = 0, ended = 0, given = 0
			 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)`,
		TasksSkip: `
			UPDATE parley_task SET state = 6, given = 0
			 WHERE schedule_id = ? AND state = 4 AND (1 = ? OR task_id = ?)`,
		TasksDelete: `
			DELETE FROM parley_task WHERE schedule_id = ?`,
		TasksFinished: `
			SELECT task_id FROM parley_task
			 WHERE schedule_id = ? AND live = 0 AND given = 0
			 ORDER BY schedule_id, ended, n
			 LIMIT 20`,
		TaskGiven: `
			UPDATE parley_task SET given = 1 WHERE task_id = ? AND live = 0 AND given = 0`,
		ListSchedules: `
			SELECT name FROM parley_schedule ORDER BY made, name`,
		ScheduleCounts: `
			SELECT state, count(*) FROM parley_task WHERE schedule_id = ? GROUP BY state`,
		ScheduleError: `
			SELECT error FROM parley_task
			 WHERE schedule_id = ? AND error <> '' ORDER BY ended DESC, n DESC LIMIT 1`,
		ListTasks: `
			SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
			       t.error, t.submitted, t.started, t.ended
			  FROM parley_schedule s
			  JOIN parley_task t ON t.schedule_id = s.schedule_id
			 WHERE s.name = ? AND (0 = ? OR t.state = 1)
			   AND t.n > coalesce((SELECT b.n FROM parley_task b WHERE b.task_id = ?), 0)
			 ORDER BY t.n
			 LIMIT ?`,
		ListRunning: `
			SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
			       t.error, t.submitted, t.started, t.ended
			  FROM parley_task t
			  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
			 WHERE t.state = 1
			 ORDER BY t.started, t.task_id
			 LIMIT ?`,

		OneTask: `
			SELECT s.name, t.task_id, t.phase, t.type, t.state, t.caller, t.owner, t.attempts,
			       t.error, t.submitted, t.started, t.ended
			  FROM parley_task t
			  JOIN parley_schedule s ON s.schedule_id = t.schedule_id
			 WHERE t.task_id = ?`,

		QueueStatus: `
			SELECT q.queue_id, q.name, q.enabled,
			       (SELECT count(*) FROM (SELECT 1 AS one
			                                FROM parley_ready r
			                                JOIN parley_message m ON m.stream_id = r.stream_id
			                               WHERE r.queue_id = q.queue_id
			                               LIMIT 10000) x)
			     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p
			                               WHERE p.queue_id = q.queue_id AND p.blocked = 0
			                               LIMIT 10000) x),
			       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_delayed d
			                               WHERE d.queue_id = q.queue_id
			                               LIMIT 10000) x),
			       (SELECT count(*) FROM (SELECT DISTINCT r.group_id
			                                FROM (SELECT group_id FROM parley_ready
			                                       WHERE queue_id = q.queue_id
			                                       ORDER BY queue_id, priority DESC, since
			                                       LIMIT 10000) r
			                                JOIN parley_grp g ON g.group_id = r.group_id
			                               WHERE g.lease_until > :now) x)
			     + (SELECT count(*) FROM (SELECT lease_until FROM parley_post
			                               WHERE queue_id = q.queue_id AND blocked = 0
			                               ORDER BY queue_id, priority DESC, since
			                               LIMIT 10000) p
			         WHERE p.lease_until > :now),
			       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g
			                               WHERE g.blocked = 1 AND g.queue_id = q.queue_id AND g.blocked <> 0
			                               LIMIT 10000) x)
			     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p
			                               WHERE p.blocked = 1 AND p.queue_id = q.queue_id AND p.blocked <> 0
			                               LIMIT 10000) x),
			       (SELECT count(*) FROM (SELECT 1 AS one FROM parley_grp g
			                               WHERE g.blocked = 2 AND g.queue_id = q.queue_id AND g.blocked <> 0
			                               LIMIT 10000) x)
			     + (SELECT count(*) FROM (SELECT 1 AS one FROM parley_post p
			                               WHERE p.blocked = 2 AND p.queue_id = q.queue_id AND p.blocked <> 0
			                               LIMIT 10000) x),
			       (SELECT count(*) FROM (SELECT 1 AS one
			                                FROM parley_stream s
			                                JOIN parley_held h ON h.stream_id = s.stream_id
			                               WHERE s.held = 1 AND s.queue_id = q.queue_id
			                               LIMIT 10000) x),
			       (SELECT r.priority FROM parley_ready r
			         WHERE r.queue_id = q.queue_id
			           AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
			         ORDER BY r.queue_id, r.priority DESC, r.since LIMIT 1),
			       (SELECT r.since FROM parley_ready r
			         WHERE r.queue_id = q.queue_id
			           AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
			         ORDER BY r.queue_id, r.priority DESC, r.since LIMIT 1),
			       (SELECT p.priority FROM parley_post p
			         WHERE p.queue_id = q.queue_id AND p.blocked = 0
			         ORDER BY p.queue_id, p.priority DESC, p.since LIMIT 1),
			       (SELECT p.since FROM parley_post p
			         WHERE p.queue_id = q.queue_id AND p.blocked = 0
			         ORDER BY p.queue_id, p.priority DESC, p.since LIMIT 1),
			       :now
			  FROM parley_queue q
			 WHERE q.queue_id BETWEEN ? AND ?
			 ORDER BY q.name`,
		ListPromoted: `
			SELECT p.group_id, p.level, p.sticky,
			       CASE WHEN EXISTS (SELECT 1 FROM parley_grp g WHERE g.group_id = p.group_id)
			            THEN 0 ELSE 1 END
			  FROM parley_promotion p
			 WHERE p.queue_id = ?
			   AND (EXISTS (SELECT 1
			                  FROM parley_ready r
			                  JOIN parley_grp g ON g.group_id = r.group_id
			                  JOIN parley_message m ON m.stream_id = r.stream_id
			                 WHERE r.group_id = p.group_id AND g.blocked = 0
			                   AND (g.lease_until < :now OR ? = 0))
			     OR EXISTS (SELECT 1 FROM parley_post o
			                 WHERE o.post_id = p.group_id AND o.blocked = 0
			                   AND (o.lease_until < :now OR ? = 0)))
			 ORDER BY p.queue_id, p.level DESC, p.since, p.group_id
			 LIMIT ?`,
		ListReady: `
			SELECT r.group_id, r.priority, r.since
			  FROM parley_ready r
			  JOIN parley_grp g ON g.group_id = r.group_id
			 WHERE r.queue_id = ? AND g.blocked = 0 AND (g.lease_until < :now OR ? = 0)
			   AND EXISTS (SELECT 1 FROM parley_message m WHERE m.stream_id = r.stream_id)
			 ORDER BY r.queue_id, r.priority DESC, r.since
			 LIMIT ?`,
		ListPosts: `
			SELECT post_id, priority, since
			  FROM parley_post
			 WHERE queue_id = ? AND blocked = 0 AND (lease_until < :now OR ? = 0)
			 ORDER BY queue_id, priority DESC, since
			 LIMIT ?`,
		ListBlocked: `
			SELECT group_id, blocked_since FROM parley_grp
			 WHERE queue_id = ? AND blocked <> 0
			 ORDER BY blocked_since, group_id
			 LIMIT ?`,
		ListBlockedPosts: `
			SELECT post_id, blocked_since FROM parley_post
			 WHERE queue_id = ? AND blocked <> 0
			 ORDER BY blocked_since, post_id
			 LIMIT ?`,
		GroupDetail: `
			SELECT g.service, g.name, g.lease_until, g.held_since, g.owner, g.blocked, g.blocked_since,
			       g.blocked_until, g.reason, :now, p.level, p.sticky,
			       (SELECT max(r.priority) FROM parley_ready r
			         WHERE r.group_id = g.group_id)
			  FROM parley_grp g
			  LEFT JOIN parley_promotion p ON p.group_id = g.group_id
			 WHERE g.group_id = ?`,
		PostDetail: `
			SELECT o.lease_until, o.held_since, o.owner, o.blocked, o.blocked_since, o.blocked_until,
			       o.reason, :now, p.level, p.sticky, o.priority, o.since
			  FROM parley_post o
			  LEFT JOIN parley_promotion p ON p.group_id = o.post_id
			 WHERE o.post_id = ?`,
		GroupCount: `
			SELECT count(*), min(x.since)
			  FROM (SELECT m.since
			          FROM parley_stream s
			          JOIN parley_message m ON m.stream_id = s.stream_id
			         WHERE s.group_id = ?
			         LIMIT 10000) x`,
		ListConversations: `
			SELECT handle, conversation FROM parley_endpoint
			 WHERE conversation > ? AND queue_id > 0
			 ORDER BY conversation, initiator DESC
			 LIMIT ?`,
		ListConversation: `
			SELECT e.handle, e.conversation
			  FROM parley_endpoint e
			  JOIN parley_endpoint x ON x.conversation = e.conversation
			 WHERE x.handle = ? AND e.conversation > ?
			 ORDER BY e.conversation, e.initiator DESC
			 LIMIT ?`,
		ListConversationsOfGroup: `
			SELECT handle, conversation FROM parley_endpoint
			 WHERE group_id = ? AND conversation > ?
			 ORDER BY conversation, initiator DESC
			 LIMIT ?`,
		ConversationCounts: `
			SELECT e.begun, :now,
			       (SELECT t.due FROM parley_timer t WHERE t.handle = e.handle AND t.kind = 0),
			       (SELECT count(*)
			          FROM (SELECT 1 AS one
			                  FROM parley_stream s
			                  JOIN parley_message m ON m.stream_id = s.stream_id
			                 WHERE s.group_id = e.group_id AND s.endpoint = e.handle
			                 LIMIT 10000) x),
			       (SELECT count(*)
			          FROM (SELECT 1 AS one FROM parley_held h WHERE h.stream_id = e.handle LIMIT 10000) x),
			       (SELECT h.status FROM parley_held h WHERE h.stream_id = e.handle ORDER BY h.seq LIMIT 1)
			  FROM parley_endpoint e
			 WHERE e.handle = ?`,
		ListWithheld: `
			SELECT s.stream_id,
			       (SELECT count(*)
			          FROM (SELECT 1 AS one FROM parley_held h WHERE h.stream_id = s.stream_id LIMIT 10000) x),
			       (SELECT h.status FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
			       (SELECT h.since FROM parley_held h WHERE h.stream_id = s.stream_id ORDER BY h.seq LIMIT 1),
			       :now
			  FROM parley_stream s
			 WHERE s.held = 1
			 ORDER BY s.stream_id
			 LIMIT ?`,
		ListRetained: `
			SELECT stream_id, seq, sent, message_id, kind, type, body, since
			  FROM parley_retained
			 WHERE handle = ?
			 ORDER BY since, kept, stream_id, seq`,
		ListDead: `
			SELECT queue_id, message_id, stream_id, seq, group_id, kind, type, body, since, name,
			       handle, conversation, initiator, service, far, contract, priority, attempts,
			       suspicion, last_error, reason, died, :now
			  FROM parley_dead_letter
			 ORDER BY died DESC, message_id DESC
			 LIMIT ?`,
		ListDeadOf: `
			SELECT queue_id, message_id, stream_id, seq, group_id, kind, type, body, since, name,
			       handle, conversation, initiator, service, far, contract, priority, attempts,
			       suspicion, last_error, reason, died, :now
			  FROM parley_dead_letter
			 WHERE queue_id = ?
			 ORDER BY queue_id, died DESC, message_id DESC
			 LIMIT ?`,
		PostStatusPost: `
			SELECT type, body FROM parley_post WHERE post_id = ? AND queue_id = ?`,
		PostStatusKeyed: `
			SELECT g.name, m.type, m.body
			  FROM parley_message m
			  JOIN parley_stream s ON s.stream_id = m.stream_id
			  JOIN parley_grp g ON g.group_id = s.group_id
			 WHERE m.message_id = ? AND m.kind = 4 AND s.queue_id = ?`,
		PostStatusProcessed: `
			SELECT name, type, body FROM parley_processed WHERE post_id = ? AND queue_id = ?`,

		WorkerUpdate: `
			UPDATE parley_worker
			   SET worker_id = ?, queue_id = ?, owner = ?, readers = ?, since = :now, until = :now + ?, in_hand = ?,
			       alone = ?
			 WHERE reader_id = ?`,
		WorkerInsert: `
			INSERT INTO parley_worker (worker_id, queue_id, owner, readers, since, until, in_hand, alone, reader_id)
			VALUES (?, ?, ?, ?, :now, :now + ?, ?, ?, ?)`,
		WorkerOthers: `
			SELECT reader_id, worker_id, in_hand, alone FROM parley_worker
			 WHERE queue_id = ? AND worker_id <> ? AND in_hand IS NOT NULL`,
		WorkerPutDown: `
			UPDATE parley_worker SET in_hand = NULL WHERE reader_id = ?`,
		WorkerAlive: `
			UPDATE parley_worker SET until = :now + ? WHERE worker_id = ?`,
		WorkerLeave: `
			DELETE FROM parley_worker WHERE worker_id = ?`,
		WorkerLeaveOne: `
			DELETE FROM parley_worker WHERE reader_id = ?`,
		WorkerList: `
			SELECT reader_id, worker_id, queue_id, owner, readers, :now - since, until - :now, in_hand, alone
			  FROM parley_worker
			 ORDER BY queue_id, worker_id, reader_id`,
		WorkerSweep: `
			DELETE FROM parley_worker WHERE until < :now - ?`,
	}
}
