package conformance

// A Sentence is one numbered guarantee.
type Sentence struct {
	ID   string
	Text string
}

// section is a group of sentences under a title. docs/semantics.md is generated from the
// sections; UPDATE=1 go test -run TestSemanticsPage ./conformance writes it again.
type section struct {
	title     string
	sentences []Sentence
}

// semanticsIntro stands before the sections.
const semanticsIntro = "" +
	"# Semantics\n" +
	"\n" +
	"Each guarantee of Parley has a number and consists of one or a few sentences. The conformance suite\n" +
	"checks each one under its number (`parley conformance --list`). For each one there is at least one\n" +
	"deliberately broken backend, which its checks catch.\n" +
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
		{"I1", "At most one receiver in any process holds a group. It holds it until it settles, rolls back, dies, or its lease ends."},
		{"I2", "A sender never waits for a receiver, however long the receiver holds the group. No claim, receive or settle waits for a sender's open transaction. Only writers of the same stream wait for each other."},
		{"I3", "After a sender has committed, an ordinary receive finds its message."},
		{"I4", "The messages of a stream are received in the order in which they were sent, through rollback, retry, crash, batch, promotion, parking and Move."},
		{"I5", "A verb that needs a group or stream held by another transaction or receiver waits a bounded time. Then it fails with ErrGroupBusy, and its transaction stays usable. Opposite orders of locking never deadlock for ever."},
		{"I6", "What a receiver writes and its acknowledgement commit together or not at all, even when the receiver has lost its hold meanwhile."},
		{"I7", "A transaction that the database ended before the commit, or that was lost with its connection, is not reported as committed. Nothing of it remains, whatever is done in it afterwards."},
	}},
	{"Rules", []Sentence{
		{"RA", "A claim locks a group and then reads it again, so what was consumed before the lock is never delivered. A settle that finds fewer messages than were delivered fails and changes nothing."},
		{"RB", "A stream has one writer at a time, and its place in the ready order changes only under its guard. No committed message is ever out of the order, and none waits for a clean-up."},
		{"RC", "Whether a group is leased, deferred or parked is read on the locked row. A promotion waits for no sender and no receiver."},
	}},
	{"Progress", []Sentence{
		{"A01", "Nothing waits without limit for a connection of the store's pool while it has one. Any number of workers whose handlers post on the side handle everything on a pool of two or more. This holds even if the server gives fewer connections than the pool's limit."},
		{"A02", "On a pool of one connection, a verb outside the handler's transaction but with the handler's context succeeds, or fails with ErrWouldDeadlock at once. Everything is handled."},
		{"A03", "A read takes one connection at a time, so any number of concurrent reads complete on every pool."},
		{"A04", "A caller that has a connection, and cannot get another one, fails in bounded time with ErrNotBegun or ErrWouldDeadlock. What the caller has stays usable, and no connection is lost."},
		{"A05", "Deliveries in transactions leave two connections of the pool to others. Further deliveries are held by lease, or refused with ErrPool if HoldTransaction was asked for."},
		{"A20", "A verb outside a handler's open transaction, but with the handler's context, never waits for the handler. It is carried out, or, on a store with a single writer, fails with ErrWouldDeadlock at once."},
		{"A21", "A group that becomes ready keeps at most a hundred senders waiting at a time, and none whose stream has no message. The messages of all its streams are received."},
		{"A22", "An expired lease counts against the message that its receiver had in hand, even if another verb takes the group before the next receiver."},
		{"A27", "Items that are due but locked by others delay no other due item."},
		{"A28", "Items that are due in a disabled queue delay no other queue. They become messages when the queue is enabled."},
		{"A29", "Each group that nothing refers to is eventually removed, however many others are in use."},
		{"A23", "A free group is received in its order, however many groups are in flight. A receive reports nothing only after it has passed all of them."},
		{"A24", "The next promotion goes before everything that is not promoted, however many promotions are in flight."},
	}},
	{"Dialogs", []Sentence{
		{"D01", "A message sent on a new conversation is received once by the other side after the commit. Both sides share the conversation's ID; each has its own handle, and one of them is the initiator."},
		{"D02", "A conversation on which nothing was sent is in state SO and exists on the initiator's side only."},
		{"D03", "A transaction that begins a conversation, sends and rolls back leaves nothing behind and uses no number."},
		{"D04", "A message for a service that is not defined, or whose queue is disabled, is withheld with a text that says why. It is delivered in order once the service accepts it."},
		{"D05", "If the target service does not list a conversation's contract, the initiator receives an Error with code -8408. The conversation is then in state ER."},
		{"D06", "A type that the contract does not let this side send is refused at once, and the conversation goes on."},
		{"D07", "A body that its type does not allow is never received. Its sender receives an Error with code -9615 that names the sequence number."},
		{"D08", "A type with validation EMPTY accepts no body. Every type accepts an empty body, which arrives as none."},
		{"D09", "A related conversation joins the group. An unknown related conversation is refused; an unknown related group is created with the given ID."},
		{"D10", "Names are compared byte by byte, so names that differ in case or in trailing space are different. Names of 128 characters of any script are kept unchanged."},
		{"D11", "If one of several conversations cannot take a message, it is sent on none of them."},
		{"D12", "Concurrent senders on one conversation get numbers without gaps, in the order in which they commit, and every message arrives."},
		{"D13", "A service may begin a conversation with itself on one queue. Each side has its own handle and group and receives only what the other sent. The end of one side arrives at the other."},
		{"D14", "Sends, posts and begins by themselves that are called at once each have the outcome that they have alone. Those that are refused change nothing for the others, and what the others sent comes once, in the order of its sender."},
		{"D15", "A send, post or begin by itself does not wait for a lock that only others want."},
	}},
	{"Order", []Sentence{
		{"O01", "Messages sent on one conversation in several transactions are handled in their order, however many receivers there are."},
		{"O02", "While a message is being handled, no other receiver can receive the next of its conversation."},
		{"O03", "A message whose transaction rolled back is received again before the next of its conversation."},
		{"O04", "When one receive returns messages of several conversations, the messages of each conversation are adjacent and in order."},
		{"O05", "Among groups of equal rank the one with the oldest ready message is received first."},
		{"O06", "Within a conversation a DialogTimer is received first, then an Error, then the other messages as they were sent, with EndDialog in its place."},
		{"O07", "A receive returns at most as many messages as asked for, all of one group. The others stay."},
		{"O08", "After a receiver has crashed, its message is received again, and no later message has overtaken it."},
		{"O09", "A message that is released before the work is gone when its handler begins. The next message of its conversation can be received at once. A handler that fails loses the message."},
		{"O10", "Among conversations of equal priority in a group, the one with the oldest waiting message is received first."},
		{"O11", "When its deferral or back-off is over, a group comes behind the groups of equal rank that are ready then."},
	}},
	{"Group lock", []Sentence{
		{"G01", "While one receiver holds a group, another that asks for the next group gets a different one or nothing, and does not wait."},
		{"G02", "A receive of a held group by name returns nothing. With a wait it returns what is left once the holder has committed, or nothing when the wait ends."},
		{"G03", "Holding the group of one side does not block the other side in its group."},
		{"G04", "A sender commits without waiting while a receiver holds the target's group. The message is received afterwards."},
		{"G05", "GetGroup locks the group: the same transaction receives its messages, and no other receiver can."},
		{"G06", "A transaction that receives twice holds both groups until it ends."},
		{"G07", "When a transaction ends by commit, rollback or loss of its connection, all its groups are free."},
		{"G08", "After Move, the messages of a conversation belong to the new group. Move to a group of another queue is refused. Concurrent opposite moves both complete."},
		{"G09", "After rolling back to a savepoint that was set under the group's lock, the messages are back and the group is still held."},
	}},
	{"Priority and promotion", []Sentence{
		{"P01", "A conversation's priority is the level of the most specific rule that matches it: contract before local service before remote service. Without a match it is 5."},
		{"P02", "A rule that changes later leaves existing conversations as they are and applies to new ones."},
		{"P03", "Each side of a conversation has its own priority."},
		{"P04", "Groups of higher priority are received first. A group ranks by a conversation only while that conversation has messages."},
		{"P05", "A group ranks by the highest priority among its conversations that have messages."},
		{"P06", "A promoted group is the next one received, whatever its priority and age."},
		{"P07", "A promotion that the peer asks for on its conversation takes effect before the backlog in front of it is handled."},
		{"P08", "Of equal promotions the first is served first. A second promotion of a group replaces the first."},
		{"P09", "A promotion is kept if its group is held, has no message, or begins with a withheld message. It makes no sender or receiver wait."},
		{"P10", "A one-shot promotion ends when messages of the group are acknowledged, and stays when they are given back. A sticky promotion stays."},
		{"P11", "A promotion of a group that has ended is harmless and is removed. A promotion of an unknown group is refused."},
		{"P12", "A chooser sees the waiting groups in rank order, and the group that it returns is received next. If another receiver takes that group meanwhile, the chooser chooses again."},
		{"P13", "A peer's promotion beyond what the service allows is refused and changes nothing. A peer can promote only its own conversation."},
		{"P14", "A key has the rank of its first post as long as it has posts, unless a post raises it."},
		{"P15", "A promotion of a key promotes all posts under the key in their order, and no post of another key or queue. A promotion of a key without posts is refused."},
		{"P16", "A promotion by a function promotes exactly the groups and posts that the function chooses, however many. They keep the order in which they would have been received."},
		{"P17", "A post that raises its key gives the key its rank, if that is higher. Everything under the key has this rank as long as the key has posts."},
		{"P18", "A promotion until a group is empty ends when an acknowledgement or a cancelled post leaves no message waiting in it. What comes later is not promoted."},
		{"P19", "A dead letter of a post has its priority again when it is put back, unless its key has posts."},
	}},
	{"Timers and lifetime", []Sentence{
		{"T01", "A timer brings one DialogTimer without a body to the side that set it, and nothing to the other side."},
		{"T02", "A timer that is set again fires once, at the later setting."},
		{"T03", "A timer does not fire if its transaction rolled back or its conversation ended."},
		{"T04", "A timer outlives the process that set it and does not fire early."},
		{"T05", "After its lifetime both sides of a conversation receive an Error with code -8489. They cannot send, can receive what is queued, and can end."},
		{"T06", "A timer beyond the lifetime is refused."},
	}},
	{"End and error", []Sentence{
		{"E01", "When one side ends, the other receives EndDialog after everything that was sent, is in state DI and cannot send. When it has ended too, both sides are gone."},
		{"E02", "When a side ends with an error, the other receives an Error with the code and text before anything else that waits. Its state is ER."},
		{"E03", "An error without a text, or with a code that is not above zero, is refused."},
		{"E04", "A side that ends removes its unread messages; they are never received."},
		{"E05", "Ending with an error drops this side's withheld messages. A plain end lets them be delivered, followed by EndDialog."},
		{"E06", "A side whose peer has ended sends it nothing, whichever way it ends."},
		{"E07", "A message that arrives for a side that has ended is removed without an error and does not bring the conversation back."},
		{"E08", "A cleanup removes this side and its withheld messages, and tells the peer nothing. When the peer sends, it receives an Error with code -8462."},
		{"E09", "A message is recorded as a dead letter if its sender ended before the target refused it."},
		{"E10", "A conversation that both sides have ended is removed after the set time, whichever side ended first."},
	}},
	{"Retention", []Sentence{
		{"R01", "With retention, received messages and copies of sent messages are kept, and are never received again."},
		{"R02", "When a side ends, the messages that it retained are removed. Those of the other side stay."},
		{"R03", "Without retention no copy of a sent message is kept, and received messages are gone at the commit."},
	}},
	{"Queues and workers", []Sentence{
		{"Q01", "At most as many handlers of a worker run at once as it may have readers. A higher limit takes effect at once. A lower limit lets running handlers finish."},
		{"Q02", "When a burst of messages follows idleness, all readers of a worker are at work within a second."},
		{"Q03", "A receive with a wait on an empty queue returns after about that time, without busy polling. It returns at once when a message is committed meanwhile."},
		{"Q04", "With many concurrent senders and receivers, the committed effects show that every message was handled exactly once, and no message is left."},
		{"Q05", "Drain handles everything that can be received, and then returns."},
		{"Q06", "A message of a type without a handler is deferred until the set time is over; then the worker's policy decides. Meanwhile a worker with a handler takes it, and healthy groups go on. EndDialog and Error messages end the conversation unless there are handlers for them."},
	}},
	{"Batches of a worker", []Sentence{
		{"W01", "A handler that fails, panics or runs out of time undoes what it wrote, and nothing else of its batch."},
		{"W02", "When a batch loses its transaction, because a commit fails or a connection breaks, its groups are handled again one by one. No effect is lost or committed twice, and the order holds. Only a message that causes the loss is charged with an attempt."},
		{"W03", "A slow handler that has not asked for its transaction keeps no other group of its batch waiting beyond the time of a batch."},
		{"W04", "A worker that is told to stop lets handlers finish within their time and then interrupts them. It gives back what was not handled, which counts as no failure. Closing its Broker does the same, without that time."},
		{"W05", "A handler of groups gets all delivered messages of a group in one call, in their order. All of them are acknowledged or none. A failure counts for the first message."},
		{"W06", "No queue of a worker waits until the backlog of another queue is handled."},
		{"W07", "While several queues of a worker have messages, their shares of its batches are in proportion to their weights."},
		{"W08", "What a handler says by Reply and End of its message takes effect once, in its order, if the message is acknowledged, and not at all otherwise. A reply that the store refuses acknowledges nothing: the handler is called again and gets the error."},
	}},
	{"Failure and poison", []Sentence{
		{"X01", "A message that has failed as often as it may, or that its handler calls poison, is handled by the policy. The policy parks its group, makes it a dead letter, or ends its conversation with an error. A callback and the handler's error can choose."},
		{"X02", "A failing attempt never removes its message, and nothing that the attempt wrote stays."},
		{"X03", "Groups beside a poisoned group are handled without delay. The poisoned group is retried no more often than its back-off says."},
		{"X04", "If the policy is to disable the queue, receivers get ErrQueueDisabled after the last attempt. What arrives is kept, and enabling the queue resumes without loss."},
		{"X05", "Attempts are counted across processes. A conflict or a connection that was lost does not count unless the policy says so."},
		{"X06", "Without a limit of attempts a failing message is retried for ever, and neither its queue nor any other is disabled."},
		{"X07", "A worker that dies before its commit leaves its messages to be handled again, and nothing of what it wrote."},
		{"X08", "The delivery after a receiver's death has the same message ID and a higher attempt, and is marked as redelivered."},
		{"X09", "A message that kills its process is recognized at the second death and handled as poison, unless MaxAttempts is below zero. Its neighbours are handled."},
		{"X10", "A key given to Once is new for exactly one transaction that commits, in any process, until its time is over. A transaction that rolls back records no key."},
		{"X11", "A message that is delivered again and again is charged in the end, whatever the cause. Ten failures that are not its fault count as one attempt."},
		{"X12", "A handler's error may have any text, empty, long or not UTF-8: its message is treated like any other failed message. The stored or reported reason is never empty."},
		{"X13", "A panic in the application's handlers, callbacks or errors ends neither the process nor other work. The log has its stack. If the handler panicked, the stored reason has the stack, too."},
		{"X14", "When the store is full or read-only, no message is charged. The worker pauses, logs that once, and goes on when the store accepts writes again."},
		{"X15", "When most handlers of a worker fail for one reason, the worker tries one message at a time with growing pauses. After the first success it continues at full speed."},
		{"X18", "When the outcome of a suspected message is committed, no record of a worker that died with it names it any more."},
		{"X19", "A handler that changes the bytes of a body in its memory changes nothing that is stored. Dead letters, retained copies, processed posts and the next attempt have the bytes that were sent."},
		{"X16", "A worker that holds by lease learns of receivers that died while they held in a transaction. It does not handle a message with which one of them died alone, but treats it as poison."},
		{"X20", "A worker that starts while the store cannot be reached waits for it, and then handles what is there."},
		{"X21", "A message comes with the errors of its last ten attempts, the oldest first. Each has the number of the attempt, its time by the store's clock, and valid text of at most 1 KiB. A deferral is no attempt. Its dead letter has the errors, too, and a dead letter that is put back begins without."},
		{"X17", "What was committed is there when every handle on the store has been closed and another one is opened."},
	}},
	{"Posts, bodies and blocked groups", []Sentence{
		{"N01", "Posts of one key are received in the order in which they were committed, by one receiver at a time. Posts without a key wait for no other post."},
		{"N02", "A delayed post joins its queue when it is due and not before."},
		{"N03", "A unique post is added only when no post with its value is pending. After that post is settled, the value can be added again."},
		{"N04", "CancelPost removes a pending post unless a receiver holds it."},
		{"N05", "Bodies of up to 16 MiB, and empty ones, arrive as they were sent, byte for byte."},
		{"N06", "A queue that keeps processed posts keeps them for the set time and never delivers them again."},
		{"N07", "Deferred and parked groups are not received before their time, keep their order, and lose nothing."},
		{"N08", "A delivery never exceeds the bytes asked for, except that its first message is delivered whatever its size."},
		{"N09", "Of the posts that are unique per period, one is added in each period, whatever becomes of it. The others have its ID. What is rolled back does not count."},
	}},
	{"Headers", []Sentence{
		{"H01", "Headers of messages and posts arrive as they were sent, with every way of sending. A message sent without headers has none."},
		{"H02", "A message has its headers at each delivery: after a rollback, after failures, and after it was parked."},
		{"H03", "A message that was withheld, or sent by a Sender on any dialog, arrives with its headers."},
		{"H04", "Dead letters, retained copies and processed posts have the headers of their messages. A dead letter that is put back still has them."},
		{"H05", "64 headers with 8 KiB of names and values arrive. More headers, empty or reserved names, text that is not UTF-8, and zero bytes are refused with a typed error. Nothing is stored then."},
		{"H06", "Headers count towards the allowed size of a body and towards the bytes of a delivery."},
	}},
	{"Application locks", []Sentence{
		{"L01", "Two or three owners hold an application lock together exactly as the matrix of its modes allows."},
		{"L02", "A request for an application lock that cannot be granted fails at once, or after its wait, and the transaction stays usable."},
		{"L03", "An application lock is free when it has been released as often as it was acquired. Releasing a lock that is not held is an error."},
		{"L04", "Modes add up: after a release the owner still holds the union."},
		{"L05", "A new request waits behind an incompatible request that came first."},
		{"L06", "The application locks of a transaction end with it, by commit or rollback; those of a session do not."},
		{"L07", "The locks of a dead process are free when its lease is over. The fence of each later owner is greater, and a write under an earlier fence is refused."},
		{"L08", "Of owners that wait for each other, one gets an error within a bounded time. It keeps its transaction and the locks that it has; the others get what they wait for."},
		{"L09", "Names of locks are compared byte by byte, up to 255 characters; longer names are refused. The locks of another store are different locks."},
		{"L10", "An owner with an intent mode on a parent that works on a child blocks requests for the whole parent. It blocks no owner that works on another child."},
	}},
	{"Phases", []Sentence{
		{"F01", "All tasks of a phase may run at once. No task of a later phase starts before every earlier task is over."},
		{"F02", "Gaps in the numbers of phases mean nothing."},
		{"F03", "A task submitted in another batch of the same plan also waits for lower phases."},
		{"F04", "Cancelled tasks do not run, and the workers of running ones are told to stop. Later phases wait for the tasks that still run."},
		{"F05", "A task whose worker died runs again before any task of a later phase starts. What the earlier worker reports is ignored."},
		{"F06", "When a task is dead, no later phase starts until an operator retries or skips it, and the status says why. A plan can be made so that later phases go on."},
		{"F07", "A task for a phase that is over, or for a sealed plan, is refused. A plan can be made so that such a task runs before any later phase that has not started."},
		{"F08", "A submission and the start of a later phase exclude each other. No task is accepted as in time after a later phase has started."},
		{"F09", "Tasks that wait occupy no worker, and plans are served in turn."},
		{"F10", "What a handler writes in its task's transaction and the end of the task are committed together and once, whenever the process dies."},
		{"F11", "Waiting for a plan ends when all its tasks are over, when it is halted, or with the caller's context. This holds for every caller, any number of times, even if no notification came."},
		{"F12", "No more tasks of a plan run at once, in all processes together, than the plan allows."},
		{"F13", "Each finished task is given to one caller, once, with its outcome."},
		{"F14", "A plan that was deleted is gone at once: waiting and submitting fail with ErrNoPlan. Deleting it again is no error, and its name can be opened again."},
	}},
	{"Recycled dialogs", []Sentence{
		{"C01", "Messages that Senders in any process send with one key go on one conversation, until it is renewed. Transactions with different keys, or without, do not wait for each other unless all writers of the store do."},
		{"C02", "When a Sender's dialog reaches its age or its number of messages, the initiator sends EndOfStream. Then the target ends, the initiator ends, and both sides are gone."},
		{"C03", "However often dialogs are renewed under load, no message comes after EndOfStream, and none is lost."},
		{"C04", "Renewing dialogs under load brings senders no error and does not stop them."},
		{"C05", "When its dialog has been ended, is in error or is gone, a Sender goes on with a new one. After ten dialogs that do not take the message, the send fails with ErrSenderFailed, which is logged."},
		{"C06", "When a dialog fails with code -8489, -8462, -9719 or -28052, its undelivered messages are sent again, in order, on another dialog. Only then is it ended. With any other code they become dead letters. Both are logged."},
		{"C07", "With Ordered, a key's next dialog is received only after all messages of the previous dialog are received and its target has ended."},
		{"C08", "The dialogs of a killed sender are renewed and ended like those of a live sender."},
	}},
	{"Recurring work", []Sentence{
		{"J01", "Each due time of a recurring job brings one message, however many processes look for it and whenever one dies. The message and the next due time are committed together."},
		{"J02", "A recurring job that another process is working on, or whose message cannot be posted, delays no other job. The job shows what went wrong, and goes on when that is over."},
		{"J03", "No message of a recurring job is posted before its due time by the store's clock."},
		{"J04", "As the job's policy says, missed due times bring no message, one for all of them, or one each for the latest thousand at most."},
		{"J05", "While the previous message of a recurring job is pending, a due time brings another message, none, or a message that is handled afterwards. The job's policy decides."},
		{"J06", "An older definition of a recurring job changes nothing and does not bring back a removed job. An invalid definition, or a different one of the same revision, is refused with a typed error and changes nothing."},
		{"J07", "A paused recurring job brings no messages until it is resumed, and then from its next due time on. Running it now brings a message at once and leaves its due times unchanged."},
	}},
	{"Cancelling what is in hand", []Sentence{
		{"K01", "CancelPosts removes posts that wait, by ID, key or type, and stores a request for posts that receivers hold. It waits for no receiver and for no other request."},
		{"K02", "The handler of a cancelled post is told within a second, by the cause of its context's end. If it then fails, its writes are undone and the post is removed. If it succeeds, the post is done."},
		{"K03", "A post that waits again although its cancellation was requested is removed. Each post is done once or cancelled once."},
	}},
	{"What operators see", []Sentence{
		{"V01", "A message that waits is found by its ID: the result is its group or, if it is withheld, the handle that sent it. No other message is found."},
		{"V02", "Operators see each promotion, also of groups without messages: its level, whether it is sticky, and whether anything can still arrive in the group."},
		{"V03", "An operator can see how long the due work of each maintenance job has been waiting. When the job is done, nothing is due."},
		{"V04", "Operators' lists come in pages: at most the requested number of items, after a given item. Dead letters come with or without their bodies. A brief list of groups leaves out only what has to be looked up for each. A job handles about as many items at a time as requested. It names the queues in which messages became receivable, or none."},
		{"V05", "Operators see the actual ages, times, priorities and counts, and a store says what it is."},
		{"V06", "Operators can list the types and headers of all messages that wait, are delayed or withheld, or are in a receiver's hands, those of a stream in their order. The pages of the list have each of these once, and no message that is done. The list waits for no sender and no receiver."},
	}},
	{"Versions", []Sentence{
		{"M01", "A program works with a store whose schema has its own version or the next one. Any other version is refused at first use, when the catalog is read, and when a lease is taken back. Nothing is changed then."},
		{"M02", "A program that a migration announces as too old is refused at its next send and receive, and its workers stop. What it holds can be settled."},
		{"M03", "A definition adds and changes: what it does not mention stays, also the contracts of a service that it leaves out."},
		{"M04", "A definition that another one has replaced changes nothing when it is given again, until Redefine brings it back."},
		{"M05", "What is removed is gone at once, and an older definition does not bring it back. Nothing is removed while something else refers to it."},
		{"M06", "Each change of the catalog makes its version greater by one."},
	}},
	{"Bad input", []Sentence{
		{"B01", "Every verb on an unknown, ended, errored or foreign handle fails with a typed error that names the handle, and changes nothing."},
		{"B02", "A name that is not defined is refused with a typed error that names it, and the transaction stays usable."},
		{"B03", "A definition that contradicts itself or what is stored is refused as a whole."},
		{"B04", "A body that is too large, and a post's body that is not valid, are refused, and nothing is stored. A type whose validator this process lacks is refused with ErrNoValidator."},
		{"B05", "What a receiver does under a lost lease fails with ErrFenced and changes nothing."},
		{"B06", "A cancelled context ends every verb with the context's error and leaves nothing half done."},
		{"B07", "A store that is not migrated, or more than one version newer than the program, is refused with an error that says what to do. Concurrent migrations are safe, and a second migration changes nothing."},
		{"B08", "A disabled queue refuses receives with ErrQueueDisabled, also those that wait. It takes no messages and loses none."},
		{"B09", "After its end a transaction, delivery or Broker answers every verb with ErrTxDone, ErrSettled or ErrClosed."},
		{"B10", "Names, keys, bodies and texts of errors are data: SQL text, quotes and control characters in them come back byte for byte."},
		{"B11", "Options out of range are refused with ErrInvalidOption before anything is done."},
		{"B12", "JSON that is not UTF-8, and XML with two attributes of one name, are not valid bodies."},
		{"B13", "Reasons, owners, messages of validators and other texts from outside are kept as valid text without NUL. They are cut between characters to a bounded length."},
		{"B14", "A statement of the application that would end the store's transaction is refused, and the transaction goes on."},
		{"B15", "Only an open transaction can be joined. On a pool, such as a *sql.DB, each verb is refused with ErrNoTx, and nothing is carried out."},
		{"B16", "While the application reads rows in a transaction, a verb is carried out, or fails with ErrRowsOpen at once and changes nothing. The transaction goes on when the rows are closed. Rows left open block neither its end nor other transactions."},
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
