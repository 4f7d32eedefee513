package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// disk is a small file system of this run's own.
type disk struct{ folder string }

// mount makes one in an empty folder. It takes root, and what a container may not do.
func mount(folder, size string) (*disk, error) {
	cmd := exec.Command("mount", "-t", "tmpfs", "-o", "mode=755,size="+size, "parley-faults", folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mount: %w: %s", err, out)
	}
	return &disk{folder}, nil
}

// unmount waits for a server that was killed to let go of its files.
func (d *disk) unmount() (err error) {
	for end := time.Now().Add(10 * time.Second); d != nil && time.Now().Before(end); {
		var out []byte
		if out, err = exec.Command("umount", d.folder).CombinedOutput(); err == nil {
			break
		}
		err = fmt.Errorf("umount: %w: %s", err, out)
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

// fill takes what is free, and keeps taking it until free is called: some of it comes
// back when the server removes files.
func (d *disk) fill(ctx context.Context) (free func() error, err error) {
	path := filepath.Join(d.folder, "filler")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		zeros := make([]byte, 1<<16)
		for ctx.Err() == nil {
			if _, err := f.Write(zeros); errors.Is(err, syscall.ENOSPC) {
				time.Sleep(time.Millisecond)
			} else if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() error {
		stop()
		return errors.Join(<-done, f.Close(), os.Remove(path))
	}, nil
}

// fillDisk leaves the database without room for two seconds. A server that cannot go
// on has ended by itself, and is started again.
func (s *suite) fillDisk(ctx context.Context) error {
	free, err := s.disk.fill(ctx)
	if err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	if err := free(); err != nil || s.own == nil {
		return err
	}
	time.Sleep(500 * time.Millisecond)
	if s.answers() {
		return nil
	}
	_, err = s.own.do("revive")
	return err
}
