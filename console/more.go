package console

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/recurring"
)

// job is a recurring job as pages show it.
type job struct {
	recurring.Status
	When string
	In   time.Duration // until it is due, by the store's clock; below zero: since then
}

func (h *Handler) readRecurring(ctx context.Context, _ url.Values) (any, error) {
	list, err := recurring.List(ctx, h.b)
	if err != nil {
		return nil, err
	}
	jobs := make([]job, len(list))
	for i, s := range list {
		jobs[i] = job{s, strings.TrimSpace(s.Cron + " " + s.Zone), s.Due.Sub(s.Now)}
		if s.Every > 0 {
			jobs[i].When = "every " + age(s.Every)
		}
		if s.Jitter > 0 {
			jobs[i].When += ", up to " + age(s.Jitter) + " later"
		}
	}
	return jobs, nil
}

// process is a program with its workers.
type process struct {
	Owner   string
	Workers []workerRow
	Alive   int
}

// workerRow is a worker on a queue, of one or several readers.
type workerRow struct {
	Worker  parley.ID
	Queue   string
	Readers int // at most
	InHand  []parley.ID
	Signed  time.Duration // since what it has in hand changed
	Dead    time.Duration // since it counts as dead
	Alone   bool          // it handles a message that may be deadly
}

// Few are the first messages in hand.
func (w workerRow) Few() []parley.ID { return w.InHand[:min(len(w.InHand), 5)] }

// workersData are all processes with workers.
type workersData struct {
	Processes []process
	Unserved  []queueRow // queues where messages wait for no worker
}

func (h *Handler) readWorkers(ctx context.Context, _ url.Values) (any, error) {
	list, err := h.b.Admin().Workers(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := h.queues(ctx)
	if err != nil {
		return nil, err
	}
	d := &workersData{}
	for _, q := range queues {
		if q.Readers == 0 && q.Depth > 0 {
			d.Unserved = append(d.Unserved, q)
		}
	}
	d.Processes = processes(list)
	return d, nil
}

// processes puts the records of readers together by worker and queue, and these by process.
func processes(list []parley.WorkerStatus) (all []process) {
	type key struct {
		worker parley.ID
		queue  string
	}
	rows := make(map[key]*workerRow)
	owners := make(map[key]string)
	for _, w := range list {
		k := key{w.Worker, w.Queue}
		row := rows[k]
		if row == nil {
			row = &workerRow{Worker: w.Worker, Queue: w.Queue, Signed: w.Since, Dead: -w.Left}
			rows[k], owners[k] = row, w.Owner
		}
		row.Readers = max(row.Readers, w.Readers)
		row.InHand = append(row.InHand, w.InHand...)
		row.Signed, row.Dead = min(row.Signed, w.Since), min(row.Dead, -w.Left)
		row.Alone = row.Alone || w.Alone
	}
	at := make(map[string]int)
	for k, row := range rows {
		row.Dead = max(row.Dead, 0)
		i, ok := at[owners[k]]
		if !ok {
			i = len(all)
			at[owners[k]], all = i, append(all, process{Owner: owners[k]})
		}
		all[i].Workers = append(all[i].Workers, *row)
		if row.Dead == 0 {
			all[i].Alive++
		}
	}
	for _, p := range all {
		slices.SortFunc(p.Workers, func(a, b workerRow) int {
			return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(a.Worker.String(), b.Worker.String()))
		})
	}
	slices.SortFunc(all, func(a, b process) int {
		return cmp.Or(cmp.Compare(b.Alive, a.Alive), strings.Compare(a.Owner, b.Owner))
	})
	return all
}

func (h *Handler) readCatalog(ctx context.Context, _ url.Values) (any, error) {
	c, err := h.b.Catalog(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return &parley.Catalog{}, nil
	}
	return c, err
}
