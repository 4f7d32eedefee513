package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/parleymq/parley/backend"
)

// overdue is how late a recurring job may be claimed.
const overdue = time.Minute

// recurring looks for recurring jobs that no process claims, or that cannot post.
func (d *diagnosis) recurring(ctx context.Context) error {
	list, err := backend.Offered(d.be.RecurringJobs(ctx))
	for _, j := range list {
		obj := fmt.Sprintf("recurring job %q", j.Name)
		late := j.Now.Sub(j.Look)
		switch {
		case j.State != backend.RecurringActive:
		case late > overdue:
			d.add(true, codeOverdue, obj, "start a program that calls recurring.Start, and see its log",
				"it was due at %s, and for %s no process has claimed it", j.Due.UTC().Format(time.RFC3339), round(late))
		case j.Failures > 0:
			d.add(true, codeCannotPost, obj, "it is tried again at least once a minute; parley recurring list shows when",
				"its message of %s could not be posted, attempt %d: %s",
				j.Due.UTC().Format(time.RFC3339), j.Failures, firstLine(j.Error))
		}
	}
	return err
}
