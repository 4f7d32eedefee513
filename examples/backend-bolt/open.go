package bolt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleymq/parley/backend"
	"go.etcd.io/bbolt"
)

// contract is the version of package backend that this backend was written for.
const contract = 1

func init() {
	backend.Register(contract, func(_ context.Context, dsn string) (backend.Backend, error) {
		return Open(strings.TrimPrefix(dsn, "bolt:"), nil)
	}, "bolt")
}

// Options are the options of a file. The zero value has all defaults.
type Options struct {
	// NoSync does not wait for the disk at each commit: a power cut may lose everything. It
	// counts for the handle that opens the file first.
	NoSync bool
}

// file is an open database, which all handles of the process share: bbolt locks it against
// other opens, those of the same process as well.
type file struct {
	path  string
	db    *bbolt.DB
	refs  int
	turn  chan struct{} // is full while a transaction writes
	known atomic.Pointer[known]

	mu        sync.Mutex
	until     map[int64]time.Time // of leases, by fence, since they were last extended
	settling  map[int64]bool      // fences of holds that the open transaction has taken back
	listeners map[*func(int64)]bool
	locks     locks
}

var files struct {
	sync.Mutex
	open map[string]*file
}

// Handle is a [backend.Backend].
type Handle struct {
	backend.Unimplemented // there are no recurring jobs

	f    *file
	done chan struct{} // is closed with the handle

	calls    sync.RWMutex // Close waits for calls that read
	mu       sync.Mutex
	closed   bool
	admitted bool
	open     map[*Tx]bool
	sessions map[*session]bool
}

var (
	_ backend.Backend  = (*Handle)(nil)
	_ backend.Listener = (*Handle)(nil)
	_ backend.Tx       = (*Tx)(nil)
)

// Open opens a handle on a file, and makes the file if there is none.
func Open(path string, o *Options) (*Handle, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	files.Lock()
	defer files.Unlock()
	f := files.open[path]
	if f == nil {
		if f, err = openFile(path, o); err != nil {
			return nil, fmt.Errorf("bolt: %w", err)
		}
		if files.open == nil {
			files.open = make(map[string]*file)
		}
		files.open[path] = f
	}
	f.refs++
	return &Handle{f: f, done: make(chan struct{}), open: make(map[*Tx]bool), sessions: make(map[*session]bool)}, nil
}

func openFile(path string, o *Options) (*file, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 5 * time.Second, NoSync: o != nil && o.NoSync})
	if err != nil {
		return nil, err
	}
	f := &file{
		path: path, db: db, turn: make(chan struct{}, 1),
		until: make(map[int64]time.Time), settling: make(map[int64]bool), listeners: make(map[*func(int64)]bool),
	}
	// The fences of application locks grow from one life of the file to the next.
	err = db.Update(func(b *bbolt.Tx) error {
		lives, err := b.CreateBucketIfNotExists([]byte("lives"))
		if err != nil {
			return err
		}
		n, err := lives.NextSequence()
		f.locks.init(int64(n) << 32)
		return err
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return f, nil
}

// Close implements [backend.Backend].
func (h *Handle) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	open, sessions := slices.Collect(maps.Keys(h.open)), slices.Collect(maps.Keys(h.sessions))
	h.mu.Unlock()
	close(h.done)
	for _, tx := range open {
		_ = tx.Rollback(context.Background())
	}
	for _, s := range sessions {
		h.f.locks.dismiss(s.party, backend.ErrClosed)
	}
	h.calls.Lock()
	defer h.calls.Unlock()

	files.Lock()
	defer files.Unlock()
	if h.f.refs--; h.f.refs > 0 {
		return nil
	}
	delete(files.open, h.f.path)
	return h.f.db.Close()
}

// Capabilities implements [backend.Backend].
func (h *Handle) Capabilities() backend.Capabilities {
	return backend.Capabilities{SingleWriter: true, Listener: h}
}

// enter begins a call of the handle; leave ends it.
func (h *Handle) enter(ctx context.Context) error {
	h.calls.RLock()
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	err := ctx.Err()
	if closed {
		err = backend.ErrClosed
	}
	if err != nil {
		h.calls.RUnlock()
	}
	return err
}

func (h *Handle) leave() { h.calls.RUnlock() }

// view reads what is committed.
func (h *Handle) view(ctx context.Context, do func(l *look) error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	return h.f.db.View(func(b *bbolt.Tx) error {
		l := &look{b: b, f: h.f}
		if err := h.admit(l); err != nil {
			return err
		}
		return simple(errors.Join(do(l), l.err))
	})
}

// update writes, in a separate transaction, when it is its turn.
func (h *Handle) update(ctx context.Context, do func(l *look) error) error {
	tx, err := h.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := tx.(*Tx).write(ctx, do); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// schemaVersion is that of the buckets that Migrate makes.
const schemaVersion = 1

// versions are the row of the bucket meta.
type versions struct{ Schema, MinProgram int }

// versions returns those of the file; the zero value if it is not migrated.
func (l *look) versions() (v versions) {
	if l.b.Bucket([]byte(meta)) != nil {
		v, _ = get(l, meta, key("versions"))
	}
	return v
}

func (v versions) check() error {
	switch {
	case v.Schema < 0:
		return backend.ErrUnknownSchema
	case v.Schema < schemaVersion:
		return backend.ErrNotMigrated
	case v.Schema > schemaVersion+1 || v.MinProgram > schemaVersion:
		return backend.ErrNewerSchema
	}
	return nil
}

// admit compares versions at the handle's first use, and later only looks whether there is a
// schema.
func (h *Handle) admit(l *look) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := l.versions()
	if h.admitted && v.Schema > 0 {
		return nil
	}
	err := v.check()
	h.admitted = err == nil
	return err
}

// Info implements [backend.Backend].
func (h *Handle) Info(ctx context.Context) (info backend.Info, err error) {
	if err := h.enter(ctx); err != nil {
		return info, err
	}
	defer h.leave()
	info = backend.Info{
		Engine: "bolt", Version: "unknown", Program: schemaVersion,
		Settings: map[string]string{"file": h.f.path, "nosync": fmt.Sprint(h.f.db.NoSync)},
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range build.Deps {
			if dep.Path == "go.etcd.io/bbolt" {
				info.Version = dep.Version
			}
		}
	}
	if h.f.db.NoSync {
		info.Warnings = append(info.Warnings, backend.Warning{
			Code: backend.WarnDurability, Text: "commits do not wait for the disk", Hint: "open the file without NoSync",
		})
	}
	err = h.f.db.View(func(b *bbolt.Tx) error {
		v := (&look{b: b, f: h.f}).versions()
		info.Schema, info.MinProgram = v.Schema, v.MinProgram
		return nil
	})
	return info, err
}

// Check implements [backend.Backend].
func (h *Handle) Check(ctx context.Context) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	return h.f.db.View(func(b *bbolt.Tx) error { return (&look{b: b, f: h.f}).versions().check() })
}

// Migrate implements [backend.Backend].
func (h *Handle) Migrate(ctx context.Context) error {
	return h.alone(ctx, func(l *look) error {
		if v := l.versions(); v.Schema != 0 {
			return v.check()
		}
		for _, name := range buckets {
			if _, err := l.b.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		put(l, meta, key("versions"), versions{Schema: schemaVersion})
		return l.err
	})
}

// Uninstall implements [backend.Backend].
func (h *Handle) Uninstall(ctx context.Context) error {
	return h.alone(ctx, func(l *look) error {
		h.f.mu.Lock()
		clear(h.f.until) // fences begin again
		h.f.mu.Unlock()
		for _, name := range buckets {
			if l.b.Bucket([]byte(name)) == nil {
				continue
			}
			if err := l.b.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// alone writes whatever the schema is.
func (h *Handle) alone(ctx context.Context, do func(l *look) error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	if err := h.f.take(ctx, h.done); err != nil {
		return err
	}
	defer h.f.give()
	return h.f.db.Update(func(b *bbolt.Tx) error { return do(&look{b: b, f: h.f}) })
}

// take waits for the turn to write.
func (f *file) take(ctx context.Context, done <-chan struct{}) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return backend.ErrClosed
	}
}

func (f *file) give() { <-f.turn }

// Listen implements [backend.Listener]: all handles on the file are in this process.
func (h *Handle) Listen(ctx context.Context, wake func(queue int64)) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	h.leave()
	h.f.mu.Lock()
	h.f.listeners[&wake] = true
	wake(0) // a receiver may have looked before, and a message come since
	h.f.mu.Unlock()
	<-ctx.Done()
	h.f.mu.Lock()
	delete(h.f.listeners, &wake)
	h.f.mu.Unlock()
	return ctx.Err()
}

// Notify implements [backend.Listener].
func (h *Handle) Notify(ctx context.Context, queues []int64) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	for wake := range h.f.listeners {
		for _, q := range queues {
			(*wake)(q)
		}
	}
	return nil
}
