package doctor

// The codes of findings; those of warnings about the store are in package
// backend. docs/doctor.md explains all of them.
const (
	codeMissing     = "schema.missing"
	codeNewer       = "schema.newer"
	codeUnreadable  = "store.error"
	codeClock       = "store.clock"
	codeMaintenance = "maintenance.stopped"

	codeDisabled   = "queue.disabled"
	codeNoWorker   = "worker.none"
	codeDeadWorker = "worker.dead"
	codeNoHandler  = "type.unhandled"
	codeMore       = "more"

	codeParked    = "group.parked"
	codeDeferred  = "group.deferred"
	codeHeld      = "group.held"
	codeReady     = "group.ready"
	codeStranded  = "group.stranded"
	codeOrphaned  = "message.orphaned"
	codeEmpty     = "group.empty"
	codePromotion = "promotion.ended"

	codeInHand    = "message.inhand"
	codeDelayed   = "message.delayed"
	codeProcessed = "message.processed"
	codeWithheld  = "message.withheld"
	codeNoService = "service.unknown"
	codeDead      = "message.dead"
	codeUnknown   = "unknown"

	codeOld = "conversation.old"

	codeHalted   = "plan.halted"
	codeBarrier  = "plan.barrier"
	codeNoPool   = "plan.idle"
	codeTaskHeld = "task.running"
	codeTaskOver = "task.over"

	codeLock = "lock.waits"

	codeOverdue    = "recurring.overdue"
	codeCannotPost = "recurring.failing"
)
