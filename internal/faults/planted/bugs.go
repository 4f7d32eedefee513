package main

import "slices"

// bug is a mistake that a programmer could make, on the server where it shows.
type bug struct {
	name, server string
	flags        []string // for the run
	env          string   // for the run as well, like name=value
	sound        bool     // it is none: nothing may be found
	race         bool     // with the race detector
	changes      []change
}

// change replaces text in a file of the project. An empty old text makes the file.
type change struct {
	file, old, new string
	times          int // how often the old text is there, 0 is once
}

// skipLocked is how PostgreSQL takes a lock that can be had.
const skipLocked = "FOR NO KEY UPDATE SKIP LOCKED"

// uncounted are settlements that do not look at what they have removed. They are part
// of bugs that the count would hide: it rolls back a receiver that comes second.
var uncounted = []change{
	{file: "backend/postgres/settle.go",
		old: "if removed != want {",
		new: "if removed > want {"},
	{file: "backend/sqlstore/settle.go",
		old: "if err == nil && n < int64(len(ids)) {",
		new: "if err == nil && n > int64(len(ids)) {"},
	{file: "backend/sqlstore/settle.go",
		old: "if err == nil && n < int64(len(keys)) {",
		new: "if err == nil && n > int64(len(keys)) {"},
	{file: "backend/sqlstore/settle.go", old: `		if n == 0 {
			return backend.ErrFenced
		}
`, new: "		_ = n\n"},
}

// calmly has few faults, in a run that ends when there were enough of them.
var calmly = []string{"--only", "kill", "--faults", "3", "--operations", "3000"}

// bugs are the mistakes.
var bugs = []bug{
	{name: "no lock, no count", server: "postgres", flags: []string{"--limit", "15s", "--drain", "10s"}, changes: append([]change{
		// Two claims read the same messages, and wait for each other.
		{file: "backend/postgres/sql/claim.sql", old: skipLocked, new: "", times: 10},
	}, uncounted...)},
	{name: "no fence, no count", server: "sqlite", flags: []string{"--only", "stop"}, changes: append([]change{
		// A receiver whose lease has run out takes its hold back.
		{file: "backend/sqlstore/hold.go",
			old: "	if n == 0 {\n		return t.fenced(ctx)\n	}\n",
			new: ""},
		{file: "backend/sqlstore/release.go",
			old: "	if n < int64(len(posts)) {\n		return t.fenced(ctx)\n	}\n",
			new: "	_ = n\n"},
	}, uncounted...)},
	{name: "finish without guard", server: "postgres", flags: []string{"--only", "kill"}, changes: append([]change{
		// The marker of a stream goes while a sender relies on it.
		{file: "backend/postgres/sql/settle.sql", old: `FROM parley_stream z WHERE z.stream_id = k.id
                     FOR NO KEY UPDATE SKIP LOCKED)`, new: `FROM parley_stream z WHERE z.stream_id = k.id)`},
		{file: "backend/postgres/sql/settle.sql", old: `FROM parley_stream z WHERE z.stream_id = k.id
            FOR NO KEY UPDATE SKIP LOCKED)`, new: `FROM parley_stream z WHERE z.stream_id = k.id)`},
	}, slowly...)},
	{name: "lease by client clock", server: "postgres", flags: []string{"--only", "kill,stop"}, changes: []change{
		// The clocks of half of the programs are an hour ahead.
		{file: "backend/postgres/planted.go", new: `package postgres

import (
	"os"
	"time"
)

func skewed(lease time.Duration) time.Duration {
	if lease == 0 {
		return 0
	}
	return lease + time.Duration(os.Getpid()%2)*time.Hour
}
`},
		{file: "backend/postgres/claim.go",
			old: "uuids(leases), r.Lease, r.Owner)",
			new: "uuids(leases), skewed(r.Lease), r.Owner)"},
		{file: "backend/postgres/claim.go",
			old: "r.Lease, r.Owner, r.LockOnly)",
			new: "skewed(r.Lease), r.Owner, r.LockOnly)"},
	}},
	{name: "retry after a commit", server: "postgres", flags: []string{"--only", "cut,terminate"}, changes: []change{
		// A commit whose outcome is unknown is done again.
		{file: "broker.go", old: `	over = true
	return fail("commit", "", tx.commit(ctx))
`, new: `	over = true
	err = tx.commit(ctx)
	if errors.Is(err, ErrConnection) {
		return b.InTx(ctx, f)
	}
	return fail("commit", "", err)
`},
	}},
	{name: "dropped NOTIFY", server: "postgres", flags: []string{"--only", "lag"},
		env: "PARLEY_FAULTS_KINDS=dialogs", changes: append([]change{
			// No receiver is told of anything, whether it was sent or has become due.
			{file: "broker.go",
				old: "	for q := range queues {\n		b.hub.Wake(q)\n	}\n	b.peers.Tell(queues)\n",
				new: "	_ = queues\n"},
		}, seldom...)},
	{name: "unbounded PutReader", server: "postgres", flags: []string{"--only", "catalog"}, changes: []change{
		// A claim that has a connection waits for another one, without limit.
		{file: "internal/consumer/quarantine.go",
			old: "	bounded, cancel := context.WithTimeout(ctx, recordWait)\n	defer cancel()\n",
			new: "	bounded := ctx\n"},
		{file: "internal/consumer/quarantine.go", old: "const recordWait = time.Second\n", new: ""},
		{file: "internal/consumer/admission.go",
			old: "if room := a.room(); room >= 0 && a.held >= max(room, least) {",
			new: "if false {"},
		{file: "internal/consumer/admission.go", old: "if room < 0 || a.held < max(room, 1) {", new: "if _ = room; true {"},
	}},
	{name: "one snapshot, no count", server: "postgres", flags: []string{"--only", "kill", "--limit", "15s", "--drain", "10s"},
		env: "PARLEY_FAULTS_KINDS=posts,shared", changes: slices.Concat([]change{
			// What a claim reads is older than its locks.
			{file: "backend/postgres/transaction.go",
				old: "var level = &sql.TxOptions{Isolation: sql.LevelReadCommitted}",
				new: "var level = &sql.TxOptions{Isolation: sql.LevelRepeatableRead}"},
		}, earlySnapshots, uncounted)},
	{name: "lost savepoint lock, no count", server: "postgres", flags: []string{"--only", "kill"},
		changes: append([]change{
			// What was locked behind a savepoint is kept after the rollback to it.
			{file: "backend/postgres/claim.go",
				old: "	f, err = find(first)\n	return f, err == nil, err\n",
				new: "	_ = first\n	return f, true, nil\n"},
		}, uncounted...)},
	{name: "no witness", server: "mariadb", flags: []string{"--only", "cancelling proxy"}, changes: []change{
		// A subquery's NULL in a statement that was interrupted without an error stands for an absence.
		{file: "backend/sqlstore/scan.go", old: "	if src == nil {\n		return errInterrupted\n	}\n	var n sql.NullInt64",
			new: "	var n sql.NullInt64"},
	}},
	{name: "read with guards", server: "postgres", flags: calmly, changes: []change{
		// A claim locks the streams that it reads, so that their senders wait for the handler.
		{file: "backend/postgres/sql/claim.sql",
			old: "SELECT y.kind, y.endpoint FROM parley_stream y WHERE y.stream_id = r.stream_id LIMIT 1) x",
			new: "SELECT y.kind, y.endpoint FROM parley_stream y WHERE y.stream_id = r.stream_id LIMIT 1 FOR NO KEY UPDATE) x"},
	}},
	{name: "move without marker", server: "postgres", flags: calmly, env: "PARLEY_FAULTS_KINDS=shared,groups,operators", changes: []change{
		// A stream that comes out of a blocked group has no place in the order.
		{file: "backend/sqlstore/move.go",
			old: "	return t.remark(ctx, Stream{ID: id, Queue: h.queue, Group: group, Priority: h.priority}, 0)\n",
			new: "	return nil\n"},
	}},
	{name: "answers cut short", server: "sqlite", flags: []string{"--only", "kill", "--limit", "15s", "--drain", "10s"}, changes: []change{
		// What many handlers of a batch have noted is not sent for all of them.
		{file: "internal/consumer/answer.go",
			old: "	part := t.tx.work.Part(groups...)\n",
			new: "	part := t.tx.work.Part(groups...)\n	answers = answers[:min(len(answers), 3)]\n"},
	}},
	{name: "answers without their messages", server: "postgres", flags: []string{"--only", "statement timeout", "--faults", "10", "--operations", "5000", "--limit", "60s", "--drain", "10s"},
		changes: []change{
			// A group that is given back leaves the answers of its handlers.
			{file: "internal/consumer/answer.go",
				old: "for ; calls < len(owed) && done[owed[calls].first]; calls++ {",
				new: "for ; calls < len(owed); calls++ {"},
		}},
	// On MySQL, whose transactions the sampler sees in other tables than PostgreSQL's.
	{name: "read with guards", server: "mysql", flags: calmly, changes: []change{
		{file: "backend/mysql/sql/claim.sql",
			old: "SELECT {ReadColumns}\n{ReadTables}\n WHERE g.group_id IN (?)\n\n-- name: ReadTwo",
			new: "SELECT {ReadColumns}\n{ReadTables}\n WHERE g.group_id IN (?) FOR UPDATE OF s\n\n-- name: ReadTwo"},
	}},
	{name: "finish without guard", server: "mysql", flags: []string{"--only", "kill", "--drain", "10s"}, changes: append([]change{
		{file: "backend/mysql/sql/settle.sql",
			old: " WHERE stream_id IN (?) ORDER BY stream_id\n   FOR UPDATE SKIP LOCKED\n\n-- name: Look",
			new: " WHERE stream_id IN (?) ORDER BY stream_id\n\n-- name: Look"},
	}, slowly...)},
	{name: "unlocked count", server: "sqlite", flags: calmly, race: true, changes: []change{
		// Claims are counted without the lock.
		{file: "broker.go",
			old: "func (b *Broker) beginClaim() error {\n	b.mu.Lock()\n	defer b.mu.Unlock()\n",
			new: "func (b *Broker) beginClaim() error {\n"},
	}},
	{name: "value outlives its post", server: "sqlite", flags: calmly, env: "PARLEY_FAULTS_KINDS=unique,posts", changes: []change{
		// A value is not freed with its post.
		{file: "backend/sqlstore/settle.go", old: "	if value == \"\" {\n		return nil", new: "	if value != \"\" {\n		return nil"},
	}},
	{name: "cancelled behind a receiver", server: "postgres", flags: calmly, env: "PARLEY_FAULTS_KINDS=cancels", changes: []change{
		// What is removed was read before its group was locked.
		{file: "backend/sqlstore/cancel_posts.go", old: "	list, err = t.keyedPosts(ctx, queue, ids)\n", new: ""},
	}},
	{name: "withheld, then overtaken", server: "sqlite", flags: []string{"--only", "queue off", "--faults", "10", "--operations", "5000"},
		env: "PARLEY_FAULTS_KINDS=shared,diary,alone", changes: []change{
			// What is sent goes ahead of what is still withheld.
			{file: "backend/sqlite/sql/dialogs.sql", old: "closed = 0 AND held = 0\n", new: "closed = 0\n"},
		}},
	{name: "due time without message", server: "mysql", flags: []string{"--only", "interrupt"}, env: "PARLEY_FAULTS_KINDS=recurring,posts", changes: []change{
		// A job goes on to its next due time, although its message could not be posted.
		{file: "recurring/run.go", old: "if _, err := tx.PostBatch(ctx, j.Queue, posts); err != nil {", new: "if _, err := tx.PostBatch(ctx, j.Queue, posts); err != nil && ctx.Err() != nil {"},
	}},
	{name: "window before filter", server: "postgres", flags: []string{"--only", "stop", "--limit", "40s", "--drain", "10s"},
		env: "PARLEY_FAULTS_KINDS=posts", changes: append([]change{
			// What is held at the head of the order hides the rest.
			{file: "backend/postgres/claim.go", old: "return 8*n + 50", new: "return n"},
			{file: "backend/postgres/claim.go", old: "deepWindow = 5000", new: "deepWindow = 1"},
			{file: "backend/postgres/claim.go", old: "if err == nil && ok && f.end.Valid && !f.vain {", new: "if false {"},
		}, longStops...)},
}
