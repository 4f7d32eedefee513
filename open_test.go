package parley_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
	_ "github.com/parleymq/parley/backend/memory"
	_ "github.com/parleymq/parley/backend/mysql"
	_ "github.com/parleymq/parley/backend/postgres"
)

// TestOpenNamesWhatItCannotReach: the error names the host or the file, no password, and does
// not speak of a connection that was lost.
func TestOpenNamesWhatItCannotReach(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	for _, test := range []struct {
		name, says string
		is         error
	}{
		{"postgres://u:secret@" + free + "/app", "postgres at " + free, parley.ErrUnreachable},
		{"mysql://u:secret@" + free + "/app", "mysql at " + free, parley.ErrUnreachable},
		{"postgres:///app?host=" + dir, "postgres at " + dir, parley.ErrUnreachable},
		{"sqlite:" + filepath.Join(dir, "none", "app.db"), filepath.Join(dir, "none", "app.db"), fs.ErrNotExist},
		{"sqlite:" + dir, dir, nil},
	} {
		b, err := parley.Open(t.Context(), test.name, nil)
		if err == nil {
			b.Close()
			t.Errorf("%s was opened", test.name)
			continue
		}
		if test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) ||
			strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "lost") {
			t.Errorf("Open(%s): %v; want %q in it, and %v", test.name, err, test.says, test.is)
		}
		if test.is == parley.ErrUnreachable && !errors.Is(err, parley.ErrConnection) {
			t.Errorf("Open(%s): %v is no ErrConnection", test.name, err)
		}
	}
}

// late is a database that cannot be reached at first.
type late struct {
	refusals int
	asked    int
}

// TestOpenWaits: Open waits for a database that starts, and not for longer than it may.
func TestOpenWaits(t *testing.T) {
	db := &late{refusals: 2}
	backend.Register(backend.Version, func(context.Context, string) (backend.Backend, error) {
		if db.asked++; db.asked <= db.refusals {
			return nil, parley.ErrConnection
		}
		return nil, os.ErrPermission // whatever else is wrong is told at once
	}, "late")
	var log bytes.Buffer
	o := &parley.Options{OpenWait: 20 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := parley.Open(t.Context(), "late:", o); !errors.Is(err, os.ErrPermission) || db.asked != 3 {
		t.Errorf("asked %d times, %v", db.asked, err)
	}
	if n := strings.Count(log.String(), "store.waiting"); n != 2 {
		t.Errorf("%d lines say that Open waits:\n%s", n, log.String())
	}
	*db = late{refusals: 1000}
	o.OpenWait = 300 * time.Millisecond
	if _, err := parley.Open(t.Context(), "late:", o); !errors.Is(err, parley.ErrUnreachable) || db.asked < 2 {
		t.Errorf("asked %d times, %v", db.asked, err)
	}
	*db = late{refusals: 1000}
	o.OpenWait = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := parley.Open(ctx, "late:", o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its context has ended Open returns %v", err)
	}
	o.OpenWait = -1
	if _, err := parley.Open(t.Context(), "late:", o); !errors.Is(err, parley.ErrInvalidOption) {
		t.Errorf("OpenWait -1: %v", err)
	}
}

// TestDefaultLogger: without a logger, warnings go to the program's default one, and nothing else.
func TestDefaultLogger(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(before)
	b, err := parley.Open(t.Context(), "memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Logger().Info("quiet")
	b.Logger().With("a", 1).WithGroup("g").Warn("loud")
	if text := log.String(); strings.Contains(text, "quiet") || !strings.Contains(text, "loud") || !strings.Contains(text, "a=1") {
		t.Errorf("the default logger has\n%s", text)
	}
}
