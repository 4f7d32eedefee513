package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/recurring"
)

func init() {
	add(
		check{ID: "J01", Name: "a job in a transaction's hands is in no other's", Run: checkRecurringClaim},
		check{ID: "J02", Name: "a locked job hides no other", Run: checkRecurringLocked},
		check{ID: "J02", Name: "a job that cannot post goes on when it can", Run: checkRecurringFails},
		check{ID: "J03", Name: "not before the due time", Run: checkRecurringEarly},
		check{ID: "J04", Name: "missed due times", Run: checkRecurringMissed},
		check{ID: "J05", Name: "the previous message is pending", Run: checkRecurringOverlap},
		check{ID: "J06", Name: "revisions", Run: checkRecurringRevisions},
		check{ID: "J06", Name: "bad definitions", Run: checkRecurringBad},
		check{ID: "J07", Name: "pause, resume, run now, remove", Run: checkRecurringPaused},
	)
}

// defineJob defines a job of the check's own, which is removed at its end.
func (w *world) defineJob(j recurring.Job) recurring.Job {
	j.Queue, j.Type, j.Body = cmp.Or(j.Queue, w.SQ), w.Any, []byte(j.Name)
	j.Name = w.Name(j.Name)
	w.Must(recurring.Define(w.Ctx, w.B, j))
	w.Cleanup(func() {
		if err := recurring.Remove(w.Ctx, w.B, j.Name); err != nil && !errors.Is(err, recurring.ErrNoJob) {
			w.Errorf("remove the job: %v", err)
		}
	})
	return j
}

// job returns a job as it is stored.
func (w *world) job(name string) recurring.Status {
	list, err := recurring.List(w.Ctx, w.B)
	w.Must(err)
	i := slices.IndexFunc(list, func(j recurring.Status) bool { return j.Name == name })
	if i < 0 {
		w.Fatalf("the job %q is not listed", name)
	}
	return list[i]
}

// rewrite changes a job as only the library does otherwise, and returns it.
func (w *world) rewrite(name string, f func(*recurring.Status)) (j *recurring.Status) {
	w.Tx(func(tx *parley.Tx) error {
		be, err := tx.Backend()
		if err != nil {
			return err
		}
		if j, err = be.LockRecurring(w.Ctx, name); err != nil {
			return err
		}
		f(j)
		return be.SetRecurring(w.Ctx, *j)
	})
	return j
}

// setBack makes a job have been due for some time.
func (w *world) setBack(name string, late time.Duration) (due time.Time) {
	return w.rewrite(name, func(j *recurring.Status) {
		j.Due = j.Now.Add(-late).Truncate(time.Millisecond)
		j.Look = j.Due
	}).Due
}

// dealt waits until a job's due times until now are dealt with.
func (w *world) dealt(name string) recurring.Status {
	var j recurring.Status
	if !w.Soon(20*time.Second, func() bool { j = w.job(name); return j.Due.After(j.Now) }) {
		w.Fatalf("the job has been due since %v, it is %v, and its last error is %q", j.Due, j.Now, j.Error)
	}
	return j
}

// fires has a separate Broker post what is due.
func (w *world) fires() *parley.Broker {
	b := w.Broker(nil)
	w.Must(recurring.Start(w.Ctx, b))
	return b
}

// claims returns the job that a transaction gets, "" for none.
func (w *world) claims(tx backend.Tx) (name string, next time.Duration) {
	j, next, err := tx.NextRecurring(w.Ctx)
	w.Must(err)
	if j != nil {
		name = j.Name
	}
	return name, next
}

func (w *world) begin() backend.Tx {
	tx, err := w.B.Backend().Begin(w.Ctx)
	w.Must(err)
	w.Cleanup(func() { tx.Rollback(w.Ctx) })
	return tx
}

func checkRecurringClaim(e *env) {
	w := e.World()
	j := w.defineJob(recurring.Job{Name: "job", Every: time.Hour})
	w.setBack(j.Name, time.Minute)
	first := w.begin()
	if got, _ := w.claims(first); got != j.Name {
		e.Fatalf("claimed is %q, want the job that is due", got)
	}
	if e.ManyWriters() {
		if got, _ := w.claims(w.begin()); got == j.Name {
			e.Fatalf("a second transaction has claimed the job while the first one has it")
		}
	}
	e.Must(first.Rollback(e.Ctx))
	again := w.begin()
	row, _, err := again.NextRecurring(e.Ctx)
	e.Must(err)
	if row == nil || row.Name != j.Name || string(row.Body) != "job" || row.Every != time.Hour || row.Queue != w.SQ {
		e.Fatalf("claimed after a rollback is %+v", row)
	}
	row.Due = row.Due.Add(2 * time.Hour)
	row.Look = row.Due
	e.Must(again.SetRecurring(e.Ctx, *row))
	e.Must(again.Commit(e.Ctx))
	if got, next := w.claims(w.begin()); got != "" || next <= 0 || next > 2*time.Hour {
		e.Errorf("claimed after the commit is %q, or something in %v", got, next)
	}
}

func checkRecurringLocked(e *env) {
	w := e.World()
	if !e.ManyWriters() {
		e.Skipf("the store has one writer at a time")
	}
	first, second := w.defineJob(recurring.Job{Name: "first", Every: time.Hour}), w.defineJob(recurring.Job{Name: "second", Every: time.Hour})
	w.setBack(first.Name, 2*time.Minute)
	w.setBack(second.Name, time.Minute)
	a, b := w.begin(), w.begin()
	if got, _ := w.claims(a); got != first.Name {
		e.Fatalf("claimed is %q, want the job that has been due longest", got)
	}
	if got, _ := w.claims(b); got != second.Name {
		e.Fatalf("while another transaction has the first job, claimed is %q, want the second", got)
	}
}

func checkRecurringFails(e *env) {
	w := e.World()
	bad := w.defineJob(recurring.Job{Name: "bad", Queue: w.CQ, Every: time.Hour, CatchUp: recurring.CatchUpAll})
	good := w.defineJob(recurring.Job{Name: "good", Every: time.Hour, CatchUp: recurring.CatchUpAll})
	e.Must(w.B.Admin().DisableQueue(e.Ctx, w.CQ))
	due := w.setBack(bad.Name, 2*time.Minute)
	w.setBack(good.Name, time.Minute)
	w.fires()
	w.dealt(good.Name)
	if got := w.Take(w.SQ, nil); !slices.Equal(got, []string{"good"}) {
		e.Errorf("received from the other queue is %q", got)
	}
	if !e.Soon(10*time.Second, func() bool { return w.job(bad.Name).Failures > 0 }) {
		e.Fatalf("the job whose queue is disabled has not failed")
	}
	if j := w.job(bad.Name); j.Error == "" || !j.Due.Equal(due) || j.Fired > 0 {
		e.Errorf("the job whose queue is disabled is %+v", j)
	}
	e.Must(w.B.Admin().EnableQueue(e.Ctx, w.CQ))
	if j := w.dealt(bad.Name); j.Failures > 0 || j.Error != "" || j.Fired != 1 || !j.Last.Equal(due) {
		e.Errorf("after its queue was enabled the job is %+v", j)
	}
	if got := w.Take(w.CQ, nil); !slices.Equal(got, []string{"bad"}) {
		e.Errorf("received is %q", got)
	}
}

func checkRecurringEarly(e *env) {
	w := e.World()
	j := w.defineJob(recurring.Job{Name: "later", Every: 30 * time.Minute})
	if got, next := w.claims(w.begin()); got == j.Name || next > 30*time.Minute {
		e.Errorf("claimed is %q, or something in %v", got, next)
	}
	often := w.defineJob(recurring.Job{Name: "often", Every: 200 * time.Millisecond, Jitter: 100 * time.Millisecond, Overlap: recurring.OverlapQueue})
	first := w.job(often.Name).Due
	w.fires()
	for i := range 5 {
		d := w.Receive(w.SQ, nil)
		for _, m := range d.Messages {
			due := recurring.DueTime(m)
			if string(m.Body) != "often" || due.Before(first) || m.Enqueued.Before(due) {
				e.Errorf("message %d, of the job %s, was due at %v and posted at %v", i, m.Body, due, m.Enqueued)
			}
		}
		e.Must(d.Ack(e.Ctx))
	}
	if n := w.job(j.Name).Fired; n > 0 {
		e.Errorf("the job that is due in half an hour was posted %d times", n)
	}
}

func checkRecurringMissed(e *env) {
	w := e.World()
	for _, test := range []struct {
		catchUp recurring.CatchUp
		every   time.Duration
		passed  int // due times, the latest one half an interval ago
		brings  int // messages, of the latest ones
	}{
		{recurring.CatchUpSkip, time.Hour, 11, 2}, // half an hour and one and a half hours late
		{recurring.CatchUpOnce, time.Hour, 11, 1},
		{recurring.CatchUpAll, time.Hour, 11, 11},
		{recurring.CatchUpAll, time.Minute, 5000, recurring.MaxCatchUp},
	} {
		j := w.defineJob(recurring.Job{
			Name: fmt.Sprint(test.catchUp, test.passed), Every: test.every, Grace: 2 * time.Hour, CatchUp: test.catchUp, Overlap: recurring.OverlapQueue,
		})
		due := w.setBack(j.Name, time.Duration(test.passed)*test.every-test.every/2)
		b := w.fires()
		status := w.dealt(j.Name)
		e.Must(b.Close())
		got := dueTimes(w.drainAll(w.SQ))
		passed := int(status.Due.Sub(due) / test.every) // one more if the check has taken very long
		var want []time.Time
		for i := passed - test.brings; i < passed; i++ {
			want = append(want, due.Add(time.Duration(i)*test.every))
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) || passed != test.passed {
			e.Errorf("%s: of %d due times %d have brought messages, %v; want the last %d of %d", test.catchUp, passed, len(got), got, test.brings, test.passed)
		}
		if int(status.Fired) != test.brings || !status.Last.Equal(want[len(want)-1]) {
			e.Errorf("%s: the job is %+v", test.catchUp, status)
		}
	}
}

// drainAll is Drain with large batches.
func (w *world) drainAll(queue string) (all []*parley.Message) {
	for {
		d := w.TryReceive(queue, &parley.ReceiveOptions{MaxMessages: 1000}, 0)
		if d == nil {
			return all
		}
		all = append(all, d.Messages...)
		w.Must(d.Ack(w.Ctx))
	}
}

func dueTimes(messages []*parley.Message) (list []time.Time) {
	for _, m := range messages {
		list = append(list, recurring.DueTime(m))
	}
	return list
}

func checkRecurringOverlap(e *env) {
	w := e.World()
	late := func(name string) recurring.Status {
		w.setBack(name, time.Minute)
		w.B.Wake(backend.RecurringTopic)
		return w.dealt(name)
	}
	w.fires()
	skip := w.defineJob(recurring.Job{Name: "skip", Every: time.Hour, CatchUp: recurring.CatchUpAll, Overlap: recurring.OverlapSkip})
	late(skip.Name)
	if j := late(skip.Name); j.Fired != 1 || j.Skipped != 1 {
		e.Errorf("while its message waits the job is %+v", j)
	}
	if _, err := recurring.RunNow(e.Ctx, w.B, skip.Name); !errors.Is(err, recurring.ErrPending) {
		e.Errorf("to run it now: %v", err)
	}
	d := w.Receive(w.SQ, nil)
	if j := late(skip.Name); j.Fired != 1 || j.Skipped != 2 {
		e.Errorf("while its message is in a receiver's hands the job is %+v", j)
	}
	e.Must(d.Ack(e.Ctx))
	if j := late(skip.Name); j.Fired != 2 || j.Skipped != 2 {
		e.Errorf("when its message was acknowledged the job is %+v", j)
	}
	if n := len(w.drainAll(w.SQ)); n != 1 {
		e.Errorf("%d messages of the second round", n)
	}
	for _, overlap := range []recurring.Overlap{recurring.OverlapAllow, recurring.OverlapQueue} {
		j := w.defineJob(recurring.Job{Name: string(overlap), Every: time.Hour, CatchUp: recurring.CatchUpAll, Overlap: overlap})
		late(j.Name)
		late(j.Name)
		a := w.Receive(w.SQ, &parley.ReceiveOptions{MaxMessages: 1})
		if b := w.TryReceive(w.SQ, &parley.ReceiveOptions{MaxMessages: 1}, 0); (b != nil) != (overlap == recurring.OverlapAllow) {
			e.Errorf("%s: while one message is in a receiver's hands, the other one is: %v", overlap, b != nil)
		} else if b != nil {
			e.Must(b.Ack(e.Ctx))
		}
		e.Must(a.Ack(e.Ctx))
		w.drainAll(w.SQ)
	}
}

func checkRecurringRevisions(e *env) {
	w := e.World()
	j := w.defineJob(recurring.Job{Name: "job", Revision: 2, Cron: "0 3 * * *", Zone: "Europe/Berlin"})
	before := w.job(j.Name)
	is := func(says string, cron string, revision int64) {
		if got := w.job(j.Name); got.Cron != cron || got.Revision != revision {
			e.Errorf("%s: the job is %+v", says, got)
		}
	}
	e.Must(recurring.Define(e.Ctx, w.B, j))
	if got := w.job(j.Name); !got.Due.Equal(before.Due) {
		e.Errorf("defined again, it is due at %v instead of %v", got.Due, before.Due)
	}
	old := j
	old.Revision, old.Cron = 1, "0 1 * * *"
	e.Must(recurring.Define(e.Ctx, w.B, old))
	is("after an older definition", "0 3 * * *", 2)
	other := j
	other.Cron = "0 4 * * *"
	e.Is(recurring.Define(e.Ctx, w.B, other), recurring.ErrRevision)
	is("after another one of the same revision", "0 3 * * *", 2)
	other.Revision = 3
	e.Must(recurring.Define(e.Ctx, w.B, other))
	is("after a newer one", "0 4 * * *", 3)
	e.Must(recurring.Define(e.Ctx, w.B, j))
	is("after the first one", "0 4 * * *", 3)
	e.Must(recurring.Remove(e.Ctx, w.B, j.Name))
	for _, old := range []recurring.Job{old, j, other} {
		e.Must(recurring.Define(e.Ctx, w.B, old))
	}
	e.Is(recurring.Pause(e.Ctx, w.B, j.Name), recurring.ErrNoJob)
	other.Revision = 4
	e.Must(recurring.Define(e.Ctx, w.B, other))
	is("after it was removed and defined anew", "0 4 * * *", 4)
}

func checkRecurringBad(e *env) {
	w := e.World()
	good := recurring.Job{Name: w.Name("good"), Queue: w.SQ, Type: w.Any, Every: time.Hour}
	for _, test := range []struct {
		change func(*recurring.Job)
		want   error
	}{
		{func(j *recurring.Job) { j.Name = "" }, parley.ErrInvalidName},
		{func(j *recurring.Job) { j.Queue = w.Name("none") }, parley.ErrUnknownQueue},
		{func(j *recurring.Job) { j.Type = w.Name("none") }, parley.ErrUnknownType},
		{func(j *recurring.Job) { j.Every, j.Cron = 0, "60 * * * *" }, parley.ErrInvalidOption},
		{func(j *recurring.Job) { j.Every, j.Cron = 0, "0 0 30 2 *" }, parley.ErrInvalidOption},
		{func(j *recurring.Job) { j.Every, j.Cron, j.Zone = 0, "@daily", "Nowhere/City" }, parley.ErrInvalidOption},
		{func(j *recurring.Job) { j.CatchUp = "some" }, parley.ErrInvalidOption},
	} {
		bad := good
		bad.Name = w.Name("bad")
		test.change(&bad)
		if err := recurring.Define(e.Ctx, w.B, good, bad); !errors.Is(err, test.want) {
			e.Errorf("%+v: %v, want %v", bad, err, test.want)
		}
	}
	for _, verb := range []func(name string) error{
		func(name string) error { return recurring.Pause(e.Ctx, w.B, name) },
		func(name string) error { return recurring.Resume(e.Ctx, w.B, name) },
		func(name string) error { return recurring.Remove(e.Ctx, w.B, name) },
		func(name string) error { _, err := recurring.RunNow(e.Ctx, w.B, name); return err },
	} {
		e.Is(verb(good.Name), recurring.ErrNoJob) // it was defined together with bad ones
	}
	all, err := w.B.Backend().RecurringJobs(e.Ctx)
	e.Must(err)
	if slices.ContainsFunc(all, func(j backend.RecurringJob) bool { return j.Name == good.Name || j.Name == w.Name("bad") }) {
		e.Errorf("something of the refused definitions and verbs is stored")
	}
}

func checkRecurringPaused(e *env) {
	w := e.World()
	j := w.defineJob(recurring.Job{Name: "job", Every: time.Hour, CatchUp: recurring.CatchUpAll})
	e.Must(recurring.Pause(e.Ctx, w.B, j.Name))
	w.setBack(j.Name, 150*time.Minute)
	if got, _ := w.claims(w.begin()); got == j.Name {
		e.Fatalf("a job that is paused was claimed")
	}
	due := w.job(j.Name).Due
	id, err := recurring.RunNow(e.Ctx, w.B, j.Name)
	e.Must(err)
	if got := w.job(j.Name); got.State != recurring.StatePaused || !got.Due.Equal(due) {
		e.Errorf("after it was run the job is %+v", got)
	}
	d := w.Receive(w.SQ, nil)
	if m := d.Messages[0]; m.ID != id || string(m.Body) != "job" || m.Type != w.Any {
		e.Errorf("to run the job now has brought the message %v %s %q", m.ID, m.Type, m.Body)
	}
	e.Must(d.Ack(e.Ctx))
	e.Must(recurring.Resume(e.Ctx, w.B, j.Name))
	if got := w.job(j.Name); got.State != recurring.StateActive || !got.Due.Equal(due.Add(3*time.Hour)) {
		e.Errorf("resumed at %v, the job that was due at %v is %+v", got.Now, due, got)
	}
	b := w.fires()
	other := w.defineJob(recurring.Job{Name: "other", Every: time.Hour, CatchUp: recurring.CatchUpAll})
	w.setBack(other.Name, time.Minute)
	b.Wake(backend.RecurringTopic)
	w.dealt(other.Name)
	if got := bodiesOf(w.drainAll(w.SQ)); !slices.Equal(got, []string{"other"}) {
		e.Errorf("received after that is %q: what was due while the job was paused is not made up for", got)
	}
	e.Must(recurring.Remove(e.Ctx, w.B, j.Name))
	e.Is(recurring.Pause(e.Ctx, w.B, j.Name), recurring.ErrNoJob)
}
