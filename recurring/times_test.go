package recurring

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
)

// TestDST has the due times around the changes of the clock in two zones, from the midnight before each.
func TestDST(t *testing.T) {
	zones := map[string][2]string{ // midnight before the clock goes forward, and before it goes back
		"Europe/Berlin":    {"2026-03-28T23:00:00Z", "2026-10-24T22:00:00Z"}, // 2:00 becomes 3:00, 3:00 becomes 2:00
		"America/New_York": {"2026-03-08T05:00:00Z", "2026-11-01T04:00:00Z"}, // 2:00 becomes 3:00, 2:00 becomes 1:00
	}
	const forward, back = 0, 1
	for _, test := range []struct {
		zone   string
		change int
		cron   string
		want   string
	}{
		{"Europe/Berlin", forward, "30 1 * * *", "29 01:30:00 CET, 30 01:30:00 CEST"},
		{"Europe/Berlin", forward, "30 2 * * *", "29 03:00:00 CEST, 30 02:30:00 CEST"},
		{"Europe/Berlin", forward, "15 0,20,40 2,3 * * *", "29 03:00:00 CEST, 29 03:00:15 CEST, 29 03:20:15 CEST, 29 03:40:15 CEST, 30 02:00:15 CEST"},
		{"Europe/Berlin", forward, "0 */2 * * *", "29 03:00:00 CEST, 29 04:00:00 CEST, 29 06:00:00 CEST"},
		{"Europe/Berlin", forward, "30 * * * *", "29 00:30:00 CET, 29 01:30:00 CET, 29 03:30:00 CEST, 29 04:30:00 CEST"},
		{"Europe/Berlin", back, "30 2 * * *", "25 02:30:00 CEST, 26 02:30:00 CET"},
		{"Europe/Berlin", back, "59 59 2 * * *", "25 02:59:59 CEST, 26 02:59:59 CET"},
		{"Europe/Berlin", back, "0,30 1-3 * * *", "25 01:00:00 CEST, 25 01:30:00 CEST, 25 02:00:00 CEST, 25 02:30:00 CEST, 25 03:00:00 CET, 25 03:30:00 CET, 26 01:00:00 CET"},
		{"Europe/Berlin", back, "30 * * * *", "25 00:30:00 CEST, 25 01:30:00 CEST, 25 02:30:00 CEST, 25 02:30:00 CET, 25 03:30:00 CET"},
		{"America/New_York", forward, "30 1 * * *", "08 01:30:00 EST, 09 01:30:00 EDT"},
		{"America/New_York", forward, "0 2 * * *", "08 03:00:00 EDT, 09 02:00:00 EDT"},
		{"America/New_York", forward, "59 59 2 * * *", "08 03:00:00 EDT, 09 02:59:59 EDT"},
		{"America/New_York", forward, "@hourly", "08 01:00:00 EST, 08 03:00:00 EDT, 08 04:00:00 EDT"},
		{"America/New_York", back, "0 1 * * *", "01 01:00:00 EDT, 02 01:00:00 EST"},
		{"America/New_York", back, "30 1 * * *", "01 01:30:00 EDT, 02 01:30:00 EST"},
		{"America/New_York", back, "0 2 * * *", "01 02:00:00 EST, 02 02:00:00 EST"},
		{"America/New_York", back, "45 * * * *", "01 00:45:00 EDT, 01 01:45:00 EDT, 01 01:45:00 EST, 01 02:45:00 EST"},
		{"America/New_York", back, "0 12 * * SUN", "01 12:00:00 EST, 08 12:00:00 EST"},
	} {
		c, err := parse(test.cron, test.zone)
		if err != nil {
			t.Fatalf("%s: %v", test.cron, err)
		}
		at, err := time.Parse(time.RFC3339, zones[test.zone][test.change])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Count(test.want, ",") + 1 {
			at = c.next(at)
			got = append(got, at.In(c.zone).Format("02 15:04:05 MST"))
		}
		if s := strings.Join(got, ", "); s != test.want {
			t.Errorf("%s in %s:\n  got %s\n want %s", test.cron, test.zone, s, test.want)
		}
	}
}

// TestDSTModel compares due times with what the rule says of each minute of the days around changes of the clock.
// A time of day is due when the clock first shows it, or when the clock passes over it.
func TestDSTModel(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		change := time.Date(2018, 1, 1, 0, 0, 0, 0, zone)
		for range 2 {
			_, change = change.ZoneBounds()
			for _, spec := range []string{"0 0 * * *", "30 0,1,2,3,23 * * *", "*/20 1-3 * * *", "15 */6 * * 0", "10 * * * *", "*/30 * * * *"} {
				compareWithModel(t, spec, zone, change.UTC().AddDate(0, 0, -2), change.UTC().AddDate(0, 0, 2))
			}
		}
	}
}

func compareWithModel(t *testing.T, spec string, zone *time.Location, begin, end time.Time) {
	c, err := parse(spec, zone.String())
	if err != nil {
		t.Fatal(err)
	}
	hourly := strings.Fields(spec)[1] == "*"
	matches := func(w time.Time) bool { return c.spec.Next(w.Add(-time.Second)).Equal(w) }
	var want []time.Time
	shown := make(map[time.Time]bool)
	last := face(begin.Add(-time.Minute).In(zone))
	for at := begin; at.Before(end); at = at.Add(time.Minute) {
		now := face(at.In(zone))
		due := hourly && matches(now)
		for w := last.Add(time.Minute); !w.After(now); w = w.Add(time.Minute) {
			due = due || !hourly && matches(w) && !shown[w]
			shown[w] = true
		}
		if due {
			want = append(want, at)
		}
		last = now
	}
	var got []time.Time
	for at := c.next(begin.Add(-time.Nanosecond)); at.Before(end); at = c.next(at) {
		got = append(got, at)
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%s in %v: the due times are\n%v, want\n%v", spec, zone, got, want)
	}
}

// face is what the clock shows, as a time in UTC.
func face(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

func TestCron(t *testing.T) {
	from := time.Date(2026, 11, 25, 10, 30, 15, 500, time.UTC) // a Wednesday
	for spec, want := range map[string]string{
		"*/10 * * * * *":   "2026-11-25 10:30:20",
		"0 9 * * THU":      "2026-11-26 09:00:00",
		"0 9 * MAR-APR *":  "2027-03-01 09:00:00",
		"0 0 1,15 * 5":     "2026-11-27 00:00:00", // either of two days, as in other crons
		"0 0 29 2 *":       "2028-02-29 00:00:00",
		"0 0 L * *":        "2026-11-30 00:00:00",
		"0 0 * * fri#L":    "2026-11-27 00:00:00",
		"0 0 * * mon#1":    "2026-12-07 00:00:00",
		"@weekly":          "2026-11-29 00:00:00",
		"15 30 10 25 11 *": "2027-11-25 10:30:15",
	} {
		c, err := parse(spec, "")
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if got := c.next(from).Format(time.DateTime); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
	leap, err := parse("0 0 29 2 *", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := leap.next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)); got.Year() != 2104 {
		t.Errorf("the leap day after 2096 is %v", got)
	}
}

// TestCheck: bad definitions get typed errors.
func TestCheck(t *testing.T) {
	good := Job{Name: "a", Queue: "q", Every: time.Second}
	for _, test := range []struct {
		change func(*Job)
		want   error
	}{
		{func(j *Job) {}, nil},
		{func(j *Job) { j.Name = strings.Repeat("é", 100) }, nil},
		{func(j *Job) { j.Name = "" }, parley.ErrInvalidName},
		{func(j *Job) { j.Name = strings.Repeat("é", 101) }, parley.ErrInvalidName},
		{func(j *Job) { j.Name = "a\xff" }, parley.ErrInvalidName},
		{func(j *Job) { j.Revision = -1 }, parley.ErrInvalidOption},
		{func(j *Job) { j.Every = 0 }, parley.ErrInvalidOption},
		{func(j *Job) { j.Every = time.Millisecond }, parley.ErrInvalidOption},
		{func(j *Job) { j.Every = time.Second + 1 }, parley.ErrInvalidOption},
		{func(j *Job) { j.Every = -time.Second }, parley.ErrInvalidOption},
		{func(j *Job) { j.Cron = "@daily" }, parley.ErrInvalidOption},
		{func(j *Job) { j.Zone = "UTC" }, parley.ErrInvalidOption},
		{func(j *Job) { j.Jitter = 2 * time.Second }, parley.ErrInvalidOption},
		{func(j *Job) { j.Jitter = -1 }, parley.ErrInvalidOption},
		{func(j *Job) { j.Grace = -1 }, parley.ErrInvalidOption},
		{func(j *Job) { j.CatchUp = "some" }, parley.ErrInvalidOption},
		{func(j *Job) { j.Overlap = "some" }, parley.ErrInvalidOption},
	} {
		j := good
		test.change(&j)
		if _, _, err := j.check(); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v, want %v", j, err, test.want)
		}
	}
	for _, spec := range []string{"", "x", "* * * *", "* * * * * * *", "60 * * * *", "0 0 30 2 *", "TZ=UTC 0 0 * * *",
		"CRON_TZ=Europe/Berlin @daily", "@every 5s", "@reboot", "0 0 * * * MON-FRI ?", strings.Repeat("1,", 1000) + "1 * * * *"} {
		j := Job{Name: "a", Queue: "q", Cron: spec}
		if _, _, err := j.check(); !errors.Is(err, parley.ErrInvalidOption) {
			t.Errorf("cron %.40q: %v", spec, err)
		}
	}
	for _, zone := range []string{"Local", "Nowhere/City", "../etc/passwd"} {
		j := Job{Name: "a", Queue: "q", Cron: "@daily", Zone: zone}
		if _, _, err := j.check(); !errors.Is(err, parley.ErrInvalidOption) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

// TestUntil: of many due times those that are made up for are found without looking at the others.
func TestUntil(t *testing.T) {
	last := time.Date(2026, 11, 25, 10, 30, 15, 0, time.UTC)
	seconds, err := parse("* * * * * *", "")
	if err != nil {
		t.Fatal(err)
	}
	list := until(seconds, last.AddDate(-20, 0, 0), last)
	if len(list) != MaxCatchUp || !list[len(list)-1].Equal(last) || !list[0].Equal(last.Add(-(MaxCatchUp-1)*time.Second)) {
		t.Errorf("%d due times from %v", len(list), list[0])
	}
	list = until(interval{last.Add(-time.Hour), time.Minute}, last.Add(-time.Hour), last)
	if len(list) != 61 || !list[0].Equal(last.Add(-time.Hour)) || !slices.IsSortedFunc(list, time.Time.Compare) {
		t.Errorf("%d due times from %v", len(list), list[0])
	}
}

// TestOutstanding has the due times of each policy, an hour late.
func TestOutstanding(t *testing.T) {
	due := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		late    time.Duration
		catchUp CatchUp
		want    []int // minutes after the first
		next    int
	}{
		{30 * time.Second, CatchUpSkip, []int{0}, 1},
		{2 * time.Minute, CatchUpSkip, []int{0, 1, 2}, 3},
		{5*time.Minute + 1, CatchUpSkip, []int{4, 5}, 6},
		{2 * time.Minute, CatchUpOnce, []int{0, 1, 2}, 3},
		{5*time.Minute + 1, CatchUpOnce, []int{5}, 6},
		{5*time.Minute + 1, CatchUpAll, []int{0, 1, 2, 3, 4, 5}, 6},
	} {
		j := Status{Due: due, Now: due.Add(test.late), CatchUp: string(test.catchUp), Grace: 2 * time.Minute, Every: time.Minute}
		list, next := outstanding(j, interval{due, time.Minute})
		var got []int
		for _, at := range list {
			got = append(got, int(at.Sub(due)/time.Minute))
		}
		if !slices.Equal(got, test.want) || next.Sub(due) != time.Duration(test.next)*time.Minute {
			t.Errorf("%s, %v late: %v, then %v", test.catchUp, test.late, got, next)
		}
	}
	// All of a backlog are dealt with by and by.
	j := Status{Due: due, Now: due.Add(24 * time.Hour), CatchUp: string(CatchUpAll), Every: time.Minute}
	total := 0
	for j.Due.Before(j.Now) {
		list, next := outstanding(j, interval{due, time.Minute})
		if total += len(list); len(list) > atOnce || len(list) == 0 {
			t.Fatalf("%d at once", len(list))
		}
		j.Due = next
	}
	if total != MaxCatchUp {
		t.Errorf("%d due times were made up for, want %d", total, MaxCatchUp)
	}
}

func TestMessageID(t *testing.T) {
	due := time.Date(2026, 11, 25, 10, 30, 15, 123_000_000, time.UTC)
	id := messageID("a", due)
	if got := DueTime(&parley.Message{ID: id}); !got.Equal(due) {
		t.Errorf("the due time is %v", got)
	}
	if id[6]>>4 != 7 || id[8]>>6 != 2 {
		t.Errorf("%v is no UUID of version 7", id)
	}
	if id != messageID("a", due) || id == messageID("b", due) || id == messageID("a", due.Add(time.Second)) {
		t.Error("the id is not that of a job and a due time")
	}
	if a, b := messageID("a", due), messageID("a", due.Add(time.Millisecond)); a.String() >= b.String() {
		t.Errorf("%v is not before %v", a, b)
	}
	for _, due := range []time.Time{due, due.Add(time.Hour)} {
		j := Status{Name: "a", Due: due, Jitter: time.Minute}
		if d := jitter(j); d < 0 || d >= time.Minute || d != jitter(j) {
			t.Errorf("the jitter is %v", d)
		}
	}
}
