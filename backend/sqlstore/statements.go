package sqlstore

// Statements are the statements of an engine. What a statement does not say stands in the
// fields' names and groups, and beside its text in the folder sql.
type Statements struct {
	// Schema and catalog.
	SchemaExists   *Stmt // a row if there is the table meta
	SchemaVersion, // with the catalog's
	SchemaProgram, SchemaAnnounce,
	SchemaOldest, SchemaFinish,
	SchemaLeases, // of groups, posts and tasks, that began by a time
	SchemaClock, // empty where the dialect has a Clock
	SchemaTables, // with what the role may not do to each, with commas between
	SchemaIndexes *Stmt // each with its table, and 1 if it can be used
	CatalogVersion, CatalogLock, CatalogBump, CatalogObjects, CatalogQueues, ObjectDelete, ObjectInsert,
	DefinitionsRead, DefinitionInsert, DefinitionsInsert, QueueRead, QueueInsert, QueuesInsert, QueueUpdate *Stmt

	// Groups. GroupTry locks one without waiting, GroupFree only if no receiver
	// has it by lease. GroupReclaim does not wait for a transaction that has the row locked,
	// GroupReclaimWait does.
	GroupTry, GroupFree,
	GroupInsert, // nothing if it exists
	GroupJoin, GroupRead, GroupLease, GroupUnlease, GroupReclaim, GroupReclaimWait, GroupExtend, GroupBlock,
	GroupUnblock,
	GroupDue, // a row if it is deferred and due, or ready and to be looked at again
	GroupDelete, GroupUse *Stmt

	// Endpoints and what is known of their other side.
	EndpointInsert, EndpointRead, EndpointsOfGroup, EndpointHome, EndpointClose, EndpointFinish, EndpointMove,
	EndpointDelete,
	EndRead,
	EndUnread, // is EndRead with what waits for the side, and whether the other one is quiet; may be empty
	ClosingInsert, ClosingDelete *Stmt

	// Streams. GuardLock waits for the guard, GuardTry does not.
	GuardLock, GuardTry, StreamInsert, StreamRead, StreamHome, StreamAdvance, StreamRank, StreamHold,
	StreamUnhold, StreamClose, StreamSeal, StreamMove, StreamDelete, StreamsOfEndpoint, StreamsOfGroup *Stmt

	// Both sides of a conversation are removed by these.
	ClosingsDelete, StreamsDelete, EndpointsDelete *Stmt

	// Messages.
	MessageInsert, MessageDelete, MessageRead, MessageFind, KeyedFind, MessageKeys, MessageFirst, MessagesOfEndpoint *Stmt

	// The ready order.
	MarkerInsert, // nothing if it exists
	MarkerTry, MarkerDelete, MarkerSince, MarkerRaise, MarkerMove, MarkerRead,
	MarkersAstray *Stmt // those with messages and no marker, or one of another time

	// Messages that wait for their target.
	HeldInsert, HeldRead, HeldMove, HeldDelete *Stmt

	// Keys of posts.
	KeyRead,
	KeyInsert, // nothing if it exists
	KeyDelete *Stmt

	// Posts without key, and those that are not yet due. PostTry and DelayedTry
	// lock one without waiting, PostFree only if no receiver has it by lease.
	PostTry, PostFree, PostsFree,
	PostOne, // an insert that checks catalog and queue
	PostInsert, PostRead, PostLease, PostUnlease, PostReclaim, PostReclaimWait, PostExtend, PostBlock,
	PostUnblock,
	PostDue, // unblocks it if it is due
	PostFail, PostDelete, DelayedTry, DelayedFree, DelayedInsert, DelayedRead, DelayedDelete, UniqueRead,
	UniqueInsert, // nothing if it exists
	UniqueDelete, ProcessedInsert *Stmt

	// The claim.
	ClaimWalk, // reads the state of the catalog and the queue, and the first of what there is to walk
	WalkPromoted,
	FreeReady, // puts back into the ready order what expired leases keep out
	FirstMessages, LeaseGroups, TakePosts,
	LeasePosts, // takes posts and marks them as held by lease; may be empty
	Waiting, // a row if there is something to claim, or in a receiver's hands
	Claimable, // a row if there is something to claim in a queue
	GroupVisible, GroupStreams *Stmt

	// What deliveries leave behind.
	FailurePut, // insert or replace
	FailureDelete, DeadInsert, DeadDelete, RetainedInsert, RetainedDelete *Stmt

	// Promotions. PromotionTry locks one, if it has the version, without waiting.
	PromotionPut, // insert or replace
	PromotionTry, PromotionRead, PromotionDelete, PromotionDrop,
	PromotionEmpty, // if it lasts until the group is empty
	GroupWaits *Stmt // of each stream of a group, whether messages wait in it

	TimerPut, // insert or replace
	TimerDelete,
	TimerExpire, // deletes it if it is due
	TimerQueue, // of a timer that an older program has set
	TimersDelete, TimerTry,
	OnceInsert *Stmt // nothing if it exists

	// Maintenance. What falls due is read in pages of duePage rows: id, due and key. Firsts
	// are the queues that are on, with the time until the first of each is due.
	DueDelayed, DueTimers, DueGroups, DuePosts, DueProcessed, DelayedFirsts, TimerFirsts, NextGroup, NextPost,
	NextProcessed, NextFinished, ProcessedDelete, OnceDue, OnceDelete,
	ReadyQueues, // with entries in the ready order
	Stale, FinishedEndpoints, EndpointsAfter, GroupsAfter, WalkPlace,
	WalkPut, // if it is the handle's turn
	WalkStep, // unless another process was faster
	LostPromotions *Stmt

	// Application locks. LockTurn locks a stripe of names and draws the next fence; OwnerTry locks
	// an owner without waiting. OwnerEnd ends the connection of a native session whose lease is
	// over. On an engine with native sessions, OwnerExpire removes a session only when its
	// connection is gone.
	LockTurn, LockFence, LockRows, LockInsert, LockChange, LockWait, LockDelete, LockDrop, LockGraph,
	OwnerInsert, OwnerRead, OwnerTouch, OwnerHold, OwnerRenew, OwnerTry, OwnerEnd, OwnerExpire, OwnerDelete,
	OwnersExpired,
	FenceInsert, // nothing if it exists
	FenceRaise *Stmt

	// Schedules and their tasks. ScheduleLock waits for the schedule,
	// ScheduleTry does not, nor does TaskTry. TaskHold waits.
	ScheduleInsert, // nothing if it exists
	ScheduleLock, ScheduleTry, ScheduleRead, ScheduleServed, ScheduleRest, ScheduleSeal, ScheduleDelete,
	SchedulesReady, TaskInsert, TaskTry, TaskHold, TaskRead, TasksDue, TasksStart, TaskStart, TaskFinish,
	TaskReturn, TaskExtend, TaskStop, TasksRunning, TasksCancel, TasksRetry, TasksSkip, TasksDelete,
	TasksFinished, TaskGiven *Stmt

	// Recurring jobs. RecurringLock waits for the job, RecurringTry does not. RecurringLook has the first ones to
	// claim, with the time until each is.
	RecurringInsert, // nothing if it exists
	RecurringUpdate, RecurringLook, RecurringTry, RecurringLock, RecurringRead, RecurringList *Stmt

	// Requests to cancel what others have in hand.
	CancelInsert, CancelDelete, CancelList,
	CancelPlan, // of a task that is not over
	PendingPosts, PendingDelayed, PendingDelayedOfKey, PendingKeyed, PendingOfKey *Stmt

	// Records of readers. WorkerPut changes and reads in one statement, in a separate
	// transaction whose commit need not wait for the disk. Without it the store uses WorkerUpdate,
	// WorkerInsert and WorkerOthers or WorkerOther.
	WorkerPut, WorkerUpdate, WorkerInsert, WorkerOthers, WorkerOther, WorkerPutDown, WorkerLock, WorkerInHand,
	WorkerKeep, WorkerAlive, WorkerLeave, WorkerLeaveOne, WorkerList, WorkerSweep *Stmt

	// For operators.
	ListLocks, ListSchedules, ScheduleCounts, ScheduleError, ListTasks, ListRunning, OneTask, QueueStatus,
	ListPromoted, ListPromotedAfter, ListPromotions, ListAstray, ListReady, ListReadyAfter, ListPosts, ListPostsAfter, ListBlocked, ListBlockedPosts, GroupDetails,
	PostDetails, ListConversations, ListConversation, ListConversationsOfGroup,
	ConversationCounts, ListWithheld, ListRetained, ListDead, ListDeadOf, FindMessage, PostStatusPost,
	PostStatusKeyed, PostStatusProcessed,
	ListLater, ListHeld, ListHeldIn, ListMessages, ListMessagesIn, ListPostsByID *Stmt // those called In go on in a stream
}
