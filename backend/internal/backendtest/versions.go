package backendtest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleymq/parley/backend"
)

// Versioned is a store whose program can be that of another version.
type Versioned interface {
	backend.Backend
	backend.Migrator
	backend.Printer
	SetMigrations(func(known []string) []string) error
}

// Site is an empty store without a schema. Open returns another handle on it, as
// another process has, and Exec runs SQL there.
type Site struct {
	Open func(t *testing.T) Versioned
	Exec func(t *testing.T, sql string)

	DB     *sql.DB
	Schema string // with a dot, before the names of tables

	Empty func(t *testing.T) // removes all rows but those that a migration makes; nil: another site takes less time

	RandomID string // an expression

	expand string // a step that only adds, if not that to all tables
}

// The schema after next: a step that adds, also to the tables that are most in use,
// and a step that takes away.
var (
	hotTables = []string{"meta", "queue", "grp", "endpoint", "stream", "message", "ready", "post", "delayed", "timer", "worker", "task", "schedule", "once"}
	expand    = func() string {
		var b strings.Builder
		for _, table := range hotTables {
			fmt.Fprintf(&b, "ALTER TABLE parley_%s ADD COLUMN later INTEGER NOT NULL DEFAULT 0;\n", table)
		}
		return b.String()
	}()
	contract = "-- step: contract\nALTER TABLE parley_once DROP COLUMN later;\n"
)

// program opens a handle for a program that is a number of versions newer than this
// one, or older.
func (s Site) program(t *testing.T, newer int) Versioned {
	t.Helper()
	b := s.Open(t)
	err := b.SetMigrations(func(files []string) []string {
		if newer < 0 {
			return files[:len(files)+newer]
		}
		files = slices.Clone(files)
		for _, text := range []string{cmp.Or(s.expand, expand), contract}[:newer] {
			files = append(files, text+fmt.Sprintf("UPDATE parley_meta SET schema_version = %d WHERE id = 1;\n", len(files)+1))
		}
		return files
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// next returns a store whose schema is the next one.
func (s Site) next(t *testing.T) backend.Backend {
	t.Helper()
	if err := s.program(t, 1).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.Open(t)
}

// Versions runs the tests of programs of several versions on one store.
func Versions(t *testing.T, site func(t *testing.T) Site) {
	for name, test := range map[string]func(*testing.T, Site){
		"a version that no program makes is refused":          testOddVersions,
		"the next schema is accepted":                         testNextSchema,
		"a contract step stops old programs and waits":        testContract,
		"a contract step waits no longer than it may":         testContractBounded,
		"headers wait until older programs are gone":          testFinish,
		"a migration that was interrupted goes on":            testInterrupted,
		"each step is a transaction of its own":               testStepByStep,
		"a migration by hand goes from the version there is":  testByHand,
		"a migration tells what it does":                      testReport,
		"a version is looked at in a joined transaction, too": testJoinedVersion,
		"programs of two versions work at once":               testRolling,
		"a promotion that older programs take for sticky":     testUntilEmpty,
	} {
		t.Run(name, func(t *testing.T) { test(t, site(t)) })
	}
	t.Run("what is done on the next schema", func(t *testing.T) {
		one := site(t)
		if one.Empty != nil {
			one.next(t)
		}
		for _, test := range tests {
			if test.name == "migrate" { // its own schema
				continue
			}
			t.Run(test.name, func(t *testing.T) {
				if one.Empty == nil {
					t.Parallel() // they wait for the disk
					test.run(New(t, site(t).next(t)))
					return
				}
				one.Empty(t)
				test.run(New(t, one.Open(t)))
			})
		}
	})
}

func (s Site) set(t *testing.T, schema, minProgram int) {
	t.Helper()
	s.Exec(t, fmt.Sprintf(`UPDATE parley_meta SET schema_version = %d, min_program = %d, catalog_version = catalog_version + 1 WHERE id = 1`, schema, minProgram))
}

func testOddVersions(t *testing.T, s Site) {
	b := s.Open(t)
	f := &Fixture{T: t, Ctx: t.Context()}
	f.OK(b.Migrate(f.Ctx))
	info, err := b.Info(f.Ctx)
	f.OK(err)
	n := info.Program
	f.Equal("schema", info.Schema, n)
	for _, v := range []struct {
		schema, min int
		want        error
	}{
		{-1, 0, backend.ErrUnknownSchema},
		{math.MinInt32, 0, backend.ErrUnknownSchema},
		{n + 2, 0, backend.ErrNewerSchema},
		{99, 0, backend.ErrNewerSchema},
		{math.MaxInt32, 0, backend.ErrNewerSchema},
		{n, n + 1, backend.ErrNewerSchema},
		{n + 1, n + 1, backend.ErrNewerSchema},
		{n + 1, n, nil},
		{n, -1, nil},
		{n - 1, 0, backend.ErrNotMigrated},
		{0, 0, backend.ErrNotMigrated},
	} {
		s.set(t, v.schema, v.min)
		b := s.Open(t)
		for what, err := range map[string]error{
			"check":    b.Check(f.Ctx),
			"begin":    func() error { _, err := b.Begin(f.Ctx); return err }(),
			"maintain": func() error { _, err := b.Maintain(f.Ctx, backend.JobDelayed, 1); return err }(),
			"read":     func() error { _, err := b.Groups(f.Ctx, backend.GroupQuery{Queue: 1}); return err }(),
		} {
			if !errors.Is(err, v.want) {
				t.Errorf("schema %d, min_program %d: %s: error %v, want %v", v.schema, v.min, what, err, v.want)
			}
		}
		if v.schema >= 0 && v.schema < n {
			continue // a migration from there would begin
		}
		if err := b.Migrate(f.Ctx); !errors.Is(err, v.want) {
			t.Errorf("schema %d, min_program %d: migrate: error %v, want %v", v.schema, v.min, err, v.want)
		}
		info, err := b.Info(f.Ctx)
		f.OK(err)
		f.Equal("schema after a migration that had nothing to do", info.Schema, v.schema)
	}
}

// inHand is what a program has in hand: a post by lease, and one by an open
// transaction where the store holds in transactions.
type inHand struct {
	*Fixture
	leased, held, forgotten *backend.Hold
	tx                      backend.Tx
}

func takeInHand(t *testing.T, b backend.Backend) *inHand {
	h := &inHand{Fixture: New(t, b)}
	for _, body := range []string{"leased", "held", "forgotten", "left"} {
		h.Post(backend.Posting{Body: []byte(body)})
	}
	r := h.Request(h.QP)
	h.leased = h.One(r)
	if b.Capabilities().HoldsInTransaction {
		h.tx = h.Begin()
		r.Lease = 0
		c, err := h.tx.Claim(h.Ctx, r)
		h.OK(err)
		h.held = c.Holds[0]
	}
	r.Lease = time.Millisecond
	h.forgotten = h.One(r)
	return h
}

// settle settles what is in hand.
func (h *inHand) settle() {
	h.Helper()
	h.OK(h.Backend.Extend(h.Ctx, []*backend.Hold{h.leased}, time.Minute))
	if h.tx != nil {
		_, err := h.tx.Settle(h.Ctx, []backend.Outcome{{Hold: h.held, Done: h.held.Messages}})
		h.OK(err)
		h.OK(h.tx.Commit(h.Ctx))
	}
	h.Ack(h.leased)
}

// refused checks that the program can neither send nor claim.
func (h *inHand) refused() {
	h.Helper()
	h.Is(h.Try(func(tx backend.Tx) error {
		_, err := tx.Post(h.Ctx, h.Version, []backend.Posting{h.Posting(backend.Posting{})})
		return err
	}), backend.ErrStaleCatalog)
	h.Is(h.Try(func(tx backend.Tx) error { _, err := tx.Claim(h.Ctx, h.Request(h.QP)); return err }), backend.ErrStaleCatalog)
	h.Is(h.Try(func(tx backend.Tx) error { _, err := tx.Catalog(h.Ctx, false); return err }), backend.ErrNewerSchema)
	h.Is(h.Try(func(tx backend.Tx) error {
		_, err := tx.ClaimTasks(h.Ctx, backend.TaskClaim{Max: 1, Lease: time.Minute})
		return err
	}), backend.ErrNewerSchema)
	_, err := h.Backend.Maintain(h.Ctx, backend.JobDelayed, 1)
	h.Is(err, backend.ErrNewerSchema)
}

func testNextSchema(t *testing.T, s Site) {
	old := s.Open(t)
	if err := old.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := takeInHand(t, old)
	if h.tx != nil {
		h.OK(h.tx.Rollback(h.Ctx)) // the step waits for it until its limit
		h.tx = nil
	}
	h.OK(s.program(t, 1).Migrate(h.Ctx))
	h.settle()
	h.OK(old.Check(h.Ctx))
	h.OK(old.Migrate(h.Ctx))
	h.Post(backend.Posting{Body: []byte("later")})
	got := h.Drain(h.QP)
	if !slices.Contains(got, "later") || !slices.Contains(got, "left") {
		t.Errorf("on the next schema %q were received", got)
	}
}

// told collects what a migration reports.
type told struct {
	mu   sync.Mutex
	text []string
	news chan struct{} // has room for one
}

func listen() *told { return &told{news: make(chan struct{}, 1)} }

func (r *told) report(text string) {
	r.mu.Lock()
	r.text = append(r.text, text)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// until waits for a text that contains part.
func (r *told) until(ctx context.Context, t *testing.T, part string) {
	t.Helper()
	for {
		r.mu.Lock()
		found := slices.ContainsFunc(r.text, func(s string) bool { return strings.Contains(s, part) })
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-r.news:
		case <-time.After(time.Minute):
			t.Fatalf("the migration reports %q, nothing with %q", r.text, part)
		}
	}
}

func testContract(t *testing.T, s Site) {
	old := s.Open(t)
	if err := old.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.program(t, 1).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := takeInHand(t, old)
	said, done := listen(), make(chan error, 1)
	newest := s.program(t, 2)
	go func() {
		done <- newest.MigrateWith(h.Ctx, backend.MigrateOptions{Report: said.report})
	}()
	said.until(h.Ctx, t, "waits for older transactions and leases")
	h.refused()
	select {
	case err := <-done:
		t.Fatalf("the migration ended, with %v, while an older program had work in hand", err)
	case <-time.After(200 * time.Millisecond):
	}
	h.settle()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.refused()
	h.Is(h.trySettle(backend.Outcome{Hold: h.forgotten, Done: h.forgotten.Messages}), backend.ErrNewerSchema)

	// Nothing is lost, and the program between the two works on.
	for _, b := range []backend.Backend{s.program(t, 1), newest} {
		f := New(t, b)
		f.Post(backend.Posting{Body: []byte("new")})
		if got := f.Drain(f.QP); !slices.Contains(got, "new") {
			t.Errorf("a program that is new enough received %q", got)
		}
	}
}

func testContractBounded(t *testing.T, s Site) {
	old := s.Open(t)
	if err := old.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := takeInHand(t, old)
	if h.tx != nil {
		h.OK(h.tx.Rollback(h.Ctx))
		h.tx = nil
	}
	newest := s.program(t, 2)
	h.Is(newest.MigrateWith(h.Ctx, backend.MigrateOptions{Wait: 5 * time.Second}), backend.ErrMigrationWaits)
	info, err := newest.Info(h.Ctx)
	h.OK(err)
	h.Equal("schema and min_program", fmt.Sprint(info.Schema, info.MinProgram), fmt.Sprint(info.Program-1, info.Program-1))
	h.settle()
	h.OK(newest.Migrate(h.Ctx))
	h.OK(newest.Check(h.Ctx))
}

// testFinish migrates a store that a program without headers has made. A program of the version before this one only
// looks at versions here.
func testFinish(t *testing.T, s Site) {
	first, before, b := s.Open(t), s.Open(t), s.Open(t)
	if err := first.SetMigrations(func(files []string) []string { return files[:6] }); err != nil {
		t.Fatal(err)
	}
	if err := before.SetMigrations(func(files []string) []string { return files[:len(files)-1] }); err != nil {
		t.Fatal(err)
	}
	for _, p := range []Versioned{first, before, b} {
		if err := p.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h := takeInHand(t, b)
	h.OK(before.Check(h.Ctx))
	// Without headers nothing changes; with them every way of sending is refused, and the transaction goes on.
	headed := Message(h.Open().A.Handle, "")
	headed.Headers = `{"a":"1"}`
	sends := []backend.Outgoing{headed}
	refused := func(want error) {
		h.Helper()
		h.OK(h.Try(func(tx backend.Tx) error {
			_, err := tx.Post(h.Ctx, h.Version, []backend.Posting{h.Posting(backend.Posting{Headers: `{"a":"1"}`})})
			h.Is(err, want)
			_, err = tx.Send(h.Ctx, h.Version, sends)
			h.Is(err, want)
			if want != nil {
				_, err = tx.Withhold(h.Ctx, sends, "later")
				h.Is(err, want)
			}
			return nil
		}))
	}
	refused(backend.ErrOlderPrograms)

	defines := h.Begin() // keeps the migration from telling, for longer than that waits for a lock
	_, err := defines.Catalog(h.Ctx, true)
	h.OK(err)
	ctx, cancel := context.WithCancel(h.Ctx)
	defer cancel()
	h.Is(b.MigrateWith(ctx, backend.MigrateOptions{Wait: 5 * time.Minute, Finish: true, Report: func(text string) {
		switch {
		case text == "others are in the way: trying again" && defines != nil:
			h.OK(defines.Rollback(h.Ctx))
			defines = nil
		case text == "waiting for their transactions and leases":
			cancel()
		}
	}}), context.Canceled)
	h.Equal("the lock was in the way", defines == nil, true)
	h.Is(b.MigrateWith(h.Ctx, backend.MigrateOptions{Wait: time.Second, Finish: true}), backend.ErrMigrationWaits)
	h.Is(before.Check(h.Ctx), backend.ErrNewerSchema)
	refused(backend.ErrOlderPrograms)
	h.learn(h.catalog())
	h.settle()
	said := listen()
	h.OK(b.MigrateWith(h.Ctx, backend.MigrateOptions{Finish: true, Report: said.report}))
	refused(nil)
	again := listen()
	h.OK(b.MigrateWith(h.Ctx, backend.MigrateOptions{Finish: true, Report: again.report}))
	h.Equal("what a second call reports", len(again.text), 0)
}

// testUntilEmpty has a message acknowledged by a program that does not know promotions until a group is empty.
// Such a program takes the value for sticky, so it works as this one does with the value of a sticky promotion.
func testUntilEmpty(t *testing.T, s Site) {
	b := s.Open(t)
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := New(t, b)
	value := func(n int) { s.Exec(t, fmt.Sprintf("UPDATE parley_promotion SET sticky = %d", n)) }
	promotions := func() (list []string) {
		all, err := b.Promotions(f.Ctx, backend.ID{}, 10)
		f.OK(err)
		for _, p := range all {
			g, err := b.Groups(f.Ctx, backend.GroupQuery{Group: p.Group})
			f.OK(err)
			list = append(list, fmt.Sprint(p.Level, " ", g[0].UntilEmpty))
		}
		return list
	}
	receive := func(want string) {
		t.Helper()
		h := f.One(f.Request(f.QP))
		f.Equal("received", fmt.Sprintf("%s %t", h.Messages[0].Body, h.Promoted), want)
		f.Ack(h)
	}
	f.Post(backend.Posting{Body: []byte("other")})
	f.Post(backend.Posting{Key: "k", Body: []byte("one")})
	f.Do(func(tx backend.Tx) error {
		return tx.Promote(f.Ctx, backend.Promotion{Queue: f.QP, Key: "k", Level: 9, UntilEmpty: true})
	})
	value(1)
	receive("one true")
	value(2)
	f.Post(backend.Posting{Key: "k", Body: []byte("two")})
	f.Equal("promotions that the older program has left", promotions(), []string{"9 true"})
	receive("two true") // by this program, which ends it
	f.Post(backend.Posting{Key: "k", Body: []byte("three")})
	f.Equal("promotions at the end", len(promotions()), 0)
	receive("other false")
	receive("three false")
}

// testInterrupted has migrations fail in the middle of each file, and others go on.
func testInterrupted(t *testing.T, s Site) {
	ctx := t.Context()
	var files []string
	if err := s.Open(t).SetMigrations(func(known []string) []string { files = known; return known }); err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		file, _, _ = strings.Cut(file, "DELIMITER")
		statements := strings.SplitAfter(file, ";\n")
		for _, n := range []int{1, len(statements) / 2, len(statements) - 1} {
			b := s.Open(t)
			broken := strings.Join(statements[:n], "") + "SELECT * FROM parley_there_is_no_such_table;\n"
			if err := b.SetMigrations(func([]string) []string { return append(slices.Clone(files[:i]), broken) }); err != nil {
				t.Fatal(err)
			}
			if err := b.Migrate(ctx); err == nil {
				t.Fatalf("file %d with a statement that fails after %d others was migrated", i+1, n)
			}
		}
	}
	b := s.Open(t)
	if err := b.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	f := New(t, b)
	f.Post(backend.Posting{Body: []byte("x")})
	f.Equal("received", f.Drain(f.QP), []string{"x"})
	info, err := b.Info(ctx)
	f.OK(err)
	for _, w := range info.Warnings {
		if w.Code == backend.WarnTable || w.Code == backend.WarnIndex {
			t.Errorf("after interrupted migrations: %s: %s", w.Object, w.Text)
		}
	}
}

// testStepByStep has the second of two steps fail. The first stays: it does not keep the
// locks of its tables until the second has those of others.
func testStepByStep(t *testing.T, s Site) {
	f := &Fixture{T: t, Ctx: t.Context()}
	f.OK(s.Open(t).Migrate(f.Ctx))
	b := s.Open(t)
	f.OK(b.SetMigrations(func(known []string) []string {
		return append(slices.Clone(known),
			fmt.Sprintf("UPDATE parley_meta SET schema_version = %d WHERE id = 1;\n", len(known)+1),
			"SELECT * FROM parley_there_is_no_such_table;\n")
	}))
	if err := b.Migrate(f.Ctx); err == nil {
		t.Error("a step that fails was migrated")
	}
	info, err := b.Info(f.Ctx)
	f.OK(err)
	f.Equal("schema", info.Schema, info.Program-1)
}

func testByHand(t *testing.T, s Site) {
	ctx := t.Context()
	old, now := s.program(t, -1), s.Open(t)
	if err := old.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	info, err := now.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	text := now.MigrationSQL(info.Schema)
	if slices.Contains(made([]string{text}), "message") {
		t.Errorf("what is printed from version %d on makes all tables", info.Schema)
	}
	s.Exec(t, text)
	if err := now.Check(ctx); err != nil {
		t.Error(err)
	}
	newest := s.program(t, 2).MigrationSQL(info.Program)
	if want := fmt.Sprintf("min_program = %d", info.Program+1); !strings.Contains(newest, want) {
		t.Errorf("a contract step is printed without %q:\n%s", want, newest)
	}
	s.Exec(t, newest)
	if err := s.program(t, 2).Check(ctx); err != nil {
		t.Error(err)
	}
	if err := s.Open(t).Check(ctx); !errors.Is(err, backend.ErrNewerSchema) {
		t.Errorf("error %v, want ErrNewerSchema", err)
	}
}

func testReport(t *testing.T, s Site) {
	b, said := s.program(t, 2), listen()
	if err := b.MigrateWith(t.Context(), backend.MigrateOptions{Report: said.report}); err != nil {
		t.Fatal(err)
	}
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range info.Program {
		want = append(want, fmt.Sprintf("schema %d", n+1))
	}
	// Tests beside this one migrate stores of their own, and take turns with it.
	said.text = slices.DeleteFunc(said.text, func(s string) bool { return s == "others are in the way: trying again" })
	if !slices.Equal(said.text, want) {
		t.Errorf("a migration of an empty store reports %q, want %q", said.text, want)
	}
	again := listen()
	if err := b.MigrateWith(t.Context(), backend.MigrateOptions{Report: again.report}); err != nil || len(again.text) > 0 {
		t.Errorf("the second migration reports %q, %v", again.text, err)
	}
}

func testJoinedVersion(t *testing.T, s Site) {
	b := s.Open(t)
	f := &Fixture{T: t, Ctx: t.Context(), Backend: b}
	f.OK(b.Migrate(f.Ctx))
	user := f.Begin()
	s2 := s.Open(t)
	tx, err := s2.Capabilities().Joiner.Join(f.Ctx, user.SQL())
	f.OK(err)
	_, err = tx.Once(f.Ctx, "a", time.Minute)
	f.OK(err)
	f.OK(user.Rollback(f.Ctx))
	s.set(t, 99, 0)
	user = f.Begin()
	tx, err = s.Open(t).Capabilities().Joiner.Join(f.Ctx, user.SQL())
	f.OK(err)
	_, err = tx.Once(f.Ctx, "b", time.Minute)
	f.Is(err, backend.ErrNewerSchema)
}
