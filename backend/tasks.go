package backend

import (
	"context"
	"time"
)

// TaskState is the state of a task in a schedule.
type TaskState string

// The states. Done, Dead, Cancelled and Skipped are terminal.
const (
	TaskQueued    TaskState = "queued"
	TaskRunning   TaskState = "running"
	TaskDone      TaskState = "done"
	TaskFailed    TaskState = "failed" // waits for its next attempt
	TaskDead      TaskState = "dead"
	TaskCancelled TaskState = "cancelled"
	TaskSkipped   TaskState = "skipped"
)

// Terminal reports whether a task in this state will not run any more.
func (s TaskState) Terminal() bool {
	return s == TaskDone || s == TaskDead || s == TaskCancelled || s == TaskSkipped
}

// NewTask is a task to be submitted.
type NewTask struct {
	ID    ID
	Phase int
	Type  string
	Body  []byte
}

// ScheduleOptions are kept with the schedule from its first Submit on, but for
// Existing, and for Caller, which is also kept with each task.
type ScheduleOptions struct {
	// Existing, if it is not zero, is the schedule's ID: Submit fails with
	// ErrNoSchedule when it has been released, though there may be another one of
	// its name, and never makes one.
	Existing ID

	MaxActive    int  // tasks running at once in all processes; zero: no limit
	Continue     bool // a dead task lets later phases start; else the schedule halts
	AcceptLate   bool // accept tasks of phases that are over; else ErrPhaseClosed
	MaxAttempts  int  // zero: 1
	Caller       string
	SubmittedFor string // free text for operators
}

// TaskHold is a task in a worker's hands.
type TaskHold struct {
	Schedule string
	Task     ID
	Phase    int
	Type     string
	Body     []byte
	Attempt  int // 1 at first
	Fence    int64

	MaxAttempts int // of its schedule
}

// TaskClaim asks for tasks.
type TaskClaim struct {
	// Schedules narrows the claim; empty means all, round-robin.
	Schedules []string
	Max       int
	Lease     time.Duration
	Owner     string
}

// TaskOutcome is what became of a held task.
type TaskOutcome struct {
	State TaskState     // TaskDone, TaskFailed (again after Delay), TaskDead, TaskCancelled, TaskQueued (given back)
	Error string        // for operators
	Delay time.Duration // for TaskFailed
}

// TaskEnd is the outcome of a held task.
type TaskEnd struct {
	Hold    TaskHold
	Outcome TaskOutcome
}

// TaskControl is what operators ask of a schedule.
type TaskControl int

// The controls. Retry, Skip and Cancel apply to one task if it is given, else
// to all that they fit: Retry to dead ones, Skip to dead ones, Cancel to queued
// and failed ones. Cancel asks the workers of running ones to stop, by
// ExtendTasks.
const (
	ScheduleSeal TaskControl = iota
	ScheduleCancel
	ScheduleRetry
	ScheduleSkip
	ScheduleRelease // removes the schedule; no error if there is none
)

// TxTasks is what happens to schedules inside transactions.
//
// A phase is open when no task of a lower phase of the same schedule is other
// than terminal; this is computed from the tasks, never from locks. Submit and
// ClaimTasks of one schedule exclude each other.
type TxTasks interface {
	// Submit adds tasks to a schedule and makes it if need be. ErrPhaseClosed if
	// it is sealed, or if a task belongs to a phase that is over.
	Submit(ctx context.Context, schedule string, o ScheduleOptions, tasks []NewTask) error
	// ClaimTasks takes tasks of open phases; the caller commits at once.
	ClaimTasks(ctx context.Context, c TaskClaim) ([]TaskHold, error)
	// LockTask takes a held task, by its fence, until the transaction ends:
	// ErrFenced if it is no longer ours.
	LockTask(ctx context.Context, h TaskHold) error
	// FinishTask records what became of a held task: ErrFenced.
	FinishTask(ctx context.Context, h TaskHold, o TaskOutcome) error
	// FinishTasks does that for many, in any order. Those that are no longer ours
	// are left as they are, and returned.
	FinishTasks(ctx context.Context, ends []TaskEnd) (lost []ID, err error)
	// NextFinished returns a terminal task that no caller has been given yet;
	// nil when there is none now. One that another transaction is just being
	// given is passed over. ErrNoSchedule, also when existing is not zero and not
	// the schedule's ID.
	NextFinished(ctx context.Context, schedule string, existing ID) (*TaskStatus, error)
	// Control carries out an operator's wish. task is zero for all. It returns
	// how many tasks have changed, and the running ones whose workers could not be
	// asked to stop, since somebody has their rows just now.
	Control(ctx context.Context, schedule string, c TaskControl, task ID) (changed int, busy []ID, err error)
}

// Tasks is what can be done to schedules outside transactions.
type Tasks interface {
	// ExtendTasks prolongs leases: ErrFenced if any is lost. It returns the tasks
	// that an operator wants to be stopped.
	ExtendTasks(ctx context.Context, holds []TaskHold, d time.Duration) (stop []ID, err error)
	// Progress tells how far a schedule is: ErrNoSchedule. It costs the same
	// however many tasks there are.
	Progress(ctx context.Context, schedule string) (Progress, error)
	// Schedules lists schedules; name narrows it to one (ErrNoSchedule).
	Schedules(ctx context.Context, name string) ([]ScheduleStatus, error)
	// TaskLog lists tasks.
	TaskLog(ctx context.Context, q TaskQuery) ([]TaskStatus, error)
}

// Progress is how far a schedule is.
type Progress struct {
	ID      ID // of this schedule; one that is made anew has another
	Sealed  bool
	Halted  bool // no more will start, since a task is dead and the schedule does not go on after that
	Over    bool // all tasks are terminal
	Phase   int  // the lowest that is not over
	Running int  // tasks in workers' hands
}

// TaskQuery asks for tasks of a schedule in the order of submission.
type TaskQuery struct {
	Schedule string // ErrNoSchedule; empty: of all, if Running is set
	Running  bool   // only those in workers' hands
	After    ID     // a task: those behind it
	Limit    int
}

// ScheduleStatus is what is known of a schedule.
type ScheduleStatus struct {
	Name string
	Progress
	Counts  map[TaskState]int
	Error   string // the last one
	Options ScheduleOptions
}

// TaskStatus is one line of the execution log. Instants that are not known are
// zero.
type TaskStatus struct {
	Schedule  string
	ID        ID
	Phase     int
	Type      string
	State     TaskState
	Caller    string
	Owner     string // the worker: the last one, if it is over
	Attempts  int
	Error     string
	Submitted time.Time
	Started   time.Time
	Ended     time.Time
}
