package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/parleymq/parley/backend"
)

// trace keeps the latest calls that a check has made of its store, by itself or through brokers
// and workers: what led to a failure.
type trace struct {
	mu      sync.Mutex
	lines   []string
	same    int // how often the last line happened in a row
	left    int // lines that were dropped
	handles int
	txs     int
}

// traceLines is how many calls a failure shows.
const traceLines = 30

// begin forgets the calls of earlier checks.
func (t *trace) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines, t.left, t.same = nil, 0, 0
}

func (t *trace) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.lines); n > 0 && t.lines[n-1] == line {
		t.same++
		return
	}
	t.fold()
	t.lines = append(t.lines, line)
	if len(t.lines) > traceLines {
		t.lines, t.left = t.lines[1:], t.left+1
	}
}

// fold ends a row of equal lines.
func (t *trace) fold() {
	if n := len(t.lines); n > 0 && t.same > 0 {
		t.lines[n-1] += fmt.Sprintf(" (%d times)", t.same+1)
	}
	t.same = 0
}

// history returns the calls, and says how many came before.
func (t *trace) history() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fold()
	lines := append([]string(nil), t.lines...)
	if t.left > 0 {
		lines = append([]string{fmt.Sprintf("… %d earlier calls", t.left)}, lines...)
	}
	return lines
}

// handle returns a handle whose calls are noted.
func (t *trace) handle(be backend.Backend) backend.Backend {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handles++
	return noted{be, t, fmt.Sprintf("handle %d", t.handles)}
}

// noted is a handle whose calls are noted. What only reads is not.
type noted struct {
	backend.Backend
	t    *trace
	name string
}

// note notes a call and its outcome.
func (b noted) note(err error, format string, args ...any) {
	line := b.name + ": " + fmt.Sprintf(format, args...)
	if err != nil {
		line += ": " + err.Error()
	}
	b.t.add(line)
}

func (b noted) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := b.Backend.Begin(ctx)
	if err != nil {
		b.note(err, "Begin")
		return nil, err
	}
	b.t.mu.Lock()
	b.t.txs++
	b.name = fmt.Sprintf("tx %d of %s", b.t.txs, b.name)
	b.t.mu.Unlock()
	return &notedTx{Tx: tx, by: b}, nil
}

func (b noted) Maintain(ctx context.Context, job backend.Job, limit int) (backend.Maintained, error) {
	done, err := b.Backend.Maintain(ctx, job, limit)
	if done.Moved > 0 || err != nil {
		b.note(err, "Maintain %v, at most %d -> %d", job, limit, done.Moved)
	}
	return done, err
}

func (b noted) Extend(ctx context.Context, holds []*backend.Hold, d time.Duration) error {
	err := b.Backend.Extend(ctx, holds, d)
	b.note(err, "Extend %d holds by %v", len(holds), d)
	return err
}

func (b noted) Close() error {
	err := b.Backend.Close()
	b.note(err, "Close")
	return err
}

// notedTx is a transaction whose calls are noted.
type notedTx struct {
	backend.Tx
	by   noted
	mu   sync.Mutex
	used bool // a call of it has been noted
}

func (t *notedTx) note(err error, format string, args ...any) {
	t.mu.Lock()
	t.used = true
	t.mu.Unlock()
	t.by.note(err, format, args...)
}

// ends notes the end of a transaction that has done something, once.
func (t *notedTx) ends(err error, verb string) error {
	t.mu.Lock()
	used := t.used
	t.used = false
	t.mu.Unlock()
	if used || err != nil {
		t.by.note(err, "%s", verb)
	}
	return err
}

func (t *notedTx) Commit(ctx context.Context) error { return t.ends(t.Tx.Commit(ctx), "Commit") }

func (t *notedTx) Rollback(ctx context.Context) error { return t.ends(t.Tx.Rollback(ctx), "Rollback") }

func (t *notedTx) RollbackTo(ctx context.Context, name string) error {
	err := t.Tx.RollbackTo(ctx, name)
	t.note(err, "RollbackTo %s", name)
	return err
}

func (t *notedTx) PutCatalog(ctx context.Context, c *backend.Catalog) (int64, error) {
	version, err := t.Tx.PutCatalog(ctx, c)
	t.note(err, "PutCatalog -> version %d", version)
	return version, err
}

func (t *notedTx) BeginDialog(ctx context.Context, version int64, d backend.NewDialog) error {
	err := t.Tx.BeginDialog(ctx, version, d)
	t.note(err, "BeginDialog %s of group %s", d.Handle, d.Group)
	return err
}

func (t *notedTx) Accept(ctx context.Context, version int64, from backend.ID, to backend.Endpoint) (bool, error) {
	made, err := t.Tx.Accept(ctx, version, from, to)
	t.note(err, "Accept %s from %s -> %t", to.Handle, from, made)
	return made, err
}

func (t *notedTx) Send(ctx context.Context, version int64, list []backend.Outgoing) ([]backend.Sent, error) {
	sent, err := t.Tx.Send(ctx, version, list)
	t.note(err, "Send%s", outgoing(list))
	return sent, err
}

func (t *notedTx) Withhold(ctx context.Context, list []backend.Outgoing, status string) ([]backend.Sent, error) {
	sent, err := t.Tx.Withhold(ctx, list, status)
	t.note(err, "Withhold%s", outgoing(list))
	return sent, err
}

func (t *notedTx) Deliver(ctx context.Context, from backend.ID) (int, error) {
	n, err := t.Tx.Deliver(ctx, from)
	t.note(err, "Deliver from %s -> %d", from, n)
	return n, err
}

func (t *notedTx) Discard(ctx context.Context, from backend.ID, reason string) (int, error) {
	n, err := t.Tx.Discard(ctx, from, reason)
	t.note(err, "Discard from %s -> %d", from, n)
	return n, err
}

func (t *notedTx) EndDialog(ctx context.Context, end backend.End) (backend.Ended, error) {
	done, err := t.Tx.EndDialog(ctx, end)
	t.note(err, "EndDialog %s, kind %d -> %+v", end.Handle, end.Kind, done)
	return done, err
}

func (t *notedTx) Notice(ctx context.Context, n backend.Notice) error {
	err := t.Tx.Notice(ctx, n)
	t.note(err, "Notice of kind %d to %s", n.Kind, n.To)
	return err
}

func (t *notedTx) Move(ctx context.Context, handle, group backend.ID, newGroup bool) error {
	err := t.Tx.Move(ctx, handle, group, newGroup)
	t.note(err, "Move %s to group %s", handle, group)
	return err
}

func (t *notedTx) SetTimer(ctx context.Context, handle backend.ID, after time.Duration) error {
	err := t.Tx.SetTimer(ctx, handle, after)
	t.note(err, "SetTimer of %s in %v", handle, after)
	return err
}

func (t *notedTx) Post(ctx context.Context, version int64, list []backend.Posting) ([]backend.Posted, error) {
	posted, err := t.Tx.Post(ctx, version, list)
	var b strings.Builder
	some(&b, list, func(p backend.Posting) string { return fmt.Sprintf("%.20q key %.20q", p.Body, p.Key) })
	t.note(err, "Post%s", &b)
	return posted, err
}

func (t *notedTx) Cancel(ctx context.Context, queue int64, id backend.ID) error {
	err := t.Tx.Cancel(ctx, queue, id)
	t.note(err, "Cancel %s", id)
	return err
}

func (t *notedTx) CancelFree(ctx context.Context, queue int64, ids []backend.ID) ([]backend.ID, error) {
	removed, err := t.Tx.CancelFree(ctx, queue, ids)
	t.note(err, "CancelFree %d of %d posts", len(removed), len(ids))
	return removed, err
}

func (t *notedTx) Claim(ctx context.Context, r backend.ClaimRequest) (backend.Claim, error) {
	c, err := t.Tx.Claim(ctx, r)
	var b strings.Builder
	for i, h := range c.Holds {
		if i == 3 {
			fmt.Fprintf(&b, " and %d more groups", len(c.Holds)-i)
			break
		}
		fmt.Fprintf(&b, " group %s", h.Group)
		some(&b, h.Messages, func(m *backend.Message) string { return fmt.Sprintf("%d:%.20q", m.Seq, m.Body) })
	}
	if len(c.Holds) == 0 {
		if err == nil { // receivers look again and again: one line for all of them
			t.by.t.add("a claim finds nothing")
		} else {
			t.note(err, "Claim in queue %d", r.Queue)
		}
		return c, err
	}
	hold := "transaction"
	if r.Lease > 0 {
		hold = "lease"
	}
	t.note(err, "Claim in queue %d by %s ->%s", r.Queue, hold, &b)
	return c, err
}

func (t *notedTx) Reclaim(ctx context.Context, holds []*backend.Hold) error {
	err := t.Tx.Reclaim(ctx, holds)
	t.note(err, "Reclaim %d holds", len(holds))
	return err
}

func (t *notedTx) Keep(ctx context.Context, h *backend.Hold, lease time.Duration, owner string) error {
	err := t.Tx.Keep(ctx, h, lease, owner)
	t.note(err, "Keep group %s for %v", h.Group, lease)
	return err
}

func (t *notedTx) Settle(ctx context.Context, outcomes []backend.Outcome) (bool, error) {
	again, err := t.Tx.Settle(ctx, outcomes)
	var b strings.Builder
	some(&b, outcomes, func(o backend.Outcome) string {
		text := fmt.Sprintf("group %s: %d done, %d dead", o.Hold.Group, len(o.Done), len(o.Dead))
		switch {
		case o.Park != "":
			text += ", parked"
		case o.Defer > 0:
			text += fmt.Sprintf(", deferred by %v", o.Defer)
		case o.Failure != nil:
			text += ", failed"
		}
		return text
	})
	t.note(err, "Settle%s", &b)
	return again, err
}

func (t *notedTx) LockGroup(ctx context.Context, group backend.ID) error {
	err := t.Tx.LockGroup(ctx, group)
	t.note(err, "LockGroup %s", group)
	return err
}

func (t *notedTx) Promote(ctx context.Context, p backend.Promotion) error {
	err := t.Tx.Promote(ctx, p)
	t.note(err, "Promote %+v", p)
	return err
}

func (t *notedTx) Demote(ctx context.Context, group backend.ID) error {
	err := t.Tx.Demote(ctx, group)
	t.note(err, "Demote %s", group)
	return err
}

func (t *notedTx) Unpark(ctx context.Context, group backend.ID) error {
	err := t.Tx.Unpark(ctx, group)
	t.note(err, "Unpark %s", group)
	return err
}

func (t *notedTx) Lock(ctx context.Context, name string, mode backend.LockMode, wait time.Duration) (backend.Grant, error) {
	g, err := t.Tx.Lock(ctx, name, mode, wait)
	t.note(err, "Lock %q %v for at most %v -> %+v", name, mode, wait, g)
	return g, err
}

func (t *notedTx) Submit(ctx context.Context, plan string, o backend.PlanOptions, tasks []backend.NewTask) error {
	err := t.Tx.Submit(ctx, plan, o, tasks)
	t.note(err, "Submit %d tasks to %q", len(tasks), plan)
	return err
}

func (t *notedTx) ClaimTasks(ctx context.Context, c backend.TaskClaim) ([]backend.TaskHold, error) {
	holds, err := t.Tx.ClaimTasks(ctx, c)
	if len(holds) == 0 && err == nil {
		t.by.t.add("a claim of tasks finds nothing")
		return holds, err
	}
	var b strings.Builder
	some(&b, holds, func(h backend.TaskHold) string { return fmt.Sprintf("%s of phase %d", h.Task, h.Phase) })
	t.note(err, "ClaimTasks ->%s", &b)
	return holds, err
}

func (t *notedTx) FinishTask(ctx context.Context, h backend.TaskHold, o backend.TaskOutcome) error {
	err := t.Tx.FinishTask(ctx, h, o)
	t.note(err, "FinishTask %s -> %v", h.Task, o.State)
	return err
}

func (t *notedTx) FinishTasks(ctx context.Context, ends []backend.TaskEnd) ([]backend.ID, error) {
	lost, err := t.Tx.FinishTasks(ctx, ends)
	var b strings.Builder
	some(&b, ends, func(e backend.TaskEnd) string { return fmt.Sprintf("%s %v", e.Hold.Task, e.Outcome.State) })
	t.note(err, "FinishTasks%s -> %d lost", &b, len(lost))
	return lost, err
}

func (t *notedTx) Control(ctx context.Context, plan string, c backend.TaskControl, task backend.ID) (int, []backend.ID, error) {
	n, busy, err := t.Tx.Control(ctx, plan, c, task)
	t.note(err, "Control %q: %v -> %d", plan, c, n)
	return n, busy, err
}

func outgoing(list []backend.Outgoing) string {
	var b strings.Builder
	some(&b, list, func(m backend.Outgoing) string { return fmt.Sprintf("%.20q from %s", m.Body, m.From) })
	return b.String()
}

// some writes the first three of a list.
func some[T any](b *strings.Builder, list []T, text func(T) string) {
	for i, x := range list {
		if i == 3 {
			fmt.Fprintf(b, " and %d more", len(list)-i)
			return
		}
		b.WriteString(" " + text(x))
	}
}
