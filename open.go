package parley

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/parleymq/parley/backend"
	"github.com/parleymq/parley/internal/wait"
)

// Open makes a Broker on the named database: "sqlite:app.db", "postgres://user@host/db". The
// backend's package must be imported. ErrUnreachable means that the database does not answer;
// with Options.OpenWait, Open waits for a database that is starting.
func Open(ctx context.Context, dsn string, o *Options) (*Broker, error) {
	opt, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	be, err := openBackend(ctx, dsn, opt)
	if err != nil {
		return nil, fail("open", "", err)
	}
	b, err := New(ctx, be, o)
	if err != nil {
		be.Close()
		return nil, err
	}
	return b, nil
}

// openBackend opens a backend, again and again while the database cannot be reached and there
// is time to wait.
func openBackend(ctx context.Context, dsn string, o Options) (Backend, error) {
	end := time.Now().Add(o.OpenWait)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		be, err := backend.Open(ctx, dsn)
		if !errors.Is(err, ErrConnection) || ctx.Err() != nil {
			return be, err
		}
		err = &unreachable{place(dsn), err}
		left := time.Until(end)
		if left <= 0 {
			return nil, err
		}
		o.Logger.Warn("parley: waiting for the database", "event", "store.waiting", "error", err)
		if err := wait.Sleep(ctx, min(wait.Jitter(pause), left)); err != nil {
			return nil, err
		}
	}
}

// unreachable is the error of a connection that never was. Its text does not say that one was
// lost, as that of ErrConnection does.
type unreachable struct {
	place string
	err   error
}

func (e *unreachable) Error() string {
	why := strings.TrimPrefix(e.err.Error(), ErrConnection.Error()+": ")
	return fmt.Sprintf("%v: %s: %s", ErrUnreachable, e.place, why)
}

func (e *unreachable) Unwrap() []error { return []error{ErrUnreachable, e.err} }

// place is what may be shown of the name of a database: its scheme and its host, if these can
// be told from a password.
func place(dsn string) string {
	scheme, _, _ := strings.Cut(dsn, ":")
	u, err := url.Parse(dsn)
	if err != nil || strings.Contains(u.Opaque+u.Path+u.RawQuery+u.Fragment, "@") {
		return scheme
	}
	return scheme + " at " + cmp.Or(u.Host, u.Query().Get("host"), "its default host")
}
