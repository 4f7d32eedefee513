package backend

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Unimplemented is a Backend whose methods return errors.ErrUnsupported. A backend that embeds it
// compiles from the first method on, and still compiles when package backend grows. Parley works
// with the methods that exist; verbs that need others return errors.ErrUnsupported.
//
// Its parts are embedded one level deeper than those of a struct that embeds both, so that
//
//	struct {
//		backend.Unimplemented
//		backend.Locks
//	}
//
// has the locks of what is in its second field.
type Unimplemented struct {
	noStore
	noClaims
	noMaintenance
	noReader
	noWorkers
	noLocks
	noTasks
	noRecurring
	noCancels
}

// UnimplementedTx is the same for Tx. Its SQL and Token are nil, and NotifyAtCommit and Rollback do nothing.
type UnimplementedTx struct {
	noTx
	noTxCatalog
	noTxPosts
	noTxClaims
	noTxDialogs
	noTxOperators
	noTxWorkers
	noTxLocks
	noTxTasks
	noTxRecurring
	noTxCancels
}

var (
	_ Backend = Unimplemented{}
	_ Tx      = UnimplementedTx{}
)

// Offered is what a call returned, without an error if the backend lacks the method: nothing is
// there then.
func Offered[T any](what T, err error) (T, error) {
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return what, err
}

// What is returned for all that is missing. The last five parts have separate errors, since a backend that is
// complete may lack them.
var (
	none       = errors.ErrUnsupported
	noReaders  = missing("records of readers")
	noAppLocks = missing("application locks")
	noPlans    = missing("tasks in phases")
	noneRecurs = missing("recurring jobs")
	noCancel   = missing("requests to cancel what is in hand")
)

func missing(what string) error {
	return fmt.Errorf("the backend has no %s: %w", what, errors.ErrUnsupported)
}

type noStore struct{}

func (noStore) Info(context.Context) (Info, error) { return Info{}, none }
func (noStore) Migrate(context.Context) error      { return none }
func (noStore) Check(context.Context) error        { return none }
func (noStore) Uninstall(context.Context) error    { return none }
func (noStore) Capabilities() Capabilities         { return Capabilities{} }
func (noStore) Begin(context.Context) (Tx, error)  { return nil, none }
func (noStore) Close() error                       { return nil }

type noClaims struct{}

func (noClaims) Extend(context.Context, []*Hold, time.Duration) error { return none }

type noMaintenance struct{}

func (noMaintenance) Maintain(context.Context, Job, int) (Maintained, error) {
	return Maintained{}, none
}

type noReader struct{}

func (noReader) Queues(context.Context, int64) ([]QueueStatus, error)      { return nil, none }
func (noReader) Groups(context.Context, GroupQuery) ([]GroupStatus, error) { return nil, none }
func (noReader) Conversations(context.Context, ConversationQuery) ([]ConversationStatus, error) {
	return nil, none
}
func (noReader) Withheld(context.Context, ID, int) ([]WithheldStream, error) { return nil, none }
func (noReader) Retained(context.Context, ID) ([]RetainedMessage, error)     { return nil, none }
func (noReader) DeadLetters(context.Context, DeadQuery) ([]DeadStatus, error) {
	return nil, none
}
func (noReader) Waiting(context.Context, Place, int) ([]WaitingMessage, error)  { return nil, none }
func (noReader) PostStatus(context.Context, int64, ID) (*PostStatus, error)     { return nil, none }
func (noReader) Find(context.Context, ID) (ID, error)                           { return ID{}, none }
func (noReader) Promotions(context.Context, ID, int) ([]PromotionStatus, error) { return nil, none }
func (noReader) Astray(context.Context, ID, int) ([]Astray, ID, error)          { return nil, ID{}, none }
func (noReader) Overdue(context.Context) (map[Job]time.Duration, error)         { return nil, none }

type noWorkers struct{}

func (noWorkers) PutReader(context.Context, ReaderRecord) ([]Trace, error) { return nil, noReaders }
func (noWorkers) ExtendReaders(context.Context, ID, time.Duration) error   { return noReaders }
func (noWorkers) RemoveReaders(context.Context, ID, ID) error              { return noReaders }
func (noWorkers) ReaderRecords(context.Context) ([]ReaderStatus, error)    { return nil, noReaders }

type noLocks struct{}

func (noLocks) OpenSession(context.Context, time.Duration, string) (Session, error) {
	return nil, noAppLocks
}
func (noLocks) AppLocks(context.Context, string) ([]AppLock, error) { return nil, noAppLocks }

type noTasks struct{}

func (noTasks) ExtendTasks(context.Context, []TaskHold, time.Duration) ([]ID, error) {
	return nil, noPlans
}
func (noTasks) Progress(context.Context, string) (Progress, error)       { return Progress{}, noPlans }
func (noTasks) Plans(context.Context, string) ([]PlanStatus, error)      { return nil, noPlans }
func (noTasks) TaskLog(context.Context, TaskQuery) ([]TaskStatus, error) { return nil, noPlans }

type noRecurring struct{}

func (noRecurring) RecurringJobs(context.Context) ([]RecurringJob, error) { return nil, noneRecurs }

type noCancels struct{}

func (noCancels) CancelRequests(context.Context) ([]CancelRequest, error) { return nil, noCancel }
func (noCancels) PendingPosts(context.Context, PendingQuery) ([]PendingPost, error) {
	return nil, noCancel
}

type noTx struct{}

func (noTx) Once(context.Context, string, time.Duration) (bool, error) { return false, none }
func (noTx) Savepoint(context.Context, string) error                   { return none }
func (noTx) RollbackTo(context.Context, string) error                  { return none }
func (noTx) Release(context.Context, string) error                     { return none }
func (noTx) Resave(context.Context, string) error                      { return none }
func (noTx) SQL() Execer                                               { return nil }
func (noTx) Token() any                                                { return nil }
func (noTx) NotifyAtCommit(context.Context, []int64) error             { return nil }
func (noTx) Commit(context.Context) error                              { return none }
func (noTx) Rollback(context.Context) error                            { return nil }

type noTxCatalog struct{}

func (noTxCatalog) Catalog(context.Context, bool) (*Catalog, error)     { return nil, none }
func (noTxCatalog) PutCatalog(context.Context, *Catalog) (int64, error) { return 0, none }

type noTxPosts struct{}

func (noTxPosts) Post(context.Context, int64, []Posting) ([]Posted, error) { return nil, none }
func (noTxPosts) Cancel(context.Context, int64, ID) error                  { return none }

type noTxClaims struct{}

func (noTxClaims) Claim(context.Context, ClaimRequest) (Claim, error)        { return Claim{}, none }
func (noTxClaims) More(context.Context, *Hold, int, int) ([]*Message, error) { return nil, none }
func (noTxClaims) Reclaim(context.Context, []*Hold) error                    { return none }
func (noTxClaims) Settle(context.Context, []Outcome) (bool, error)           { return false, none }
func (noTxClaims) Keep(context.Context, *Hold, time.Duration, string) error  { return none }
func (noTxClaims) LockGroup(context.Context, ID) error                       { return none }

type noTxDialogs struct{}

func (noTxDialogs) BeginDialog(context.Context, int64, NewDialog) error          { return none }
func (noTxDialogs) Accept(context.Context, int64, ID, Endpoint) (bool, error)    { return false, none }
func (noTxDialogs) Endpoint(context.Context, ID) (*Endpoint, error)              { return nil, none }
func (noTxDialogs) Members(context.Context, ID) ([]*Endpoint, error)             { return nil, none }
func (noTxDialogs) TryStream(context.Context, ID) error                          { return none }
func (noTxDialogs) Send(context.Context, int64, []Outgoing) ([]Sent, error)      { return nil, none }
func (noTxDialogs) Withhold(context.Context, []Outgoing, string) ([]Sent, error) { return nil, none }
func (noTxDialogs) Deliver(context.Context, ID) (int, error)                     { return 0, none }
func (noTxDialogs) Discard(context.Context, ID, string) (int, error)             { return 0, none }
func (noTxDialogs) Resend(context.Context, ID, ID, string) (int, error)          { return 0, none }
func (noTxDialogs) Notice(context.Context, Notice) error                         { return none }
func (noTxDialogs) EndDialog(context.Context, End) (Ended, error)                { return Ended{}, none }
func (noTxDialogs) Move(context.Context, ID, ID, bool) error                     { return none }
func (noTxDialogs) SetTimer(context.Context, ID, time.Duration) error            { return none }

type noTxOperators struct{}

func (noTxOperators) Promote(context.Context, Promotion) error     { return none }
func (noTxOperators) Demote(context.Context, ID) error             { return none }
func (noTxOperators) Unpark(context.Context, ID) error             { return none }
func (noTxOperators) RemoveDead(context.Context, ID) (bool, error) { return false, none }

type noTxWorkers struct{}

func (noTxWorkers) ResetReader(context.Context, ID) error      { return noReaders }
func (noTxWorkers) ClearTraces(context.Context, []Trace) error { return noReaders }

type noTxLocks struct{}

func (noTxLocks) Lock(context.Context, string, LockMode, time.Duration) (Grant, error) {
	return Grant{}, noAppLocks
}
func (noTxLocks) Unlock(context.Context, string) error                     { return noAppLocks }
func (noTxLocks) HeldMode(context.Context, string) (LockMode, error)       { return 0, noAppLocks }
func (noTxLocks) LockTest(context.Context, string, LockMode) (bool, error) { return false, noAppLocks }
func (noTxLocks) Fence(context.Context, string, int64) error               { return noAppLocks }

type noTxTasks struct{}

func (noTxTasks) Submit(context.Context, string, PlanOptions, []NewTask) error  { return noPlans }
func (noTxTasks) ClaimTasks(context.Context, TaskClaim) ([]TaskHold, error)     { return nil, noPlans }
func (noTxTasks) LockTask(context.Context, TaskHold) error                      { return noPlans }
func (noTxTasks) FinishTask(context.Context, TaskHold, TaskOutcome) error       { return noPlans }
func (noTxTasks) FinishTasks(context.Context, []TaskEnd) ([]ID, error)          { return nil, noPlans }
func (noTxTasks) NextFinished(context.Context, string, ID) (*TaskStatus, error) { return nil, noPlans }
func (noTxTasks) Control(context.Context, string, TaskControl, ID) (int, []ID, error) {
	return 0, nil, noPlans
}

type noTxRecurring struct{}

func (noTxRecurring) NextRecurring(context.Context) (*RecurringJob, time.Duration, error) {
	return nil, 0, noneRecurs
}
func (noTxRecurring) LockRecurring(context.Context, string) (*RecurringJob, error) {
	return nil, noneRecurs
}
func (noTxRecurring) SetRecurring(context.Context, RecurringJob) error { return noneRecurs }

type noTxCancels struct{}

func (noTxCancels) RequestCancel(context.Context, int64, []ID) error      { return noCancel }
func (noTxCancels) CancelFree(context.Context, int64, []ID) ([]ID, error) { return nil, nil } // Cancel does it
