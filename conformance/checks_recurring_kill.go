package conformance

import (
	"bufio"
	"context"
	"math/rand/v2"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/recurring"
)

func init() {
	add(
		check{ID: "J01", Name: "three processes that come and go", Run: checkRecurringReopened},
		check{ID: "J01", Name: "a thousand due times over three processes that are killed", Run: checkRecurringKilled, Limit: 5 * time.Minute},
	)
	// posts what is due until it is killed.
	addRole("recurring", func(ctx context.Context, b *parley.Broker, args []string, say func(string, ...any), hear *bufio.Scanner) error {
		if err := recurring.Start(ctx, b); err != nil {
			return err
		}
		say("ready")
		hear.Scan()
		return nil
	})
}

// often defines a job under each of two policies that is due every 10 ms once it is begun. Their messages stay in two
// queues, in the order in which they were posted.
func (w *world) often() (jobs []recurring.Status) {
	for _, j := range []recurring.Job{
		{Name: "all", Queue: w.CQ, CatchUp: recurring.CatchUpAll},
		{Name: "skip", Queue: w.SQ, CatchUp: recurring.CatchUpSkip, Grace: 10 * time.Minute},
	} {
		j.Every, j.Overlap = 10*time.Millisecond, recurring.OverlapQueue
		j = w.defineJob(j)
		w.Must(recurring.Pause(w.Ctx, w.B, j.Name))
		jobs = append(jobs, w.job(j.Name))
	}
	w.drainAll(w.CQ)
	w.drainAll(w.SQ)
	return jobs
}

// begins has the jobs be due from now on.
func (w *world) begins(jobs []recurring.Status) {
	for i := range jobs {
		jobs[i] = *w.rewrite(jobs[i].Name, func(j *recurring.Status) {
			j.State, j.Fired = recurring.StateActive, 0
			j.Due = j.Now.Truncate(time.Millisecond).Add(j.Every)
			j.Look = j.Due
		})
	}
}

// each checks that each due time of the jobs, from the first on, has brought one message.
func (w *world) each(jobs []recurring.Status) {
	for _, first := range jobs {
		w.Must(recurring.Pause(w.Ctx, w.B, first.Name))
		j := w.job(first.Name)
		count := make(map[time.Time]int)
		for _, due := range dueTimes(w.drainAll(j.Queue)) {
			count[due]++
		}
		passed := 0
		for due := first.Due.UTC(); due.Before(j.Due); due = due.Add(j.Every) {
			passed++
			if n := count[due]; n != 1 {
				w.Errorf("%s: the due time %v has brought %d messages", j.CatchUp, due, n)
			}
			delete(count, due)
		}
		if len(count) > 0 || int(j.Fired) != passed || j.Skipped != 0 {
			w.Errorf("%s: there are messages of %d other due times, %d have passed, and the job is %+v", j.CatchUp, len(count), passed, j)
		}
		w.Logf("%s: %d due times, each posted once", j.CatchUp, passed)
	}
}

// fired waits until each job has been posted so often, and calls meanwhile.
func (w *world) fired(jobs []recurring.Status, n int64, meanwhile func()) {
	for _, j := range jobs {
		for w.job(j.Name).Fired < n {
			w.Must(w.Ctx.Err())
			meanwhile()
		}
	}
}

func checkRecurringReopened(e *env) {
	w := e.World()
	jobs := w.often()
	var open []*parley.Broker
	for range 3 {
		open = append(open, w.fires())
	}
	w.begins(jobs)
	w.fired(jobs, 100, func() {
		i := rand.IntN(len(open))
		e.Must(open[i].Close())
		open[i] = w.fires()
		time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
	})
	w.each(jobs)
}

func checkRecurringKilled(e *env) {
	w := e.World()
	jobs := w.often()
	children := []*child{e.Child("recurring"), e.Child("recurring"), e.Child("recurring")}
	for _, c := range children {
		c.Hear()
	}
	w.begins(jobs)
	kills := 0
	w.fired(jobs, 1000, func() {
		i := rand.IntN(len(children))
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		children[i].Kill()
		kills++
		children[i] = e.Child("recurring")
		children[i].Hear() // the two others go on meanwhile
	})
	e.Logf("%d kills", kills)
	w.each(jobs)
}
