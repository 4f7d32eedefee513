package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/parleymq/parley/backend"
)

// Application locks and scheduled tasks are not implemented by the SQL backends
// yet: every call of theirs returns errors.ErrUnsupported.

// OpenSession implements backend.Locks.
func (s *Store) OpenSession(context.Context, time.Duration, string) (backend.Session, error) {
	return nil, errors.ErrUnsupported
}

// AppLocks implements backend.Locks.
func (s *Store) AppLocks(context.Context, string) ([]backend.AppLock, error) {
	return nil, errors.ErrUnsupported
}

// ExtendTasks implements backend.Tasks.
func (s *Store) ExtendTasks(context.Context, []backend.TaskHold, time.Duration) error {
	return errors.ErrUnsupported
}

// Schedules implements backend.Tasks.
func (s *Store) Schedules(context.Context, string) ([]backend.ScheduleStatus, error) {
	return nil, errors.ErrUnsupported
}

// TaskLog implements backend.Tasks.
func (s *Store) TaskLog(context.Context, string, backend.ID, int) ([]backend.TaskStatus, error) {
	return nil, errors.ErrUnsupported
}

// Lock implements backend.Locker.
func (t *Tx) Lock(context.Context, string, backend.LockMode, time.Duration) (backend.Grant, error) {
	return backend.Grant{}, errors.ErrUnsupported
}

// Unlock implements backend.Locker.
func (t *Tx) Unlock(context.Context, string) error { return errors.ErrUnsupported }

// LockMode implements backend.Locker.
func (t *Tx) LockMode(context.Context, string) (backend.LockMode, error) {
	return 0, errors.ErrUnsupported
}

// LockTest implements backend.Locker.
func (t *Tx) LockTest(context.Context, string, backend.LockMode) (bool, error) {
	return false, errors.ErrUnsupported
}

// Submit implements backend.TxTasks.
func (t *Tx) Submit(context.Context, string, backend.ScheduleOptions, []backend.NewTask) error {
	return errors.ErrUnsupported
}

// ClaimTasks implements backend.TxTasks.
func (t *Tx) ClaimTasks(context.Context, backend.TaskClaim) ([]backend.TaskHold, error) {
	return nil, errors.ErrUnsupported
}

// LockTask implements backend.TxTasks.
func (t *Tx) LockTask(context.Context, backend.TaskHold) error { return errors.ErrUnsupported }

// FinishTask implements backend.TxTasks.
func (t *Tx) FinishTask(context.Context, backend.TaskHold, backend.TaskOutcome) error {
	return errors.ErrUnsupported
}

// NextFinished implements backend.TxTasks.
func (t *Tx) NextFinished(context.Context, string) (*backend.TaskStatus, error) {
	return nil, errors.ErrUnsupported
}

// Control implements backend.TxTasks.
func (t *Tx) Control(context.Context, string, backend.TaskControl, backend.ID) (int, error) {
	return 0, errors.ErrUnsupported
}
