package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/recurring"
)

// sample is how a queue was at a time.
type sample struct {
	at    time.Time
	depth int
}

// history keeps samples of queues, which are taken while pages are open.
type history struct {
	mu     sync.Mutex
	queues map[int64][]sample
}

// keptSamples is how many samples of a queue are kept, and apart how far apart they are.
const (
	keptSamples = 120
	apart       = 4 * time.Second
)

// add adds samples, and returns those of each queue.
func (h *history) add(now time.Time, list []parley.QueueStatus) map[int64][]sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := make(map[int64][]sample, len(list)) // without queues that are gone
	for _, q := range list {
		old := h.queues[q.ID]
		if n := len(old); n == 0 || now.Sub(old[n-1].at) >= apart {
			old = append(old[max(0, n-keptSamples+1):n:n], sample{now, q.Depth})
		}
		kept[q.ID] = old
	}
	h.queues = kept
	return kept
}

// queueRow is a queue as the overview shows it.
type queueRow struct {
	parley.QueueStatus
	Readers int // the most that live workers may have
	InHand  int // groups that readers have in hand, or had last
	Change  float64
	Known   bool // how the depth changes
	Samples []sample
	Waited  *waited // nil: not known to this process
}

// Spark draws the depth of the last minutes.
func (q queueRow) Spark() *spark { return sparkOf(q.Samples) }

// Rate is how fast the depth changes.
func (q queueRow) Rate() string {
	switch {
	case !q.Known:
		return "–"
	case q.Change > -0.05 && q.Change < 0.05:
		return "±0"
	case q.Change < 0:
		return fmt.Sprintf("−%.1f", -q.Change)
	}
	return fmt.Sprintf("+%.1f", q.Change)
}

// Bar is the share of each state in what is there, for a picture 100 wide.
func (q queueRow) Bar() []share100 {
	return shares(part100{"ready", max(q.Depth-q.Leased, 0)}, part100{"busy", q.Leased}, part100{"wait", q.Delayed + q.Withheld},
		part100{"late", q.Deferred}, part100{"bad", q.Parked})
}

// part100 is a number of something that looks like a class.
type part100 struct {
	class string
	n     int
}

// share100 is a piece of a bar.
type share100 struct {
	Class    string
	X, Width float64
}

// shares are the pieces of a bar. What is there is seen, however little it is.
func shares(parts ...part100) (list []share100) {
	sum := 0
	for _, p := range parts {
		sum += p.n
	}
	if sum == 0 {
		return nil
	}
	const least = 2.0
	widths, total := make([]float64, len(parts)), 0.0
	for i, p := range parts {
		if p.n > 0 {
			widths[i] = max(least, 100*float64(p.n)/float64(sum))
		}
		total += widths[i]
	}
	x := 0.0
	for i, p := range parts {
		if width := widths[i] * 100 / total; width > 0 {
			list = append(list, share100{p.class, x, width})
			x += width
		}
	}
	return list
}

// queues reads all queues with their readers.
func (h *Handler) queues(ctx context.Context) ([]queueRow, error) {
	return cached(ctx, &h.cache, "queues", fresh, func() ([]queueRow, error) {
		queues, err := h.b.Admin().Queues(ctx)
		if err != nil {
			return nil, err
		}
		workers, err := h.b.Admin().Workers(ctx)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		now := time.Now()
		kept := h.history.add(now, queues)
		list := make([]queueRow, len(queues))
		for i, q := range queues {
			row := queueRow{QueueStatus: q, Samples: kept[q.ID], Waited: h.waits.of(q.Name, now)}
			row.Readers, row.InHand = readers(workers, q.Name)
			row.InHand = max(row.InHand, q.Leased) // a lease is seen at once, a reader's record a little later
			if n := len(row.Samples); n > 1 {
				from := row.Samples[max(0, n-5)] // over some samples, so that it is calm
				row.Known, row.Change = true, float64(q.Depth-from.depth)/now.Sub(from.at).Seconds()
			}
			list[i] = row
		}
		return list, nil
	})
}

// readers sums up the live workers of a queue.
func readers(workers []parley.WorkerStatus, queue string) (readers, inHand int) {
	highest := make(map[parley.ID]int)
	for _, w := range workers {
		if w.Queue == queue && w.Left > 0 {
			highest[w.Worker] = w.Readers
			inHand += len(w.InHand)
		}
	}
	for _, n := range highest {
		readers += n
	}
	return readers, inHand
}

// notice is something that people should look at.
type notice struct {
	Bad   bool
	Text  string
	Link  string // the view
	Name  string // its parameter
	Value string
}

// overviewData is what the overview shows.
type overviewData struct {
	Queues    []queueRow
	Notices   []notice
	Waiting   int
	Oldest    time.Duration
	OldestIn  string
	InHand    int
	Readers   int
	Parked    int
	Dead      int
	DeadLimit bool
	Change    string
}

// deadSeen is how many dead letters the overview counts.
const deadSeen = 1000

// deadCount counts dead letters, up to deadSeen, by queue.
func (h *Handler) deadCount(ctx context.Context) (map[string]int, error) {
	return cached(ctx, &h.cache, "dead", stale, func() (map[string]int, error) {
		dead, err := h.b.Admin().DeadSummaries(ctx, "", parley.Place{}, deadSeen)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		count := make(map[string]int)
		for _, d := range dead {
			count[d.Queue]++
		}
		return count, nil
	})
}

func (h *Handler) readOverview(ctx context.Context, _ url.Values) (any, error) {
	queues, err := h.queues(ctx)
	if err != nil {
		return nil, err
	}
	dead, err := h.deadCount(ctx)
	if err != nil {
		return nil, err
	}
	o := &overviewData{Queues: queues}
	change, known := 0.0, false
	for _, q := range queues {
		o.Waiting += q.Depth
		o.InHand += q.InHand
		o.Readers += q.Readers
		o.Parked += q.Parked
		if q.Oldest > o.Oldest {
			o.Oldest, o.OldestIn = q.Oldest, q.Name
		}
		change, known = change+q.Change, known || q.Known
		o.Dead += dead[q.Name]
		o.Notices = append(o.Notices, q.notices(dead[q.Name])...)
	}
	o.DeadLimit = o.Dead >= deadSeen
	o.Change = queueRow{Change: change, Known: known}.Rate()
	failing, err := h.failing(ctx)
	o.Notices = append(o.Notices, failing...)
	return o, err
}

// notices says what of a queue people should look at.
func (q queueRow) notices(dead int) (list []notice) {
	add := func(bad bool, link, param, format string, args ...any) {
		list = append(list, notice{bad, fmt.Sprintf(format, args...), link, param, q.Name})
	}
	if q.Disabled {
		add(true, "queue", "name", "Queue %s is disabled: nothing is received from it", q.Name)
	}
	if q.Depth > 0 && q.Readers == 0 && !q.Disabled {
		add(true, "why", "what", "No worker serves queue %s, where %s %s", q.Name, plural(q.Depth, "message"), waitOrWaits(q.Depth))
	}
	if q.Parked > 0 {
		add(true, "parked", "queue", "%s in %s %s parked", plural(q.Parked, "group"), q.Name, are(q.Parked))
	}
	if dead > 0 {
		add(true, "dead", "queue", "%s of %s", plural(dead, "dead letter"), q.Name)
	}
	if q.Withheld > 0 {
		add(false, "why", "what", "%s for %s %s withheld", plural(q.Withheld, "message"), q.Name, are(q.Withheld))
	}
	if q.Deferred > 0 {
		add(false, "parked", "queue", "%s in %s %s put off", plural(q.Deferred, "group"), q.Name, are(q.Deferred))
	}
	return list
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(n) + " " + what + "s"
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// failing looks for recurring jobs whose messages cannot be posted.
func (h *Handler) failing(ctx context.Context) (list []notice, err error) {
	jobs, err := recurring.List(ctx, h.b)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	for _, j := range jobs {
		if j.Failures > 0 {
			list = append(list, notice{true, fmt.Sprintf("Recurring job %s cannot post: %s", j.Name, brief(j.Error)), "recurring", "", ""})
		}
	}
	return list, err
}
