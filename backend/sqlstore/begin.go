package sqlstore

import (
	"context"
	"database/sql"
	"slices"

	"github.com/parleymq/parley/backend"
)

// A conversation that one of our transactions begins is stored with its first message. It is stored
// earlier if another verb, a statement of the application or the commit comes first. Until then it
// is in the transaction's list. Nothing refers to it and no other transaction can know of it, so
// storing it later locks nothing in another order. A savepoint remembers the list, and what is
// rolled back to it has the conversations in the list that were there.

// Begun is a conversation that a transaction has begun and not stored.
type Begun struct {
	Version  int64 // of the catalog by which it was begun
	From     backend.Endpoint
	To       *backend.Endpoint  // nil: not accepted yet
	Messages []backend.Outgoing // from the initiator, all of them

	renew func(ctx context.Context) (int64, backend.Endpoint, error)
}

// BegunAlone reports whether a verb by itself has nothing to do behind the conversations that it stores.
func BegunAlone(list []Begun) bool {
	return !slices.ContainsFunc(list, func(b Begun) bool {
		return len(b.Messages) == 0 || slices.ContainsFunc(b.Messages, func(m backend.Outgoing) bool { return m.Last || m.Retain })
	})
}

// BeginDialog implements backend.Tx.
func (t *Tx) BeginDialog(ctx context.Context, version int64, d backend.NewDialog) error {
	if d.Renew != nil && t.s.d.BeginDialogs != nil && d.NewGroup && d.Group == d.Handle && d.Lifetime == 0 {
		return t.beginLater(ctx, version, d)
	}
	if err := t.ready(ctx); err != nil {
		return err
	}
	if err := t.sameVersion(ctx, version); err != nil {
		return err
	}
	if d.NewGroup {
		n, err := t.Exec(ctx, t.s.q.GroupInsert, d.Group, d.Queue, d.Service, "")
		if err != nil {
			return err
		}
		if n == 0 {
			return backend.ErrGroupBusy
		}
	} else if g, err := t.group(ctx, d.Group); err != nil {
		return err
	} else if g == nil || g.queue != d.Queue || g.service != d.Service {
		return backend.ErrGroupElsewhere
	} else if _, err := t.Exec(ctx, t.s.q.GroupJoin, d.Group); err != nil {
		return err
	}
	if err := t.putEndpoint(ctx, d.Endpoint); err != nil {
		return err
	}
	if err := t.putStream(ctx, Stream{ID: d.Handle, Kind: streamDialog, Priority: d.Priority}); err != nil {
		return err
	}
	return t.putStream(ctx, Stream{
		ID: d.FarHandle, Kind: streamDialog,
		Group: d.Group, Queue: d.Queue, Endpoint: d.Handle, Priority: d.Priority,
	})
}

// beginLater puts a conversation into the list, or stores it at once where the
// application could miss it.
func (t *Tx) beginLater(ctx context.Context, version int64, d backend.NewDialog) error {
	if err := t.usable(ctx); err != nil {
		return err
	}
	b := Begun{Version: version, From: d.Endpoint, renew: d.Renew}
	if !t.unseen() {
		t.begun = append(t.begun, b)
		return nil
	}
	ok, err := t.s.d.BeginDialogs(ctx, t, version, []Begun{b})
	if err == nil && !ok {
		err = backend.ErrStaleCatalog
	}
	return err
}

// unstored returns the place of a conversation in the list, -1 if it is not there.
func (t *Tx) unstored(handle backend.ID) int {
	return slices.IndexFunc(t.begun, func(b Begun) bool { return b.From.Handle == handle })
}

// acceptLater gives a conversation of the list its target. It returns false if it
// is not in the list.
func (t *Tx) acceptLater(version int64, from backend.ID, target backend.Endpoint) bool {
	i := t.unstored(from)
	if i < 0 || t.begun[i].To != nil || t.begun[i].Version != version || target.Lifetime != 0 {
		return false
	}
	target.Group = target.Handle
	t.begun[i].To = &target
	return true
}

// sendFirst stores conversations with their first messages, if the messages are for such
// alone. It returns false if not, or if something refuses them.
func (t *Tx) sendFirst(ctx context.Context, version int64, messages []backend.Outgoing) ([]backend.Sent, bool, error) {
	if len(t.begun) == 0 {
		return nil, false, nil
	}
	var list []Begun
	at := make(map[backend.ID]int, len(messages)) // from -> place in list
	sent := make([]backend.Sent, len(messages))
	for n, m := range messages {
		k, known := at[m.From]
		if !known {
			i := t.unstored(m.From)
			if i < 0 || t.begun[i].To == nil || t.begun[i].Version != version {
				return nil, false, nil
			}
			k = len(list)
			at[m.From], list = k, append(list, t.begun[i])
		}
		sent[n] = backend.Sent{Seq: int64(len(list[k].Messages)), Queue: list[k].To.Queue}
		list[k].Messages = append(list[k].Messages, m)
	}
	if err := refused(messages, make(map[int]backend.Refusal)); err != nil {
		return nil, false, err
	}
	if err := t.admitHeaders(ctx, slices.ContainsFunc(messages, headed)); err != nil {
		return nil, false, err
	}
	ok, err := t.s.d.BeginDialogs(ctx, t, version, list)
	if err != nil || !ok {
		return nil, false, err
	}
	t.begun = slices.DeleteFunc(slices.Clone(t.begun), func(b Begun) bool { _, stored := at[b.From.Handle]; return stored })
	for n, m := range messages {
		if m.Retain {
			if err := t.RetainSent(ctx, m, sent[n].Seq); err != nil {
				return nil, true, err
			}
		}
	}
	return sent, true, t.seal(ctx, messages)
}

// maxRenewals is how often a conversation is begun by a newer catalog.
const maxRenewals = 10

// storeBegun stores the conversations in the list. Those that were begun by a
// catalog that has changed are begun by the new one.
func (t *Tx) storeBegun(ctx context.Context) error {
	for try := 0; len(t.begun) > 0; try++ {
		if try > maxRenewals {
			return backend.ErrStaleCatalog
		}
		list := t.begun
		version := list[0].Version
		for _, b := range list {
			if b.Version != version {
				version = -1 // there is none
			}
		}
		t.begun = nil
		ok, err := t.s.d.BeginDialogs(ctx, t, version, list)
		if err != nil || ok {
			t.verb.wrote = false
			return err
		}
		for i := range list {
			b := &list[i]
			if b.Version, b.From, err = b.renew(ctx); err != nil {
				t.begun = list // it cannot be committed
				return err
			}
			b.To = nil // whose rank the old catalog has chosen
		}
		t.begun = list
	}
	return nil
}

// beforeSQL are the application's statements, which see what the transaction has begun.
type beforeSQL struct {
	t *Tx
	backend.Execer
}

// Direct says that the transaction is going to be used in ways that Parley does not see.
func (b beforeSQL) Direct() { b.t.direct, b.t.sent = true, nil }

// first is called before each statement, which may roll back to a savepoint.
func (b beforeSQL) first(ctx context.Context) error {
	b.t.returned, b.t.sent = true, nil
	if err := b.t.write(ctx); err != nil {
		return err
	}
	return b.t.reach(ctx)
}

// ExecContext implements backend.Execer, as the following do.
func (b beforeSQL) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if err := b.first(ctx); err != nil {
		return nil, err
	}
	return b.Execer.ExecContext(ctx, query, args...)
}

func (b beforeSQL) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if err := b.first(ctx); err != nil {
		return nil, err
	}
	return b.Execer.QueryContext(ctx, query, args...)
}

func (b beforeSQL) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if err := b.first(ctx); err != nil {
		return FailedRow(ctx, err)
	}
	return b.Execer.QueryRowContext(ctx, query, args...)
}

func (b beforeSQL) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := b.first(ctx); err != nil {
		return nil, err
	}
	b.Direct()
	return b.Execer.PrepareContext(ctx, query)
}
