package mysql_test

import (
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/backend/internal/backendtest"
)

func TestNoWait(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		for _, set := range []func(*driver.Config){nil, several} {
			db, _ := counted(t, server, set)
			backendtest.NoWait(backendtest.New(t, open(t, db, nil)))
		}
	})
}

// TestTogetherTrips: posts with known keys and sends of several callers are three trips, however many they are.
func TestTogetherTrips(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db, count := counted(t, server, several)
		f := backendtest.New(t, open(t, db, nil))
		post := func() error { return together(f, "k", "l", "m", "k") }
		f.OK(post())
		f.OK(post())
		count.Take()
		f.OK(post())
		list := count.Take()
		f.Equal("trips", len(list), 3)
		for i, part := range []string{"START TRANSACTION", "INSERT INTO", "COMMIT"} {
			if !strings.Contains(list[min(i, len(list)-1)], part) {
				t.Errorf("trip %d has no %s: %s", i+1, part, list)
			}
		}
	})
}

// TestTogetherForgetsKeys: a key may have been removed since its stream was found.
func TestTogetherForgetsKeys(t *testing.T) {
	each(t, func(t *testing.T, server string) {
		db, _ := counted(t, server, several)
		f := backendtest.New(t, open(t, db, nil))
		f.OK(together(f, "k", "l"))
		f.OK(together(f, "k", "l"))
		f.Drain(f.QP)
		for _, table := range []string{"ready", "stream", "grp", "key"} {
			_, err := db.ExecContext(f.Ctx, "DELETE FROM parley_"+table)
			f.OK(err)
		}
		f.Is(together(f, "k", "l"), backend.ErrStreamBusy)
		f.OK(together(f, "k", "l"))
		f.Equal("posts", f.Drain(f.QP), []string{"k", "l"})
	})
}

// together posts with keys in a transaction that waits for no lock.
func together(f *backendtest.Fixture, keys ...string) error {
	return f.NoWait(func(tx backend.Tx) error {
		var list []backend.Posting
		for _, k := range keys {
			list = append(list, f.Posting(backend.Posting{Key: k, Body: []byte(k)}))
		}
		_, err := tx.Post(f.Ctx, f.Version, list)
		return err
	})
}
