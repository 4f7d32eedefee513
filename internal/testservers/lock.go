package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Locks are flocks on files of the cache folder. The system frees them when
// their process dies, however it dies, so that no count can go wrong.
//
// Each instance has two files. A process that looks at the server in order to start
// or stop it holds setup.lock exclusively. A process that uses the server holds
// use.lock in shared mode for as long; taking use.lock exclusively is the
// proof that no process uses it.

// errLocked says that another holds a conflicting lock.
var errLocked = errors.New("locked by another process")

// tryLock takes a lock at once or returns errLocked. Closing the file frees it.
// Every call opens the file again, so the locks of one process conflict as
// those of two do.
func tryLock(path string, exclusive bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f, exclusive); err != nil {
		f.Close()
		if errors.Is(err, errLocked) || errors.Is(err, errors.ErrUnsupported) {
			return nil, err
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// lock waits for an exclusive lock. It asks again and again, because a blocked
// flock could not be interrupted.
func lock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := tryLock(path, true)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// sleep waits, but not longer than the context lives.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
