package conformance

// A Sentence is one numbered guarantee.
type Sentence struct {
	ID   string
	Text string
}

// section is a group of sentences under a title. docs/semantics.md is generated from the
// sections; UPDATE=1 go test -run TestSemanticsPage ./conformance writes it anew.
type section struct {
	title     string
	sentences []Sentence
}

// semanticsIntro stands before the sections.
const semanticsIntro = "" +
	"# Semantics\n" +
	"\n" +
	"What Parley guarantees, one numbered sentence each. Every sentence is a check of the\n" +
	"conformance suite under the same number (`parley conformance --list`), and for every sentence\n" +
	"there is at least one deliberately broken backend that its checks catch.\n" +
	"The letters follow the groups; numbers are never reused.\n" +
	"\n" +
	"The model is SQL Server Service Broker's. Where its documentation leaves a question\n" +
	"open, [decisions](decisions/README.md) say what was chosen and why.\n"

// Sentences are all guarantees, in the order in which they are checked.
var Sentences = allSentences()

func allSentences() (all []Sentence) {
	for _, s := range sections {
		all = append(all, s.sentences...)
	}
	return all
}

var sections = []section{
	{"Invariants", []Sentence{
		{"I1", "One receiver at a time is in a group, in any process, until it settles, rolls back, dies, or its lease ends."},
		{"I2", "A sender never waits for a receiver, however long it holds the group, and no claim, receive or settle waits for a sender's open transaction; only writers of the same stream wait for each other."},
		{"I3", "Once a sender has committed, its message is found by an ordinary receive."},
		{"I4", "Within a stream, messages are received in the order in which they were sent, through rollback, retry, crash, batch, promotion, parking and Move."},
		{"I5", "Verbs that need a group or stream held by another transaction or receiver wait a bounded time and then fail with ErrGroupBusy, and the transaction stays usable; opposite orders of locking never deadlock for ever."},
		{"I6", "What a receiver writes and its acknowledgement commit together or not at all, also when its hold has been lost meanwhile."},
		{"I7", "A transaction that the database ended, or that was lost with its connection, before the commit is not reported as committed; nothing of it remains, whatever is done in it afterwards."},
	}},
	{"Rules", []Sentence{
		{"RA", "A claim locks a group and then looks at it anew: what was consumed before the lock is never delivered, and a settle that finds fewer messages than were delivered fails and changes nothing."},
		{"RB", "A stream has one writer at a time, and its place in the ready order is changed only under its guard: no committed message is ever out of the order, and none waits for a clean-up."},
		{"RC", "Whether a group is leased, deferred or parked is read on the locked row, and a promotion waits for no sender and no receiver."},
	}},
	{"Progress", []Sentence{
		{"A01", "Nothing waits without a limit for a connection of the store's pool while it has one: any number of workers, with handlers that post on the side, handle everything on a pool of two or more, also where that is smaller than it says."},
		{"A02", "On a pool of one connection, a verb with a handler's context outside the transaction that the handler has asked for succeeds, or fails with ErrWouldDeadlock at once; everything is handled."},
		{"A03", "A read takes one connection at a time: any number of reads at once come to their end on every pool."},
		{"A04", "A caller that has a connection, and cannot get another one, fails in bounded time with ErrNotBegun or ErrWouldDeadlock; what it has stays usable, and no connection is lost."},
		{"A05", "Deliveries in transactions leave two connections of the pool to others: further ones are held by lease, or refused with ErrPool where HoldTransaction was asked for."},
		{"A20", "With the context of a handler that has asked for its transaction, a verb outside that transaction is carried out, or fails at once with ErrWouldDeadlock on a store with a single writer; it never waits for the handler."},
		{"A21", "A group that becomes ready keeps at most a hundred senders waiting at a time, and none whose stream has no message; the messages of all its streams are received."},
		{"A22", "A receiver whose lease ran out counts against the message that it had in hand, also when another verb has taken the group before the next receiver."},
		{"A27", "What is due but locked by others keeps nothing else that is due waiting."},
		{"A28", "What is due in a disabled queue keeps nothing in other queues waiting, and becomes a message when the queue is enabled."},
		{"A29", "Each group that nothing refers to is removed in the end, however many others are in use."},
		{"A23", "However many groups are in flight, a free group is received, in its order; a receive reports nothing only after it has passed all of them."},
		{"A24", "However many promotions are in flight, the next one goes before all that is not promoted."},
	}},
	{"Dialogs", []Sentence{
		{"D01", "When a conversation is begun, a message sent, and both committed, the other side receives it once; both sides share the conversation's id, have handles of their own, and one of them is the initiator."},
		{"D02", "A conversation on which nothing was sent is in state SO and exists on the initiator's side only."},
		{"D03", "A transaction that begins and sends and is rolled back leaves nothing behind, and uses up no number."},
		{"D04", "A message for a service that is not defined, or whose queue is disabled, is withheld with a text that says why; it is delivered in order once the service takes it."},
		{"D05", "A conversation on a contract that the target service does not list brings its initiator an Error with code -8408 and is in state ER."},
		{"D06", "A type that the contract does not let this side send is refused at once, and the conversation goes on."},
		{"D07", "A body that its type does not allow is never received; its sender gets an Error with code -9615 that names the sequence number."},
		{"D08", "A type with validation EMPTY takes no body; an empty body is taken by every type and arrives as none."},
		{"D09", "A related conversation joins the group; an unknown one is refused; an unknown related group is made with the given id."},
		{"D10", "Names are compared byte by byte: names that differ in case or in trailing space are different names, and 128 characters of any script are kept as they are."},
		{"D11", "A message for several conversations of which one cannot take it is sent on none."},
		{"D12", "Concurrent senders on one conversation get numbers without gaps, in the order in which they commit, and every message arrives."},
		{"D13", "A service may begin a conversation with itself on one queue: each side has its own handle and group and receives only what the other sent, and an END of one side arrives at the other."},
	}},
	{"Order", []Sentence{
		{"O01", "Messages sent on one conversation in several transactions are handled in their order by however many receivers."},
		{"O02", "While a message is being handled, no other receiver can receive the next of its conversation."},
		{"O03", "A message whose transaction rolled back is received again before the next of its conversation."},
		{"O04", "When several conversations of a group are received together, each one's messages stand together and in order."},
		{"O05", "Among groups of equal rank the one with the oldest ready message is received first."},
		{"O06", "Of one conversation a DialogTimer is received first, then an Error, then the rest as it was sent, EndDialog in its place."},
		{"O07", "A receive returns at most as many messages as asked for, all of one group, and the rest stays."},
		{"O08", "After a receiver has crashed its message is received again, and nothing has overtaken it."},
		{"O09", "A message that is released before the work is gone when its handler begins, and the next of its conversation can be received at once; a handler that fails loses it."},
		{"O10", "Among conversations of equal priority in a group, the one with the oldest waiting message is received first."},
	}},
	{"Group lock", []Sentence{
		{"G01", "A receiver that asks for the next group while another holds one gets a different group or nothing, and does not wait for the holder."},
		{"G02", "Asking for a held group by name returns nothing; with a wait it returns what is left once the holder has committed, or nothing at the end of the wait."},
		{"G03", "Holding one side's group does not hinder the other side in its own."},
		{"G04", "A sender commits without waiting while the group that it sends to is held, and the message is received afterwards."},
		{"G05", "GetGroup takes the group: the same transaction receives its messages, and no other receiver can."},
		{"G06", "A transaction that receives twice holds both groups until it ends."},
		{"G07", "When a transaction ends by commit, rollback or loss of its connection, all its groups are free."},
		{"G08", "After Move the messages of a conversation come under the new group; Move to another queue's group is refused; opposite concurrent moves both end."},
		{"G09", "After rolling back to a savepoint that was set under the group's lock, the messages are back and the group is still held."},
	}},
	{"Priority and promotion", []Sentence{
		{"P01", "A conversation's priority is the level of the most specific rule that matches it, contract before local before remote service, else 5."},
		{"P02", "A rule that changes later leaves existing conversations as they are and counts for new ones."},
		{"P03", "Each side of a conversation has its own priority."},
		{"P04", "Groups of higher priority are received first, and a group ranks by a conversation only while that has messages."},
		{"P05", "A group ranks by the highest priority among its conversations that have messages."},
		{"P06", "A promoted group is the next one received, whatever its priority and age."},
		{"P07", "A promotion asked for by the peer on its conversation takes effect before the backlog in front of it is handled."},
		{"P08", "Of equal promotions the first is served first, and a second promotion of a group replaces the first."},
		{"P09", "A promotion of a group that is held, has no message, or whose first message is withheld is kept and makes no sender or receiver wait."},
		{"P10", "A one-shot promotion ends when messages of the group were acknowledged, and stays when they were given back; a sticky one stays."},
		{"P11", "A promotion of a group that has ended does no harm and is removed; one of an unknown group is refused."},
		{"P12", "A chooser is shown the waiting groups in rank order; the one it returns is received next, or its next choice if that one is taken meanwhile."},
		{"P13", "A peer's promotion beyond what the service allows is refused and changes nothing, and works on the peer's own conversation only."},
		{"P14", "A key has the rank of its first post as long as it has posts, unless a post raises it."},
		{"P15", "A promotion of a key promotes all posts under it in their order, and no post of another key or queue; one of a key without posts is refused."},
		{"P16", "A promotion by a function promotes the groups and posts that it chooses, however many, in the order in which they would have been received, and no others."},
		{"P17", "A post that raises its key gives it its own rank if that is higher, with all that waits under it, as long as it has posts."},
		{"P18", "A promotion until a group is empty ends when messages were acknowledged, or a post was cancelled, and none waits in the group; what comes later is not promoted."},
	}},
	{"Timers and lifetime", []Sentence{
		{"T01", "A timer brings one DialogTimer without a body to the side that set it, and nothing to the other."},
		{"T02", "A timer set again fires once, at the later setting."},
		{"T03", "A timer set in a transaction that rolled back, or whose conversation ended, does not fire."},
		{"T04", "A timer outlives the process that set it and does not fire early."},
		{"T05", "After its lifetime both sides of a conversation receive an Error with code -8489, cannot send, can receive what is queued, and can end."},
		{"T06", "A timer beyond the lifetime is refused."},
	}},
	{"End and error", []Sentence{
		{"E01", "When one side ends, the other receives EndDialog after all that was sent, is in state DI and cannot send; when it has ended too, both are gone."},
		{"E02", "A side that ends with an error brings the other an Error with its code and text before anything else that waits, and the state ER."},
		{"E03", "An error without a text, or with a code that is not above zero, is refused."},
		{"E04", "A side that ends removes its unread messages; they are never received."},
		{"E05", "Ending with an error drops what was withheld of this side's messages; a plain end lets it be delivered, followed by EndDialog."},
		{"E06", "A side whose peer has ended tells it nothing, whichever way it ends."},
		{"E07", "A message that arrives for a side that has ended is removed without an error and does not bring the conversation back."},
		{"E08", "A cleanup removes this side and what was withheld of its messages, and tells the peer nothing; when the peer sends, it gets an Error with code -8462."},
		{"E09", "What is lost because its sender ended before the target refused it is recorded as a dead letter."},
		{"E10", "A conversation that both sides have ended is removed after the set time, whichever ended first."},
	}},
	{"Retention", []Sentence{
		{"R01", "With retention, received messages and copies of sent ones are kept, and are never received again."},
		{"R02", "When a side ends, what it retained is removed, and what the other side retained stays."},
		{"R03", "Without retention no copy of a sent message is kept, and received ones are gone at the commit."},
	}},
	{"Queues and workers", []Sentence{
		{"Q01", "At most as many handlers of a worker run at once as it may have readers; raising that takes effect at once, and lowering it lets those that run finish."},
		{"Q02", "After idleness a burst of messages has all readers of a worker at work within a second."},
		{"Q03", "A receive with a wait on an empty queue returns after about that time without busy polling, and at once when a message is committed meanwhile."},
		{"Q04", "With many senders and receivers at once, every message is handled exactly once in committed effects and none is left."},
		{"Q05", "Drain handles all that can be received, and returns when that is done."},
		{"Q06", "A message of a type without a handler is deferred until the set time is over; then the worker's policy decides. Meanwhile a worker with a handler takes it, and healthy groups go on; EndDialog and errors end the conversation unless there are handlers for them."},
	}},
	{"Batches of a worker", []Sentence{
		{"W01", "A handler that fails, panics or runs out of time undoes what it wrote, and nothing else of the batch that it was in."},
		{"W02", "When a batch loses its transaction, by a commit that fails or a connection that breaks, its groups are handled again one by one: no effect is lost or committed twice, the order holds, and only a message that causes the loss is charged with an attempt."},
		{"W03", "A slow handler that has not asked for its transaction keeps no other group of its batch waiting beyond the time of a batch."},
		{"W04", "A worker that is told to stop lets handlers finish within their time, interrupts them after it, and gives back what was not handled, which counts as no failure; so does closing its Broker, without that time."},
		{"W05", "A handler of groups gets what was delivered of a group in one call, in its order; all of it is acknowledged or none, and a failure counts for the first message."},
		{"W06", "Of the queues that a worker serves none waits until the backlog of another one is handled."},
		{"W07", "While several queues of a worker have messages, the shares of its batches that they have are in proportion to their weights."},
	}},
	{"Failure and poison", []Sentence{
		{"X01", "A message that has failed as often as it may, or that its handler calls poison, is dealt with by the policy: its group is parked, it becomes a dead letter, or its conversation is ended with an error; a callback and the handler's error can choose."},
		{"X02", "A failing attempt never removes its message, and nothing that it wrote stays."},
		{"X03", "Groups beside a poisoned one are handled without delay, and the poisoned one is tried no more often than its back-off says."},
		{"X04", "With the policy to disable the queue, receivers get ErrQueueDisabled after the last attempt, what arrives is kept, and enabling resumes with nothing lost."},
		{"X05", "Attempts are counted across processes; losing against another transaction does not count unless the policy says so."},
		{"X06", "Without a limit of attempts a failing message is tried for ever, and neither its queue nor any other is disabled."},
		{"X07", "A worker that dies before its commit leaves its messages to be handled again, and nothing of what it wrote."},
		{"X08", "The delivery after a receiver's death shows the same message ID, a higher attempt, and that it is redelivered."},
		{"X09", "A message that kills its process is found out at the second death and dealt with as poison, unless MaxAttempts is below zero; its neighbours are handled."},
		{"X10", "A key given to Once is new for one transaction that commits, in whatever process, and for no other before its time is over; what is rolled back was not recorded."},
		{"X11", "Whatever the cause, a message that is handed out again and again is charged in the end: ten failures through no fault of its own count as one attempt."},
		{"X12", "Whatever text a handler's error has, empty, long or not UTF-8, its message is treated like any other failed message; the stored or reported reason is never empty."},
		{"X13", "A panic in what the application gives to a worker, or in the methods of its errors, ends neither the process nor other work; the log has its stack, and so has what is stored if it was the handler's."},
		{"X14", "A store that takes nothing, full or read-only, is charged to no message: the worker pauses, logs that once, and goes on when the store does."},
		{"X15", "When most handlers of a worker fail for one reason, the worker tries one message at a time with growing pauses; after the first success it continues at full speed."},
		{"X18", "No record of a worker that died with a suspected message in hand names it any more when what became of it is committed."},
		{"X19", "A handler that changes the bytes of a body in its memory changes nothing that is stored: a dead letter, a retained copy, a processed post and the next attempt have what was sent."},
		{"X16", "A worker that holds by lease learns of receivers that died while they held in a transaction: it handles nothing with which one of them died alone, and deals with it as poison."},
		{"X20", "A worker that begins while the store cannot be reached waits for it, and then handles what is there."},
		{"X17", "What was committed is there when every handle on the store has been closed and another one is opened."},
	}},
	{"Posts, bodies and blocked groups", []Sentence{
		{"N01", "Posts of one key are received in the order in which they were committed, by one receiver at a time; posts without key wait for no other post."},
		{"N02", "A delayed post joins its queue when it is due and not before."},
		{"N03", "A unique post is added only when none with its value is pending, and again after that one is settled."},
		{"N04", "CancelPost removes a pending post unless a receiver has it in hand."},
		{"N05", "Bodies from none to 16 MiB arrive as they were sent, byte for byte."},
		{"N06", "A queue that keeps processed posts keeps them for the set time and delivers none of them again."},
		{"N07", "Deferred and parked groups are not received before their time, keep their order, and lose nothing."},
		{"N08", "A delivery never exceeds the bytes asked for, except that its first message is delivered whatever its size."},
	}},
	{"Headers", []Sentence{
		{"H01", "Headers of messages and posts arrive as they were sent, with every way of sending, and what was sent without has none."},
		{"H02", "A message has its headers at each delivery: after a rollback, after failures, and when it was parked."},
		{"H03", "A message that was withheld, or sent by a Sender on whichever dialog, arrives with its headers."},
		{"H04", "Dead letters, retained copies and processed posts have the headers of their messages, and a dead letter that is put back has them again."},
		{"H05", "64 headers with 8 KiB of names and values arrive; more, names that are empty or reserved, and what is not UTF-8 or has zero bytes, are refused with a typed error, and nothing is stored."},
		{"H06", "Headers count in the size of a body that is allowed, and in the bytes of a delivery."},
	}},
	{"Application locks", []Sentence{
		{"L01", "Two owners hold an application lock together exactly as the matrix of its modes allows, and so do three."},
		{"L02", "A request for an application lock that cannot be granted fails at once, or after its wait, and the transaction stays usable."},
		{"L03", "An application lock is free when it has been released as often as it was taken, and releasing a lock that is not held is an error."},
		{"L04", "Modes add up: after a release the owner still holds the union."},
		{"L05", "A new request waits behind an incompatible request that came first."},
		{"L06", "The application locks of a transaction end with it, by commit or rollback; those of a session do not."},
		{"L07", "The locks of a dead process are free when its lease is over; the fence of each later owner is greater, and a write under an earlier one is refused."},
		{"L08", "Of owners that wait for each other one is told within a bounded time, and keeps what it has and its transaction; the others get what they wait for."},
		{"L09", "Names of locks are compared byte by byte and up to 255 characters; longer ones are refused, and those of another store are others."},
		{"L10", "An owner that has an intent mode on a parent and works on a child holds up requests for the whole parent; it holds up no owner that works on another child."},
	}},
	{"Phases", []Sentence{
		{"F01", "All tasks of a phase may run at once, and none of a later phase starts before every earlier one is over."},
		{"F02", "Gaps in the numbers of phases mean nothing."},
		{"F03", "A task submitted in another batch of the same plan waits for lower phases all the same."},
		{"F04", "Cancelled tasks do not run, the workers of running ones are told to stop, and later phases wait for what still runs."},
		{"F05", "A task whose worker died runs again before any of a later phase starts, and what its worker says is not heard."},
		{"F06", "When a task is dead no later phase starts and the status says why, until an operator retries or skips it; or, if the plan was made so, they go on."},
		{"F07", "A task for a phase that is over, or for a sealed plan, is refused; or, if the plan was made so, runs before anything of a later phase that has not started."},
		{"F08", "A submission and the start of a later phase exclude each other: no task is accepted as in time after a later one has started."},
		{"F09", "Tasks that wait occupy no worker, and plans are served in turn."},
		{"F10", "What a handler writes in its task's transaction and the end of the task are committed together and once, whenever the process dies."},
		{"F11", "Waiting for a plan ends when all its tasks are over, when it is halted, or with its context: for every caller, any number of times, even if no notification came."},
		{"F12", "No more tasks of a plan run at once than it allows, in all processes together."},
		{"F13", "Each finished task is given to one caller, once, with its outcome."},
		{"F14", "A plan that was deleted is gone at once: waiting and submitting fail with ErrNoPlan, deleting it again is no error, and its name can be opened anew."},
	}},
	{"Recycled dialogs", []Sentence{
		{"C01", "Messages that Senders send with one key go on one conversation, whichever process sends them, until it is renewed; transactions with different keys, or without, do not wait for each other unless all writers of the store do."},
		{"C02", "When a Sender's dialog has been used for its time or its number of messages, the initiator sends EndOfStream, the target ends, the initiator ends, and both sides are gone."},
		{"C03", "However often dialogs are renewed under load, no message comes after EndOfStream, and none is lost."},
		{"C04", "Renewing dialogs under load brings senders no error and does not stop them."},
		{"C05", "When its dialog has been ended, is in error or is gone, a Sender goes on with a new one; after ten dialogs that do not take the message the send fails with ErrSenderFailed, which is logged."},
		{"C06", "When a dialog fails with code -8489, -8462, -9719 or -28052, what it has not delivered is sent again, in order, on another one before it is ended; with any other code it becomes dead letters; both are logged."},
		{"C07", "With Ordered, all messages of a key's dialog are received, and its target has ended, before the first message of the next one can be received."},
		{"C08", "The dialogs of a killed sender are renewed and ended like those of a live sender."},
	}},
	{"Recurring work", []Sentence{
		{"J01", "Each due time of a recurring job brings one message, however many processes look for it and whenever one dies: the message and the next due time are committed together."},
		{"J02", "A recurring job that another process has in hand, or whose message cannot be posted, keeps no other one waiting; what goes wrong is shown with the job, and it goes on when that is over."},
		{"J03", "No message of a recurring job is posted before its due time by the store's clock."},
		{"J04", "Due times that were missed bring no message, one for all, or one each up to a thousand, the latest ones, as the job's policy says."},
		{"J05", "While the previous message of a recurring job is pending, a due time brings another message, none, or a message that is handled after it, as the job's policy says."},
		{"J06", "An older definition of a recurring job changes nothing and does not bring back a removed job; another definition of the same revision, or an invalid one, is refused with a typed error and changes nothing."},
		{"J07", "A recurring job that is paused brings no messages until it is resumed, and then from its next due time on; to run one now brings a message at once and leaves its due times as they are."},
	}},
	{"Cancelling what is in hand", []Sentence{
		{"K01", "CancelPosts removes posts that wait, by ID, key or type, and stores a request for those that receivers have in hand; it waits for no receiver and for no other request."},
		{"K02", "The handler of a post that is to be cancelled is told within a second, by the cause of the end of its context; if it fails after that, what it wrote is undone and the post is removed, and if it succeeds the post is done."},
		{"K03", "A post that was to be cancelled and waits again is removed; each post is done once or cancelled once."},
	}},
	{"What operators see", []Sentence{
		{"V01", "A message that waits is found by its ID: its group or, if it is withheld, the handle that sent it; any other is not found."},
		{"V02", "Operators see each promotion, of groups without messages too: its level, whether it is sticky, and whether anything can still arrive in the group."},
		{"V03", "An operator can see how long each maintenance job has left undone what is due, and that nothing is due when it is done."},
		{"V04", "What operators list comes in pages: as many as were asked for, and those behind a given one, dead letters with or without their bodies; a job does about as many items at a time as it was asked for."},
		{"V05", "Ages, times, priorities and counts that operators are shown are those of what is there, and a store says what it is."},
	}},
	{"Versions", []Sentence{
		{"M01", "A store whose schema is this program's or the next one is worked with; one of any other version is refused at its first use, and whenever the catalog is read or a lease is taken back, and nothing is changed."},
		{"M02", "A program that a migration announces to be too old is refused at its next send and receive, and its workers stop; what it has in hand can be settled."},
		{"M03", "A definition adds and changes: what it does not mention stays, and so do the contracts of a service that it leaves out."},
		{"M04", "A definition that was replaced by another one changes nothing when it is given again, until Redefine brings it back."},
		{"M05", "What is removed is gone at once, and an older definition does not bring it back; nothing is removed that something else refers to."},
		{"M06", "Each change of the catalog makes its version greater by one."},
	}},
	{"Bad input", []Sentence{
		{"B01", "Every verb on an unknown, ended, errored or foreign handle fails with a typed error that names the handle, and changes nothing."},
		{"B02", "A name that is not defined is refused with a typed error that names it, and the transaction stays usable."},
		{"B03", "A definition that contradicts itself or what is stored is refused whole."},
		{"B04", "A body that is too large, and a post's that is not valid, are refused, and nothing is stored; a type whose validator this process lacks is refused with ErrNoValidator."},
		{"B05", "What a receiver does under a lost lease fails with ErrFenced and changes nothing."},
		{"B06", "A cancelled context ends every verb with its own error and leaves nothing half done."},
		{"B07", "A store that is not migrated, or newer than the program by more than one version, is refused with an error that says what to do; migrating is safe for many at once and changes nothing the second time."},
		{"B08", "A disabled queue refuses receives, also those that wait, with ErrQueueDisabled, takes no messages, and loses nothing."},
		{"B09", "After its end a transaction, a delivery or a broker answers every verb with ErrTxDone, ErrSettled or ErrClosed."},
		{"B10", "Names, keys, bodies and texts of errors are data: SQL text, quotes and control characters in them come back byte for byte."},
		{"B11", "Options out of range are refused with ErrInvalidOption before anything is done."},
		{"B12", "JSON that is not UTF-8, and XML with two attributes of one name, are not valid bodies."},
		{"B13", "Texts from outside, such as reasons, owners and what validators say, are kept as valid text without NUL, cut between characters to a bounded length."},
		{"B14", "A statement of the application's that would end the transaction of the store's is refused, and the transaction goes on."},
		{"B15", "What has no open transaction is not joined: of a pool, such as a *sql.DB, each verb is refused with ErrNoTx, and nothing is carried out."},
		{"B16", "While the application reads rows in a transaction, a verb is carried out or fails at once with ErrRowsOpen and changes nothing; the transaction goes on when they are closed, and rows left open hold up neither its end nor other transactions."},
	}},
}

// sentence returns the text of an id.
func sentence(id string) string {
	for _, s := range Sentences {
		if s.ID == id {
			return s.Text
		}
	}
	return ""
}
