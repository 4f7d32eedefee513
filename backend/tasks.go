package backend

import (
	"context"
	"time"
)

// TasksTopic is announced in the place of a queue when the tasks of any plan have
// changed. Listen and Notify treat it as they do queues.
const TasksTopic int64 = -1

// TaskState is the state of a task in a plan.
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

// PlanOptions are stored with the plan at its first Submit, except for Existing. Caller is stored
// with each task, too.
type PlanOptions struct {
	// Existing, if it is not zero, is the plan's ID. Then Submit never creates a plan. It fails
	// with ErrNoPlan if that plan was deleted, even if there is another plan of its name.
	Existing ID

	MaxActive    int  // tasks running at once in all processes; zero: no limit
	Continue     bool // a dead task lets later phases start; else the plan halts when the phase is over
	AcceptLate   bool // accept tasks of phases that are over; else ErrPhaseClosed
	MaxAttempts  int  // zero: 1
	Caller       string
	SubmittedFor string // free text for operators
}

// TaskHold is a task in a worker's hands.
type TaskHold struct {
	Plan    string
	Task    ID
	Phase   int
	Type    string
	Body    []byte
	Attempt int // 1 at first
	Fence   int64

	MaxAttempts int // of its plan
}

// TaskClaim asks for tasks.
type TaskClaim struct {
	// Plans narrows the claim; empty means all, round-robin.
	Plans []string
	Max   int
	Lease time.Duration
	Owner string
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

// TaskControl is what operators ask of a plan.
type TaskControl int

// The controls. Retry, Skip and Cancel apply to one task if it is given, otherwise to all matching tasks.
// Retry, which resets the attempts, and Skip apply to dead tasks, Cancel to queued and failed ones. Cancel
// asks the workers of running tasks to stop, by ExtendTasks.
const (
	PlanSeal TaskControl = iota
	PlanCancel
	PlanRetry
	PlanSkip
	PlanDelete // removes the plan; no error if there is none
)

// TxTasks is what happens to plans inside transactions.
//
// A phase is open when all tasks in lower phases of the same plan are terminal. This is computed
// from the tasks, never from locks. Submit and ClaimTasks of one plan exclude each other.
type TxTasks interface {
	// Submit adds tasks to a plan and makes it if need be. ErrPhaseClosed if
	// it is sealed, or if a task belongs to a phase that is over.
	Submit(ctx context.Context, plan string, o PlanOptions, tasks []NewTask) error
	// ClaimTasks takes tasks of open phases; the caller commits at once.
	ClaimTasks(ctx context.Context, c TaskClaim) ([]TaskHold, error)
	// LockTask takes a held task, by its fence, until the transaction ends:
	// ErrFenced if it is no longer ours.
	LockTask(ctx context.Context, h TaskHold) error
	// FinishTask records the outcome of a held task: ErrFenced.
	FinishTask(ctx context.Context, h TaskHold, o TaskOutcome) error
	// FinishTasks does that for many tasks, in any order. It leaves tasks that are no longer ours
	// unchanged, and returns them.
	FinishTasks(ctx context.Context, ends []TaskEnd) (lost []ID, err error)
	// NextFinished returns a terminal task that no caller has received yet, or nil if there is none
	// now. It skips a task that another transaction is receiving. ErrNoPlan, also when existing is
	// not zero and not the plan's ID.
	NextFinished(ctx context.Context, plan string, existing ID) (*TaskStatus, error)
	// Control carries out an operator's request. task is zero for all. It returns how many tasks
	// have changed. The tasks in busy run, but their workers could not be asked to stop, because
	// another transaction has their rows locked.
	Control(ctx context.Context, plan string, c TaskControl, task ID) (changed int, busy []ID, err error)
}

// Tasks is what can be done to plans outside transactions.
type Tasks interface {
	// ExtendTasks extends leases: ErrFenced if any is lost. It returns the tasks
	// that an operator wants to be stopped.
	ExtendTasks(ctx context.Context, holds []TaskHold, d time.Duration) (stop []ID, err error)
	// Progress returns how far a plan is: ErrNoPlan. Its cost does not depend on the number of
	// tasks.
	Progress(ctx context.Context, plan string) (Progress, error)
	// Plans lists plans; name narrows it to one (ErrNoPlan).
	Plans(ctx context.Context, name string) ([]PlanStatus, error)
	// TaskLog lists tasks.
	TaskLog(ctx context.Context, q TaskQuery) ([]TaskStatus, error)
}

// Progress is how far a plan is.
type Progress struct {
	ID      ID // of this plan; a later plan of the same name has another
	Sealed  bool
	Halted  bool // no more will start, because a task is dead and the plan does not continue after that
	Over    bool // all tasks are terminal
	Phase   int  // the lowest that is not over; zero: all are
	Running int  // tasks in workers' hands
}

// TaskQuery asks for tasks of a plan in the order of submission.
type TaskQuery struct {
	Plan    string // ErrNoPlan; empty: of all, if Running is set
	Running bool   // only those in workers' hands
	After   ID     // a task: those behind it
	Limit   int
}

// PlanStatus is what is known of a plan.
type PlanStatus struct {
	Name string
	Progress
	Counts  map[TaskState]int
	Error   string // the last one
	Options PlanOptions
}

// TaskStatus is one line of the execution log. Instants that are not known are
// zero.
type TaskStatus struct {
	Plan      string
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
