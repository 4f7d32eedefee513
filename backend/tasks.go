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

// ScheduleOptions are kept with the schedule from its first Submit on.
type ScheduleOptions struct {
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
	Attempt  int
	Fence    int64
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
	State TaskState     // TaskDone, TaskFailed (again after Delay), TaskDead, TaskQueued (given back)
	Error string        // for operators
	Delay time.Duration // for TaskFailed
}

// TaskControl is what operators ask of a schedule.
type TaskControl int

// The controls. Retry, Skip and Cancel apply to one task if it is given, else
// to all that they fit: Retry to dead ones, Skip to dead ones, Cancel to queued
// and failed ones.
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
	// Submit adds tasks to a schedule and makes it if need be.
	Submit(ctx context.Context, schedule string, o ScheduleOptions, tasks []NewTask) error
	// ClaimTasks takes tasks of open phases; the caller commits at once.
	ClaimTasks(ctx context.Context, c TaskClaim) ([]TaskHold, error)
	// LockTask takes a held task, by its fence, until the transaction ends:
	// ErrFenced if it is no longer ours.
	LockTask(ctx context.Context, h TaskHold) error
	// FinishTask records what became of a held task: ErrFenced.
	FinishTask(ctx context.Context, h TaskHold, o TaskOutcome) error
	// NextFinished returns a terminal task that no caller has been given yet;
	// nil when there is none now.
	NextFinished(ctx context.Context, schedule string) (*TaskStatus, error)
	// Control carries out an operator's wish. task is zero for all.
	Control(ctx context.Context, schedule string, c TaskControl, task ID) (int, error)
}

// Tasks is what can be done to schedules outside transactions.
type Tasks interface {
	// ExtendTasks prolongs leases: ErrFenced if any is lost.
	ExtendTasks(ctx context.Context, holds []TaskHold, d time.Duration) error
	// Schedules lists schedules; name narrows it to one (ErrNoSchedule).
	Schedules(ctx context.Context, name string) ([]ScheduleStatus, error)
	// TaskLog lists the tasks of a schedule in the order of submission.
	TaskLog(ctx context.Context, schedule string, after ID, limit int) ([]TaskStatus, error)
}

// ScheduleStatus is what is known of a schedule.
type ScheduleStatus struct {
	Name    string
	Sealed  bool
	Halted  bool
	Phase   int // the lowest that is not over
	Counts  map[TaskState]int
	Error   string // the last one
	Options ScheduleOptions
}

// TaskStatus is one line of the execution log.
type TaskStatus struct {
	Schedule  string
	ID        ID
	Phase     int
	Type      string
	State     TaskState
	Caller    string
	Owner     string
	Attempts  int
	Error     string
	Submitted time.Time
	Started   time.Time
	Ended     time.Time
}
