package sqlite_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/doctortest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	file := path(t)
	open(t, file).Close()
	doctortest.Run(t, func(t *testing.T) backend.Backend {
		b, err := sqlite.Open(t.Context(), "sqlite:"+file, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	})
}

// TestInfoTakesNoTurn: what people look at waits for no writer, and no writer waits for it.
func TestInfoTakesNoTurn(t *testing.T) {
	file := path(t)
	b := open(t, file)
	defer b.Close()
	tx, err := b.Begin(t.Context())
	if err == nil {
		_, err = tx.Once(t.Context(), "the writer", time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	begun := time.Now()
	const times = 5
	for range times {
		if _, err := b.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// It had waited for a second.
	if took := time.Since(begun); took > times*time.Second/2 {
		t.Errorf("%d looks beside a writer took %v", times, took)
	}
}

// TestReadOnlyFile: a file that the program's user must not write to is found.
func TestReadOnlyFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write to everything")
	}
	file := path(t)
	open(t, file).Close()
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	b, err := sqlite.Open(t.Context(), "sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	doctortest.Finds(t, b, backend.WarnReadOnly, "sqlite")
}

// TestSetUp damages a store and looks whether doctor says so.
func TestSetUp(t *testing.T) {
	file := path(t)
	open(t, file).Close()
	db := user(t, file)
	find := func(dsn string, o *sqlite.Options, code, object string) string {
		t.Helper()
		b, err := sqlite.Open(t.Context(), dsn, o)
		if err != nil {
			t.Fatal(err)
		}
		return doctortest.Finds(t, b, code, object)
	}
	find("sqlite:"+file, nil, "", "")
	find("sqlite:"+file, &sqlite.Options{Synchronous: "OFF"}, backend.WarnDurability, "sqlite")
	find("sqlite:"+file+"?mode=ro", nil, backend.WarnReadOnly, "sqlite")
	exec := func(q string) {
		t.Helper()
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	for index, want := range map[string]string{"parley_post.parley_post_order": "reads the whole table", "parley_ready.parley_ready_free": "fails"} {
		_, name, _ := strings.Cut(index, ".")
		exec("DROP INDEX " + name)
		if got := find("sqlite:"+file, nil, backend.WarnIndex, index); !strings.HasSuffix(got, want) {
			t.Errorf("of %s: %s, want that what it is for %s", index, got, want)
		}
	}
	exec("UPDATE parley_meta SET schema_version = schema_version + 2")
	find("sqlite:"+file, nil, "schema.newer", "store")
	exec("UPDATE parley_meta SET schema_version = schema_version - 2")
	exec("DROP TABLE parley_post")
	find("sqlite:"+file, nil, backend.WarnTable, "parley_post")
	find("sqlite:"+file, nil, "store.error", "store") // queues cannot be counted without it
}

// TestOldConversation: an old conversation that neither side has ended.
func TestOldConversation(t *testing.T) {
	file := path(t)
	b, err := parley.New(t.Context(), open(t, file), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}}, Services: []parley.Service{{Name: "s", Queue: "q"}}}))
	must(b.InTx(t.Context(), func(tx *parley.Tx) error {
		_, err := tx.Begin(t.Context(), "s", "s", nil)
		return err
	}))
	_, err = user(t, file).Exec("UPDATE parley_endpoint SET begun = begun - ?", (40 * 24 * time.Hour).Microseconds())
	must(err)
	found, err := doctor.Diagnose(t.Context(), b, "")
	if err != nil || len(found) != 1 || found[0].Code != "conversation.old" {
		t.Errorf("doctor finds %v, %v", found, err)
	}
}

// TestJournal: on a file system without shared memory there is no WAL mode.
func TestJournal(t *testing.T) {
	b, err := sqlite.Open(t.Context(), "sqlite:"+path(t)+"?vfs=unix-none", nil)
	if err != nil {
		t.Skip(err)
	}
	defer b.Close()
	info, err := b.Info(t.Context())
	if err != nil || !slices.ContainsFunc(info.Warnings, func(w backend.Warning) bool { return w.Code == backend.WarnJournal }) {
		t.Errorf("warnings %v, %v", info.Warnings, err)
	}
}

// TestStillWithheld: messages whose target could take them for a while.
func TestStillWithheld(t *testing.T) {
	file := path(t)
	b, err := parley.New(t.Context(), open(t, file), &parley.Options{NoMaintenance: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "q"}},
		Services: []parley.Service{{Name: "s", Queue: "q", Contracts: []string{parley.DefaultContract}}}}))
	must(b.Admin().DisableQueue(t.Context(), "q"))
	must(b.InTx(t.Context(), func(tx *parley.Tx) error {
		c, err := tx.Begin(t.Context(), "s", "s", nil)
		if err != nil {
			return err
		}
		return c.Send(t.Context(), "", nil)
	}))
	must(b.Admin().EnableQueue(t.Context(), "q"))
	codes := func() (list []string) {
		t.Helper()
		found, err := doctor.Diagnose(t.Context(), b, "")
		must(err)
		for _, f := range found {
			list = append(list, f.Code)
			if f.Bad != (len(found) > 1) {
				t.Errorf("bad or not: %v", found)
			}
		}
		return list
	}
	if got := codes(); !slices.Equal(got, []string{"message.withheld"}) {
		t.Errorf("at once doctor finds %v", got)
	}
	_, err = user(t, file).Exec("UPDATE parley_held SET since = since - ?", (30 * time.Second).Microseconds())
	must(err)
	if got := codes(); !slices.Equal(got, []string{"message.withheld", "maintenance.stopped"}) {
		t.Errorf("after half a minute doctor finds %v", got)
	}
}
