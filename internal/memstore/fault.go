package memstore

import (
	"context"
	"time"

	"github.com/parleymq/parley/backend"
)

// Fault is a deliberate mistake: with it, exactly one thing is done wrong, at
// exactly one place in the code. A check of the conformance suite is worth
// something if it passes without the fault and fails with it.
type Fault string

// FaultInfo says what a fault breaks.
type FaultInfo struct {
	Fault  Fault
	Breaks string // the sentence of docs/semantics.md
	Says   string
}

// The faults. Faults says what they are.
const (
	FaultTwoReceivers          Fault = "two-receivers"
	FaultSenderWaits           Fault = "sender-waits"
	FaultMarksFirstOnly        Fault = "marks-first-only"
	FaultRetryOvertaken        Fault = "retry-overtaken"
	FaultMoveWaits             Fault = "move-waits"
	FaultFenceIgnored          Fault = "fence-ignored"
	FaultOldLook               Fault = "old-look"
	FaultUncounted             Fault = "uncounted"
	FaultFinishUnguarded       Fault = "finish-unguarded"
	FaultStateBeforeLock       Fault = "state-before-lock"
	FaultFoldsCase             Fault = "folds-case"
	FaultNumbersLost           Fault = "numbers-lost"
	FaultNoneIsEmpty           Fault = "none-is-empty"
	FaultEqualHandles          Fault = "equal-handles"
	FaultSendsPart             Fault = "sends-part"
	FaultTogetherLoses         Fault = "together-loses"
	FaultTogetherWaits         Fault = "together-waits"
	FaultSendUnguarded         Fault = "send-unguarded"
	FaultHeldOvertaken         Fault = "held-overtaken"
	FaultStaleCatalog          Fault = "stale-catalog"
	FaultUniqueIgnored         Fault = "unique-ignored"
	FaultDelayIgnored          Fault = "delay-ignored"
	FaultCancelHeld            Fault = "cancel-held"
	FaultTrimsBodies           Fault = "trims-bodies"
	FaultKeepsNothing          Fault = "keeps-nothing"
	FaultParkForgotten         Fault = "park-forgotten"
	FaultBytesIgnored          Fault = "bytes-ignored"
	FaultRollbackReorders      Fault = "rollback-reorders"
	FaultSkipsMessage          Fault = "skips-message"
	FaultLatestOfMany          Fault = "latest-of-many"
	FaultBusyFirst             Fault = "busy-first"
	FaultMixesConversations    Fault = "mixes-conversations"
	FaultNewestFirst           Fault = "newest-first"
	FaultReturnsFirst          Fault = "returns-first"
	FaultErrorLast             Fault = "error-last"
	FaultTimerLast             Fault = "timer-last"
	FaultMaxIgnored            Fault = "max-ignored"
	FaultLeaseForever          Fault = "lease-forever"
	FaultPostsUnordered        Fault = "posts-unordered"
	FaultReceiverWaits         Fault = "receiver-waits"
	FaultNamedUnlocked         Fault = "named-unlocked"
	FaultSettleFrees           Fault = "settle-frees"
	FaultRollbackKeepsLock     Fault = "rollback-keeps-lock"
	FaultBeginBesideClose      Fault = "begin-beside-close"
	FaultSavepointFrees        Fault = "savepoint-frees"
	FaultMoveLoses             Fault = "move-loses"
	FaultPriorityIgnored       Fault = "priority-ignored"
	FaultSilentRaise           Fault = "silent-raise"
	FaultRulesReachBack        Fault = "rules-reach-back"
	FaultFirstPromotionStays   Fault = "first-promotion-stays"
	FaultLastPromotionFirst    Fault = "last-promotion-first"
	FaultPromotionLostWhenHeld Fault = "promotion-lost-when-held"
	FaultOneShotStays          Fault = "one-shot-stays"
	FaultUntilEmptyEnds        Fault = "until-empty-ends"
	FaultUntilEmptyKept        Fault = "until-empty-kept"
	FaultUntilEmptyStays       Fault = "until-empty-stays"
	FaultOneShotLostByRollback Fault = "one-shot-lost-by-rollback"
	FaultTimerTwice            Fault = "timer-twice"
	FaultTimerToPeer           Fault = "timer-to-peer"
	FaultTimerEarly            Fault = "timer-early"
	FaultLifetimeOneSide       Fault = "lifetime-one-side"
	FaultLifetimeUntold        Fault = "lifetime-untold"
	FaultTimerSurvivesEnd      Fault = "timer-survives-end"
	FaultTimerSurvivesRollback Fault = "timer-survives-rollback"
	FaultEndOvertakes          Fault = "end-overtakes"
	FaultKeepsUnread           Fault = "keeps-unread"
	FaultErrorDelivers         Fault = "error-delivers"
	FaultNeverSealed           Fault = "never-sealed"
	FaultErrorSends            Fault = "error-sends"
	FaultResendLost            Fault = "resend-lost"
	FaultOnceForgets           Fault = "once-forgets"
	FaultOnceUnlocked          Fault = "once-unlocked"
	FaultOnceAgain             Fault = "once-again"
	FaultNoMembers             Fault = "no-members"
	FaultSealedUnlisted        Fault = "sealed-unlisted"
	FaultSenderTakesGroup      Fault = "sender-takes-group"
	FaultTimerDiesWithProcess  Fault = "timer-dies-with-process"
	FaultCleanupKeeps          Fault = "cleanup-keeps"
	FaultTellsEnded            Fault = "tells-ended"
	FaultEndedReceives         Fault = "ended-receives"
	FaultClosedStays           Fault = "closed-stays"
	FaultRetainedReturns       Fault = "retained-returns"
	FaultRetainedSurvivesEnd   Fault = "retained-survives-end"
	FaultRetainsAlways         Fault = "retains-always"
	FaultNotifyLost            Fault = "notify-lost"
	FaultListenSilent          Fault = "listen-silent"
	FaultPostsUnlocked         Fault = "posts-unlocked"
	FaultSharedAndIntent       Fault = "shared-and-intent"
	FaultReleaseFrees          Fault = "release-frees"
	FaultLockModeLost          Fault = "lock-mode-lost"
	FaultLockBarges            Fault = "lock-barges"
	FaultLockOutlivesTx        Fault = "lock-outlives-tx"
	FaultSessionForever        Fault = "session-forever"
	FaultDeadlockUnseen        Fault = "deadlock-unseen"
	FaultLockFoldsCase         Fault = "lock-folds-case"
	FaultBarrierRunningOnly    Fault = "barrier-running-only"
	FaultBarrierOneBelow       Fault = "barrier-one-below"
	FaultBarrierOfEarlier      Fault = "barrier-of-earlier"
	FaultNoTurns               Fault = "no-turns"
	FaultAbandonedIsOver       Fault = "abandoned-is-over"
	FaultHaltIgnored           Fault = "halt-ignored"
	FaultLateAccepted          Fault = "late-accepted"
	FaultTaskFenceIgnored      Fault = "task-fence-ignored"
	FaultMaxActiveIgnored      Fault = "max-active-ignored"
	FaultFinishedTwice         Fault = "finished-twice"
	FaultLockFencePasses       Fault = "lock-fence-passes"
	FaultStopUntold            Fault = "stop-untold"
	FaultHeadersStick          Fault = "headers-stick"
	FaultHeadersLostByDelay    Fault = "headers-lost-by-delay"
	FaultHeadersLostByRetry    Fault = "headers-lost-by-retry"
	FaultHeadersLostWithheld   Fault = "headers-lost-withheld"
	FaultHeadersBuried         Fault = "headers-buried"
	FaultBodiesBuried          Fault = "bodies-buried"
	FaultErrorsForgotten       Fault = "errors-forgotten"
	FaultErrorsUndated         Fault = "errors-undated"
	FaultErrorsBuried          Fault = "errors-buried"
	FaultHeadersCut            Fault = "headers-cut"
	FaultHeadersUncounted      Fault = "headers-uncounted"
	FaultTracesStay            Fault = "traces-stay"
	FaultDeathUnseen           Fault = "death-unseen"
	FaultUnblocksAll           Fault = "unblocks-all"
	FaultDeathForgotten        Fault = "death-forgotten"
	FaultSubmitUnlocked        Fault = "submit-unlocked"
	FaultNewerAccepted         Fault = "newer-accepted"
	FaultAnnouncementUnheard   Fault = "announcement-unheard"
	FaultHistoryLost           Fault = "history-lost"
	FaultNeverRemoved          Fault = "never-removed"
	FaultInHandUnlisted        Fault = "in-hand-unlisted"
	FaultWaitsForever          Fault = "waits-forever"
	FaultOneUnknown            Fault = "one-unknown"
	FaultSecondConnection      Fault = "second-connection"
	FaultConnectionLost        Fault = "connection-lost"
	FaultLockedHides           Fault = "locked-hides"
	FaultDisabledHides         Fault = "disabled-hides"
	FaultGroupsHead            Fault = "groups-head"
	FaultOrderWindow           Fault = "order-window"
	FaultPromotionWindow       Fault = "promotion-window"
	FaultAgeOfBest             Fault = "age-of-best"
	FaultAgeOfFirst            Fault = "age-of-first"
	FaultRankOfHead            Fault = "rank-of-head"
	FaultWaitingStreams        Fault = "waiting-streams"
	FaultWaitingLocks          Fault = "waiting-locks"
	FaultRaiseIgnored          Fault = "raise-ignored"
	FaultRaiseLowers           Fault = "raise-lowers"
	FaultEndOfStreamResent     Fault = "end-of-stream-resent"
	FaultPoolOverstated        Fault = "pool-overstated"
	FaultClaimCounts           Fault = "claim-counts"
	FaultClosedServes          Fault = "closed-serves"
	FaultEndedServes           Fault = "ended-serves"
	FaultCancelLost            Fault = "cancel-lost"
	FaultTaskRequestLost       Fault = "task-request-lost"
	FaultCancelWaits           Fault = "cancel-waits"
	FaultCancelForgotten       Fault = "cancel-forgotten"
	FaultCancelledKept         Fault = "cancelled-kept"
	FaultDelayedUnlisted       Fault = "delayed-unlisted"
	FaultRecurringUnlocked     Fault = "recurring-unlocked"
	FaultRecurringHides        Fault = "recurring-hides"
	FaultRecurringEarly        Fault = "recurring-early"
	FaultRecurringPaused       Fault = "recurring-paused"
	FaultCatchUpLost           Fault = "catch-up-lost"
	FaultOverlapLost           Fault = "overlap-lost"
	FaultRevisionLost          Fault = "revision-lost"
)

// Faults is the list of all faults.
var Faults = []FaultInfo{
	{FaultTwoReceivers, "I1", "a claim takes a group that another transaction holds"},
	{FaultSenderWaits, "I2", "a sender waits for the receiver that holds the target's group"},
	{FaultMarksFirstOnly, "I3", "only the first message of a stream puts it into the ready order"},
	{FaultRetryOvertaken, "I4", "the messages behind a failed message are delivered before it"},
	{FaultMoveWaits, "I5", "Move waits for a sender's guard while it holds groups"},
	{FaultFenceIgnored, "I6", "a leased hold is accepted whatever its fence"},
	{FaultOldLook, "RA", "a claim delivers what it saw before it had the lock"},
	{FaultUncounted, "RA", "a settle accepts an acknowledgement of a message that is not there"},
	{FaultFinishUnguarded, "RB", "a settle judges whether a stream is empty without its guard"},
	{FaultStateBeforeLock, "RC", "a claim tests a group's state before it has the lock"},
	{FaultWaitsForever, "A01", "a caller that has a connection waits for another one without limit"},
	{FaultOneUnknown, "A02", "a caller that has the only connection waits for another one like any other"},
	{FaultSecondConnection, "A03", "a read takes a second connection while it has one"},
	{FaultConnectionLost, "A04", "a caller that gave up waiting for a connection takes one anyway"},
	{FaultUnblocksAll, "A21", "a group that becomes ready takes the guards of all its streams at once"},
	{FaultDeathForgotten, "A22", "a verb that takes a group after its lease ran out forgets that the receiver died"},
	{FaultFoldsCase, "D10", "names that differ only in case are one name"},
	{FaultNumbersLost, "D03", "a rollback uses a sequence number"},
	{FaultNoneIsEmpty, "D08", "a missing body becomes an empty one"},
	{FaultEqualHandles, "D01", "a side gets the peer's handle as its own"},
	{FaultTogetherLoses, "D14", "of several verbs that go together the last is lost"},
	{FaultTogetherWaits, "D15", "verbs that go together wait for locks"},
	{FaultSendsPart, "D11", "a batch with a refused message sends the others"},
	{FaultSendUnguarded, "D12", "a sender takes its number without the guard"},
	{FaultHeldOvertaken, "D04", "a message is sent past earlier ones that are withheld"},
	{FaultStaleCatalog, "P02", "decisions by an old catalog are accepted"},
	{FaultUniqueIgnored, "N03", "a unique post is added although its duplicate is pending"},
	{FaultDelayIgnored, "N02", "a delayed post joins its queue at once"},
	{FaultCancelHeld, "N04", "a post in a receiver's hands can be cancelled"},
	{FaultDelayedUnlisted, "K01", "delayed posts are missing from the list of pending ones"},
	{FaultCancelWaits, "K01", "a request to cancel a post waits for its receiver"},
	{FaultCancelLost, "K02", "a request to cancel a post is not stored"},
	{FaultCancelledKept, "K02", "a cancelled post is kept as a processed one"},
	{FaultTaskRequestLost, "F04", "a request to cancel a task whose row is locked is not stored"},
	{FaultCancelForgotten, "K03", "a request to cancel a post is dropped while its receiver has it in hand"},
	{FaultTrimsBodies, "N05", "trailing zero bytes of a body are lost"},
	{FaultKeepsNothing, "N06", "processed posts are not kept"},
	{FaultParkForgotten, "N07", "a parked group is received again"},
	{FaultBytesIgnored, "N08", "a claim returns more bytes than it was asked for"},
	{FaultRollbackReorders, "O03", "a rollback of the receiver swaps the first two messages"},
	{FaultSkipsMessage, "O01", "a claim skips a message in the middle of a stream"},
	{FaultLatestOfMany, "O01", "a claim of at most n messages takes the last n of the stream"},
	{FaultMixesConversations, "O04", "the messages of the conversations of a group are mixed"},
	{FaultBusyFirst, "O10", "one conversation of a group comes first as long as it has messages"},
	{FaultNewestFirst, "O05", "of groups of equal rank the youngest comes first"},
	{FaultReturnsFirst, "O11", "a group whose deferral is over has the place of its oldest message"},
	{FaultErrorLast, "O06", "an Error comes after the users' messages"},
	{FaultTimerLast, "O06", "a DialogTimer comes after the users' messages"},
	{FaultMaxIgnored, "O07", "a claim returns more messages than it was asked for"},
	{FaultLeaseForever, "O08", "a lease does not expire"},
	{FaultPostsUnordered, "N01", "each post of a key is in a separate stream"},
	{FaultReceiverWaits, "G01", "a second receiver waits for a held group instead of passing it"},
	{FaultNamedUnlocked, "G02", "a claim of a group by its name takes it although it is held"},
	{FaultSettleFrees, "G07", "a settle frees the group before its transaction ends"},
	{FaultRollbackKeepsLock, "G07", "a rollback leaves the group locked"},
	{FaultBeginBesideClose, "G07", "Close leaves transactions open that begin meanwhile"},
	{FaultSavepointFrees, "G09", "a rollback to a savepoint frees the groups that were locked before it"},
	{FaultMoveLoses, "G08", "Move loses the messages of the conversation"},
	{FaultPriorityIgnored, "P04", "the priority of conversations does not count"},
	{FaultSilentRaise, "P05", "a conversation without messages raises its group"},
	{FaultRulesReachBack, "P02", "a new rule changes conversations that exist"},
	{FaultFirstPromotionStays, "P08", "a second promotion does not replace the first"},
	{FaultLastPromotionFirst, "P08", "of equal promotions the latest is served first"},
	{FaultPromotionLostWhenHeld, "P09", "a promotion of a group that is held is lost"},
	{FaultOneShotStays, "P10", "a one-shot promotion stays when its group has been served"},
	{FaultUntilEmptyEnds, "P18", "a promotion until a group is empty ends as a one-shot promotion does"},
	{FaultUntilEmptyKept, "P18", "a promotion until a group is empty stays when the last post is cancelled"},
	{FaultUntilEmptyStays, "P18", "a promotion until a group is empty stays when it is"},
	{FaultOneShotLostByRollback, "P10", "a one-shot promotion is gone although the claim was rolled back"},
	{FaultTimerTwice, "T02", "a timer fires twice"},
	{FaultTimerToPeer, "T01", "a timer fires on the other side"},
	{FaultTimerEarly, "T04", "a timer fires before it is due"},
	{FaultLifetimeOneSide, "T05", "only the initiator hears that the lifetime is over"},
	{FaultLifetimeUntold, "T06", "an endpoint does not show its lifetime"},
	{FaultTimerSurvivesEnd, "T03", "a timer survives the end of its side"},
	{FaultTimerSurvivesRollback, "T03", "a timer survives the rollback of its transaction"},
	{FaultEndOvertakes, "E01", "EndDialog comes before what was sent earlier"},
	{FaultKeepsUnread, "E04", "the unread messages of a side that ends stay"},
	{FaultErrorDelivers, "E05", "ending with an error delivers what was withheld"},
	{FaultCleanupKeeps, "E08", "a cleanup leaves in the store what was withheld"},
	{FaultTellsEnded, "E06", "a side that ends tells a peer that ended before"},
	{FaultEndedReceives, "E07", "a side that has ended still receives"},
	{FaultClosedStays, "E10", "a conversation that both sides have ended stays"},
	{FaultRetainedReturns, "R01", "a message of which a copy is kept is delivered again"},
	{FaultRetainedSurvivesEnd, "R02", "the kept copies stay when their side ends"},
	{FaultRetainsAlways, "R03", "a copy of what is sent is kept without being asked for"},
	{FaultNotifyLost, "Q03", "other processes are not told about new messages"},
	{FaultListenSilent, "Q03", "messages sent before a process listens are never announced"},
	{FaultPostsUnlocked, "Q04", "a post without key is handed to two receivers"},
	{FaultNoMembers, "C01", "the conversations of a group are not found"},
	{FaultNeverSealed, "C03", "a message is taken after the last one"},
	{FaultSenderTakesGroup, "C04", "a sender takes the group of its own side as well"},
	{FaultErrorSends, "C05", "a side in error can still send"},
	{FaultResendLost, "C06", "nothing is moved to the dialog that replaces a failed one"},
	{FaultSealedUnlisted, "C07", "conversations that have had their last message are not found in their group"},
	{FaultTimerDiesWithProcess, "C08", "a timer dies with the process that set it"},
	{FaultSharedAndIntent, "L01", "Shared and IntentExclusive are compatible"},
	{FaultReleaseFrees, "L03", "the first release frees a lock that was taken twice"},
	{FaultLockModeLost, "L04", "a second request replaces the mode instead of adding to it"},
	{FaultLockBarges, "L05", "a new request passes those that wait"},
	{FaultLockOutlivesTx, "L06", "a transaction's application locks outlive it"},
	{FaultSessionForever, "L07", "a session's locks do not end with its lease"},
	{FaultDeadlockUnseen, "L08", "a cycle of waiters is not found"},
	{FaultLockFoldsCase, "L09", "names of locks that differ only in case are one lock"},
	{FaultBarrierRunningOnly, "F01", "the barrier looks only at tasks that are running"},
	{FaultBarrierOneBelow, "F02", "the barrier looks only at the phase numbered one below"},
	{FaultBarrierOfEarlier, "F03", "the barrier looks only at tasks that were submitted earlier"},
	{FaultNoTurns, "F09", "claims always begin with the same plan"},
	{FaultAbandonedIsOver, "F05", "a task whose worker died does not hold up later phases"},
	{FaultHaltIgnored, "F06", "a dead task lets later phases start although the plan halts"},
	{FaultHeadersStick, "H01", "a message without headers has those of the message before it"},
	{FaultHeadersLostByDelay, "H01", "the headers of a delayed post are lost"},
	{FaultHeadersLostByRetry, "H02", "a message that has failed is received without its headers"},
	{FaultHeadersLostWithheld, "H03", "a message that was withheld is received without its headers"},
	{FaultHeadersBuried, "H04", "dead letters have no headers"},
	{FaultBodiesBuried, "X19", "dead letters have another body"},
	{FaultErrorsForgotten, "X21", "a message has the error of its last attempt alone"},
	{FaultErrorsUndated, "X21", "the errors of attempts have no times"},
	{FaultErrorsBuried, "X21", "dead letters have no errors of attempts"},
	{FaultHeadersCut, "H05", "headers whose text is long are lost"},
	{FaultHeadersUncounted, "H06", "a claim does not count headers"},
	{FaultLateAccepted, "F07", "a task of a phase that is over is accepted"},
	{FaultTaskFenceIgnored, "F10", "a task is finished by a worker that has lost it"},
	{FaultMaxActiveIgnored, "F12", "more tasks run at once than the plan allows"},
	{FaultLockFencePasses, "L07", "the write of a lock's former owner passes"},
	{FaultSubmitUnlocked, "F08", "a submission does not wait for a claim of the same plan"},
	{FaultStopUntold, "F04", "the workers of cancelled tasks are not told"},
	{FaultTracesStay, "X18", "a message that has been handled stays in the records of workers that died with it"},
	{FaultDeathUnseen, "X09", "the death of a receiver with a message in hand goes unnoticed"},
	{FaultInHandUnlisted, "X16", "what a receiver had in hand is not listed with its record"},
	{FaultOnceForgets, "X10", "keys of Once are forgotten before their time"},
	{FaultOnceAgain, "N09", "a key of Once is new although it is known"},
	{FaultOnceUnlocked, "X10", "two transactions that record the same key do not wait for each other"},
	{FaultFinishedTwice, "F13", "a finished task is given to more than one caller"},
	{FaultNewerAccepted, "M01", "any newer schema is worked with"},
	{FaultAnnouncementUnheard, "M02", "a program does not learn that it is too old"},
	{FaultHistoryLost, "M04", "earlier definitions are forgotten"},
	{FaultNeverRemoved, "M05", "removed objects stay in the catalog"},
	{FaultLockedHides, "A27", "a job ends at the first row that is locked"},
	{FaultDisabledHides, "A28", "the batch of a job is filled with posts of disabled queues"},
	{FaultGroupsHead, "A29", "each clean-up of groups begins at the same end and looks at one batch"},
	{FaultOrderWindow, "A23", "a claim looks at the first hundred streams only"},
	{FaultPromotionWindow, "A24", "a claim looks at the first hundred promotions only"},
	{FaultRankOfHead, "P14", "a key has the rank of its first waiting post"},
	{FaultWaitingStreams, "V06", "a page of waiting messages goes on with the next stream"},
	{FaultWaitingLocks, "V06", "the list of waiting messages waits for transactions"},
	{FaultAgeOfBest, "V05", "the age of a group is that of its best conversation"},
	{FaultAgeOfFirst, "V05", "the age of a queue is that of the first message in the order"},
	{FaultRaiseIgnored, "P17", "a post that raises its key leaves the rank as it is"},
	{FaultRaiseLowers, "P17", "a post that raises its key gives it a lower rank, too"},
	{FaultEndOfStreamResent, "C06", "EndOfStream is sent again on the next dialog"},
	{FaultPoolOverstated, "A05", "the pool says that it has one connection more than it has"},
	{FaultClaimCounts, "X14", "a claim that is rolled back counts as an attempt"},
	{FaultClosedServes, "B09", "a handle that was closed goes on serving"},
	{FaultEndedServes, "B09", "a transaction that has ended takes further verbs"},
	{FaultRecurringUnlocked, "J01", "a claim takes a recurring job that another transaction has locked"},
	{FaultRecurringHides, "J02", "a recurring job that is locked hides those that are due after it"},
	{FaultRecurringEarly, "J03", "a claim takes a recurring job before it is due"},
	{FaultCatchUpLost, "J04", "the catch-up policy of a recurring job is not stored"},
	{FaultOverlapLost, "J05", "the overlap policy of a recurring job is not stored"},
	{FaultRevisionLost, "J06", "the revision of a recurring job is not stored"},
	{FaultRecurringPaused, "J07", "a claim takes a recurring job that is paused"},
}

// What only faults need.

// earlier is what a claim has seen before it had the lock.
type earlier struct {
	group    *version[backend.ID, group]
	messages []*backend.Message
}

// or returns the row that was seen earlier, if one was, else the one given.
func (e earlier) or(g group, ok bool) (group, bool) {
	if e.group != nil {
		return e.group.row, true
	}
	return g, ok
}

// peek reads a group without holding it.
func (c *claim) peek(id backend.ID) []*backend.Message {
	g, _ := c.tx.store.groups.get(c.tx, id)
	left := c.bytes
	messages, _ := c.tx.store.read(c.tx, g, id, reading{max: c.MaxMessages, bytes: &left, first: true, handle: c.Handle})
	return messages
}

// pause lets others go on in the middle of a call.
func (s *Store) pause() {
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
	s.mu.Lock()
}

// waitForReceivers waits until no receiver holds the groups to which messages go.
func (tx *Tx) waitForReceivers(ctx context.Context, messages []backend.Outgoing) error {
	for _, m := range messages {
		if home, ok := tx.store.home(tx, m.From); ok && !tx.holdsLock(groupLock(home)) {
			if err := tx.lock(ctx, groupLock(home)); err != nil {
				return err
			}
			tx.unlock(groupLock(home))
		}
	}
	return nil
}

// swapHeads swaps the first two messages of each stream that was delivered.
func (s *Store) swapHeads(holds map[backend.ID]*backend.Hold) {
	for _, hold := range holds {
		for _, m := range hold.Messages {
			first, second := s.messages.of(numbered{m.Stream, m.Seq}), s.messages.of(numbered{m.Stream, m.Seq + 1})
			if len(first) > 0 && len(second) > 0 {
				first[0].row, second[0].row = second[0].row, first[0].row
				break
			}
		}
	}
}

// rateAgain gives conversations that exist the levels of the rules.
func (s *Store) rateAgain(tx *Tx, c *backend.Catalog) {
	for _, handle := range s.endpoints.keys(tx) {
		e, _ := s.endpoints.get(tx, handle)
		for _, r := range c.Priorities {
			if (r.Contract == "" || r.Contract == e.Contract) && (r.Local == "" || r.Local == e.Service) && (r.Remote == "" || r.Remote == e.FarService) {
				e.Priority = r.Level
			}
		}
		s.endpoints.put(tx, handle, e)
		if in, ok := s.streams.get(tx, e.FarHandle); ok {
			in.priority = e.Priority
			s.streams.put(tx, e.FarHandle, in)
			s.remark(tx, e.FarHandle)
		}
	}
}

// last returns the number of the last message of a stream.
func (s *Store) last(tx *Tx, id backend.ID) int64 {
	last := int64(-1)
	for key := range rowsOf(&s.messages, tx, id) {
		last = key.n
	}
	return last
}

// highest returns the highest priority in the group of a stream, of members
// with and without messages.
func (s *Store) highest(tx *Tx, id backend.ID) int {
	home, _ := s.home(tx, id)
	priority := 0
	for _, stream := range s.homed(tx, home) {
		st, _ := s.streams.get(tx, stream)
		priority = max(priority, st.priority)
	}
	return priority
}

// held reports whether a receiver holds a group.
func (s *Store) held(id backend.ID, g group) bool {
	return s.locks[groupLock(id)] != nil || g.lease != nil && s.alive(g.lease)
}
