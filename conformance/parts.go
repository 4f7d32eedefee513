package conformance

import (
	"context"
	"errors"

	"github.com/parleymq/parley/backend"
)

// part is a part of the contract that a backend may leave out.
type part struct {
	name string
	// asks calls a method of the part, which has nothing to do.
	asks func(context.Context, backend.Backend) error
}

var (
	partReaders = &part{"records of readers (backend.Workers)", func(ctx context.Context, be backend.Backend) error {
		_, err := be.ReaderRecords(ctx)
		return err
	}}
	partLocks = &part{"application locks (backend.Locks)", func(ctx context.Context, be backend.Backend) error {
		_, err := be.AppLocks(ctx, "")
		return err
	}}
	partTasks = &part{"tasks in phases (backend.Tasks)", func(ctx context.Context, be backend.Backend) error {
		_, err := be.Plans(ctx, "")
		return err
	}}
	partRecurring = &part{"recurring jobs (backend.Recurring)", func(ctx context.Context, be backend.Backend) error {
		_, err := be.RecurringJobs(ctx)
		return err
	}}
	partCancels = &part{"cancelling what is in hand (backend.Cancels)", func(ctx context.Context, be backend.Backend) error {
		_, err := be.CancelRequests(ctx)
		return err
	}}
)

// partOf returns the part that all checks with sentences of one letter need.
func partOf(c check) *part {
	return map[byte]*part{'L': partLocks, 'F': partTasks, 'J': partRecurring, 'K': partCancels}[c.ID[0]]
}

// Needs ends the check if the store does not have a part of the contract. A store that has some of it
// has all of it.
func (e *env) Needs(p *part) {
	err := p.asks(e.Ctx, e.r.main)
	if errors.Is(err, errors.ErrUnsupported) {
		e.Skipf("%s: %s", notOffered, p.name)
	}
	e.Must(err)
}

// notOffered begins the text of a check that was left out since the store lacks a part.
const notOffered = "not offered"
