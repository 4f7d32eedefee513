package conformance

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/applock"
	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/internal/memstore"
	"github.com/parleymq/parley/phases"
)

// unlocked is a store that is complete but for application locks and tasks.
type unlocked struct {
	hasWorkers
	backend.Recurring
	backend.Cancels
	whole backend.Backend
}

type txUnlocked struct {
	txWorkers
	backend.TxRecurring
	backend.TxCancels
}

func (u unlocked) Capabilities() backend.Capabilities { return u.whole.Capabilities() }

func (u unlocked) Begin(ctx context.Context) (backend.Tx, error) {
	tx, err := u.whole.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return txUnlocked{toTxWorkers(tx), tx, tx}, nil
}

func unlockedStore() Store {
	with := func(be backend.Backend) unlocked { return unlocked{toWorkers(be), be, be, be} }
	s := memoryStore("")
	open, limit := s.Open, s.Limit
	s.Open = func(ctx context.Context) (backend.Backend, error) {
		be, err := open(ctx)
		return with(be), err
	}
	s.Limit = func(ctx context.Context, conns int) (backend.Backend, error) {
		be, err := limit(ctx, conns)
		return with(be), err
	}
	s.Fresh = func(context.Context) (backend.Backend, error) {
		return with(memstore.NewStore(memstore.Options{}).Open()), nil
	}
	return s
}

// TestPartsNotOffered: of a store without application locks and tasks all else passes, and these are reported as
// not offered.
func TestPartsNotOffered(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: TestMemory has the same checks")
	}
	var out bytes.Buffer
	args := []string{"-run", "^(L|F|B10/hostile names of app|D10/(app|sched)|V04/tasks|V05/what)"}
	if code := Command(t.Context(), "unlocked", unlockedStore(), args, &out, &out); code != 0 {
		t.Errorf("the program returns %d, want 0, since nothing has failed", code)
	}
	tried := 0
	for _, c := range allChecks() {
		if p := partOf(c); p == partLocks || p == partTasks {
			tried++
		}
	}
	for text, n := range map[string]int{"not offered: application locks (backend.Locks)\n": 2, "not offered: tasks in phases (backend.Tasks)\n": 2} {
		tried += n
		if strings.Count(out.String(), text) < n {
			t.Errorf("the report says less than %d times %q:\n%s", n, text, out.String())
		}
	}
	if n := strings.Count(out.String(), notOffered+":"); n != tried {
		t.Errorf("%d checks were not offered, want %d", n, tried)
	}
	RunMatching(t, divided(8, unlockedStore), regexp.MustCompile("^[^LF]"))
}

// TestPartsMissing: what needs a part that is missing says which, and all else goes without it.
func TestPartsMissing(t *testing.T) {
	be, err := unlockedStore().Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := parley.New(t.Context(), be, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, session := applock.Open(t.Context(), b, nil)
	_, plan := phases.Open(t.Context(), b, "plan", nil)
	lock := b.InTx(t.Context(), func(tx *parley.Tx) error {
		_, err := applock.In(tx).Lock(t.Context(), "name", applock.Exclusive, 0)
		return err
	})
	for want, errs := range map[string][]error{
		"the backend has no application locks": {session, lock},
		"the backend has no tasks in phases":   {plan},
	} {
		for _, err := range errs {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want an error that says %q", err, want)
			}
		}
	}
	findings, err := doctor.Diagnose(t.Context(), b, "")
	if err != nil {
		t.Errorf("the diagnosis: %v, %v", findings, err)
	}
}
