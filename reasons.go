package parley

// The codes of findings; those of warnings about the store are in package
// backend. docs/doctor.md explains all of them.
const (
	reasonMissing    = "schema.missing"
	reasonNewer      = "schema.newer"
	reasonUnreadable = "store.error"
	reasonClock      = "store.clock"
	reasonDuty       = "duty.stopped"
	reasonPool       = "pool.short"

	reasonDisabled   = "queue.disabled"
	reasonNoWorker   = "worker.none"
	reasonDeadWorker = "worker.dead"
	reasonNoHandler  = "type.unhandled"
	reasonMore       = "more"

	reasonParked    = "group.parked"
	reasonDeferred  = "group.deferred"
	reasonHeld      = "group.held"
	reasonReady     = "group.ready"
	reasonEmpty     = "group.empty"
	reasonPromotion = "promotion.ended"

	reasonInHand    = "message.inhand"
	reasonDelayed   = "message.delayed"
	reasonProcessed = "message.processed"
	reasonWithheld  = "message.withheld"
	reasonNoService = "service.unknown"
	reasonDead      = "message.dead"
	reasonUnknown   = "unknown"

	reasonOld = "conversation.old"

	reasonHalted   = "schedule.halted"
	reasonBarrier  = "schedule.barrier"
	reasonNoPool   = "schedule.idle"
	reasonTaskHeld = "task.running"
	reasonTaskOver = "task.over"

	reasonLock = "lock.waits"
)
