package backendtest

import (
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
)

// Qualify puts a schema before the names of views.
func Qualify(query, schema string) string {
	return strings.ReplaceAll(query, "parley_", schema+"parley_")
}

// Views fills a store and compares what its views show. query returns the rows
// of a query of one text column.
func Views(f *Fixture, query func(string) []string) {
	d, ended := f.Open(), f.Open()
	f.Send(d.A.Handle, "one", "two")
	f.Post(backend.Posting{Body: []byte("post")})
	f.Post(backend.Posting{Key: "k", Body: []byte("keyed")})
	f.Post(backend.Posting{Delay: time.Hour, Body: []byte("later")})
	parked := f.Post(backend.Posting{Rank: 9, Body: []byte("parked")})
	f.Settle(backend.Outcome{Hold: f.One(f.Request(f.QP)), Park: "why"})
	f.Post(backend.Posting{Rank: 9, Body: []byte("rotten")})
	h := f.One(f.Request(f.QP))
	f.Settle(backend.Outcome{Hold: h, Dead: []backend.DeadLetter{{Message: h.Messages[0], Reason: "because"}}})
	f.Do(func(tx backend.Tx) error {
		return tx.Promote(f.Ctx, backend.Promotion{Group: d.B.Group, Level: 3})
	})
	f.End(backend.End{Handle: ended.A.Handle, Kind: backend.EndError, Error: &backend.DialogError{Code: 7, Text: "no"}})
	begun := f.ends()
	f.Do(func(tx backend.Tx) error {
		if err := tx.BeginDialog(f.Ctx, f.Version, backend.NewDialog{Endpoint: begun.A, NewGroup: true}); err != nil {
			return err
		}
		_, err := tx.Withhold(f.Ctx, []backend.Outgoing{Message(begun.A.Handle, "held")}, "no target")
		return err
	})
	f.One(f.Request(f.QB)) // d's group is held now
	f.Do(func(tx backend.Tx) error {
		return tx.Submit(f.Ctx, "s", backend.PlanOptions{Caller: "c"}, []backend.NewTask{
			{ID: backend.NewID(), Phase: 1, Type: "a"}, {ID: backend.NewID(), Phase: 1, Type: "b"}, {ID: backend.NewID(), Phase: 2, Type: "c"},
		})
	})
	f.Do(func(tx backend.Tx) error {
		holds, err := tx.ClaimTasks(f.Ctx, backend.TaskClaim{Max: 2, Lease: time.Hour, Owner: "w"})
		if err != nil {
			return err
		}
		return tx.FinishTask(f.Ctx, holds[0], backend.TaskOutcome{State: backend.TaskDead, Error: "no"})
	})
	session, err := f.Backend.OpenSession(f.Ctx, time.Hour, "me")
	f.OK(err)
	_, err = session.Lock(f.Ctx, "l", backend.LockS, 0)
	f.OK(err)

	for _, x := range []struct {
		query string
		want  []string
	}{
		{`SELECT queue || ' ' || ready || ' ' || delayed || ' ' || deferred || ' ' || parked FROM parley_queues ORDER BY queue`,
			[]string{"qa 0 0 0 0", "qb 3 0 0 0", "qp 2 1 0 1"}},
		{`SELECT queue || ' ' || state || ' ' || coalesce(key, coalesce(service, '-')) || ' ' || reason || ' ' || coalesce(promotion, 0)
		    FROM parley_groups ORDER BY queue, state, 1`,
			[]string{"qb held B  3", "qb ready B  0", "qp parked - why 0", "qp ready -  0", "qp ready k  0"}},
		{`SELECT state || ' ' || coalesce(queue, '-') || ' ' || coalesce(key, '-') || ' ' || type || ' ' || seq
		    FROM parley_messages WHERE type = 'm' ORDER BY 1`,
			[]string{"delayed qp - m 0", "pending qb - m 0", "pending qb - m 1", "pending qp - m 0", "pending qp - m 0", "pending qp k m 0", "withheld - - m 0"}},
		{`SELECT service || ' ' || far_service || ' ' || state || ' ' || send_sequence || ' ' || coalesce(error_text, '')
		    FROM parley_conversations ORDER BY 1`,
			[]string{"A B CO 1 ", "A B CO 2 ", "A B DO 0 ", "B A CO 0 ", "B A ER 0 no"}},
		{`SELECT queue || ' ' || type || ' ' || reason FROM parley_dead`, []string{"qp m because"}},
		{`SELECT schedule || ' ' || phase || ' ' || type || ' ' || state || ' ' || caller || ' ' || coalesce(worker, '-') || ' ' || attempts || ' ' ||
		         coalesce(error, '-') || CASE WHEN started IS NULL THEN '' ELSE ' started' END || CASE WHEN ended IS NULL THEN '' ELSE ' ended' END
		    FROM parley_executions ORDER BY n`,
			[]string{"s 1 a dead c w 1 no started ended", "s 1 b running c w 1 - started", "s 2 c queued c - 0 -"}},
		{`SELECT name || ' ' || owner || ' ' || mode || ' ' || times FROM parley_locks`, []string{"l me 2 1"}},
		{`SELECT state FROM parley_groups WHERE group_id = '` + parked.String() + `'`, []string{"parked"}},
		{`SELECT handle || '' FROM parley_conversations WHERE conversation = '` + d.A.Conversation.String() + `' ORDER BY handle`,
			[]string{d.A.Handle.String(), d.B.Handle.String()}},
	} {
		f.Equal(x.query, strings.Join(query(x.query), "\n"), strings.Join(x.want, "\n"))
	}
	for _, view := range []string{"queues", "groups", "messages", "conversations", "dead", "executions", "locks"} {
		query("SELECT 'x' FROM (SELECT * FROM parley_" + view + " LIMIT 1) x") // every column can be computed
	}
}
