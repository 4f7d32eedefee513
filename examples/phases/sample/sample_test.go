package sample_test

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	_ "github.com/parleymq/parley/backend/postgres"
	_ "github.com/parleymq/parley/backend/sqlite"
	"github.com/parleymq/parley/examples/phases/sample"
	"github.com/parleymq/parley/internal/slow"
	"github.com/parleymq/parley/phases"
)

// databases names one for each engine that there is.
func databases(t *testing.T) map[string]string {
	names := map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "p.db")}
	if dsn := os.Getenv("PARLEY_TEST_POSTGRES"); dsn != "" {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("parley_prefix", "phases_"+parley.NewID().String()[24:]+"_")
		u.RawQuery = q.Encode()
		names["postgres"] = u.String()
	}
	return names
}

func open(t *testing.T, dsn string) *parley.Broker {
	t.Helper()
	b, err := parley.Open(t.Context(), dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// overlap reports that two tasks of one order did not run at the same time.
func overlap(t *testing.T, log []phases.TaskStatus) {
	t.Helper()
	for _, a := range log {
		for _, b := range log {
			if a.Phase == b.Phase && (b.Ended.Before(a.Started) || a.Ended.Before(b.Started)) {
				t.Errorf("of order %d one ran from %v to %v, another from %v to %v", a.Phase, a.Started, a.Ended, b.Started, b.Ended)
			}
		}
	}
}

func TestPhases(t *testing.T) {
	for engine, dsn := range databases(t) {
		t.Run(engine, func(t *testing.T) {
			b := open(t, dsn)
			t.Cleanup(func() { b.Backend().Uninstall(context.Background()) })
			// The log is gone with the schedule, so look before.
			var log []phases.TaskStatus
			watch := &watcher{b: b, log: &log}
			if err := sample.Run(t.Context(), b, sample.Options{Unit: slow.By(20 * time.Millisecond)}, watch); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", watch.String())
			overlap(t, log)
			if lines := strings.Count(watch.String(), "#\n") + strings.Count(watch.String(), "|"); lines < 20 {
				t.Errorf("drawn:\n%s", watch)
			}
		})
	}
}

// watcher reads the log when it is drawn.
type watcher struct {
	strings.Builder
	b   *parley.Broker
	log *[]phases.TaskStatus
}

func (w *watcher) Write(p []byte) (int, error) {
	if len(*w.log) == 0 {
		s, err := phases.Find(context.Background(), w.b, "phases")
		if err == nil {
			*w.log, err = s.Log(context.Background(), parley.ID{}, 100)
		}
		if err != nil {
			return 0, err
		}
	}
	return w.Builder.Write(p)
}

// TestKilled kills the process in the middle of a phase, and has another go on.
func TestKilled(t *testing.T) {
	if dsn := os.Getenv("PHASES_CHILD"); dsn != "" {
		b := open(t, dsn)
		o := options
		o.Began = func(phase int) { fmt.Printf("\nBEGAN %d\n", phase) }
		t.Fatal("it has ended: ", sample.Run(t.Context(), b, o, os.Stdout))
	}
	for engine, dsn := range databases(t) {
		t.Run(engine, func(t *testing.T) {
			b := open(t, dsn)
			t.Cleanup(func() { b.Backend().Uninstall(context.Background()) })
			child := exec.Command(os.Args[0], "-test.run", "TestKilled")
			child.Env = append(os.Environ(), "PHASES_CHILD="+dsn)
			child.Stderr = os.Stderr
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			began := 0
			for lines := bufio.NewScanner(out); began < 6 && lines.Scan(); { // both of order 200
				if strings.HasPrefix(lines.Text(), "BEGAN") {
					began++
				}
			}
			child.Process.Kill()
			child.Wait()
			if began < 6 {
				t.Fatalf("%d tasks began before the end of the process", began)
			}
			var log []phases.TaskStatus
			watch := &watcher{b: b, log: &log}
			if err := sample.Run(t.Context(), b, options, watch); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", watch.String())
			overlap(t, log)
			for i, task := range log {
				want := 1
				if task.Phase == 200 {
					want = 2
				}
				if task.Attempts != want {
					t.Errorf("task %d of order %d was done at attempt %d, want %d", i, task.Phase, task.Attempts, want)
				}
			}
		})
	}
}

// The lease is longer than a busy machine keeps a heartbeat waiting: what is alive must not be taken for dead.
var options = sample.Options{Unit: slow.By(30 * time.Millisecond), Lease: slow.By(3 * time.Second)}
