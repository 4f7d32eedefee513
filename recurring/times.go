package recurring

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // a program finds time zones on systems without them
	"unicode/utf8"

	cron "github.com/netresearch/go-cron"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// times are the due times of a job.
type times interface {
	// next is the first one after t.
	next(t time.Time) time.Time
}

// never is the due time of a job that has no further one.
var never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// check validates a definition and returns it as it is stored, with its due times. The due times of an
// interval can be counted from any of them.
func (j Job) check() (row Status, t func(one time.Time) times, err error) {
	row = Status{
		Name: j.Name, Revision: cmp.Or(j.Revision, 1),
		Queue: j.Queue, Type: cmp.Or(j.Type, parley.DefaultType), Body: j.Body,
		Cron: j.Cron, Zone: j.Zone, Every: j.Every, Jitter: j.Jitter, Grace: cmp.Or(j.Grace, time.Minute),
		CatchUp: string(cmp.Or(j.CatchUp, CatchUpSkip)), Overlap: string(cmp.Or(j.Overlap, OverlapAllow)),
	}
	bad := func(format string, args ...any) (Status, func(time.Time) times, error) {
		return row, nil, fmt.Errorf(format+": %w", append(args, parley.ErrInvalidOption)...)
	}
	switch n := utf8.RuneCountInString(j.Name); {
	case n == 0 || n > 100 || !backend.IsText(j.Name):
		return row, nil, fmt.Errorf("name of %d characters: want UTF-8 of 1 to 100, without zero bytes: %w",
			n, parley.ErrInvalidName)
	case row.Revision < 1:
		return bad("revision %d: want 1 or more", j.Revision)
	case (j.Cron == "") == (j.Every == 0):
		return bad("want either Cron or Every")
	case j.Every != 0 && (j.Every < 10*time.Millisecond || j.Every%time.Millisecond != 0):
		return bad("every %v: want whole milliseconds, at least 10", j.Every)
	case j.Every != 0 && j.Zone != "":
		return bad("a time zone is for Cron alone")
	case j.Jitter < 0 || j.Every != 0 && j.Jitter > j.Every:
		return bad("jitter %v: want zero or more, and no more than the interval", j.Jitter)
	case row.Grace < 0:
		return bad("grace %v: want zero or more", j.Grace)
	}
	switch CatchUp(row.CatchUp) {
	case CatchUpSkip, CatchUpOnce, CatchUpAll:
	default:
		return bad("catch-up %q: want skip, once or all", j.CatchUp)
	}
	switch Overlap(row.Overlap) {
	case OverlapAllow, OverlapSkip, OverlapQueue:
	default:
		return bad("overlap %q: want allow, skip or queue", j.Overlap)
	}
	t, err = timesOf(row)
	return row, t, err
}

// timesOf returns the due times of a stored job.
func timesOf(j Status) (func(one time.Time) times, error) {
	if j.Every > 0 {
		return func(one time.Time) times { return interval{one, j.Every} }, nil
	}
	c, err := parse(j.Cron, j.Zone)
	if err != nil {
		return nil, fmt.Errorf("cron expression %q in zone %q: %w: %w", j.Cron, j.Zone, parley.ErrInvalidOption, err)
	}
	return func(time.Time) times { return c }, nil
}

// interval are due times at a distance from each other, of which one is known.
type interval struct {
	one   time.Time
	every time.Duration
}

func (i interval) next(t time.Time) time.Time {
	if t.Before(i.one) {
		return i.one
	}
	return i.one.Add((t.Sub(i.one)/i.every + 1) * i.every)
}

// clock are the due times of a cron expression. The parser works on the wall clock alone, as times in UTC; what
// a change of the zone's clock means is decided here. See docs/decisions/0050.
type clock struct {
	spec   *cron.SpecSchedule
	zone   *time.Location
	hourly bool // in every hour: by elapsed time, whatever the wall clock does
}

var parser = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
	cron.Descriptor | cron.DowOrDom | cron.Extended)

// years is how far a due time is looked for: 29 February can be eight years away.
const years = 9

func parse(text, zone string) (c clock, err error) {
	switch {
	case zone == "Local":
		return c, fmt.Errorf("the zone would differ between processes")
	case strings.Contains(text, "="):
		return c, fmt.Errorf("the zone belongs in Zone, not in the expression")
	}
	if c.zone, err = time.LoadLocation(zone); err != nil {
		return c, err
	}
	parsed, err := parser.Parse(strings.ToLower(text)) // an H is taken for a hash, also in THU
	if err != nil {
		return c, err
	}
	var ok bool
	if c.spec, ok = parsed.(*cron.SpecSchedule); !ok {
		return c, fmt.Errorf("want five or six fields; an interval belongs in Every")
	}
	c.spec.Location, c.spec.MaxSearchYears = time.UTC, years
	const all = 1<<24 - 1
	c.hourly = c.spec.Hour&all == all
	if c.spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return c, fmt.Errorf("there is no such day")
	}
	return c, nil
}

// offset is that of the zone at a time.
func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

func (c clock) next(t time.Time) time.Time {
	at := t.In(c.zone)
	from := t.UTC().Add(offset(at)) // what the clock shows, as a time in UTC
	start, end := at.ZoneBounds()
	if !c.hourly && !start.IsZero() {
		// What the clock shows for the second time is over.
		if shown := start.UTC().Add(offset(start.Add(-1))); from.Before(shown) {
			from = shown.Add(-time.Second)
		}
	}
	for {
		w := c.spec.Next(from)
		if w.IsZero() {
			return never
		}
		due := w.Add(-offset(at))
		if end.IsZero() || due.Before(end) {
			return due
		}
		at = end
		shows := end.UTC().Add(offset(end))
		switch {
		case c.hourly:
			from = shows.Add(-time.Second)
		case w.Before(shows): // the clock skips it
			return end.UTC()
		default:
			from = w.Add(-time.Second)
		}
		_, end = at.ZoneBounds()
	}
}

// jitter is the delay of a job's next message.
func jitter(j Status) time.Duration {
	if j.Jitter == 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprint(h, j.Name, j.Due.UnixMicro())
	return time.Duration(h.Sum64() % uint64(j.Jitter)).Truncate(time.Microsecond)
}

// until returns the due times from the first one to a time, of more than MaxCatchUp the latest.
func until(t times, first, last time.Time) (list []time.Time) {
	// Where there are many, those of the first years are not looked at.
	for back := time.Second; ; back *= 2 {
		from := last.Add(-back)
		whole := !from.After(first)
		if whole {
			from = first.Add(-time.Nanosecond)
		}
		list = nil
		for due := t.next(from); !due.After(last); due = t.next(due) {
			list = append(list, due)
		}
		if len(list) >= MaxCatchUp || whole {
			return list[max(0, len(list)-MaxCatchUp):]
		}
	}
}

// outstanding returns the due times of a claimed job for which messages are to be posted now, and the due time that
// comes next.
func outstanding(j Status, t times) (list []time.Time, next time.Time) {
	now := j.Now.Add(-jitter(j))
	if now.Before(j.Due) {
		now = j.Due
	}
	list = until(t, j.Due, now)
	missed := func(due time.Time) bool { return now.Sub(due) > j.Grace }
	switch CatchUp(j.CatchUp) {
	case CatchUpSkip:
		for len(list) > 0 && missed(list[0]) {
			list = list[1:]
		}
	case CatchUpOnce:
		if missed(j.Due) {
			list = list[max(0, len(list)-1):]
		}
	}
	if len(list) > atOnce {
		return list[:atOnce], list[atOnce]
	}
	return list, t.next(now)
}
